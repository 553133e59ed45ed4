"""Evidence of the groups that something happened to lately, and what it shows: gather, reconstruct, measure, detect.

A group comes into memory with its past from the tables when something of it arrives first, and leaves again when it
has been quiet and the tables hold it. Its evidence is a set: a piece that both the tables and the collector brought
is there once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from rebalance_audit.domain.decode import Commit, Decoded, decode_source
from rebalance_audit.domain.detect import DEFAULT_OF, LimitsOf, detect_group
from rebalance_audit.domain.explain.present import Running, going_on
from rebalance_audit.domain.gather.belonging import ClusterFacts, Route, groups_by_route, routes_of
from rebalance_audit.domain.gather.clocks import PAIRED_KINDS, NodeClock, ZoneSource, pairs_by_node
from rebalance_audit.domain.gather.commit_marks import mark_of
from rebalance_audit.domain.gather.groups import clocks_of
from rebalance_audit.domain.gather.windows import Checkpoint, Piece, gathering, reconstruct_in_windows
from rebalance_audit.domain.incidents import ClusterRows, Incident
from rebalance_audit.domain.kinds import FindingStatus
from rebalance_audit.domain.log_lines import Torn, parse_lines
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.metadata import SourceMetadata, is_metadata_topic
from rebalance_audit.domain.model import (
    ConnectRecord,
    Finding,
    GroupEvidence,
    GroupRecord,
    LogEvent,
    SourceLine,
    SourceRecord,
    changed,
)
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign import LeaderElection
from rebalance_audit.domain.reconstruct import is_connect_group, reconstruct
from rebalance_audit.domain.records.commit_keys import wanted_keys
from rebalance_audit.domain.wire import DecodeError
from rebalance_audit.live.elections import MetadataPast, RecentElections
from rebalance_audit.live.group_memory import Event, GroupMemory, GroupPast
from rebalance_audit.live.remembered import RememberedCluster

MOST_FILES = 512
"""Log files of which it is kept whether a line is torn; rotation leaves new ones for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPast:
    """What the tables hold of a whole cluster, as far as the present depends on it."""

    seen_until_ms: int = 0
    routes: Mapping[Route, Collection[str]] = field(default_factory=dict)
    clocks: Mapping[str, NodeClock] = field(default_factory=dict)
    zones: Mapping[str, str | None] = field(default_factory=dict)
    """Configured zones by node."""
    topic_names: Sequence[tuple[str, str]] = ()
    rows: ClusterRows | None = None
    """What happened to groups from `since_ms` on."""
    since_ms: int | None = None
    """None: `rows` begin with the first evidence."""
    open_before: Mapping[str, int] = field(default_factory=dict)
    """Groups of incidents that began before `since_ms` and are not over, each with the begin of the earliest: `rows`
    have what happened to them since then."""


class Past(Protocol):
    """Reads the tables."""

    def of_cluster(self) -> ClusterPast: ...

    def of_groups(self, groups: Mapping[str, Collection[Route]]) -> Mapping[str, GroupPast]:
        """Each group with the routes by which events without a group's name come to it. Together, since a host that
        dies takes a thousand groups with it, and each question takes a while."""

    def leader_moves(self, since_ms: int) -> Sequence[LeaderMove] | None:
        """Those of the cluster since this instant. None: they are as they were when they were read last."""

    def of_metadata(self) -> MetadataPast: ...

    def elections(self, since_ms: int) -> Sequence[LeaderElection]:
        """Those of the cluster since this instant."""


