"""What `domain.incidents.around` asks of one cluster, out of the tables."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.detect import Limits
from rebalance_audit.domain.incidents import ClusterRows
from rebalance_audit.domain.incidents.around import KnownIncident, is_recent, moved_together
from rebalance_audit.domain.incidents.storm_before import StormBefore
from rebalance_audit.domain.incidents.troubles import SAME_TOPICS_MS
from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance, from_row
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign.model import Reassignment
from rebalance_audit.warehouse.arrow_tables import narrow_schema, rows_where
from rebalance_audit.warehouse.kept_columns import chosen_rows
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import Least
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_rows import (
    INSTANTS,
    LISTED_AT_MOST,
    PLACE,
    files_since,
    places_table,
    relation_of_keys,
    rows_of_groups,
    rows_with,
)
from spark_jobs.histories import in_places
from spark_jobs.incidents.departures import LONGEST_SESSION_MS, departures
from spark_jobs.incidents.rows import AT, FIELDS, FINDING, FINDINGS, NARROWED, READ, REBALANCES, shown_incidents
from spark_jobs.incidents.storms import StormSoFar
from spark_jobs.structs import objects_in

_KNOWN = [
    "incident_id", "status", "first_at_ms", "last_at_ms", "group_ids", "rebalance_ids", "reassignment_ids",
    "finding_ids",
]  # fmt: skip


_ROWS_AT_ONCE = 2_000
_MADE_WHOLE_ROWS = 250
"""Of so few rows members that stayed are not left out: DuckDB takes longer to bind the question than they take."""


def _with_any(lists: pa.ChunkedArray, values: Collection[str]) -> npt.NDArray[np.bool_]:
    """For each list, whether it has one of the values. DuckDB's list_has_any compares each with each."""
    joined = lists.combine_chunks()
    is_one = pc.is_in(pc.list_flatten(joined), pa.array(sorted(values), pa.string()))
    found = np.zeros(len(joined), np.bool_)
    found[pc.list_parent_indices(joined).filter(is_one).to_numpy()] = True
    return found


