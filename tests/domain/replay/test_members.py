"""More and fewer members: times worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from rebalance_audit.domain.replay.life import End, Life, Script, Stall
from rebalance_audit.domain.replay.life import Moment as At
from rebalance_audit.domain.replay.members import most_at_once, resized
from tests.domain.replay.stories import a_life, a_script, replayed

# Three start 8 s apart, and are restarted one by one: 5 s away each, 11 s from a start to the next close.
DEPLOY = a_script(
    a_life("a", 0, 30_000, End.CLOSED), a_life("a", 35_000), a_life("b", 8_000, 46_000, End.CLOSED),
    a_life("b", 51_000), a_life("c", 16_000, 62_000, End.CLOSED), a_life("c", 67_000), until_ms=120_000,
)  # fmt: skip


def times(script: Script, slot: str) -> list[tuple[int | None, int | None]]:
    return [
        (life.started.at_ms if life.started else None, life.ended.at_ms if life.ended else None)
        for life in script.lives
        if life.slot == slot
    ]


def test_the_number_in_force_changes_nothing() -> None:
    assert most_at_once(DEPLOY) == 3
    assert resized(DEPLOY, None) is DEPLOY
    assert resized(DEPLOY, 3) is DEPLOY


def test_members_more_start_and_are_restarted_after_the_others() -> None:
    five = resized(DEPLOY, 5)
    assert times(five, "more-1") == [(24_000, 78_000), (83_000, None)]
    assert times(five, "more-2") == [(32_000, 94_000), (99_000, None)]
    assert five.lives[: len(DEPLOY.lives)] == DEPLOY.lives


def test_who_had_the_least_trouble_is_the_member_less() -> None:
    stalled = Stall(since=At.known(20_000), until_ms=25_000)
    script = a_script(
        a_life("a", 0), replace(a_life("b", 1_000), stalls=(stalled,)), a_life("c", 2_000, 9_000, End.CRASHED),
        a_life("d", 3_000),
    )  # fmt: skip
    assert {life.slot for life in resized(script, 3).lives} == {"a", "b", "c"}
    assert {life.slot for life in resized(script, 2).lives} == {"b", "c"}
    assert {life.slot for life in resized(script, 1).lives} in ({"b"}, {"c"})


def test_what_is_held_at_first_is_shared_out() -> None:
    def there(slot: str, *numbers: int) -> Life:
        return replace(a_life(slot, 0), started=None, owned_at_first=tuple(("t", n) for n in numbers))

    script = a_script(there("a", 0, 1), there("b", 2, 3))
    assert [life.owned_at_first for life in resized(script, 1).lives] == [(("t", 0), ("t", 1), ("t", 2), ("t", 3))]
    four = resized(script, 4)
    assert [life.owned_at_first for life in four.lives] == [(("t", n),) for n in range(4)]
    assert times(four, "more-1") == [(None, None)]


def test_a_stop_of_the_whole_group_stops_members_more_too() -> None:
    """Both are down from 40 s to 900 s."""
    script = a_script(
        a_life("a", 0, 30_000, End.CLOSED), a_life("b", 8_000, 40_000, End.CLOSED), a_life("a", 900_000),
        a_life("b", 905_000, 950_000, End.CLOSED), until_ms=1_000_000,
    )  # fmt: skip
    assert times(resized(script, 3), "more-1") == [(16_000, 40_000), (900_000, None)]


def test_a_second_member_takes_over_while_the_only_one_is_restarted() -> None:
    """Alone, its four partitions wait for 5 s; with a second one, 8 s later restarted for as long, they move."""
    alone = a_script(a_life("a", 0, 30_000, End.CLOSED), a_life("a", 35_000), until_ms=100_000)
    two = resized(alone, 2)
    assert times(two, "more-1") == [(8_000, 43_000), (48_000, None)]
    assert replayed(two).cost.owner_idle_seconds == 0


def test_a_group_that_ended_ends() -> None:
    ended = a_script(a_life("a", 0, 50_000, End.CLOSED), a_life("b", 8_000, 60_000, End.CLOSED), until_ms=100_000)
    assert times(resized(ended, 3), "more-1") == [(16_000, 60_000)]
