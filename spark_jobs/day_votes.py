"""The lines that vote on nodes' clocks and what records answer them, by cluster and day.

Of long past days they are in notes of the warehouse, packed; a process opens those of which something changes. The
notes name groups, so `erase` removes them.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from sys import intern
from typing import Any, NamedTuple
from weakref import WeakMethod

from rebalance_audit.domain.gather.clock_tally import REACH_MS
from rebalance_audit.domain.gather.clocks import paired
from rebalance_audit.domain.model import LogKind
from rebalance_audit.warehouse.warehouse import Warehouse

PAIRS_PER_STRETCH = 20
STRETCH_MS = 6 * 3_600_000
"""For each node, each kind of line with a generation or epoch and each stretch of six hours, a limited number of lines
votes on the node's clock: enough to outvote outliers, few enough to decode again. Which lines vote depends on the
evidence alone, not on when it came."""
DAY_MS = 4 * STRETCH_MS

_SLOTS = 512
"""Notes at most; days that are so far apart share one. A client can have lines written with any time, and each day
would be a note."""
_SLOTS_READ = 4
"""How many unchanged notes stay in memory."""
UNPACKED = 20_000
"""Votes and answered numbers that are objects at a time. As objects they take some 600 bytes each."""

_KINDS = {kind.value: kind for kind in LogKind}
"""To look one up takes a sixth of what LogKind takes."""

Stretch = tuple[str, str, int]
"""Node, kind of line and stretch of time: of each, so many lines vote."""
Number = tuple[str, int]
"""Group, and a generation or epoch."""
Said = list[tuple[Hashable, int]]
"""What the records of a number say, as `instants_of` gives it: the records themselves, with all of their members, would
take ten times the memory."""


class Voter(NamedTuple):
    """A line that votes. They are in order by time and ref."""

    local_at_ms: int
    ref: str
    number: Number
    subject: Hashable | None


class DayVotes(NamedTuple):
    """The votes in one cluster on one day of the nodes' own clocks."""

    voters: dict[Stretch, list[Voter]]
    answers: dict[Number, Said]
    """Of each number that a voter names, as far as it may make a pair with a line of this day."""

    @property
    def size(self) -> int:
        return sum(map(len, self.voters.values())) + len(self.answers)

    def pairs(self, nodes: Collection[str] | None = None) -> list[tuple[str, int, int]]:
        """Node, local time of a line and time of the record that it belongs to, of these nodes (None: of all)."""
        lines = (
            (node, voter.local_at_ms, voter.subject)
            for (node, _, _), of_stretch in self.voters.items()
            if nodes is None or node in nodes
            for voter in of_stretch
        )
        by_node = paired(lines, (said for of_number in self.answers.values() for said in of_number))
        return [(node, *pair) for node, pairs in by_node.items() for pair in pairs]


NO_VOTES = DayVotes({}, {})


def day_of(stretch: Stretch) -> int:
    return stretch[2] * STRETCH_MS // DAY_MS


