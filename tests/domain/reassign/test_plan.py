"""What became of a plan: plans written by hand, against logs written by hand and a captured one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from rebalance_audit.domain.explain.reassignment import SHOWN_LINES, STATUS_WORDS, explain_plan, remaining
from rebalance_audit.domain.reassign import Reassignment, ReassignmentHistory
from rebalance_audit.domain.reassign.plan import (
    PLAN_STATUSES,
    PlanError,
    compare,
    plan_throttles,
    read_plan,
    throttle_removable_since_ms,
)
from tests.captures import CAPTURES, name_of
from tests.domain.explain.test_reassignment import three
from tests.domain.reassign.scores import history_of
from tests.domain.reassign.stories import MetadataStory

MOVES = [capture for capture in CAPTURES if capture.name in ("reassign_moves", "reassign_moves_zookeeper")]


def plan(*moves: tuple[int, list[int]], topic: str = "orders") -> str:
    partitions = [{"topic": topic, "partition": p, "replicas": r, "log_dirs": ["any"] * len(r)} for p, r in moves]
    return json.dumps({"version": 1, "partitions": partitions})


def statuses(text: str, history: ReassignmentHistory) -> list[str]:
    return [verdict.status for verdict in compare(read_plan(text).moves, history)]


def printed(text: str, history: ReassignmentHistory, file: str = "plan.json") -> list[str]:
    asked = read_plan(text)
    return explain_plan(asked, compare(asked.moves, history), history, file)


def test_each_line_of_a_plan_has_its_verdict() -> None:
    history = three().history()
    assert statuses(plan((0, [2, 3, 5]), (1, [2, 3, 5]), (2, [2, 3, 5]), (3, [2, 3, 5]), (9, [1, 2])), history) == [
        "done",
        "cancelled",
        "moving",
        "never_asked",
        "never_asked",
    ]
    assert statuses(plan((3, [1, 0, 2])), history) == ["done"]
    assert statuses(plan((2, [2, 3, 5])), three().at(300_000).no_op().history()) == ["stalled"]
    assert statuses(plan((2, [2, 3, 5])), three().at(300_000).remove_topic().history()) == ["deleted"]


def test_a_line_whose_partition_was_then_given_another_target_was_replaced() -> None:
    story = three().at(22_000).change(2, replicas=(3, 5, 0, 1, 2), removing=(1, 2))
    assert statuses(plan((2, [2, 3, 5]), (2 + 1, [1, 0, 2])), story.history()) == ["replaced", "done"]
    assert statuses(plan((2, [3, 5, 0])), story.history()) == ["moving"]
    assert "orders-2 → [2,3,5]: replaced by another request. The request for [3,5,0] took its place." in printed(
        plan((2, [2, 3, 5])), story.history()
    )
    story = three().at(22_000).change(0, replicas=(3, 2, 5))
    assert statuses(plan((0, [2, 3, 5])), story.history()) == ["replaced"]


def test_a_request_the_controller_refused_says_why() -> None:
    refused = Reassignment(
        cluster_id="lab", reassignment_id="orders-3@1", topic="orders", partition=3, outcome="refused",
        started_at_ms=30_000, ended_at_ms=30_000, detail="InvalidReplicaAssignmentException: no broker 9",
    )  # fmt: skip
    history = replace(three().history(), reassignments=(refused,))
    assert printed(plan((3, [1, 0, 9])), history)[:2] == [
        "1 refused: orders-3",
        "orders-3 → [1,0,9]: refused. InvalidReplicaAssignmentException: no broker 9",
    ]


def test_what_the_evidence_does_not_name_is_not_asked_for_again() -> None:
    history = three().history()
    lines = printed(plan((3, [2, 3]), (9, [1, 2])), history)
    assert "orders-9 → [1,2]: never asked for. The evidence names no such partition." in lines
    assert "orders-3 → [2,3]: never asked for. Its replicas are [1,0,2]." in lines
    assert lines[-1] == (
        "do: Ask for 1 partition again, if the plan still holds: echo "
        '\'{"version": 1, "partitions": [{"topic": "orders", "partition": 3, "replicas": [2, 3]}]}\' > remaining.json; '
        "kafka-reassign-partitions --bootstrap-server HOST:PORT --reassignment-json-file remaining.json --execute"
    )
    assert printed(plan((0, [1, 2]), topic="ordres"), history)[1] == (
        "ordres-0 → [1,2]: never asked for. The evidence names no such topic."
    )
    # Logs name only what moved: there it may well exist.
    logs = replace(history, names_all_partitions=False, replicas={})
    assert [line["topic"] for line in remaining(compare(read_plan(plan((0, [1, 2]), topic="b")).moves, logs))[
        "partitions"
    ]] == ["b"]  # fmt: skip


def test_a_name_no_topic_can_have_is_never_asked_for_again() -> None:
    text = plan((0, [1, 2]), topic="x'; rm -rf ~; '")
    assert not any(line.startswith("do:") for line in printed(text, ReassignmentHistory(cluster_id="lab")))


def test_the_throttle_of_a_plan_can_go_when_its_last_line_has_ended() -> None:
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2), (1, 0, 2)).throttle("orders", "1000", (0, 1, 2, 3, 5))
    story.at(10_000)
    for partition in (0, 1):
        story.change(partition, replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))
    text, done = (
        plan((0, [2, 3, 5]), (1, [2, 3, 5])),
        {"leader": 2, "replicas": (2, 3, 5), "adding": (), "removing": ()},
    )
    story.at(20_000).change(0, isr=(2, 3, 5), **done)  # type: ignore[arg-type]
    assert throttle_removable_since_ms(compare(read_plan(text).moves, story.history())) is None
    story.at(21_000).change(1, isr=(2, 3, 5), **done)  # type: ignore[arg-type]
    assert throttle_removable_since_ms(compare(read_plan(text).moves, story.history())) == 21_000
    assert printed(text, story.history(), "my plan.json")[-1] == (
        "do: Remove the throttle, which has served this plan nothing since 1970-01-01 00:00:21 UTC: "
        "kafka-reassign-partitions --bootstrap-server HOST:PORT --reassignment-json-file 'my plan.json' --verify"
    )
    story.at(30_000).throttle("orders", None, (0, 1, 2, 3, 5))
    assert plan_throttles(read_plan(text).moves, story.history()) == ()
    assert printed(text, story.history()) == ["2 done: orders-0, orders-1"]


def test_what_replaced_a_line_still_needs_the_throttle() -> None:
    story = three().at(22_000).change(2, replicas=(3, 5, 0, 1, 2), removing=(1, 2))
    assert throttle_removable_since_ms(compare(read_plan(plan((2, [2, 3, 5]))).moves, story.history())) is None


def test_a_plan_is_explained_line_by_line() -> None:
    history = three().at(300_000).no_op().history()
    lines = printed(plan((0, [2, 3, 5]), (2, [2, 3, 5]), (3, [2, 3])), history)
    assert lines[:3] == ["1 done: orders-0", "1 stalled: orders-2", "1 never asked for: orders-3"]
    assert any(line.startswith("   do: ") for line in lines)


def test_of_a_large_plan_some_lines_are_shown_and_the_rest_counted() -> None:
    count = 10_000
    history = MetadataStory().topic("wide", *[(1, 2)] * count).history()
    lines = printed(plan(*((p, [2, 3]) for p in range(count)), topic="wide"), history)
    assert lines[0] == "10000 never asked for: wide-0 … wide-9999"
    assert len(lines) == 1 + SHOWN_LINES + 1 + 1
    assert lines[-2] == f"and 9,980 partitions more {STATUS_WORDS['never_asked']}; -o jsonl shows each"
    assert "save `remaining` of -o json as remaining.json" in lines[-1]


def test_every_status_has_words() -> None:
    assert set(STATUS_WORDS) == set(PLAN_STATUSES)


GENERATED = """Current partition replica assignment
{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,0,2],"log_dirs":["any","any","any"]}]}

