"""reconstruct: silver.group_event, silver.commit_mark -> silver.measured_rebalance, silver.connect_task,
silver.contradiction, silver.reopening, silver.checkpoint.

Rows in:  evidence of the groups about which anything is new: all of it, or that since the last checkpoint before the
          news.
Rows out: one per rebalance of those groups from there on, with its numbers (`spark_jobs.measuring`), in place of what
          was there; one per state interval of a Connect task; one per piece of evidence that was not believed.
Law:      any order of arrival and any cut into batches give the same rows: a checkpoint is the state of the one fold
          between two of its windows, and is used only where nothing new is older (decision 0012).

    evidence of the group orders (a and b are members)         silver.measured_rebalance
    @231 generation 7: a has t-0 and t-1, b has t-2       ->   7 completed: movements by what was before
    commit of t-2 @240, at 09:00:00.000
    @245 generation 8: a has t-0, t-1 and t-2             ->   8 completed: t-2 moved from b to a; the commit @240
                                                               marks its stop, the record @245 its resume
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.gather.clocks import NodeClock
from rebalance_audit.domain.gather.windows import (
    AROUND,
    WINDOW,
    Checkpoint,
    Piece,
    gathering,
    reconstruct_in_windows,
)
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.reconstruct import Contradiction
from rebalance_audit.warehouse.arrow_tables import arrow_schema, rows_to_table
from rebalance_audit.warehouse.row_groups import files_with_values
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.belonging import Belonging, homes_of_nameless
from spark_jobs.commits.shown import groups_shown_anew
from spark_jobs.engine import ArrowTask, Engine
from spark_jobs.group_evidence import Clocks, node_clocks, seen_until_ms, settings_of
from spark_jobs.group_rows import GROUP, INSTANTS, Place, literal, places_table
from spark_jobs.measuring import with_numbers
from spark_jobs.metadata_log import logged_topic_names
from spark_jobs.parcel_plan import ParcelPlan, Start, StoredEvidence, evidence_of, plan_of
from spark_jobs.parcels import groups_in, packing
from spark_jobs.plan import RECONSTRUCT
from spark_jobs.settled import (
    CHECKPOINTS,
    REOPENINGS,
    SettledPoints,
    begin_tables,
    checkpoint_of,
    checkpoint_row,
    digests_of_lines,
    placed_otherwise,
    settled_points,
    take_away_unreadable,
)
from spark_jobs.stages.stage import Batch, Run, has_changes, nothing_new
from spark_jobs.structs import struct_array
from spark_jobs.task_files import WRITTEN, Flags, TaskWriter, files_by_table

NAME, INPUTS, OUTPUTS = RECONSTRUCT.name, RECONSTRUCT.reads, RECONSTRUCT.writes
REBALANCES = "silver.measured_rebalance"
_WITHOUT_NUMBERS = "silver.rebalance"
"""Releases before decision 0123 kept rebalances in it until a stage of its own had measured them."""
_RECENT_MS = 25 * 3_600_000
"""What follows asks for the last hour, for the last day, and for what is going on with three hours before it."""
_ROWS_AT_ONCE = 500
_ARROW_BYTES_OF_A_BYTE = 4
"""Evidence as Arrow has it, for each byte of Parquet."""


def run(context: Run) -> bool:
    try:
        return _work_off(context)
    except Exception:
        if not take_away_unreadable(context.warehouse):
            raise
    return _work_off(context)


def _work_off(context: Run) -> bool:
    begin_tables(context.warehouse, NAME, INPUTS, OUTPUTS)
    batch = context.next_batch(NAME, INPUTS, OUTPUTS)
    is_left_unmeasured = _has_unmeasured(context.warehouse)
    if batch is None and is_left_unmeasured:
        batch = nothing_new(context.warehouse, NAME, INPUTS)
    if batch is not None:
        _fold_news(context, batch, is_all=is_left_unmeasured)
    if context.warehouse.exists(_WITHOUT_NUMBERS):
        context.warehouse.remove(_WITHOUT_NUMBERS)
    return batch is not None


def _has_unmeasured(warehouse: Warehouse) -> bool:
    """Whether an older release died before it had measured all that it had folded."""
    version = warehouse.version(_WITHOUT_NUMBERS)
    if version is None:
        return False
    measured = warehouse.transaction_version(REBALANCES, f"measure:{_WITHOUT_NUMBERS}")
    return measured is None or has_changes(warehouse, {_WITHOUT_NUMBERS: measured}, {_WITHOUT_NUMBERS: version})


def _fold_news(context: Run, batch: Batch, *, is_all: bool) -> None:
    """`is_all`: every group is folded, whether there is news of it or not."""
    events, sources = batch.until["silver.group_event"], batch.until["bronze.source"]
    clocks = node_clocks(context.warehouse, events, sources)
    homes = homes_of_nameless(context.warehouse, events)
    names = _topic_names(context, batch)
    line_digests = digests_of_lines(homes)
    # Evidence of these groups has another time, name or group now, however old it is.
    changed = _placed_anew(context, batch, clocks, homes) | _newly_named(context, batch, names)
    changed |= _all_groups(context) if is_all else set()
    changed |= placed_otherwise(line_digests, context.warehouse.recall(NAME).get("lines", {}))
    dirty = _dirty(context, batch, homes) | changed
    settled = settled_points(context, batch, dirty, changed, clocks)
    dirty -= settled.closed
    starts = {
        place: Start(point["read_from_ms"], frozenset(point["latest"])) for place, point in settled.points.items()
    }
    evidence = StoredEvidence(warehouse=context.warehouse, batch=batch, clocks=clocks, starts=starts)
    sizes = evidence.sizes(dirty) if dirty else {}
    engine = context.engine_of(sum(sizes.values()) // _ARROW_BYTES_OF_A_BYTE)
    plan = plan_of(evidence, sizes, homes, engine.tasks_at_once)
    _fold(context, batch, plan, names, settled, engine)
    # After the commits: if this is lost, some groups are only folded once more.
    notes = {"clocks": settings_of(clocks), "topics": _connect_topics(homes), "names": names, "lines": line_digests}
    context.warehouse.remember(NAME, notes)


TopicNames = dict[str, list[list[str]]]
"""(topic id, topic) by cluster, sorted; lists, since a note of the warehouse is JSON."""
NamesOfTask = dict[str, list[tuple[str, str]]]
"""The same, as a fold takes them."""
Points = Mapping[Place, Mapping[str, Any]]
"""The checkpoint that the fold of a group starts from."""


def _topic_names(context: Run, batch: Batch) -> TopicNames:
    """Topic names as any group's commits and the metadata log have them: records of KIP-848, share and streams groups
    name topics by id alone."""
    table = "silver.commit_mark"
    files = files_with_values(context.warehouse.files(table, batch.until[table]), "topic_id")
    columns, where = ["cluster_id", "topic_id", "topic"], "topic_id IS NOT NULL"
    marks = context.warehouse.read_files(table, files, columns, where, distinct=True)
    found: TopicNames = {}
    for row in marks.to_pylist():
        found.setdefault(row["cluster_id"], []).append([row["topic_id"], row["topic"]])
    for cluster_id, topic_id, topic in logged_topic_names(context.warehouse):
        if [topic_id, topic] not in found.setdefault(cluster_id, []):
            found[cluster_id].append([topic_id, topic])
    return {cluster_id: sorted(names) for cluster_id, names in sorted(found.items())}


def _newly_named(context: Run, batch: Batch, names: TopicNames) -> set[Place]:
    """Groups whose records name topics by id, if such an id has a name now that it had not before."""
    before = context.warehouse.recall(NAME).get("names", {})
    clusters = [cluster_id for cluster_id, known in names.items() if known != before.get(cluster_id, [])]
    if not clusters:
        return set()
    listed = ", ".join(map(literal, clusters))
    where = f"source_kind = 'record' AND kind <> 'GroupMetadata' AND cluster_id IN ({listed})"
    return _places(_events_with(context, batch, GROUP.names, where))


def _connect_topics(homes: Belonging) -> dict[str, dict[str, list[str]]]:
    """By cluster and route, the groups of each Connect topic."""
    return {
        cluster_id: {route: sorted(groups) for route, groups in sorted(routes.items()) if route.startswith("topic:")}
        for cluster_id, routes in sorted(homes.routes.items())
    }


def _dirty(context: Run, batch: Batch, homes: Belonging) -> set[Place]:
    """(cluster, group) of every group with new evidence."""
    warehouse = context.warehouse
    events = "silver.group_event"
    since, until = batch.since, batch.until
    named = warehouse.changed_keys(events, GROUP.names, since[events], until[events])
    is_named = pc.is_valid(named["group_id"])
    dirty = _places(named.filter(is_named)) | groups_shown_anew(context, batch)
    if pc.all(is_named, min_count=0).as_py():
        return dirty
    columns = ["cluster_id", "source_kind", "kind", "topic", "node"]
    for row in warehouse.changed_keys(events, columns, since[events], until[events], "group_id IS NULL").to_pylist():
        routes = homes.routes.get(row["cluster_id"], {})
        if row["source_kind"] in ("status", "config"):
            dirty |= {(row["cluster_id"], group) for group in routes.get(f"topic:{row['topic']}", ())}
        elif row["kind"].startswith("worker_"):
            dirty |= {(row["cluster_id"], group) for group in routes.get(f"node:{row['node']}", ())}
    homeless = "source_kind = 'log' AND group_id IS NULL AND NOT starts_with(kind, 'worker_')"
    for row in warehouse.changed_keys(
        events, ["cluster_id", "ref"], since[events], until[events], homeless
    ).to_pylist():
        groups = homes.lines.get(row["cluster_id"], {}).get(row["ref"], ())
        dirty |= {(row["cluster_id"], group) for group in groups}
    return dirty


def _placed_anew(context: Run, batch: Batch, clocks: Clocks, homes: Belonging) -> set[Place]:
    """Groups of which old evidence has another time or another group now: a node's clock is known better, or a Connect
    topic belongs to another group."""
    before = context.warehouse.recall(NAME)
    found: set[Place] = set()
    if not before and batch.since["silver.group_event"] >= 0:  # the note was lost: fold everything again
        return _all_groups(context)
    topics_before: dict[str, Any] = before.get("topics", {})
    topics_now = _connect_topics(homes)
    for cluster_id in {*topics_now, *topics_before}:
        routes, known = topics_now.get(cluster_id, {}), topics_before.get(cluster_id, {})
        for route in {*routes, *known}:
            if routes.get(route, []) != known.get(route, []):
                found |= {(cluster_id, group) for group in {*routes.get(route, []), *known.get(route, [])}}
    clocks_before: dict[str, Any] = before.get("clocks", {})
    for cluster_id, by_node in settings_of(clocks).items():
        nodes = [n for n, clock in by_node.items() if clocks_before.get(cluster_id, {}).get(n, clock) != clock]
        if not nodes:
            continue
        of_nodes = f"cluster_id = {literal(cluster_id)} AND node IN ({', '.join(map(literal, nodes))})"
        found |= _places(_events_with(context, batch, GROUP.names, f"{of_nodes} AND group_id IS NOT NULL"))
        homes_of, lines = homes.routes.get(cluster_id, {}), homes.lines.get(cluster_id, {})
        found |= {(cluster_id, group) for node in nodes for group in homes_of.get(f"node:{node}", ())}
        if lines:
            for ref in _events_with(context, batch, ["ref"], f"{of_nodes} AND group_id IS NULL")["ref"].to_pylist():
                found |= {(cluster_id, group) for group in lines.get(ref, ())}
    return found


def _all_groups(context: Run) -> set[Place]:
    return _places(
        context.warehouse.changed_keys("silver.group_event", GROUP.names, None, where="group_id IS NOT NULL")
    )


def _events_with(context: Run, batch: Batch, columns: Sequence[str], where: str) -> pa.Table:
    """These columns of the events, each row of them once: of all events they may be too much for the memory."""
    table = "silver.group_event"
    files = context.warehouse.files(table, batch.until[table])
    return context.warehouse.read_files(table, files, columns, where, distinct=True)


def _places(groups: pa.Table) -> set[Place]:
    return set(zip(groups["cluster_id"].to_pylist(), groups["group_id"].to_pylist(), strict=True))


def _fold(
    context: Run, batch: Batch, plan: ParcelPlan, names: TopicNames, settled: SettledPoints, engine: Engine
) -> None:
    places = sorted(plan.buckets)
    points = [settled.points.get(place) for place in places]
    since = {
        REBALANCES: ("place", [None if p is None else p["row_count"] for p in points]),
        "silver.contradiction": ("at_ms", [None if p is None else p["settled_at_ms"] for p in points]),
        CHECKPOINTS: ("read_until_ms", [None if p is None else p["read_until_ms"] + 1 for p in points]),
    }
    with context.staging_folder() as folder:
        written: dict[str, list[str]] = {}
        if places:
            topics = {cluster_id: [(id_, topic) for id_, topic in known] for cluster_id, known in names.items()}
            recent = {cluster_id: at_ms - _RECENT_MS for cluster_id, at_ms in seen_until_ms(context.warehouse).items()}
            folding = _folding(folder, engine.share((plan.clocks, topics, settled.points)), recent)
            work = evidence_of(context, batch, plan)
            folded = engine.gather(work, packing(engine.share(plan)), folding, WRITTEN, buckets=plan.bucket_count)
            written = files_by_table(folded)
        for table in OUTPUTS:
            if table == REOPENINGS:
                context.add(table, rows_to_table(table, settled.reopenings), batch.batch_id, batch.transaction)
                continue
            column, values = since.get(table, (None, []))
            keys = places_table(places)
            if column is not None:
                keys = keys.append_column(column, pa.array(values, arrow_schema(table).field(column).type))
            files = written.get(table, [])
            context.replace(table, files, keys, batch.batch_id, batch.transaction, since=column)


def _folding(
    folder: str, shared: Callable[[], tuple[Clocks, NamesOfTask, Points]], recent: Mapping[str, int]
) -> ArrowTask:
    """`recent`: by cluster, since when rebalances count as recent."""
    window, around = WINDOW, AROUND  # read here: what tests set on the driver must reach tasks that Spark runs

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder)
        clocks, topics, points = shared()
        waiting: dict[str, list[Any]] = {table: [] for table in _MAKERS}

        def write(table: str) -> None:
            rows = pa.RecordBatch.from_struct_array(_MAKERS[table](waiting[table], _TYPES[table]))
            waiting[table] = []
            if table == REBALANCES:
                rows = with_numbers(rows)
                writer.add(table, rows, _is_recent(rows, recent))
            else:
                writer.add(table, rows)

        for (cluster_id, group_id), pieces in groups_in(batches):
            known = clocks.get(cluster_id, {}), topics.get(cluster_id, [])
            point = points.get((cluster_id, group_id))
            for table, row in _rows_of(cluster_id, group_id, pieces, *known, point, window, around):
                waiting[table].append(row)
                if len(waiting[table]) >= _ROWS_AT_ONCE:
                    write(table)
        for table in _MAKERS:
            if waiting[table]:
                write(table)
        yield from writer.written()

    return fold


def _is_recent(rebalances: pa.RecordBatch, recent: Mapping[str, int]) -> Flags:
    """For each rebalance, whether it was in the last day, or nobody knows when."""
    latest = pc.max_element_wise(*(rebalances[name] for name in INSTANTS))
    since = pa.array([recent.get(cluster_id, 0) for cluster_id in rebalances["cluster_id"].to_pylist()], pa.int64())
    flags: Flags = pc.greater_equal(latest, since).fill_null(True).to_numpy(zero_copy_only=False)
    return flags


def _rows_of(
    cluster_id: str,
    group_id: str,
    pieces: Iterator[tuple[int, Piece]],
    clocks: Mapping[str, NodeClock],
    topic_names: Sequence[tuple[str, str]],
    point: Mapping[str, Any] | None,
    window: int,
    around: int,
) -> Iterator[tuple[str, Any]]:
    """(table, row) of all that the evidence of one group shows."""
    gather = gathering(cluster_id, group_id, clocks, topic_names)
    start = None
    if point is not None:
        start, pieces = checkpoint_of(point, pieces)
    place = count(0 if start is None else start.row_count)
    noted: list[Checkpoint] = []
    parts = reconstruct_in_windows(pieces, gather, window=window, around=around, start=start, note=noted.append)
    for part in parts:
        for rebalance in part.rebalances:
            yield REBALANCES, (next(place), rebalance)
        for task in part.connect_tasks:
            yield "silver.connect_task", task
        for contradiction in {c.evidence[-1]: c for c in part.contradictions}.values():
            yield "silver.contradiction", (cluster_id, group_id, contradiction)
    for checkpoint in noted:
        yield CHECKPOINTS, checkpoint_row(cluster_id, group_id, checkpoint)


def _rebalances(placed: list[tuple[int, Rebalance]], type_: pa.StructType) -> pa.Array:
    return struct_array([rebalance for _, rebalance in placed], type_, place=[place for place, _ in placed])


def _contradictions(found: list[tuple[str, str, Contradiction]], type_: pa.StructType) -> pa.Array:
    return struct_array(
        [contradiction for *_, contradiction in found],
        type_,
        cluster_id=[cluster_id for cluster_id, *_ in found],
        group_id=[group_id for _, group_id, _ in found],
        ref=[contradiction.evidence[-1] for *_, contradiction in found],
    )


_MAKERS: dict[str, Callable[[list[Any], pa.StructType], pa.Array]] = {
    REBALANCES: _rebalances,
    "silver.connect_task": struct_array,
    "silver.contradiction": _contradictions,
    CHECKPOINTS: pa.array,
}
_TYPES = {table: pa.struct(list(arrow_schema(table))) for table in _MAKERS}
