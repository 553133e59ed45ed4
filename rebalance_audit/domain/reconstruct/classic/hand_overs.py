"""One resource passing from one member to another, or back to the same: the movement and all its evidence."""

from __future__ import annotations

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import Families, commits_when_idle
from rebalance_audit.domain.frozen import maker
from rebalance_audit.domain.kinds import Basis, MovementKind, ResourceType
from rebalance_audit.domain.model import NO_END, GroupRecord, LogEvent, Mark, Movement, changed
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.reconstruct.evidence.departures import REJOIN_WITHIN, logged_departure
from rebalance_audit.domain.records import GroupMetadataValue, MemberMetadata

from . import silence
from .before import Before, Holding
from .between import Between, between
from .members import resource_name
from .resumes import begun_marks, delivered_marks, delivery_basis, resume_bound, resume_line
from .stops import stop_bounds, stop_line
from .stretch import KAFKAJS, Stretch, may_let_go_one_by_one

_make_movement, _make_stretch = maker(Movement), maker(Stretch)

_Shown = tuple[tuple[Mark, ...], tuple[Mark, ...], tuple[str, ...]]
"""When something stopped and when it resumed, and all evidence of it."""


class HandOvers:
    """Movements of one attempt. A member gives up all it holds at once, so what is found for one partition is kept for
    the others."""

    def __init__(self, before: Before) -> None:
        record = before.attempt.record
        assert record is not None
        self._before, self._record = before, record
        self._following = _following(before)
        """The next attempt with a record."""
        self._until = _offset(self._following)
        self._delivered: dict[Basis, tuple[Mark, ...]] = {}
        """By how soon the new owner starts."""
        self._betweens: dict[int, Between] = {}
        self._stretches: dict[tuple[Holding, Resource | None], tuple[Stretch, tuple[Mark, ...]]] = {}
        """By holding as a whole, or by one partition of it."""
        self._one_by_one: dict[Holding, bool] = {}
        self._slowest: dict[Holding, float | None] = {}
        self._resumes: dict[tuple[str, Resource | None], tuple[Mark, ...]] = {}
        """By new owner, or by one partition where it begins with each by itself."""
        self._begins_one_by_one: dict[str, bool] = {}
        self._interval_ms: dict[str, float | None] = {}
        """How often it commits what it kept."""
        self._shown: dict[tuple[Holding | None, Resource | None, str | None], _Shown] = {}
        """By what was given up together and its new owner."""

    def movement(
        self,
        kind: MovementKind,
        resource: Resource,
        *,
        holding: Holding | None = None,
        new: MemberMetadata | None = None,
        held: frozenset[Resource] | None = None,
        assigned: frozenset[Resource] = frozenset(),
        kept: frozenset[Resource] = frozenset(),
        fenced: LogEvent | None = None,
    ) -> Movement:
        """The movement of one resource from `holding` to `new`. `held`: all that the old owner gave up together, None
        if this alone; `assigned`: all that the new one was given; `kept`: what of it a cooperative owner had and did
        not give up."""
        course, record = self._before.course, self._record
        alone = None
        if holding is not None and (
            held is None or holding.given is not None or self._lets_go_one_by_one(holding, resource, held)
        ):
            alone = resource
        begun = resource if new is not None and self._starts_one_by_one(new, kept) else None
        pair = holding, alone or begun, None if new is None else new.member_id
        shown = self._shown.get(pair)
        if shown is None:
            shown = (), (), (record.ref,)
            if holding is not None and new is not None:
                stops = self._stops(holding, alone, resource, held, fenced)
                shown = _shown(record, stops, self._resumed(new, assigned - kept, begun))
            self._shown[pair] = shown
        if holding is not None and new is not None and not course.clients.is_empty:
            shown = self._with_own_lines(shown, holding, alone, resource, new)
        stops, resumes, refs = shown
        old = None if holding is None else holding.member
        return _make_movement(
            resource_type=ResourceType.PARTITION,
            resource=resource_name(resource),
            topic=resource[0],
            partition=resource[1],
            kind=kind,
            from_member_id=old.member_id if old else None,
            to_member_id=new.member_id if new else None,
            from_client_id=old.client_id if old else None,
            to_client_id=new.client_id if new else None,
            revoked_in_rebalance_id=None if holding is None else holding.revoked_in,
            stop_marks=stops,
            resume_marks=resumes,
            first_commit_at_ms=None if new is None else course.commits.first_of(resource, record.offset, self._until),
            evidence=refs,
        )

    def _stops(
        self,
        holding: Holding,
        alone: Resource | None,
        resource: Resource,
        held: frozenset[Resource] | None,
        fenced: LogEvent | None,
    ) -> tuple[Mark, ...]:
        known = self._stretches.get((holding, alone))
        if known is None:
            held = frozenset({resource}) if held is None else held
            stretch = self._stretch(holding, resource, held, fenced)
            known = self._stretches[holding, alone] = stretch, tuple(stop_bounds(stretch, self._before.course.commits))
        return known[1]

    def _starts_one_by_one(self, new: MemberMetadata, kept: frozenset[Resource]) -> bool:
        """Whether the member may be sarama's: such a member works on with what it keeps while it begins with the
        rest."""
        if not kept:
            return False
        known = self._begins_one_by_one.get(new.member_id)
        if known is None:
            since = self._before.delivered_offset
            interval_ms = self._before.course.commits.interval_between(
                kept, -1 if since is None else since, self._record.offset
            )
            known = may_let_go_one_by_one(self._before.families(new), interval_ms, new.rebalance_timeout)
            self._begins_one_by_one[new.member_id] = known
            self._interval_ms[new.member_id] = interval_ms
        return known

    def _resumed(self, new: MemberMetadata, added: frozenset[Resource], begun: Resource | None) -> tuple[Mark, ...]:
        """`added`: all it was given beside what it kept: commits of that go on meanwhile. `begun`: it begins with this
        partition by itself."""
        known = self._resumes.get((new.member_id, begun))
        if known is None:
            commits = self._before.course.commits
            bound = resume_bound(
                new, added if begun is None else frozenset({begun}), self._before.attempt, self._following, commits
            )
            if begun is not None:
                first_ms = commits.first_of(begun, self._record.offset, self._until)
                delivered = begun_marks(self._record, first_ms, self._interval_ms[new.member_id])
            else:
                delivered = self._delivered_to(new)
            known = self._resumes[new.member_id, begun] = (*delivered, *bound)
        return known

    def _delivered_to(self, new: MemberMetadata) -> tuple[Mark, ...]:
        is_new = new.member_id not in (self._before.members or {})
        basis = delivery_basis(self._before.families(new), is_new=is_new)
        known = self._delivered.get(basis)
        if known is None:
            known = self._delivered[basis] = delivered_marks(self._record, basis)
        return known

    def _with_own_lines(
        self, shown: _Shown, holding: Holding, alone: Resource | None, resource: Resource, new: MemberMetadata
    ) -> _Shown:
        """Adds the lines in which the clients of both owners name this partition."""
        clients = self._before.course.clients
        stop = stop_line(self._stretches[holding, alone][0], resource, clients)
        resume = resume_line(new, resource, self._before.attempt, self._following, clients)
        if not (stop or resume):
            return shown
        stops, resumes, _ = shown
        return _shown(self._record, stops + tuple(stop), resumes + tuple(resume))

    def _stretch(
        self, holding: Holding, resource: Resource, held: frozenset[Resource], fenced: LogEvent | None
    ) -> Stretch:
        """Everything between the record that gave `resource` to its old owner and the one that gives it on."""
        before, owner, shared = self._before, holding.member, self._between(holding)
        course, attempts, departure = before.course, shared.attempts, None
        gone = next((a for a in attempts if a.member_ids is not None and owner.member_id not in a.member_ids), None)
        if gone is not None:
            later = course.attempts[before.index + 1 : before.index + 1 + REJOIN_WITHIN]
            departure = logged_departure(owner, attempts, later, course.loads)
        if departure is not None and departure.trigger == Cause.MEMBER_LEFT and not departure.has_reason:
            if silence.fell_silent(before, owner.member_id, departure.at_ms or 0):
                departure = changed(departure, trigger=Cause.MEMBER_POLL_TIMEOUT)
            elif silence.may_have_been_stuck(before, owner.member_id):
                departure = changed(departure, trigger=Cause.UNKNOWN)
        is_unexplained = gone is not None and departure is None
        in_transactions = course.commits.are_in_transactions(held or (resource,), self._record.offset)
        stretch: Stretch = _make_stretch(
            owner=owner,
            resource=resource,
            held=held,
            between=shared,
            is_gone=gone is not None,
            gone=gone,
            departure=departure,
            inferred=silence.inferred(before, owner.member_id) if is_unexplained else None,
            families=self._families(holding),
            lets_go_one_by_one=not in_transactions and self._lets_go_one_by_one(holding, resource, held),
            message_gap_ms=self._slowest_ms(holding, resource, held),
            quiet_ms=self._quiet_ms(holding, held) if not in_transactions else self._longest_ms(holding, held),
            in_transactions=in_transactions,
            was_idle=is_unexplained and silence.was_idle(before, owner.member_id),
            may_be_dropped=is_unexplained and silence.may_be_dropped(before, owner),
            shares_client_id=_shares_client_id(before, owner),
            returned=None if gone is None else _returned(before, owner),
            revoked=course.attempts[holding.revoked_index] if holding.revoked_index is not None else None,
            fenced=fenced,
        )
        if departure is None or not stretch.closes_silently:
            return stretch
        given = course.attempts[holding.attempt_index].record
        since = -1 if given is None else given.offset
        is_off_beat = commits_when_idle(stretch.families) and course.commits.is_off_beat(
            held, since, self._record.offset
        )
        return changed(stretch, closed_off_beat=True) if is_off_beat else stretch

    def _families(self, holding: Holding) -> Families:
        """The client libraries that the owner may be of. The record of an empty group names no assignor any more."""
        before, given = self._before, self._before.course.attempts[holding.attempt_index].value
        if before.members or holding.given is not None or not isinstance(given, GroupMetadataValue):
            return before.families(holding.member)
        return before.course.families(given.protocol, holding.member)

    def _lets_go_one_by_one(self, holding: Holding, resource: Resource, held: frozenset[Resource] | None) -> bool:
        known = self._one_by_one.get(holding)
        if known is None:
            course = self._before.course
            given = course.attempts[holding.attempt_index].record
            since = -1 if given is None else given.offset
            interval_ms = course.commits.interval_between(held or (resource,), since, self._record.offset)
            member = holding.member
            known = may_let_go_one_by_one(self._families(holding), interval_ms, member.rebalance_timeout)
            self._one_by_one[holding] = known
        return known

    def _slowest_ms(self, holding: Holding, resource: Resource, held: frozenset[Resource]) -> float | None:
        """Of a member that may be sarama's. Its last commit waits for the last of its fetches, and each broker's fetch
        for that broker's next message: for the partition's that has the fewest, if it may be the only one there."""
        if not self._lets_go_one_by_one(holding, resource, held):
            return None
        if holding not in self._slowest:
            course = self._before.course
            given = course.attempts[holding.attempt_index].record
            since = -1 if given is None else given.offset
            gaps = [course.commits.message_gap_ms((each,), since, self._record.offset) for each in held]
            known = [gap for gap in gaps if gap is not None]
            self._slowest[holding] = max(known) if known and len(known) == len(gaps) else None
        return self._slowest[holding]

    def _quiet_ms(self, holding: Holding, held: frozenset[Resource]) -> int | None:
        if self._families(holding) != KAFKAJS:
            return None
        return self._longest_ms(holding, held)

    def _longest_ms(self, holding: Holding, held: frozenset[Resource]) -> int | None:
        course = self._before.course
        given = course.attempts[holding.attempt_index].record
        return course.commits.quiet_ms(held, -1 if given is None else given.offset, self._record.offset)

    def _between(self, holding: Holding) -> Between:
        since, course = holding.attempt_index, self._before.course
        known = self._betweens.get(since)
        if known is None or holding.given is not None:
            earlier, attempts = course.attempts[since], course.attempts[since + 1 : self._before.index + 1]
            known = between(holding.given or earlier, earlier, attempts, course.loads)
            if holding.given is None:
                self._betweens[since] = known
        return known


def _shares_client_id(before: Before, owner: MemberMetadata) -> bool:
    members = (before.members or {}).values()
    return any(m.client_id == owner.client_id and m.member_id != owner.member_id for m in members)


def _returned(before: Before, owner: MemberMetadata) -> Attempt | None:
    """None also where several members share a client id."""
    known = before.members or {}
    if _shares_client_id(before, owner):
        return None
    for attempt in before.course.attempts[before.index : before.index + 1 + REJOIN_WITHIN]:
        for member in attempt.value.members if attempt.value is not None else ():
            if member.client_id == owner.client_id and member.member_id not in known:
                return attempt
    return None


def _following(before: Before) -> Attempt | None:
    attempts = before.course.attempts
    coming = range(before.index + 1, len(attempts))
    return next((attempts[i] for i in coming if attempts[i].record is not None), None)


def _offset(attempt: Attempt | None) -> int:
    return NO_END if attempt is None or attempt.record is None else attempt.record.offset


def _shown(record: GroupRecord, stops: tuple[Mark, ...], resumes: tuple[Mark, ...]) -> _Shown:
    refs = [record.ref, *[m.ref for m in (*stops, *resumes) if m.ref is not None]]
    return stops, resumes, tuple(dict.fromkeys(refs))
