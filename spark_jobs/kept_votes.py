"""The lines that vote on nodes' clocks, and what records answer them, as a note of the warehouse: a process that begins
does not look for them among all events.

The note names groups, so `erase` removes it.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from sys import intern
from typing import Any, NamedTuple

from rebalance_audit.domain.model import LogKind
from rebalance_audit.warehouse.warehouse import Warehouse

NOTE = "clock-votes"
_FORM = 2
_TABLES = ("silver.group_event", "bronze.source")
BEHIND = 16
"""How many versions the note may be behind the table of events. It has some 40 bytes for each vote; so it is not
written at every run, and one that begins reads what came since."""
BEHIND_ROWS = 5_000
"""How many events it may be behind: one version may have a whole history. To read so many takes some 20 ms."""

UNPACKED = 20_000
"""Votes and answered numbers that are objects at a time. As objects they take some 600 bytes each."""

_KINDS = {kind.value: kind for kind in LogKind}
"""To look one up takes a sixth of what LogKind takes, and a process that begins asks once for each vote."""

Versions = tuple[int | None, int | None]
"""Of silver.group_event and bronze.source."""
Stretch = tuple[str, str, str, int]
"""Cluster, node, kind of line and stretch of time: of each, so many lines vote."""
Number = tuple[str, str, int]
"""Cluster, group, and a generation or epoch."""
Answers = dict[Number, list[tuple[Hashable, int]]]
"""What the records of a number say, as `instants_of` gives it: the records themselves, with all of their members, would
take ten times the memory."""


class Voter(NamedTuple):
    """A line that votes. They are in order by time and ref."""

    at_ms: int
    ref: str
    number: Number
    node: str
    local_at_ms: int
    subject: Hashable | None


class ClusterVotes(NamedTuple):
    """The votes in one cluster."""

    voters: dict[Stretch, list[Voter]]
    answers: Answers
    """Of each number that a voter names."""

    @property
    def size(self) -> int:
        return sum(map(len, self.voters.values())) + len(self.answers)


class VotesByCluster:
    """The votes of each cluster, packed but for the clusters that were asked for last."""

    def __init__(self, packed: Mapping[str, bytes] | None = None) -> None:
        self._packed = dict(packed or {})
        """Without those that changed since they were packed."""
        self._open: OrderedDict[str, ClusterVotes] = OrderedDict()
        self._sizes: dict[str, int] = {}
        """Of the open ones."""

    def of(self, cluster_id: str) -> ClusterVotes:
        """The votes of this cluster. Do not change them; see `put`."""
        found = self._open.get(cluster_id)
        if found is None:
            packed = self._packed.get(cluster_id)
            found = ClusterVotes({}, {}) if packed is None else _unpacked(cluster_id, packed)
            self._keep_open(cluster_id, found)
        self._open.move_to_end(cluster_id)
        return found

    def put(self, cluster_id: str, votes: ClusterVotes) -> None:
        self._packed.pop(cluster_id, None)
        self._keep_open(cluster_id, votes)

    def put_packed(self, cluster_id: str, votes: bytes) -> None:
        """Votes that a task has packed; there are none of this cluster yet."""
        self._packed[cluster_id] = votes

    def packed(self) -> Iterator[tuple[str, bytes]]:
        """All of them."""
        for cluster_id, votes in self._open.items():
            self._pack(cluster_id, votes)
        yield from sorted(self._packed.items())

    def _keep_open(self, cluster_id: str, votes: ClusterVotes) -> None:
        self._open[cluster_id] = votes
        self._open.move_to_end(cluster_id)
        self._sizes[cluster_id] = votes.size
        while len(self._open) > 1 and sum(self._sizes.values()) > UNPACKED:
            gone, others = self._open.popitem(last=False)
            del self._sizes[gone]
            self._pack(gone, others)

    def _pack(self, cluster_id: str, votes: ClusterVotes) -> None:
        if cluster_id not in self._packed:
            self._packed[cluster_id] = packed(votes)


class Votes(NamedTuple):
    """All votes at these versions."""

    versions: Versions
    nodes: set[tuple[str, str]]
    """Nodes with log events."""
    zones: dict[str, dict[str, str]]
    by_cluster: VotesByCluster


def keep(warehouse: Warehouse, votes: Votes) -> None:
    warehouse.remember(
        NOTE,
        {
            "form": _FORM, "tables": list(map(warehouse.table_id, _TABLES)), "versions": votes.versions,
            "nodes": sorted(votes.nodes), "zones": votes.zones,
            "votes": {name: base64.b64encode(packed).decode() for name, packed in votes.by_cluster.packed()},
        },
    )  # fmt: skip


def kept(warehouse: Warehouse, until: Versions) -> Votes | None:
    """The votes that were kept last, if they are none of a later version."""
    note = warehouse.recall(NOTE)
    if note.get("form") != _FORM or note["tables"] != list(map(warehouse.table_id, _TABLES)):
        return None
    if any(at is not None and (now is None or at > now) for at, now in zip(note["versions"], until, strict=True)):
        return None
    return Votes(
        versions=(note["versions"][0], note["versions"][1]),
        nodes={(cluster_id, node) for cluster_id, node in note["nodes"]},
        zones=note["zones"],
        by_cluster=VotesByCluster({name: base64.b64decode(packed) for name, packed in note["votes"].items()}),
    )


def packed(votes: ClusterVotes) -> bytes:
    voters = [[*stretch[1:], list(of_stretch)] for stretch, of_stretch in votes.voters.items()]
    answers = [[*number[1:], of_number] for number, of_number in votes.answers.items()]
    return zlib.compress(json.dumps([voters, answers], separators=(",", ":")).encode(), 1)


def _unpacked(cluster_id: str, packed: bytes) -> ClusterVotes:
    voters, answers = json.loads(zlib.decompress(packed))
    cluster_id = intern(cluster_id)
    return ClusterVotes(
        voters={
            (cluster_id, intern(node), intern(kind), at): list(map(_voter, of_stretch))
            for node, kind, at, of_stretch in voters
        },
        answers={
            (cluster_id, group_id, number): [(_subject(subject), at_ms) for subject, at_ms in of_number]
            for group_id, number, of_number in answers
        },
    )


def _voter(kept_as: Sequence[Any]) -> Voter:
    at_ms, ref, (cluster_id, group_id, number), node, local_at_ms, subject = kept_as
    return Voter(at_ms, ref, (intern(cluster_id), group_id, number), intern(node), local_at_ms, _subject(subject))


def _subject(kept_as: Sequence[Any] | None) -> Hashable | None:
    if kept_as is None:
        return None
    kind, group_id, number = kept_as
    return _KINDS[kind], group_id, number