def days_of(at_ms: int) -> range:
    """The days whose lines may make a pair with a record of this time."""
    return range((at_ms - REACH_MS) // DAY_MS, (at_ms + REACH_MS) // DAY_MS + 1)


class LostVotes(Exception):
    """A note of votes is gone or damaged."""


class Slot(NamedTuple):
    """Days that share a note."""

    note: str
    days: list[int]


Packed = dict[int, dict[str, bytes]]
"""By day and cluster."""


class VotesByDay:
    """The votes of each cluster and day, packed but for those that were asked for last."""

    def __init__(self, warehouse: Warehouse | None = None, slots: Mapping[int, Slot] | None = None) -> None:
        """Those in these notes of the warehouse, if any."""
        self.slots = dict(slots or {})
        """As far as they are in notes; see `save`."""
        self.days = {day for slot in self.slots.values() for day in slot.days}
        self._recall = None if warehouse is None else WeakMethod(warehouse.recall)
        self._read: OrderedDict[int, Packed] = OrderedDict()
        """By slot. Without those that changed since they were packed."""
        self._changed: set[int] = set()
        """Slots that differ from their notes."""
        self._open: OrderedDict[tuple[str, int], DayVotes] = OrderedDict()
        self._unpacked = 0
        """What the open ones hold."""

    def of(self, cluster_id: str, day: int) -> DayVotes:
        """The votes of this cluster and day. Do not change them; see `put`. LostVotes if they cannot be read."""
        place = cluster_id, day
        if (found := self._open.get(place)) is None:
            if day not in self.days or (packed := self._of_slot(day).get(day, {}).get(cluster_id)) is None:
                return NO_VOTES
            found = unpacked(packed)
            self._keep_open(place, found)
        self._open.move_to_end(place)
        return found

    def put(self, cluster_id: str, day: int, votes: DayVotes) -> None:
        self._changing(day).pop(cluster_id, None)
        self._keep_open((cluster_id, day), votes)

    def put_packed(self, cluster_id: str, day: int, votes: bytes) -> None:
        """Votes that a task has packed; there are none of this cluster and day yet."""
        self._changing(day)[cluster_id] = votes

    def save(self, warehouse: Warehouse, prefix: str, version: int | None, noted: Mapping[int, Slot]) -> None:
        """Write notes of what changed, under names that none of an earlier version has. `noted`: what the warehouse has
        now. Another process may have written and removed notes since; of what has not changed it has the same."""
        self.slots = {at: noted.get(at, slot) for at, slot in self.slots.items()}
        for place, votes in self._open.items():
            self._pack(place, votes)
        for slot in sorted(self._changed):
            content = self._read[slot]
            name = f"{prefix}{slot}-{version}"
            texts = {
                str(day): {cluster_id: base64.b64encode(packed).decode() for cluster_id, packed in of_day.items()}
                for day, of_day in content.items()
            }
            warehouse.remember(name, {"days": texts})
            self.slots[slot] = Slot(name, sorted(content))
        self._changed.clear()
        self._recall = WeakMethod(warehouse.recall)
        self._let_go()

    def _changing(self, day: int) -> dict[str, bytes]:
        """The packed votes of a day, which are about to change."""
        of_slot = self._of_slot(day)
        self._changed.add(day % _SLOTS)
        self.days.add(day)
        return of_slot.setdefault(day, {})

    def _of_slot(self, day: int) -> Packed:
        slot = day % _SLOTS
        if slot not in self._read:
            self._read[slot] = self._from_note(self.slots[slot].note) if slot in self.slots else {}
            self._let_go()
        self._read.move_to_end(slot)
        return self._read[slot]

    def _from_note(self, name: str) -> Packed:
        recall = None if self._recall is None else self._recall()
        if recall is None or not (note := recall(name)):
            raise LostVotes(name)
        return {
            int(day): {cluster_id: base64.b64decode(packed) for cluster_id, packed in of_day.items()}
            for day, of_day in note["days"].items()
        }

    def _let_go(self) -> None:
        """Of what is in notes anyway, but for what was asked for last."""
        unchanged = [slot for slot in self._read if slot not in self._changed]
        for slot in unchanged[:-_SLOTS_READ]:
            del self._read[slot]

    def _keep_open(self, place: tuple[str, int], votes: DayVotes) -> None:
        if (before := self._open.pop(place, None)) is not None:
            self._unpacked -= before.size
        self._open[place] = votes
        self._unpacked += votes.size
        while len(self._open) > 1 and self._unpacked > UNPACKED:
            gone, others = self._open.popitem(last=False)
            self._unpacked -= others.size
            self._pack(gone, others)

    def _pack(self, place: tuple[str, int], votes: DayVotes) -> None:
        cluster_id, day = place
        if day % _SLOTS in self._changed:  # else it is in its note
            of_day = self._read[day % _SLOTS].setdefault(day, {})
            if cluster_id not in of_day:
                of_day[cluster_id] = packed(votes)


def packed(votes: DayVotes) -> bytes:
    voters = [[*stretch, of_stretch] for stretch, of_stretch in votes.voters.items()]
    answers = [[*number, said] for number, said in votes.answers.items()]
    return zlib.compress(json.dumps([voters, answers], separators=(",", ":")).encode(), 1)


def unpacked(packed: bytes) -> DayVotes:
    voters, answers = json.loads(zlib.decompress(packed))
    return DayVotes(
        voters={
            (intern(node), intern(kind), at): [_voter(*kept_as) for kept_as in of_stretch]
            for node, kind, at, of_stretch in voters
        },
        answers={
            (group_id, number): [(_subject(subject), at_ms) for subject, at_ms in said]
            for group_id, number, said in answers
        },
    )


def _voter(local_at_ms: int, ref: str, number: Iterable[Any], subject: Sequence[Any] | None) -> Voter:
    group_id, of_group = number
    return Voter(local_at_ms, ref, (group_id, of_group), _subject(subject))


def _subject(kept_as: Sequence[Any] | None) -> Hashable | None:
    if kept_as is None:
        return None
    kind, group_id, number = kept_as
    return _KINDS[kind], group_id, number
