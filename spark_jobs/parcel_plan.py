"""Which evidence of the wanted groups is read, and the bucket and slice that each piece goes to.

Groups share a bucket, as many as fit; a group that is larger has one of its own, which is cut into slices of time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.gather.belonging import routes_of
from rebalance_audit.domain.gather.clocks import NodeClock
from rebalance_audit.warehouse.footers import row_group_bytes
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import Least, RowGroup, WantedValues, held_in, row_count_of, row_groups_within
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.belonging import Belonging
from spark_jobs.group_evidence import Clocks
from spark_jobs.group_rows import GROUP, Place, places_table, relation_of_keys, rows_of_few_keys
from spark_jobs.stages.stage import Batch, Run
from spark_jobs.task_files import ASKED_AT_MOST, Numbers, row_groups

EVENTS, MARKS = "silver.group_event", "silver.commit_mark"
BUCKET_BYTES = 8 << 20
"""The most Arrow bytes of a bucket; Python objects take several times as much."""
_LEAST_BYTES = 256 << 10
"""Less is not worth a task."""
_IN_MEMORY_ROWS = 200_000
_FEW_ROWS = 20_000
"""Rows of row groups that are read to know the sizes of few groups, without DuckDB."""
_DAY_MS = 86_400_000
"""More than a log's local time can differ from the instant."""


