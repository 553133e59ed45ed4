"""All evidence of the wanted groups brought together: group by group, each in the order of its instants.

Between the tasks that read and the tasks that fold Spark carries parcels: thousands of rows as Arrow bytes in one row
(decision 0010). Groups share a bucket, as many as fit; a group that is larger has one of its own and comes in slices of
time, so that of no group more than a slice is in memory.

Three rows of two groups in the plan {orders: bucket 0, large: bucket 1}, whose bucket 1 is cut at 09:30:

    silver.group_event, silver.commit_mark          parcels                            a task that folds gets
    record of orders  at 09:00                 ->   bucket 0 slice 0 record [orders]   orders: (09:00, record)
    line without a group (a Connect worker's,
      whose home is orders)  at 10:00          ->   bucket 0 slice 0 line [orders]     orders: (10:00, line)
    mark of large     at 10:00                 ->   bucket 1 slice 1 mark [large]      large: (10:00, mark)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.frozen import positional_maker
from rebalance_audit.domain.gather.belonging import routes_of
from rebalance_audit.domain.gather.clocks import NodeClock
from rebalance_audit.domain.gather.groups import event_of_row
from rebalance_audit.domain.gather.windows import Piece
from rebalance_audit.domain.model import CommitMark
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import Least, held_in, row_count_of, row_groups_of
from spark_jobs.belonging import Belonging
from spark_jobs.engine import ArrowTask, parcel
from spark_jobs.group_evidence import Clocks
from spark_jobs.group_rows import GROUP, Place, of_keys, places_table
from spark_jobs.stages.stage import Batch, Run
from spark_jobs.task_files import ASKED_AT_MOST, Flags, Numbers, batches_of, numbers_of, row_groups

EVENTS, MARKS = "silver.group_event", "silver.commit_mark"
BUCKET_BYTES = 8 << 20
"""The most Arrow bytes of a bucket; Python objects take several times as much."""
_LEAST_BYTES = 256 << 10
"""Less is not worth a task."""
PARCEL_BYTES = 4 << 20
"""Well below what Spark's shuffle takes as one row."""
_ROWS = 1 << 17
_NEVER_MS = -(1 << 62)
_IN_MEMORY_ROWS = 200_000
_DAY_MS = 86_400_000
"""More than a log's local time can differ from the instant."""
_REPEATED = ("cluster_id", "group_id", "source_kind", "kind", "topic", "node")
_HEAD = (*_REPEATED, "ref")
"""The columns that show where an event belongs."""
_GRAINS: Mapping[str, tuple[str, ...]] = {
    "line": ("group_id", "ref", "source_kind", "kind", "node", "at_ms", "detail"),
    "record": ("cluster_id", "ref", "source_kind", "topic", "partition", "offset", "at_ms", "key", "value"),
    "mark": tuple(f.name for f in fields(CommitMark)),
}
"""The columns an event is made of again: a record of its bytes, a line of its detail."""


_EVENT = tuple(dict.fromkeys((*_HEAD, *_GRAINS["line"], *_GRAINS["record"])))
_MARK = ("cluster_id", "group_id", *_GRAINS["mark"])
_OF_MARKS = ("cluster_id", "group_id", "topic", "offsets_topic")
"""Columns of marks that repeat themselves."""


