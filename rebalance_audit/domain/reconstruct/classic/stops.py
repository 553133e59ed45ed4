"""When the old owner of a partition let go of it, by every piece of evidence."""

from __future__ import annotations

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import (
    may_commit_after_loss,
    may_end_its_generation,
    may_let_go_without_coordinator,
)
from rebalance_audit.domain.kinds import ESTIMATE, LOWER, UPPER, Basis, EvidenceTier
from rebalance_audit.domain.model import NO_END, Mark
from rebalance_audit.domain.reconstruct.assignment.eager import EAGER_ASSIGNORS
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.clients import ClientLines
from rebalance_audit.domain.reconstruct.evidence.commits import Commits, Resource
from rebalance_audit.domain.reconstruct.evidence.departures import HEARTBEAT_MS
from rebalance_audit.domain.reconstruct.evidence.marks import (
    AUTO_COMMIT_MS,
    COMMIT_SLACK_MS,
    COMMIT_TIMEOUT_MS,
    LINE_SLACK_MS,
    RECENT_COMMIT_MS,
    REVOKED_CALLBACK_MS,
    died_between,
    inferred,
    joined,
    logged,
    own_stop_marks,
    recorded,
    taken_after_fetches,
)

from .deaths import given_to_the_dead, unheard_since_joining
from .departed import departed_marks
from .stretch import Stretch


def stop_line(stretch: Stretch, resource: Resource, clients: ClientLines) -> list[Mark]:
    """The old owner's own log line about when it let go of the partition."""
    given_at_ms = stretch.between.given.known_at_ms or 0
    until_ms = max((a.known_at_ms or 0) for a in stretch.between.attempts) + HEARTBEAT_MS
    line = clients.stop(stretch.owner.client_id, resource, given_at_ms, until_ms)
    return [] if line is None else own_stop_marks(line)


def stop_bounds(stretch: Stretch, commits: Commits) -> list[Mark]:
    """When the old owner let go, by what the coordinator wrote down. The same for all it gave up together."""
    between = stretch.between
    given, last = between.given, between.attempts[-1]
    since = given.record.offset if given.record else -1
    # Once it is gone, others may commit for it: an administrator, or a consumer that is no member, while nobody is.
    end = stretch.gone if stretch.gone is not None and stretch.gone.record is not None else last
    until = end.record.offset if end.record else NO_END
    commit = commits.last_between(stretch.held, since, until)
    marks = [] if between.given_mark is None else [between.given_mark]
    if stretch.is_gone and unheard_since_joining(stretch, commit) is given:
        marks = given_to_the_dead(stretch)
    own = commits.last_between([stretch.resource], since, until) if stretch.lets_go_one_by_one else commit
    if _was_not_answered(stretch):
        gone = departed_marks(stretch, commit, commits.quiet_ms(stretch.held, since, until))
        return marks + [m for m in gone if m.bound == UPPER] + _given_up_unheard(stretch, commit)
    new_ms = None
    if own is not None:
        if stretch.lets_go_one_by_one:
            new_ms = commits.new_until(stretch.resource, since, until)
        if new_ms is not None and own[0] - new_ms < COMMIT_TIMEOUT_MS:
            new_ms = None
        own_ms = own[0] if new_ms is None else min(own[0], new_ms)
        marks.append(recorded(LOWER, own_ms - stretch.commit_slack_ms, "the owner's last commit", own[1]))
    if last.rewrite_seq:
        return marks + _returned_static(stretch, commit)
    if stretch.is_gone:
        return marks + departed_marks(stretch, commit, commits.quiet_ms(stretch.held, since, until))
    if stretch.revoked is not None:
        if stretch.revoked.value is not None and stretch.revoked.value.protocol in EAGER_ASSIGNORS:
            return marks + _given_to_nobody(stretch, stretch.revoked, commits, since)
        return marks + _taken_away(stretch, commits, until)
    return marks + _survived(stretch, commit, new_ms)


def _was_not_answered(stretch: Stretch) -> bool:
    """Everybody went, and it came again under a new id: no coordinator had answered for so long that it had given all
    up. What it had asked to commit was written later, as a sign of life of its old id."""
    if not stretch.is_gone or stretch.returned is None or not may_commit_after_loss(stretch.families):
        return False
    if stretch.departure is not None and stretch.departure.trigger != Cause.MEMBER_SESSION_EXPIRED:
        return False
    if stretch.gone is not stretch.between.attempts[-1]:
        return False  # the group was empty meanwhile
    there, here = stretch.between.given.member_ids, stretch.between.attempts[-1].member_ids
    return there is not None and here is not None and len(there) > 1 and there.isdisjoint(here)


