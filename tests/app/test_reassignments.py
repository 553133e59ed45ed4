"""Is it moving? The page, its pictures and its sentences, on rows written by hand."""

import html
import re
import time
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from app import charts, sentences, words
from app.answers.coincidence import coincidences
from app.answers.evidence import parse_metadata_ref
from app.answers.rows import Span
from app.charts import Style, ladder
from app.queries import Questions
from app.words import Html
from rebalance_audit.domain.reassign.model import ReplicaProgress, reassignment_row
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from tests.app import reassignment_rows
from tests.app.reassignment_rows import CLUSTER, HOSTILE_TOPIC, T0

HOUR = Span(from_ms=T0 - 3_600_000, to_ms=T0)


def plain(markup: Html) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", markup)))


def bars_of(picture: charts.TimeLine, lane: str, style: Style) -> list[tuple[float, float, float]]:
    number = picture.lanes.index(lane)
    rows = picture.bars[(picture.bars["lane"] == number) & (picture.bars["style"] == style)]
    return [tuple(r) for r in rows[["from", "to", "level"]].itertuples(index=False)]


# ---- what is read ----------------------------------------------------------------------------------------------------


def test_what_stands_still_comes_first_then_what_moves_then_the_newest(reader: Questions) -> None:
    found = reader.reassignments(CLUSTER, HOUR)
    names = [f"{t}-{p}" for t, p in zip(found["topic"], found["partition"], strict=True)]
    assert names == ["orders-4", "orders-5", "checkout-0", "payments-1", f"{HOSTILE_TOPIC}-0", "__consumer_offsets-7"]
    assert found["in_sync_count"].tolist() == [1, 1, 1, 1, 0, 1]
    assert found["new_count"].tolist() == [2, 2, 2, 2, 0, 1]


def test_those_that_run_are_shown_in_any_time(reader: Questions) -> None:
    found = reader.reassignments(CLUSTER, Span(from_ms=T0 - 1_000, to_ms=T0))
    assert set(found["outcome"]) == {"open"}


def test_a_reassignment_comes_back_as_it_was_written(reader: Questions) -> None:
    wanted = reassignment_rows.waiting_for_broker_4("orders", 4)
    assert reader.reassignments_with_steps(CLUSTER, [wanted.reassignment_id, "no such"]) == [wanted]


def test_evidence_of_reassignments_ends_with_the_clusters(reader: Questions) -> None:
    assert reader.reassignment_span(CLUSTER) == Span(from_ms=T0 - 900_000, to_ms=T0)
    assert reader.reassignment_span("nowhere") is None


def test_a_group_hangs_on_the_partition_that_holds_it_and_on_those_it_works_on(reader: Questions) -> None:
    found = reader.coordination(CLUSTER, "orders")
    assert found.offsets_partitions == ("__consumer_offsets-7",)
    assert found.partitions == tuple(f"orders-{p}" for p in range(6))
    assert reader.groups_on(CLUSTER, "__consumer_offsets-7") == ["orders"]
    assert reader.groups_on(CLUSTER, "orders-4") == ["orders"]


@pytest.mark.parametrize(
    ("ref", "place"),
    [
        ("metadata:broker-1@812", ("__cluster_metadata", 0, 812)),
        (
            "metadata:broker-1@00000000000000000700-0000000003:15",
            ("__cluster_metadata@00000000000000000700-0000000003", 0, 15),
        ),
        ("metadata:broker-1@x", None),
        ("metadata:broker-1@orders:5", None),
        ("record:__cluster_metadata-0@5", None),
        ("metadata:", None),
    ],
)
def test_a_place_in_the_metadata_log_leads_to_its_record(ref: str, place: tuple[str, int, int] | None) -> None:
    assert parse_metadata_ref(ref) == place


# ---- pictures --------------------------------------------------------------------------------------------------------


def test_a_brokers_lane_is_as_high_as_what_is_on_its_way_to_it(reader: Questions) -> None:
    none = reader.elections(CLUSTER, HOUR, [])
    copies = reader.copies(CLUSTER, HOUR)
    stalls = reader.stalls(CLUSTER, HOUR)
    picture = charts.brokers_time_line(copies, stalls, none, none, HOUR.from_ms, HOUR.to_ms)
    assert picture.lanes == ("broker 3", "broker 4", "broker 5")
    asked, stood = T0 - 900_000, T0 - 720_000
    assert bars_of(picture, "broker 4", Style.WORKING) == [(asked, stood, 1.0), (T0 - 300_000, T0 - 296_000, 0.5)]
    assert bars_of(picture, "broker 4", Style.STANDING) == [(stood, T0, 1.0)]
    assert picture.below["value"].max() == 3