class Start(NamedTuple):
    """The evidence of a group that is read: pieces from this instant on, and these records."""

    from_ms: int
    refs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParcelPlan:
    """The bucket, and for a large group the slice of time, that each piece of evidence goes to."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvidence:
    """The evidence that folds start from, as the tables have it at the versions of a batch."""

    warehouse: Warehouse
    batch: Batch
    clocks: Clocks
    starts: Mapping[Place, Start]

    def sizes(self, wanted: set[Place]) -> dict[Place, int]:
        """Bytes of each wanted group's own evidence as Arrow has it, roughly."""
        if (whole := self._bytes_of_all(wanted)) is not None:
            return dict.fromkeys(wanted, whole // max(len(wanted), 1))
        few = self._sizes_of_few(wanted)
        if few is not None:
            return few
        with self._pieces(wanted) as db:
            rows = db.execute("SELECT cluster_id, group_id, sum(size)::BIGINT FROM piece GROUP BY ALL").fetchall()
        return dict.fromkeys(wanted, 0) | {(cluster_id, group_id): size for cluster_id, group_id, size in rows}

    def cuts(self, place: Place, count: int) -> list[int]:
        """Where to cut a large group's time into pieces of about one size, by local times: any cut is a good one."""
        shares = [(n + 1) / (count + 1) for n in range(count)]
        with self._pieces({place}) as db:
            found = db.execute(f"SELECT quantile_disc(at_ms, {shares}) FROM piece").fetchone()
        return [] if found is None or found[0] is None else sorted(set(found[0]))

    def _bytes_of_all(self, wanted: set[Place]) -> int | None:
        """Bytes of the row groups that may hold some of it, of each the share that these groups are of all in it. None
        where they are more than a bucket holds: then one of the groups may be large."""
        values = WantedValues.of("group_id", {group_id for _, group_id in wanted}, with_null=False)
        floors, whole = self._floors(wanted), 0.0
        for table, at_ms in ((EVENTS, "at_ms"), (MARKS, "first_at_ms")):
            for found in _row_groups_of(self._files(table), Least(at_ms, "group_id", floors)):
                place = found.file, found.number
                whole += row_group_bytes(found.file)[found.number] * values.share_in(*place)
                if whole > BUCKET_BYTES:
                    return None
        return round(whole)

    def _sizes_of_few(self, wanted: set[Place]) -> dict[Place, int] | None:
        """The same where few row groups may hold any of it; None where they are many. To ask DuckDB takes longer."""
        groups, floors = places_table(wanted), self._floors(wanted)
        sizes = dict.fromkeys(wanted, 0)
        for table, at_ms, size_columns in ((EVENTS, "at_ms", ("value", "detail")), (MARKS, "first_at_ms", ())):
            files, bound = self._files(table), Least(at_ms, "group_id", floors)
            if row_count_of(_row_groups_of(files, bound)) > _FEW_ROWS:
                return None
            schema = self._schema(table, (at_ms, *size_columns))
            rows = rows_of_few_keys(files, groups, schema, bound)
            if rows is None:
                return None
            lengths = [pc.binary_length(rows[name]) for name in size_columns]
            size = pc.fill_null(pc.add(pc.coalesce(*lengths), 200), 0) if lengths else pa.repeat(100, rows.num_rows)
            with_size = rows.select(GROUP.names).append_column("size", size)
            summed = with_size.group_by(GROUP.names).aggregate([("size", "sum")])
            named = (summed[name].to_pylist() for name in (*GROUP.names, "size_sum"))
            for cluster_id, group_id, byte_count in zip(*named, strict=True):
                sizes[cluster_id, group_id] += byte_count
        return sizes

    @contextmanager
    def _pieces(self, wanted: set[Place]) -> Iterator[duckdb.DuckDBPyConnection]:
        """The wanted groups' evidence as the view `piece`."""
        groups, floors = places_table(wanted), self._floors(wanted)
        chosen = sorted(place for place in self.starts if place in wanted)
        before_ms = most_behind_ms(self.clocks)
        started = places_table(chosen).append_column(
            "from_ms", pa.array([self.starts[place].from_ms - before_ms for place in chosen], pa.int64())
        )
        with cursor() as db:
            selects: list[str] = []
            for table, at_ms, size, columns in (
                (EVENTS, "at_ms", "200 + coalesce(octet_length(value), strlen(detail))", ("at_ms", "value", "detail")),
                (MARKS, "first_at_ms", "100", ("first_at_ms",)),
            ):
                files = self._files(table)
                if not files:
                    continue
                # Few row groups are read by Arrow; all of a large group may be too much for the memory.
                bound = Least(at_ms, "group_id", floors)
                is_little = row_count_of(_row_groups_of(files, bound)) <= _IN_MEMORY_ROWS
                schema = self._schema(table, columns) if is_little else None
                source = relation_of_keys(db, files, groups, schema, f"wanted_of_{len(selects)}", bound)
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

    def _files(self, table: str) -> list[str]:
        return self.warehouse.files(table, self.batch.until[table])

    def _schema(self, table: str, columns: Sequence[str]) -> pa.Schema:
        of_table = self.warehouse.schema(table)
        return pa.schema([of_table.field(name) for name in (*GROUP.names, *columns)])

    def _floors(self, wanted: Iterable[Place]) -> dict[str, int | None]:
        return _floors(wanted, self.starts, most_behind_ms(self.clocks))


def _row_groups_of(files: Sequence[str], bound: Least) -> Iterator[RowGroup]:
    """Those that may hold a row of these groups within the bound."""
    return row_groups_within(files, bound.of, bound.by_value, bound)


def plan_of(evidence: StoredEvidence, sizes: Mapping[Place, int], homes: Belonging, tasks_at_once: int) -> ParcelPlan:
    """Plan the parcels of all wanted groups. `sizes`: bytes of each, as `StoredEvidence.sizes` gives them;
    `tasks_at_once`: buckets are not filled further than it takes to give each task some."""
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
            cuts[bucket] = evidence.cuts(place, size // BUCKET_BYTES)
    return ParcelPlan(buckets=buckets, cuts=cuts, homes=homes, clocks=evidence.clocks, starts=evidence.starts)


def evidence_of(context: Run, batch: Batch, plan: ParcelPlan) -> pa.Table:
    """The row groups that may hold evidence of the planned groups: one row of work for the reading tasks each."""
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
    floors = _floors(plan.buckets, plan.starts, most_behind_ms(plan.clocks))
    within = {at: Least(at, "group_id", floors).row_group_test() for at in ("at_ms", "first_at_ms")}
    offsets: dict[str, list[int]] = {}
    for (_, group_id), start in plan.starts.items():
        offsets.setdefault(group_id, []).extend(map(offset_of, start.refs))
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


def offset_of(ref: str) -> int:
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


def most_behind_ms(clocks: Clocks) -> int:
    """How long after its local time the instant of any event may be."""
    return max((_behind_ms(clock) for by_node in clocks.values() for clock in by_node.values()), default=0)


def _behind_ms(clock: NodeClock) -> int:
    is_steady = clock.zone is None and len(clock.offsets) == 1
    return max(0, -clock.utc_offset_ms) if is_steady else _DAY_MS
