import re

import numpy as np
import pandas as pd
import pytest

from app import charts, words
from app.answers.rows import ClusterRow, Span
from app.charts import Style, bars
from app.charts.bars import Row
from app.queries import Questions
from app.words import Html
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, T0

DAY = Span(from_ms=T0 - 86_400_000, to_ms=T0)


def frames(reader: Questions, group: str, span: Span = DAY) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    return (
        reader.group_rebalances(CLUSTER, group, span),
        reader.group_members(CLUSTER, group, span),
        reader.group_movements(CLUSTER, group, span),
    )


def held(picture: charts.TimeLine, lane: int, at_ms: float) -> float:
    """How high a lane is filled at a moment."""
    bars = picture.bars
    hit = bars[(bars["lane"] == lane) & (bars["from"] <= at_ms) & (at_ms < bars["to"])]
    return float(hit["level"].max()) if len(hit) else 0.0


def member(
    member_id: str,
    at_ms: int,
    change: str = "stayed",
    instance: str | None = None,
    client: str | None = "c",
    host: str | None = "/h",
) -> dict[str, object]:
    return {
        "member_id": member_id,
        "group_instance_id": instance,
        "worker_url": None,
        "client_id": client,
        "client_host": host,
        "change": change,
        "at_ms": at_ms,
    }


def test_a_pod_keeps_its_lane_over_a_restart() -> None:
    lanes = charts.lanes_of(
        pd.DataFrame([member("a-1", 10), member("a-1", 20), member("a-2", 30), member("b-1", 10, client="d")])
    )
    of = dict(zip(lanes["member_id"], lanes["lane"], strict=True))
    assert of["a-1"] == of["a-2"] != of["b-1"]


def test_an_instance_id_outweighs_a_changed_host() -> None:
    lanes = charts.lanes_of(
        pd.DataFrame([member("a-1", 10, instance="i", host="/1"), member("a-2", 30, instance="i", host="/2")])
    )
    assert lanes["lane"].nunique() == 1


def test_twins_that_were_there_at_once_have_lanes_of_their_own() -> None:
    lanes = charts.lanes_of(pd.DataFrame([member("a-1", 10), member("a-2", 10), member("a-1", 20), member("a-2", 20)]))
    assert lanes["lane"].tolist() == [0, 1]
    assert lanes["label"].tolist() == ["c /h", "c /h #2"]


def test_a_lane_is_as_high_as_what_its_member_held_and_empty_where_it_stood_still(reader: Questions) -> None:
    picture = charts.group_time_line(*frames(reader, "orders"), T0 - 3_700_000, T0, "partition")
    assert picture.lanes == ("c1 /10.0.0.1", "c2 /10.0.0.2", "c3 /10.0.0.3")
    middle, gone = T0 - 1_800_000, T0 - 600_000
    assert [held(picture, lane, middle) for lane in range(3)] == pytest.approx([2 / 3, 2 / 3, 2 / 3])
    assert held(picture, 2, gone - 15_000) > 0
    assert held(picture, 2, gone - 5_000) == 0  # c3 died about 11 s before the broker noticed
    assert [held(picture, lane, T0 - 1_000) for lane in range(3)] == [1, 1, 0]
    assert held(picture, 0, gone + 1_290) == 0  # everyone stops for 50 ms: the group is eager


def test_a_partition_taken_in_one_round_and_given_in_the_next_stops_once(reader: Questions) -> None:
    picture = charts.group_time_line(*frames(reader, "payments"), T0 - 5_500_000, T0, "partition")
    between, after = T0 - 5_400_000 + 3_500, T0 - 5_000_000
    assert [held(picture, 0, between), held(picture, 1, between)] == [0.5, 0]
    assert [held(picture, 0, after), held(picture, 1, after)] == [0.5, 0.5]


def test_the_strip_counts_what_stands_still(reader: Questions) -> None:
    steps = charts.standing_steps(reader.group_movements(CLUSTER, "orders", DAY), DAY.from_ms, DAY.to_ms)
    assert steps["value"].max() == 6
    assert steps["value"].iloc[-1] == 0
    dead = steps[(steps["at"] > T0 - 620_000) & (steps["at"] < T0 - 601_000)]
    assert dead["value"].tolist() == [2]


