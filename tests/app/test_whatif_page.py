"""The page that says which settings would have helped, on stored answers."""

from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import charts
from app.queries import Questions
from rebalance_audit.domain import tables
from rebalance_audit.domain.replay.fleet import SettingsAdvice, advice_of, advice_row
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, HOSTILE_GROUP
from tests.app.opening import cells
from tests.domain.replay.test_beside import history

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
SAVES = SettingsAdvice(
    cluster_id="c1", group_id="orders-app", place=1, settings=("heartbeat.interval.ms=1000",), saved_seconds=12.0,
    saved_lower_seconds=8.0, saved_upper_seconds=14.0, cost_seconds=6.6, cost_lower_seconds=5.0, cost_upper_seconds=8.0,
    measured_seconds=18.6, rebalances=9, rebalances_replayed=9, from_ms=1_790_000_000_000, until_ms=1_790_000_100_000,
    fit_rebalances=1.0, fit_causes=1.0, in_force=("heartbeat.interval.ms=3000",),
    why="saves 12.0 s of 18.6 s; brokers get 3.0 times the heartbeats",
)  # fmt: skip
COSTS = SettingsAdvice(
    cluster_id="c1", group_id="orders-app", place=2, settings=("group.instance.id=auto", "session.timeout.ms=45000"),
    saved_seconds=-40.0, saved_lower_seconds=-45.0, saved_upper_seconds=-35.0, cost_seconds=58.6,
    cost_lower_seconds=50.0, cost_upper_seconds=60.0, measured_seconds=18.6, rebalances=3, rebalances_replayed=9,
    from_ms=1_790_000_000_000, until_ms=1_790_000_100_000, fit_rebalances=1.0, fit_causes=1.0, why="costs 40.0 s more",
)  # fmt: skip
NOTHING = SettingsAdvice(
    cluster_id="c1",
    group_id=HOSTILE_GROUP,
    place=1,
    settings=(),
    rebalances_replayed=2,
    why=f"{HOSTILE_GROUP} is short.",
)


def page_of(place: Path, monkeypatch: pytest.MonkeyPatch, *advice: SettingsAdvice, **params: str) -> str:
    warehouse = Warehouse.open(place, create=True)
    if advice:
        stored(warehouse, *advice)
    return shown(place, monkeypatch, "whatif", **params)


def stored(warehouse: Warehouse, *advice: SettingsAdvice) -> None:
    warehouse.append("gold.whatif", rows_to_table("gold.whatif", [advice_row(a) for a in advice]))
    warehouse.publish(warehouse.published() | {"gold.whatif": warehouse.version("gold.whatif") or 0})


def shown(place: Path, monkeypatch: pytest.MonkeyPatch, view: str, **params: str) -> str:
    monkeypatch.setattr("sys.argv", ["streamlit"])
    monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", str(place))
    at = AppTest.from_file(str(MAIN), default_timeout=60)
    at.switch_page(f"views/{view}.py")
    for name, value in params.items():
        at.query_params[name] = value
    at.run()
    assert not at.exception
    said = [*(h.value for h in at.html), *(c.value for c in at.code), cells(at)]
    return "\n".join(said).replace("\N{NO-BREAK SPACE}", " ")


def test_the_fleets_best_changes_are_listed_with_their_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = page_of(tmp_path / "w", monkeypatch, SAVES, COSTS, NOTHING)
    assert "1 change would have saved 12.0 of 18.6 s of standing still" in said.replace("12.0 s of", "12.0 of")
    assert "saves 12.0 s (likely 8.0 to 14.0)" in said
    assert "nothing predicted" in said
    assert "history of 1 group. 1 group could not be replayed" in said
    assert "<script" not in said.partition(" group ")[0]  # a table's cells are drawn, not read as HTML


def test_nobody_is_told_to_set_what_costs_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worse = replace(COSTS, in_force=("group.instance.id=none", "session.timeout.ms=10000"))
    said = page_of(tmp_path / "w", monkeypatch, SAVES, worse, cluster="c1", group="orders-app")
    assert "more (likely 35.0 to 45.0): no help to this group." in said
    assert "<b>What was tried:</b> <code>session.timeout.ms=45000</code>, it was <code>10000</code>." in said
    assert said.count("<b>What to set:</b>") == 1


