"""When a member that left gave up its partitions: in good order, removed while it worked on, or dead."""

from __future__ import annotations

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import HABITS, may_poll_out
from rebalance_audit.domain.kinds import ESTIMATE, LOWER, UPPER, Basis
from rebalance_audit.domain.model import Mark
from rebalance_audit.domain.reconstruct.assignment.eager import EAGER_ASSIGNORS
from rebalance_audit.domain.reconstruct.evidence.departures import AS_IT_LEFT_MS, HEARTBEAT_MS, Departure
from rebalance_audit.domain.reconstruct.evidence.marks import (
    COMMIT_SLACK_MS,
    EXPIRY_SLACK_MS,
    LINE_SLACK_MS,
    RECENT_COMMIT_MS,
    inferred,
    joined,
    logged,
    recorded,
)

from .deaths import died_unheard, expired_marks
from .silence import committed_late_ms
from .stretch import Stretch


def departed_marks(stretch: Stretch, commit: tuple[int, str] | None, quiet_ms: int | None = None) -> list[Mark]:
    """The marks of an owner that went: in good order, put out while it worked on, or dead. `quiet_ms`: the longest time
    in which it committed nothing before."""
    departure = stretch.departure
    if departure is None or departure.at_ms is None:
        trigger = departure.trigger if departure is not None else stretch.inferred
        return _without_line(stretch, commit, trigger, quiet_ms)
    match departure.trigger:
        case Cause.MEMBER_SESSION_EXPIRED:
            if departure.rejoined_at_ms is not None and any(HABITS[f].lives_while_silent for f in stretch.families):
                lower_ms = departure.at_ms - stretch.owner.session_timeout - EXPIRY_SLACK_MS
                detail = "its heartbeats wait for the application: it may have worked on"
                lower = logged(LOWER, lower_ms, detail, departure.ref)
                lowers = [lower] if departure.renewed is None else []
                if stretch.shares_client_id:  # it may be dead, and another client of the same id may have come
                    expired = expired_marks(stretch, departure.at_ms, departure.ref, commit, quiet_ms)
                    return [*lowers, *(m for m in expired if m.bound == ESTIMATE)]
                basis = Basis.BACK_AFTER_EXPIRY
                return [*lowers, *_rejoined(departure.rejoined_at_ms, departure.rejoined_ref, rank=4, basis=basis)]
            return expired_marks(stretch, departure.at_ms, departure.ref, commit, quiet_ms)
        case Cause.MEMBER_POLL_TIMEOUT:
            return _idle(stretch, departure, departure.at_ms)
        case Cause.MEMBER_REMOVED_BY_ADMIN:
            return _removed(departure, departure.at_ms, commit)
        case Cause.MEMBER_SYNC_TIMEOUT if (joined_before := _joined_before(stretch)) is not None:
            marks = [logged(UPPER, joined_before[0] + LINE_SLACK_MS, "it had given all up to join", joined_before[1])]
            at_ms, ref = commit if commit is not None else joined_before
            return [
                *marks,
                logged(ESTIMATE, at_ms, "its last sign of life before it joined", ref, rank=3, basis=Basis.LAST_COMMIT),
            ]
        case Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT:
            return _dropped(stretch, departure, departure.at_ms, commit)
        case _:
            until_ms, until_ref = departure.at_ms, departure.ref
            # Of one that may have been stuck the commit may be its timer's, and it may have let go after it had left.
            may_be_stuck = departure.trigger == Cause.UNKNOWN
            is_last_sign = commit is not None and commit[0] >= departure.at_ms - AS_IT_LEFT_MS and not may_be_stuck
            may_work_on = not departure.has_reason and not is_last_sign and may_poll_out(stretch.families)
            if may_work_on and departure.rejoined_at_ms is not None:
                # It may have been removed, and worked on until it heard of that.
                until_ms, until_ref = departure.rejoined_at_ms, departure.rejoined_ref
            marks = [logged(UPPER, until_ms + LINE_SLACK_MS, "it left the group", until_ref)]
            if until_ms > departure.at_ms and stretch.shares_client_id:
                marks = []  # another client of the same id may have come
            if commit is not None and commit[0] >= departure.at_ms - RECENT_COMMIT_MS and not may_be_stuck:
                detail = "its last commit, made when it gave up"
                marks.append(stretch.let_go_at(commit, detail))
            detail = "it left the group"
            return [*marks, logged(ESTIMATE, departure.at_ms, detail, departure.ref, rank=4, basis=Basis.LEAVE)]


