"""The rows that incidents are made of, read once for all clusters. Files hold rows of many clusters, so each cluster's
rows go to one task; of a large cluster, those of groups that one incident may hold. Memory then follows these, not the
history of the cluster.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.detect import LimitsOf
from rebalance_audit.domain.incidents import ClusterRows
from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance, from_row
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign.model import Reassignment
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import ArrowTask, parcel
from spark_jobs.group_rows import GroupReader, Place, files_since, places_table
from spark_jobs.incidents.known import KnownIncidents
from spark_jobs.incidents.rows import (
    AT,
    FINDING,
    FINDINGS,
    NARROWED,
    READ,
    REBALANCES,
    clusters_of_wrong_clocks,
    moves_of,
    open_tasks,
    reassignments_since,
)
from spark_jobs.incidents.ties import PlaceOrNone, tied_groups
from spark_jobs.structs import objects_in
from spark_jobs.task_files import Flags, Numbers, batches_of, numbers_of, parted, row_groups

_NOTHING = pa.record_batch({"cluster_id": pa.array([], pa.string())})
_NO_CLUSTER = -1 << 62
_ROWS_AT_ONCE = 2_000
_HELD_AT_MOST = 20_000
"""So many rows wait in a task that reads, however many buckets they are for. To pack few takes as long as to pack
2,000."""
BUCKET_ROWS = 10_000
"""A cluster of more rebalances is parted, where its groups let it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Buckets:
    """The number of the bucket in which rows are brought together."""

    of_cluster: Mapping[str, int]
    """Of a cluster that is parted, that of rows which belong to no group."""
    of_group: Mapping[Place, int] = field(default_factory=dict)
    """Of clusters that are parted."""

    @property
    def count(self) -> int:
        return max([*self.of_cluster.values(), *self.of_group.values()], default=-1) + 1

    def of_rows(self, rows: pa.RecordBatch) -> Numbers:
        of_cluster = _of_clusters(rows, self.of_cluster)
        if not self.of_group:
            return of_cluster
        of_group = numbers_of(rows["cluster_id"], rows["group_id"], self.of_group)
        return np.where(of_group >= 0, of_group, of_cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterReader:
    """Reads the rebalances and findings of some clusters, each since some moment, in tasks."""

    rebalances: GroupReader
    first: Mapping[Place, int]
    """For each group, the place of the first rebalance that is wanted."""
    findings: Sequence[str]
    """Files."""
    since: Mapping[str, int]
    """By cluster."""
    shown: pa.Array
    """Findings that are wanted, however long ago they were seen."""
    buckets: Buckets

    def work(self) -> pa.Table:
        """The reading to do. One row without a file for each bucket: of a cluster there may be nothing to read."""
        parts = [self.rebalances.work(), row_groups({FINDINGS: self.findings})]
        each = [{"table": "", "file": "", "row_group": bucket} for bucket in range(self.buckets.count)]
        return pa.concat_tables([*parts, pa.Table.from_pylist(each, parts[0].schema)])

    def rows(self, named: Mapping[str, Any]) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """The wanted rows in what one row of `work` names, with their buckets."""
        if named["table"] == FINDINGS:
            for batch in batches_of(named, FINDING, _ROWS_AT_ONCE):
                yield self._chosen(batch, self._are_wanted(batch))
        else:
            for batch in self.rebalances.batches(named):
                first = numbers_of(batch["cluster_id"], batch["group_id"], self.first)
                yield self._chosen(batch, (first >= 0) & (batch["place"].to_numpy() >= first))

    def _are_wanted(self, findings: pa.RecordBatch) -> Flags:
        since = _of_clusters(findings, self.since)
        last_seen = findings["last_seen_at_ms"].fill_null(-1 << 62).to_numpy()
        is_open = pc.fill_null(pc.equal(findings["status"], "open"), False)
        is_shown = pc.or_(is_open, pc.is_in(findings["finding_id"], self.shown)).to_numpy(zero_copy_only=False)
        flags: Flags = (since > _NO_CLUSTER) & (is_shown | (last_seen >= since))
        return flags

    def _chosen(self, batch: pa.RecordBatch, flags: Flags) -> tuple[pa.RecordBatch, Numbers]:
        chosen = batch if flags.all() else batch.filter(pa.array(flags))
        return chosen, self.buckets.of_rows(chosen)


def _of_clusters(rows: pa.RecordBatch, numbers: Mapping[str, int]) -> Numbers:
    """The number of each row's cluster; the least there is where it has none."""
    coded = rows["cluster_id"].dictionary_encode()
    known = np.array([numbers.get(cluster_id, _NO_CLUSTER) for cluster_id in coded.dictionary.to_pylist()], np.int64)
    found: Numbers = known[coded.indices.to_numpy()]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallTables:
    """The small tables that incidents need, by cluster."""

    now_ms: Mapping[str, int]
    tasks: Mapping[str, list[ConnectTask]]
    reassignments: Mapping[str, list[Reassignment]]
    leader_moves: Mapping[str, list[LeaderMove]]


def reader_of(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    since: Mapping[str, int],
    stored: KnownIncidents,
    *,
    since_of_groups: Mapping[Place, int] | None = None,
    leader_moves: Mapping[str, Sequence[LeaderMove]] | None = None,
    buckets_at_least: int = 1,
) -> ClusterReader:
    """`since_of_groups`: groups whose rows are wanted from an earlier moment on. `leader_moves`: by cluster; None: no
    cluster is parted."""
    of_groups = since_of_groups or {}
    files = warehouse.files(REBALANCES, versions[REBALANCES])
    if clusters_of_wrong_clocks(warehouse, versions).isdisjoint(since):
        files = files_since(files, min([*since.values(), *of_groups.values()]))
    first: dict[Place, int] = {}
    counts: Counter[Place] = Counter()
    if files:
        with cursor() as db:
            asked = {"cluster_id": list(since), "from_ms": pa.array(list(since.values()), pa.int64())}
            db.register("since", pa.table(asked))
            earlier = places_table(of_groups).append_column(
                "earlier_ms", pa.chunked_array([[of_groups[place] for place in sorted(of_groups)]], pa.int64())
            )
            db.register("earlier", earlier)
            found = db.execute(
                f"SELECT cluster_id, group_id, min(place) FILTER ({AT} >= coalesce(earlier_ms, from_ms)) since, "
                f"count(*) FROM {relation(files)} JOIN since USING (cluster_id) "
                "LEFT JOIN earlier USING (cluster_id, group_id) GROUP BY ALL HAVING since IS NOT NULL"
            ).fetchall()
        for cluster_id, group_id, place, count in found:
            first[cluster_id, group_id] = place
            counts[cluster_id, group_id] = count
    tied: list[list[PlaceOrNone]] = []
    if leader_moves is not None and (large := {c for c, count in _by_cluster(counts).items() if count > BUCKET_ROWS}):
        of_large = {place: at for place, at in first.items() if place[0] in large}
        tied = tied_groups(files, of_large, {cluster_id: leader_moves.get(cluster_id, ()) for cluster_id in large})
    return ClusterReader(
        rebalances=GroupReader(files={REBALANCES: files}, columns={REBALANCES: READ}, groups=places_table(first)),
        first=first,
        findings=warehouse.files(FINDINGS, versions[FINDINGS]),
        since=since,
        shown=pa.array(sorted({f for cluster_id in since for f in stored.still_shown(cluster_id)}), pa.string()),
        buckets=_buckets(since, counts, buckets_at_least, tied),
    )


def _by_cluster(counts: Mapping[Place, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (cluster_id, _), count in counts.items():
        found[cluster_id] += count
    return found


def _buckets(
    clusters: Iterable[str], counts: Mapping[Place, int], at_least: int, tied: Iterable[Sequence[PlaceOrNone]]
) -> Buckets:
    """About as many rebalances in each. `counts`: by group; `tied`: all groups of the clusters that are parted, those
    together that stay together."""
    full = min(max(sum(counts.values()) // at_least, 1), BUCKET_ROWS)
    parts: dict[str, list[Sequence[PlaceOrNone]]] = defaultdict(list)
    for together in tied:
        parts[together[0][0]].append(together)
    sizes = _by_cluster(counts)
    of_cluster: dict[str, int] = {}
    of_group: dict[Place, int] = {}
    bucket = filled = 0
    for cluster_id in sorted(clusters):
        for together in parts.get(cluster_id, [[]]):
            own = (counts[of, group_id] for of, group_id in together if group_id is not None)
            size = sum(own) if together else sizes[cluster_id]
            if filled and size and filled + size > full:
                bucket, filled = bucket + 1, 0
            filled += size
            for of, group_id in together:
                if group_id is not None:
                    of_group[of, group_id] = bucket
            if not together or together[-1][1] is None:  # what belongs to no group comes last
                of_cluster[cluster_id] = bucket
    return Buckets(of_cluster=of_cluster, of_group=of_group)


def small_tables(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    since: Mapping[str, int],
    now_ms: Mapping[str, int],
    leader_moves: pa.Table,
) -> SmallTables:
    return SmallTables(
        now_ms={cluster_id: now_ms.get(cluster_id, 0) for cluster_id in since},
        tasks=open_tasks(warehouse, versions), reassignments=reassignments_since(warehouse, versions, since),
        leader_moves=moves_of(leader_moves),
    )  # fmt: skip


def packing(shared: Callable[[], tuple[ClusterReader, SmallTables]]) -> ArrowTask:
    def pack(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, _ = shared()
        waiting: dict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
        held: Counter[tuple[int, str]] = Counter()
        for named in (row for some in work for row in some.to_pylist()):
            if not named["file"]:
                yield parcel(named["row_group"], 0, "", _NOTHING)
                continue
            for rows, buckets in reader.rows(named):
                for bucket, part in parted(rows, buckets):
                    key = bucket, named["table"]
                    waiting[key].append(part)
                    held[key] += len(part)
                    if held[key] >= _ROWS_AT_ONCE or held.total() > _HELD_AT_MOST:
                        most = max(held, key=held.__getitem__)
                        del held[most]
                        yield from _packed(*most, waiting.pop(most))
        for (bucket, table), of_bucket in waiting.items():
            yield from _packed(bucket, table, of_bucket)

    return pack


def _packed(bucket: int, table: str, parts: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = pa.Table.from_batches(parts)
    if table == REBALANCES:
        with cursor() as db:
            db.register("rebalance", rows)
            rows = db.execute(f"SELECT {NARROWED} FROM rebalance").to_arrow_table()
    for batch in rows.combine_chunks().to_batches():
        yield parcel(bucket, 0, table, batch)


def clusters_in(
    parcels: Iterator[pa.RecordBatch],
    reader: ClusterReader,
    small: SmallTables,
    limits: LimitsOf,
) -> Iterator[ClusterRows]:
    """All clusters, or parts of them, of the buckets that these parcels are of; those of a bucket come one after the
    other."""
    rows = (row for some in parcels for row in some.to_pylist())
    first_places: dict[str, dict[str, int]] = defaultdict(dict)
    for (cluster_id, group_id), place in reader.first.items():
        first_places[cluster_id][group_id] = place
    for bucket, of_bucket in groupby(rows, key=itemgetter("bucket")):
        parts: dict[str, list[pa.Table]] = defaultdict(list)
        for one in of_bucket:
            parts[one["kind"]].append(pa.ipc.open_stream(one["rows"]).read_all())
        rebalances = _rebalances(parts.pop(REBALANCES, []))
        findings = _findings(parts.pop(FINDINGS, []))
        with_others = {cluster for cluster, of_cluster in reader.buckets.of_cluster.items() if of_cluster == bucket}
        for cluster_id in sorted({*rebalances, *findings, *with_others}):
            groups = rebalances.pop(cluster_id, {})
            yield ClusterRows(
                cluster_id=cluster_id,
                now_ms=small.now_ms[cluster_id],
                groups=groups,
                first_places=first_places.get(cluster_id, {}),
                tasks=[task for task in small.tasks.get(cluster_id, ()) if task.group_id in groups],
                reassignments=small.reassignments.get(cluster_id, []) if cluster_id in with_others else (),
                leader_moves=[move for move in small.leader_moves.get(cluster_id, ()) if move.group_id in groups],
                findings=findings.pop(cluster_id, []),
                limits=partial(limits, cluster_id),
            )


def _rebalances(parts: Sequence[pa.Table]) -> dict[str, dict[str, list[Rebalance]]]:
    """By cluster and group, in order."""
    found: dict[str, dict[str, list[Rebalance]]] = {}
    if parts:
        rows = pa.concat_tables(parts)
        for rebalance in objects_in(Rebalance, rows.take(pc.sort_indices(rows["place"]))):
            found.setdefault(rebalance.cluster_id, {}).setdefault(rebalance.group_id, []).append(rebalance)
    return found


def _findings(parts: Sequence[pa.Table]) -> dict[str, list[tuple[str | None, Finding]]]:
    """By cluster, with their groups."""
    rows = [row for part in parts for row in part.to_pylist()]
    rows.sort(key=lambda row: (row["first_seen_at_ms"], row["finding_id"]))
    found: dict[str, list[tuple[str | None, Finding]]] = defaultdict(list)
    for row in rows:
        found[row["cluster_id"]].append((row["group_id"], from_row(Finding, row)))
    return found
