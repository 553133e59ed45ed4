"""Members of a classic group record with their embedded bytes read, and how such members work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rebalance_audit.domain.frozen import maker, quick
from rebalance_audit.domain.kinds import Mode, Outcome
from rebalance_audit.domain.model import Rebalance, changed
from rebalance_audit.domain.protocols import consumer_protocol
from rebalance_audit.domain.reconstruct.assignment.eager import EAGER_ASSIGNORS
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.records import MemberMetadata
from rebalance_audit.domain.wire import DecodeError

_CACHED = 1_024
_CACHED_BYTES = 4_096
_CACHED_RESOURCES = 256
"""From one record to the next most members' bytes stay as they were. Larger ones are not kept, so that the caches are
bounded."""


@quick
@dataclass(frozen=True, slots=True)
class Parsed:
    """A member of one record with its embedded bytes read; None where they could not be."""

    member: MemberMetadata
    topics: tuple[str, ...] | None
    owned: frozenset[Resource]
    assigned: frozenset[Resource] | None
    refused: str | None = None
    """The part of its bytes that could not be read, and where it stands."""


_make_parsed = maker(Parsed)


def resource_name(resource: Resource) -> str:
    return f"{resource[0]}-{resource[1]}"


def names(resources: frozenset[Resource]) -> tuple[str, ...]:
    return _names(resources) if len(resources) <= _CACHED_RESOURCES else _names.__wrapped__(resources)


@lru_cache(maxsize=_CACHED)
def _names(resources: frozenset[Resource]) -> tuple[str, ...]:
    return tuple(resource_name(r) for r in sorted(resources))


def parse(member: MemberMetadata) -> Parsed:
    """The member with its embedded bytes read; a part that cannot be read is None, never empty."""
    read = _subscribed if len(member.subscription) <= _CACHED_BYTES else _subscribed.__wrapped__
    topics, owned, refused = read(member.subscription)
    given = _given if len(member.assignment) <= _CACHED_BYTES else _given.__wrapped__
    assigned, refused_too = given(member.assignment)
    return _make_parsed(member, topics, owned, assigned, refused or refused_too)


@lru_cache(maxsize=_CACHED)
def _subscribed(subscription: bytes) -> tuple[tuple[str, ...] | None, frozenset[Resource], str | None]:
    """Its topics, what it owned, and what could not be read."""
    try:
        read = consumer_protocol.decode_subscription(subscription)
    except DecodeError as refused:
        try:
            return consumer_protocol.decode_subscription_head(subscription).topics, frozenset(), str(refused)
        except DecodeError:
            return None, frozenset(), str(refused)
    return read.topics, frozenset(read.owned_partitions), None


@lru_cache(maxsize=_CACHED)
def _given(assignment: bytes) -> tuple[frozenset[Resource] | None, str | None]:
    """The partitions it was given, and the faults of its bytes."""
    if not assignment:
        return frozenset(), None  # the leader's SyncGroup did not name this member
    try:
        return frozenset(consumer_protocol.decode_assignment(assignment).partitions), None
    except DecodeError as refused:
        return None, str(refused)


def mode_of(rebalance: Rebalance, parsed: Mapping[str, Parsed], before: Mapping[str, MemberMetadata] | None) -> Mode:
    """The mode of a rebalance, by its assignor, else by what its members held. `unknown` also where a cooperative
    assignor had only new members: later generations settle it."""
    if rebalance.assignor in EAGER_ASSIGNORS:
        return Mode.EAGER
    stayed = [p for m, p in parsed.items() if before is None or m in before]
    if any(p.owned for p in stayed):
        return Mode.COOPERATIVE
    held_something = before is not None and any(parse(before[p.member.member_id]).assigned for p in stayed)
    return Mode.EAGER if held_something else Mode.UNKNOWN


def settle_modes(rebalances: Sequence[Rebalance]) -> list[Rebalance]:
    """Give rebalances without a mode the one that the group showed next with the same assignor, else before."""
    settled = list(rebalances)
    for order in (range(len(settled) - 1, -1, -1), range(len(settled))):
        known: dict[str | None, str] = {}
        for i in order:
            rebalance = settled[i]
            if rebalance.assignor is None:
                # An empty generation elects nothing; it ends what went before in that group's mode.
                if rebalance.outcome == Outcome.EMPTIED and i and rebalance.mode == Mode.UNKNOWN:
                    settled[i] = changed(rebalance, mode=settled[i - 1].mode)
                continue
            if rebalance.mode != Mode.UNKNOWN:
                known[rebalance.assignor] = rebalance.mode
            elif rebalance.assignor in known:
                settled[i] = changed(rebalance, mode=known[rebalance.assignor])
    return settled
