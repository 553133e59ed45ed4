"""Advice of findings and incidents, with what other tables say of it: replays in gold.whatif, incidents of brokers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import duckdb
import pyarrow as pa
from deltalake.exceptions import DeltaError

from rebalance_audit.domain.detect.client_advice import WEIGHS
from rebalance_audit.domain.explain.verdicts import SettingsVerdict, unreplayed, verdict, weighed
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.replay.settings import ADVISED_WITHOUT_ASKING
from rebalance_audit.warehouse.storage import WarehouseError
from rebalance_audit.warehouse.warehouse import Warehouse

_REPLAYS = """
SELECT cluster_id, group_id, settings, saved_seconds, saved_lower_seconds, saved_upper_seconds FROM gold.whatif
WHERE list_contains(?::VARCHAR[], group_id) AND (len(settings) = 0 OR list_has_any(settings, ?::VARCHAR[]))
ORDER BY cluster_id, group_id, place
"""
_OF_EXPIRED_MEMBERS = ("RB007", "RB009")
_BROKERS_ADVICE = """
SELECT cluster_id, unnest(finding_ids) AS finding_id, advice FROM gold.incident
WHERE kind = 'coordinator' AND list_contains(?::VARCHAR[], cluster_id)
"""


class Ask(Protocol):
    def __call__(self, sql: str, params: Sequence[Any], /) -> Iterable[dict[str, Any]]: ...


def advise(rows: Sequence[dict[str, Any]], ask: Ask) -> None:
    """Change the advice of these rows as everything that shows it does. `ask` reads the published tables."""
    _blame_brokers([row for row in rows if row.get("rule_id") in _OF_EXPIRED_MEMBERS], ask)
    weigh(rows, ask)


def _blame_brokers(expired: Sequence[dict[str, Any]], ask: Ask) -> None:
    """Members that expired through a broker have its incident's advice: theirs would send somebody to their hosts."""
    if not expired:
        return
    clusters = sorted({row["cluster_id"] for row in expired})
    found = {(r["cluster_id"], r["finding_id"]): r["advice"] for r in ask(_BROKERS_ADVICE, [clusters])}
    for row in expired:
        row["advice"] = found.get((row["cluster_id"], row["finding_id"]), row["advice"])


def weigh(rows: Iterable[dict[str, Any]], ask: Ask) -> None:
    """Change the advice of these rows of gold.finding or gold.incident where it is about a setting that is replayed for
    their one group: what its replay says, or that none is stored. `ask` reads the published tables."""
    groups_of = [(row, _groups(row)) for row in rows if WEIGHS in (row.get("advice") or "")]
    concerned = [(row, groups[0]) for row, groups in groups_of if len(groups) == 1]
    if not concerned:
        return
    said: dict[tuple[str, str], list[SettingsVerdict]] = defaultdict(list)
    without: set[tuple[str, str]] = set()
    for r in ask(_REPLAYS, [sorted({group for _, group in concerned}), sorted(ADVISED_WITHOUT_ASKING)]):
        place = r["cluster_id"], r["group_id"]
        found = verdict(r["settings"], r["saved_seconds"], r["saved_lower_seconds"], r["saved_upper_seconds"])
        if found is not None:
            said[place].append(found)
        elif not r["settings"]:
            without.add(place)
    for row, group in concerned:
        place = row["cluster_id"], group
        otherwise = unreplayed(group, predicts_nothing=place in without)
        row["advice"] = weighed(row["advice"], said.get(place, ()), otherwise)


def weigh_to_send(rows: Sequence[dict[str, Any]], opened: Warehouse) -> None:
    """`weigh` for what is sent: it does not wait for a table that cannot be read, the advice stays as it is stored."""
    before = [row.get("advice") for row in rows]
    try:
        weigh(rows, lambda sql, params: opened.query(sql, params).to_pylist())
    except (duckdb.Error, DeltaError, pa.ArrowException, OSError, WarehouseError):
        for row, advice in zip(rows, before, strict=True):
            row["advice"] = advice


def advised(incidents: Sequence[Incident], opened: Warehouse) -> list[Incident]:
    """The same incidents with advice as the app shows it."""
    rows: list[dict[str, Any]] = [
        {"cluster_id": i.cluster_id, "group_ids": i.group_ids, "advice": i.advice} for i in incidents
    ]
    weigh_to_send(rows, opened)
    return [replace(i, advice=row["advice"]) for i, row in zip(incidents, rows, strict=True)]


def _groups(row: Mapping[str, Any]) -> Sequence[str]:
    if "group_ids" in row:
        return row["group_ids"] or ()
    return [row["subject"]] if row["subject_type"] == "group" else []
