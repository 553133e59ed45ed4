"""What the tests of newer groups look at, and the group that most of them begin with."""

from __future__ import annotations

from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.reconstruct import Reconstruction
from tests.domain.reconstruct.epochs.stories import ConsumerGroupStory


def epochs_of(reconstruction: Reconstruction) -> list[tuple[int | None, str, str]]:
    return [(r.group_epoch, r.outcome, r.trigger) for r in reconstruction.rebalances]


def moves(rebalance: Rebalance) -> dict[str, tuple[str, str | None, str | None]]:
    return {m.resource: (m.kind, m.from_client_id, m.to_client_id) for m in rebalance.movements}


def a_group_of_one(topics_hash: int = 7) -> ConsumerGroupStory:
    story = ConsumerGroupStory().member("k1", at_ms=100).epoch(2, at_ms=100, topics_hash=topics_hash)
    story.target(2, at_ms=100)
    return story.holds("k1", [0, 1], at_ms=101, epoch=2)
