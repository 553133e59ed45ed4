"""One cluster's reassignments, steps, elections, partitions and findings, from what bronze has of it.

Memory follows the present state of all partitions, not the past: so many records are worked on at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from rebalance_audit.domain.detect import copy_conflict_findings, detect_reassignments
from rebalance_audit.domain.detect.reassignments import OF_CLUSTERS, OF_PARTITIONS
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
from spark_jobs.group_evidence import Clocks
from spark_jobs.metadata_log import (
    BronzeOfClusters,
    ClusterLog,
    controller_lines,
    doubtful_offset,
    log_offset,
    place_of,
)
from spark_jobs.plan import REASSIGN
from spark_jobs.stages.stage import Batch

OUTPUTS = REASSIGN.writes
STATES = "silver.partition"
OF_PARTITION = ("silver.reassignment", "silver.reassignment_step", "silver.leader_election", STATES)
"""Replaced by partition."""
FOUND = "silver.reassignment_finding"
RECORDS_AT_ONCE = 200_000


@dataclass(slots=True)
class News:
    """The news of one cluster."""

    records: pa.Table
    """Topics and offsets of the metadata log; none where all of it is new."""
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


@dataclass(slots=True)
class NewRows:
    """New rows by table, and the keys of the rows they replace."""

    parts: dict[str, list[pa.Table]] = field(default_factory=lambda: {table: [] for table in OUTPUTS})
    keys: dict[str, list[pa.Table]] = field(default_factory=lambda: {table: [] for table in OUTPUTS})

    def add(self, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
        if listed := list(rows):
            self.parts[table].append(rows_to_table(table, listed))

    def replaces(self, table: str, keys: Iterable[tuple[Any, ...]]) -> None:
        schema = key_schema(table)
        columns = list(zip(*keys, strict=True)) or [()] * len(schema)
        self.keys[table].append(pa.table([list(column) for column in columns], schema=schema))

    def replaces_all(self, table: str, warehouse: Warehouse, cluster_id: str) -> None:
        self.keys[table].append(warehouse.read(table, key_schema(table).names, "cluster_id = ?", [cluster_id]))

    def table(self, table: str) -> tuple[pa.Table, pa.Table]:
        """(rows, keys)."""
        data = pa.concat_tables([arrow_schema(table).empty_table(), *self.parts[table]])
        return data, pa.concat_tables([key_schema(table).empty_table(), *self.keys[table]])


def key_schema(table: str) -> pa.Schema:
    names = ("cluster_id", "subject") if table == FOUND else ("cluster_id", "topic", "partition")
    return pa.schema([arrow_schema(table).field(name) for name in names])


@dataclass(frozen=True, slots=True, kw_only=True)
class Clusters:
    """What is known about the clusters whose reassignments are worked out."""

    batch: Batch
    news: Mapping[str, News]
    clocks: Clocks

    def derive(self, warehouse: Warehouse, together: Sequence[str], output: NewRows) -> dict[str, int | None]:
        """For each of these clusters, which are read together, where its log ends if time alone changes nothing; else
        None."""
        bronze = BronzeOfClusters(warehouse, together, self.batch.until)
        return {cluster_id: self._derive(warehouse, cluster_id, bronze, output) for cluster_id in together}

    def _derive(self, warehouse: Warehouse, cluster_id: str, bronze: BronzeOfClusters, output: NewRows) -> int | None:
        news, clocks = self.news[cluster_id], self.clocks.get(cluster_id, {})
        lines = controller_lines(bronze.lines(cluster_id), clocks)
        if (records := bronze.records(cluster_id)).num_rows:
            with ClusterLog(cluster_id, records) as log:
                if not log.is_empty:
                    doubtful_from = doubtful_offset(bronze.readings(cluster_id))
                    is_quiet = _derive_from_log(warehouse, self.batch, log, doubtful_from, news, lines, output)
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
    news: News,
    lines: Sequence[PartitionLine],
    output: NewRows,
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


def _add(output: NewRows, history: ReassignmentHistory, reassignments: Iterable[Reassignment]) -> None:
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
    output: NewRows,
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