def test_the_fleets_strip_begins_with_open_incidents_and_marks_where_evidence_ends() -> None:
    hour = 3_600_000
    span = Span(from_ms=0, to_ms=10 * hour)
    columns = ["cluster_id", "trigger", "bucket", "rebalances", "cost", "task_seconds"]
    rows = [
        ("cheap", "member_left", 3, 9, 1.0, 0.0),
        ("dear", "member_left", 3, 1, 5.0, 4.0),
        ("wrong", "member_left", 3, 1, 0.5, 0.5),
    ]
    counts = {f"{k}_count": 1 for k in ("group", "rebalance", "reassignment", "gap", "source")}
    clusters = [
        ClusterRow(cluster_id=name, first_at_ms=0, last_at_ms=end, open_incident_count=wrong, **counts)
        for name, end, wrong in (("cheap", 10 * hour, 0), ("dear", 10 * hour - 900_000, 0), ("wrong", 4 * hour, 2))
    ]
    picture = charts.fleet_strip(pd.DataFrame(rows, columns=columns), span, [], "rebalances", clusters)
    assert picture.lanes == ("wrong", "dear", "cheap")
    unseen = picture.bars[picture.bars["style"] == charts.Style.UNSEEN]
    assert unseen[["lane", "from", "to"]].to_numpy().tolist() == [
        [0, 4 * hour, 10 * hour],
        [1, 10 * hour - 900_000, 10 * hour],
    ]
    assert picture.texts[unseen["tip"].iloc[0]] == "no evidence for 6 h: what happened is not known"
    strips = (picture.below_name, picture.below), (picture.above_name, picture.above)  # they cannot be added up
    assert [(name, strip["value"].max()) for name, strip in strips] == [
        ("downtime, partition-seconds", 2.0),
        ("downtime, task-seconds", 4.5),
    ]
    assert "1 rebalance, 1.0 partition-seconds and 4.0 task-seconds" in picture.texts


def test_marks_open_their_rebalance_and_know_their_family(reader: Questions) -> None:
    picture = charts.group_time_line(*frames(reader, "orders"), T0 - 3_700_000, T0, "partition")
    assert picture.targets == (("rebalance", "orders/6"), ("rebalance", "orders/7"))
    assert [words.FAMILIES[f] for f in picture.marks["family"]] == ["arrival", "failure"]
    assert picture.texts[picture.marks["tip"].iloc[1]] == "generation 7: a member's session expired"


def test_missing_evidence_leaves_the_assignments_right(reader: Questions) -> None:
    rebalances, members, movements = frames(reader, "orders")
    picture = charts.group_time_line(rebalances, members, movements.iloc[0:0], T0 - 3_700_000, T0, "partition")
    assert [held(picture, lane, T0 - 1_000) for lane in range(3)] == [1, 1, 0]


@pytest.mark.parametrize("group", ["unknowns", "checkout", "nobody"])
def test_a_time_line_of_little_or_nothing_can_be_drawn(reader: Questions, group: str) -> None:
    picture = charts.group_time_line(*frames(reader, group), DAY.from_ms, DAY.to_ms, "partition")
    data = picture.data("UTC", "alt")
    assert np.isfinite(data["bars"][["from", "to", "level"]].to_numpy()).all()


def test_the_broker_window_stands_beside_the_pauses(reader: Questions) -> None:
    found = reader.rebalance(CLUSTER, "orders/7")
    assert found is not None
    picture = charts.rebalance_time_line(found.movements, found.started_at_ms, found.joined_at_ms, found.assigned_at_ms)
    assert picture is not None
    assert [lane.partition("  ")[0] for lane in picture.lanes] == [
        "broker's window", "orders-4", "orders-5", "orders-0", "orders-1", "orders-2", "orders-3",
    ]  # fmt: skip
    assert picture.lanes[1] == "orders-4  c3 \u2192 c2"  # from whom to whom stands in the picture
    window = picture.bars[picture.bars["style"] == Style.WINDOW]
    assert (window["to"].max() - window["from"].min()) == 1_312
    worst = picture.bars[(picture.bars["lane"] == 1) & (picture.bars["style"] == Style.STANDING)].iloc[0]
    assert worst["to"] - worst["from"] == 12_310


def test_an_overlap_is_not_drawn_as_standing_still(reader: Questions) -> None:
    found = reader.rebalance(CLUSTER, "hostile/1")
    assert found is not None
    picture = charts.rebalance_time_line(found.movements, None, None, found.assigned_at_ms)
    assert picture is not None
    assert Style.STANDING not in picture.bars["style"].tolist()


def test_without_any_time_nothing_is_drawn() -> None:
    assert charts.rebalance_time_line((), None, None, None) is None


def test_waiting_by_design_is_not_drawn_as_a_fault() -> None:
    _, tasks = gold_rows.connect()
    picture = charts.connect_time_line(tasks, pd.DataFrame(), T0 - 2_400_000, T0)
    styles = {picture.texts[t]: s for t, s in zip(picture.bars["tip"], picture.bars["style"], strict=True)}
    assert styles["waiting by design (scheduled delay)"] == Style.WAITING
    assert styles["lost with its worker on 10.0.3.3:8083"] == Style.STANDING
    assert picture.below["value"].max() == 2
    assert picture.above["value"].max() == 2


def test_connect_lanes_by_worker_name_the_worker() -> None:
    _, tasks = gold_rows.connect()
    picture = charts.connect_time_line(tasks, pd.DataFrame(), T0 - 2_400_000, T0, by_worker=True)
    assert "10.0.3.3:8083 sink-2" in picture.lanes
    assert not any("no worker" in lane for lane in picture.lanes)  # what waits is drawn where it ran last


