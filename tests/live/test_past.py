"""The past of many groups, read at once, is that of each by itself."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from ingest.evidence import import_evidence, read_evidence
from ingest.landing import Landing
from rebalance_audit.domain.detect import DEFAULT_OF, LimitsOf, detect_group
from rebalance_audit.domain.incidents import incident_row
from rebalance_audit.domain.reassign import kraft_history
from rebalance_audit.live import past
from rebalance_audit.live.elections import MetadataPast
from rebalance_audit.live.group_memory import MOST_EVENTS
from rebalance_audit.live.past import WarehousePast
from rebalance_audit.live.remembered import RememberedCluster
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.incidents import reading
from tests.captures import GOLDEN
from tests.domain.detect.group_story import CLUSTER, GroupStory
from tests.spark_jobs.incidents.test_tables import HOUR_S, Published


@pytest.mark.parametrize("most_events", [MOST_EVENTS, 3])
@pytest.mark.parametrize(("capture", "least"), [("2.3.1/side_by_side_in_trouble", 3), ("4.3.0/connect_worker_lost", 2)])
def test_many_groups_have_the_past_that_each_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capture: str, least: int, most_events: int
) -> None:
    monkeypatch.setattr(past, "MOST_EVENTS", most_events)
    warehouse = Warehouse.open(tmp_path, create=True)
    import_evidence(GOLDEN / capture, Landing(tmp_path))
    pipeline.run(warehouse, engine="local", with_quality=False)
    rows = warehouse.query("SELECT DISTINCT cluster_id, group_id FROM gold.rebalance ORDER BY 2").to_pylist()
    tables = WarehousePast(warehouse, rows[0]["cluster_id"], DEFAULT_OF)
    known = tables.of_cluster()
    groups = {
        group_id: [route for route, homes in known.routes.items() if group_id in homes]
        for group_id in (*(row["group_id"] for row in rows), "one that is not there")
    }
    assert len(groups) >= least
    together = tables.of_groups(groups)
    assert together.keys() == groups.keys()
    for group_id, routes in groups.items():
        (alone,) = tables.of_groups({group_id: routes}).values()
        one = together[group_id]
        assert sorted(event.ref for event in one.events) == sorted(event.ref for event in alone.events)
        assert {event.ref: event for event in one.events} == {event.ref: event for event in alone.events}
        assert sorted(map(repr, one.marks)) == sorted(map(repr, alone.marks))
        assert one.is_whole == alone.is_whole
    assert any(one.events for one in together.values())
    assert all(one.is_whole for one in together.values()) == (most_events > 3)


def test_partitions_and_elections_are_read_as_the_stages_have_them(tmp_path: Path) -> None:
    capture = GOLDEN / "4.3.0" / "group_cannot_be_written"
    warehouse = Warehouse.open(tmp_path, create=True)
    import_evidence(capture, Landing(tmp_path))
    pipeline.run(warehouse, engine="local", with_quality=False)
    evidence = read_evidence(capture)
    whole = kraft_history(evidence.metadata(), cluster_id=evidence.cluster_id)
    tables = WarehousePast(warehouse, evidence.cluster_id, DEFAULT_OF)
    known = tables.of_metadata()
    assert {(known.names[topic_id], p): s.leader for (topic_id, p), s in known.states.items()} == {
        name: state.leader for name, state in whole.states.items()
    }
    offsets = [int(state.ref.rpartition("@")[2]) for state in whole.states.values()]
    assert known.next_offset == max(offsets) + 1
    since_ms = whole.elections[2].at_ms
    later = [e for e in whole.elections if e.at_ms >= since_ms]
    assert sorted(tables.elections(since_ms), key=repr) == sorted(later, key=repr)
    nothing = WarehousePast(Warehouse.open(tmp_path / "new", create=True), "lab", DEFAULT_OF)
    assert (nothing.of_metadata(), nothing.elections(0)) == (MetadataPast(), [])


def test_leader_moves_are_read_when_the_table_changed(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    tables = WarehousePast(warehouse, "lab", DEFAULT_OF)
    assert tables.leader_moves(0) is None

    def publish(cluster_id: str, at_ms: int) -> None:
        row = {
            "cluster_id": cluster_id, "group_id": "orders", "relation": "coordinator_moved", "cause": "broker_failure",
            "topic": "__consumer_offsets", "partition": 3, "at_ms": at_ms, "previous_leader": 1, "is_cause": False,
        }  # fmt: skip
        warehouse.append("gold.leader_move", rows_to_table("gold.leader_move", [row]))

    publish("lab", 10_000)
    publish("lab", 20_000)
    publish("other", 20_000)
    found = tables.leader_moves(15_000)
    assert found is not None
    assert [(move.group_id, move.at_ms, move.cause) for move in found] == [("orders", 20_000, "broker_failure")]
    assert tables.leader_moves(15_000) is None
    publish("lab", 30_000)
    assert [move.at_ms for move in tables.leader_moves(15_000) or ()] == [20_000, 30_000]


def test_what_an_incident_is_made_of_that_is_open_for_long_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault is over after ten hours without another; the margin of what is read anyway is three hours."""

    limits = LimitsOf(({"quiet_ms": 10 * HOUR_S * 1_000},))
    orders = GroupStory("orders").joins("c1", "c2", "c3", at_s=0).vanishes("c1", at_s=HOUR_S).vanishes("c2", at_s=5_000)
    refunds = GroupStory("refunds").joins("c1", "c2", at_s=0).deploys("c1", "c2", from_s=4 * HOUR_S, each_s=60)
    history = Published(tmp_path, monkeypatch, limits)
    history.publish([orders, refunds], until_s=6 * HOUR_S)
    stored = [row for row in history.rows("gold.incident", "incident_id") if row["status"] == "open"]
    assert [(row["kind"], len(row["rebalance_ids"])) for row in stored] == [("member_fault", 2)]
    for name in ("open_tasks", "reassignments_since"):  # there are none
        monkeypatch.setattr(reading, name, lambda *asked: {})
    monkeypatch.setattr(past, "seen_until_ms", lambda warehouse: {CLUSTER: history.now_ms})
    known = WarehousePast(history.warehouse, CLUSTER, limits).of_cluster()
    assert known.rows is not None
    assert known.since_ms is not None
    assert {group_id: len(rows) for group_id, rows in known.rows.groups.items()} == {"orders": 2, "refunds": 4}
    rows = replace(known.rows, limits=partial(limits, CLUSTER))
    for is_folded in (False, True):
        cluster = RememberedCluster(rows, known.since_ms, known.open_before)
        if is_folded:
            findings = detect_group(orders.rebalances, (), limits(CLUSTER, "orders"), seen_until_ms=history.now_ms)
            cluster.put("orders", orders.rebalances, (), findings)
        found = [i for i in cluster.incidents(history.now_ms) if i.status == "open"]
        assert [incident_row(i) | {"chain": ()} for i in found] == [
            {name: tuple(v) if isinstance(v, list) else v for name, v in (row | {"chain": ()}).items()}
            for row in stored
        ]
