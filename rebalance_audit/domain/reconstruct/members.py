"""Members of a classic group record with their embedded bytes read, and how such members work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.protocols import consumer_protocol
from rebalance_audit.domain.records import MemberMetadata
from rebalance_audit.domain.wire import DecodeError

from .commits import Resource
from .eager import EAGER_ASSIGNORS


@dataclass(frozen=True, slots=True)
class Parsed:
    """A member of one record with its embedded bytes read; None where they could not be."""

    member: MemberMetadata
    topics: tuple[str, ...] | None
    owned: frozenset[Resource]
    assigned: frozenset[Resource] | None


def resource_name(resource: Resource) -> str:
    return f"{resource[0]}-{resource[1]}"


def names(resources: Iterable[Resource]) -> tuple[str, ...]:
    return tuple(resource_name(r) for r in sorted(resources))


def parse(member: MemberMetadata) -> Parsed:
    """The member's embedded bytes; what cannot be read is None, never empty."""
    topics: tuple[str, ...] | None = None
    owned: frozenset[Resource] = frozenset()
    assigned: frozenset[Resource] | None
    try:
        subscription = consumer_protocol.decode_subscription(member.subscription)
        topics, owned = subscription.topics, frozenset(subscription.owned_partitions)
    except DecodeError:
        pass
    try:
        # Zero length: the leader's SyncGroup did not name this member.
        assigned = (
            frozenset(consumer_protocol.decode_assignment(member.assignment).partitions)
            if member.assignment
            else frozenset()
        )
    except DecodeError:
        assigned = None
    return Parsed(member, topics, owned, assigned)


def mode_of(rebalance: Rebalance, parsed: Mapping[str, Parsed], before: Mapping[str, MemberMetadata] | None) -> str:
    """`unknown` also where a cooperative assignor met only new members: later generations settle it."""
    if rebalance.assignor in EAGER_ASSIGNORS:
        return "eager"
    stayed = [p for m, p in parsed.items() if before is None or m in before]
    if any(p.owned for p in stayed):
        return "cooperative"
    held_something = before is not None and any(parse(before[p.member.member_id]).assigned for p in stayed)
    return "eager" if held_something else "unknown"


def settle_modes(rebalances: Sequence[Rebalance]) -> list[Rebalance]:
    """Where nobody could show a mode, it is what the group showed next with the same assignor, or before."""
    settled = list(rebalances)
    for order in (range(len(settled) - 1, -1, -1), range(len(settled))):
        known: dict[str | None, str] = {}
        for i in order:
            rebalance = settled[i]
            if rebalance.assignor is None:
                # An empty generation elects nothing; it ends what went before in that group's mode.
                if rebalance.outcome == "emptied" and i and rebalance.mode == "unknown":
                    settled[i] = replace(rebalance, mode=settled[i - 1].mode)
                continue
            if rebalance.mode != "unknown":
                known[rebalance.assignor] = rebalance.mode
            elif rebalance.assignor in known:
                settled[i] = replace(rebalance, mode=known[rebalance.assignor])
    return settled