def test_the_distribution_shows_both_and_says_how_many() -> None:
    page = bars.pause_distribution_html([50, 60, 12_000], [1_300, 1_400, 1_500])
    assert "10 ms – 100 ms" in page
    assert "10.0 s – 30.0 s" in page
    assert bars.pause_distribution_html([], []) == ""


def test_two_owners_at_once_are_no_short_downtime() -> None:
    page = bars.pause_distribution_html([-3_200, 0], [1_300, 1_400])
    assert re.search(r"none, two owners at once</div>.{0,200}?>1</div>", page, re.S)
    assert re.search(r"under 10 ms</div>.{0,200}?>1</div>", page, re.S)
    assert "two owners" not in bars.pause_distribution_html([0], [1_300])


def test_labels_of_bars_are_escaped() -> None:
    page = bars.rows_html(
        [Row(label=words.code("<script>"), value=1, said="<b>"), Row(label=Html("x"), value=None, said="not known")]
    )
    assert "<script>" not in page
    assert "<b>" not in page
    assert "width:100.0%" in page
    assert "not known" in page


def test_fifty_thousand_bars_are_ready_in_a_second() -> None:
    """Of the processor's time: the machine may have other work."""
    import time

    members, rounds = 200, 250
    at = np.repeat(np.arange(rounds) * 60_000 + 60_000, members)
    who = np.tile([f"m{i}" for i in range(members)], rounds)
    ids = np.repeat([f"r{i}" for i in range(rounds)], members)
    rebalances = pd.DataFrame(
        {
            "rebalance_id": [f"r{i}" for i in range(rounds)],
            "kind": "rebalance",
            "outcome": "completed",
            "trigger": "member_joined",
            "generation_id": range(rounds),
            "group_epoch": None,
            "rewrite_seq": 0,
            "at_ms": np.arange(rounds) * 60_000 + 60_000,
        }
    )
    people = pd.DataFrame(
        {
            "rebalance_id": ids,
            "member_id": who,
            "group_instance_id": None,
            "client_id": who,
            "client_host": "/h",
            "worker_url": None,
            "change": "stayed",
            "before_count": 1,
            "after_count": 1,
            "at_ms": at,
        }
    )
    moves = pd.DataFrame(
        {
            "rebalance_id": ids,
            "resource": who,
            "kind": "returned",
            "from_member_id": who,
            "to_member_id": who,
            "revoked_in_rebalance_id": None,
            "stopped_at_lower_ms": at - 5_000,
            "stopped_at_upper_ms": at - 5_000,
            "resumed_at_lower_ms": at,
            "resumed_at_upper_ms": at,
            "pause_estimate_ms": 5_000,
            "at_ms": at,
        }
    )
    charts.group_time_line(rebalances, people, moves, 0, 16_000_000, "partition")
    began = time.process_time()
    picture = charts.group_time_line(rebalances, people, moves, 0, 16_000_000, "partition")
    assert time.process_time() - began < 1.0
    assert len(picture.bars) == 200 * 251


def test_what_waits_by_design_is_part_of_what_is_down_and_no_more() -> None:
    """A worker was killed at 0 s, missed at 10 s, and its tasks were handed on at 30 s: a task waited for 20 of 30 s,
    another one, which came back at 15 s, for 5; a third moved without waiting."""
    moves = pd.DataFrame(
        {
            "rebalance_id": "r",
            "resource": ["alpha-0", "alpha-1", "beta-0"],
            "connector": ["alpha", "alpha", "beta"],
            "task": [0, 1, 0],
            "kind": "moved",
            "from_member_id": "w1",
            "to_member_id": "w2",
            "revoked_in_rebalance_id": None,
            "stopped_at_lower_ms": 0,
            "stopped_at_upper_ms": 0,
            "resumed_at_lower_ms": [30_000, 15_000, 12_000],
            "resumed_at_upper_ms": [30_000, 15_000, 12_000],
            "pause_estimate_ms": [30_000, 15_000, 12_000],
            "at_ms": 30_000,
        }
    )
    waits = pd.DataFrame(
        {"connector": ["alpha", "alpha"], "task": [0, 1], "from_ms": [10_000, 10_000], "to_ms": [None, 20_000.0]}
    )
    steps = charts.waiting_steps(moves, waits, 0, 40_000)
    assert list(zip(steps["at"], steps["value"], strict=True)) == [(10_000, 2), (15_000, 1), (30_000, 0)]
    down = charts.standing_steps(moves, 0, 40_000)
    assert list(zip(down["at"], down["value"], strict=True)) == [(0, 3), (12_000, 2), (15_000, 1), (30_000, 0)]
    assert charts.waiting_steps(moves, waits.iloc[:0], 0, 40_000).empty
