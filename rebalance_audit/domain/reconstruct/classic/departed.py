"""When a member that went let go of what it held: in good order, put out while it worked on, or dead."""

from __future__ import annotations

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import ESTIMATE, LOWER, UPPER
from rebalance_audit.domain.model import Mark
from rebalance_audit.domain.reconstruct.assignment.eager import EAGER_ASSIGNORS
from rebalance_audit.domain.reconstruct.evidence.departures import AS_IT_LEFT_MS, HEARTBEAT_MS, Departure
from rebalance_audit.domain.reconstruct.evidence.marks import (
    COMMIT_SLACK_MS,
    EXPIRY_SLACK_MS,
    LAST_SIGN_MS,
    LINE_SLACK_MS,
    RECENT_COMMIT_MS,
    inferred,
    joined,
    logged,
    recorded,
)

from .stretch import Stretch


def departed_marks(stretch: Stretch, commit: tuple[int, str] | None) -> list[Mark]:
    """The owner went: in good order, put out while it worked on, or dead."""
    departure = stretch.departure
    if departure is None or departure.at_ms is None:
        return _untold(stretch, commit, departure.trigger if departure is not None else stretch.inferred)
    match departure.trigger:
        case Cause.MEMBER_SESSION_EXPIRED:
            return _expired(stretch, departure.at_ms, departure.ref, commit)
        case Cause.MEMBER_POLL_TIMEOUT:
            return _idle(departure, departure.at_ms)
        case Cause.MEMBER_REMOVED_BY_ADMIN:
            return _removed(departure, departure.at_ms, commit)
        case Cause.MEMBER_SYNC_TIMEOUT if (joined_before := _joined_before(stretch)) is not None:
            marks = [logged(UPPER, joined_before[0] + LINE_SLACK_MS, "it had given all up to join", joined_before[1])]
            at_ms, ref = commit if commit is not None else joined_before
            return [*marks, logged(ESTIMATE, at_ms, "its last sign of life before it joined", ref, rank=3)]
        case Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT:
            upper_ms = departure.at_ms + LINE_SLACK_MS
            estimate_ms, estimate_ref = commit if commit is not None else (departure.at_ms, departure.ref)
            return [
                logged(UPPER, upper_ms, "it was dropped at the end of the join phase", departure.ref),
                logged(ESTIMATE, estimate_ms, "its last sign of life", estimate_ref, rank=4),
            ]
        case _:
            until_ms, until_ref = departure.at_ms, departure.ref
            is_last_sign = commit is not None and commit[0] >= departure.at_ms - AS_IT_LEFT_MS
            if not departure.has_reason and not is_last_sign and departure.rejoined_at_ms is not None:
                # It may have been removed, and worked on until it heard of that.
                until_ms, until_ref = departure.rejoined_at_ms, departure.rejoined_ref
            marks = [logged(UPPER, until_ms + LINE_SLACK_MS, "it left the group", until_ref)]
            if commit is not None and commit[0] >= departure.at_ms - RECENT_COMMIT_MS:
                detail = "its last commit, made when it gave up"
                marks.append(recorded(ESTIMATE, commit[0], detail, commit[1], rank=2))
            return [*marks, logged(ESTIMATE, departure.at_ms, "it left the group", departure.ref, rank=4)]


def _joined_before(stretch: Stretch) -> tuple[int, str] | None:
    """The end of the join phase that an eager owner took part in, and then did not ask for its assignment."""
    given = stretch.between.given.value
    if given is None or given.protocol not in EAGER_ASSIGNORS:
        return None
    ends = [a.stabilized for a in stretch.between.attempts[:-1] if a.stabilized is not None and a.record is None]
    return (ends[-1].at_ms, ends[-1].ref) if ends and ends[-1].at_ms is not None else None


