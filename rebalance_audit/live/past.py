"""The past of groups that come into memory, from the tables: their own evidence, and what happened around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.detect import LimitsOf
from rebalance_audit.domain.gather.belonging import Route
from rebalance_audit.domain.gather.clocks import NodeClock
from rebalance_audit.domain.gather.groups import event_of_row
from rebalance_audit.domain.incidents.around import MARGIN_MS
from rebalance_audit.domain.model import CommitMark, GroupRecord, from_row
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign import LeaderElection, PartitionState
from rebalance_audit.live.elections import MetadataPast
from rebalance_audit.live.group_memory import KEPT_MS, MOST_EVENTS, GroupPast
from rebalance_audit.live.memory import ClusterPast
from rebalance_audit.warehouse.row_groups import Least
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.belonging import belonging
from spark_jobs.group_evidence import node_clocks, node_readings, seen_until_ms
from spark_jobs.group_rows import places_table, rows_of_groups
from spark_jobs.incidents.known import KnownIncidents
from spark_jobs.incidents.rows import moves_of
from spark_jobs.incidents.since import cluster_rows, reaching_back
from spark_jobs.metadata_log import logged_topic_names, next_log_offset
from spark_jobs.parcel_plan import most_behind_ms, offset_of
from spark_jobs.settled import CHECKPOINTS, checkpoint_with, is_usable

KEPT_REBALANCES = 10
"""A group goes on from a checkpoint with so many rebalances behind it, settled and of the last KEPT_MS: as many as
measured pauses show what is usual."""
ENOUGH_REBALANCES = 300
"""So many are enough in any time."""
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
        self._seen_until_ms = 0
        self._clocks: dict[str, NodeClock] = {}

    def of_cluster(self) -> ClusterPast:
        opened, cluster_id = self._warehouse, self._cluster_id
        if not opened.exists("silver.measured_rebalance"):
            return ClusterPast()
        seen = self._seen_until_ms = seen_until_ms(opened).get(cluster_id, 0)
        self._clocks = node_clocks(opened, None, None).get(cluster_id, {})
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
            clocks=self._clocks,
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
        found = self._since_checkpoints(groups.keys() - alone)
        by_name = [group_id for group_id in groups if group_id not in alone and group_id not in found]
        if len(by_name) < 2:  # of one group only the parts of files that may hold it are read
            alone.update(by_name)
        else:
            found |= self._named(by_name)
        return found | {group_id: self._of_group(group_id, groups[group_id]) for group_id in alone}

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

    def _since_checkpoints(self, groups: Collection[str]) -> dict[str, GroupPast]:
        """Those whose history is so long that they go on from a checkpoint, each with the evidence since then."""
        starts = self._starts(groups)
        behind_ms = most_behind_ms({self._cluster_id: self._clocks})
        from_ms = {group_id: start["read_from_ms"] for group_id, start in starts.items()}
        events = self._of_few("silver.group_event", "at_ms", {g: at_ms - behind_ms for g, at_ms in from_ms.items()})
        refs = {ref for start in starts.values() for ref in start["latest"]}
        oldest = {
            group_id: min(map(offset_of, start["latest"])) for group_id, start in starts.items() if start["latest"]
        }
        records = self._of_few("silver.group_event", "offset", oldest, refs)
        marks = self._of_few("silver.commit_mark", "first_at_ms", from_ms)
        found: dict[str, GroupPast] = {}
        for group_id, start in starts.items():
            before = set(start["latest"])
            latest = [event_of_row(row) for row in records.get(group_id, ()) if row["ref"] in before]
            rows = [row for row in events.get(group_id, ()) if row["ref"] not in before]
            if len(rows) <= MOST_EVENTS:
                found[group_id] = GroupPast(
                    events=[event_of_row(row) for row in rows],
                    marks=[_mark_of(row) for row in marks.get(group_id, ())],
                    is_whole=False,
                    start=checkpoint_with(start, [event for event in latest if isinstance(event, GroupRecord)]),
                )
        return found

    def _starts(self, groups: Collection[str]) -> dict[str, dict[str, Any]]:
        """The rows of silver.checkpoint that these groups go on from."""
        if not groups or not self._warehouse.exists(CHECKPOINTS):
            return {}
        known: dict[str, list[dict[str, Any]]] = defaultdict(list)
        asked = places_table((self._cluster_id, group_id) for group_id in groups)
        for row in filter(is_usable, rows_of_groups(self._warehouse, CHECKPOINTS, None, asked).to_pylist()):
            known[row["group_id"]].append(row)
        starts: dict[str, dict[str, Any]] = {}
        for group_id, rows in known.items():
            *_, last = rows = sorted(rows, key=itemgetter("read_until_ms"))
            for row in rows:
                count = last["row_count"] - row["row_count"]
                is_long = count >= KEPT_REBALANCES and self._seen_until_ms - row["read_until_ms"] >= KEPT_MS
                if row["is_floor"] or is_long or count >= ENOUGH_REBALANCES:
                    starts[group_id] = row
        return starts

    def _of_few(
        self, table: str, column: str, floors: Mapping[str, int], refs: Collection[str] | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """By group: the rows that have so much in this column, or more. `refs`: only these."""
        asked = places_table((self._cluster_id, group_id) for group_id in floors)
        bound = Least(column, "group_id", floors)
        by_group: dict[str, list[dict[str, Any]]] = defaultdict(list)
        if floors:
            rows = rows_of_groups(self._warehouse, table, None, asked, bound=bound)
            if refs is not None:  # a member's record may be as old as the group
                rows = rows.filter(pc.is_in(rows["ref"], pa.array(sorted(refs), pa.string())))
            for row in rows.to_pylist():
                if row[column] is not None and row[column] >= floors[row["group_id"]]:
                    by_group[row["group_id"]].append(row)
        return by_group

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
            marks[row["group_id"]].append(_mark_of(row))
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
        return _past(rows, list(map(_mark_of, marks)))

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


def _mark_of(row: Mapping[str, Any]) -> CommitMark:
    return CommitMark(**{name: row[name] for name in _MARK_COLUMNS})


def _past(rows: Sequence[dict[str, Any]], marks: Sequence[CommitMark]) -> GroupPast:
    return GroupPast(events=[event_of_row(row) for row in rows], marks=marks, is_whole=len(rows) <= MOST_EVENTS)
