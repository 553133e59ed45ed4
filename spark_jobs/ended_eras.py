"""What detect kept of eras that have ended (silver.judged_era), for stages that need not look at their rebalances."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.detect import LimitsOf, eras
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.publish.group_sums import GroupSums
from rebalance_audit.domain.publish.groups import READS
from rebalance_audit.warehouse.known_footers import known
from rebalance_audit.warehouse.row_groups import Least, greatest, row_groups_of
from rebalance_audit.warehouse.rows_in_files import columns_in
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.eras import ERAS, REBALANCES, judged_by
from spark_jobs.group_rows import GROUP, PLACE, Place, places_table, rows_of_groups
from spark_jobs.loud import left_before
from spark_jobs.plan import DETECT
from spark_jobs.structs import objects_in

_SUMMED_AT_MOST = 2
"""Of so many eras the sums are made from their rebalances: retention deletes within one, and may have left another."""

_FEW_ERAS = 16
"""Of so many groups and eras in a file it is noted how many rebalances they have there."""
_PLACES = pa.schema([*GROUP, (PLACE, pa.int64())])

EraRows = dict[Place, dict[int, dict[str, Any]]]
"""Rows of silver.judged_era by group and era."""


class SummedBefore(NamedTuple):
    """What is known of a group's rebalances before those that are looked at."""

    first_place: int
    """Of those that are looked at."""
    sums: Sequence[GroupSums]
    """In order."""


def ended_eras(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    limits: LimitsOf,
    groups: Collection[Place],
    columns: Sequence[str],
) -> EraRows:
    """These columns of the eras of these groups that have ended. Of a group that rules have not judged by just these
    rebalances there are none."""
    files = warehouse.files(REBALANCES, versions[REBALANCES])
    if not groups or all((most := greatest(file, (PLACE,))) is not None and not eras.era_of(most) for file in files):
        return {}
    *_, findings = DETECT.writes
    if warehouse.transaction_version(findings, f"{DETECT.name}:{REBALANCES}") != versions[REBALANCES]:
        return {}
    judged = set(groups) - left_before(warehouse, warehouse.recall(DETECT.name), files).keys()
    found: EraRows = {}
    listed = [*GROUP.names, "era", "judged_by", *columns]
    for row in rows_of_groups(warehouse, ERAS, listed, places_table(judged)).to_pylist():
        place = row["cluster_id"], row["group_id"]
        if row["judged_by"] == judged_by(limits(*place)):
            found.setdefault(place, {})[row["era"]] = row
    return found


def sums_before(warehouse: Warehouse, versions: Mapping[str, int], ended: EraRows) -> dict[Place, SummedBefore]:
    """The sums of all eras that have ended, of groups of which they are known. Of eras of which retention deleted some
    rebalances they are made anew."""
    found: dict[Place, SummedBefore] = {}
    for place, counts in _counts_by_era(warehouse.files(REBALANCES, versions[REBALANCES]), ended).items():
        last = max(ended[place])
        parts: list[GroupSums] = []
        lacking = 0
        for era in sorted(era for era in counts if era <= last):
            row = ended[place].get(era)
            sums = None if row is None or row["sums"] is None else GroupSums.of_text(row["sums"])
            if sums is None or sums.row_count != counts[era]:
                lacking += 1
                sums = _summed(warehouse, versions[REBALANCES], place, era) if lacking <= _SUMMED_AT_MOST else None
            if sums is not None:
                parts.append(sums)
        if lacking <= _SUMMED_AT_MOST and max(counts) > last:
            found[place] = SummedBefore((last + 1) * eras.ERA_REBALANCES, parts)
    return found


def _counts_by_era(files: Sequence[str], groups: Collection[Place]) -> dict[Place, dict[int, int]]:
    """How many rebalances of these groups there are in each era. A long history is not read whole for it each time."""
    found: dict[Place, dict[int, int]] = {}
    held = row_groups_of(files, "group_id", {group_id for _, group_id in groups}) if groups else ()
    for file in dict.fromkeys(group.file for group in held):
        noted = known(file, f"eras of {eras.ERA_REBALANCES}", partial(_if_few, file))
        for cluster_id, group_id, era, row_count in _eras_in(file) if noted is None else noted:
            if (cluster_id, group_id) in groups:
                of_group = found.setdefault((cluster_id, group_id), {})
                of_group[era] = of_group.get(era, 0) + row_count
    return found


def _if_few(file: str) -> list[tuple[str, str, int, int]] | None:
    found = _eras_in(file)
    return found if len(found) <= _FEW_ERAS else None


def _eras_in(file: str) -> list[tuple[str, str, int, int]]:
    """Cluster, group, era and the number of its rebalances in this file."""
    rows = columns_in(file, _PLACES)
    rows = rows.append_column("era", pa.array(eras.era_of(rows[PLACE].to_numpy())))
    counted = rows.group_by([*GROUP.names, "era"]).aggregate([(PLACE, "count")])
    named = (*GROUP.names, "era", f"{PLACE}_count")
    return list(zip(*(counted[name].to_pylist() for name in named), strict=True))


def _summed(warehouse: Warehouse, version: int, place: Place, era: int) -> GroupSums:
    first = era * eras.ERA_REBALANCES
    rows = rows_of_groups(
        warehouse, REBALANCES, [*READS, PLACE], places_table([place]),
        f"{PLACE} >= {first} AND {PLACE} < {first + eras.ERA_REBALANCES}", version,
        bound=Least(PLACE, "group_id", {place[1]: first}),
    )  # fmt: skip
    return GroupSums.of(objects_in(Rebalance, rows.take(pc.sort_indices(rows[PLACE]))))
