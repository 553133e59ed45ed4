"""The time between a member's being given a partition and its being given on."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import Families
from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.model import LogEvent
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.reconstruct.evidence.departures import Departure
from rebalance_audit.domain.records import GroupMetadataValue, MemberMetadata

from .between import Between


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """One partition between the record that gave it to its old owner and the one that gives it on."""

    owner: MemberMetadata
    resource: Resource
    held: frozenset[Resource]
    """All that the owner held and gives up together; commits of any of these speak for it."""
    between: Between
    is_gone: bool
    """The owner left the group meanwhile."""
    gone: Attempt | None
    """The first record without it."""
    departure: Departure | None
    inferred: Cause | None
    """How it went by its silence, where no line says so."""
    families: Families
    """The client libraries that the owner may be of."""
    was_idle: bool
    """It may have had nothing to commit: the age of its last commit says nothing."""
    may_be_dropped: bool
    """No line says how it went, and others may have waited for it in vain."""
    returned: Attempt | None
    """The record in which the same client is there again under a new member id, if that came soon."""
    revoked: Attempt | None
    """The attempt that took the partition away without giving it on."""
    fenced: LogEvent | None = None
    """A static member whose place another process took while it worked: the line that shows it."""

    @property
    def closes_silently(self) -> bool:
        """Static members and Streams do not leave when they are closed."""
        value = self.gone.value if self.gone is not None else None
        given = self.between.given.value
        if not isinstance(given, GroupMetadataValue):
            given = value
        return self.owner.group_instance_id is not None or (given is not None and given.protocol == "stream")
