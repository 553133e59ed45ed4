"""The incidents of a cluster from a moment on at which nothing was going on. That moment is a margin before the news,
or earlier if an incident reaches into it. Files hold rows of many clusters, so they are read once for all clusters, and
each cluster's rows go to one task.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.detect import LimitsOf
from rebalance_audit.domain.incidents import ClusterRows, incident_row, incidents_of, mark_row
from rebalance_audit.domain.incidents.around import MARGIN_MS, OF_SEVERAL
from rebalance_audit.domain.incidents.symptoms import SYMPTOMS
from rebalance_audit.domain.incidents.troubles import UNITING
from rebalance_audit.domain.kinds import FindingStatus
from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance, from_row
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign.model import Reassignment
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.file_sizes import leading_column
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import ArrowTask, Engine, parcel
from spark_jobs.group_rows import GroupReader, Place, files_since, places_table
from spark_jobs.incidents.known import MOMENT_OF_CLUSTER, KnownIncidents, moment_params
from spark_jobs.incidents.replaced import Incidents, scope_of
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
from spark_jobs.structs import objects_in
from spark_jobs.task_files import (
    WRITTEN,
    Flags,
    Numbers,
    TaskWriter,
    batches_of,
    files_by_table,
    numbers_of,
    parted,
    row_groups,
)

_NOTHING = pa.record_batch({"cluster_id": pa.array([], pa.string())})
_NO_CLUSTER = -1 << 62
_ROWS_AT_ONCE = 2_000
_BUCKET_ROWS = 20_000
_BUCKETS_PER_TASK = 4


def incidents_since(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    leader_moves: pa.Table,
    news: Mapping[str, int],
    now_ms: Mapping[str, int],
    limits: LimitsOf,
    engine: Engine,
    folder: str,
) -> Incidents:
    """All that happened in clusters of which much is new, from a while before the news."""
    stored = KnownIncidents(warehouse)
    since = reaching_back(
        warehouse,
        versions,
        stored,
        {c: min(at_ms - MARGIN_MS, stored.open_since(c, at_ms)) for c, at_ms in news.items()},
    )
    reader = _reader(warehouse, versions, since, stored, _BUCKETS_PER_TASK * engine.tasks_at_once)
    small = _small_tables(warehouse, versions, since, now_ms, leader_moves)
    asked = engine.share((reader, small))
    found = engine.gather(
        reader.work(), _packing(asked), _building(asked, limits, folder), WRITTEN, buckets=reader.bucket_count
    )
    written = files_by_table(found)
    gone = stored.since(since)
    incidents, marks = written.get("gold.incident", []), written.get("gold.mark", [])
    return Incidents(
        incidents,
        scope_of("incident_id", gone, incidents),
        marks,
        scope_of("mark_id", _marks_of_evidence(warehouse, since), marks),
    )


def reaching_back(
    warehouse: Warehouse, versions: Mapping[str, int], stored: KnownIncidents, from_ms: Mapping[str, int]
) -> dict[str, int]:
    """For each cluster the moment from which on everything is needed: where an incident or a symptom reaches into it,
    or a finding that makes one trouble of several and is in no incident yet, as around few news."""
    since = stored.reaching_back(from_ms)
    while earlier := _begins_of_symptoms(warehouse, versions, stored, since):
        since = stored.reaching_back(since | earlier)
    return since


def _begins_of_symptoms(
    warehouse: Warehouse, versions: Mapping[str, int], stored: KnownIncidents, since: Mapping[str, int]
) -> dict[str, int]:
    """By cluster the earlier moment from which on such findings and symptoms need everything."""
    files = warehouse.files(FINDINGS, versions[FINDINGS])
    if not files:
        return {}
    with cursor() as db:
        moment = f"coalesce({MOMENT_OF_CLUSTER}, first_seen_at_ms)"
        found = db.execute(
            f"SELECT cluster_id, finding_id, rule_id, status, first_seen_at_ms FROM {relation(files)} "
            f"WHERE list_contains(?::VARCHAR[], rule_id) AND first_seen_at_ms < {moment} "
            f"AND cluster_id IN (SELECT unnest(?::VARCHAR[])) AND (status = 'open' OR last_seen_at_ms >= {moment})",
            [sorted(SYMPTOMS), *moment_params(since), list(since), *moment_params(since)],
        ).fetchall()
    known = {f for row in stored.since(since) for f in row["finding_ids"]} if found else set()
    begins: dict[str, int] = {}
    for cluster_id, finding_id, rule_id, status, at_ms in found:
        if finding_id in known and status == FindingStatus.OPEN and rule_id not in OF_SEVERAL:
            continue  # a state that lasts is a symptom of what it began with, which is open as well
        is_new = rule_id in UNITING and finding_id not in known
        begins[cluster_id] = min(at_ms - MARGIN_MS * is_new, begins.get(cluster_id, at_ms))
    return begins


def cluster_rows(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    cluster_id: str,
    from_ms: int,
    *,
    now_ms: int,
    limits: LimitsOf,
    from_ms_of: Mapping[str, int],
    stored: KnownIncidents,
) -> ClusterRows:
    """The rows that the incidents of one cluster since `from_ms` were made from at the last publication. `from_ms_of`:
    groups whose rows are wanted from an earlier moment on."""
    moves = warehouse.read("gold.leader_move", None, "cluster_id = ?", [cluster_id])
    since = {cluster_id: from_ms}
    of_groups = {(cluster_id, group_id): at_ms for group_id, at_ms in from_ms_of.items()}
    reader = _reader(warehouse, versions, since, stored, 1, of_groups)
    small = _small_tables(warehouse, versions, since, {cluster_id: now_ms}, moves)
    parcels = _packing(lambda: (reader, small))(iter(reader.work().to_batches()))
    [rows] = _clusters_in(parcels, reader, small, limits)
    return rows


# ---- what incidents are made of: read once for all clusters, worked out cluster by cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class _ClusterReader:
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
    buckets: Mapping[str, int]
    """By cluster."""

    @property
    def bucket_count(self) -> int:
        return max(self.buckets.values(), default=-1) + 1

    def work(self) -> pa.Table:
        """The reading to do. One row without a file for each bucket: of a cluster there may be nothing to read."""
        parts = [self.rebalances.work(), row_groups({FINDINGS: self.findings})]
        each = [{"table": "", "file": "", "row_group": bucket} for bucket in range(self.bucket_count)]
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
        return chosen, _of_clusters(chosen, self.buckets)


def _of_clusters(rows: pa.RecordBatch, numbers: Mapping[str, int]) -> Numbers:
    """The number of each row's cluster; the least there is where it has none."""
    coded = rows["cluster_id"].dictionary_encode()
    known = np.array([numbers.get(cluster_id, _NO_CLUSTER) for cluster_id in coded.dictionary.to_pylist()], np.int64)
    found: Numbers = known[coded.indices.to_numpy()]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _SmallTables:
    """The small tables that incidents need, by cluster."""

    now_ms: Mapping[str, int]
    tasks: Mapping[str, list[ConnectTask]]
    reassignments: Mapping[str, list[Reassignment]]
    leader_moves: Mapping[str, list[LeaderMove]]


