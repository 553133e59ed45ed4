"""reassign: bronze.record, bronze.log_line -> silver.reassignment, .reassignment_step, .leader_election, .partition and
.reassignment_finding.

Rows in:  of each cluster with anything new: what its metadata log says of the partitions concerned, and all that
          controllers and brokers logged about partitions.
Rows out: those partitions' reassignments, steps, elections, state and findings, in place of what was there.
Law:      any cut, any repeat and any order of arrival give the same rows: a partition is always folded from its first
          record on. One is concerned if it has new records, or is moving (time alone may make it stall); all
          are if what arrived does not just go on where the log ended.
Where nothing moves and the controller only shows that it lives, the log is not read (decision 0052).
It runs on the driver, so many records at a time: memory follows the present state of all partitions, not the past.
Decision 0008.

    metadata log, partition t-0                                silver
    @10 Partition: replicas 1 2                           ->   partition: the state that everything starts from
    @11 PartitionChange: replicas 3 2 1, adding 3, removing 1
                                                          ->   reassignment: 1 2 to 3 2; reassignment_step 1
    @12 PartitionChange: replicas 3 2, adding and removing empty, isr 3 2, leader 3
                                                          ->   the same reassignment, completed; reassignment_step 2
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.cycles import without_cycle_search
from rebalance_audit.domain.detect import copy_conflict_findings, detect_reassignments
from rebalance_audit.domain.detect.reassignments import OF_CLUSTERS, OF_PARTITIONS
from rebalance_audit.domain.gather.clocks import NodeClock
from rebalance_audit.domain.metadata import MetadataReader
from rebalance_audit.domain.model import NO_END, Finding, to_row
from rebalance_audit.domain.reassign import (
    PartitionState,
    Reassignment,
    ReassignmentHistory,
    Throttle,
    election_row,
    imbalances,
    reassignment_row,
    step_rows,
)
from rebalance_audit.domain.reassign.history import reassignment_history
from rebalance_audit.domain.reassign.lines import PartitionLine
from rebalance_audit.warehouse.arrow_tables import arrow_schema, rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_evidence import node_clocks, settings_of
from spark_jobs.metadata_log import (
    NO_OP,
    OF_CONTROLLERS,
    OF_METADATA,
    OF_METADATA_READING,
    BronzeOfClusters,
    ClusterLog,
    bronze_by_clusters,
    controller_lines,
    doubtful_offset,
    log_offset,
    place_of,
)
from spark_jobs.plan import REASSIGN
from spark_jobs.stages.stage import Batch, Run, next_batch

NAME, INPUTS, OUTPUTS = REASSIGN.name, REASSIGN.reads, REASSIGN.writes
STATES = "silver.partition"
OF_PARTITION = ("silver.reassignment", "silver.reassignment_step", "silver.leader_election", STATES)
"""Replaced by partition."""
FOUND = "silver.reassignment_finding"
RECORDS_AT_ONCE = 200_000


def run(context: Run) -> bool:
    batch = next_batch(context.warehouse, NAME, INPUTS, OUTPUTS)
    if batch is None:
        return False
    clocks = node_clocks(context.warehouse, batch.until["silver.group_event"], batch.until["bronze.source"])
    settings = settings_of(clocks)
    output = _NewRows()
    noted = context.warehouse.recall(NAME)
    quiet: dict[str, int] = noted.get("quiet", {}) if noted.get("until") == batch.since else {}
    with without_cycle_search():
        news = _news(context.warehouse, batch, settings)
        still = {cluster_id: each.next_if_quiet(quiet.pop(cluster_id, None)) for cluster_id, each in news.items()}
        loud = [cluster_id for cluster_id, next_offset in still.items() if next_offset is None]
        for cluster_id, bronze in bronze_by_clusters(context.warehouse, loud, batch.until):
            of_cluster = news[cluster_id], bronze, clocks.get(cluster_id, {})
            still[cluster_id] = _derive(context.warehouse, batch, cluster_id, *of_cluster, output)
        quiet |= {cluster_id: next_offset for cluster_id, next_offset in still.items() if next_offset is not None}
    for table in OUTPUTS:
        data, keys = output.table(table)
        context.replace(table, data, keys, batch.batch_id, batch.transaction)
    # After the commits: if this is lost, some clusters are only worked out once more.
    context.warehouse.remember(NAME, {"clocks": settings, "quiet": quiet, "until": batch.until})
    return True


@dataclass(slots=True)
class _News:
    """The news of one cluster."""

    records: pa.Table
    """Topics and offsets of the metadata log."""
    has_lines: bool
    """Whether there are new lines, or older ones whose times changed."""
    are_no_ops: bool
    """All new records are those by which a controller shows twice a second that it lives."""

    def next_if_quiet(self, next_offset: int | None) -> int | None:
        """Where the log ends now, if it goes on at `next_offset` with what changes no row: where nothing moves and no
        rule waits. None if it must be read."""
        if next_offset is None or self.has_lines or not self.are_no_ops:
            return None
        came = sorted(set(self.records["offset"].to_pylist()))
        after = next_offset + len(came)
        return after if came in ([], list(range(next_offset, after))) else None


def _news(warehouse: Warehouse, batch: Batch, settings: Mapping[str, Any]) -> dict[str, _News]:
    def changed(table: str, columns: list[str], where: str) -> pa.Table:
        return warehouse.changed_keys(table, columns, batch.since[table], batch.until[table], where)

    records = changed("bronze.record", ["cluster_id", "topic", "offset"], OF_METADATA)
    read = changed("bronze.source", ["cluster_id"], OF_METADATA_READING)
    with_lines = set(changed("bronze.log_line", ["cluster_id"], OF_CONTROLLERS)["cluster_id"].to_pylist())
    before = warehouse.recall(NAME).get("clocks", {})
    with_lines |= {cluster_id for cluster_id, known in settings.items() if known != before.get(cluster_id)}
    of_records = pc.unique(records["cluster_id"]).to_pylist()
    loud = changed("bronze.record", ["cluster_id"], f"{OF_METADATA} AND NOT ({NO_OP})")["cluster_id"].to_pylist()
    return {
        cluster_id: _News(
            records.filter(pc.equal(records["cluster_id"], cluster_id)).drop_columns("cluster_id"),
            cluster_id in with_lines,
            cluster_id not in loud,
        )
        for cluster_id in {*of_records, *read["cluster_id"].to_pylist(), *with_lines}
    }


@dataclass(slots=True)
class _NewRows:
    """New rows by table, and the keys of the rows they replace."""

    parts: dict[str, list[pa.Table]] = field(default_factory=lambda: {table: [] for table in OUTPUTS})
    keys: dict[str, list[pa.Table]] = field(default_factory=lambda: {table: [] for table in OUTPUTS})

    def add(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        if listed := list(rows):
            self.parts[table].append(rows_to_table(table, listed))

    def replaces(self, table: str, keys: Iterable[tuple[Any, ...]]) -> None:
        schema = _key_schema(table)
        columns = list(zip(*keys, strict=True)) or [()] * len(schema)
        self.keys[table].append(pa.table([list(column) for column in columns], schema=schema))

    def replaces_all(self, table: str, warehouse: Warehouse, cluster_id: str) -> None:
        self.keys[table].append(warehouse.read(table, _key_schema(table).names, "cluster_id = ?", [cluster_id]))

    def table(self, table: str) -> tuple[pa.Table, pa.Table]:
        """(rows, keys)."""
        data = pa.concat_tables([arrow_schema(table).empty_table(), *self.parts[table]])
        return data, pa.concat_tables([_key_schema(table).empty_table(), *self.keys[table]])


def _key_schema(table: str) -> pa.Schema:
    names = ("cluster_id", "subject") if table == FOUND else ("cluster_id", "topic", "partition")
    return pa.schema([arrow_schema(table).field(name) for name in names])


def _derive(
    warehouse: Warehouse,
    batch: Batch,
    cluster_id: str,
    news: _News,
    bronze: BronzeOfClusters,
    clocks: Mapping[str, NodeClock],
    output: _NewRows,
) -> int | None:
    """Where the log ends, if time alone changes nothing; else None."""
    lines = controller_lines(bronze.lines(cluster_id), clocks)
    if (records := bronze.records(cluster_id)).num_rows:
        with ClusterLog(cluster_id, records) as log:
            if not log.is_empty:
                doubtful_from = doubtful_offset(bronze.readings(cluster_id))
                is_quiet = _derive_from_log(warehouse, batch, log, doubtful_from, news, lines, output)
                return log.stretches[-1][1] if is_quiet and log.stretches else None
    if news.has_lines:
        history = reassignment_history((), lines, cluster_id=cluster_id)
        for table in OUTPUTS:
            output.replaces_all(table, warehouse, cluster_id)
        _add(output, history, history.reassignments)
        output.add(FOUND, map(_finding_row, detect_reassignments(history)))
    return None


def _derive_from_log(
    warehouse: Warehouse,
    batch: Batch,
    log: ClusterLog,
    doubtful_from: int | None,
    news: _News,
    lines: Sequence[PartitionLine],
    output: _NewRows,
) -> bool:
    """Whether nothing moves, and nothing about the cluster is found, nor will be when more time has passed."""
    cluster_id = log.cluster_id
    unfinished = _unfinished(warehouse, cluster_id)
    places = None if batch.since["bronze.record"] < 0 else log.new_places(news.records)
    is_whole = places is None
    if places is None:
        places = log.places()
    else:
        places = log.namesakes(places | unfinished | (log.places(only_changed=True) if news.has_lines else set()))
    summary = _Summary(cluster_id)
    names: set[tuple[str, int]] = set()
    for at, chunk in enumerate(log.chunks(places, RECORDS_AT_ONCE)):
        own = {log.name_of(place) for place in chunk}
        names |= own
        reader = MetadataReader(stretches=log.stretches)
        about = lines if at == 0 and news.has_lines else _about(lines, own)
        history = reassignment_history(log.sources(chunk), about, cluster_id=cluster_id, reader=reader)
        # A refused request left no record: it may be about any partition.
        mine = [
            _doubted(r, doubtful_from)
            for r in history.reassignments
            if (r.topic, r.partition) in own or (at == 0 and news.has_lines and r.outcome == "refused")
        ]
        history = replace(history, reassignments=tuple(mine))
        _add(output, history, mine)
        output.add(FOUND, map(_finding_row, detect_reassignments(history, rules=OF_PARTITIONS)))
        summary.take(history)
    keys = [(cluster_id, *name) for name in names]
    for table in OF_PARTITION:
        if is_whole or (news.has_lines and table != STATES):
            output.replaces_all(table, warehouse, cluster_id)
        output.replaces(table, keys)
    is_quiet = _derive_of_cluster(warehouse, log, summary, names, output, is_whole=is_whole or news.has_lines)
    return is_quiet and summary.is_over


def _unfinished(warehouse: Warehouse, cluster_id: str) -> set[str]:
    """The places of partitions that move, or whose history may yet change."""
    rows = warehouse.read(
        "silver.reassignment", ["topic_id", "partition"],
        "cluster_id = ? AND topic_id IS NOT NULL AND NOT is_final", [cluster_id],
    )  # fmt: skip
    return {place_of(**row) for row in rows.to_pylist()}


def _about(lines: Sequence[PartitionLine], names: set[tuple[str, int]]) -> list[PartitionLine]:
    """Lines about these partitions or about none; and the last line, which says how far lines go."""
    topics = {topic for topic, _ in names}
    wanted = [
        line
        for line in lines[:-1]
        if line.event.topic is None
        or (line.event.partition is None and line.event.topic in topics)
        or (line.event.topic, line.event.partition) in names
    ]
    return [*wanted, *lines[-1:]]


def _doubted(r: Reassignment, doubtful_from: int | None) -> Reassignment:
    """Whether the end of the log may still change because only few copies hold it."""
    if doubtful_from is None or max(map(log_offset, r.evidence), default=-1) < doubtful_from:
        return r
    doubt = "Only a minority of the copies at hand holds the latest of it."
    return replace(r, is_final=False, detail=f"{r.detail} {doubt}" if r.detail else doubt)


def _add(output: _NewRows, history: ReassignmentHistory, reassignments: Iterable[Reassignment]) -> None:
    reassignments = list(reassignments)
    output.add("silver.reassignment", map(reassignment_row, reassignments))
    output.add("silver.reassignment_step", (row for r in reassignments for row in step_rows(r)))
    output.add("silver.leader_election", map(election_row, history.elections))
    output.add(
        STATES,
        (
            {
                "cluster_id": history.cluster_id, "topic": topic, "partition": partition, "replicas": state.replicas,
                "isr": state.isr, "leader": state.leader, "leader_epoch": state.leader_epoch, "ref": state.ref,
            }
            for (topic, partition), state in history.states.items()
        ),
    )  # fmt: skip


@dataclass(slots=True)
class _Summary:
    """The facts about parts of a cluster that rules about the whole cluster need."""

    cluster_id: str
    open: list[Reassignment] = field(default_factory=list)
    last_ended: Reassignment | None = None
    states: dict[tuple[str, int], PartitionState] = field(default_factory=dict)
    throttles: tuple[Throttle, ...] = ()
    seen_until_ms: int | None = None
    is_over: bool = True
    """No reassignment may yet change."""

    def take(self, history: ReassignmentHistory) -> None:
        self.throttles, self.seen_until_ms = history.throttles, history.seen_until_ms
        self.states.update(history.states)
        for r in history.reassignments:
            self.is_over = self.is_over and r.is_final
            if r.outcome == "open":
                self.open.append(r)
            else:
                self.ended(r)

    def ended(self, r: Reassignment) -> None:
        last_ms = -1 if self.last_ended is None else self.last_ended.ended_at_ms or -1
        if (r.ended_at_ms or -1) > last_ms:
            self.last_ended = r


def _derive_of_cluster(
    warehouse: Warehouse,
    log: ClusterLog,
    summary: _Summary,
    names: set[tuple[str, int]],
    output: _NewRows,
    *,
    is_whole: bool,
) -> bool:
    """Findings about the cluster, from what is new now and what stays as it is. Whether there are none, however long
    the log goes on like this."""
    cluster_id = log.cluster_id
    if not is_whole:
        for row in warehouse.read(STATES, where="cluster_id = ?", params=[cluster_id]).to_pylist():
            if (name := (row["topic"], row["partition"])) not in names:
                summary.states[name] = PartitionState(
                    replicas=tuple(row["replicas"]), isr=tuple(row["isr"]), leader=row["leader"], ref=row["ref"]
                )
        for row in _latest_ended(warehouse, cluster_id):
            summary.ended(Reassignment(cluster_id=cluster_id, reassignment_id="", outcome="completed", **row))
    history = ReassignmentHistory(
        cluster_id=cluster_id,
        reassignments=(*summary.open, *([summary.last_ended] if summary.last_ended else [])),
        throttles=summary.throttles,
        imbalances=imbalances(summary.states),
        seen_until_ms=summary.seen_until_ms,
    )
    found = detect_reassignments(history, rules=OF_CLUSTERS)
    conflict = log.conflict()
    found += copy_conflict_findings([conflict] if conflict is not None else [])
    if is_whole:
        output.replaces_all(FOUND, warehouse, cluster_id)
    else:
        stored = warehouse.read(FOUND, ["subject"], "cluster_id = ? AND subject_type <> 'partition'", [cluster_id])
        output.replaces(FOUND, [(cluster_id, subject) for subject in stored["subject"].to_pylist()])
    output.replaces(FOUND, [(cluster_id, f"{topic}-{partition}") for topic, partition in names])
    output.add(FOUND, map(_finding_row, found))
    return not found and not detect_reassignments(replace(history, seen_until_ms=NO_END), rules=OF_CLUSTERS)


def _latest_ended(warehouse: Warehouse, cluster_id: str) -> list[dict[str, Any]]:
    where = "cluster_id = ? AND ended_at_ms IS NOT NULL ORDER BY ended_at_ms DESC LIMIT 1"
    return warehouse.read(
        "silver.reassignment", ["topic", "partition", "ended_at_ms"], where, [cluster_id]
    ).to_pylist()  # fmt: skip


def _finding_row(finding: Finding) -> dict[str, Any]:
    return to_row(finding) | {"group_id": None}
