"""What the votes on nodes' clocks add up to, and what that shows."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from rebalance_audit.domain.gather.clock_tally import REACH_MS, ClockTally, LostEnd, offset_of
from rebalance_audit.domain.gather.clocks import NodeClock
from spark_jobs.day_votes import DAY_MS, PAIRS_PER_STRETCH, DayVotes, Stretch, VotesByDay, day_of

Versions = tuple[int | None, int | None]
"""Of silver.group_event and bronze.source."""
Zone = tuple[str, str, str]
"""The reading and the source that named a node's zone last, and the zone."""
BEHIND = 16
"""How many versions the notes may be behind the table of events: they are not written at every run, and one that begins
reads what came since."""
BEHIND_ROWS = 5_000
"""How many events they may be behind: one version may have a whole history. To read so many takes some 20 ms."""


@dataclass(slots=True)
class NodeTally:
    """What the votes on one node's clock add up to."""

    tally: ClockTally
    first: tuple[int, str] | None = None
    """Local time and ref of the first line that votes. It stays: only the last of a stretch loses its vote."""


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What the votes show of one node."""

    cluster_id: str
    node: str
    zone: str | None
    """The configured zone."""
    first_ref: str | None
    """The first line that votes."""
    clock: NodeClock


@dataclass(slots=True)
class Voting:
    """What is known at two table versions, with what it was made from, so that news can be added."""

    versions: Versions
    nodes: set[tuple[str, str]]
    """Nodes with log events."""
    zones: dict[str, dict[str, Zone]]
    votes: VotesByDay
    tallies: dict[str, dict[str, NodeTally]] = field(default_factory=dict)
    """Of each node with log events or a zone."""
    noted: int | None = None
    """The version of silver.group_event that the notes are of."""
    unnoted_rows: int = 0
    """Events that came since."""
    _readings: dict[str, dict[str, NodeReading]] = field(default_factory=lambda: defaultdict(dict), init=False)

    def __post_init__(self) -> None:
        for cluster_id, of_cluster in self.tallies.items():
            self.conclude(cluster_id, of_cluster)
        self.add_nodes(self.nodes)
        for cluster_id, zones in self.zones.items():
            self._begin(cluster_id, zones)

    @property
    def readings(self) -> list[NodeReading]:
        by_cluster = sorted(self._readings.items())
        return [reading for _, of_cluster in by_cluster for _, reading in sorted(of_cluster.items())]

    @property
    def is_late(self) -> bool:
        """Whether the notes are too far behind."""
        now = self.versions[0]
        return now is not None and (self.noted is None or now - self.noted > BEHIND or self.unnoted_rows > BEHIND_ROWS)

    def add_nodes(self, nodes: Set[tuple[str, str]]) -> None:
        """Nodes with log events."""
        self.nodes |= nodes
        for cluster_id, node in nodes:
            self._begin(cluster_id, [node])

    def put_zone(self, cluster_id: str, node: str, zone: Zone) -> bool:
        """False if votes were read by another zone."""
        of_cluster = self.zones.setdefault(cluster_id, {})
        before = of_cluster.get(node)
        of_cluster[node] = max(zone, before or zone)
        if before is None or before[2] != of_cluster[node][2]:
            tally = self.tallies.get(cluster_id, {}).pop(node, None)
            self._begin(cluster_id, [node])
            return tally is None or tally.first is None
        return True

    def _begin(self, cluster_id: str, nodes: Iterable[str]) -> None:
        """Nodes of which no line has voted, if they are not known."""
        of_cluster = self.tallies.setdefault(cluster_id, {})
        for node in nodes:
            if node not in of_cluster:
                of_cluster |= no_tallies([node], self.zones.get(cluster_id, {}))
                self.conclude(cluster_id, [node])

    def put_tallies(self, cluster_id: str, tallies: Mapping[str, NodeTally]) -> None:
        self.tallies[cluster_id] = dict(tallies)
        self.conclude(cluster_id, tallies)

    def waits_for(self, cluster_id: str, stretch: Stretch, at_ms: int, ref: str) -> bool:
        """Whether this line votes, because there are not enough lines before it."""
        of_it = self.votes.of(cluster_id, day_of(stretch)).voters.get(stretch, [])
        return len(of_it) < PAIRS_PER_STRETCH or (at_ms, ref) < of_it[-1][:2]

    def change(self, cluster_id: str, day: int, votes: DayVotes, nodes: Set[str]) -> None:
        """The votes of this cluster and day are others now, of these nodes. `conclude` when all have changed."""
        before, now = (Counter(of.pairs(nodes)) for of in (self.votes.of(cluster_id, day), votes))
        tallies = self.tallies[cluster_id]
        for (node, local_at_ms, at_ms), count in (now - before).items():
            tallies[node].tally.add(local_at_ms, at_ms, count)
        for (node, local_at_ms, at_ms), count in (before - now).items():
            tallies[node].tally.remove(local_at_ms, at_ms, count)
        _see_first(tallies, votes, nodes)
        self.votes.put(cluster_id, day, votes)

    def conclude(self, cluster_id: str, nodes: Iterable[str]) -> None:
        """The clocks of these nodes anew."""
        of_cluster = self._readings[cluster_id]
        for node in nodes:
            known = self.tallies[cluster_id][node]
            for lost in known.tally.lost_ends():
                known.tally.put_end(lost, self._end(cluster_id, node, lost))
            first_ref = None if known.first is None else known.first[1]
            zone = known.tally.configured
            of_cluster[node] = NodeReading(cluster_id, node, zone, first_ref, known.tally.clock())

    def _end(self, cluster_id: str, node: str, lost: LostEnd) -> int:
        """The first or last record now for this offset: from the bound on, day by day, until none can be beyond."""
        days, found = sorted(self.votes.days), None
        if lost.is_last:
            days = days[: bisect_right(days, (lost.bound_ms + REACH_MS) // DAY_MS)][::-1]
        else:
            days = days[bisect_left(days, (lost.bound_ms - REACH_MS) // DAY_MS) :]
        for day in days:
            if found is not None and (
                found >= (day + 1) * DAY_MS + REACH_MS if lost.is_last else found <= day * DAY_MS - REACH_MS
            ):
                break
            times = [
                at_ms
                for _, local_at_ms, at_ms in self.votes.of(cluster_id, day).pairs({node})
                if offset_of(local_at_ms, at_ms) == lost.offset_ms
            ]
            if found is not None:
                times.append(found)
            if times:
                found = max(times) if lost.is_last else min(times)
        assert found is not None, "the tally has a pair that no day has"
        return found


def no_tallies(nodes: Iterable[str], zones: Mapping[str, Zone]) -> dict[str, NodeTally]:
    return {node: NodeTally(ClockTally(zones[node][2] if node in zones else None)) for node in nodes}


def tallies_of(days: Mapping[int, DayVotes], nodes: Iterable[str], zones: Mapping[str, Zone]) -> dict[str, NodeTally]:
    """Of these nodes, from all votes of their cluster."""
    found = no_tallies(nodes, zones)
    for votes in days.values():
        for node, local_at_ms, at_ms in votes.pairs():
            found[node].tally.add(local_at_ms, at_ms)
        _see_first(found, votes, found.keys())
    return found


def _see_first(tallies: Mapping[str, NodeTally], votes: DayVotes, nodes: Set[str]) -> None:
    for (node, _, _), of_stretch in votes.voters.items():
        if node in nodes and ((first := tallies[node].first) is None or of_stretch[0][:2] < first):
            tallies[node].first = of_stretch[0][:2]
