"""What the Connect page needs beside the domain's stories: whole rebalances around a span, costs, the sentence of what
changes did to others, and lanes."""

import html
import re

import pandas as pd
import pytest

from app import charts, sentences
from app.answers.rows import ConnectTask, Movement, Rebalance, Span
from app.charts import Style
from app.queries import Questions
from rebalance_audit.domain.causes import cause_of
from rebalance_audit.domain.explain.connect_changes import connector_changes
from rebalance_audit.domain.explain.connect_stories import connect_stories
from rebalance_audit.domain.kinds import Mode, MovementKind, ResourceType
from tests.app.gold_rows import CLUSTER, T0

ONE, TWO = "http://one:8083/", "http://two:8083/"
GROUP = (CLUSTER, "connect-lab")
KILLED = T0 - 1_800_000


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", text)))


def spans(task: int, *states: tuple[str, str | None, int, int | None]) -> list[ConnectTask]:
    """States are (state, worker, from, to)."""
    return [
        ConnectTask(
            cluster_id="c",
            group_id="g",
            resource_type=ResourceType.TASK,
            connector="sink",
            task=task,
            state=state,
            worker_url=worker,
            from_ms=from_ms,
            to_ms=to_ms,
        )
        for state, worker, from_ms, to_ms in states
    ]


def a_round(number: int, trigger: str, cost: float | None, eager: float | None, *movements: Movement) -> Rebalance:
    return Rebalance(
        cluster_id="c",
        rebalance_id=f"g/{number}",
        group_id="g",
        generation_id=number,
        protocol_type="connect",
        mode=Mode.INCREMENTAL,
        started_at_ms=60_000 * number,
        assigned_at_ms=60_000 * number + 500,
        trigger=cause_of(trigger),
        changed_connectors=("alpha",) if trigger == "connect_config_changed" else None,
        resource_seconds_estimate=cost,
        eager_seconds_lower=eager,
        movements=movements,
    )


def stopped(connector: str, task: int, pause_ms: int | None) -> Movement:
    return Movement(
        resource_type=ResourceType.TASK,
        resource=f"{connector}-{task}",
        connector=connector,
        task=task,
        kind=MovementKind.MOVED,
        pause_estimate_ms=pause_ms,
    )


def test_the_cost_of_a_change_is_that_of_all_its_rounds_beside_at_least_the_eager_one() -> None:
    rounds = [
        a_round(2, "connect_worker_joined", 0.0, 20.0),
        a_round(3, "connect_revocation_follow_up", 14.0, None),
    ]
    cost, eager = sentences.costs(rounds)
    assert (cost.estimate, eager) == (14.0, 20.0)
    assert plain(sentences.cost_beside_eager(rounds)) == (
        "It cost 14.0 task-seconds; had everything stopped, as under the eager protocol, it would have cost at least "
        "20.0 task-seconds."
    )


def test_a_bound_below_what_a_change_did_cost_is_left_out() -> None:
    rounds = [a_round(2, "member_session_expired", 91.6, 32.4)]
    assert plain(sentences.cost_beside_eager(rounds)) == "It cost 91.6 task-seconds."


def test_tables_without_the_newer_columns_claim_nothing() -> None:
    cost, eager = sentences.costs([a_round(1, "connect_config_changed", None, None)])
    assert (cost.estimate, eager) == (None, None)
    assert sentences.cost_beside_eager([a_round(1, "connect_config_changed", None, None)]) == ""


def test_the_change_that_hurt_others_most_is_named() -> None:
    changes = connector_changes(
        [
            a_round(2, "connect_config_changed", None, None, stopped("alpha", 0, 50), stopped("beta", 0, 300)),
            a_round(3, "connect_config_changed", None, None, stopped("beta", 0, 2_000), stopped("gamma", 1, 1_500)),
            a_round(4, "connect_config_changed", None, None, stopped("alpha", 0, 9_000)),
        ]
    )
    assert plain(sentences.connector_changes(changes)) == (
        "2 of 3 changes of connectors stopped work of others, who had changed nothing; the worst, of alpha, 2 tasks "
        "and connectors for up to 2.0 s: 3.5 task-seconds in all."
    )
    assert plain(sentences.connector_changes(changes[2:])) == (
        "1 change of a connector; none stopped anything of another connector."
    )


@pytest.mark.parametrize(
    "span",
    [Span(from_ms=T0 - 10_000_000, to_ms=T0), Span(from_ms=KILLED, to_ms=KILLED + 11_000)],
    ids=["whole", "cut after 11 s"],
)
def test_a_story_is_whole_even_where_the_span_cuts_it(reader: Questions, span: Span) -> None:
    found = reader.rebalances_around(*GROUP, span)
    assert [r.generation_id for r in found] == [8, 9, 10]
    assert [len(r.members) for r in found] == [3, 3, 2]
    (story,) = connect_stories(found)
    assert (story.kind, story.workers) == ("worker_lost", ("http://10.0.3.3:8083/",))


def test_a_rebalance_reads_the_same_alone_and_among_its_neighbours(reader: Questions) -> None:
    last = reader.rebalances_around(*GROUP, Span(from_ms=KILLED, to_ms=T0))[-1]
    assert reader.rebalance(CLUSTER, "connect-lab/10") == last


def test_of_very_many_the_newest_are_read(reader: Questions) -> None:
    found = reader.rebalances_around(CLUSTER, "checkout", Span(from_ms=0, to_ms=T0), most=3)
    assert len(found) == 3 + 20
    assert found[-1].generation_id == max(r.generation_id or 0 for r in found)


def test_a_span_without_rebalances_has_none(reader: Questions) -> None:
    assert reader.rebalances_around(*GROUP, Span(from_ms=1, to_ms=2)) == []


def test_what_is_waited_for_is_drawn_where_it_ran() -> None:
    tasks = spans(
        0,
        ("RUNNING", ONE, 0, 10_000),
        ("LOST", ONE, 10_000, 20_000),
        ("WAITING", None, 20_000, 40_000),
        ("RUNNING", TWO, 40_100, None),
    )
    picture = charts.connect_time_line(tasks, pd.DataFrame(), 0, 60_000, by_worker=True)
    lane = picture.lanes.index("one:8083 sink-0")
    drawn = picture.bars[picture.bars["lane"] == lane]
    assert drawn["style"].tolist() == [Style.WORKING, Style.STANDING, Style.WAITING]
    assert not any("no worker" in label for label in picture.lanes)
