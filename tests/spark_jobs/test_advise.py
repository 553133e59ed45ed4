"""gold.whatif: the costliest groups of a warehouse, replayed under other settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance, to_row
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.fleet import FLEET_RUNS, advice_of
from rebalance_audit.domain.replay.situation import RUNS_BY_NAME, situation_of
from rebalance_audit.domain.replay.whatif import option_of
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.advise import FleetWeighed, advise
from spark_jobs.pipeline import writing_run
from tests.captures import GOLDEN as CAPTURES
from tests.captures import gathered

GOLDEN = CAPTURES / "4.3.0"


def histories(*captures: str) -> list[list[Rebalance]]:
    found = [
        [measure(r) for r in reconstruct(evidence).rebalances]
        for capture in captures
        for evidence in gathered(GOLDEN / capture).groups
    ]
    return [rows for rows in found if rows]


def filled(place: Path, groups: list[list[Rebalance]]) -> Warehouse:
    """A warehouse with the measured rebalances of these groups, as the pipeline stores and publishes them."""
    warehouse = Warehouse.open(place, create=True)
    rows = [to_row(r) | {"place": n} for group in groups for n, r in enumerate(group)]
    for name in ("silver.measured_rebalance", "gold.rebalance"):
        columns = set(warehouse.schema(name).names)
        warehouse.append(name, rows_to_table(name, [{k: v for k, v in r.items() if k in columns} for r in rows]))
    warehouse.publish({"gold.rebalance": warehouse.version("gold.rebalance") or 0})
    return warehouse


def weighed(warehouse: Warehouse, **how: float) -> FleetWeighed:
    with writing_run(warehouse, engine="local") as context:
        return advise(context, **how)  # type: ignore[arg-type]


def test_each_group_that_stood_still_gets_its_options_the_best_first(tmp_path: Path) -> None:
    warehouse = filled(tmp_path / "w", histories("rolling_deploy", "storm"))
    what = weighed(warehouse)
    assert (what.groups, what.groups_with_cost) == (2, 2)
    assert what.cost_seconds == what.cost_of_all_seconds
    rows = warehouse.query("SELECT * FROM gold.whatif ORDER BY group_id, place").to_pylist()
    assert {row["group_id"] for row in rows} == {"deploy-app", "stormy-app"}
    for group in ("deploy-app", "stormy-app"):
        saved = [row["saved_seconds"] for row in rows if row["group_id"] == group]
        assert saved == sorted(saved, reverse=True)
    # Members that are busy beyond their interval: a longer one ends the storm.
    best = next(row for row in rows if row["group_id"] == "stormy-app")
    assert best["settings"][0].startswith("max.poll.interval.ms=")
    assert best["saved_lower_seconds"] > 0


def test_the_costliest_groups_are_replayed_as_often_as_one_asked_for_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.advise.COSTLIEST", 1)
    groups = histories("rolling_deploy", "storm")
    cost = {rows[0].group_id: sum(r.resource_seconds_estimate or 0.0 for r in rows) for rows in groups}
    costliest = max(cost, key=lambda group: cost[group])
    warehouse = filled(tmp_path / "w", groups)
    weighed(warehouse)
    rows = warehouse.query("SELECT * FROM gold.whatif ORDER BY group_id, place").to_pylist()
    assert {row["runs"] for row in rows if row["group_id"] == costliest} == {RUNS_BY_NAME}
    assert {row["runs"] for row in rows if row["group_id"] != costliest} == {FLEET_RUNS}
    # Its evidence ends at 0 in this warehouse, which has no source.
    history = next(rows for rows in groups if rows[0].group_id == costliest)
    situation = situation_of(history, 0)
    for row in rows:
        if row["group_id"] == costliest:
            option = option_of(situation, row["settings"])
            ends = (option.saved_lower_seconds, option.saved_seconds, option.saved_upper_seconds)
            assert (row["saved_lower_seconds"], row["saved_seconds"], row["saved_upper_seconds"]) == ends


def test_a_group_that_cannot_be_replayed_says_why_and_has_no_numbers(tmp_path: Path) -> None:
    warehouse = filled(tmp_path / "w", histories("kip848_slow_revocation"))
    weighed(warehouse)
    (row,) = warehouse.query("SELECT * FROM gold.whatif").to_pylist()
    assert row["settings"] == []
    assert row["saved_seconds"] is None
    assert row["why"].startswith("Nothing is predicted: replayed under its own settings")


def test_what_the_time_does_not_allow_is_counted_and_the_dearest_come_first(tmp_path: Path) -> None:
    groups = histories("rolling_deploy", "storm")
    cost = {rows[0].group_id: sum(r.resource_seconds_estimate or 0.0 for r in rows) for rows in groups}
    warehouse = filled(tmp_path / "w", groups)
    what = weighed(warehouse, seconds=0.001)
    assert (what.groups, what.groups_with_cost) == (1, 2)
    assert what.cost_seconds == pytest.approx(max(cost.values()))
    (group,) = {row["group_id"] for row in warehouse.query("SELECT group_id FROM gold.whatif").to_pylist()}
    assert cost[group] == max(cost.values())


def test_weighing_again_gives_the_same_rows_and_forgets_what_is_gone(tmp_path: Path) -> None:
    warehouse = filled(tmp_path / "w", histories("rolling_deploy", "storm"))
    weighed(warehouse)
    first = warehouse.query("SELECT * FROM gold.whatif ORDER BY group_id, place").to_pylist()
    weighed(warehouse)
    assert warehouse.query("SELECT * FROM gold.whatif ORDER BY group_id, place").to_pylist() == first
    weighed(warehouse, seconds=0.001)
    assert len({row["group_id"] for row in warehouse.query("SELECT group_id FROM gold.whatif").to_pylist()}) == 1


def test_a_fleet_without_downtime_leaves_an_empty_table_not_a_lost_one(tmp_path: Path) -> None:
    warehouse = filled(tmp_path / "w", [])
    manifest = warehouse.publication()
    assert weighed(warehouse).groups == 0
    assert warehouse.query("SELECT * FROM gold.whatif").num_rows == 0
    # As such a fleet's publication named the table once.
    warehouse.publish({**manifest["versions"], "gold.whatif": 0}, manifest["consumed"])
    assert warehouse.query("SELECT * FROM gold.whatif").num_rows == 0


def test_of_a_long_history_the_latest_rebalances_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("spark_jobs.advise", "rebalance_audit.domain.replay.fleet"):
        monkeypatch.setattr(f"{module}.LATEST_REBALANCES", 5)
    (rows, *_) = groups = histories("storm", "rolling_deploy")
    warehouse = filled(tmp_path / "w", groups)
    weighed(warehouse)
    found = warehouse.query("SELECT * FROM gold.whatif ORDER BY group_id, place").to_pylist()
    assert {row["rebalances_replayed"] for row in found} == {5}
    (first,) = [row for row in found if row["group_id"] == rows[0].group_id and row["place"] == 1]
    (expected, *_) = advice_of(rows, 0)
    assert (first["from_ms"], first["why"]) == (expected.from_ms, expected.why)
