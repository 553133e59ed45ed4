from pathlib import Path

import pytest

from app import words
from app.answers.rows import CauseShare, Span
from app.queries import Questions, WarehouseError
from app.sentences import group, mostly
from app.words import plain
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, HOSTILE_GROUP, T0

DAY = Span(from_ms=T0 - 86_400_000, to_ms=T0)


def test_the_fleets_cost_is_the_sum_over_rebalances_by_unit(reader: Questions) -> None:
    fleet = reader.fleet(Span(from_ms=T0 - 7_200_000, to_ms=T0))
    in_time = [r for r in gold_rows.checkout() if (r.assigned_at_ms or 0) >= T0 - 7_200_000]
    _orders, _ = gold_rows.orders()
    svc = sum(0.04 for i in range(2_000) if (i * 37_000) % 80_000_000 <= 7_200_000)
    assert fleet.partition_seconds == pytest.approx(2.0 * len(in_time) + 0.3 + 24.9 + 6.0 + svc)
    assert fleet.task_seconds == pytest.approx(0.5 + 63.0)


def test_a_rebalance_whose_pause_is_not_known_is_counted_and_adds_nothing(reader: Questions) -> None:
    assert reader.group_rebalances(CLUSTER, "unknowns", DAY)["resource_seconds_estimate"].isna().all()


def test_incidents_are_open_first_and_know_what_they_cost_whom(reader: Questions) -> None:
    found = reader.incidents(DAY, expected=False)
    assert [i.group_ids[:1] for i in found[:2]] == [("checkout",), ("orders",)]
    assert found[0].cost_seconds == pytest.approx(62.0)
    assert (found[0].severity, found[0].unit) == ("critical", "partition")
    costs = reader.incident_costs(found[0].cluster_id, found[0].incident_id)
    assert [(c.group_id, c.rebalance_count) for c in costs] == [("checkout", 31)]
    assert costs[0].estimate == pytest.approx(62.0)
    assert (costs[0].lower, costs[0].upper) == (pytest.approx(31.0), pytest.approx(93.0))


def test_the_strip_over_time_adds_up_to_the_fleets_numbers(reader: Questions) -> None:
    whole = reader.span()
    assert whole is not None
    fleet = reader.fleet(whole)
    strip = reader.fleet_over_time(whole, 50)
    assert int(strip["rebalances"].sum()) == fleet.rebalance_count
    assert strip["cost"].sum() == pytest.approx((fleet.partition_seconds or 0) + (fleet.task_seconds or 0))
    assert strip["bucket"].between(0, 49).all()


def test_a_mark_is_of_the_groups_that_its_pattern_names(reader: Questions) -> None:
    assert next(m.text for m in reader.marks(group_ids=["orders"])) == "v2.3 of orders"
    assert "v2.3 of orders" not in [m.text for m in reader.marks(group_ids=["checkout"])]
    assert len(reader.marks()) == 2
    assert "v2.3 of orders" in [m.text for m in reader.marks(group_ids=["checkout", "orders"])]


def test_a_name_leads_to_its_place_whatever_its_case(reader: Questions) -> None:
    found = reader.places("ORDERS")
    assert (found[0].kind, found[0].found_id) == ("group", "orders")
    assert {p.kind for p in found} >= {"group", "incident", "topic"}
    assert next(p.kind for p in reader.places("sink")) == "connector"
    assert len(reader.places("svc", 7)) == 7
    assert reader.places("%") == []


def test_a_topic_leads_to_the_groups_that_read_it(reader: Questions) -> None:
    found = [(p.name, p.found_id) for p in reader.places("ORDER") if p.kind == "reader"]
    assert ("orders", "orders") in found


def test_the_headline_is_of_the_rebalances_that_have_both_numbers(reader: Questions) -> None:
    """orders: pauses of 50 ms and 12,312 ms, windows of 1,310 ms and 1,312 ms; factors 26.2 and 9.384."""
    found = reader.headline(DAY, CLUSTER, "orders")
    assert (found.compared_count, found.too_short_count, found.unmoved_count) == (2, 1, 0)
    assert found.window_median_ms == pytest.approx(1_311)
    assert found.pause_median_ms == pytest.approx((50 + 12_312) / 2, rel=0.01)
    assert found.factor_median == pytest.approx((26.2 + 9.384) / 2, rel=0.01)
    assert reader.headline(DAY, "nowhere").pause_median_ms is None


def test_a_rebalance_without_a_known_pause_is_not_counted_as_one_of_none(reader: Questions) -> None:
    """connect-lab: 400 ms and 31.5 s; its round of the delay stopped nothing that had not stopped before."""
    found = reader.headline(DAY, CLUSTER, "connect-lab")
    assert (found.compared_count, found.pause_median_ms) == (2, (400 + 31_500) / 2)


def test_a_round_that_only_revokes_is_not_one_in_which_nothing_stood_still(reader: Questions) -> None:
    assert reader.headline(DAY, CLUSTER, "payments").unmoved_count == 0


