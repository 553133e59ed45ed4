"""The time between a member's being given a partition and its being given on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.model import LogEvent
from rebalance_audit.domain.records import GroupMetadataValue, MemberMetadata

from .attempts import Attempt
from .commits import Resource
from .departures import Departure


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What lies between the record that gave a partition to its old owner and the one that gives it on."""

    owner: MemberMetadata
    resource: Resource
    held: frozenset[Resource]
    """All that the owner held and gives up together; commits of any of these speak for it."""
    given: Attempt
    attempts: Sequence[Attempt]
    """After `given`, up to and with the one that gives it on."""
    first: Attempt
    """Of these the first that was tried: neither a gap nor a rewrite, if there is one."""
    is_gone: bool
    """The owner left the group meanwhile."""
    gone: Attempt | None
    """The first record without it."""
    departure: Departure | None
    inferred: str | None
    """How it went by its silence, where no line tells."""
    revoked: Attempt | None
    """The attempt that took the partition away without giving it on."""
    is_taken_over: bool = False
    """By a coordinator that loaded the group meanwhile, and the log of the one before is not there: it may have begun
    the join phase earlier."""
    fenced: LogEvent | None = None
    """A static member whose place another process took while it worked: the line that told it."""

    @property
    def survivor_count(self) -> int:
        """How many members were there before and after."""
        before, after = self.given.member_ids, self.attempts[-1].member_ids
        return 1 if before is None or after is None else len(before & after)

    @property
    def closes_silently(self) -> bool:
        """Static members and Streams do not leave when they are closed."""
        value = self.gone.value if self.gone is not None else None
        given = self.given.value if isinstance(self.given.value, GroupMetadataValue) else value
        return self.owner.group_instance_id is not None or (given is not None and given.protocol == "stream")