def test_a_standstill_of_the_past_is_drawn_where_it_was() -> None:
    none = pd.DataFrame()
    copies = pd.DataFrame(
        {"broker_id": [4], "from_ms": [0], "to_ms": [100], "stood_from_ms": [20], "stood_to_ms": [80]}
    )
    stalls = pd.DataFrame({"from_ms": [20], "to_ms": [80], "kept": [[]]})
    picture = charts.brokers_time_line(copies, stalls, none, none, 0, 200)
    assert [(a, b) for a, b, _ in bars_of(picture, "broker 4", Style.WORKING)] == [(0, 20), (80, 100)]
    assert [(a, b) for a, b, _ in bars_of(picture, "broker 4", Style.STANDING)] == [(20, 80)]


def test_partitions_that_a_kept_broker_held_up_are_drawn_in_its_lane(tmp_path: Path) -> None:
    """Both new replicas came within a second; then broker 1, which it keeps, was not in sync for 100 s."""
    from tests.app import gold_rows

    warehouse = gold_rows.write(tmp_path / "w", many=0)
    known = reassignment_rows.asked_for(
        "orders",
        1,
        812,
        original=(1, 2),
        target=(1, 4, 5),
        adding=(4, 5),
        removing=(2,),
        cluster="kept",
        outcome="completed",
        started_at_ms=T0 - 101_000,
        ended_at_ms=T0,
        blocked_by="old_replica_out_of_sync",
        blocked_replicas=(1,),
        standstill_from_ms=T0 - 100_000,
        longest_standstill_ms=100_000,
        progress=tuple(ReplicaProgress(broker_id=b, in_isr_at_ms=T0 - 100_000) for b in (4, 5)),
    )
    warehouse.append("gold.reassignment", rows_to_table("gold.reassignment", [reassignment_row(known)]))
    gold_rows.publish(warehouse)
    reader = Questions.open(tmp_path / "w")
    none = pd.DataFrame()
    moved = (reader.copies("kept", HOUR), reader.stalls("kept", HOUR))
    picture = charts.brokers_time_line(*moved, none, none, HOUR.from_ms, HOUR.to_ms)
    assert picture.lanes == ("broker 1", "broker 4", "broker 5")
    assert bars_of(picture, "broker 1", Style.STANDING) == [(T0 - 100_000, T0, 1.0)]
    assert "1 partition stalled by it" in picture.texts
    assert picture.below["value"].max() == 1  # one partition, however many replicas it adds


def test_a_partitions_lanes_show_leading_in_sync_copying_and_standing_still() -> None:
    r = reassignment_rows.waiting_for_broker_4("orders", 4)
    none = pd.DataFrame()
    picture = charts.partition_time_line(r, none, none, T0)
    assert picture is not None
    assert picture.lanes == ("1, leaving", "2, leaving", "3, new", "4, new")
    assert {level for _, _, level in bars_of(picture, "1, leaving", Style.WORKING)} == {1.0}
    assert {level for _, _, level in bars_of(picture, "2, leaving", Style.WORKING)} == {0.5}
    assert [(a, b) for a, b, _ in bars_of(picture, "3, new", Style.WAITING)] == [(T0 - 900_000, T0 - 720_000)]
    assert [(a, b) for a, b, _ in bars_of(picture, "4, new", Style.STANDING)] == [(T0 - 720_000, T0)]
    assert picture.from_ms > T0 - 1_000_000  # the state before it, of long ago, does not stretch the picture


def test_without_a_known_broker_nothing_is_drawn() -> None:
    refused = reassignment_rows.ended()[1]
    none = pd.DataFrame()
    assert charts.partition_time_line(refused, none, none, T0) is None
    assert plain(sentences.reassignment(refused, T0)).endswith(
        "was refused: <img src=x onerror=alert(6)> no such topic\\x00."
    )
    assert "ladder not known" in ladder.small_html(refused)


def test_a_square_of_the_ladders_table_names_its_broker_where_the_head_is_not_shown() -> None:
    r = reassignment_rows.ended()[0]
    markup = ladder.table_html(r, ["then"] * len(r.steps))
    for broker in charts.brokers_of(r):
        assert markup.count(f"data-head='{broker}'") == len(r.steps)