def test_the_groups_table_is_whole_and_has_open_incidents_first_then_the_costliest(reader: Questions) -> None:
    frame = reader.groups(DAY).to_pandas()
    assert len(frame) == 2_006
    in_trouble = ["checkout", "orders", gold_rows.HOSTILE_GROUP]  # critical, then warnings by cost
    assert frame["group_id"].head(5).tolist() == [*in_trouble, "connect-lab", "payments"]
    checkout = frame[frame["group_id"] == "checkout"].iloc[0]
    assert checkout["rebalances"] == 31
    over_time, none = reader.over_time(DAY, [(CLUSTER, "checkout"), (CLUSTER, "unheard of")])
    assert (sum(over_time), len(over_time)) == (31, 24)
    assert none == [0] * 24


def test_causes_name_the_client_they_were_about(reader: Questions) -> None:
    causes = reader.group_causes(CLUSTER, "checkout", DAY)
    # 28 poll timeouts, and three goings that belong to the same storm.
    assert [(c.trigger, c.rebalance_count, c.client, c.client_count) for c in causes] == [
        ("member_poll_timeout", 31, "c3", 31)
    ]


def test_of_two_who_vanished_together_neither_is_left_out(tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    (one,) = (r for r in warehouse.read("gold.rebalance").to_pylist() if r["rebalance_id"] == "orders/7")
    also = [{**one["triggers"][0], "members": ["c2-0002"]}]
    pair = {"group_id": "pair", "rebalance_id": "pair/7"}
    rows = [{**one, **pair, "triggers": one["triggers"] + also}]
    members = [m for m in warehouse.read("gold.rebalance_member").to_pylist() if m["rebalance_id"] == "orders/7"]
    warehouse.append("gold.rebalance", rows_to_table("gold.rebalance", rows))
    warehouse.append("gold.rebalance_member", rows_to_table("gold.rebalance_member", [{**m, **pair} for m in members]))
    gold_rows.publish(warehouse)
    reader = Questions.open(tmp_path / "w")
    (cause,) = reader.group_causes(CLUSTER, "pair", DAY)
    assert (cause.rebalance_count, cause.client, cause.client_count, cause.also_count) == (1, "c2", 1, 1)
    said = mostly(cause)
    assert said is not None
    assert plain(said) == "namely c2 and 1 more"


def test_the_costliest_cause_of_a_group_is_named_however_rare_it_is(reader: Questions) -> None:
    counts = {
        "member_joined": (9, 1.0),
        "member_left": (8, 2.0),
        "metadata_changed": (7, 3.0),
        "member_poll_timeout": (6, 4.0),
    }
    causes = [CauseShare(trigger=t, rebalance_count=n, resource_seconds=s) for t, (n, s) in counts.items()]
    causes.append(CauseShare(trigger="member_session_expired", rebalance_count=1, resource_seconds=600.0))
    said = plain(group(reader.group_rebalances(CLUSTER, "orders", DAY), causes, "partition", DAY))
    assert [words.because(t) in said for t in (*counts, "member_session_expired")] == [True, True, False, False, True]
    assert "13 for other causes" in said


def test_a_rebalance_comes_with_its_members_and_movements(reader: Questions) -> None:
    found = reader.rebalance(CLUSTER, "orders/7")
    assert found is not None
    assert [m.member_id for m in found.members] == ["c1-0001", "c2-0002", "c3-0003"]
    assert found.movements[0].pause_estimate_ms == 12_310
    assert found.triggers[0].members == ("c3-0003",)


def test_what_is_not_there_is_none(reader: Questions) -> None:
    assert reader.rebalance(CLUSTER, "orders/99") is None
    assert reader.group("other", "orders") is None
    assert reader.finding(CLUSTER, "nothing") is None


def test_a_group_id_is_data_and_never_sql(reader: Questions) -> None:
    assert reader.group(CLUSTER, "' OR 1=1 --") is None
    assert reader.group(CLUSTER, HOSTILE_GROUP) is not None


def test_neighbours_follow_the_numbers(reader: Questions) -> None:
    near = reader.neighbours(CLUSTER, "checkout", "checkout/50")
    assert (near.before, near.after) == ("checkout/49", "checkout/51")
    assert reader.neighbours(CLUSTER, "checkout", "checkout/70").after is None


def test_what_rests_on_a_ref_is_found_from_the_ref(reader: Questions) -> None:
    rebalances, findings = reader.citing(CLUSTER, "record:__consumer_offsets-7@231")
    assert [r["rebalance_id"] for r in rebalances] == ["orders/7"]
    assert [f.rule_id for f in findings] == ["RB007"]


def test_a_publication_is_seen_whole_and_only_after_refresh(tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    reader = Questions.open(tmp_path / "w")
    reader.refresh()
    assert reader.group_count() == 6
    row = {**gold_rows.group_row(gold_rows.payments(), []), "group_id": "new"}
    warehouse.append("gold.group", rows_to_table("gold.group", [row]))
    assert reader.group_count() == 6
    gold_rows.publish(warehouse)
    assert reader.group_count() == 6
    reader.refresh()
    assert reader.group_count() == 7


def test_an_empty_warehouse_answers_every_question_with_nothing(empty_warehouse: Path) -> None:
    reader = Questions.open(empty_warehouse)
    reader.refresh()
    assert reader.span() is None
    assert reader.clusters() == []
    assert reader.incidents() == []
    assert reader.incident_count(DAY).open_count == 0
    assert reader.marks() == []
    assert reader.places("a") == []
    assert not len(reader.groups(DAY))
    assert reader.fleet(DAY).partition_seconds is None
    assert reader.coverage() == []
    assert reader.connect_groups() == []
    assert reader.checks() == []


def test_a_table_with_a_lost_file_counts_as_empty_and_is_named_in_one_sentence(tmp_path: Path) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    for file in (tmp_path / "w" / "gold" / "group").glob("*.parquet"):
        file.unlink()
    reader = Questions.open(tmp_path / "w")
    assert reader.group_count() == 0
    (said,) = reader.damaged().values()
    assert "gold.group" in said
    assert "\n" not in said


def test_a_warehouse_of_a_newer_version_is_refused(newer_warehouse: Path) -> None:
    with pytest.raises(WarehouseError, match="newer version"):
        Questions.open(newer_warehouse)


def test_opening_reads_and_writes_nothing(empty_warehouse: Path) -> None:
    before = sorted(p.name for p in empty_warehouse.rglob("*"))
    Questions.open(empty_warehouse).state()
    assert sorted(p.name for p in empty_warehouse.rglob("*")) == before
    assert isinstance(Warehouse.open(empty_warehouse), Warehouse)


def test_trust_knows_what_was_opened_again_deleted_and_fell_silent(tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    reopened = {"cluster_id": CLUSTER, "group_id": "orders", "batch_id": "b1", "settled_at_ms": T0 - 5_000,
                "evidence_at_ms": T0 - 9_000, "from_ms": T0 - 20_000, "is_too_old": False}  # fmt: skip
    changed = {**reopened, "batch_id": "b2", "evidence_at_ms": None, "from_ms": None}
    warehouse.append("silver.reopening", rows_to_table("silver.reopening", [reopened, changed]))
    floors = [{"cluster_id": CLUSTER, "source": f"record:__consumer_offsets-{p}", "position": 9} for p in (1, 2)]
    warehouse.append("silver.floor", rows_to_table("silver.floor", floors))
    shape = gold_rows.coverage()[0] | {"is_gap": False, "from_at_ms": T0 - 9_000_000}
    quiet = {
        **shape,
        "cluster_id": "far",
        "source": "log:broker-2/server.log#abc",
        "kind": "log",
        "to_at_ms": T0 - 7_200_000,
    }
    newest = {**shape, "cluster_id": "far", "source": "record:__consumer_offsets-3", "kind": "record", "to_at_ms": T0}
    other = {**newest, "source": "record:__consumer_offsets-4", "to_at_ms": T0 - 8_000_000}
    warehouse.append("gold.coverage", rows_to_table("gold.coverage", [quiet, newest, other]))
    gold_rows.publish(warehouse)
    reader = Questions.open(tmp_path / "w")
    found, total = reader.reopenings()
    assert (total, [r.evidence_at_ms for r in found]) == (2, [None, T0 - 9_000])
    assert [(r.source_count, r.example) for r in reader.let_go()] == [(2, "record:__consumer_offsets-1")]
    (silent,) = [s for s in reader.silent(3_600_000) if s.cluster_id == "far"]
    assert (silent.name, silent.last_at_ms - silent.ended_at_ms) == ("broker-2", 7_200_000)


def test_reassignments_of_all_clusters_are_counted_those_that_stand_still_first(reader: Questions) -> None:
    found = reader.reassignments_by_cluster()
    for row in found:
        mine = reader.rows("SELECT * FROM gold.reassignment WHERE cluster_id = ?", (row.cluster_id,))
        assert row.all_count == len(mine)
        assert row.open_count == sum(m["outcome"] == "open" for m in mine)
        assert row.stalled_count == sum(m["stalled_since_ms"] is not None for m in mine)
    assert [r.stalled_count for r in found] == sorted((r.stalled_count for r in found), reverse=True)
    assert found


def test_a_commit_is_known_by_the_partition_it_is_of(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    mark = {
        "cluster_id": "c", "group_id": "g", "topic": "orders", "partition": 3, "offsets_topic": "__consumer_offsets",
        "offsets_partition": 7, "first_offset": 5, "first_at_ms": T0, "last_offset": 9, "last_at_ms": T0 + 1,
        "commit_count": 5,
    }  # fmt: skip
    warehouse.append("silver.commit_mark", rows_to_table("silver.commit_mark", [mark, mark | {"group_id": "other"}]))
    gold_rows.publish(warehouse)
    refs = [f"record:__consumer_offsets-7@{offset}" for offset in (4, 5, 9)]
    reader = Questions.open(tmp_path / "w")
    assert reader.commits("c", ["g"], refs) == {refs[1]: "orders-3", refs[2]: "orders-3"}
    assert reader.commits("c", ["nobody"], refs) == {}