class Start(NamedTuple):
    """What is read of a group: pieces from this instant on, and these records."""

    from_ms: int
    refs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParcelPlan:
    """Where each piece of evidence goes."""

    buckets: Mapping[Place, int]
    """The bucket of each wanted group."""
    cuts: Mapping[int, Sequence[int]]
    """For a bucket that holds one large group, the instants at which its next slices begin."""
    homes: Belonging
    clocks: Clocks
    starts: Mapping[Place, Start] = field(default_factory=dict)
    """The starts of groups that are not folded from their beginning."""

    @property
    def bucket_count(self) -> int:
        return max(self.buckets.values(), default=-1) + 1

    def homes_of(self, event: Mapping[str, Any]) -> Iterator[str]:
        """The wanted groups of an event that names none."""
        cluster_id = event["cluster_id"]
        groups = self.homes.lines.get(cluster_id, {}).get(event["ref"], ())
        routes = self.homes.routes.get(cluster_id, {})
        for route in routes_of(event["source_kind"], event["kind"], event["topic"], event["node"], {}):
            groups = routes.get(route, ())
        return (group for group in groups if (cluster_id, group) in self.buckets)

    @property
    def has_nameless(self) -> bool:
        """Whether events that name no group may belong to a wanted one."""
        return any(
            (cluster_id, group) in self.buckets
            for by_cluster in (self.homes.routes, self.homes.lines)
            for cluster_id, of_cluster in by_cluster.items()
            for groups in of_cluster.values()
            for group in groups
        )

    def slices(self, buckets: Numbers, instants: Numbers) -> Numbers:
        found = np.zeros(len(buckets), np.int64)
        for bucket, cuts in self.cuts.items():
            inside = buckets == bucket
            found[inside] = np.searchsorted(np.array(cuts, np.int64), instants[inside], side="right")
        return found