def test_the_ladder_has_a_row_per_broker_and_a_square_per_state() -> None:
    markup = ladder.small_html(reassignment_rows.ended()[0])
    assert [plain(Html(row))[0] for row in markup.split('<div class="ra-rung">')[1:]] == ["1", "2", "3"]
    squares = re.findall(r"ra-is-([a-z-]+)", markup)
    assert squares[:5] == ["leader", "leader", "leader", "in-sync", "none"]
    assert squares[10:] == ["none", "copying", "in-sync", "leader", "leader"]


def test_ten_thousand_partitions_are_drawn_and_listed_without_delay(tmp_path: Path) -> None:
    from tests.app import gold_rows

    gold_rows.write(tmp_path / "w", many=0, wide=10_000)
    reader = Questions.open(tmp_path / "w")
    began = time.process_time()
    found = reader.reassignments("wide", HOUR)
    none = reader.elections("wide", HOUR, [])
    moved = (reader.copies("wide", HOUR), reader.stalls("wide", HOUR))
    picture = charts.brokers_time_line(*moved, none, none, HOUR.from_ms, HOUR.to_ms)
    said = sentences.reassignments(found, None, HOUR)
    took = time.process_time() - began
    assert "200 of 10,000 partitions that move are stalled" in plain(said)
    assert len(picture.bars) > 10_000
    assert took < 3, f"{took:.1f} s"


# ---- sentences -------------------------------------------------------------------------------------------------------


def test_whether_it_moves_is_said_first(reader: Questions) -> None:
    found = reader.reassignments(CLUSTER, HOUR)
    worst = reassignment_rows.waiting_for_broker_4("orders", 4)
    assert plain(sentences.reassignments(found, worst, HOUR)) == (
        "No: 3 of 4 partitions that move are stalled. The longest: orders-4 has made no progress for 12 min: broker 4, "
        "where it should go, is down or fenced. In 1 h, 2 others ended: 1 refused, 1 completed."
    )
    quiet = found[found["outcome"] != "open"]
    assert plain(sentences.reassignments(quiet, None, HOUR)).startswith("Nothing is moving.")
    stood = replace(reassignment_rows.ended()[0], blocked_by="broker_down", blocked_replicas=(3,))
    assert plain(sentences.reassignments(quiet, None, HOUR, stood)).endswith(
        "__consumer_offsets-7 had been stalled the longest, 11.0 s: broker 3, where it should go, was down or fenced."
    )
    only = found[found["topic"] == "payments"]
    assert (
        plain(sentences.reassignments(only, None, HOUR))
        == "Yes: 1 partition is moving; 1 of 2 new replicas are in sync."
    )


def test_what_stands_still_for_one_reason_is_cancelled_by_one_command() -> None:
    both = [reassignment_rows.waiting_for_broker_4("orders", p) for p in (4, 5)]
    (advice,) = sentences.advice(both)
    assert advice.why == "broker 4, where it should go, is down or fenced"
    ((text, command),) = advice.steps
    assert text == "Start broker 4, or cancel the reassignment"
    assert command is not None
    assert '{"topic": "orders", "partition": 4, "replicas": [3, 4]}, {"topic": "orders", "partition": 5' in command
    assert command.endswith(
        "kafka-reassign-partitions --bootstrap-server HOST:PORT --reassignment-json-file cancel.json --cancel"
    )


def test_no_name_from_a_log_line_reaches_a_command() -> None:
    forged = reassignment_rows.waiting_for_broker_4(HOSTILE_TOPIC, 0)
    (advice,) = sentences.advice([forged])
    assert all("rm -rf" not in (command or "") for _, command in advice.steps)


def test_a_cause_is_shown_only_where_the_rebalance_names_it(reader: Questions) -> None:
    elections = reader.elections(CLUSTER, HOUR, ["__consumer_offsets-7"])
    rebalances = reader.group_rebalances(CLUSTER, "orders", HOUR)
    (found,) = coincidences(rebalances, elections, ["__consumer_offsets-7"])
    assert (found.rebalance_id, found.gap_ms, found.of_coordinator, found.names_it) == ("orders/7", 3_000, True, False)
    said = plain(sentences.coincidence(found, words.zone("UTC")))
    assert said.endswith(
        "because a member's session expired; whether the change of the leader led to that is not known."
    )
    named = rebalances.assign(trigger="coordinator_failover")
    (found,) = coincidences(named, elections, ["__consumer_offsets-7"])
    assert "because of it: its own cause says so." in plain(sentences.coincidence(found, words.zone("UTC")))
    assert coincidences(rebalances.assign(started_at_ms=T0), elections, []) == []
