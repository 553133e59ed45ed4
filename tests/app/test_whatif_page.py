"""The page that says which settings would have helped, on stored answers."""

from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from rebalance_audit.domain.replay.fleet import SettingsAdvice, advice_row
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, HOSTILE_GROUP

MAIN = Path(__file__).resolve().parents[2] / "app" / "main.py"
SAVES = SettingsAdvice(
    cluster_id="c1", group_id="orders-app", place=1, settings=("heartbeat.interval.ms=1000",), saved_seconds=12.0,
    saved_lower_seconds=8.0, saved_upper_seconds=14.0, cost_seconds=6.6, cost_lower_seconds=5.0, cost_upper_seconds=8.0,
    measured_seconds=18.6, rebalances=9, rebalances_replayed=9, from_ms=1_790_000_000_000, until_ms=1_790_000_100_000,
    fit_rebalances=1.0, fit_causes=1.0, why="saves 12.0 s of 18.6 s; brokers get 3.0 times the heartbeats",
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
    return "\n".join([*(h.value for h in at.html), *(str(d.value.to_string()) for d in at.dataframe)])


def test_the_fleets_best_changes_are_listed_with_their_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = page_of(tmp_path / "w", monkeypatch, SAVES, COSTS, NOTHING)
    assert "1 change would have saved 12.0 of 18.6 s of downtime" in said.replace("12.0 s of", "12.0 of")
    assert "saves 12.0 s (8.0 … 14.0)" in said
    assert "nothing predicted" in said
    assert "<script" not in said.partition(" group ")[0]  # a table's cells are drawn, not read as HTML


def test_a_group_shows_what_helps_and_what_would_cost_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = page_of(tmp_path / "w", monkeypatch, SAVES, COSTS, NOTHING, cluster="c1", group="orders-app")
    assert said.index("saves 12.0 s") < said.index("costs 40.0 s more (35.0 … 45.0)")
    assert "100% of their causes" in said


def test_before_the_first_time_the_page_says_how_to_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "rebalance-audit whatif -w WAREHOUSE" in page_of(tmp_path / "w", monkeypatch)


def test_a_groups_page_shows_what_would_have_helped_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    stored(warehouse, replace(SAVES, cluster_id=CLUSTER, group_id="checkout"))
    helped = shown(tmp_path / "w", monkeypatch, "group", cluster=CLUSTER, group="checkout")
    assert "What would have helped" in helped
    assert "heartbeat.interval.ms=1000" in helped
    assert "What would have helped" not in shown(
        tmp_path / "w", monkeypatch, "group", cluster=CLUSTER, group="payments"
    )
