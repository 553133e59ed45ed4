"""The rebalances that a story gives, looked at in the ways that tests do."""

from __future__ import annotations

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Movement, Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from tests.domain.reconstruct.classic.stories import Story


def rebalances(story: Story) -> list[Rebalance]:
    return [measure(r) for r in reconstruct(story.evidence()).rebalances]


def generations_of(story: Story) -> list[tuple[int | None, str, str, str]]:
    return [(r.generation_id, r.kind, r.outcome, r.trigger) for r in rebalances(story)]


def moves(rebalance: Rebalance) -> dict[str, tuple[str, str | None, str | None]]:
    return {m.resource: (m.kind, m.from_client_id, m.to_client_id) for m in rebalance.movements}


def movement(rebalance: Rebalance, resource: str) -> Movement:
    return next(m for m in rebalance.movements if m.resource == resource)