def _reader(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    since: Mapping[str, int],
    stored: KnownIncidents,
    buckets_at_least: int,
    since_of_groups: Mapping[Place, int] | None = None,
) -> _ClusterReader:
    of_groups = since_of_groups or {}
    files = warehouse.files(REBALANCES, versions[REBALANCES])
    if clusters_of_wrong_clocks(warehouse, versions).isdisjoint(since):
        files = files_since(files, min([*since.values(), *of_groups.values()]))
    first: dict[Place, int] = {}
    counts: Counter[str] = Counter()
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
            counts[cluster_id] += count
    return _ClusterReader(
        rebalances=GroupReader(files={REBALANCES: files}, columns={REBALANCES: READ}, groups=places_table(first)),
        first=first,
        findings=warehouse.files(FINDINGS, versions[FINDINGS]),
        since=since,
        shown=pa.array(sorted({f for cluster_id in since for f in stored.still_shown(cluster_id)}), pa.string()),
        buckets=_buckets(since, counts, buckets_at_least),
    )


def _buckets(clusters: Iterable[str], counts: Mapping[str, int], at_least: int) -> dict[str, int]:
    """About as many rebalances in each, as far as clusters let themselves be parted."""
    full = min(max(sum(counts.values()) // at_least, 1), _BUCKET_ROWS)
    found: dict[str, int] = {}
    bucket = filled = 0
    for cluster_id in sorted(clusters):
        if filled and filled + counts.get(cluster_id, 0) > full:
            bucket, filled = bucket + 1, 0
        found[cluster_id] = bucket
        filled += counts.get(cluster_id, 0)
    return found


def _small_tables(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    since: Mapping[str, int],
    now_ms: Mapping[str, int],
    leader_moves: pa.Table,
) -> _SmallTables:
    return _SmallTables(
        now_ms={cluster_id: now_ms.get(cluster_id, 0) for cluster_id in since},
        tasks=open_tasks(warehouse, versions), reassignments=reassignments_since(warehouse, versions, since),
        leader_moves=moves_of(leader_moves),
    )  # fmt: skip


def _packing(shared: Callable[[], tuple[_ClusterReader, _SmallTables]]) -> ArrowTask:
    def pack(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, _ = shared()
        waiting: dict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
        for named in (row for some in work for row in some.to_pylist()):
            if not named["file"]:
                yield parcel(named["row_group"], 0, "", _NOTHING)
                continue
            for rows, buckets in reader.rows(named):
                for bucket, part in parted(rows, buckets):
                    of_bucket = waiting[bucket, named["table"]]
                    of_bucket.append(part)
                    if sum(map(len, of_bucket)) >= _ROWS_AT_ONCE:
                        yield from _packed(bucket, named["table"], of_bucket)
                        of_bucket.clear()
        for (bucket, table), of_bucket in waiting.items():
            if of_bucket:
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


def _building(
    shared: Callable[[], tuple[_ClusterReader, _SmallTables]],
    limits: LimitsOf,
    folder: str,
) -> ArrowTask:
    def build(parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder)
        for rows in _clusters_in(parcels, *shared(), limits):
            found, marked = incidents_of(rows)
            built = {"gold.incident": list(map(incident_row, found)), "gold.mark": list(map(mark_row, marked))}
            for table, of_table in built.items():
                # Ids are by chance. In their order, each file of a large cluster has a part of them.
                of_table.sort(key=itemgetter(leading_column(table)))
                for batch in rows_to_table(table, of_table).to_batches():
                    writer.add(table, batch)
        yield from writer.written()

    return build


def _clusters_in(
    parcels: Iterator[pa.RecordBatch],
    reader: _ClusterReader,
    small: _SmallTables,
    limits: LimitsOf,
) -> Iterator[ClusterRows]:
    """All clusters of the buckets that these parcels are of; those of a bucket come one after the other."""
    rows = (row for some in parcels for row in some.to_pylist())
    first_places: dict[str, dict[str, int]] = defaultdict(dict)
    for (cluster_id, group_id), place in reader.first.items():
        first_places[cluster_id][group_id] = place
    for bucket, of_bucket in groupby(rows, key=itemgetter("bucket")):
        parts: dict[str, list[pa.Table]] = defaultdict(list)
        for one in of_bucket:
            parts[one["kind"]].append(pa.ipc.open_stream(one["rows"]).read_all())
        rebalances = _rebalances(parts[REBALANCES])
        findings = _findings(parts[FINDINGS])
        for cluster_id in sorted(cluster for cluster, of_cluster in reader.buckets.items() if of_cluster == bucket):
            yield ClusterRows(
                cluster_id=cluster_id,
                now_ms=small.now_ms[cluster_id],
                groups=rebalances.pop(cluster_id, {}),
                first_places=first_places.get(cluster_id, {}),
                tasks=small.tasks.get(cluster_id, []),
                reassignments=small.reassignments.get(cluster_id, []),
                leader_moves=small.leader_moves.get(cluster_id, []),
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


def _marks_of_evidence(warehouse: Warehouse, since: Mapping[str, int]) -> list[dict[str, Any]]:
    """The marks from these moments on, by cluster."""
    where = f"source = 'evidence' AND at_ms >= {MOMENT_OF_CLUSTER}"
    rows: list[dict[str, Any]] = warehouse.read(
        "gold.mark", ["cluster_id", "mark_id"], where, moment_params(since)
    ).to_pylist()
    return rows
