"""reassign: bronze.record, bronze.log_line -> silver.reassignment, .reassignment_step, .leader_election, .partition and
.reassignment_finding.

Rows in:  of each cluster with anything new: what its metadata log says of the partitions concerned, and all that
          controllers and brokers logged about partitions.
Rows out: those partitions' reassignments, steps, elections, state and findings, in place of what was there.
Law:      any cut, any repeat and any order of arrival give the same rows: a partition is always folded from its first
          record on. One is concerned if it has new records, or is moving (time alone may make it stall); all
          are if what arrived does not just go on where the log ended.
Where nothing moves and the controller only shows that it lives, the log is not read (decision 0052).
Clusters do not know each other (`cluster_reassignments`): of many, each task works out some. Decisions 0008, 0075.

    metadata log, partition t-0                                silver
    @10 Partition: replicas 1 2                           ->   partition: the state that everything starts from
    @11 PartitionChange: replicas 3 2 1, adding 3, removing 1
                                                          ->   reassignment: 1 2 to 3 2; reassignment_step 1
    @12 PartitionChange: replicas 3 2, adding and removing empty, isr 3 2, leader 3
                                                          ->   the same reassignment, completed; reassignment_step 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.cycles import without_cycle_search
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.cluster_reassignments import Clusters, NewRows, News, key_schema
from spark_jobs.engine import ArrowTask, LocalEngine
from spark_jobs.group_evidence import node_clocks, settings_of
from spark_jobs.metadata_log import NO_OP, OF_CONTROLLERS, OF_METADATA, OF_METADATA_READING, portions_of
from spark_jobs.plan import REASSIGN
from spark_jobs.stages.stage import Batch, Run, added_files
from spark_jobs.task_files import WRITTEN, TaskWriter, files_by_table, rows_for_driver

NAME, INPUTS, OUTPUTS = REASSIGN.name, REASSIGN.reads, REASSIGN.writes
_REPLACED = {table: f"replaced in {table}" for table in OUTPUTS}
_STILL = "still"
_OF_DRIVER = {
    _STILL: pa.schema([("cluster_id", pa.string()), ("next_offset", pa.int64())]),
    **{name: key_schema(table) for table, name in _REPLACED.items()},
}
"""Rows that only the driver reads: where the logs of quiet clusters end, and the keys of replaced rows."""


def run(context: Run) -> bool:
    batch = context.next_batch(NAME, INPUTS, OUTPUTS)
    if batch is None:
        return False
    clocks = node_clocks(context.warehouse, batch.until["silver.group_event"], batch.until["bronze.source"])
    settings = settings_of(clocks)
    noted = context.warehouse.recall(NAME)
    quiet: dict[str, int] = noted.get("quiet", {}) if noted.get("until") == batch.since else {}
    with without_cycle_search():
        news = _news(context.warehouse, batch, settings)
        still = {cluster_id: each.next_if_quiet(quiet.pop(cluster_id, None)) for cluster_id, each in news.items()}
        loud = [cluster_id for cluster_id, next_offset in still.items() if next_offset is None]
        clusters = Clusters(batch=batch, news={cluster_id: news[cluster_id] for cluster_id in loud}, clocks=clocks)
        still |= _derive(context, clusters)
        quiet |= {cluster_id: next_offset for cluster_id, next_offset in still.items() if next_offset is not None}
    # After the commits: if this is lost, some clusters are only worked out once more.
    context.warehouse.remember(NAME, {"clocks": settings, "quiet": quiet, "until": batch.until})
    return True


def _news(warehouse: Warehouse, batch: Batch, settings: Mapping[str, Any]) -> dict[str, News]:
    def changed(table: str, columns: list[str], where: str | None) -> pa.Table:
        return warehouse.changed_keys(table, columns, batch.since[table], batch.until[table], where)

    is_first = batch.since["bronze.record"] < 0
    records = changed("bronze.record", ["cluster_id"] if is_first else ["cluster_id", "topic", "offset"], OF_METADATA)
    read = changed("bronze.source", ["cluster_id"], OF_METADATA_READING)
    # In a first run all lines are read anyway: which clusters have some about partitions is not asked before.
    wanted = None if batch.since["bronze.log_line"] < 0 else OF_CONTROLLERS
    with_lines = set(changed("bronze.log_line", ["cluster_id"], wanted)["cluster_id"].to_pylist())
    before = warehouse.recall(NAME).get("clocks", {})
    with_lines |= {cluster_id for cluster_id, known in settings.items() if known != before.get(cluster_id)}
    of_records = pc.unique(records["cluster_id"]).to_pylist()
    loud = changed("bronze.record", ["cluster_id"], f"{OF_METADATA} AND NOT ({NO_OP})")["cluster_id"].to_pylist()
    return {
        cluster_id: News(
            records.filter(pc.equal(records["cluster_id"], cluster_id)).drop_columns("cluster_id"),
            cluster_id in with_lines,
            cluster_id not in loud,
        )
        for cluster_id in {*of_records, *read["cluster_id"].to_pylist(), *with_lines}
    }


def _derive(context: Run, clusters: Clusters) -> dict[str, int | None]:
    """Commits what was worked out about the clusters. For each, where its log ends if time alone changes nothing."""
    batch, warehouse = clusters.batch, context.warehouse
    portions = portions_of(warehouse, clusters.news, batch.until)
    engine = context.engine_for(_new_files(context, batch)) if len(portions) > 1 else LocalEngine()
    if isinstance(engine, LocalEngine):
        output = NewRows()
        still = {c: at for together in portions for c, at in clusters.derive(warehouse, together, output).items()}
        for table in OUTPUTS:
            context.replace(table, *output.table(table), batch.batch_id, batch.transaction)
        return still
    with context.staging_folder() as folder:
        work = pa.table({"clusters": pa.array(portions, pa.list_(pa.string()))})
        deriving = _deriving(folder, warehouse.location, engine.share(clusters))
        written = files_by_table(engine.spread(work, deriving, WRITTEN))
        for table in OUTPUTS:
            replaced = rows_for_driver(written.get(_REPLACED[table], []), key_schema(table))
            context.replace(table, written.get(table, []), replaced, batch.batch_id, batch.transaction)
        ends = rows_for_driver(written.get(_STILL, []), _OF_DRIVER[_STILL])
        return dict(zip(ends["cluster_id"].to_pylist(), ends["next_offset"].to_pylist(), strict=True))


def _new_files(context: Run, batch: Batch) -> list[str]:
    return [file for table in ("bronze.record", "bronze.log_line") for file in added_files(context, table, batch)]


def _deriving(folder: str, location: str, shared: Callable[[], Clusters]) -> ArrowTask:
    def derive(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer, clusters, warehouse = TaskWriter(folder, _OF_DRIVER), shared(), Warehouse.open(location)
        for together in (row["clusters"] for some in work for row in some.to_pylist()):
            output = NewRows()
            with without_cycle_search():
                still = clusters.derive(warehouse, together, output)
            ends = pa.table([list(still), list(still.values())], schema=_OF_DRIVER[_STILL])
            found = [(_STILL, ends)]
            for table in OUTPUTS:
                rows, keys = output.table(table)
                found += [(table, rows), (_REPLACED[table], keys)]
            for name, rows in found:
                for batch in rows.combine_chunks().to_batches():
                    writer.add(name, batch)
        yield from writer.written()

    return derive
