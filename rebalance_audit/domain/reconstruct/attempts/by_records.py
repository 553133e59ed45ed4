"""Attempts of a classic group by its records alone, in the order of their offsets."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_audit.domain.model import GroupRecord
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.reconstruction import Contradiction
from rebalance_audit.domain.records import GroupMetadataValue


def attempts_by_records(records: Iterable[GroupRecord]) -> tuple[list[Attempt], list[Contradiction]]:
    """One attempt per classic record in offset order; none for tombstones and for the record of a new group.

    A number that goes back without a deletion in between is a contradiction, and so is one that is written twice with
    other members or assignments: two logs of one partition, or a truncation. What stands later counts on from there.
    """
    contradicting: list[Contradiction] = []
    attempts: list[Attempt] = []
    incarnation = 0
    last: Attempt | None = None
    was_deleted = False
    for record in records:
        value: GroupMetadataValue | None = record.record.value
        if value is None:
            was_deleted = True
            continue
        if value.generation == 0 and not value.members:
            if last is not None:
                incarnation, last = incarnation + 1, None
            continue
        attempt = Attempt(number=value.generation, incarnation=incarnation, record=record)
        if last is not None and value.generation <= last.number:
            before = last.value
            is_twice = value.generation == last.number and not was_deleted and before is not None
            if is_twice and before is not None and _is_rewritten(before, value):
                attempt.rewrite_seq = last.rewrite_seq + 1
            else:
                if not was_deleted:
                    detail = f"generation {value.generation} stands after {last.number}, and nothing deleted the group"
                    if is_twice:
                        detail = f"generation {value.generation} was written twice, not for a returning static member"
                    refs = (last.record.ref, record.ref) if last.record is not None else (record.ref,)
                    contradicting.append(Contradiction(at_ms=record.at_ms, detail=detail, evidence=refs))
                incarnation += 1
                attempt.incarnation = incarnation
        attempts.append(attempt)
        last, was_deleted = attempt, False
    return attempts, contradicting


def _is_rewritten(before: GroupMetadataValue, after: GroupMetadataValue) -> bool:
    """Whether a static member came back: the same places with the same assignments, under new member ids."""
    places = [{m.group_instance_id or m.member_id: m.assignment for m in value.members} for value in (before, after)]
    return bool(after.members) and places[0] == places[1]
