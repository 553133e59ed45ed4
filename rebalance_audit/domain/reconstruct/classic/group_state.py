"""What is known of a classic group while walking through its attempts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.commits import Commits, Resource
from rebalance_audit.domain.records import MemberMetadata

from .conversions import Downgrade


@quick
@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """Who held partitions last, and since which attempt: one for all that it was given together, compared as such."""

    member: MemberMetadata
    attempt_index: int
    revoked_in: str | None = None
    """The rebalance that took it away without giving it on."""
    revoked_index: int | None = None
    given: Attempt | None = None
    """What gave it, where that is no attempt of the classic group: a consumer group that was converted."""


@dataclass(slots=True, kw_only=True)
class GroupState:
    attempts: Sequence[Attempt]
    commits: Commits
    holdings: dict[Resource, Holding] = field(default_factory=dict)
    before: dict[str, MemberMetadata] | None = None
    """Members of the last record; None where lines alone told of the last generation."""
    held_before: dict[str, frozenset[Resource]] = field(default_factory=dict)
    delivered_index: int = -1
    is_history_known: bool = False
    converted: Downgrade | None = None
    """The attempt before was a conversion."""
    committers: set[str] = field(default_factory=set)
    """Client ids seen to commit again and again."""

    @property
    def delivered_offset(self) -> int | None:
        if self.delivered_index < 0:
            return None
        record = self.attempts[self.delivered_index].record
        return None if record is None else record.offset

    def forget(self, *, before: dict[str, MemberMetadata] | None, is_history_known: bool) -> None:
        self.holdings, self.held_before = {}, {}
        self.before, self.is_history_known = before, is_history_known

    def known(self, member: MemberMetadata) -> MemberMetadata | None:
        """It, or its static predecessor, as it was before."""
        if self.before is None:
            return None
        found = self.before.get(member.member_id)
        if found is not None or member.group_instance_id is None:
            return found
        return next((m for m in self.before.values() if m.group_instance_id == member.group_instance_id), None)


def is_same(one: MemberMetadata, other: MemberMetadata) -> bool:
    if one.member_id == other.member_id:
        return True
    return one.group_instance_id is not None and one.group_instance_id == other.group_instance_id
