"""A warehouse, and the part of it that a report is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from rebalance_audit.domain.numbers import HAPPENED_AT


class Queries(Protocol):
    """The part of a Warehouse a report needs."""

    def query(self, sql: str, params: Sequence[Any] = ()) -> Any: ...


class Asked:
    """The warehouse, and the conditions of what was asked for."""

    def __init__(self, warehouse: Queries, group_id: str | None, from_ms: int | None, to_ms: int | None) -> None:
        self._warehouse = warehouse
        self._params = {"group": group_id, "from": from_ms, "to": to_ms}

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """`{rebalances}`, `{incidents}`, `{findings}` and `{reassignments}` in the SQL stand for the conditions that
        pick what was asked for. A reassignment is of no group."""
        conditions = {
            "{rebalances}": (("group_id = ?", "group"), (f"{HAPPENED_AT} >= ?", "from"), (f"{HAPPENED_AT} < ?", "to")),
            "{incidents}": (
                ("list_contains(group_ids, ?)", "group"), ("(status = 'open' OR last_at_ms >= ?)", "from"),
                ("first_at_ms < ?", "to"),
            ),
            "{findings}": (
                ("subject = ?", "group"), ("(status = 'open' OR last_seen_at_ms >= ?)", "from"),
                ("first_seen_at_ms < ?", "to"),
            ),
            "{reassignments}": (
                ("? IS NULL", "group"), ("coalesce(ended_at_ms >= ?, true)", "from"), ("started_at_ms < ?", "to"),
            ),
        }  # fmt: skip
        asked: list[Any] = []
        for mark, parts in conditions.items():
            if mark in sql:
                used = [(text, self._params[name]) for text, name in parts if self._params[name] is not None]
                sql = sql.replace(mark, " AND ".join(text for text, _ in used) or "true")
                asked += [value for _, value in used]
        rows: list[dict[str, Any]] = self._warehouse.query(sql, (*asked, *params)).to_pylist()
        return rows
