"""Connect's stories, each from a sequence written by hand after KIP-415, and from the captures' scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_audit.domain.explain.connect_stories import STORY_KINDS, ConnectStory, connect_stories
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct
from tests.captures import CAPTURES, gathered
from tests.domain.reconstruct.connect.stories import FRESH, a_connect_group, has
from tests.domain.reconstruct.connect.stories import ConnectStory as Script


def stories_of(script: Script) -> list[ConnectStory]:
    return list(connect_stories(script.rebalances()))


def the_only(script: Script) -> ConnectStory:
    (story,) = stories_of(script)
    assert story.kind in STORY_KINDS
    return story


def two_workers(given: str = "alpha alpha-0", other: str = "alpha-1 alpha-2") -> Script:
    return a_connect_group().generation(1, {"w1": FRESH.gets(given), "w2": FRESH.gets(other)}, at_ms=1_000)


def test_a_worker_that_joins_costs_two_rounds_and_both_are_one_story() -> None:
    script = (
        a_connect_group()
        .generation(1, {"w1": FRESH.gets("alpha alpha-0 alpha-1")}, at_ms=1_000)
        .generation(2, {"w1": has("alpha alpha-0 alpha-1").loses("alpha-1"), "w2": FRESH}, at_ms=5_000)
        .rejoined(2, "w1", at_ms=5_050, leader=True)
        .generation(3, {"w1": has("alpha alpha-0"), "w2": has("").gets("alpha-1")}, at_ms=5_060)
    )
    story = the_only(script)
    assert (story.kind, story.workers, len(story.rebalance_ids)) == ("worker_joined", ("http://w2:8083/",), 2)
    assert story.title == "Worker w2:8083 joined: 1 connector or task moved to make the loads even"
    assert "Generation 2 took alpha-1" in story.text
    assert "generation 3 handed it on" in story.text
    assert "2 connectors and tasks ran on all the time" in story.text


def test_a_bounce_within_the_delay_is_one_story_from_the_leave_to_the_end_of_the_delay() -> None:
    script = (
        two_workers()
        .left(1, "w2", at_ms=9_990)
        .generation(2, {"w1": has("alpha alpha-0")}, at_ms=10_000, delay_ms=30_000)
        .generation(3, {"w1": has("alpha alpha-0"), "w2#2": FRESH}, at_ms=22_000, delay_ms=18_000)
        .rejoined(3, "w1", at_ms=40_002, leader=True)
        .generation(4, {"w1": has("alpha alpha-0"), "w2#2": has("").gets("alpha-1 alpha-2")}, at_ms=40_010)
    )
    story = the_only(script)
    assert (story.kind, len(story.rebalance_ids)) == ("worker_bounced", 3)
    assert story.title == (
        "Worker w2:8083 went and was back before the delay ended: its 2 connectors and tasks waited 30 s"
    )
    assert "for up to 30 s (scheduled.rebalance.max.delay.ms)" in story.text
    assert "2 connectors and tasks went back to it" in story.text
    assert "2 connectors and tasks ran on all the time" in story.text


def test_a_worker_that_does_not_come_back_is_lost_for_good() -> None:
    script = (
        two_workers()
        .expired(1, "w2", at_ms=19_990)
        .generation(2, {"w1": has("alpha alpha-0")}, at_ms=20_000, delay_ms=30_000)
        .rejoined(2, "w1", at_ms=50_002, leader=True)
        .generation(3, {"w1": has("alpha alpha-0").gets("alpha-1 alpha-2")}, at_ms=50_010)
    )
    story = the_only(script)
    assert story.kind == "worker_lost"
    assert story.title == (
        "Worker w2:8083 went and did not come back: its 2 connectors and tasks waited 30 s, then moved"
    )
    assert "until the group noticed" in story.text


def test_a_delay_that_runs_when_the_evidence_ends_is_still_open() -> None:
    script = two_workers().left(1, "w2", at_ms=9_990)
    script.generation(2, {"w1": has("alpha alpha-0")}, at_ms=10_000, delay_ms=300_000)
    story = the_only(script)
    assert (story.kind, story.to_ms) == ("worker_waited_for", None)
    assert "for up to 5 min" in story.text


def test_a_leader_that_leaves_takes_the_delay_with_it() -> None:
    script = (
        two_workers()
        .left(1, "w1", at_ms=9_990)
        .generation(2, {"w2": has("alpha-1 alpha-2").gets("alpha alpha-0")}, at_ms=10_000)
    )
    story = the_only(script)
    assert (story.kind, story.workers) == ("leader_left", ("http://w1:8083/",))
    assert "memory" in story.text


def test_with_a_delay_of_zero_the_work_moves_in_the_same_round() -> None:
    script = (
        two_workers()
        .left(1, "w2", at_ms=9_990)
        .generation(2, {"w1": has("alpha alpha-0").gets("alpha-1 alpha-2")}, at_ms=10_000)
    )
    story = the_only(script)
    assert story.kind == "no_delay"
    assert story.title == "Worker w2:8083 left: its 2 connectors and tasks moved at once"


def test_with_a_delay_of_zero_an_old_leader_may_forget_the_work() -> None:
    script = two_workers().configured("alpha", 3).left(1, "w2", at_ms=9_990)
    script.generation(2, {"w1": has("alpha alpha-0")}, at_ms=10_000, config_offset=2)
    assert "had nobody after it: before 3.7" in the_only(script).text


def test_workers_that_join_one_after_the_other_make_rounds_that_revoke_in_a_row() -> None:
    whole = "alpha alpha-0 alpha-1 alpha-2 alpha-3 alpha-4"
    script = (
        a_connect_group()
        .generation(1, {"w1": FRESH.gets(whole)}, at_ms=1_000)
        .generation(2, {"w1": has(whole).loses("alpha-2 alpha-3 alpha-4"), "w2": FRESH}, at_ms=5_000)
        .generation(
            3,
            {"w1": has("alpha alpha-0 alpha-1"), "w2": has("").gets("alpha-2 alpha-3 alpha-4"), "w3": FRESH},
            at_ms=9_000,
            delay_ms=40,
        )
        .rejoined(3, "w1", at_ms=9_041, leader=True)
        .generation(
            4,
            {
                "w1": has("alpha alpha-0 alpha-1").loses("alpha-1"),
                "w2": has("alpha-2 alpha-3 alpha-4").loses("alpha-4"),
                "w3": has(""),
            },
            at_ms=9_050,
        )
        .rejoined(4, "w1", at_ms=9_100, leader=True)
        .generation(
            5,
            {"w1": has("alpha alpha-0"), "w2": has("alpha-2 alpha-3"), "w3": has("").gets("alpha-1 alpha-4")},
            at_ms=9_110,
        )
    )
    story = the_only(script)
    assert (story.kind, len(story.rebalance_ids)) == ("revoking_rounds", 4)
    assert "generations 2, 4 took work away again" in story.text
    assert "each time longer (here 40 ms)" in story.text


def test_a_worker_that_was_put_out_and_went_on_makes_zombies() -> None:
    script = (
        two_workers()
        .expired(1, "w2", at_ms=19_990)
        .generation(2, {"w1": has("alpha alpha-0").gets("alpha-1 alpha-2")}, at_ms=20_000)
        .generation(
            3,
            {
                "w1": has("alpha alpha-0 alpha-1 alpha-2").loses("alpha-1 alpha-2"),
                "w2#2": has("alpha-1 alpha-2").loses("alpha-1 alpha-2"),
            },
            at_ms=25_000,
        )
        .rejoined(3, "w1", at_ms=25_050, leader=True)
        .generation(4, {"w1": has("alpha alpha-0"), "w2#2": has("").gets("alpha-1 alpha-2")}, at_ms=25_060)
    )
    _, zombies = stories_of(script)
    assert (zombies.kind, len(zombies.rebalance_ids)) == ("zombie_tasks", 2)
    assert zombies.title == "2 connectors and tasks ran on two workers at once when worker w2:8083 came back"


def test_one_eager_worker_makes_the_whole_cluster_eager() -> None:
    script = two_workers().generation(
        2,
        {"w1": FRESH.gets("alpha alpha-2"), "w2": FRESH.gets("alpha-0"), "w3": FRESH.gets("alpha-1")},
        at_ms=9_000,
        protocol="default",
    )
    story = the_only(script)
    assert (story.kind, story.workers) == ("became_eager", ("http://w3:8083/",))


def test_a_round_that_failed_is_a_story_of_its_own() -> None:
    script = a_connect_group().generation(1, {"w1": FRESH.gets("alpha alpha-0")}, at_ms=1)
    script.generation(2, {"w1": has("alpha alpha-0")}, at_ms=2, error=1)
    script.generation(3, {"w1": has("alpha alpha-0")}, at_ms=3)
    story = the_only(script)
    assert (story.kind, story.title) == ("assignment_failed", "Generation 2 assigned nothing: the round failed")


def test_a_connector_and_its_tasks_are_one_change() -> None:
    script = (
        a_connect_group().config("connector-beta", {"properties": {"name": "beta"}}).config("commit-beta", {"tasks": 1})
    )
    script.generation(1, {"w1": FRESH.gets("alpha"), "w2": FRESH}, at_ms=1_000, config_offset=0)
    script.generation(2, {"w1": has("alpha").gets("beta"), "w2": has("")}, at_ms=5_000, config_offset=1)
    script.generation(3, {"w1": has("alpha beta"), "w2": has("").gets("beta-0")}, at_ms=5_050, config_offset=2)
    story = the_only(script)
    assert (story.kind, len(story.rebalance_ids)) == ("connector_changed", 2)
    assert story.title == "beta changed, and no other connector stood still"


def test_nothing_is_shown_of_other_groups_and_of_evidence_that_begins_in_the_middle() -> None:
    assert not connect_stories([])
    assert not stories_of(a_connect_group().generation(7, {"w1": has("alpha alpha-0")}, at_ms=1_000))


SCRIPTS = {
    "connect_worker_joins": ["worker_joined"],
    "connect_worker_lost": ["worker_lost"],
    "connect_bounce_within_delay": ["worker_bounced"],
    "connect_worker_frozen": ["worker_lost", "zombie_tasks"],
    "connect_eager": ["eager_round", "eager_round", "eager_round"],
    "connect_rolling_bounce": ["rolling_bounce", "worker_bounced", "worker_bounced", "leader_left", "worker_joined"],
}


@pytest.mark.parametrize(
    "capture", [c for c in CAPTURES if c.name in SCRIPTS], ids=lambda c: f"{c.parent.name} {c.name}"
)
def test_a_capture_shows_the_stories_of_its_script(capture: Path) -> None:
    group = next(g for g in gathered(capture).groups if g.group_id == "connect-lab")
    stories = connect_stories([measure(r) for r in reconstruct(group).rebalances])
    kinds = [s.kind for s in stories if s.kind != "connector_changed" and "nothing moved" not in s.title]
    assert kinds == SCRIPTS[capture.name]
