"""detect: silver.measured_rebalance, .connect_task, .contradiction, .group_event, .undecoded, .reassignment_finding,
bronze -> silver.judged_era, silver.finding.

Rows in:  the measured history of each group with anything new, or of which time alone may change what was found: all of
          it, or of a long one the eras from the news on. Where a fault is over and no more: what was found.
Rows out: one per finding, in place of that group's findings before; one per era that has ended.
Law:      a finding names evidence; the same input gives the same finding id; time is the evidence's end, not now.

    three measured rebalances of orders                        silver.finding
    7, 09:00: the session of b expired                    ->   RB007 about orders, warning, with the evidence of 7
    8, 09:01: b joined
    9, 09:30: b left                                           the same RB007, resolved: not seen again for 10 min
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from rebalance_audit.domain import tables
from rebalance_audit.domain.detect import (
    ASKED_OF_MEMBERS,
    ASKED_OF_MOVEMENTS,
    ClockReading,
    ClockStep,
    ContradictionCount,
    CopyConflict,
    CoverageGap,
    UndecodedCount,
    clock_findings,
    clock_step_findings,
    contradiction_findings,
    copy_conflict_findings,
    coverage_findings,
    detect_group,
    is_calm,
    judged_eras,
    source_of,
    undecoded_findings,
)
from rebalance_audit.domain.detect.due import longest_hold_ms
from rebalance_audit.domain.detect.eras import in_era
from rebalance_audit.domain.incidents.around import NOTHING_NEW
from rebalance_audit.domain.incidents.era_ends import storm_at_end
from rebalance_audit.domain.metadata import METADATA_TOPIC
from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance, record_ref, to_row
from rebalance_audit.warehouse.arrow_tables import distinct, rows_to_table
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import files_from
from spark_jobs.clock_steps import with_steps
from spark_jobs.coverage import ledger
from spark_jobs.due_groups import CALM_ROWS, Calm, due_places, with_ends
from spark_jobs.eras import EraStart, era_row, next_starts, starts, with_eras
from spark_jobs.group_evidence import node_readings, seen_until_ms
from spark_jobs.group_rows import GroupReader, Place, places_table, rows_with
from spark_jobs.histories import GroupFold, ObjectsByTable, histories
from spark_jobs.incidents.rows import OF_MOVEMENTS
from spark_jobs.kept_folds import folded
from spark_jobs.loud import LEFT_AT_MOST, Left, as_noted, leave, left_before, loud_ids
from spark_jobs.plan import DETECT
from spark_jobs.stages.stage import Batch, Run, added_files, nothing_new

NAME, INPUTS, (ERAS, OUTPUT) = DETECT.name, DETECT.reads, DETECT.writes
REBALANCES, TASKS = "silver.measured_rebalance", "silver.connect_task"
REASSIGNMENTS, CONTRADICTIONS = "silver.reassignment_finding", "silver.contradiction"
_KINDS = {REBALANCES: Rebalance, TASKS: ConnectTask}
EVENTS = "silver.group_event"
GROUP = ["cluster_id", "group_id"]


def run(context: Run) -> bool:
    noted = context.warehouse.recall(NAME)
    left = left_before(context.warehouse, noted, context.warehouse.files(REBALANCES))
    context.has_left |= context.may_wait and bool(left)
    batch = context.next_batch(NAME, INPUTS, (ERAS, OUTPUT))
    if batch is None:
        if context.may_wait or not left:
            return False
        batch = nothing_new(context.warehouse, NAME, INPUTS)
    seen = seen_until_ms(context.warehouse)
    about_evidence = [to_row(finding) | {"group_id": None} for finding in _evidence_findings(context, batch, seen)]
    about_evidence += context.warehouse.read(REASSIGNMENTS, version=batch.until[REASSIGNMENTS]).to_pylist()
    changed = context.warehouse.changed_keys(
        REASSIGNMENTS, ["cluster_id"], batch.since[REASSIGNMENTS], batch.until[REASSIGNMENTS]
    )
    calm = Calm.noted(noted, batch, _limits_text(context)) if context.awaited is None else Calm()
    groups, over = _groups(context, batch, seen, calm)
    over -= left.keys()
    groups, starting, still_left = _judged(context, batch, groups, left)
    early = {place: 0 for place, start in starting.items() if start.is_early}
    if early or any(at < left.get(place, NOTHING_NEW) for place, at in still_left.items()):
        # Before the commits, which take the news of these groups as worked on.
        context.warehouse.remember(NAME, {**noted, "left": as_noted(left | still_left | early)})
    news = {*changed.column("cluster_id").to_pylist(), *(row["cluster_id"] for row in about_evidence)}
    clusters = pa.array(sorted({*seen, *news}), pa.string())
    without_group = pa.table({"cluster_id": clusters, "group_id": pa.nulls(len(clusters), pa.string())})
    keys = pa.concat_tables([groups, places_table(over), without_group])
    known = [rows_to_table(OUTPUT, about_evidence), *with_ends(context, over, seen)]
    engine = context.engine_for([file for name in (REBALANCES, TASKS) for file in added_files(context, name, batch)])
    with context.staging_folder() as folder, context.staged(OUTPUT, pa.concat_tables(known)) as files:
        found: dict[str, list[str]] = defaultdict(list)
        judged, begins = groups, starting
        while judged.num_rows:  # of a long history some eras after the others, so that memory does not follow it
            reader = _histories_of(context, batch, judged, begins)
            some = histories(engine, reader, _KINDS, _detector(context, seen, begins, calm), folder)
            for table, of_table in some.items():
                found[table] += of_table
            begins = next_starts(context, some.get(ERAS, []), begins)
            judged = places_table(begins)
        files += found[OUTPUT]
        if groups.num_rows and (found[ERAS] or context.warehouse.files(ERAS)):
            of_groups = with_eras(groups, starting)
            context.replace(ERAS, found[ERAS], of_groups, batch.batch_id, batch.transaction, since="era")
        context.replace(OUTPUT, files, with_eras(keys, starting), batch.batch_id, batch.transaction, since="era")
    # After the commit: if this is lost, more groups are looked at again.
    if context.awaited is None:
        noted = {"seen_until_ms": seen, "limits": _limits_text(context), **calm.as_note(batch, seen)}
    if context.awaited is None or still_left != left:
        context.warehouse.remember(NAME, {**noted, "left": as_noted(still_left)})
    return True


def _judged(context: Run, batch: Batch, groups: pa.Table, left: Left) -> tuple[pa.Table, dict[Place, EraStart], Left]:
    """The groups to judge in this run, where long ones begin, and loud ones that are left to a later run, each with the
    place from which on it is not judged yet."""
    still_left: Left = {}
    loud = loud_ids(context.warehouse.files(REBALANCES, batch.until[REBALANCES])) if context.may_wait else ()
    judged = set(left)
    judged.update(zip(*(groups[name].to_pylist() for name in GROUP), strict=True))
    starting = starts(context, batch, judged, left, is_all=context.again)
    for place in judged:
        if place[1] not in loud:
            continue
        start = starting.get(place)
        if start is not None and start.last_place - start.first_news >= LEFT_AT_MOST:
            context.judged_loud.add(place)
            continue
        starting.pop(place, None)
        leave(context, still_left, place, 0 if start is None else start.first_news)
    return places_table(judged - still_left.keys()), starting, still_left


def _groups(context: Run, batch: Batch, seen: Mapping[str, int], calm: Calm) -> tuple[pa.Table, set[Place]]:
    """Groups with new rows, and groups about which time alone may change the answer. Then other groups, in which a
    fault is over by now: their histories need not be read for that."""
    warehouse = context.warehouse
    parts = [warehouse.changed_keys(name, GROUP, batch.since[name], batch.until[name]) for name in (REBALANCES, TASKS)]
    over: set[Place] = set()
    if context.awaited is None:  # else commits that wait may show that what seems to last is over
        parts.append(rows_with(warehouse, REBALANCES, GROUP, {"outcome": ["open"]}, batch.until[REBALANCES]))
        due, over = due_places(context, batch, seen, _limits_text(context), calm)
        parts.append(places_table(due))
    groups = distinct(pa.concat_tables(parts), GROUP).sort_by([(c, "ascending") for c in GROUP])
    return groups, over.difference(zip(*(groups[name].to_pylist() for name in GROUP), strict=True))


def _limits_text(context: Run) -> str:
    """The limits in force, as the note of a run has them."""
    return repr(context.limits)


def _histories_of(context: Run, batch: Batch, groups: pa.Table, starting: Mapping[Place, EraStart]) -> GroupReader:
    return GroupReader(
        files={name: context.warehouse.files(name, batch.until[name]) for name in (REBALANCES, TASKS)},
        columns={
            REBALANCES: [c.name for c in tables.SILVER_MEASURED.columns],
            TASKS: [c.name for c in tables.SILVER_CONNECT_TASK.columns],
        },
        groups=groups,
        fields={"members": ASKED_OF_MEMBERS, "movements": ASKED_OF_MOVEMENTS | set(OF_MOVEMENTS)},
        packed=("movements",),
        floors={place: start.first_place for place, start in starting.items()},
        ceilings={place: until for place, start in starting.items() if (until := start.until_place) is not None},
    )


def _detector(context: Run, seen: dict[str, int], starting: Mapping[Place, EraStart], calm: Calm) -> GroupFold:
    """What adds to `calm` in this process; tasks of Spark have a copy of it that nobody asks."""
    limits, awaited = context.limits, context.awaited
    before: dict[str, int] = {} if awaited is None else context.warehouse.recall(NAME).get("seen_until_ms", {})

    def detect(place: Place, known: ObjectsByTable) -> Iterator[tuple[str, dict[str, Any]]]:
        cluster_id, group_id = place
        of_group = limits(cluster_id, group_id)
        intervals: list[ConnectTask] = sorted(
            known[TASKS], key=lambda t: (t.connector, t.task if t.task is not None else -1, t.from_ms, t.state)
        )
        is_whole = awaited is None or place in awaited
        end_ms = seen.get(cluster_id) if is_whole else before.get(cluster_id)  # the commits since then wait
        if (start := starting.get(place)) is None:
            if is_whole and len(known[REBALANCES]) <= CALM_ROWS and is_calm(known[REBALANCES], intervals, of_group):
                calm.add(place, seen.get(cluster_id, 0) + longest_hold_ms(limits.overrides))
            for finding in detect_group(known[REBALANCES], intervals, of_group, seen_until_ms=end_ms):
                yield OUTPUT, to_row(finding) | {"group_id": group_id}
            return
        storm = start.storm
        for judged in judged_eras(
            known[REBALANCES],
            of_group,
            seen_until_ms=end_ms,
            first_place=start.first_place,
            carried=start.carried,
            more_follow=start.until_place is not None,
        ):
            for finding in judged.findings:
                yield OUTPUT, to_row(finding) | {"group_id": group_id, "era": judged.number}
            if not judged.is_last:
                era = in_era(known[REBALANCES], judged.number, start.first_place)
                storm = storm_at_end(era, judged, of_group, storm)
                yield ERAS, era_row(place, of_group, judged, era, storm)
                storm = storm if storm is None else replace(storm, rebalance_ids=[])  # each era keeps its own

    return detect


# ---- about the evidence itself


def _evidence_findings(context: Run, batch: Batch, seen: dict[str, int]) -> Sequence[Finding]:
    """TR001 to TR005 of all clusters; always all of them, since they are few and cheap."""
    contradictions = _contradictions(context, batch)
    undecoded, conflicts = _undecoded(context, batch), _conflicts(context, batch)
    gaps = [
        CoverageGap(**{name: row[name] for name in CoverageGap.__slots__})
        for row in ledger(context.warehouse, batch.until["bronze.source"])
        if row["is_gap"]
    ]
    found = [
        *copy_conflict_findings(conflicts),
        *clock_findings(_clocks(context, batch, seen)),
        *clock_step_findings(_clock_steps(context, batch)),
    ]
    by_cluster: dict[str, tuple[list[ContradictionCount], list[UndecodedCount], list[CoverageGap]]]
    by_cluster = defaultdict(lambda: ([], [], []))
    for contradiction in contradictions:
        by_cluster[contradiction.cluster_id][0].append(contradiction)
    for count in undecoded:
        by_cluster[count.cluster_id][1].append(count)
    for gap in gaps:
        by_cluster[gap.cluster_id][2].append(gap)
    for cluster_id, (contradicted, refused, missing) in sorted(by_cluster.items()):
        end_ms = seen.get(cluster_id, 0)
        found += contradiction_findings(contradicted, end_ms)
        found += undecoded_findings(refused, end_ms)
        found += coverage_findings(missing, end_ms)
    return found


def _contradictions(context: Run, batch: Batch) -> list[ContradictionCount]:
    rows = context.warehouse.read(CONTRADICTIONS, version=batch.until[CONTRADICTIONS])
    if not rows.num_rows:
        return []
    with cursor() as db:
        db.register("contradiction", rows)
        counted = db.execute(
            """
            SELECT cluster_id, group_id, starts_with(ref, 'log:') is_line, count(*) "count",
                   arg_min(detail, (coalesce(at_ms, 0), ref)) first_detail,
                   arg_min(ref, (coalesce(at_ms, 0), ref)) first_ref, arg_max(ref, (coalesce(at_ms, 0), ref)) last_ref,
                   min(at_ms) first_at_ms, max(at_ms) last_at_ms
            FROM contradiction GROUP BY ALL
            """
        ).to_arrow_table()
    return [ContradictionCount(**row) for row in counted.to_pylist()]


def _clocks(context: Run, batch: Batch, seen: dict[str, int]) -> list[ClockReading]:
    return [
        ClockReading(
            cluster_id=reading.cluster_id,
            node=reading.node,
            zone=reading.zone,
            clock=reading.clock,
            first_ref=reading.first_ref,
            last_at_ms=seen.get(reading.cluster_id, 0),
        )
        for reading in node_readings(context.warehouse, batch.until[EVENTS], batch.until["bronze.source"])
        if reading.first_ref is not None
    ]


def _clock_steps(context: Run, batch: Batch) -> list[ClockStep]:
    """The largest step back of each partition."""
    known = folded(context.warehouse, "clock-steps", EVENTS, batch.until[EVENTS], with_steps, value_version=1)
    return [ClockStep(**step) for step in (known or {}).get("steps", [])]


def _undecoded(context: Run, batch: Batch) -> list[UndecodedCount]:
    rows = context.warehouse.read(
        "silver.undecoded", ["cluster_id", "ref", "reason", "at_ms"], version=batch.until["silver.undecoded"]
    )
    if not rows.num_rows:
        return []
    sources = pa.array([source_of(ref) for ref in rows.column("ref").to_pylist()], pa.string())
    with cursor() as db:
        db.register("refused", rows.append_column("source", sources))
        counted = db.execute(
            """
            SELECT cluster_id, source, reason, count(*) "count",
                   arg_min(ref, (coalesce(at_ms, 0), ref)) first_ref, arg_max(ref, (coalesce(at_ms, 0), ref)) last_ref,
                   min(at_ms) first_at_ms, max(at_ms) last_at_ms
            FROM refused GROUP BY ALL
            """
        ).to_arrow_table()
    return [UndecodedCount(**row) for row in counted.to_pylist()]


def _conflicts(context: Run, batch: Batch) -> list[CopyConflict]:
    columns = ["cluster_id", "topic", "partition", "offset", "timestamp_ms"]
    # Each node has a copy of the metadata log; `spark_jobs.stages.reassign` looks where they disagree.
    where = f"copy > 0 AND NOT starts_with(topic, '{METADATA_TOPIC}')"
    files = context.warehouse.files("bronze.record", batch.until["bronze.record"])
    rows = context.warehouse.read_files("bronze.record", files_from(files, "copy", 1), columns, where)
    by_place: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for row in rows.to_pylist():
        place = (row["cluster_id"], row["topic"], row["partition"])
        by_place.setdefault(place, []).append((row["offset"], row["timestamp_ms"]))
    return [
        CopyConflict(
            cluster_id=cluster_id,
            topic=topic,
            partition=partition,
            count=len({offset for offset, _ in copies}),
            first_ref=record_ref(topic, partition, min(copies)[0]),
            last_ref=record_ref(topic, partition, max(copies)[0]),
            first_at_ms=min(at_ms for _, at_ms in copies),
            last_at_ms=max(at_ms for _, at_ms in copies),
        )
        for (cluster_id, topic, partition), copies in sorted(by_place.items())
    ]
