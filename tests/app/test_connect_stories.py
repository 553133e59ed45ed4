"""The stories of a Connect cluster, told from intervals and rebalances worked by hand."""

import html
import re
from typing import Any

import pandas as pd

from app import charts, sentences
from app.answers import ConnectTask, Movement
from app.charts import Style
from app.connect_stories import JOINS, Rounds, absences, others_hit, rounds
from app.queries import Reader
from tests.app.gold_rows import CLUSTER

ONE, TWO = "http://one:8083/", "http://two:8083/"


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", text)))


def spans(task: int, *states: tuple[str, str | None, int, int | None]) -> list[ConnectTask]:
    """States are (state, worker, from, to)."""
    return [
        ConnectTask(
            cluster_id="c",
            group_id="g",
            resource_type="task",
            connector="sink",
            task=task,
            state=state,
            worker_url=worker,
            from_ms=from_ms,
            to_ms=to_ms,
        )
        for state, worker, from_ms, to_ms in states
    ]


def lost_and_waiting(task: int, stopped_ms: int, again_ms: int) -> list[ConnectTask]:
    return spans(
        task,
        ("RUNNING", ONE, 0, stopped_ms),
        ("LOST", ONE, stopped_ms, 20_000),
        ("WAITING", None, 20_000, 40_000),
        ("RUNNING", TWO, again_ms, None),
    )


GONE = [
    *lost_and_waiting(0, 10_000, 40_100),
    *lost_and_waiting(1, 10_050, 40_200),
    *spans(2, ("RUNNING", TWO, 0, None)),
]
BACK = spans(0, ("RUNNING", ONE, 0, 10_000), ("WAITING", None, 10_000, 16_000), ("RUNNING", ONE, 16_000, None))


def test_a_worker_gone_for_good_is_one_story_of_all_it_ran() -> None:
    (found,) = absences(GONE)
    assert (found.worker, found.resources, found.kind) == (ONE, ("sink-0", "sink-1"), "gone")
    assert (found.gone_at_ms, found.noticed_at_ms, found.back_at_ms, found.waited_ms) == (
        10_000,
        20_000,
        40_200,
        20_200,
    )
    said = plain(sentences.absence(found, 60_000))
    assert said.startswith("http://one:8083/ is gone for good. It ran sink-0, sink-1; with it they stopped.")
    assert "The other workers noticed 10.0 s later." in said
    assert said.endswith(
        "It did not return, and they were handed to http://two:8083/. "
        "In all they stood still for up to 30.2 s, 20.2 s of it waiting by design."
    )


def test_a_worker_that_is_back_in_time_gets_its_tasks_again() -> None:
    (found,) = absences(BACK)
    assert (found.kind, found.returned, found.spread) == ("bounced", ("sink-0",), ())
    assert "It was back before the wait was over and got all of it again; nothing else had to move." in plain(
        sentences.absence(found, 60_000)
    )


def test_a_wait_that_has_not_ended_says_so() -> None:
    (found,) = absences(spans(0, ("RUNNING", ONE, 0, 10_000), ("WAITING", None, 10_000, None)))
    assert found.kind == "open"
    assert "They stand still for 50.0 s when the evidence ends." in plain(sentences.absence(found, 60_000))


def test_two_absences_of_one_worker_are_two_stories() -> None:
    later = spans(1, ("RUNNING", ONE, 0, 90_000), ("WAITING", None, 90_000, 95_000), ("RUNNING", ONE, 95_000, None))
    assert [a.gone_at_ms for a in absences([*BACK, *later])] == [10_000, 90_000]


def test_a_task_that_only_failed_or_was_handed_over_is_no_absence() -> None:
    failed = spans(0, ("RUNNING", ONE, 0, 10_000), ("FAILED", ONE, 10_000, 20_000), ("RUNNING", ONE, 20_000, None))
    moved = spans(1, ("RUNNING", ONE, 0, 10_000), ("UNASSIGNED", None, 10_000, 12_000), ("RUNNING", TWO, 12_000, None))
    assert absences([*failed, *moved]) == []