def plan_of(
    context: Run,
    batch: Batch,
    sizes: Mapping[Place, int],
    homes: Belonging,
    clocks: Clocks,
    tasks_at_once: int,
    starts: Mapping[Place, Start],
) -> ParcelPlan:
    """`sizes`: of all wanted groups, as `evidence_sizes` gives them."""
    buckets: dict[Place, int] = {}
    cuts: dict[int, list[int]] = {}
    bucket = filled = 0
    full = min(max(sum(sizes.values()) // tasks_at_once, _LEAST_BYTES), BUCKET_BYTES)
    # The large ones first: theirs are the longest tasks.
    for place in sorted(sizes, key=lambda place: (sizes[place] <= BUCKET_BYTES, place)):
        size = sizes[place]
        if filled and filled + size > full:
            bucket, filled = bucket + 1, 0
        buckets[place] = bucket
        filled += size
        if size > BUCKET_BYTES:
            cuts[bucket] = _cuts(context, batch, place, size // BUCKET_BYTES, starts, clocks)
    return ParcelPlan(buckets=buckets, cuts=cuts, homes=homes, clocks=clocks, starts=starts)


def evidence_sizes(
    context: Run, batch: Batch, wanted: set[Place], starts: Mapping[Place, Start], clocks: Clocks
) -> dict[Place, int]:
    """Bytes of each wanted group's own evidence as Arrow has it, roughly."""
    with _pieces(context, batch, wanted, starts, clocks) as db:
        rows = db.execute("SELECT cluster_id, group_id, sum(size)::BIGINT FROM piece GROUP BY ALL").fetchall()
    return dict.fromkeys(wanted, 0) | {(cluster_id, group_id): size for cluster_id, group_id, size in rows}


def _cuts(
    context: Run, batch: Batch, place: Place, count: int, starts: Mapping[Place, Start], clocks: Clocks
) -> list[int]:
    """Where to cut a large group's time into pieces of about one size, by local times: any cut is a good one."""
    shares = [(n + 1) / (count + 1) for n in range(count)]
    with _pieces(context, batch, {place}, starts, clocks) as db:
        found = db.execute(f"SELECT quantile_disc(at_ms, {shares}) FROM piece").fetchone()
    return [] if found is None or found[0] is None else sorted(set(found[0]))


@contextmanager
def _pieces(
    context: Run, batch: Batch, wanted: set[Place], starts: Mapping[Place, Start], clocks: Clocks
) -> Iterator[duckdb.DuckDBPyConnection]:
    """The wanted groups' evidence as the view `piece`."""
    groups = places_table(wanted)
    chosen = sorted(place for place in starts if place in wanted)
    before_ms = _most_behind_ms(clocks)
    started = places_table(chosen).append_column(
        "from_ms", pa.array([starts[place].from_ms - before_ms for place in chosen], pa.int64())
    )
    with cursor() as db:
        selects: list[str] = []
        for table, at_ms, size, columns in (
            (EVENTS, "at_ms", "200 + coalesce(octet_length(value), strlen(detail))", ("at_ms", "value", "detail")),
            (MARKS, "first_at_ms", "100", ("first_at_ms",)),
        ):
            files = context.warehouse.files(table, batch.until[table])
            if not files:
                continue
            of_table = context.warehouse.schema(table)
            read = pa.schema([of_table.field(name) for name in (*GROUP.names, *columns)])
            # Few row groups are read by Arrow; all of a large group may be too much for the memory.
            held = row_count_of(row_groups_of(files, "group_id", set(groups["group_id"].to_pylist())))
            source = of_keys(
                db, files, groups, read if held <= _IN_MEMORY_ROWS else None, f"wanted_of_{len(selects)}",
                Least(at_ms, "group_id", _floors(wanted, starts, before_ms)),
            )  # fmt: skip
            selects.append(
                f"SELECT cluster_id, group_id, {at_ms} at_ms, {size} size FROM {source} "
                f"LEFT JOIN started USING (cluster_id, group_id) WHERE {at_ms} >= from_ms OR from_ms IS NULL"
            )
        selects = selects or [
            "SELECT NULL::VARCHAR cluster_id, NULL::VARCHAR group_id, NULL::BIGINT at_ms, 0 size WHERE false"
        ]
        db.register("started", started)
        db.execute(f"CREATE TEMP VIEW piece AS {' UNION ALL '.join(selects)}")
        yield db


def evidence_of(context: Run, batch: Batch, plan: ParcelPlan) -> pa.Table:
    """The work of the tasks that read."""
    files = {table: context.warehouse.files(table, batch.until[table]) for table in (EVENTS, MARKS)}
    group_ids = {group_id for _, group_id in plan.buckets}
    work = row_groups(files, "group_id", group_ids, with_nameless=plan.has_nameless)
    if not plan.starts or len(group_ids) > ASKED_AT_MOST:
        return work
    may_start_from = _start_test(plan)
    return work.filter(pa.array(list(map(may_start_from, *work.to_pydict().values())), pa.bool_()))


def _start_test(plan: ParcelPlan) -> Callable[[str, str, int], bool]:
    """The test, by statistics, whether a row group may hold what a group's fold starts from or what comes after. In a
    long history few do."""
    has_nameless = plan.has_nameless
    floors = _floors(plan.buckets, plan.starts, _most_behind_ms(plan.clocks))
    within = {at: Least(at, "group_id", floors).row_group_test() for at in ("at_ms", "first_at_ms")}
    offsets: dict[str, list[int]] = {}
    for (_, group_id), start in plan.starts.items():
        offsets.setdefault(group_id, []).extend(map(_offset_of, start.refs))
    started = sorted(offsets)

    def may_start_from(table: str, file: str, row_group: int) -> bool:
        if table == MARKS:
            return within["first_at_ms"](file, row_group)
        groups, held = held_in(file, "group_id")[row_group], held_in(file, "offset")[row_group]
        return (
            (has_nameless and groups.may_be_null)
            or within["at_ms"](file, row_group)
            or any(not held.is_outside(at, at + 1) for group_id in groups.among(started) for at in offsets[group_id])
        )

    return may_start_from


def _offset_of(ref: str) -> int:
    """The offset in `record:TOPIC-PARTITION@OFFSET`."""
    return int(ref.rpartition("@")[2])


def _floors(wanted: Iterable[Place], starts: Mapping[Place, Start], before_ms: int) -> dict[str, int | None]:
    """By group id, the time before which nothing is wanted but records that a fold starts from; None: all is wanted."""
    found: dict[str, int | None] = {}
    for place in wanted:
        own = starts[place].from_ms - before_ms if place in starts else None
        other = found.get(place[1], own)
        found[place[1]] = None if own is None or other is None else min(own, other)
    return found


def _most_behind_ms(clocks: Clocks) -> int:
    """How long after its local time the instant of any event may be."""
    return max((_behind_ms(clock) for by_node in clocks.values() for clock in by_node.values()), default=0)


def _behind_ms(clock: NodeClock) -> int:
    is_steady = clock.zone is None and len(clock.offsets) == 1
    return max(0, -clock.utc_offset_ms) if is_steady else _DAY_MS


# ---- in the tasks that read


def packing(plan_of_task: Callable[[], ParcelPlan]) -> ArrowTask:
    """Parcels of the wanted rows of the work, a parcel in each batch; in no order."""

    def pack(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = plan_of_task()
        for row in (row for some in named for row in some.to_pylist()):
            if row["table"] == EVENTS:
                yield from _packed_events(_event_batches(row, plan), plan)
            else:
                yield from _packed_marks(batches_of(row, _MARK, _ROWS, _OF_MARKS), plan)

    return pack


def _packed_marks(batches: Iterable[pa.RecordBatch], plan: ParcelPlan) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        buckets = numbers_of(batch["cluster_id"], batch["group_id"], plan.buckets)
        rows = np.flatnonzero(buckets >= 0)
        if len(rows):
            instants = batch["first_at_ms"].to_numpy().take(rows)
            home = batch["group_id"].take(pa.array(rows))
            if plan.starts:
                wanted = _since_start(batch["cluster_id"].take(pa.array(rows)), home, instants, None, plan)
                rows, instants, home = rows[wanted], instants[wanted], home.filter(pa.array(wanted))
            if len(rows):
                yield from _packed("mark", batch, rows, home, buckets[rows], instants, plan)


def _event_batches(named: Mapping[str, Any], plan: ParcelPlan) -> Iterator[pa.RecordBatch]:
    # Of most files nothing is wanted when little is new: the columns with the bytes are not read then.
    return batches_of(named, _EVENT, _ROWS, _REPEATED, (_HEAD, lambda heads: len(_placed(heads, plan)[0]) > 0))


def _packed_events(batches: Iterable[pa.RecordBatch], plan: ParcelPlan) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows, home, buckets = _placed(batch, plan)
        instants = _instants(batch.select(["cluster_id", "node", "at_ms"]).take(pa.array(rows)), plan.clocks)
        if plan.starts:
            taken = batch.select(["cluster_id", "ref"]).take(pa.array(rows))
            wanted = _since_start(taken["cluster_id"], home, instants, taken["ref"], plan)
            rows, buckets, instants = rows[wanted], buckets[wanted], instants[wanted]
            home = home.filter(pa.array(wanted))
        is_line = pc.equal(batch["source_kind"].cast(pa.string()), "log").to_numpy(zero_copy_only=False)[rows]
        for grain, of_grain in (("line", is_line), ("record", ~is_line)):
            if of_grain.any():
                chosen = home.filter(pa.array(of_grain))
                yield from _packed(grain, batch, rows[of_grain], chosen, buckets[of_grain], instants[of_grain], plan)


def _since_start(
    clusters: pa.Array, homes: pa.Array, instants: Numbers, refs: pa.Array | None, plan: ParcelPlan
) -> Flags:
    """Whether each piece is one that its group's fold starts from, or comes after."""
    places = list(plan.starts)
    starts = numbers_of(clusters, homes, {place: at for at, place in enumerate(places)})
    from_ms = np.array([plan.starts[place].from_ms for place in places] + [_NEVER_MS], np.int64)
    flags: Flags = instants >= from_ms[starts]  # -1, of a group without a start, is the last one
    if refs is not None:
        for at in np.flatnonzero(~flags).tolist():
            flags[at] = refs[at].as_py() in plan.starts[places[starts[at]]].refs
    return flags


def _placed(heads: pa.RecordBatch, plan: ParcelPlan) -> tuple[Numbers, pa.Array, Numbers]:
    """Row, group and bucket of each wanted event. An event that names no group may belong to several."""
    buckets = numbers_of(heads["cluster_id"], heads["group_id"], plan.buckets)
    rows = np.flatnonzero(buckets >= 0)
    nameless = np.flatnonzero(heads["group_id"].is_null().to_numpy(zero_copy_only=False))
    events = heads.select(list(_HEAD)).take(pa.array(nameless)).to_pylist()
    found = [
        (row, home, plan.buckets[event["cluster_id"], home])
        for row, event in zip(nameless.tolist(), events, strict=True)
        for home in plan.homes_of(event)
    ]
    homes = heads["group_id"].take(pa.array(rows)).cast(pa.string())
    if not found:
        return rows, homes, buckets[rows]
    more_rows, more_homes, more_buckets = zip(*found, strict=True)
    return (
        np.append(rows, more_rows),
        pa.concat_arrays([homes, pa.array(more_homes, pa.string())]),
        np.append(buckets[rows], more_buckets),
    )


def _instants(events: pa.RecordBatch, clocks: Clocks) -> Numbers:
    """Records have their time; that of a line is local, and its node's clock gives the instant."""
    at_ms: Numbers = events["at_ms"].to_numpy().astype(np.int64)
    known = {(cluster_id, node): clock for cluster_id, by_node in clocks.items() for node, clock in by_node.items()}
    of_rows = numbers_of(events["cluster_id"], events["node"], {place: n for n, place in enumerate(known)})
    for number, clock in enumerate(known.values()):
        lines = np.flatnonzero(of_rows == number)
        at_ms[lines] = [clock.to_utc_ms(local_at_ms) for local_at_ms in at_ms[lines].tolist()]
    return at_ms


def _packed(
    grain: str,
    batch: pa.RecordBatch,
    rows: Numbers,
    home: pa.Array,
    buckets: Numbers,
    instants: Numbers,
    plan: ParcelPlan,
) -> Iterator[pa.RecordBatch]:
    slices = plan.slices(buckets, instants)
    order = np.lexsort((slices, buckets))
    taken = batch.select(list(dict.fromkeys(("cluster_id", *_GRAINS[grain])))).take(pa.array(rows[order]))
    arrays = [c.cast(c.type.value_type) if isinstance(c, pa.DictionaryArray) else c for c in taken.columns]
    arrays += [home.take(pa.array(order)).cast(pa.string()), pa.array(instants[order])]
    whole = pa.RecordBatch.from_arrays(arrays, names=[*taken.schema.names, "home", "instant"])
    buckets, slices = buckets[order], slices[order]
    edges = np.flatnonzero((np.diff(buckets) != 0) | (np.diff(slices) != 0)) + 1
    for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(order)], strict=True):
        for part in _small_enough(whole.slice(begin, end - begin)):
            yield parcel(int(buckets[begin]), int(slices[begin]), grain, part)


def _small_enough(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if rows.nbytes <= PARCEL_BYTES or rows.num_rows == 1:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _small_enough(rows.slice(0, half))
    yield from _small_enough(rows.slice(half))


# ---- in the tasks that fold


def groups_in(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Place, Iterator[tuple[int, Piece]]]]:
    """Each group of these parcels with its evidence, as (instant, piece) in the order of the instants."""
    rows = (row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True))
    pieces = (_in_order(list(of_slice)) for _, of_slice in groupby(rows, key=itemgetter(0, 1)))
    for place, of_group in groupby(chain.from_iterable(pieces), key=itemgetter(0)):
        yield place, ((instant, piece) for _, instant, piece in of_group)


def _in_order(parcels: Sequence[tuple[int, int, str, bytes]]) -> Iterator[tuple[Place, int, Piece]]:
    """One slice's pieces, group by group, by instant. They are made when they are reached."""
    by_grain: dict[str, list[pa.Table]] = {}
    for _, _, grain, rows in parcels:
        by_grain.setdefault(grain, []).append(pa.ipc.open_stream(rows).read_all())
    made: list[tuple[Callable[[Any], Piece], Any]] = []
    places: list[Place] = []
    instants: list[int] = []
    for grain, parts in sorted(by_grain.items()):
        table = pa.concat_tables(parts)
        places += zip(table["cluster_id"].to_pylist(), table["home"].to_pylist(), strict=True)
        instants += table["instant"].to_pylist()
        if grain == "mark":
            made += zip(repeat(_mark), zip(*(table[name].to_pylist() for name in _GRAINS[grain]), strict=True))
        else:
            made += zip(repeat(event_of_row), table.select(list(_GRAINS[grain])).to_pylist())
    ranks = {place: rank for rank, place in enumerate(sorted(set(places)))}
    order = np.lexsort((instants, [ranks[place] for place in places]))
    for at in order.tolist():
        make, row = made[at]
        yield places[at], instants[at], make(row)


_make_mark = positional_maker(CommitMark, _GRAINS["mark"])


def _mark(row: tuple[Any, ...]) -> CommitMark:
    return _make_mark(*row)