class ClusterMemory:
    """One cluster's groups of which something arrived lately."""

    def __init__(self, cluster_id: str, past: Past, limits: LimitsOf = DEFAULT_OF) -> None:
        self.cluster_id, self._past, self._limits = cluster_id, past, limits
        self.groups: dict[str, GroupMemory] = {}
        self._keys: set[bytes] = set()
        """The names of the groups in memory, as the bytes in keys of commits."""
        self._torn: dict[tuple[str, str], Torn] = {}
        """How the lines so far left each file, the one read last at the end."""
        self.open_groups: set[str] = set()
        """Groups in memory whose last rebalance is open."""
        self.waiting: set[str] = set()
        """Groups in memory that may wait for something."""
        self.committed: set[str] = set()
        """Groups in memory that committed since they were folded."""
        self._elections = RecentElections(cluster_id, past.of_metadata)
        self.forget()

    def forget(self) -> None:
        """Forget everything, and read it again from the tables, which hold all that came until now."""
        for of_groups in (self.groups, self._keys, self.open_groups, self.waiting, self.committed):
            of_groups.clear()
        known = self._past.of_cluster()
        self.seen_until_ms = known.seen_until_ms
        rows = known.rows or ClusterRows(cluster_id=self.cluster_id, now_ms=known.seen_until_ms)
        limits = partial(self._limits, self.cluster_id)
        self._around = RememberedCluster(replace(rows, limits=limits), known.since_ms, known.open_before)
        self._stored_moves: Sequence[LeaderMove] = rows.leader_moves
        self._live_moves: dict[str, list[LeaderMove]] = {}
        """By group, those of recent elections beside its rebalances as they were folded last."""
        self._routes: dict[Route, set[str]] = {route: set(groups) for route, groups in known.routes.items()}
        self._facts = ClusterFacts()
        self._has_new_facts = False
        self._clocks, self._zones = dict(known.clocks), dict(known.zones)
        self._topic_names = set(known.topic_names)

    def take_metadata(self, records: Sequence[SourceMetadata], at: float) -> set[str]:
        """The groups that leader elections in these records may concern. `at`: this moment of the clock."""
        for record in records:
            self.see(record.timestamp_ms)
        partitions = self._elections.take(records, at)
        return self._elections.concerned(self._around.group_ids(), partitions) if partitions else set()

    def learn_moves(self, until: float) -> None:
        """Read leader moves again: the tables were published, with all that was landed before this moment."""
        moves = self._past.leader_moves(self._around.moves_since_ms)
        partitions: set[int] = set()
        if self._elections:
            stored = self._past.elections(self._elections.since_ms)
            partitions = self._elections.published(until, stored)
        if moves is not None:
            self._stored_moves = moves
        if moves is not None or partitions:
            self.move_leaders(self._elections.concerned(self._around.group_ids(), partitions), again=True)

    def move_leaders(self, groups: Iterable[str], *, again: bool = False) -> None:
        """Put recent leader elections beside these groups' rebalances. `again`: those of the tables are others."""
        for group_id in groups if self._elections or self._live_moves else ():
            now = self._elections.moves_of(group_id, self._around.rebalances_of(group_id))
            again = again or now != self._live_moves.get(group_id, [])
            self._live_moves[group_id] = now
        if again:
            live = [move for of_group in self._live_moves.values() for move in of_group]
            places = {move.place for move in live}
            since_ms = self._around.moves_since_ms
            stored = [m for m in self._stored_moves if m.at_ms >= since_ms and m.place not in places]
            self._around.put_moves([*stored, *(move for move in live if move.at_ms >= since_ms)])

    def drop(self, group_id: str) -> None:
        """The group was quiet for long, and the tables hold all of it: what it went through stays, its evidence goes
        and comes again with the group."""
        group = self.groups.pop(group_id)
        self._keys.discard(group_id.encode("utf-8", "surrogatepass"))
        self.open_groups.discard(group_id)
        self.waiting.discard(group_id)
        self.committed.discard(group_id)
        for member_id in {member.member_id for rebalance in group.rebalances for member in rebalance.members}:
            if self._routes.get(route := f"member:{member_id}") == {group_id}:
                del self._routes[route]

    @property
    def rebalance_count(self) -> int:
        """How many there are of all groups in memory."""
        return sum(len(group.rebalances) for group in self.groups.values())

    def names(self) -> set[str]:
        """The groups that anything is remembered of."""
        return self.groups.keys() | self._around.names()

    def erase(self, group_id: str) -> None:
        """The group was erased from the tables: nothing of it stays here. Others of its incidents are worked out
        again."""
        if group_id in self.groups:
            self.drop(group_id)
        for groups in self._routes.values():
            groups.discard(group_id)
        self._around.erase(group_id)
        self._live_moves.pop(group_id, None)
        self._stored_moves = [move for move in self._stored_moves if move.group_id != group_id]

    def wanted(self, keys: Iterable[bytes | None]) -> list[int]:
        """The numbers of the keys of records that are to be taken: all but commits of groups that are not in memory."""
        return wanted_keys(keys, self._keys)

    def see(self, at_ms: int) -> None:
        """Evidence reaches to this instant."""
        self.seen_until_ms = max(self.seen_until_ms, at_ms)

    def take(self, records: Iterable[SourceRecord], lines: Iterable[SourceLine]) -> set[str]:
        """The groups about which these say something new. Records of a partition come in offset order, lines of a file
        in byte order; commits are taken only of groups in memory."""
        touched: set[str] = set()
        homeless: list[Event] = []
        new_records, new_lines = list(self._decoded(records)), list(self._parsed(lines))
        named = [decoded.record.key.group_id for decoded in new_records if isinstance(decoded, GroupRecord)]
        self.bring([*named, *(line.group_id for line in new_lines if line.group_id is not None)])
        for decoded in new_records:
            if isinstance(decoded, Commit):
                self._commit(decoded)
            elif isinstance(decoded, GroupRecord):
                self._facts.add(decoded)
                self._has_new_facts = True
                if self.groups[decoded.record.key.group_id].add(decoded):
                    touched.add(decoded.record.key.group_id)
            elif isinstance(decoded, ConnectRecord):
                self._facts.add(decoded)
                self._has_new_facts = True
                homeless.append(decoded)
        for line in new_lines:
            self._facts.add(line)
            self._has_new_facts = True
            if line.group_id is None:
                homeless.append(line)
            elif self.groups[line.group_id].add(line):
                touched.add(line.group_id)
        homes = [(event, self._homes(event)) for event in homeless]
        self.bring([group_id for _, groups in homes for group_id in groups])
        for event, groups in homes:
            touched.update(group_id for group_id in groups if self.groups[group_id].add(event))
        self._learn_routes()
        return touched

    def _decoded(self, records: Iterable[SourceRecord]) -> Iterator[Decoded]:
        for source in records:
            self.see(source.timestamp_ms)
            if is_metadata_topic(source.topic) or source.is_control:
                continue
            try:
                yield decode_source(source)
            except DecodeError:
                continue  # the stages keep and count it

    def _parsed(self, lines: Iterable[SourceLine]) -> Iterator[LogEvent]:
        for file, of_file in groupby(lines, key=lambda line: (line.node, line.file_id)):
            torn = self._torn.pop(file, None) or Torn()
            yield from parse_lines(of_file, torn)
            self._torn[file] = torn
            if len(self._torn) > MOST_FILES:
                del self._torn[next(iter(self._torn))]

    def _commit(self, commit: Commit) -> None:
        group = self.groups.get(commit.group_id)
        if commit.topic_id is not None:
            self._topic_names.add((commit.topic_id, commit.topic))
        if group is None or commit.is_tombstone:
            return
        group.add_mark(mark_of(commit))
        self.committed.add(commit.group_id)

    def bring(self, group_ids: Iterable[str]) -> None:
        """Take into memory those that are not there, with their past."""
        routes: dict[str, list[Route]] = {group_id: [] for group_id in group_ids if group_id not in self.groups}
        if not routes:
            return
        for route, groups in self._routes.items():
            for group_id in routes.keys() & groups:
                routes[group_id].append(route)
        for group_id, past in self._past.of_groups(routes).items():
            self.groups[group_id] = GroupMemory.of(past)
            self._keys.add(group_id.encode("utf-8", "surrogatepass"))

    def _learn_routes(self) -> None:
        if self._has_new_facts:
            for route, groups in groups_by_route(self._facts).items():
                self._routes.setdefault(route, set()).update(groups)
            self._has_new_facts = False
            # Routes have them now. What is left of the facts grows with Connect clusters, not with time.
            self._facts.members.clear()
            self._facts.offsets_partitions.clear()

    def _homes(self, event: Event) -> set[str]:
        self._learn_routes()
        if isinstance(event, LogEvent):
            routes = routes_of("log", event.kind, None, event.node, event.fields)
        else:
            routes = routes_of("status", "", event.topic, None, {})
        return {group for route in routes for group in self._routes.get(route, ())}

    def _clocks_now(self, group: GroupMemory) -> Mapping[str, NodeClock]:
        """The clocks that the tables know; of nodes that they do not, as far as this group's lines show them."""
        nodes = {e.node for e in group.events.values() if isinstance(e, LogEvent) and e.at_ms is None}
        unknown = {n for n in nodes if n not in self._clocks or self._clocks[n].source is ZoneSource.ASSUMED}
        if unknown:
            lines = [e for e in group.events.values() if isinstance(e, LogEvent) and e.kind in PAIRED_KINDS]
            records = [e for e in group.events.values() if isinstance(e, GroupRecord)]
            pairs = pairs_by_node([line for line in lines if line.node in unknown], records)
            zones = {node: zone for node, zone in self._zones.items() if node in unknown}
            self._clocks |= clocks_of(pairs, unknown, zones)
        return self._clocks

    def fold(self, group_id: str) -> None:
        """Work out one group's rebalances and findings from all evidence of it."""
        group = self.groups[group_id]
        self.committed.discard(group_id)
        group.trim()
        self._reconstruct(group_id, group)
        group.findings = detect_group(
            group.rebalances, group.tasks, self._limits(self.cluster_id, group_id),
            seen_until_ms=self.seen_until_ms or None,
        )  # fmt: skip
        if not group.is_whole:
            group.findings = _continued(self._around.findings_of(group_id), group.findings)
        _put_if(self.open_groups, group_id, group.has_open)
        _put_if(self.waiting, group_id, going_on(group.rebalances, {}, self.seen_until_ms) is not None)
        self._around.put(group_id, group.rebalances, group.tasks, group.findings, is_whole=group.is_whole)

    def _reconstruct(self, group_id: str, group: GroupMemory) -> None:
        gather = gathering(self.cluster_id, group_id, self._clocks_now(group), sorted(self._topic_names))
        evidence = gather([*group.events.values(), *group.all_marks()])
        is_connect = is_connect_group(evidence)
        if not is_connect and group.has_many_rounds:
            pieces, noted = _by_instant(evidence), list[Checkpoint]()
            for _ in reconstruct_in_windows(pieces, gather, start=group.start, note=noted.append):
                pass
            group.go_on(noted, pieces)
            evidence = gather([*group.events.values(), *group.all_marks()])
        if group.start is None:
            evidence = changed(evidence, is_continued=not group.is_whole and not is_connect)
            parts = [reconstruct(evidence)]
        else:
            pieces = _by_instant(evidence)
            pieces = pieces[bisect_left(pieces, group.start.read_from_ms, key=itemgetter(0)) :]
            parts = list(reconstruct_in_windows(pieces, gather, rounds=1 + len(pieces), start=group.start))
        group.rebalances = [measure(r) for part in parts for r in part.rebalances]
        group.tasks = [task for part in parts for task in part.connect_tasks]

    def going_on(self) -> list[Running]:
        """The groups in memory that wait for something, by name; as they were folded last."""
        found = []
        for group_id in sorted(self.waiting):
            group = self.groups[group_id]
            commits = group.last_commits() if group.has_open else {}
            running = going_on(group.rebalances, commits, self.seen_until_ms)
            if running is not None:
                found.append(running)
        return found

    def incidents(self) -> list[Incident]:
        """The incidents of the whole cluster: groups in memory as they were folded last, others as the tables have
        them."""
        return self._around.incidents(self.seen_until_ms)

    def incident_ids(self) -> Collection[str]:
        """The ids of the incidents that are remembered."""
        return self._around.incident_ids()

    def known_incidents_of(self, groups: Collection[str]) -> dict[str, Incident]:
        """By id, those that concerned one of these groups when incidents were worked out last."""
        return self._around.known_incidents_of(groups)

    def incidents_of(self, groups: Collection[str]) -> list[Incident]:
        """Those that concern one of these groups."""
        return self._around.incidents_of(groups, self.seen_until_ms)


