"""Movements of KIP-848 and streams groups: a resource in its new owner's assignment record, or in nobody's."""

from __future__ import annotations

from rebalance_audit.domain.kinds import MovementKind, ResourceType
from rebalance_audit.domain.model import NO_END, GroupRecord, Mark, Movement
from rebalance_audit.domain.reconstruct.evidence.clients import ClientLines
from rebalance_audit.domain.reconstruct.evidence.commits import Commits

from .epoch import Held, LiveMember, Release, is_same
from .marks import modern_resume_marks, modern_stop_marks


def taken_over(
    member: LiveMember,
    held: Held,
    record: GroupRecord,
    release: Release | None,
    commits: Commits,
    clients: ClientLines,
) -> Movement:
    """The movement of a resource to `member`, whose `record` is the first to hold it; `release`: how its last owner, if
    any, lost it."""
    stops: tuple[Mark, ...] = ()
    resumes: tuple[Mark, ...] = ()
    first_commit = None
    resource = (held.topic, held.partition) if held.topic is not None and held.partition is not None else None
    if resource is not None:
        first_commit = commits.first_between([resource], record.offset, NO_END)
    if release is not None:
        stops = modern_stop_marks(release, resource, commits, clients)
        resumes = modern_resume_marks(member, record, resource, commits, clients)
    old = release.member if release else None
    is_returned = old is not None and is_same(old, member)
    refs = [record.ref, *(m.ref for m in (*stops, *resumes) if m.ref is not None)]
    return Movement(
        resource_type=_type_of(held),
        resource=held.resource,
        topic=held.topic,
        partition=held.partition,
        kind=MovementKind.ASSIGNED if old is None else MovementKind.RETURNED if is_returned else MovementKind.MOVED,
        from_member_id=old.member_id if old else None,
        to_member_id=member.member_id,
        from_client_id=old.metadata.client_id if old and old.metadata else None,
        to_client_id=member.metadata.client_id if member.metadata else None,
        revoked_in_rebalance_id=release.revoked_in if release else None,
        stop_marks=stops,
        resume_marks=resumes,
        first_commit_at_ms=first_commit[0] if first_commit else None,
        evidence=tuple(dict.fromkeys(refs)),
    )


def left_without_owner(held: Held, release: Release) -> Movement:
    """The movement of a resource that nobody is there to take."""
    metadata = release.member.metadata
    return Movement(
        resource_type=_type_of(held),
        resource=held.resource,
        topic=held.topic,
        partition=held.partition,
        kind=MovementKind.REVOKED,
        from_member_id=release.member.member_id,
        from_client_id=metadata.client_id if metadata else None,
        evidence=(release.gone.ref,),
    )


def _type_of(held: Held) -> ResourceType:
    return ResourceType.STREAM_TASK if held.topic is None else ResourceType.PARTITION