class StoredCluster:
    """One cluster for `incidents_around`: the present rows of silver, and the incidents that readers see."""

    def __init__(
        self,
        warehouse: Warehouse,
        versions: Mapping[str, int],
        cluster_id: str,
        *,
        now_ms: int,
        limits: Callable[[str], Limits],
        tasks: Sequence[ConnectTask],
        leader_moves: Sequence[LeaderMove],
        reassignments: Callable[[int], Sequence[Reassignment]],
        is_clock_right: bool,
        storms: Mapping[str, StormSoFar],
    ) -> None:
        self._warehouse, self._versions, self._cluster_id = warehouse, versions, cluster_id
        self._now_ms, self._limits, self._is_clock_right = now_ms, limits, is_clock_right
        self._tasks, self._leader_moves, self._reassignments = tasks, leader_moves, reassignments
        self._storms = storms
        self._shown: set[str] = set()
        """Findings of open incidents: what is over by now has a last moment long ago."""
        self._incidents: pa.Table | None = None
        self._since_ms = 0
        self._made: dict[str, KnownIncident] = {}
        """Those of these incidents that were asked for: one of a long storm is not made twice."""

    def storms(self, groups: Collection[str]) -> Mapping[str, StormBefore]:
        caused = {m.rebalance_id for m in self._leader_moves if m.is_cause or m.is_failure_before}
        return {
            group_id: so_far.storm
            for group_id, so_far in self._storms.items()
            if group_id in groups and caused.isdisjoint(so_far.storm.rebalance_ids)
        }

    def rows(
        self, groups: Collection[str], from_ms: int, *, apart: bool, storms: Mapping[str, StormBefore]
    ) -> ClusterRows:
        floors = {group_id: self._storms[group_id].place for group_id in storms}
        rebalances, first = self._rebalances(groups, from_ms, floors)
        return ClusterRows(
            cluster_id=self._cluster_id,
            now_ms=self._now_ms,
            groups=rebalances,
            first_places=first,
            storms=storms,
            tasks=[task for task in self._tasks if task.group_id in groups],
            reassignments=self._reassignments(from_ms) if apart else (),
            leader_moves=[move for move in self._leader_moves if move.group_id in groups],
            findings=self._findings(groups, from_ms, apart=apart),
            limits=self._limits,
        )

    def _rebalances(
        self, groups: Collection[str], from_ms: int, floors: Mapping[str, int]
    ) -> tuple[dict[str, list[Rebalance]], dict[str, int]]:
        """All rebalances from a group's first one in the range on, whatever the dates of the later ones, and the place
        of each first one. `floors`: the places from which on those of some groups are wanted."""
        files = self._files_since(from_ms)
        found: dict[str, list[Rebalance]] = {}
        if not files or not groups:
            return found, {}
        rebalances: list[Rebalance] = []
        heads: list[pa.Table] = []
        for rows in self._narrowed(files, groups, from_ms, floors):
            rebalances += objects_in(Rebalance, rows, ("movements",))
            heads.append(rows.select(["group_id", "place", *INSTANTS]))
        if not heads:
            return found, {}
        head = pa.concat_tables(heads)
        group_ids, places = head["group_id"].to_pylist(), head["place"].to_pylist()
        instants = pc.coalesce(*(head[name] for name in INSTANTS)).to_pylist()
        first: dict[str, int] = {}
        for group_id, place, at_ms in zip(group_ids, places, instants, strict=True):
            if at_ms is not None and at_ms >= from_ms:
                first[group_id] = min(first.get(group_id, place), place)
        first |= floors
        for at in in_places(head):
            if places[at] >= first.get(group_ids[at], places[at] + 1):
                found.setdefault(group_ids[at], []).append(rebalances[at])
        return found, first

    def _narrowed(
        self, files: Sequence[str], groups: Collection[str], from_ms: int, floors: Mapping[str, int]
    ) -> Iterator[pa.Table]:
        """The part of these groups' rows that a ClusterRows needs, some rows at a time: of a long storm all rows take
        more memory than what they become. Of many groups what is older is left out here, in DuckDB."""
        with cursor() as db:
            if len(groups) > LISTED_AT_MOST:
                source = relation_of_keys(db, files, self._keys(groups), self._read)
                yield db.execute(
                    f"SELECT {NARROWED} FROM {source} JOIN (SELECT group_id, min(place) AS first_place FROM {source} "
                    f"WHERE {AT} >= {from_ms} GROUP BY group_id) USING (group_id) WHERE place >= first_place"
                ).to_arrow_table()
                return
            for rows in self._of_few(files, groups, floors):
                if rows.num_rows <= _MADE_WHOLE_ROWS:
                    yield rows
                    continue
                db.register("whole", rows)
                yield db.execute(f"SELECT {NARROWED} FROM whole").to_arrow_table()

    @property
    def _read(self) -> pa.Schema:
        schema = self._warehouse.schema(REBALANCES)
        return narrow_schema(pa.schema([schema.field(name) for name in READ]), FIELDS)

    def _of_few(self, files: Sequence[str], groups: Collection[str], floors: Mapping[str, int]) -> Iterator[pa.Table]:
        """READ of the rebalances of groups that are few."""
        waiting: list[pa.Table] = []
        least = Least(PLACE, "group_id", {group_id: floors.get(group_id) for group_id in groups}) if floors else None
        for chosen in chosen_rows(files, self._read, {"group_id": groups}, least):
            waiting.append(rows_where(chosen.rows, pc.equal(chosen.rows["cluster_id"], self._cluster_id)))
            if sum(map(len, waiting)) >= _ROWS_AT_ONCE:
                yield pa.concat_tables(waiting)
                waiting.clear()
        if waiting:
            yield pa.concat_tables(waiting)

    def _findings(self, groups: Collection[str], from_ms: int, *, apart: bool) -> list[tuple[str | None, Finding]]:
        version = self._versions[FINDINGS]
        of_groups = rows_of_groups(self._warehouse, FINDINGS, FINDING, self._keys(groups), version=version)
        rows = of_groups.to_pylist()
        if apart:
            wanted: Mapping[str, Sequence[str | None]] = {"group_id": [None], "cluster_id": [self._cluster_id]}
            rows += rows_with(self._warehouse, FINDINGS, FINDING, wanted, version).to_pylist()
        rows.sort(key=lambda row: (row["first_seen_at_ms"], row["finding_id"]))
        found = ((row["group_id"], from_row(Finding, row)) for row in rows)
        return [one for one in found if is_recent(one[1], from_ms, self._shown)]

    def of_groups(self, groups: Collection[str], from_ms: int, *, apart: bool) -> list[KnownIncident]:
        stored = self._stored(from_ms)
        chosen = _with_any(stored["group_ids"], groups)
        if apart:
            group_count, plan_count = (pc.list_value_length(stored[c]) for c in ("group_ids", "reassignment_ids"))
            chosen |= pc.or_(pc.equal(group_count, 0), pc.greater(plan_count, 0)).to_numpy()
        return self._known(stored, chosen)

    def of_things(self, things: Collection[str], from_ms: int) -> list[KnownIncident]:
        if not things:
            return []
        stored = self._stored(from_ms)
        listed = ("rebalance_ids", "finding_ids", "reassignment_ids")
        chosen = functools.reduce(operator.or_, (_with_any(stored[column], things) for column in listed))
        return self._known(stored, chosen)

    def _stored(self, from_ms: int) -> pa.Table:
        """Incidents that are open or end at this moment or later. Asked several times of the same moment."""
        if self._incidents is None or self._since_ms != from_ms:
            shown = shown_incidents(self._warehouse, ["cluster_id", *_KNOWN], from_ms)
            self._incidents = rows_where(shown, pc.equal(shown["cluster_id"], self._cluster_id))
            self._since_ms = from_ms
            self._made.clear()
        return self._incidents

    def _known(self, stored: pa.Table, chosen: npt.NDArray[np.bool_]) -> list[KnownIncident]:
        """The chosen ones of these rows."""
        ids = stored["incident_id"].filter(pa.array(chosen)).to_pylist()
        is_made = pc.is_in(stored["incident_id"], pa.array(list(self._made), pa.string())).to_numpy()
        for row in stored.filter(pa.array(chosen & ~is_made)).to_pylist():
            self._made[row["incident_id"]] = KnownIncident(
                incident_id=row["incident_id"],
                group_ids=frozenset(row["group_ids"]),
                rebalance_ids=frozenset(row["rebalance_ids"]),
                reassignment_ids=frozenset(row["reassignment_ids"]),
                finding_ids=frozenset(row["finding_ids"]),
                first_at_ms=row["first_at_ms"],
                last_at_ms=row["last_at_ms"],
                is_open=row["status"] == "open",
            )
        found = [self._made[incident_id] for incident_id in ids]
        self._shown.update(*(known.finding_ids for known in found if known.is_open))
        return found

    def departed(self, places: Mapping[str, tuple[int, int]]) -> set[str]:
        if not places:
            return set()
        from_ms = min(first_ms for first_ms, _ in places.values()) - SAME_TOPICS_MS
        until_ms = max(last_ms for _, last_ms in places.values()) + SAME_TOPICS_MS + LONGEST_SESSION_MS
        files = self._files_since(from_ms)
        if not files:
            return set()
        known = departures(files)
        is_there = pc.or_kleene(pc.is_null(known["place"]), pc.is_in(known["place"], pa.array(sorted(places))))
        is_then = pc.and_(pc.greater_equal(known["to_ms"], from_ms), pc.less_equal(known["from_ms"], until_ms))
        found = known.filter(pc.and_(pc.and_(is_there, is_then), pc.equal(known["cluster_id"], self._cluster_id)))
        return set(found["group_id"].to_pylist())

    def moved(self, moves: Collection[LeaderMove], from_ms: int, *, apart: bool) -> set[str]:
        plans = {r.reassignment_id for r in self._reassignments(from_ms)} if apart else set()
        return moved_together(moves, self._leader_moves, plans)

    def _files_since(self, from_ms: int) -> list[str]:
        files = self._warehouse.files(REBALANCES, self._versions[REBALANCES])
        return files_since(files, from_ms) if self._is_clock_right else files

    def _keys(self, groups: Collection[str]) -> pa.Table:
        return places_table((self._cluster_id, group_id) for group_id in groups)
