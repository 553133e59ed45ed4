"""One resource passing from one member to another, or back to the same: the movement and all its evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rebalance_audit.domain.model import LogEvent, Mark, Movement, changed
from rebalance_audit.domain.records import MemberMetadata

from .attempts import Attempt
from .clients import ClientLines
from .commits import Commits, Resource
from .departures import logged_departure
from .members import resource_name
from .resumes import resume_bounds, resume_line
from .stops import stop_bounds, stop_line
from .stretch import Stretch

REJOIN_WITHIN = 3
"""A member put out for not polling is looked for in so many attempts after it lost its partitions."""
_NO_END = 1 << 62


class HandOvers:
    """Movements of one rebalance after another. Members give up all they hold at once, so they share their marks."""

    def __init__(
        self,
        attempts: Sequence[Attempt],
        commits: Commits,
        clients: ClientLines,
        loads: Sequence[LogEvent],
        inferred: Callable[[int, str], str],
        fell_silent: Callable[[int, str, int], bool | None],
    ) -> None:
        self._attempts = attempts
        self._commits = commits
        self._clients = clients
        self._loads = loads
        """Lines of coordinators that took the group over."""
        self._inferred = inferred
        """How a member went, by its silence: of an attempt's index and a member id."""
        self._fell_silent = fell_silent
        """Whether it had stopped polling when it left: of index, member id and the time of its LeaveGroup."""
        self._index = -1
        self._following: Attempt | None = None
        """The next attempt with a record after the one at `_index`."""
        self._until = _NO_END
        """The offset of its record."""
        self._stretches: dict[tuple[object, ...], tuple[Stretch, tuple[Mark, ...]]] = {}
        self._resumes: dict[str, tuple[Mark, ...]] = {}

    def movement(
        self,
        kind: str,
        resource: Resource,
        index: int,
        *,
        old: MemberMetadata | None = None,
        new: MemberMetadata | None = None,
        held: frozenset[Resource] | None = None,
        assigned: frozenset[Resource] = frozenset(),
        given_index: int = -1,
        revoked_index: int | None = None,
        given: Attempt | None = None,
        fenced: LogEvent | None = None,
        revoked_in: str | None = None,
    ) -> Movement:
        """`held`: all the old owner gave up together, None if this alone; `assigned`: all the new one was given."""
        if index != self._index:
            self._turn_to(index)
        record = self._attempts[index].record
        assert record is not None
        stops: tuple[Mark, ...] = ()
        resumes: tuple[Mark, ...] = ()
        if old is not None and new is not None:
            stops = self._stops(old, resource, held, given_index, revoked_index, given, fenced)
            resumes = self._resumed(new, resource, assigned)
        refs = [record.ref, *[m.ref for m in (*stops, *resumes) if m.ref is not None]]
        return Movement(
            resource_type="partition",
            resource=resource_name(resource),
            topic=resource[0],
            partition=resource[1],
            kind=kind,
            from_member_id=old.member_id if old else None,
            to_member_id=new.member_id if new else None,
            from_client_id=old.client_id if old else None,
            to_client_id=new.client_id if new else None,
            revoked_in_rebalance_id=revoked_in,
            stop_marks=stops,
            resume_marks=resumes,
            first_commit_at_ms=None if new is None else self._commits.first_of(resource, record.offset, self._until),
            evidence=tuple(dict.fromkeys(refs)),
        )

    def _turn_to(self, index: int) -> None:
        self._index, self._stretches, self._resumes = index, {}, {}
        self._following, self._until = None, _NO_END
        for i in range(index + 1, len(self._attempts)):
            record = self._attempts[i].record
            if record is not None:
                self._following, self._until = self._attempts[i], record.offset
                return

    def _stops(
        self,
        old: MemberMetadata,
        resource: Resource,
        held: frozenset[Resource] | None,
        given_index: int,
        revoked_index: int | None,
        given: Attempt | None,
        fenced: LogEvent | None,
    ) -> tuple[Mark, ...]:
        key = (old.member_id, given_index, revoked_index, resource if held is None or given is not None else None)
        known = self._stretches.get(key)
        if known is None:
            held = frozenset({resource}) if held is None else held
            stretch = self._stretch(old, resource, held, given_index, revoked_index)
            if given is not None:
                stretch = changed(stretch, given=given)
            if fenced is not None:
                stretch = changed(stretch, fenced=fenced)
            known = self._stretches[key] = stretch, tuple(stop_bounds(stretch, self._commits))
        own = [] if self._clients.is_empty else stop_line(known[0], resource, self._clients)
        return (*known[1], *own) if own else known[1]

    def _resumed(
        self,
        new: MemberMetadata,
        resource: Resource,
        assigned: frozenset[Resource],
    ) -> tuple[Mark, ...]:
        attempt, following = self._attempts[self._index], self._following
        known = self._resumes.get(new.member_id)
        if known is None:
            known = self._resumes[new.member_id] = resume_bounds(new, assigned, attempt, following, self._commits)
        own = [] if self._clients.is_empty else resume_line(new, resource, attempt, following, self._clients)
        return (*known, *own) if own else known

    def _stretch(
        self,
        owner: MemberMetadata,
        resource: Resource,
        held: frozenset[Resource],
        given_index: int,
        revoked_index: int | None,
    ) -> Stretch:
        """Everything between the record that gave `resource` to its old owner and the one that gives it on."""
        index = self._index
        attempts = self._attempts[given_index + 1 : index + 1]
        departure = None
        gone = next((a for a in attempts if a.member_ids is not None and owner.member_id not in a.member_ids), None)
        if gone is not None:
            departure = logged_departure(owner, attempts, self._attempts[index + 1 : index + 1 + REJOIN_WITHIN])
        if departure is not None and departure.trigger == "member_left" and not departure.has_reason:
            if self._fell_silent(index, owner.member_id, departure.at_ms or 0):
                departure = changed(departure, trigger="member_poll_timeout")
        first = next((a for a in attempts if a.missing_to is None and not a.rewrite_seq), attempts[-1])
        return Stretch(
            is_taken_over=loaded_between(self._loads, self._attempts[given_index], first) is not None,
            owner=owner,
            resource=resource,
            held=held,
            given=self._attempts[given_index],
            attempts=attempts,
            first=first,
            is_gone=gone is not None,
            gone=gone,
            departure=departure,
            inferred=self._inferred(index, owner.member_id) if gone is not None and departure is None else None,
            revoked=self._attempts[revoked_index] if revoked_index is not None else None,
        )


def loaded_between(loads: Sequence[LogEvent], given: Attempt, attempt: Attempt) -> LogEvent | None:
    """The line by which the coordinator that prepares `attempt` took the group over after `given`.

    None where the log of the coordinator before is there: it would tell of a join phase that it had begun.
    """
    if given.lines or attempt.preparing is None or attempt.preparing.at_ms is None:
        return None
    since_ms, preparing = given.known_at_ms or 0, attempt.preparing
    return next(
        (x for x in loads if x.node == preparing.node and since_ms < (x.at_ms or 0) <= (preparing.at_ms or 0)), None
    )
