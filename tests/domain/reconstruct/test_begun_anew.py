"""A group whose members all close, and whose name members of another protocol then take: numbers start again."""

from __future__ import annotations

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import LogKind, Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from tests import encoders
from tests.domain.reconstruct.epochs.stories import ConsumerGroupStory


def classic(story: ConsumerGroupStory, number: int, given: list[int], *, at_ms: int) -> None:
    """A generation of one member, c1; none without partitions."""
    members = [
        encoders.classic_member(
            "c1-00000000-0000-0000-0000-000000000000",
            client_id="c1",
            subscription=encoders.consumer_subscription(("orders",)),
            assignment=encoders.consumer_assignment({"orders": given}),
        )
    ]
    story.record(
        2, at_ms, value=encoders.group_metadata_value(number, members if given else (), current_state_timestamp=at_ms)
    )


def migrated() -> ConsumerGroupStory:
    """As seen on 4.1.1: generations 1 to 3, the last one empty; four seconds later a KIP-848 member begins epoch 1."""
    story = ConsumerGroupStory()
    classic(story, 1, [0, 1], at_ms=1_000)
    classic(story, 2, [0, 1], at_ms=5_000)
    story.commit(0, at_ms=9_000)
    classic(story, 3, [], at_ms=9_010)
    story.record(2, 13_000, value=None)
    story.member("n1", at_ms=13_000)
    story.epoch(1, at_ms=13_000)
    story.target(1, at_ms=13_000)
    story.holds("n1", [0, 1], at_ms=13_001, epoch=1)
    story.commit(0, at_ms=14_000)
    return story


def numbers(rebalances: tuple[Rebalance, ...]) -> list[tuple[str, int | None, str]]:
    return [
        ("epoch", r.group_epoch, r.trigger) if r.generation_id is None else ("generation", r.generation_id, r.trigger)
        for r in rebalances
    ]


def test_the_first_epoch_comes_after_the_last_generation() -> None:
    found = reconstruct(migrated().evidence())
    assert [(kind, number) for kind, number, _ in numbers(found.rebalances)] == [
        ("generation", 1),
        ("generation", 2),
        ("generation", 3),
        ("epoch", 1),
    ]
    assert found.rebalances[-1].trigger == "member_joined"
    assert found.contradictions == ()


def test_what_stood_still_meanwhile_is_a_pause() -> None:
    begun = measure(reconstruct(migrated().evidence()).rebalances[-1])
    assert {(m.kind, m.from_client_id, m.to_client_id) for m in begun.movements} == {("moved", "c1", "n1")}
    pause = begun.movements[0]
    assert pause.pause_lower_ms is not None
    assert pause.pause_lower_ms <= 13_046 - 9_000
    assert pause.pause_estimate_ms == 13_046 - 9_000, "from its last commit to the callback, 45 ms after the record"


def test_lines_alone_give_the_same_order_and_the_joiner_as_the_cause() -> None:
    story = ConsumerGroupStory()
    for number in (0, 1):
        story.says(
            LogKind.PREPARING, at_ms=1_000 + 2_000 * number, generation_id=number,
            reason="Adding new member c1-00000000-0000-0000-0000-000000000000 with group instance id null",
        )  # fmt: skip
        story.says(LogKind.STABILIZED, at_ms=1_500 + 2_000 * number, generation_id=number + 1, member_count=1)
    story.says(LogKind.GROUP_CONVERTED, at_ms=13_000, from_type="classic", to_type="consumer", was_empty=True)
    story.says(LogKind.MODERN_MEMBER_JOINED, at_ms=13_000, member_id="n1", group_type="consumer")
    story.says(LogKind.EPOCH_BUMPED, at_ms=13_001, group_epoch=1)
    story.says(LogKind.TARGET_COMPUTED, at_ms=13_001, group_epoch=1, assignor="uniform")
    shown = numbers(reconstruct(story.evidence()).rebalances)
    assert [(kind, number) for kind, number, _ in shown] == [("generation", 1), ("generation", 2), ("epoch", 1)]
    assert shown[-1][2] == "member_joined"