def _untold(stretch: Stretch, commit: tuple[int, str] | None, trigger: Cause | None) -> list[Mark]:
    """No line says when it went: it is missing in a record."""
    gone = stretch.gone or stretch.between.attempts[-1]
    joined_at_ms, joined_ref = joined([gone])
    if joined_at_ms is None and gone.record is not None:
        joined_at_ms, joined_ref = gone.record.at_ms, gone.record.ref
    if joined_at_ms is None:
        return []
    alive_at_ms = commit[0] if commit is not None else stretch.between.given.known_at_ms
    if alive_at_ms is not None and trigger != Cause.MEMBER_LEFT:
        if joined_at_ms - alive_at_ms >= stretch.owner.rebalance_timeout:
            # Put out for not polling, it works on; nothing tells how long.
            ref = commit[1] if commit is not None else joined_ref
            detail = "its last sign of life; it may have been put out and worked on"
            return [inferred(ESTIMATE, alive_at_ms, detail, ref, rank=5)]
    if trigger == Cause.MEMBER_POLL_TIMEOUT:
        return []
    gave_up = commit is not None and joined_at_ms - commit[0] < RECENT_COMMIT_MS
    is_sure = trigger == Cause.MEMBER_SESSION_EXPIRED or (trigger == Cause.MEMBER_LEFT and gave_up)
    # One that an administrator put out works on until its next heartbeat.
    slack_ms = LINE_SLACK_MS + (0 if is_sure else HEARTBEAT_MS)
    detail = "it was not in the group any more"
    marks = [recorded(UPPER, joined_at_ms + slack_ms, detail, joined_ref)]
    if commit is None:
        return [*marks, inferred(ESTIMATE, joined_at_ms, detail, joined_ref, rank=5)]
    rank = 2 if trigger == Cause.MEMBER_LEFT else 4
    return [*marks, recorded(ESTIMATE, commit[0], "its last commit", commit[1], rank=rank)]


def _expired(stretch: Stretch, at_ms: int, ref: str | None, commit: tuple[int, str] | None) -> list[Mark]:
    session_ms = stretch.owner.session_timeout
    detail = f"it sent a heartbeat {session_ms} ms before its session expired"
    marks = [
        logged(LOWER, at_ms - session_ms - EXPIRY_SLACK_MS, detail, ref),
        logged(UPPER, at_ms + LINE_SLACK_MS, "its session expired", ref),
    ]
    died_ms = at_ms - session_ms + HEARTBEAT_MS // 2
    if commit is not None:
        died_ms = max(died_ms, commit[0])
    if commit is not None and stretch.closes_silently and abs(at_ms - session_ms - commit[0]) < LAST_SIGN_MS:
        detail = "its last commit, and no heartbeat after it: closed without leaving"
        marks.append(recorded(ESTIMATE, commit[0], detail, commit[1], rank=2))
    detail = f"expiry - session timeout ({session_ms} ms) + half a heartbeat ({HEARTBEAT_MS} ms, assumed)"
    return [*marks, logged(ESTIMATE, died_ms, detail, ref, rank=4)]


def _idle(departure: Departure, at_ms: int) -> list[Mark]:
    """The heartbeat thread leaves; the worker notices at its next poll and goes on until then."""
    marks = [logged(LOWER, at_ms - COMMIT_SLACK_MS, "its LeaveGroup, sent while it still worked", departure.ref)]
    if departure.rejoined_at_ms is None:
        detail = "the lost callback comes 2 s after the LeaveGroup in the median"
        return [*marks, inferred(ESTIMATE, at_ms + 2_000, detail, departure.ref, rank=5)]
    return [*marks, *_rejoined(departure.rejoined_at_ms, departure.rejoined_ref, rank=4)]


def _removed(departure: Departure, at_ms: int, commit: tuple[int, str] | None) -> list[Mark]:
    """It may have been dead already; one that lives hears of it at its next heartbeat, and joins again at once."""
    if departure.rejoined_at_ms is not None:
        return _rejoined(departure.rejoined_at_ms, departure.rejoined_ref, rank=3)
    ref = departure.ref
    marks = [logged(UPPER, at_ms + HEARTBEAT_MS + LINE_SLACK_MS, "it had heard that it was removed", ref)]
    if commit is not None:
        return [*marks, recorded(ESTIMATE, commit[0], "its last commit before it was removed", commit[1], rank=4)]
    return [*marks, logged(ESTIMATE, at_ms, "an administrator removed it", ref, rank=5)]


def _rejoined(at_ms: int, ref: str | None, *, rank: int) -> list[Mark]:
    detail = "its own re-join follows its lost callback by some ms"
    return [
        logged(UPPER, at_ms + LINE_SLACK_MS, "the same client asked to join again", ref),
        logged(ESTIMATE, at_ms, detail, ref, rank=rank),
    ]
