"""Causes of Connect's generations that lie close to each other."""

from __future__ import annotations

from tests.domain.reconstruct.connect.stories import FRESH, ConnectStory, a_connect_group, has


def a_delay(*, left_ms: int) -> ConnectStory:
    """w2 is lost and a delay of 10 s announced at 20 s. w1 joins again short of its end; so much is left then."""
    story = a_connect_group().generation(1, {"w1": FRESH.gets("alpha"), "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
    story.generation(2, {"w1": has("alpha")}, at_ms=20_000, delay_ms=10_000)
    story.rejoined(2, "w1", at_ms=30_000 - max(left_ms, 20), leader=True)
    given = "" if left_ms else "alpha-0"
    return story.generation(3, {"w1": has("alpha").gets(given)}, at_ms=30_000 - left_ms, delay_ms=left_ms)


def test_a_delay_has_not_ended_while_what_is_left_of_it_is_announced() -> None:
    last = a_delay(left_ms=108).rebalances()[-1]
    assert last.connect_delay_ms == 108
    assert (last.trigger, last.expected) == ("leader_rejoined", False)


def test_a_delay_ended_where_nothing_of_it_is_left() -> None:
    assert a_delay(left_ms=0).rebalances()[-1].trigger == "connect_delay_expired"


def test_a_delay_that_a_new_loss_begins_anew_does_not_keep_the_old_one_from_having_ended() -> None:
    story = a_connect_group().generation(
        1, {"w1": FRESH.gets("alpha"), "w2": FRESH.gets("alpha-0"), "w3": FRESH.gets("alpha-1")}, at_ms=1_000
    )
    story.generation(2, {"w1": has("alpha"), "w3": has("alpha-1")}, at_ms=20_000, delay_ms=10_000)
    story.rejoined(2, "w1", at_ms=30_010, leader=True)
    story.generation(3, {"w1": has("alpha").gets("alpha-0")}, at_ms=30_100, delay_ms=10_000)
    assert "connect_delay_expired" in [t.trigger for t in story.rebalances()[-1].triggers]
