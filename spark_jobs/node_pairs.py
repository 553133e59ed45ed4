"""Pairs of instants that show the clock of each node, and the votes that they are made from."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from rebalance_audit.domain.gather.clock_tally import infer_utc_offset_ms
from rebalance_audit.domain.gather.clocks import NodeClock, paired
from spark_jobs import kept_votes
from spark_jobs.kept_votes import ClusterVotes, Stretch, Versions, VotesByCluster

PAIRS_PER_STRETCH = 20
STRETCH_MS = 6 * 3_600_000
"""For each node, each kind of line with a generation or epoch and each stretch of six hours, a limited number of lines
votes on the node's clock: enough to outvote outliers, few enough to decode again. Which lines vote depends on the
evidence alone, not on when it came."""


@dataclass(frozen=True, slots=True)
class NodePairs:
    """The events that show the clock of one node."""

    cluster_id: str
    node: str
    zone: str | None
    """The configured zone."""
    pairs: array[int]
    """Local time of a line, UTC time of the record it belongs to, local time of the next line and so on."""
    first_ref: str | None
    """One of these lines."""
    clock: NodeClock
    """What they show, worked out once: stages of a run ask five times."""


@dataclass(slots=True)
class Voting:
    """The pairs at two table versions, with what they were made from, so that news can be added."""

    versions: Versions
    nodes: set[tuple[str, str]]
    """Nodes with log events."""
    zones: dict[str, dict[str, str]]
    votes: VotesByCluster
    noted: int | None = None
    """The version of silver.group_event that the note is of."""
    unnoted_rows: int = 0
    """Events that came since."""
    by_cluster: dict[str, list[NodePairs]] = field(default_factory=dict)
    names: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set), init=False)
    """Nodes with log events or a zone, by cluster."""

    def __post_init__(self) -> None:
        for cluster_id, node in (*self.nodes, *((c, node) for c, zones in self.zones.items() for node in zones)):
            self.names[cluster_id].add(node)

    @property
    def pairs(self) -> list[NodePairs]:
        return list(chain.from_iterable(of_cluster for _, of_cluster in sorted(self.by_cluster.items())))

    def work_out(self, clusters: Iterable[str]) -> None:
        """The pairs of these clusters' nodes anew."""
        for cluster_id in sorted(clusters):
            votes, zones = self.votes.of(cluster_id), self.zones.get(cluster_id, {})
            self.by_cluster[cluster_id] = pairs_of_nodes(cluster_id, self.names[cluster_id], zones, votes)

    @property
    def is_late(self) -> bool:
        """Whether the note is too far behind."""
        now = self.versions[0]
        return now is not None and (
            self.noted is None or now - self.noted > kept_votes.BEHIND or self.unnoted_rows > kept_votes.BEHIND_ROWS
        )

    def waits_for(self, stretch: Stretch, at_ms: int, ref: str) -> bool:
        """Whether this line votes, because there are not enough lines before it."""
        of_it = self.votes.of(stretch[0]).voters.get(stretch, [])
        return len(of_it) < PAIRS_PER_STRETCH or (at_ms, ref) < of_it[-1][:2]


def pairs_of_nodes(
    cluster_id: str, nodes: Iterable[str], zones: Mapping[str, str], votes: ClusterVotes
) -> list[NodePairs]:
    lines = {voter.ref: voter for of_place in votes.voters.values() for voter in of_place}
    parsed = sorted(lines.values(), key=lambda voter: (voter.local_at_ms, voter.ref))
    pairs = paired(
        ((voter.node, voter.local_at_ms, voter.subject) for voter in parsed),
        chain.from_iterable(votes.answers.values()),
    )
    refs = {voter.node: voter.ref for voter in reversed(parsed)}
    found = []
    for node in sorted(nodes):
        zone = zones.get(node)
        of_node = sorted(pairs.get(node, ()))
        clock = infer_utc_offset_ms(of_node, zone)
        packed = array("q", chain.from_iterable(of_node))
        found.append(NodePairs(cluster_id, node, zone, packed, refs.get(node), clock))
    return found
