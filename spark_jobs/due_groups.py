"""Groups that `detect` looks at because time has passed, although no evidence about them came.

a state began that may be a finding by now     the group is judged, unless it was calm when it was judged last
a state lasts                                  it is judged: its length may be shown otherwise
a fault was not seen for long enough           what was found is resolved; the group's history is not read for that
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.detect.due import (
    FIRST_STEP_MS,
    longest_hold_ms,
    may_begin,
    may_differ,
    only_ends,
    quiet_ms,
)
from rebalance_audit.domain.kinds import FindingStatus
from rebalance_audit.warehouse.row_groups import row_groups_of
from spark_jobs.group_rows import GROUP, Place, files_since, places_table, rows_of_groups, rows_with
from spark_jobs.instants import times_of
from spark_jobs.plan import DETECT
from spark_jobs.stages.stage import Batch, Run

REBALANCES, TASKS = "silver.measured_rebalance", "silver.connect_task"
*_, FINDINGS = DETECT.writes
CALM_ROWS = 250
"""Of a longer history it is not asked whether it is calm: that takes as long as a rule."""
_NOTED_AT_MOST = 2_000


@dataclass(slots=True)
class Calm:
    """Groups in which time alone begins nothing: nothing lasted in them, as they were judged last, that is a finding
    once it has lasted for a while. Each until an instant after which nothing may begin anyway."""

    by_place: dict[Place, int] = field(default_factory=dict)

    @classmethod
    def noted(cls, note: Mapping[str, Any], batch: Batch, limits: str) -> Calm:
        """Those of the note of the last run, if that run judged all that came before this batch, by these limits."""
        if note.get("limits") != limits or note.get("judged") != _versions(batch.since):
            return cls()
        return cls({(cluster_id, group_id): until_ms for cluster_id, group_id, until_ms in note["calm"]})

    def add(self, place: Place, until_ms: int) -> None:
        self.by_place[place] = until_ms

    def as_note(self, batch: Batch, seen: Mapping[str, int]) -> dict[str, Any]:
        """The latest of them, as a part of the note of a run that judged this batch."""
        lasting = [(until_ms, place) for place, until_ms in self.by_place.items() if until_ms >= seen.get(place[0], 0)]
        groups = [[*place, until_ms] for until_ms, place in sorted(lasting)[-_NOTED_AT_MOST:]]
        return {"judged": _versions(batch.until), "calm": groups}


def _versions(of_inputs: Mapping[str, int]) -> list[int]:
    return [of_inputs[REBALANCES], of_inputs[TASKS]]


def due_places(
    context: Run, batch: Batch, seen: Mapping[str, int], limits_text: str, calm: Calm
) -> tuple[set[Place], set[Place]]:
    """Groups whose findings may differ from those of the last run, although no evidence came; and groups in which a
    fault is over by now."""
    warehouse, limits = context.warehouse, context.limits
    noted = warehouse.recall(DETECT.name)
    # With other limits any finding may change.
    before: dict[str, int] = noted.get("seen_until_ms", {}) if noted.get("limits") == limits_text else {}
    files = warehouse.files(TASKS, batch.until[TASKS])
    with_lasting = list(dict.fromkeys(group.file for group in row_groups_of(files, "to_ms", with_null=True)))
    tasks = warehouse.read_files(TASKS, with_lasting, [*GROUP.names, "state"], "to_ms IS NULL").to_pylist()
    connect = {(row["cluster_id"], row["group_id"]) for row in tasks}
    found = {(row["cluster_id"], row["group_id"]) for row in tasks if row["state"] != "RUNNING"}
    over: set[Place] = set()
    columns = [*GROUP.names, "rule_id", "first_seen_at_ms", "last_seen_at_ms"]
    opened = rows_with(warehouse, FINDINGS, columns, {"status": ["open"]})
    opened = opened.filter(pc.is_valid(opened["group_id"]))
    for cluster_id, group_id, rule_id, first_ms, last_ms in _tuples(opened):
        place, before_ms, now_ms = (cluster_id, group_id), before.get(cluster_id), seen.get(cluster_id, 0)
        if place in found:
            continue
        # Rules about Connect's tasks count from instants that are in no finding.
        is_any = before_ms is None or (place in connect and now_ms != before_ms)
        if not is_any and only_ends(rule_id):
            over |= {place} if now_ms - last_ms > quiet_ms(rule_id, limits(*place)) else set()
        elif is_any or may_differ(rule_id, first_ms, last_ms, before_ms or 0, now_ms, limits(*place)):
            found.add(place)
    return found | _begun(context, batch, before, seen, calm), over


def with_ends(context: Run, over: Set[Place], seen: Mapping[str, int]) -> Iterator[pa.Table]:
    """What was found of these groups, faults that are over by now as resolved."""
    if not over:
        return
    rows = rows_of_groups(context.warehouse, FINDINGS, None, places_table(over))
    asked = rows.select([*GROUP.names, "rule_id", "last_seen_at_ms", "status"])
    status = [
        FindingStatus.RESOLVED
        if only_ends(rule_id) and seen[place[0]] - last_ms > quiet_ms(rule_id, context.limits(*place))
        else status
        for *place, rule_id, last_ms, status in _tuples(asked)
    ]
    at = rows.schema.get_field_index("status")
    yield rows.set_column(at, rows.schema.field(at), pa.array(status, rows.schema.field(at).type))


def _begun(context: Run, batch: Batch, before: Mapping[str, int], seen: Mapping[str, int], calm: Calm) -> set[Place]:
    """Groups in which a state began that may be a finding by now."""
    limits = context.limits
    moved = {c: (before[c], now) for c, now in seen.items() if c in before and now != before[c]}
    if not moved:
        return set()
    from_ms = min(before_ms for before_ms, _ in moved.values()) - longest_hold_ms(limits.overrides)
    times = times_of(files_since(context.warehouse.files(REBALANCES, batch.until[REBALANCES]), from_ms))
    times = times.filter(pc.greater_equal(times["at_ms"], from_ms))
    first_ms = times["first_at_ms"].to_numpy()
    found: set[Place] = set()
    for cluster_id, (before_ms, now_ms) in moved.items():
        # A length is shown in whole steps: of nearly all it is the same as before, and nothing begins.
        is_otherwise = (before_ms - first_ms) // FIRST_STEP_MS != (now_ms - first_ms) // FIRST_STEP_MS
        rows = times.filter(pc.and_(pa.array(is_otherwise), pc.equal(times["cluster_id"], cluster_id)))
        for group_id, begun_ms, at_ms in _tuples(rows.select(["group_id", "first_at_ms", "at_ms"])):
            place = (cluster_id, group_id)
            if place in found or place in calm.by_place:
                continue
            if may_begin(begun_ms, at_ms, before_ms, now_ms, limits(*place)):
                found.add(place)
    return found


def _tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in rows.schema.names), strict=True)