def test_a_fleet_saves_no_more_than_it_stood_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In 90 s of what it saves no member ran; that is not in what was measured."""
    order = replace(SAVES, settings=("deploy.order=2",), saved_seconds=100.0, saved_upper_seconds=106.6)
    said = page_of(tmp_path / "w", monkeypatch, order)
    assert "would have saved 100.0 of 106.6 s of standing still" in said.replace("100.0 s of", "100.0 of")
    of_group = shown(tmp_path / "w", monkeypatch, "whatif", cluster="c1", group="orders-app")
    assert "<b>What to set:</b> restart 2 members at a time, " in of_group


def test_what_saves_for_certain_is_listed_before_what_may_be_chance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unsure = replace(
        SAVES, group_id="unsure-app", saved_seconds=20.0, saved_lower_seconds=-5.0, saved_upper_seconds=45.0
    )
    said = page_of(tmp_path / "w", monkeypatch, SAVES, unsure)
    assert (
        said.index("orders-app")
        < said.index("unsure-app")
        < said.index("may save 20.0 s, not sure (45.0 less to 5.0 more)")
    )
    of_group = page_of(tmp_path / "w", monkeypatch, unsure, cluster="c1", group="unsure-app")
    assert (
        "may have helped, but that is not sure: 20.0 partition-seconds less in the middle of its replays, likely 45.0 "
        "less to 5.0 more." in of_group
    )
    nothing = replace(unsure, saved_seconds=0.0, saved_lower_seconds=-0.9, saved_upper_seconds=0.9)
    of_group = page_of(tmp_path / "w2", monkeypatch, nothing, cluster="c1", group="unsure-app")
    assert "no difference beyond the spread of its replays: likely 0.9 partition-seconds less to 0.9 more." in of_group


def test_a_group_shows_what_helps_and_what_would_cost_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = page_of(tmp_path / "w", monkeypatch, SAVES, COSTS, NOTHING, cluster="c1", group="orders-app")
    assert "would have saved 12.0 partition-seconds (likely 8.0 to 14.0) of standing still, and left 6.6" in said
    assert said.index("would have saved") < said.index(
        "would have cost 40.0 partition-seconds more (likely 35.0 to 45.0)"
    )
    assert "100% of their causes" in said
    assert "<b>What it does:</b> how often a member asks whether there is a rebalance" in said
    assert "<b>Its price:</b> the brokers get more requests." in said
    assert "<b>Its price:</b> session.timeout.ms: if it becomes longer, a dead member is noticed later; if" in said
    assert "<b>What to set:</b> <code>heartbeat.interval.ms=1000</code>, it was <code>3000</code>." in said
    assert "<code>group.instance.id</code>, a name of its own for each process, the same after each restart, " in said
    assert "<code>session.timeout.ms=45000</code>, what it was does not show in the history." in said
    assert "# librdkafka\nheartbeat.interval.ms=1000" in said
    assert "# librdkafka\ngroup.instance.id" not in said


def test_who_knows_the_library_reads_its_own_lines_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = replace(SAVES, client_libraries=("sarama",))
    said = page_of(tmp_path / "w", monkeypatch, known, cluster="c1", group="orders-app")
    assert "# sarama\nConsumer.Group.Heartbeat.Interval: 1000 ms" in said
    assert "# librdkafka" not in said
    assert "# java" not in said


def test_a_group_that_could_not_be_replayed_says_why_and_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = page_of(tmp_path / "w", monkeypatch, SAVES, NOTHING, cluster="c1", group=HOSTILE_GROUP)
    assert "This group could not be replayed." in said
    assert "is short." in said
    assert "were replayed" not in said


def test_a_group_of_which_nothing_is_kept_is_not_the_first_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = page_of(tmp_path / "w", monkeypatch, SAVES, cluster="c1", group=HOSTILE_GROUP)
    assert "has been replayed under other settings." in said
    assert "No group has been replayed" not in said
    assert "<script" not in said


def test_before_the_first_time_the_page_says_how_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"rebalance-audit whatif -w {tmp_path / 'w'}" in page_of(tmp_path / "w", monkeypatch)


def test_a_groups_page_shows_what_would_have_helped_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    stored(warehouse, replace(SAVES, cluster_id=CLUSTER, group_id="checkout"))
    helped = shown(tmp_path / "w", monkeypatch, "group", cluster=CLUSTER, group="checkout")
    assert "What would have helped" in helped
    assert "heartbeat.interval.ms=1000</code> would have saved 12.0 partition-seconds" in helped
    assert "says so: brokers get 3.0 times the heartbeats." in helped
    assert "What would have helped" not in shown(
        tmp_path / "w", monkeypatch, "group", cluster=CLUSTER, group="payments"
    )


def test_the_two_time_lines_say_so_where_the_history_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    stored(warehouse, replace(SAVES, cluster_id=CLUSTER, group_id="checkout"))
    said = shown(tmp_path / "w", monkeypatch, "group", cluster=CLUSTER, group="checkout", last="all")
    assert "cannot be replayed any more" in said


def test_a_group_is_drawn_as_it_was_and_as_it_would_have_been(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = history("4.3.0/static_restart")
    until_ms = max(r.ended_at_ms or 0 for r in rows) + 1_000
    best = next(a for a in advice_of(rows, until_ms) if a.saved_lower_seconds is not None and a.saved_lower_seconds > 0)
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    columns = {c.name for c in tables.SILVER_MEASURED.columns}
    own = {"cluster_id": CLUSTER, "group_id": "checkout"}
    silver = [{k: v for k, v in asdict(r).items() if k in columns} | own | {"place": i} for i, r in enumerate(rows)]
    warehouse.append("silver.measured_rebalance", rows_to_table("silver.measured_rebalance", silver))
    stored(warehouse, replace(best, cluster_id=CLUSTER, group_id="checkout"))
    reader = Questions.open(tmp_path / "w")
    (change, *_) = reader.changes(CLUSTER, "checkout")
    found = reader.beside(change)
    assert found is not None
    assert found.option.saved_seconds == best.saved_seconds
    assert found.fit.measured_seconds == best.measured_seconds
    begun = min(s.from_ms for s in found.was)
    lines = charts.beside_time_lines(
        found.was, found.would, pd.DataFrame(), found.would_rebalances, begun, until_ms, "partition"
    )
    assert lines is not None
    was, would = lines
    assert was.lanes == would.lanes
    assert (was.from_ms, was.to_ms) == (would.from_ms, would.to_ms)
    assert len(would.marks) == len(found.would_rebalances)
    page = {"cluster": CLUSTER, "group": "checkout", "from": str(int(begun)), "to": str(until_ms)}
    said = shown(tmp_path / "w", monkeypatch, "group", **page)
    assert "As it was" in said
    assert "100% of the rebalances" in said
