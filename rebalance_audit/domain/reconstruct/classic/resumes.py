"""When the new owner of a partition was given it, by every piece of evidence."""

from __future__ import annotations

from rebalance_audit.domain.client_families import Families, prepares_first, starts_at_once
from rebalance_audit.domain.kinds import ESTIMATE, LOWER, UPPER, Basis
from rebalance_audit.domain.model import NO_END, GroupRecord, Mark
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.clients import ClientLines
from rebalance_audit.domain.reconstruct.evidence.commits import Commits, Resource
from rebalance_audit.domain.reconstruct.evidence.marks import (
    ASSIGNED_CALLBACK_AFTER_MS,
    ASSIGNED_CALLBACK_MS,
    FIRST_COMMIT_AFTER_FETCHES_MS,
    FIRST_COMMIT_AFTER_INTERVAL_MS,
    LATE_BEGIN_MS,
    LINE_SLACK_MS,
    TASKS_CALLBACK_MS,
    began_between,
    is_of_streams,
    joined,
    own_start_marks,
    recorded,
)
from rebalance_audit.domain.records import MemberMetadata


def delivery_basis(families: Families, *, is_new: bool) -> Basis:
    """The kind of evidence that an assigning record is for a member that may be of these libraries. `is_new`: whether
    it joined with this generation."""
    if prepares_first(families):
        return Basis.DELIVERY_TO_NEW if is_new else Basis.DELIVERY
    return Basis.DELIVERY_AT_ONCE if starts_at_once(families) else Basis.DELIVERY_SOON


def delivered_marks(record: GroupRecord, basis: Basis) -> tuple[Mark, ...]:
    """The marks of when the assigned callbacks of new owners returned, by the record that gives to them all."""
    after_ms = ASSIGNED_CALLBACK_AFTER_MS[basis]
    detail = f"the assigned callback follows the group record by {after_ms} ms in the median"
    if is_of_streams(record.record.value):
        detail, after_ms = "Kafka Streams makes its tasks after the group record", TASKS_CALLBACK_MS
        basis = Basis.TASK_DELIVERY
    return (
        recorded(LOWER, record.at_ms, "the assignment was delivered", record.ref),
        recorded(ESTIMATE, record.at_ms + after_ms, detail, record.ref, rank=3, basis=basis),
    )


def begun_marks(record: GroupRecord, first_commit_at_ms: int | None, interval_ms: float | None) -> tuple[Mark, ...]:
    """When a member that may be sarama's began with a partition beside those it kept: fetches of these come first, so
    its first commit shows it, at most an interval before."""
    detail = "sarama begins when fetches of what it keeps are back"
    since_ms = record.at_ms + ASSIGNED_CALLBACK_MS
    lower = recorded(LOWER, record.at_ms, "the assignment was delivered", record.ref)
    if first_commit_at_ms is None:
        return lower, began_between((since_ms, since_ms + LATE_BEGIN_MS), since_ms, detail, record.ref)
    before_ms = max(FIRST_COMMIT_AFTER_FETCHES_MS, round(interval_ms or 0) + FIRST_COMMIT_AFTER_INTERVAL_MS)
    since_ms = max(since_ms, first_commit_at_ms - before_ms)
    until_ms = max(since_ms, min(first_commit_at_ms, record.at_ms + LATE_BEGIN_MS))
    return lower, began_between((since_ms, until_ms), (since_ms + until_ms) // 2, detail, record.ref)


def resume_bound(
    owner: MemberMetadata, assigned: frozenset[Resource], attempt: Attempt, following: Attempt | None, commits: Commits
) -> list[Mark]:
    """The mark by which one new owner's assigned callback had returned. `assigned`: the resources it did not hold
    before."""
    record = attempt.record
    if record is None:
        return []
    until = following.record.offset if following is not None and following.record is not None else NO_END
    commit = commits.first_between(assigned, record.offset, until)
    if commit is not None:
        return [recorded(UPPER, commit[0] + LINE_SLACK_MS, "the new owner's first commit", commit[1])]
    if following is not None and owner.member_id in (following.member_ids or ()):
        joined_at_ms, joined_ref = joined([following])
        if joined_at_ms is not None and not following.rewrite_seq:
            detail = "the new owner joined the next rebalance"
            return [recorded(UPPER, joined_at_ms + LINE_SLACK_MS, detail, joined_ref)]
    return []


def resume_line(
    owner: MemberMetadata, resource: Resource, attempt: Attempt, following: Attempt | None, clients: ClientLines
) -> list[Mark]:
    """The new owner's own log line about when it was given the partition."""
    if attempt.record is None:
        return []
    until_ms = following.known_at_ms if following is not None and following.known_at_ms is not None else NO_END
    line = clients.start(owner.client_id, resource, attempt.record.at_ms, until_ms)
    return [] if line is None else own_start_marks(line)
