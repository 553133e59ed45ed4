"""When a member died whose session ran out: after its last sign of life, before the next one, which did not come.

A heartbeat is a sign of life, and so is a commit: the coordinator restarts the session for either. Heartbeats leave
no record, but their beat is known for a while: a client starts its timer as it joins
(docs/measured.md#last-signs-of-life).
"""

from __future__ import annotations

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import LOWER, UPPER, Basis, EvidenceTier
from rebalance_audit.domain.model import LogEvent, Mark
from rebalance_audit.domain.reconstruct.assignment.eager import EAGER_ASSIGNORS
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.departures import HEARTBEAT_MS
from rebalance_audit.domain.reconstruct.evidence.marks import (
    COMMIT_SLACK_MS,
    EXPIRY_SLACK_MS,
    LAST_SIGN_MS,
    LINE_SLACK_MS,
    died_between,
    joined,
    logged,
    recorded,
)
from rebalance_audit.domain.records import GroupMetadataValue

from .stretch import Stretch

BEAT_KNOWN_MS = 60_000
"""For this long after a member joined, its heartbeats keep the beat that began then: each one comes some ms late
(docs/measured.md#last-signs-of-life)."""
SAME_SIGN_MS = 50
"""A commit this close to the last sign of life is that sign: up to 33 ms apart in the lab
(docs/measured.md#last-signs-of-life)."""

Commit = tuple[int, str] | None
"""(at_ms, ref) of the owner's last commit."""


def expired_marks(stretch: Stretch, at_ms: int, ref: str | None, commit: Commit, quiet_ms: int | None) -> list[Mark]:
    """The marks of a member whose session expired: that line shows its last sign of life to the millisecond.
    `quiet_ms`: the longest time in which it had committed nothing before."""
    session_ms = stretch.owner.session_timeout
    if stretch.departure is not None and stretch.departure.renewed is not None:
        return _died_before_load(stretch, stretch.departure.renewed, at_ms, ref, commit)
    joining = unheard_since_joining(stretch, commit)
    if joining is not None:
        return _died_joining(stretch, joining, at_ms, ref, commit)
    sign_ms = at_ms - session_ms
    detail = f"it sent a heartbeat {session_ms} ms before its session expired"
    marks = [logged(UPPER, at_ms + LINE_SLACK_MS, "its session expired", ref)]
    # A join phase that left no evidence may have restarted the session as it ended.
    if all(a.missing_to is None for a in stretch.between.attempts):
        marks.append(logged(LOWER, sign_ms - EXPIRY_SLACK_MS, detail, ref))
    since_ms = sign_ms if commit is None else max(sign_ms, commit[0])
    until_ms, share, how = sign_ms + HEARTBEAT_MS, 2, f"half a heartbeat ({HEARTBEAT_MS} ms, assumed)"
    if commit is not None and abs(commit[0] - sign_ms) <= SAME_SIGN_MS:
        beat_ms = _next_beat(stretch, since_ms)
        if beat_ms is not None:
            until_ms, how = beat_ms, "half way to the heartbeat that did not come"
        else:
            # The heartbeat before it is not known. Over all possible beats, death comes a third of an interval later on
            # average.
            until_ms, share = since_ms + HEARTBEAT_MS, 3
            how = f"a third of a heartbeat ({HEARTBEAT_MS} ms, assumed): its last sign was a commit"
    next_ms = _next_commit(commit, quiet_ms)
    if next_ms is not None and since_ms < next_ms < until_ms:
        until_ms, share, how = next_ms, 2, "half way to the commit that did not come"
    window = since_ms, max(since_ms, until_ms)
    if commit is not None and stretch.closes_silently and abs(sign_ms - commit[0]) < LAST_SIGN_MS:
        detail = "its last commit, and no heartbeat after it: closed without leaving"
        if stretch.closed_off_beat:
            marks.append(stretch.let_go_at(commit, detail))
        else:
            since, basis = (commit[0] - stretch.commit_slack_ms, window[1]), Basis.CLOSED_OR_DEAD
            detail, tier = f"{detail}, or dead before the next", EvidenceTier.RECORDED
            marks.append(died_between(since, commit[0], detail, commit[1], rank=2, tier=tier, basis=basis))
    died_ms = since_ms + (window[1] - since_ms) // share
    detail = f"expiry - session timeout ({session_ms} ms) + {how}"
    return [*marks, died_between(window, died_ms, detail, ref, rank=4, tier=EvidenceTier.LOGGED)]


