"""Assignments that kafka-python dropped to join again (2.8.2, 3.2.3 and 3.3.2 in the lab)."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.model import Rebalance, changed
from tests import encoders
from tests.domain.reconstruct.classic.found import movement, moves, rebalances
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id

PYTHON = encoders.consumer_subscription((TOPIC,), version=0, user_data=b"")
SARAMA = encoders.consumer_subscription((TOPIC,), version=2, user_data=None)


def joins_again_at_once(
    *, subscription: bytes = PYTHON, with_lines: bool = True, takes_it: bool = False, again_after_ms: int = 17
) -> Story:
    """c2 joins c1, which leads and joins again as soon as the record is there: 3 s later both have a new one."""
    story = a_group()
    told = {"c1": subscription, "c2": subscription}
    story.generation(1, {"c1": "0 1"}, at_ms=1_000, subscriptions=told)
    for at_ms in range(2_000, 10_001, 1_000):
        story.commit(0, at_ms=at_ms, position=at_ms).commit(1, at_ms=at_ms, position=at_ms)
    both = {"c1": "0", "c2": "1"}
    if with_lines:
        story.preparing(1, f"Adding new member {member_id('c2')} with group instance id None", at_ms=9_900)
    story.generation(2, both, at_ms=10_010, joined_at_ms=10_005, subscriptions=told)
    if takes_it:
        story.commit(0, at_ms=10_020, position=10_020).commit(1, at_ms=12_990, position=10_900)
    if with_lines:
        reason = f"leader {member_id('c1')} re-joining group during Stable"
        story.preparing(2, reason, at_ms=10_010 + again_after_ms)
    until_ms = 13_010 + again_after_ms
    story.generation(3, both, at_ms=until_ms + 5, joined_at_ms=until_ms, subscriptions=told)
    return story.commit(0, at_ms=15_000, position=14_000).commit(1, at_ms=15_000, position=14_000)


def second_and_third(story: Story) -> tuple[Rebalance, Rebalance]:
    _, second, third = rebalances(story)
    return second, third


@pytest.mark.parametrize("with_lines", [True, False], ids=["with logs", "records alone"])
def test_what_it_dropped_is_handed_out_once_and_stood_still_all_the_while(with_lines: bool) -> None:
    second, third = second_and_third(joins_again_at_once(with_lines=with_lines))
    assert moves(second) == {"orders-0": ("revoked", "c1", None), "orders-1": ("revoked", "c1", None)}
    assert moves(third) == {"orders-0": ("returned", "c1", "c1"), "orders-1": ("moved", "c1", "c2")}
    assert {m.client_id: m.assigned for m in second.members} == {"c1": ("orders-0",), "c2": ("orders-1",)}
    assert (second.resource_count, second.unassigned_count) == (2, 0)
    found = movement(third, "orders-1")
    assert found.revoked_in_rebalance_id == second.rebalance_id
    assert found.pause_lower_ms is not None
    assert found.pause_estimate_ms is not None
    assert 2_900 <= found.pause_lower_ms <= 3_030 <= found.pause_estimate_ms <= 3_060


@pytest.mark.parametrize(
    "taken",
    [{"takes_it": True}, {"again_after_ms": 1_500}, {"subscription": SARAMA}],
    ids=["it committed as it let go", "the next one came late", "a library that takes what it is given"],
)
def test_what_may_have_been_taken_is_shown_as_given(taken: dict[str, Any]) -> None:
    second, third = second_and_third(joins_again_at_once(**taken))
    assert moves(second) == {"orders-0": ("returned", "c1", "c1"), "orders-1": ("moved", "c1", "c2")}
    assert moves(third) == {"orders-0": ("returned", "c1", "c1"), "orders-1": ("returned", "c2", "c2")}


def test_in_silence_nobody_commits_so_it_may_have_been_taken() -> None:
    story = joins_again_at_once()
    story.marks = [changed(mark, first_position=7, last_position=7) for mark in story.marks]
    assert moves(second_and_third(story)[0])["orders-1"] == ("moved", "c1", "c2")


def test_who_says_that_it_owns_what_it_was_given_has_taken_it() -> None:
    """A cooperative member works on while it joins again, and need not commit."""
    story = a_group()
    python = {"c1": encoders.consumer_subscription((TOPIC,), version=1, user_data=b"")}
    story.generation(1, {"c1": "0 1"}, at_ms=1_000, assignor="cooperative-sticky", subscriptions=python)
    owns = encoders.consumer_subscription((TOPIC,), version=1, user_data=b"", owned={TOPIC: [0, 1]})
    both = {"c1": owns, "c2": python["c1"]}
    story.generation(2, {"c1": "0", "c2": "1"}, at_ms=1_200, assignor="cooperative-sticky", subscriptions=both)
    _, second = rebalances(story)
    assert moves(second) == {"orders-1": ("moved", "c1", "c2")}


def test_who_says_that_it_owns_nothing_never_took_it() -> None:
    """As on 3.2.3: c1 was given two partitions, and the next generation began 44 ms later with none of them owned."""
    story = a_group()
    nothing = encoders.consumer_subscription((TOPIC,), version=1, user_data=b"")
    told = {"c1": nothing, "c2": nothing}
    story.created(at_ms=900)
    story.generation(1, {"c1": "0 1"}, at_ms=1_000, assignor="cooperative-sticky", subscriptions=told)
    story.preparing(1, f"Adding new member {member_id('c2')} with group instance id None", at_ms=1_044)
    story.generation(2, {"c1": "0", "c2": "1"}, at_ms=4_100, assignor="cooperative-sticky", subscriptions=told)
    story.commit(0, at_ms=6_000, position=50).commit(1, at_ms=6_000, position=60)
    first, second = rebalances(story)
    assert moves(first) == {}
    assert moves(second) == {"orders-0": ("assigned", None, "c1"), "orders-1": ("assigned", None, "c2")}
