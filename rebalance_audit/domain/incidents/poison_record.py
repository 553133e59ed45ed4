"""What all members held that failed one after the other: a record there may end whoever reads it."""

from __future__ import annotations

from rebalance_audit.domain.detect.failures import failures
from rebalance_audit.domain.detect.history import Identity, identity
from rebalance_audit.domain.detect.wording import folded
from rebalance_audit.domain.incidents.troubles import Trouble

ENOUGH_FAILURES = 3
"""Chosen: two members may have held the same by chance."""


def poison_record(trouble: Trouble) -> str | None:
    """A sentence on the partitions that each member gave up as it failed, where several members did so again and again;
    None where they had none in common. A failure of which no movement is known says nothing."""
    shares: list[tuple[str, set[str]]] = []
    people: set[Identity] = set()
    for episode, step in trouble.steps:
        if step.rebalance.protocol_type == "connect":
            continue
        failed = {member_id for member_id, _ in failures(episode.history, step)}
        held = {m.resource for m in step.rebalance.movements if m.from_member_id in failed}
        if len(failed) == 1 and held:
            shares.append((episode.group_id, held))
            people.update(identity(episode.history.member(m)) for m in failed)
    if len(people) < 2 or len(shares) < ENOUGH_FAILURES or len({group for group, _ in shares}) > 1:
        return None
    common = set.intersection(*(held for _, held in shares))
    if not common:
        return None
    return (
        f"Each time the member that failed held {folded(common)}: look for a record there that ends whoever reads it, "
        f"where its commits stopped."
    )
