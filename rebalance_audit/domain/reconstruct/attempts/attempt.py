"""One try of a classic group to reach a generation, with every piece of evidence that belongs to it."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_audit.domain.kinds import Outcome
from rebalance_audit.domain.model import GroupRecord, LogEvent
from rebalance_audit.domain.records import GroupMetadataValue


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One try to reach generation `number`, with every piece of evidence that belongs to it."""

    number: int
    incarnation: int = 0
    """Counts up when numbers start again: the group was deleted and created again."""
    record: GroupRecord | None = None
    rewrite_seq: int = 0
    preparing: LogEvent | None = None
    stabilized: LogEvent | None = None
    received: LogEvent | None = None
    emptied: LogEvent | None = None
    failure: LogEvent | None = None
    unwritten: LogEvent | None = None
    """The `Preparing` line of the next one, if it says that the record of this one could not be written."""
    undelivered: GroupRecord | None = None
    """A record that was written after all, when its members had been refused the assignment in it. `unwritten` says so,
    or what follows."""
    replaced: LogEvent | None = None
    """The line by which a static member came back; None unless this is a rewrite."""
    converted: LogEvent | None = None
    """A consumer group became classic with this number: the `Preparing` line of the next one says so."""
    during: list[LogEvent] = field(default_factory=list)
    """Member lines from the end of the join phase before to the end of this one."""
    missing_to: int | None = None
    """The last number of a run of missing ones that this row stands for."""
    use: int = 0
    """Counts the uses of the number; 0 for the one that counted."""
    _member_ids: frozenset[str] | None = field(default=None, init=False, repr=False)

    @property
    def value(self) -> GroupMetadataValue | None:
        return None if self.record is None else self.record.record.value

    @property
    def refused(self) -> GroupMetadataValue | None:
        """What was given to nobody, where no line says so."""
        is_shown = self.undelivered is not None and self.unwritten is None
        return self.undelivered.record.value if self.undelivered is not None and is_shown else None

    @property
    def member_ids(self) -> frozenset[str] | None:
        """The members in its record; None without a record of a classic group. Ask only once it has its record."""
        if self._member_ids is None and isinstance(self.value, GroupMetadataValue):
            self._member_ids = frozenset(m.member_id for m in self.value.members)
        return self._member_ids

    @property
    def lines(self) -> list[LogEvent]:
        named = (
            self.preparing,
            self.stabilized,
            self.received,
            self.emptied,
            self.failure,
            self.unwritten,
            self.replaced,
            self.converted,
        )
        return [line for line in named if line is not None]

    @property
    def known_at_ms(self) -> int | None:
        """The end of this attempt as far as evidence shows it, epoch ms; for ordering alone."""
        if self.record is not None:
            return self.record.at_ms
        times = [line.at_ms for line in self.lines if line.at_ms is not None]
        return max(times) if times else None

    @property
    def outcome(self) -> Outcome:
        """The outcome as far as this attempt alone shows it. What follows decides whether one that is `open` here was
        superseded, or failed."""
        if self.missing_to is not None:
            return Outcome.MISSING
        if self.value is not None:
            return Outcome.COMPLETED if self.value.members else Outcome.EMPTIED
        if self.unwritten is not None or self.undelivered is not None:
            return Outcome.FAILED
        if self.received is not None or self.rewrite_seq or self.converted is not None:
            return Outcome.COMPLETED
        if self.emptied is not None:
            return Outcome.EMPTIED
        return Outcome.OPEN
