"""The lines that vote on nodes' clocks, and what records answer them, as a note of the warehouse: a process that begins
does not look for them among all events.

The note names groups, so `erase` removes it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from sys import intern
from typing import Any, NamedTuple

from rebalance_audit.domain.model import LogKind
from rebalance_audit.warehouse.warehouse import Warehouse

NOTE = "clock-votes"
_FORM = 1
_TABLES = ("silver.group_event", "bronze.source")
BEHIND = 16
"""How many versions the note may be behind the table of events. It has some 300 bytes for each vote; so it is not
written at every run, and one that begins reads what came since."""
BEHIND_ROWS = 5_000
"""How many events it may be behind: one version may have a whole history. To read so many takes some 20 ms."""

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


class Votes(NamedTuple):
    """All votes at these versions."""

    versions: Versions
    nodes: set[tuple[str, str]]
    """Nodes with log events."""
    zones: dict[str, dict[str, str]]
    voters: dict[Stretch, list[Voter]]
    answers: Answers
    """Of each number that a voter names."""


def keep(warehouse: Warehouse, votes: Votes) -> None:
    voters = [[*stretch, list(of_stretch)] for stretch, of_stretch in votes.voters.items()]
    warehouse.remember(
        NOTE,
        {
            "form": _FORM, "tables": list(map(warehouse.table_id, _TABLES)), "versions": votes.versions,
            "nodes": sorted(votes.nodes), "zones": votes.zones, "voters": voters,
            "answers": [[*number, of_number] for number, of_number in votes.answers.items()],
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
        voters={
            (intern(cluster_id), intern(node), intern(kind), at): list(map(_voter, of_stretch))
            for cluster_id, node, kind, at, of_stretch in note["voters"]
        },
        answers={
            (intern(cluster_id), group_id, number): [(_subject(subject), at_ms) for subject, at_ms in of_number]
            for cluster_id, group_id, number, of_number in note["answers"]
        },
    )


def _voter(kept_as: Sequence[Any]) -> Voter:
    at_ms, ref, (cluster_id, group_id, number), node, local_at_ms, subject = kept_as
    return Voter(at_ms, ref, (intern(cluster_id), group_id, number), intern(node), local_at_ms, _subject(subject))


def _subject(kept_as: Sequence[Any] | None) -> Hashable | None:
    if kept_as is None:
        return None
    kind, group_id, number = kept_as
    return LogKind(kind), group_id, number
