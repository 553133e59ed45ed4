"""When a resource of a KIP-848, share or streams group stopped and resumed, by the owners' own assignment records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import ESTIMATE, LOWER, UPPER, Basis, Bound, EvidenceTier
from rebalance_audit.domain.log_lines.reasons import classify_fence
from rebalance_audit.domain.model import NO_END, GroupRecord, LogKind, Mark
from rebalance_audit.domain.reconstruct.evidence.clients import ClientLines
from rebalance_audit.domain.reconstruct.evidence.commits import Commits, Resource
from rebalance_audit.domain.reconstruct.evidence.departures import AS_IT_LEFT_MS, HEARTBEAT_MS, REGULARLY
from rebalance_audit.domain.reconstruct.evidence.marks import (
    ASSIGNED_CALLBACK_MS,
    AUTO_COMMIT_MS,
    COMMIT_SLACK_MS,
    LINE_SLACK_MS,
    RECENT_COMMIT_MS,
    died_between,
    own_start_marks,
    own_stop_marks,
)

if TYPE_CHECKING:
    from .epoch import LiveMember, Release

CURRENT_TO_CALLBACK_MS = 45
"""The assigned callback follows the current-assignment record by 45 ms in the median
(docs/measured.md#how-it-was-measured)."""
CURRENT_TO_TASKS_MS = 240
"""The tasks of a streams group run so long after it: the median (docs/measured.md#kafka-streams)."""
CALLBACK_BEFORE_RECORD_MS = 1_500
"""It may come before the record, too: by up to 1.25 s, when the record only confirms (docs/measured.md#epochs)."""


def modern_stop_marks(
    release: Release, resource: Resource | None, commits: Commits, clients: ClientLines
) -> tuple[Mark, ...]:
    """When the old owner let go: after it was asked to revoke, before its next record without the resource."""
    if release.is_idle:
        return tuple(_idle(release))
    marks: list[Mark] = []
    current = release.member.current
    given_at_ms = current.at_ms if current is not None else None
    held = [
        (h.topic, h.partition) for h in release.member.held.values() if h.topic is not None and h.partition is not None
    ]
    mine = [resource] if resource is not None else held
    commit = commits.last_between(mine if release.asked is not None else held, -1, release.gone.offset)
    if release.returned is not None:
        # A process that lives on learns at its next poll that it was put out.
        back = release.returned
        marks.append(_mark(UPPER, back.at_ms + LINE_SLACK_MS, "the same member joined again", back.ref))
    else:
        detail = "its record no longer holds the resource"
        marks.append(_mark(UPPER, release.gone.at_ms + LINE_SLACK_MS, detail, release.gone.ref))
    if release.asked is not None and resource is not None and release.is_pending:
        # A consumer of this protocol commits before its callback, and again on its timer while the callback runs: only
        # the first commit shows when it let go.
        commit = commits.first_between([resource], release.asked.offset, release.gone.offset)
        if commit is not None:
            detail, basis = "its commit when asked to revoke", Basis.COMMIT_WHEN_ASKED
            marks.append(_mark(ESTIMATE, commit[0], detail, commit[1], rank=2, basis=basis))
            commit = None
    if release.asked is not None and release.is_pending:
        marks.append(_mark(LOWER, release.asked.at_ms - LINE_SLACK_MS, "it was asked to revoke", release.asked.ref))
        asked, basis = release.asked, Basis.ASKED_TO_REVOKE
        marks.append(_mark(ESTIMATE, asked.at_ms, "it was asked to revoke", asked.ref, rank=3, basis=basis))
    elif current is not None and release.asked is None:
        marks.append(_mark(LOWER, current.at_ms - LINE_SLACK_MS, "it held the resource then", current.ref))
    if release.rejoined and commit is None:
        detail, at_ms = "it had given all up to re-join", release.gone.at_ms - 10
        marks.append(_mark(ESTIMATE, at_ms, detail, release.gone.ref, rank=3, basis=Basis.REJOIN))
    if commit is not None:
        marks.append(_mark(LOWER, commit[0] - COMMIT_SLACK_MS, "the owner's last commit", commit[1]))
        interval_ms = commits.interval_between(held, -1, release.gone.offset)
        was_idle = _was_idle(release, held, commits, interval_ms)
        marks.append(_by_last_commit(release, commit, interval_ms, was_idle=was_idle))
    elif release.asked is None:
        gone = release.gone
        marks.append(_mark(ESTIMATE, gone.at_ms, "it was gone from the group", gone.ref, rank=5, basis=Basis.GONE))
    metadata = release.member.metadata
    if resource is not None and metadata is not None and current is not None:
        line = clients.stop(metadata.client_id, resource, (given_at_ms or 0) - 60_000, release.gone.at_ms + 1_000)
        if line is not None and line.at_ms is not None:
            # A classic member gives all up to join again, and is given back what it kept all along.
            if clients.start(metadata.client_id, resource, line.at_ms, release.gone.at_ms) is None:
                marks += own_stop_marks(line)
    return tuple(marks)


def _idle(release: Release) -> list[Mark]:
    """It left because it did not poll: its worker goes on until it does, and loses its partitions then."""
    gone, back = release.gone, release.returned
    detail = "its leave, sent while it still worked"
    marks = [_mark(LOWER, gone.at_ms - COMMIT_SLACK_MS, detail, gone.ref)]
    if back is None:
        return [*marks, _mark(ESTIMATE, gone.at_ms, detail, gone.ref, rank=5, basis=Basis.MAY_LIVE_ON)]
    detail = "its re-join follows its lost callback by some ms"
    return [
        *marks,
        _mark(UPPER, back.at_ms + LINE_SLACK_MS, detail, back.ref),
        _mark(ESTIMATE, back.at_ms, detail, back.ref, rank=3, basis=Basis.REJOIN),
    ]


def _by_last_commit(release: Release, commit: tuple[int, str], interval_ms: float | None, *, was_idle: bool) -> Mark:
    """Made as it gave up; or it went on, and died before the next one. `was_idle`: no message came to it since, so it
    had nothing to commit."""
    line, gone_at_ms = release.line, release.gone.at_ms
    current = release.member.current
    if line is not None and line.kind is LogKind.MEMBER_FENCED:
        reason = classify_fence(str(line.fields.get("reason") or ""))
        if reason.trigger == Cause.MEMBER_SESSION_EXPIRED:
            session_ms = _own_session_ms(release.member.metadata)
            if session_ms is not None:
                since_ms = max(commit[0], gone_at_ms - session_ms)
                window = since_ms, max(since_ms, gone_at_ms - session_ms + HEARTBEAT_MS)
                detail = f"between the last sign of life, a session ({session_ms} ms) before, and the next heartbeat"
                return died_between(window, sum(window) // 2, detail, commit[1], rank=4, tier=EvidenceTier.LOGGED)
            if was_idle:
                alive_at_ms = max(commit[0], current.at_ms if current is not None else commit[0])
                window = alive_at_ms, max(alive_at_ms, gone_at_ms)
                detail = "between its last sign of life and its end: it had nothing to commit"
                return died_between(window, sum(window) // 2, detail, commit[1], rank=4, tier=EvidenceTier.RECORDED)
            # Sessions of this protocol are the broker's setting: commits alone show when it lived.
            next_ms = commit[0] + round(AUTO_COMMIT_MS if interval_ms is None else interval_ms)
            window = commit[0], max(commit[0], min(next_ms, gone_at_ms))
            detail = "its last commit + half way to the commit that did not come"
            return died_between(window, sum(window) // 2, detail, commit[1], rank=4, tier=EvidenceTier.RECORDED)
    recent_ms = AS_IT_LEFT_MS if was_idle else RECENT_COMMIT_MS
    if release.asked is None and commit[0] < gone_at_ms - recent_ms:
        if line is not None and line.kind is LogKind.MODERN_MEMBER_LEFT and release.returned is None:
            # It had nothing to commit: a topic that falls silent, and a library that commits nothing then.
            return _mark(ESTIMATE, gone_at_ms, "it left the group", release.gone.ref, rank=4, basis=Basis.LEAVE)
        return _mark(ESTIMATE, commit[0], "its last commit", commit[1], rank=4, basis=Basis.MAY_LIVE_ON)
    detail, basis = "its last commit, made when it gave up", Basis.COMMIT_AS_IT_LET_GO
    return _mark(ESTIMATE, commit[0], detail, commit[1], rank=2, basis=basis)


def _was_idle(release: Release, held: Sequence[Resource], commits: Commits, interval_ms: float | None) -> bool:
    """Whether no message came to it since its last commit: its next owner found none, or the others had stopped to
    commit, too, before it went, as where all topics fall silent."""
    gone = release.gone
    if commits.got_nothing(held, gone.offset):
        return True
    others_ms = commits.others_last_ms(held, gone.offset)
    usual_ms = max(RECENT_COMMIT_MS, REGULARLY * (interval_ms or 0))
    return others_ms is not None and gone.at_ms - others_ms > usual_ms


def _own_session_ms(metadata: Any) -> int | None:
    """The session timeout of a classic member in a converted group."""
    return getattr(getattr(metadata, "classic_member_metadata", None), "session_timeout_ms", None)


def modern_resume_marks(
    member: LiveMember, record: GroupRecord, resource: Resource | None, commits: Commits, clients: ClientLines
) -> tuple[Mark, ...]:
    """When the new owner's callback returned: about when its record first held the resource."""
    is_classic = getattr(member.metadata, "classic_member_metadata", None) is not None
    # A classic member learns it from the answer to its SyncGroup, as ever.
    before_ms = 0 if is_classic else CALLBACK_BEFORE_RECORD_MS
    after_ms, median = (ASSIGNED_CALLBACK_MS, 7) if is_classic else (CURRENT_TO_CALLBACK_MS, 45)
    detail = f"the assigned callback follows this record by {median} ms in the median"
    basis = Basis.DELIVERY if is_classic else Basis.EPOCH_RECORD
    if resource is None:
        detail, after_ms = "Kafka Streams makes its tasks after this record", CURRENT_TO_TASKS_MS
        basis = Basis.TASK_EPOCH_RECORD
    marks = [
        _mark(LOWER, record.at_ms - before_ms, "its record first holds the resource", record.ref),
        _mark(ESTIMATE, record.at_ms + after_ms, detail, record.ref, rank=3, basis=basis),
    ]
    commit = commits.first_between([resource], record.offset, NO_END) if resource is not None else None
    if commit is not None:
        marks.append(_mark(UPPER, commit[0] + LINE_SLACK_MS, "the new owner's first commit", commit[1]))
    if resource is not None and member.metadata is not None:
        line = clients.start(
            member.metadata.client_id, resource, record.at_ms - CALLBACK_BEFORE_RECORD_MS, record.at_ms + 10_000
        )
        if line is not None and line.at_ms is not None:
            marks += own_start_marks(line)
    return tuple(marks)


def _mark(bound: Bound, at_ms: int, detail: str, ref: str, *, rank: int = 0, basis: Basis | None = None) -> Mark:
    return Mark(bound=bound, at_ms=at_ms, tier=EvidenceTier.RECORDED, rank=rank, detail=detail, ref=ref, basis=basis)
