"""Storms that went on as eras ended, out of silver.judged_era: their incidents go on from there (decision 0113)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from rebalance_audit.domain.detect import LimitsOf, eras
from rebalance_audit.domain.incidents.storm_before import StormBefore
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.ended_eras import ended_eras
from spark_jobs.group_rows import Place, rows_with
from spark_jobs.incidents.rows import FINDINGS


class StormSoFar(NamedTuple):
    """A storm up to the end of an era."""

    storm: StormBefore
    place: int
    """Of the first rebalance after it."""


def storms_before(
    warehouse: Warehouse, versions: Mapping[str, int], limits: LimitsOf, news: Mapping[Place, int]
) -> dict[Place, StormSoFar]:
    """The storms that went on as the last era ended that is older than all news of the group; `news`: of each group the
    instant of its earliest changed rebalance."""
    found: dict[Place, StormSoFar] = {}
    ended = ended_eras(warehouse, versions, limits, news.keys(), ["storm", "storm_rebalance_ids"])
    going_on = {place: {era: row for era, row in rows.items() if row["storm"]} for place, rows in ended.items()}
    last_seen = _last_seen(warehouse, versions, going_on.keys())
    for place, by_era in going_on.items():
        for era in sorted(by_era, reverse=True):
            storm = StormBefore.of_text(by_era[era]["storm"], [])
            if not storm.until_ms < min(news[place], last_seen.get((*place, storm.finding_id), 0)):
                continue
            parts = [by_era[e]["storm_rebalance_ids"] if e in by_era else None for e in range(storm.first_era, era + 1)]
            listed = [part for part in parts if part is not None]
            if len(listed) == len(parts):
                storm.rebalance_ids.extend(rebalance_id for part in listed for rebalance_id in part)
                found[place] = StormSoFar(storm, (era + 1) * eras.ERA_REBALANCES)
                break
    return found


def _last_seen(
    warehouse: Warehouse, versions: Mapping[str, int], groups: Collection[Place]
) -> dict[tuple[str, str, str], int]:
    """When the storms of these groups were seen last, by group and finding."""
    columns = ["cluster_id", "group_id", "finding_id", "last_seen_at_ms"]
    wanted = {"group_id": {group_id for _, group_id in groups}, "rule_id": ["RB001"]}
    rows = rows_with(warehouse, FINDINGS, columns, wanted, versions[FINDINGS]).to_pylist() if groups else []
    return {(row["cluster_id"], row["group_id"], row["finding_id"]): row["last_seen_at_ms"] for row in rows}
