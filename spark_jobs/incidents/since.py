"""The incidents of a cluster from a moment on at which nothing was going on. That moment is a margin before the news,
or earlier if an incident reaches into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa

from rebalance_audit.domain.detect import LimitsOf
from rebalance_audit.domain.incidents import ClusterRows, incident_row, incidents_of, mark_row
from rebalance_audit.domain.incidents.around import MARGIN_MS, OF_SEVERAL
from rebalance_audit.domain.incidents.symptoms import SYMPTOMS
from rebalance_audit.domain.incidents.troubles import UNITING
from rebalance_audit.domain.kinds import FindingStatus
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import ArrowTask, Engine
from spark_jobs.incidents.by_id import add_rows, ordered_by_id
from spark_jobs.incidents.known import MOMENT_OF_CLUSTER, KnownIncidents, moment_params
from spark_jobs.incidents.reading import ClusterReader, SmallTables, clusters_in, packing, reader_of, small_tables
from spark_jobs.incidents.replaced import Incidents, scope_of
from spark_jobs.incidents.rows import FINDINGS
from spark_jobs.task_files import WRITTEN, TaskWriter, files_by_table

_BUCKETS_PER_TASK = 4
_RECENT_MS = 2 * MARGIN_MS
"""Before the end of a cluster's evidence: news of a while later ask for the incidents of the margin before them."""
_ROWS_AT_ONCE = 2_000


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
    small = small_tables(warehouse, versions, since, now_ms, leader_moves)
    reader = reader_of(
        warehouse, versions, since, stored, leader_moves=small.leader_moves,
        buckets_at_least=_BUCKETS_PER_TASK * engine.tasks_at_once,
    )  # fmt: skip
    asked = engine.share((reader, small))
    recent = {cluster_id: at_ms - _RECENT_MS for cluster_id, at_ms in now_ms.items()}
    found = engine.gather(
        reader.work(), packing(asked), _building(asked, limits, recent, folder), WRITTEN, buckets=reader.buckets.count
    )
    written = files_by_table(found)
    if reader.buckets.of_group:  # each part of a large cluster has ids of all kinds
        written = ordered_by_id(engine, written, recent, folder)
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
    reader = reader_of(warehouse, versions, since, stored, since_of_groups=of_groups)
    small = small_tables(warehouse, versions, since, {cluster_id: now_ms}, moves)
    parcels = packing(lambda: (reader, small))(iter(reader.work().to_batches()))
    [rows] = clusters_in(parcels, reader, small, limits)
    return rows


def _building(
    shared: Callable[[], tuple[ClusterReader, SmallTables]],
    limits: LimitsOf,
    recent: Mapping[str, int],
    folder: str,
) -> ArrowTask:
    def build(parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder)
        for rows in clusters_in(parcels, *shared(), limits):
            incidents, marks = incidents_of(rows)
            # Ids are by chance. In their order, each file of a large cluster has a part of them.
            incidents.sort(key=attrgetter("incident_id"))
            for at in range(0, len(incidents), _ROWS_AT_ONCE):
                _write(writer, "gold.incident", map(incident_row, incidents[at : at + _ROWS_AT_ONCE]), recent)
            _write(writer, "gold.mark", sorted(map(mark_row, marks), key=itemgetter("mark_id")), recent)
        yield from writer.written()

    return build


def _write(writer: TaskWriter, table: str, rows: Iterable[dict[str, Any]], recent: Mapping[str, int]) -> None:
    for batch in rows_to_table(table, list(rows)).to_batches():
        add_rows(writer, table, batch, recent)


def _marks_of_evidence(warehouse: Warehouse, since: Mapping[str, int]) -> list[dict[str, Any]]:
    """The marks from these moments on, by cluster."""
    where = f"source = 'evidence' AND at_ms >= {MOMENT_OF_CLUSTER}"
    rows: list[dict[str, Any]] = warehouse.read(
        "gold.mark", ["cluster_id", "mark_id"], where, moment_params(since)
    ).to_pylist()
    return rows