def _given_up_unheard(stretch: Stretch, commit: tuple[int, str] | None) -> list[Mark]:
    """Its requests had waited for up to one and a half sessions (docs/clients.md#losing-the-coordinator). Where the
    coordinator that answered loaded the group after its last commit, that had not waited: it gave up a session after
    its last heartbeat."""
    if commit is None:
        return []
    at_ms, ref = commit
    session_ms, loaded_ms = stretch.owner.session_timeout, stretch.between.loaded_at_ms
    if loaded_ms is not None and at_ms < loaded_ms:
        window = at_ms + session_ms - HEARTBEAT_MS, at_ms + session_ms + AUTO_COMMIT_MS
        detail, tier = "a session after its last sign of life, when no coordinator answered", EvidenceTier.INFERRED
        return [died_between(window, sum(window) // 2, detail, ref, rank=4, tier=tier, basis=Basis.GONE)]
    window = at_ms - 2 * session_ms, at_ms
    detail = "before its last commit, which had waited for a coordinator that answers"
    tier, basis = EvidenceTier.INFERRED, Basis.GONE
    return [died_between(window, sum(window) // 2, detail, ref, rank=4, tier=tier, basis=basis)]


def _survived(stretch: Stretch, commit: tuple[int, str] | None, new_ms: int | None) -> list[Mark]:
    """The owner stayed and gave all up to re-join: after it heard of the rebalance, before the join phase ended.
    `new_ms`: when it committed something new for the last time, if it sent that again since."""
    between, preparing = stretch.between, stretch.between.first.preparing
    heard_at_ms, joined_at_ms = between.heard_at_ms, between.joined_at_ms
    started_it = preparing is not None and stretch.owner.member_id in str(preparing.fields.get("reason", ""))
    marks = [] if between.joined_mark is None else [between.joined_mark]
    may_have_lost_it = between.loaded_at_ms is not None and may_let_go_without_coordinator(stretch.families)
    if between.loaded_at_ms is not None and may_have_lost_it and not stretch.is_taken_for_java:
        return marks + _survived_its_coordinator(stretch, between.loaded_at_ms, commit)
    if heard_at_ms is not None and preparing is not None and started_it:
        detail = "its own re-join began the rebalance"
        marks.append(logged(UPPER, heard_at_ms + LINE_SLACK_MS, detail, preparing.ref))
    elif between.heard_mark is not None and not may_have_lost_it and not may_end_its_generation(stretch.families):
        # Where it may have been either, the estimate is Java's and the bound the other library's.
        marks.append(between.heard_mark)
    if commit is not None and joined_at_ms is not None:
        is_recent = commit[0] >= joined_at_ms - RECENT_COMMIT_MS
        if heard_at_ms is not None and not started_it:
            is_recent = commit[0] >= heard_at_ms - COMMIT_SLACK_MS
        elif any(a.missing_to is not None for a in between.attempts):
            # It may have given up for a generation that never came to be, and had nothing to commit since.
            is_recent = True
        if is_recent or stretch.in_transactions:
            marks.append(_let_go_at(stretch, commit, new_ms))
    if between.joining_mark is not None:
        marks.append(between.joining_mark)
    return marks


def _let_go_at(stretch: Stretch, commit: tuple[int, str], new_ms: int | None) -> Mark:
    """Its last commit was made when it gave up, unless it is sarama's and says what another one said before: that one
    had no answer in time, as while a replica is missing, and sarama joins again when it has one
    (docs/measured.md#commits-that-wait)."""
    if new_ms is None or stretch.in_transactions:
        return stretch.let_go_at(commit, "its last commit, made when it gave up")
    window, detail = (new_ms, commit[0]), "between its last commit with something new and the last one, sent again"
    return died_between(window, sum(window) // 2, detail, commit[1], rank=2, tier=EvidenceTier.RECORDED)


def _survived_its_coordinator(stretch: Stretch, loaded_at_ms: int, commit: tuple[int, str] | None) -> list[Mark]:
    """Another coordinator took the group over since it was given what it held. It may have let go long before the
    rebalance, when its heartbeat found no coordinator; what it commits then is lost."""
    between = stretch.between
    marks = [] if between.joining_mark is None else [between.joining_mark]
    if commit is None:
        return marks
    if commit[0] > loaded_at_ms:
        return [*marks, stretch.let_go_at(commit, "its last commit, made when it gave up")]
    window = commit[0], min(commit[0] + HEARTBEAT_MS, loaded_at_ms)
    detail = "after its last commit, before its next heartbeat, which found no coordinator"
    tier = EvidenceTier.RECORDED
    return [*marks, died_between(window, sum(window) // 2, detail, commit[1], rank=4, tier=tier)]


def _returned_static(stretch: Stretch, commit: tuple[int, str] | None) -> list[Mark]:
    """A static member came back under a new member id: it had stopped some time before its record was rewritten.

    Or another process took its group.instance.id while it worked: then it goes on until its next heartbeat.
    """
    rewrite = stretch.between.attempts[-1]
    assert rewrite.record is not None
    if stretch.fenced is not None and stretch.fenced.at_ms is not None:
        at_ms, ref = stretch.fenced.at_ms, stretch.fenced.ref
        detail = "another process had taken its group.instance.id; it learned it then"
        return [
            logged(LOWER, at_ms - LINE_SLACK_MS, detail, ref),
            logged(ESTIMATE, at_ms, detail, ref, rank=3, basis=Basis.REJOIN),
        ]
    if rewrite.replaced is not None:
        until_ms, detail = rewrite.record.at_ms, "it had stopped before it came back"
    else:
        until_ms = rewrite.record.at_ms + HEARTBEAT_MS
        detail = "it came back, or another process took its place: no log says whether it was fenced"
    marks = [recorded(UPPER, until_ms + LINE_SLACK_MS, detail, rewrite.record.ref)]
    if commit is not None:
        detail = "its last commit before it came back"
        marks.append(recorded(ESTIMATE, commit[0], detail, commit[1], rank=2, basis=Basis.LAST_COMMIT))
    else:
        at_ms, ref = rewrite.record.at_ms, rewrite.record.ref
        marks.append(inferred(ESTIMATE, at_ms, detail, ref, rank=5, basis=Basis.GONE))
    return marks


def _given_to_nobody(stretch: Stretch, then: Attempt, commits: Commits, since: int) -> list[Mark]:
    """Eager: the owner had given all up before the join phase ended that gave the partition to nobody, as that of a
    topic which was deleted."""
    joined_at_ms, ref = joined([then])
    if joined_at_ms is None:
        return []
    detail = "it had given all up to re-join"
    marks = [recorded(UPPER, joined_at_ms + LINE_SLACK_MS, detail, ref)]
    commit = commits.last_between([stretch.resource], since, then.record.offset if then.record else NO_END)
    if commit is not None and commit[0] >= joined_at_ms - RECENT_COMMIT_MS:
        return [*marks, stretch.let_go_at(commit, "its last commit of the partition, made when it gave it up")]
    return [*marks, inferred(ESTIMATE, joined_at_ms, detail, ref, rank=5, basis=Basis.JOIN_PHASE)]


def _taken_away(stretch: Stretch, commits: Commits, until: int) -> list[Mark]:
    """Cooperative: the assignment of the round before took it away; the owner let go at once, then re-joined."""
    assert stretch.revoked is not None
    marks: list[Mark] = []
    revoked_at_ms = stretch.revoked.known_at_ms
    since = stretch.revoked.record.offset if stretch.revoked.record else -1
    ref = stretch.revoked.record.ref if stretch.revoked.record else None
    if revoked_at_ms is not None:
        marks.append(recorded(LOWER, revoked_at_ms - LINE_SLACK_MS, "the assignment that took it away", ref))
        detail, at_ms = "soon after the assignment that took it away", revoked_at_ms + REVOKED_CALLBACK_MS
        if stretch.lets_go_one_by_one:
            marks.append(taken_after_fetches(revoked_at_ms, at_ms, detail, ref))
        else:
            marks.append(recorded(ESTIMATE, at_ms, detail, ref, rank=3, basis=Basis.TAKEN_AWAY))
    commit = commits.last_between([stretch.resource], since, until)
    if commit is not None and not (stretch.lets_go_one_by_one and revoked_at_ms is not None):
        detail = "its last commit of the partition, made when it gave it up"
        marks.append(stretch.let_go_at(commit, detail))
    after = [a for a in stretch.between.attempts if a.number > stretch.revoked.number]
    joined_at_ms, joined_ref = joined(after)
    if joined_at_ms is not None:
        marks.append(recorded(UPPER, joined_at_ms + LINE_SLACK_MS, "it had re-joined after giving it up", joined_ref))
    return marks
