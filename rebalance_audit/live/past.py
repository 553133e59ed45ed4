"""The past of groups that come into memory, from the tables: their own evidence, and what happened around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rebalance_audit.domain.detect import LimitsOf
from rebalance_audit.domain.gather.belonging import Route
from rebalance_audit.domain.gather.groups import event_of_row
from rebalance_audit.domain.incidents.around import MARGIN_MS
from rebalance_audit.domain.model import CommitMark, from_row
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign import LeaderElection, PartitionState
from rebalance_audit.live.elections import MetadataPast
from rebalance_audit.live.group_memory import MOST_EVENTS, GroupPast
from rebalance_audit.live.memory import ClusterPast
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.belonging import belonging
from spark_jobs.group_evidence import node_clocks, node_readings, seen_until_ms
from spark_jobs.incidents.known import KnownIncidents
from spark_jobs.incidents.rows import moves_of
from spark_jobs.incidents.since import cluster_rows, reaching_back
from spark_jobs.metadata_log import logged_topic_names, next_log_offset

_MARK_COLUMNS = tuple(CommitMark.__dataclass_fields__)
_MOVES = "gold.leader_move"
_SILVER = (
    "silver.measured_rebalance", "silver.connect_task", "silver.finding", "silver.reassignment",
)  # fmt: skip


class WarehousePast:
    """The past of one cluster in a warehouse."""

    def __init__(self, warehouse: Warehouse, cluster_id: str, limits: LimitsOf) -> None:
        self._warehouse, self._cluster_id, self._limits = warehouse, cluster_id, limits
        self._refs: dict[str, list[str]] = {}
        """The lines of each group that only their fields can place."""
        self._moves_version: int | None = None
        """The version of gold.leader_move that was read last."""

    def of_cluster(self) -> ClusterPast:
        opened, cluster_id = self._warehouse, self._cluster_id
        if not opened.exists("silver.measured_rebalance"):
            return ClusterPast()
        seen = seen_until_ms(opened).get(cluster_id, 0)
        homes = belonging(opened, None)
        self._moves_version = opened.version(_MOVES)  # before they are read: what comes meanwhile is read again
        self._refs = defaultdict(list)
        for ref, groups in homes.lines.get(cluster_id, {}).items():
            for group in groups:
                self._refs[group].append(ref)
        versions = {name: version for name in _SILVER if (version := opened.version(name)) is not None}
        stored = KnownIncidents(opened)
        since_ms = reaching_back(opened, versions, stored, {cluster_id: seen - MARGIN_MS})[cluster_id]
        open_before = stored.open_before(cluster_id, since_ms)
        rows = cluster_rows(
            opened, versions, cluster_id, since_ms, now_ms=seen, limits=self._limits, from_ms_of=open_before,
            stored=stored,
        )  # fmt: skip
        return ClusterPast(
            seen_until_ms=seen,
            routes=homes.routes.get(cluster_id, {}),
            clocks=node_clocks(opened, None, None).get(cluster_id, {}),
            zones={p.node: p.zone for p in node_readings(opened, None, None) if p.cluster_id == cluster_id and p.zone},
            topic_names=self._topic_names(),
            rows=rows,
            since_ms=since_ms,
            open_before=open_before,
        )

    def of_groups(self, groups: Mapping[str, Collection[Route]]) -> dict[str, GroupPast]:
        alone = {
            group_id
            for group_id, routes in groups.items()
            if group_id in self._refs or any(route.startswith(("topic:", "node:")) for route in routes)
        }
        by_name = [group_id for group_id in groups if group_id not in alone]
        if len(by_name) < 2:  # of one group only the parts of files that may hold it are read
            return {group_id: self._of_group(group_id, routes) for group_id, routes in groups.items()}
        return self._named(by_name) | {group_id: self._of_group(group_id, groups[group_id]) for group_id in alone}

    def leader_moves(self, since_ms: int) -> Sequence[LeaderMove] | None:
        before, self._moves_version = self._moves_version, self._warehouse.version(_MOVES)
        if self._moves_version in (None, before):
            return None
        asked = [self._cluster_id, since_ms]
        rows = self._warehouse.read(_MOVES, None, "cluster_id = ? AND at_ms >= ?", asked, self._moves_version)
        return moves_of(rows).get(self._cluster_id, [])

    def of_metadata(self) -> MetadataPast:
        asked = [self._cluster_id]
        if not self._warehouse.exists("silver.partition"):
            return MetadataPast()
        rows = self._warehouse.read("silver.partition", None, "cluster_id = ?", asked).to_pylist()
        names = {i: name for cluster_id, i, name in logged_topic_names(self._warehouse) if cluster_id == asked[0]}
        ids: dict[str, list[str]] = defaultdict(list)  # of a topic that was made anew several
        for topic_id, name in names.items():
            ids[name].append(topic_id)
        states = {
            (topic_id, row["partition"]): PartitionState(
                replicas=tuple(row["replicas"]), isr=tuple(row["isr"]), leader=row["leader"],
                leader_epoch=row["leader_epoch"], ref=row["ref"],
            )
            for row in rows for topic_id in ids[row["topic"]]
        }  # fmt: skip
        return MetadataPast(states, names, max((next_log_offset(row["ref"]) for row in rows), default=0))

    def elections(self, since_ms: int) -> Sequence[LeaderElection]:
        asked = [self._cluster_id, since_ms]
        rows = self._warehouse.read("silver.leader_election", None, "cluster_id = ? AND at_ms >= ?", asked)
        return [from_row(LeaderElection, row) for row in rows.to_pylist()]

    def _named(self, groups: Sequence[str]) -> dict[str, GroupPast]:
        """Groups whose events all have their name."""
        of_groups = "cluster_id = ? AND group_id IN (SELECT unnest(?))"
        asked = [self._cluster_id, list(groups)]
        newest = f"{of_groups} QUALIFY row_number() OVER (PARTITION BY group_id {_newest()}"
        rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in self._rows("silver.group_event", None, newest, asked):
            rows[row["group_id"]].append(row)
        marks: dict[str, list[CommitMark]] = defaultdict(list)
        for row in self._rows("silver.commit_mark", ["group_id", *_MARK_COLUMNS], of_groups, asked):
            marks[row.pop("group_id")].append(CommitMark(**row))
        return {group_id: _past(rows[group_id], marks[group_id]) for group_id in groups}

    def _of_group(self, group_id: str, routes: Collection[Route]) -> GroupPast:
        where, asked = ["cluster_id = ? AND group_id = ?"], [self._cluster_id, group_id]
        topics = [r.removeprefix("topic:") for r in routes if r.startswith("topic:")]
        nodes = [r.removeprefix("node:") for r in routes if r.startswith("node:")]
        for condition, listed in (
            ("source_kind IN ('status', 'config') AND list_contains(?, topic)", topics),
            ("source_kind = 'log' AND starts_with(kind, 'worker_') AND list_contains(?, node)", nodes),
            ("source_kind = 'log' AND list_contains(?, ref)", self._refs.get(group_id, [])),
        ):
            if listed:
                where.append(f"cluster_id = ? AND group_id IS NULL AND {condition}")
                asked += [self._cluster_id, listed]  # type: ignore[list-item]
        newest = f"({') OR ('.join(where)}) QUALIFY row_number() OVER ({_newest()}"
        rows = self._rows("silver.group_event", None, newest, asked)
        marks = self._rows(
            "silver.commit_mark", list(_MARK_COLUMNS), "cluster_id = ? AND group_id = ?", [self._cluster_id, group_id]
        )
        return _past(rows, [CommitMark(**row) for row in marks])

    def _topic_names(self) -> Sequence[tuple[str, str]]:
        where = "cluster_id = ? AND topic_id IS NOT NULL"
        marks = self._warehouse.read("silver.commit_mark", ["topic_id", "topic"], where, [self._cluster_id])
        rows = marks.group_by(["topic_id", "topic"]).aggregate([]).to_pylist()
        return sorted((row["topic_id"], row["topic"]) for row in rows)

    def _rows(
        self, table: str, columns: Sequence[str] | None, where: str, asked: Sequence[Any]
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._warehouse.read(table, columns, where, asked).to_pylist()
        return found


def _newest() -> str:
    """One more than is kept, which shows that there was more."""
    return f"ORDER BY at_ms DESC, ref) <= {MOST_EVENTS + 1}"


def _past(rows: Sequence[dict[str, Any]], marks: Sequence[CommitMark]) -> GroupPast:
    return GroupPast(events=[event_of_row(row) for row in rows], marks=marks, is_whole=len(rows) <= MOST_EVENTS)
