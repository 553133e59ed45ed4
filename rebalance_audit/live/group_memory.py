"""The evidence of one group in memory: a set, so that what the tables and the collector both bring is kept once."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter

from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.gather.commit_marks import joined
from rebalance_audit.domain.gather.windows import Checkpoint, Piece, begins_round
from rebalance_audit.domain.model import (
    CommitMark,
    ConnectRecord,
    ConnectTask,
    Finding,
    GroupRecord,
    LogEvent,
    Rebalance,
)

MOST_EVENTS = 20_000
"""The most events of one group: some 2,500 generations."""
KEPT_EVENTS = 5_000
"""How many events are kept of a group that has more."""
KEPT_MS, KEPT_ROUNDS = 3 * 3_600_000, 32
"""A group goes on from a checkpoint (`gather.windows`) once it has so many rounds in so much time since then: rules ask
for the last two hours, and for ten measured pauses. KEPT_EVENTS are enough in any time."""
MOST_ROUNDS = 256
"""With so many rounds a group looks for such a checkpoint."""

Event = GroupRecord | ConnectRecord | LogEvent
_Stretch = tuple[str, int, str, int, int]
"""Partition of the offsets topic, partition committed, and number of the group's records before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPast:
    """What the tables hold of one group."""

    events: Sequence[Event] = ()
    marks: Sequence[CommitMark] = ()
    is_whole: bool = True
    """False if older evidence was left out."""
    start: Checkpoint | None = None
    """What stands for the evidence that was left out."""