def _dropped(stretch: Stretch, departure: Departure, at_ms: int, commit: tuple[int, str] | None) -> list[Mark]:
    """The others waited for it in vain: its application was busy, or its process was frozen. A process that is frozen
    for its session timeout is put out for that. If its session did not expire, the process worked, and it goes on until
    it hears that it was put out.
    """
    heard_at_ms, rejoined_at_ms = stretch.between.heard_at_ms, departure.rejoined_at_ms
    if rejoined_at_ms is not None:
        if heard_at_ms is not None and at_ms - heard_at_ms >= stretch.owner.session_timeout:
            return _rejoined(rejoined_at_ms, departure.rejoined_ref, rank=4)
        marks = _rejoined(rejoined_at_ms, departure.rejoined_ref, rank=5)
    elif (back := _back(stretch)) is not None:
        marks = [back]
    else:
        detail = "it was dropped at the end of the join phase"
        marks = [logged(UPPER, at_ms + LINE_SLACK_MS, detail, departure.ref)]
    estimate_ms, estimate_ref = commit if commit is not None else (at_ms, departure.ref)
    detail, basis = "its last sign of life", Basis.MAY_LIVE_ON
    return [*marks, logged(ESTIMATE, estimate_ms, detail, estimate_ref, rank=4, basis=basis)]


def _joined_before(stretch: Stretch) -> tuple[int, str] | None:
    """The end of the join phase that an eager owner took part in, and then did not ask for its assignment."""
    given = stretch.between.given.value
    if given is None or given.protocol not in EAGER_ASSIGNORS:
        return None
    ends = [a.stabilized for a in stretch.between.attempts[:-1] if a.stabilized is not None and a.record is None]
    return (ends[-1].at_ms, ends[-1].ref) if ends and ends[-1].at_ms is not None else None


def _without_line(
    stretch: Stretch, commit: tuple[int, str] | None, trigger: Cause | None, quiet_ms: int | None
) -> list[Mark]:
    """No line says when it went: it is missing in a record."""
    gone = stretch.gone or stretch.between.attempts[-1]
    joined_at_ms, joined_ref = joined([gone])
    if joined_at_ms is None and gone.record is not None:
        joined_at_ms, joined_ref = gone.record.at_ms, gone.record.ref
    if joined_at_ms is None:
        return []
    alive_at_ms = commit[0] if commit is not None else stretch.between.given.known_at_ms
    may_live = any(HABITS[f].lives_while_silent for f in stretch.families)
    silence_ms = None if alive_at_ms is None else joined_at_ms - alive_at_ms
    if trigger != Cause.MEMBER_LEFT and silence_ms is not None:
        late_ms = committed_late_ms(stretch.families)
        is_polled_out = may_poll_out(stretch.families) and silence_ms + late_ms >= stretch.owner.rebalance_timeout
        is_expired = may_live and stretch.returned is not None and silence_ms >= stretch.owner.session_timeout
        is_dropped = trigger in (None, Cause.UNKNOWN) and stretch.may_be_dropped
        if is_polled_out or is_expired or is_dropped:
            return _may_live_on(stretch, commit, alive_at_ms or joined_at_ms, joined_at_ms, joined_ref)
    if trigger == Cause.MEMBER_POLL_TIMEOUT:
        return []
    if (
        trigger == Cause.MEMBER_SESSION_EXPIRED
        and commit is None
        and alive_at_ms is not None
        and joined_ref is not None
    ):
        # It had not committed yet when it died.
        detail = "it was not in the group any more"
        upper = recorded(UPPER, joined_at_ms + LINE_SLACK_MS, detail, joined_ref)
        return [upper, died_unheard(stretch, joined_at_ms, (alive_at_ms, joined_ref), quiet_ms)]
    gave_up = commit is not None and joined_at_ms - commit[0] < RECENT_COMMIT_MS
    is_sure = trigger == Cause.MEMBER_SESSION_EXPIRED or (trigger == Cause.MEMBER_LEFT and gave_up)
    # A member that an administrator removed works on until its next heartbeat.
    slack_ms = LINE_SLACK_MS + (0 if is_sure else HEARTBEAT_MS)
    detail = "it was not in the group any more"
    marks = [recorded(UPPER, joined_at_ms + slack_ms, detail, joined_ref)]
    if commit is None or stretch.was_idle:
        return [*marks, inferred(ESTIMATE, joined_at_ms, detail, joined_ref, rank=5, basis=Basis.GONE)]
    if trigger == Cause.MEMBER_SESSION_EXPIRED:
        return [*marks, died_unheard(stretch, joined_at_ms, commit, quiet_ms)]
    detail, rank, basis = "its last commit", 4, Basis.MAY_LIVE_ON
    if trigger == Cause.MEMBER_LEFT and gave_up:
        return [*marks, stretch.let_go_at(commit, detail)]
    if trigger == Cause.MEMBER_LEFT:
        rank, basis = 2, Basis.LAST_COMMIT
    return [*marks, recorded(ESTIMATE, commit[0], detail, commit[1], rank=rank, basis=basis)]