def _died_before_load(stretch: Stretch, load: LogEvent, at_ms: int, ref: str | None, commit: Commit) -> list[Mark]:
    """The session was restarted as a coordinator took the group over, and was not heard of since: it may have died long
    before. While there was no coordinator nobody could commit."""
    loaded_ms = load.at_ms or at_ms
    upper = logged(UPPER, at_ms + LINE_SLACK_MS, "its session expired", ref)
    since_ms = commit[0] if commit is not None else stretch.between.given.known_at_ms
    if since_ms is None or since_ms > loaded_ms:
        return [upper]
    window = since_ms, loaded_ms
    detail = "after its last sign of life, before a coordinator took the group over"
    died = died_between(window, sum(window) // 2, detail, load.ref, rank=4, tier=EvidenceTier.LOGGED)
    return [upper, died]


def unheard_since_joining(stretch: Stretch, commit: Commit) -> Attempt | None:
    """The attempt whose join phase the owner took part in, if nothing was heard of it since. As a join phase ends, the
    coordinator restarts the sessions of all who wait for that end. That is no sign of life: the member may have died
    as soon as it had asked to join.

    `commit`: the owner's last commit since it was given what it held.
    """
    departure, between, session_ms = stretch.departure, stretch.between, stretch.owner.session_timeout
    if departure is None:
        return _may_be_unheard_since_given(stretch) if commit is None else None
    if departure.at_ms is None or departure.trigger != Cause.MEMBER_SESSION_EXPIRED:
        return None
    sign_ms = departure.at_ms - session_ms
    for attempt in reversed([between.given, *between.attempts[:-1]]):
        if attempt.member_ids is not None and stretch.owner.member_id not in attempt.member_ids:
            continue
        joined_ms = joined([attempt])[0]
        if joined_ms is not None and -LINE_SLACK_MS <= sign_ms - joined_ms <= EXPIRY_SLACK_MS:
            is_heard = commit is not None and commit[0] > joined_ms + LINE_SLACK_MS
            return None if is_heard else attempt
    return None


def _may_be_unheard_since_given(stretch: Stretch) -> Attempt | None:
    """The same where no line says when its session ran out: that was up to a heartbeat before the join phase of those
    that stay ended."""
    given, session_ms = stretch.between.given, stretch.owner.session_timeout
    gone_ms = joined([stretch.gone or stretch.between.attempts[-1]])[0]
    given_ms = joined([given])[0]
    if gone_ms is None or given_ms is None or stretch.inferred == Cause.MEMBER_LEFT:
        return None
    return given if gone_ms - HEARTBEAT_MS - session_ms <= given_ms + EXPIRY_SLACK_MS else None


def given_to_the_dead(stretch: Stretch) -> list[Mark]:
    """The marks if the owner may have been dead when it was given the partition. Then the owner before it let go in
    that join phase, or died at most a session before it."""
    given = stretch.between.given
    value = given.value
    if not isinstance(value, GroupMetadataValue) or given.record is None:
        return []
    if given.preparing is not None and given.preparing.at_ms is not None:
        began_ms = given.preparing.at_ms - LINE_SLACK_MS
    else:
        began_ms = (joined([given])[0] or given.record.at_ms) - max(m.rebalance_timeout for m in value.members)
    lower_ms = began_ms - max(m.session_timeout for m in value.members) - EXPIRY_SLACK_MS
    detail = "it may never have had it: at most a session before the join phase in which it was given it"
    return [recorded(LOWER, lower_ms, detail, given.record.ref)]


def _died_joining(stretch: Stretch, joining: Attempt, at_ms: int, ref: str | None, commit: Commit) -> list[Mark]:
    """It died after it had asked to join, or after the join phase that it waited for had ended, before its next
    heartbeat."""
    upper = logged(UPPER, at_ms + LINE_SLACK_MS, "its session expired", ref)
    joined_ms, joined_ref = joined([joining])
    if joining is stretch.between.given or joined_ms is None:
        since_ms = at_ms - stretch.owner.session_timeout
        detail = "it was not heard of since its join phase ended: it may never have had it"
        window = since_ms, since_ms + HEARTBEAT_MS
        return [upper, died_between(window, sum(window) // 2, detail, ref, rank=4, tier=EvidenceTier.LOGGED)]
    began = joining.preparing
    began_ms = joined_ms if began is None or began.at_ms is None else began.at_ms
    marks = [] if began is None else [logged(LOWER, began_ms - LINE_SLACK_MS, "it asked to join after that", began.ref)]
    given = stretch.between.given.value
    if given is not None and given.protocol in EAGER_ASSIGNORS:
        detail = "it had given all up to join"
        marks.append(logged(UPPER, joined_ms + LINE_SLACK_MS, detail, joined_ref))
        if commit is not None and commit[0] >= began_ms - COMMIT_SLACK_MS:
            return [*marks, stretch.let_go_at(commit, "its last commit, made when it gave up to join")]
        window = began_ms, joined_ms
    else:
        marks.append(upper)
        window = began_ms, joined_ms + HEARTBEAT_MS
    detail = "between the start of the join phase that it took part in and the heartbeat that did not come"
    return [*marks, died_between(window, joined_ms, detail, joined_ref, rank=4, tier=EvidenceTier.LOGGED)]


def died_unheard(stretch: Stretch, joined_at_ms: int, commit: tuple[int, str], quiet_ms: int | None) -> Mark:
    """The marks of a member whose session ran out without a line: it died before the join phase ended, and those that
    stay take up to a heartbeat to hear of that."""
    expired_ms = joined_at_ms - stretch.owner.session_timeout
    since_ms, until_ms = max(commit[0], expired_ms - HEARTBEAT_MS), expired_ms + HEARTBEAT_MS
    beat_ms, next_ms = _next_beat(stretch, expired_ms), _next_commit(commit, quiet_ms)
    for end_ms in (beat_ms, next_ms):
        if end_ms is not None and since_ms < end_ms < until_ms:
            until_ms = end_ms
    window, tier = (since_ms, max(since_ms, until_ms)), EvidenceTier.RECORDED
    if stretch.closes_silently and since_ms == commit[0]:
        detail = "its last commit, and no sign of life for its session timeout: closed without leaving, or dead"
        return died_between(window, commit[0], detail, commit[1], rank=4, tier=tier)
    detail = "between its last sign of life and the next one, which did not come"
    return died_between(window, sum(window) // 2, detail, commit[1], rank=4, tier=tier)


def _next_commit(commit: Commit, quiet_ms: int | None) -> int | None:
    """The time by which it would have committed again if it had worked on."""
    return None if commit is None or quiet_ms is None else commit[0] + quiet_ms


def _next_beat(stretch: Stretch, after_ms: int) -> int | None:
    """Its next heartbeat after that; None where it joined too long ago for its beat to be known."""
    owner_id, between = stretch.owner.member_id, stretch.between
    joined_at = [joined([a])[0] for a in (between.given, *between.attempts) if owner_id in (a.member_ids or ())]
    begun_ms = max((at_ms for at_ms in joined_at if at_ms is not None and at_ms <= after_ms), default=None)
    if begun_ms is None or after_ms - begun_ms > BEAT_KNOWN_MS:
        return None
    return begun_ms + ((after_ms - begun_ms) // HEARTBEAT_MS + 1) * HEARTBEAT_MS
