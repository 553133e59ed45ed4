"""Sentences an operator can act on."""

from __future__ import annotations

import json
from dataclasses import replace

from rebalance_audit.domain.explain.reassignment import explain, summary
from rebalance_audit.domain.reassign.advice import cancel_command, next_steps, plan_json
from tests.domain.reassign.stories import MetadataStory


def three() -> MetadataStory:
    """orders-0, -1 and -2 on 1, 0, 2; a move of each to 2, 3, 5 was asked for at 10 s."""
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2), (1, 0, 2), (1, 0, 2), (1, 0, 2)).at(10_000)
    for partition in range(3):
        story.change(partition, replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))
    story.at(20_000).change(0, isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), adding=(), removing=())
    story.at(21_000).change(1, replicas=(2, 0, 1), adding=(), removing=(), leader=1)
    return story


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