def _by_instant(evidence: GroupEvidence) -> list[tuple[int, Piece]]:
    """The pieces of a group that is none of Connect's."""
    pieces: list[tuple[int, Piece]] = [(record.at_ms, record) for record in evidence.records]
    pieces += [(line.at_ms or 0, line) for line in evidence.lines]
    pieces += [(mark.first_at_ms, mark) for mark in evidence.marks]
    return sorted(pieces, key=itemgetter(0))


def _continued(before: Sequence[Finding], now: Sequence[Finding]) -> list[Finding]:
    """Findings of a group whose oldest evidence was let go: one that goes on from an earlier one is still that one."""
    ids, found = {finding.finding_id for finding in now}, []
    for finding in now:
        earlier = [
            b for b in before
            if (b.rule_id, b.subject) == (finding.rule_id, finding.subject) and b.finding_id not in ids
            and b.first_seen_at_ms < finding.first_seen_at_ms
            and (b.status == FindingStatus.OPEN or finding.first_seen_at_ms <= b.last_seen_at_ms)
        ]  # fmt: skip
        if earlier:
            first = min(earlier, key=lambda b: (b.first_seen_at_ms, b.finding_id))
            finding = changed(finding, finding_id=first.finding_id, first_seen_at_ms=first.first_seen_at_ms)
        found.append(finding)
    return found


def _put_if(groups: set[str], group_id: str, belongs: bool) -> None:
    if belongs:
        groups.add(group_id)
    else:
        groups.discard(group_id)