def _may_live_on(
    stretch: Stretch, commit: tuple[int, str] | None, alive_at_ms: int, joined_at_ms: int, joined_ref: str | None
) -> list[Mark]:
    """Put out while its application was busy, it works on until it is back, if it comes back."""
    back = _back(stretch)
    marks = [] if back is None else [back]
    if stretch.was_idle:
        detail = "it was not in the group any more; it may have had nothing to commit before"
        return [*marks, inferred(ESTIMATE, joined_at_ms, detail, joined_ref, rank=5, basis=Basis.GONE)]
    detail, ref = "its last sign of life; it may have been put out and worked on", commit[1] if commit else joined_ref
    return [*marks, inferred(ESTIMATE, alive_at_ms, detail, ref, rank=5, basis=Basis.MAY_LIVE_ON)]


def _back(stretch: Stretch) -> Mark | None:
    """The mark that it had let go by the record which has the same client under a new member id."""
    if stretch.returned is None:
        return None
    at_ms, ref = joined([stretch.returned])
    if at_ms is None:
        return None
    return recorded(
        UPPER, at_ms + LINE_SLACK_MS, "the same client was there again: it had heard that it was put out", ref
    )


def _idle(stretch: Stretch, departure: Departure, at_ms: int) -> list[Mark]:
    """The heartbeat thread leaves; the worker notices at its next poll and goes on until then."""
    marks = [logged(LOWER, at_ms - COMMIT_SLACK_MS, "its LeaveGroup, sent while it still worked", departure.ref)]
    if departure.rejoined_at_ms is None or stretch.shares_client_id:
        detail = "the lost callback comes 2 s after the LeaveGroup in the median"
        return [*marks, inferred(ESTIMATE, at_ms + 2_000, detail, departure.ref, rank=5, basis=Basis.MAY_LIVE_ON)]
    return [*marks, *_rejoined(departure.rejoined_at_ms, departure.rejoined_ref, rank=4)]


def _removed(departure: Departure, at_ms: int, commit: tuple[int, str] | None) -> list[Mark]:
    """A member that was removed may have been dead already. One that lives hears of it at its next heartbeat, and joins
    again at once."""
    if departure.rejoined_at_ms is not None:
        return _rejoined(departure.rejoined_at_ms, departure.rejoined_ref, rank=3)
    ref = departure.ref
    marks = [logged(UPPER, at_ms + HEARTBEAT_MS + LINE_SLACK_MS, "it had heard that it was removed", ref)]
    if commit is not None:
        detail, basis = "its last commit before it was removed", Basis.LAST_COMMIT
        return [*marks, recorded(ESTIMATE, commit[0], detail, commit[1], rank=4, basis=basis)]
    return [*marks, logged(ESTIMATE, at_ms, "an administrator removed it", ref, rank=5, basis=Basis.LEAVE)]


def _rejoined(at_ms: int, ref: str | None, *, rank: int, basis: Basis = Basis.REJOIN) -> list[Mark]:
    detail = "its own re-join follows its lost callback by some ms"
    if basis is Basis.BACK_AFTER_EXPIRY:
        detail = f"{detail}, if it was busy until then; it may have been frozen since its last sign of life"
    return [
        logged(UPPER, at_ms + LINE_SLACK_MS, "the same client asked to join again", ref),
        logged(ESTIMATE, at_ms, detail, ref, rank=rank, basis=basis),
    ]