def row(number: int, trigger: str, revoked: int, **more: Any) -> dict[str, Any]:
    return {
        "rebalance_id": f"g/{number}",
        "kind": "rebalance",
        "trigger": trigger,
        "trigger_detail": None,
        "started_at_ms": 1_000 * number,
        "at_ms": 1_000 * number + 500,
        "revoked_count": revoked,
        "kept_count": 5,
        "resource_seconds_estimate": None,
        **more,
    }


def test_a_join_and_its_second_round_are_one_story_with_its_cost_beside_the_eager_one() -> None:
    frame = pd.DataFrame(
        [
            row(1, "connect_config_changed", 0),
            row(2, "connect_worker_joined", 5, resource_seconds_estimate=0.0, eager_seconds_lower=20.0),
            row(3, "connect_revocation_follow_up", 0, resource_seconds_estimate=14.0),
            row(4, "connect_worker_joined", 0),
        ]
    )
    first, second = rounds(frame, JOINS)
    assert (first.rebalance_ids, first.revoked_counts, first.kept_count) == (("g/2", "g/3"), (5, 0), 5)
    assert (first.from_ms, first.to_ms, second.rebalance_ids) == (2_000, 3_500, ("g/4",))
    said = plain(sentences.joining(first, []))
    assert "It took two rounds: first the others were told to give up 5 tasks and connectors, which stopped" in said
    assert said.endswith(
        "It cost 14.0 task-seconds; had everything stopped, as under the eager protocol, it would have cost about "
        "20.0 task-seconds."
    )


def test_tables_without_the_newer_columns_claim_nothing() -> None:
    (found,) = rounds(pd.DataFrame([row(1, "connect_config_changed", 0)]), ("connect_config_changed",))
    assert (found.changed_connectors, found.eager_seconds, found.cost_seconds) == (None, None, None)


def test_what_a_change_did_to_others_leaves_its_own_tasks_out() -> None:
    change = Rounds(
        rebalance_ids=("g/1",),
        from_ms=0,
        to_ms=1,
        trigger="connect_config_changed",
        detail=None,
        revoked_counts=(0,),
        kept_count=0,
        changed_connectors=("alpha",),
        cost_seconds=None,
        eager_seconds=None,
    )

    def movement(connector: str, task: int | None, kind: str, pause_ms: int | None) -> Movement:
        return Movement(
            resource_type="task", resource=f"{connector}-{task}", connector=connector, task=task, kind=kind,
            pause_estimate_ms=pause_ms, evidence=("x",),
        )  # fmt: skip

    own, others = others_hit(
        change,
        [
            movement("alpha", 0, "restarted", 40),
            movement("beta", 0, "moved", 2_000),
            movement("beta", 1, "returned", None),
            movement("beta", None, "moved", 9),
            movement("gamma", 0, "assigned", None),
        ],
    )
    assert (own, others) == ({"alpha": [40]}, {"beta": [2_000, None]})


def test_the_lost_worker_of_the_tables_is_told(reader: Reader) -> None:
    whole = reader.connect_span(CLUSTER, "connect-lab")
    assert whole is not None
    (found,) = absences(reader.connect_tasks(CLUSTER, "connect-lab", whole))
    assert (found.worker, found.kind) == ("http://10.0.3.3:8083/", "gone")
    assert set(found.resources) == {"sink-2", "source-1"}


def test_a_clean_leave_begins_when_its_tasks_stopped() -> None:
    left = spans(
        0,
        ("RUNNING", ONE, 0, 10_000),
        ("UNASSIGNED", None, 10_000, 12_000),
        ("WAITING", None, 12_000, 50_000),
        ("RUNNING", ONE, 50_000, None),
    )
    (found,) = absences(left)
    assert (found.gone_at_ms, found.noticed_at_ms, found.waited_ms, found.kind) == (10_000, 12_000, 38_000, "bounced")


def test_what_is_waited_for_is_drawn_where_it_ran() -> None:
    picture = charts.connect_time_line(GONE, pd.DataFrame(), 0, 60_000, by_worker=True)
    lane = picture.lanes.index("sink-0 @ http://one:8083/")
    drawn = picture.bars[picture.bars["lane"] == lane]
    assert drawn["style"].tolist() == [Style.WORKING, Style.STANDING, Style.WAITING]
    assert not any("no worker" in label for label in picture.lanes)
