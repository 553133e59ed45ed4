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
from dataclasses import fields
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.frozen import positional_maker
from rebalance_audit.domain.gather.groups import event_of_row
from rebalance_audit.domain.gather.windows import Piece
from rebalance_audit.domain.model import CommitMark
from rebalance_audit.warehouse.row_groups import WantedValues
from spark_jobs.engine import ArrowTask, parcel
from spark_jobs.group_evidence import Clocks
from spark_jobs.group_rows import Place
from spark_jobs.parcel_plan import EVENTS, ParcelPlan
from spark_jobs.task_files import Flags, Numbers, batches_of, numbers_of, places_of

PARCEL_BYTES = 4 << 20
"""Well below what Spark's shuffle takes as one row."""
_ROWS = 1 << 17
_NEVER_MS = -(1 << 62)
_REPEATED = ("cluster_id", "group_id", "source_kind", "kind", "topic", "node")
_HEAD = (*_REPEATED, "ref")
"""The columns that show where an event belongs."""
_COLUMNS_OF: Mapping[str, tuple[str, ...]] = {
    "line": ("group_id", "ref", "source_kind", "kind", "node", "at_ms", "detail"),
    "record": ("cluster_id", "ref", "source_kind", "topic", "partition", "offset", "at_ms", "key", "value"),
    "mark": tuple(f.name for f in fields(CommitMark)),
}
"""The columns an event is made of again: a record of its bytes, a line of its detail."""


_EVENT = tuple(dict.fromkeys((*_HEAD, *_COLUMNS_OF["line"], *_COLUMNS_OF["record"])))
_MARK = ("cluster_id", "group_id", *_COLUMNS_OF["mark"])
_OF_MARKS = ("cluster_id", "group_id", "topic", "offsets_topic")
"""Columns of marks that repeat themselves."""


# ---- in the tasks that read


def packing(plan_of_task: Callable[[], ParcelPlan]) -> ArrowTask:
    """Parcels of the wanted rows of the work, a parcel in each batch; in no order."""

    def pack(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = plan_of_task()
        homes = WantedValues.of("group_id", {group_id for _, group_id in plan.buckets}, with_null=False)
        for row in (row for some in named for row in some.to_pylist()):
            if row["table"] == EVENTS:
                yield from _packed_events(_event_batches(row, plan, homes), plan)
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


def _event_batches(named: Mapping[str, Any], plan: ParcelPlan, homes: WantedValues) -> Iterator[pa.RecordBatch]:
    # Of most files nothing is wanted when little is new: the columns with the bytes are not read then.
    only_if = (_HEAD, lambda heads: len(_placed(heads, plan)[0]) > 0)
    return batches_of(named, _EVENT, _ROWS, _REPEATED, only_if, homes)


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
        for kind, of_kind in (("line", is_line), ("record", ~is_line)):
            if of_kind.any():
                chosen = home.filter(pa.array(of_kind))
                yield from _packed(kind, batch, rows[of_kind], chosen, buckets[of_kind], instants[of_kind], plan)


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
    # Only nodes that are in the batch: a fleet has thousands, and a row group lines of a few.
    nodes, of_rows = places_of(events["cluster_id"], events["node"])
    for number, (cluster_id, node) in enumerate(nodes):
        if node is not None and (clock := clocks.get(cluster_id, {}).get(node)) is not None:
            lines = np.flatnonzero(of_rows == number)
            at_ms[lines] = [clock.to_utc_ms(local_at_ms) for local_at_ms in at_ms[lines].tolist()]
    return at_ms


def _packed(
    kind: str,
    batch: pa.RecordBatch,
    rows: Numbers,
    home: pa.Array,
    buckets: Numbers,
    instants: Numbers,
    plan: ParcelPlan,
) -> Iterator[pa.RecordBatch]:
    slices = plan.slices(buckets, instants)
    order = np.lexsort((slices, buckets))
    taken = batch.select(list(dict.fromkeys(("cluster_id", *_COLUMNS_OF[kind])))).take(pa.array(rows[order]))
    arrays = [c.cast(c.type.value_type) if isinstance(c, pa.DictionaryArray) else c for c in taken.columns]
    arrays += [home.take(pa.array(order)).cast(pa.string()), pa.array(instants[order])]
    whole = pa.RecordBatch.from_arrays(arrays, names=[*taken.schema.names, "home", "instant"])
    buckets, slices = buckets[order], slices[order]
    edges = np.flatnonzero((np.diff(buckets) != 0) | (np.diff(slices) != 0)) + 1
    for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(order)], strict=True):
        for part in _small_enough(whole.slice(begin, end - begin)):
            yield parcel(int(buckets[begin]), int(slices[begin]), kind, part)


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
    by_kind: dict[str, list[pa.Table]] = {}
    for _, _, kind, rows in parcels:
        by_kind.setdefault(kind, []).append(pa.ipc.open_stream(rows).read_all())
    made: list[tuple[Callable[[Any], Piece], Any]] = []
    places: list[Place] = []
    instants: list[int] = []
    for kind, parts in sorted(by_kind.items()):
        table = pa.concat_tables(parts)
        places += zip(table["cluster_id"].to_pylist(), table["home"].to_pylist(), strict=True)
        instants += table["instant"].to_pylist()
        if kind == "mark":
            made += zip(repeat(_mark), zip(*(table[name].to_pylist() for name in _COLUMNS_OF[kind]), strict=True))
        else:
            made += zip(repeat(event_of_row), table.select(list(_COLUMNS_OF[kind])).to_pylist())
    ranks = {place: rank for rank, place in enumerate(sorted(set(places)))}
    order = np.lexsort((instants, [ranks[place] for place in places]))
    for at in order.tolist():
        make, row = made[at]
        yield places[at], instants[at], make(row)


_make_mark = positional_maker(CommitMark, _COLUMNS_OF["mark"])


def _mark(row: tuple[Any, ...]) -> CommitMark:
    return _make_mark(*row)
