"""Sentences an operator can act on, and what became of a plan."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rebalance_audit.domain.reassign import ReassignmentHistory
from rebalance_audit.domain.reassign.advice import cancel_command, next_steps, plan_json
from rebalance_audit.domain.reassign.explain import explain, explain_plan, summary
from rebalance_audit.domain.reassign.plan import PlanError, compare, read_plan, throttle_removable_since_ms
from tests.domain.reassign.stories import MetadataStory


def three() -> MetadataStory:
    """orders-0, -1 and -2 on 1, 0, 2; a move of each to 2, 3, 5 was asked for at 10 s."""
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2), (1, 0, 2), (1, 0, 2), (1, 0, 2)).at(10_000)
    for partition in range(3):
        story.change(partition, replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))
    story.at(20_000).change(0, isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), adding=(), removing=())
    story.at(21_000).change(1, replicas=(2, 0, 1), adding=(), removing=(), leader=1)
    return story


def plan(*moves: tuple[int, list[int]], topic: str = "orders") -> str:
    partitions = [{"topic": topic, "partition": p, "replicas": r, "log_dirs": ["any"]} for p, r in moves]
    return json.dumps({"version": 1, "partitions": partitions})


def statuses(text: str, history: ReassignmentHistory) -> list[str]:
    return [verdict.status for verdict in compare(read_plan(text), history)]


def test_each_line_of_a_plan_has_its_verdict() -> None:
    text = plan((0, [2, 3, 5]), (1, [2, 3, 5]), (2, [2, 3, 5]), (3, [2, 3, 5]), (3, [1, 0, 2]), (9, [1, 2]))
    moves = json.loads(text)["partitions"]
    history = three().history()
    assert statuses(plan((0, [2, 3, 5]), (1, [2, 3, 5]), (2, [2, 3, 5]), (3, [2, 3, 5]), (9, [1, 2])), history) == [
        "done",
        "cancelled",
        "moving",
        "never_asked",
        "never_asked",
    ]
    assert statuses(json.dumps({"partitions": moves[4:5]}), history) == ["done"]
    assert statuses(plan((2, [2, 3, 5])), three().at(300_000).no_op().history()) == ["stalled"]


def test_a_line_whose_partition_was_then_given_another_target_was_replaced() -> None:
    story = three().at(22_000).change(2, replicas=(3, 5, 0, 1, 2), removing=(1, 2))
    assert statuses(plan((2, [2, 3, 5]), (2 + 1, [1, 0, 2])), story.history()) == ["replaced", "done"]
    assert statuses(plan((2, [3, 5, 0])), story.history()) == ["moving"]
    story = three().at(22_000).change(0, replicas=(3, 2, 5))
    assert statuses(plan((0, [2, 3, 5])), story.history()) == ["replaced"]


def test_the_throttle_of_a_plan_can_go_when_its_last_line_has_ended() -> None:
    history = three().history()
    assert throttle_removable_since_ms(read_plan(plan((0, [2, 3, 5]), (1, [2, 3, 5]))), history) == 21_000
    assert throttle_removable_since_ms(read_plan(plan((0, [2, 3, 5]), (2, [2, 3, 5]))), history) is None


def test_a_plan_is_explained_line_by_line() -> None:
    story = three().at(300_000).no_op()
    history = story.history()
    lines = explain_plan(compare(read_plan(plan((0, [2, 3, 5]), (2, [2, 3, 5]), (3, [2, 3]))), history), history)
    assert lines[:3] == ["1 done: orders-0", "1 stands still: orders-2", "1 never asked for: orders-3"]
    assert any(line.startswith("   do: ") for line in lines)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "is not JSON"),
        ("[]", "no list"),
        ('{"partitions": 3}', "no list"),
        ('{"partitions": [{"topic": "a"}]}', "Entry 1"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}', "Entry 1"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}', "Entry 1"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, "x"]}]}', "Entry 1"),
        ('{"partitions": [{"topic": "a", "partition": -1, "replicas": [1]}]}', "Entry 1"),
        (plan((0, [1]), (0, [2])), "twice"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_plan_gets_one_sentence(text: str, fault: str) -> None:
    with pytest.raises(PlanError) as refused:
        read_plan(text)
    assert fault in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_running_one_says_how_far_it_is() -> None:
    (running,) = [r for r in three().at(30_000).change(2, isr=(0, 1, 2, 3)).history().reassignments if r.partition == 2]
    assert summary(running) == (
        "orders-2 [1,0,2] → [2,3,5] is running since 1970-01-01 00:00:10 UTC: copying, 1 of 2 new replicas in sync."
    )
    assert next_steps(running) == []


def test_a_completed_and_a_cancelled_one_say_when() -> None:
    first, second, _ = three().history().reassignments
    assert summary(first) == "orders-0 [1,0,2] → [2,3,5] completed at 1970-01-01 00:00:20 UTC after 10 s."
    assert summary(second).startswith("orders-1 [1,0,2] → [2,3,5] was cancelled at 1970-01-01 00:00:21 UTC after 11 s;")


def test_one_that_cannot_complete_comes_with_the_command_that_ends_it() -> None:
    story = three().at(22_000).change(2, replicas=(0, 1, 3, 2, 5), removing=(2, 5)).at(23_000).no_op()
    stuck = [r for r in story.history().reassignments if r.stalled_since_ms is not None]
    assert len(stuck) == 1
    assert "broker 5 is being added and removed at once, which never ends" in summary(stuck[0], 23_000)
    assert cancel_command(stuck[0]) in next_steps(stuck[0])[0]
    sent = json.loads(cancel_command(stuck[0]).split("'")[1])
    assert sent["partitions"] == [{"topic": "orders", "partition": 2, "replicas": [0, 1, 3]}]


def test_a_name_no_topic_can_have_never_reaches_a_command() -> None:
    forged = replace(three().history().reassignments[0], topic="x'; rm -rf ~; '")
    assert "rm" not in plan_json([forged])


def test_the_ladder_the_new_replicas_and_the_evidence_are_shown() -> None:
    lines = explain(three().history().reassignments[0])
    assert sum("replicas [" in line for line in lines) == 3
    assert any("new replica on broker 3: in sync at 1970-01-01 00:00:20 UTC" in line for line in lines)
    assert "metadata:controller-100@" in lines[-1]
