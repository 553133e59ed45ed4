"""Rows of published tables as several verbs choose them: by group, cluster and time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.options import CommandError, UsageError
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from rebalance_audit.domain.tables import Table

_SPANS: Mapping[str, tuple[str, str]] = {
    "bronze.record": ("timestamp_ms", "timestamp_ms"),
    "bronze.source": ("from_at_ms", "to_at_ms"),
    "silver.group_event": ("at_ms", "at_ms"),
    "silver.commit_mark": ("first_at_ms", "last_at_ms"),
    "silver.undecoded": ("at_ms", "at_ms"),
    "silver.connect_task": ("from_ms", "coalesce(to_ms, 9223372036854775807)"),
    "silver.contradiction": ("at_ms", "at_ms"),
    "silver.finding": ("first_seen_at_ms", "last_seen_at_ms"),
    "gold.reassignment": ("started_at_ms", "coalesce(ended_at_ms, 9223372036854775807)"),
    "gold.reassignment_step": ("at_ms", "at_ms"),
    "gold.leader_election": ("at_ms", "at_ms"),
    "gold.standstill": ("from_ms", "coalesce(to_ms, 9223372036854775807)"),
    "gold.connect_task": ("from_ms", "coalesce(to_ms, 9223372036854775807)"),
    "gold.finding": ("first_seen_at_ms", "last_seen_at_ms"),
    "gold.group": ("first_seen_at_ms", "last_rebalance_at_ms"),
    "gold.coverage": ("from_at_ms", "to_at_ms"),
    "gold.incident": ("first_at_ms", "CASE status WHEN 'open' THEN 9223372036854775807 ELSE last_at_ms END"),
    "gold.mark": ("at_ms", "at_ms"),
}
"""Where a row begins and ends, for tables that know it; those of rebalances are below."""
_REBALANCES = frozenset({"silver.measured_rebalance", "gold.rebalance"})
_OF_A_REBALANCE = frozenset({"gold.rebalance_member", "gold.movement"})


def published(opened: Any) -> Any:
    """The warehouse, if something is published in it. An empty answer must not look like no answer."""
    if not opened.published():
        raise CommandError(
            f"Nothing is published at {opened.location} yet; run `rebalance-audit run -w {opened.location}`."
        )
    return opened


def clusters_of(opened: Any) -> list[str]:
    sql = "SELECT cluster_id FROM gold.group UNION SELECT cluster_id FROM gold.reassignment ORDER BY 1"
    return [str(c) for c in opened.query(sql).column(0).to_pylist()]


def refuse_unknown_cluster(opened: Any, cluster_id: str | None) -> None:
    """Raises UsageError with the clusters there are: no answer about a misspelt one would look like good news."""
    if cluster_id is not None and cluster_id not in (known := clusters_of(opened)):
        there = f"there are {', '.join(visible(c) for c in known)}" if known else "there is none yet"
        raise UsageError(f"There is no cluster {cluster_id!r} at {opened.location}; {there}.")


def known_table(name: str) -> Table:
    from difflib import get_close_matches

    from rebalance_audit.domain import tables

    if name in tables.BY_NAME:
        return tables.BY_NAME[name]
    for layer in ("gold", "silver", "bronze"):
        if f"{layer}.{name}" in tables.BY_NAME:
            return tables.BY_NAME[f"{layer}.{name}"]
    short = {full.partition(".")[2]: full for full in tables.BY_NAME}
    near = [short[each] for each in get_close_matches(name.partition(".")[2] or name, short, 3)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"tables are {', '.join(tables.BY_NAME)}."
    raise UsageError(f"There is no table {name!r}; {hint}")


def selection(
    table: Table,
    *,
    group: str | None = None,
    cluster_id: str | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
) -> tuple[str, list[Any]]:
    """SQL and its parameters: rows that overlap [from, to), in the order of the table's key."""
    columns = {column.name for column in table.columns}
    where: list[str] = []
    params: list[Any] = []
    if cluster_id is not None:
        if "cluster_id" not in columns:
            raise UsageError(f"{table.name} has no cluster; leave --cluster-id out.")
        where.append("cluster_id = ?")
        params.append(cluster_id)
    if group is not None:
        if "group_id" in columns:
            where.append("group_id = ?")
        elif table.name.endswith(".finding"):
            where.append("subject_type = 'group' AND subject = ?")
        elif "group_ids" in columns:
            where.append("list_contains(group_ids, ?)")
        elif table.name == "gold.mark":
            where.append("(scope = ? OR ? GLOB scope)")
            params.append(group)
        else:
            raise UsageError(f"{table.name} is not about groups; leave -g out.")
        params.append(group)
    if from_ms is not None or to_ms is not None:
        first, last = _span(table.name)
        if not first:
            raise UsageError(f"{table.name} has no time; leave --from and --to out.")
        bounds = [f"{last} >= ?"] * (from_ms is not None) + [f"{first} < ?"] * (to_ms is not None)
        params += [at_ms for at_ms in (from_ms, to_ms) if at_ms is not None]
        if table.name in _OF_A_REBALANCE:
            inside = f"SELECT cluster_id, rebalance_id FROM gold.rebalance WHERE {' AND '.join(bounds)}"
            where.append(f"(cluster_id, rebalance_id) IN ({inside})")
        else:
            where += bounds
    listed = ", ".join(f'"{column.name}"' for column in table.columns)
    order = ", ".join(f'"{name}"' for name in table.key)
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"SELECT {listed} FROM {table.name}{condition} ORDER BY {order}", params


def _span(table_name: str) -> tuple[str, str]:
    """SQL for where a row begins and ends; empty for tables without a time."""
    from rebalance_audit.domain.numbers import HAPPENED_AT

    if table_name in _REBALANCES | _OF_A_REBALANCE:
        return HAPPENED_AT, HAPPENED_AT
    return _SPANS.get(table_name, ("", ""))