Proposed partition reassignment configuration
{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[2,3,5],"log_dirs":["any","any","any"]}]}
"""
EXECUTED = """Current partition replica assignment

{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,0,2],"log_dirs":["any","any","any"]}]}

Save this to use as the --reassignment-json-file option during rollback
Successfully started partition reassignment for orders-0
"""


def test_of_what_the_tool_generated_the_proposed_plan_is_read() -> None:
    found = read_plan(GENERATED)
    assert [(move.replicas, found.is_rollback) for move in found.moves] == [((2, 3, 5), False)]


def test_what_the_tool_printed_when_it_started_is_the_way_back() -> None:
    found = read_plan(EXECUTED)
    assert [(move.replicas, found.is_rollback) for move in found.moves] == [((1, 0, 2), True)]
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2))
    story.at(5_000).change(0, replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))
    story.at(6_000).change(0, isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), adding=(), removing=())
    assert printed(EXECUTED, story.history())[:2] == [
        "1 never asked for: orders-0",
        "This is the way back that --execute printed: what is done stands as it was before that plan.",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("Current partition replica assignment\n", "is not JSON"),
        ("[]", "no list"),
        ('{"partitions": 3}', "no list"),
        ('{"partitions": []}', "no list"),
        ('{"partitions": [{"topic": "a"}]}', "Entry 1"),
        ('{"partitions": [{"topic": "", "partition": 0, "replicas": [1]}]}', "Entry 1"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": []}]}', "Entry 1"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, 1]}]}', "Entry 1"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, "x"]}]}', "Entry 1"),
        ('{"partitions": [{"topic": "a", "partition": 0, "replicas": [1, true]}]}', "Entry 1"),
        ('{"partitions": [{"topic": "a", "partition": -1, "replicas": [1]}]}', "Entry 1"),
        ('{"partitions": [{"topic": "a", "partition": 0, "partition": 1, "replicas": [1]}]}', "stands twice"),
        ('{"version": 2, "partitions": [{"topic": "a", "partition": 0, "replicas": [1]}]}', "version 2"),
        (plan((0, [1]), (0, [2])), "twice"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_what_is_no_plan_gets_one_sentence(text: str, fault: str) -> None:
    with pytest.raises(PlanError) as refused:
        read_plan(text)
    assert fault in str(refused.value)
    assert "\n" not in str(refused.value)


if MOVES:

    @pytest.mark.parametrize("capture", MOVES, ids=name_of)
    def test_the_plan_of_a_captured_cluster_was_done(capture: Any) -> None:
        """What the scenario asked for and the admin API saw come true."""
        targets = {"orders-0": [2, 3, 5], "orders-1": [3, 2, 5], "orders-2": [1, 2, 4], "growing-0": [2, 4, 5]}
        lines = [
            {"topic": name[:-2], "partition": int(name[-1]), "replicas": replicas} for name, replicas in targets.items()
        ]
        lines.append({"topic": "orders", "partition": 3, "replicas": [4, 5]})
        history = history_of(capture)
        assert statuses(json.dumps({"partitions": lines}), history) == ["done"] * 4 + ["never_asked"]