@dataclass(slots=True)
class GroupMemory:
    """One group's evidence, and what was made of it last."""

    events: dict[str, Event] = field(default_factory=dict)
    """By ref."""
    marks: dict[_Stretch, CommitMark] = field(default_factory=dict)
    stored_marks: Sequence[CommitMark] = ()
    """Marks as the tables had them."""
    boundaries: dict[tuple[str, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Offsets of its records."""
    is_whole: bool = True
    start: Checkpoint | None = None
    """What stands for older evidence, where it is not whole."""
    tried_at: int = 0
    """The number of its events when no checkpoint was found to go on from."""
    is_new: bool = False
    """True if the tables held nothing of it when it came into memory."""
    rebalances: Sequence[Rebalance] = ()
    tasks: Sequence[ConnectTask] = ()
    findings: Sequence[Finding] = ()

    @classmethod
    def of(cls, past: GroupPast) -> GroupMemory:
        is_new = not past.events and past.start is None
        found = cls(is_whole=past.is_whole, is_new=is_new, start=past.start, stored_marks=past.marks)
        for event in past.events:
            found.add(event)
        for record in () if past.start is None else past.start.latest:
            insort(found.boundaries[record.topic, record.partition], record.offset)
        return found

    @property
    def has_open(self) -> bool:
        return bool(self.rebalances) and self.rebalances[-1].outcome == "open"

    @property
    def offsets_partitions(self) -> set[tuple[str, int]]:
        """The partitions of its records; if there are none, those that its lines name."""
        if self.boundaries:
            return set(self.boundaries)
        named = {e.fields.get("offsets_partition") for e in self.events.values() if isinstance(e, LogEvent)}
        return {(OFFSETS_TOPIC, number) for number in named if isinstance(number, int)}

    def add(self, event: Event) -> bool:
        """False if it is there already."""
        if event.ref in self.events:
            return False
        self.events[event.ref] = event
        if isinstance(event, GroupRecord):
            insort(self.boundaries[event.topic, event.partition], event.offset)
        return True

    def add_mark(self, mark: CommitMark) -> None:
        """Add the mark of a commit, after all records that arrived before it."""
        _join(self.marks, mark, self._stretch(mark))

    def all_marks(self) -> list[CommitMark]:
        """All marks, with those of the tables, which may know records that come into memory later."""
        joined = dict(self.marks)
        for mark in self.stored_marks:
            _join(joined, mark, self._stretch(mark))
        return list(joined.values())

    def last_commits(self) -> dict[str, int]:
        """The time of each partition's last commit, by `topic-partition`."""
        last: dict[str, int] = {}
        for mark in (*self.stored_marks, *self.marks.values()):
            name = f"{mark.topic}-{mark.partition}"
            last[name] = max(last.get(name, mark.last_at_ms), mark.last_at_ms)
        return last

    def _stretch(self, mark: CommitMark) -> int:
        """How many records of the group stand before this offset."""
        return bisect_left(self.boundaries[mark.offsets_topic, mark.offsets_partition], mark.first_offset)

    @property
    def has_many_rounds(self) -> bool:
        """Whether it has so many rounds that a checkpoint is to be looked for; after that was in vain, whether half as
        much came since."""
        is_more = len(self.events) > max(MOST_ROUNDS, self.tried_at + self.tried_at // 2)
        return is_more and sum(map(begins_round, self.events.values())) > MOST_ROUNDS

    def go_on(self, found: Sequence[Checkpoint], pieces: Sequence[tuple[int, Piece]]) -> None:
        """Go on from the latest of these checkpoints with enough of the pieces after it. They come by their instants,
        as `reconstruct_in_windows` takes them."""
        for checkpoint in reversed(found):
            since = pieces[bisect_left(pieces, checkpoint.read_until_ms, key=itemgetter(0)) :]
            rounds = sum(begins_round(piece) for _, piece in since)
            is_long = rounds >= KEPT_ROUNDS and since[-1][0] - checkpoint.read_until_ms >= KEPT_MS
            if is_long or len(since) >= KEPT_EVENTS:
                break
        else:
            self.tried_at = len(self.events)
            return
        gone = {p.ref for at_ms, p in pieces if at_ms < checkpoint.read_from_ms and not isinstance(p, CommitMark)}
        self.events = {ref: event for ref, event in self.events.items() if ref not in gone}
        self._let_marks_go(checkpoint.read_from_ms)
        self.start, self.is_whole, self.tried_at = checkpoint, False, 0

    def trim(self) -> None:
        """Keep the newest, and of the others the latest record of each key, as a compacted topic would."""
        if len(self.events) <= MOST_EVENTS or is_connect_group_of(self.events.values()):
            return
        ordered = sorted(self.events.values(), key=instant_of)
        latest = {(e.record.name, e.record.key): e for e in ordered[:-KEPT_EVENTS] if isinstance(e, GroupRecord)}
        kept = [*latest.values(), *ordered[-KEPT_EVENTS:]]
        self.events = {event.ref: event for event in kept}
        self._let_marks_go(instant_of(ordered[-KEPT_EVENTS]))
        self.start, self.is_whole = None, False

    def _let_marks_go(self, until_ms: int) -> None:
        self.marks = {key: mark for key, mark in self.marks.items() if mark.last_at_ms >= until_ms}
        self.stored_marks = [mark for mark in self.stored_marks if mark.last_at_ms >= until_ms]


def _join(marks: dict[_Stretch, CommitMark], mark: CommitMark, stretch: int) -> None:
    key = mark.offsets_topic, mark.offsets_partition, mark.topic, mark.partition, stretch
    known = marks.get(key)
    if known is not None:
        first, last = sorted((known, mark), key=attrgetter("first_offset"))
        if first.last_offset < last.first_offset:
            mark = joined(first, last)
        else:  # the same commits came twice: the mark with more of them knows the gaps
            last = max(known, mark, key=attrgetter("last_offset"))
            mark = replace(
                max(known, mark, key=attrgetter("commit_count")),
                first_offset=first.first_offset,
                first_at_ms=first.first_at_ms,
                first_position=first.first_position,
                last_offset=last.last_offset,
                last_at_ms=last.last_at_ms,
                last_position=last.last_position,
                in_transaction=last.in_transaction,
                topic_id=known.topic_id if known.topic_id is not None else mark.topic_id,
            )
    marks[key] = mark


def instant_of(event: Event) -> int:
    """The time of an event; of a line whose layout has no zone, its local time. That is good enough to order events
    that are hours apart."""
    if isinstance(event, LogEvent):
        return event.local_at_ms if event.at_ms is None else event.at_ms
    return event.at_ms


def is_connect_group_of(events: Iterable[Event]) -> bool:
    return any(
        isinstance(e, ConnectRecord) or (isinstance(e, LogEvent) and e.kind.startswith("worker_")) for e in events
    )
