"""What the leader of a classic group computes: who gets which partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from .assignors import (
    Assigned,
    NotAssigned,
    Partition,
    Subscriber,
    assign_cooperatively,
    assign_ranges,
    assign_round_robin,
    assign_stickily,
)

ASSIGN: Mapping[str, Callable[[Mapping[str, int], list[Subscriber]], Assigned]] = {
    "range": assign_ranges,
    "roundrobin": assign_round_robin,
    "sticky": assign_stickily,
    "cooperative-sticky": assign_cooperatively,
}


def shared_out(
    assignor: str, topics: Mapping[str, int], claims: Sequence[Subscriber]
) -> Mapping[str, Sequence[Partition]]:
    """By member id. `topics`: all that there are, with their numbers of partitions. `claims`: in the order in which the
    coordinator has the members. NotAssigned where Kafka's own leader finds no assignment."""
    try:
        return _shared_out(assignor, tuple(_wanted(topics, claims).items()), tuple(claims))
    except (KeyError, IndexError):
        raise NotAssigned(f"Kafka's {assignor} assignor fails on what the members would say they own.") from None


def _wanted(topics: Mapping[str, int], claims: Sequence[Subscriber]) -> Mapping[str, int]:
    """The topics that somebody wants."""
    for claim in claims:
        if claim.topics != claims[0].topics:
            break
    else:
        if claims and topics.keys() <= set(claims[0].topics):
            return topics
    wanted = {claim.topics for claim in claims}
    return {t: n for t, n in topics.items() if any(t in listed for listed in wanted)}


@lru_cache(maxsize=4_096)
def _shared_out(
    assignor: str, topics: tuple[tuple[str, int], ...], claims: tuple[Subscriber, ...]
) -> Mapping[str, tuple[Partition, ...]]:
    """Kept, since the same members say the same in runs under other settings, and often in later rounds."""
    assigned = ASSIGN[assignor](dict(topics), list(claims))
    return {member_id: tuple(partitions) for member_id, partitions in assigned.items()}
