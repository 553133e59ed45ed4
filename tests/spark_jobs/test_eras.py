"""Long histories are judged from the era of the news on, and the tables are those of judging everything at once."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit.domain.detect import LimitsOf, eras, judged_eras
from rebalance_audit.domain.publish.groups import group_row
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import eras as of_warehouse
from spark_jobs import group_overviews, loud, pipeline
from spark_jobs.ended_eras import ended_eras, sums_before
from spark_jobs.stages import detect, publish
from tests.spark_jobs.arrivals import Landed, by_place, deliver, gold, landed, rows_of, some_order, together

GOLDEN = ("4.3.0/kip848_join_leave", "4.3.0/connect_worker_lost")
STAGES = ("bronze", "decode", "reconstruct", "reassign", "detect")
GROUPS = ("group-000000", "group-000001")


@pytest.fixture(autouse=True, scope="module")
def _short_eras() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eras, "ERA_REBALANCES", 7)
        patch.setattr(of_warehouse, "AT_ONCE", 2)
        yield


def run(warehouse: Warehouse, **more: Any) -> pipeline.RunOutcome:
    return pipeline.run(warehouse, engine="local", with_quality=False, **{"stages": STAGES, **more})


@pytest.fixture(scope="module")
def flushes(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Landed]:
    """Two groups with some thirty rebalances each, in six flushes, and two captures in the first."""
    cluster, found = GrowingCluster(groups=2, seed=3), []
    for at in range(6):
        scratch = tmp_path_factory.mktemp(f"flush-{at}")
        Warehouse.open(scratch, create=True)
        cluster.land(Landing(scratch), 10)
        found.append(landed([golden / name for name in GOLDEN] if at == 0 else [], scratch))
    return found


@pytest.fixture(scope="module")
def expected(flushes: list[Landed], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Of all eras of a group judged together."""
    warehouse = Warehouse.open(tmp_path_factory.mktemp("at_once"), create=True)
    deliver(warehouse, "all", together(flushes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(of_warehouse, "AT_ONCE", 1_000)
        return everything_of(warehouse)


def everything_of(warehouse: Warehouse) -> dict[str, list[str]]:
    run(warehouse, stages=None)
    return gold(warehouse) | {table: rows_of(warehouse, table) for table in ("silver.finding", "silver.judged_era")}


def judged_from(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """By and by, where the judging of each long group began."""
    places: list[int] = []

    def noted(rebalances: Any, *args: Any, first_place: int, **more: Any) -> Any:
        places.append(first_place)
        return judged_eras(rebalances, *args, first_place=first_place, **more)

    monkeypatch.setattr(detect, "judged_eras", noted)
    return places


def test_news_is_judged_from_its_era_on(
    flushes: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = judged_from(monkeypatch)
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, flush in enumerate(flushes):
        deliver(warehouse, f"flush-{at}", flush)
        places.clear()
        run(warehouse)
    assert min(places) >= 14, places
    assert everything_of(warehouse) == expected
    judged = warehouse.read("silver.judged_era", ["group_id"])["group_id"].to_pylist()
    assert set(judged) >= set(GROUPS)
    assert not any("connect" in group_id for group_id in judged)
    assert len(warehouse.read("silver.finding", None, "era > 1")) > 0
    places.clear()
    assert run(warehouse).ms_by_stage == {}


def test_places_are_looked_for_from_the_last_ended_era_on(
    flushes: list[Landed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    floors: list[dict[tuple[str, str], int]] = []
    last_places = of_warehouse._last_places

    def noted(context: Any, batch: Any, of_groups: dict[tuple[str, str], int]) -> Any:
        found = last_places(context, batch, of_groups)
        if {*of_groups.values()} <= {7, 1_000}:
            return found
        floors.append(of_groups)
        shorter = dict.fromkeys(of_groups, 1_000)  # more than there are by now
        assert last_places(context, batch, dict.fromkeys(of_groups, 7)) == found == last_places(context, batch, shorter)
        return found

    monkeypatch.setattr(of_warehouse, "_last_places", noted)
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, flush in enumerate(flushes):
        deliver(warehouse, f"flush-{at}", flush)
        run(warehouse)
    assert min(at for (_, group_id), at in floors[-1].items() if group_id in GROUPS) >= 14


@pytest.mark.parametrize("seed", range(2))
def test_any_order_repeat_crash_and_lost_note_give_the_tables_of_all_at_once(
    flushes: list[Landed],
    expected: dict[str, list[str]],
    tmp_path: Path,
    seed: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = random.Random(seed)
    for module in (loud, detect, publish):  # at each look others wait
        monkeypatch.setattr(module, "loud_ids", lambda files: frozenset(g for g in GROUPS if draw.random() < 0.4))
    monkeypatch.setattr(detect, "LEFT_AT_MOST", 6)
    order = some_order(draw, len(flushes), swaps=bool(seed))
    warehouse = Warehouse.open(tmp_path, create=True)
    died: list[str] = []

    def die(point: str) -> None:
        if point in ("silver.judged_era", "silver.finding") and draw.random() < 0.5:
            died.append(point)
            raise KeyboardInterrupt(point)

    for number in order:
        deliver(warehouse, f"flush-{number}", flushes[number])
        with contextlib.suppress(KeyboardInterrupt):
            run(warehouse, may_wait=draw.random() < 0.5, reached=die)
        if draw.random() < 0.3:
            warehouse.forget("detect")
    assert died
    for module in (loud, detect, publish):
        monkeypatch.setattr(module, "loud_ids", lambda files: frozenset())
    assert everything_of(warehouse) == expected


def loud_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (loud, detect, publish):
        monkeypatch.setattr(module, "loud_ids", lambda files: frozenset(GROUPS))


def test_a_group_that_was_left_for_many_rounds_is_judged_from_its_news_on(
    flushes: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = judged_from(monkeypatch)
    loud_groups(monkeypatch)
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, flush in enumerate(flushes):
        deliver(warehouse, f"flush-{at}", flush)
        run(warehouse, may_wait=at > 2)
    places.clear()
    run(warehouse)
    assert min(places) >= 7, places
    assert len(places) == len(set(places)) * len(GROUPS), "no era was judged twice"
    assert everything_of(warehouse) == expected


def test_a_group_of_which_much_was_left_is_judged_in_a_round_that_may_wait(
    flushes: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loud_groups(monkeypatch)
    monkeypatch.setattr(detect, "LEFT_AT_MOST", 8)
    warehouse = Warehouse.open(tmp_path, create=True)
    complete = []
    for at, flush in enumerate(flushes):
        deliver(warehouse, f"flush-{at}", flush)
        complete.append(run(warehouse, stages=None, may_wait=True).is_complete)
    assert not all(complete)
    assert warehouse.read("silver.finding", None, "era > 1").num_rows
    assert warehouse.read("gold.incident").num_rows
    assert everything_of(warehouse) == expected


def test_lines_that_come_late_are_judged_from_their_era_on(
    flushes: list[Landed], expected: dict[str, list[str]], tmp_path: Path
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    late = by_place(together(flushes))
    deliver(warehouse, "records", {noun: late[noun] for noun in ("record", "source")})
    run(warehouse)
    deliver(warehouse, "lines", {"log_line": late["log_line"]})
    run(warehouse)
    assert everything_of(warehouse) == expected


def test_a_group_is_summed_up_from_its_ended_eras_on(
    flushes: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: dict[str, int] = {}

    def noted(rebalances: Any, *args: Any, before: Any, **more: Any) -> Any:
        read[rebalances[0].group_id] = len(rebalances)
        return group_row(rebalances, *args, before=before, **more)

    monkeypatch.setattr(group_overviews, "group_row", noted)
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, flush in enumerate(flushes):
        deliver(warehouse, f"flush-{at}", flush)
        read.clear()
        run(warehouse, stages=None)
    assert everything_of(warehouse) == expected
    assert all(read[group_id] <= 7 for group_id in GROUPS)


def _versions(warehouse: Warehouse) -> dict[str, int]:
    version = warehouse.version("silver.measured_rebalance")
    assert version is not None
    return {"silver.measured_rebalance": version}


def test_what_retention_deleted_is_in_no_sum(flushes: list[Landed], tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    deliver(warehouse, "all", together(flushes))
    run(warehouse)
    versions = _versions(warehouse)
    [[cluster_id]] = [{row["cluster_id"] for row in warehouse.read("silver.judged_era").to_pylist()}]
    places = [(cluster_id, group_id) for group_id in GROUPS]
    ended = ended_eras(warehouse, versions, LimitsOf(), places, ["sums"])
    assert set(ended) == set(places)
    whole = sums_before(warehouse, versions, ended)
    assert all(sum(s.row_count for s in of.sums) == of.first_place for of in whole.values())
    warehouse.rewrite("silver.measured_rebalance", "group_id = ? AND place < 9", [GROUPS[0]])
    versions = _versions(warehouse)
    assert ended_eras(warehouse, versions, LimitsOf(), places, ["sums"]) == {}  # until rules have looked at it
    less = sums_before(warehouse, versions, ended)
    first, second = places
    assert sum(s.row_count for s in less[first].sums) == less[first].first_place - 9
    assert less[second] == whole[second]


def test_what_other_limits_or_another_judge_carried_is_judged_again(
    flushes: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a crash falls between the commits."""
    places = judged_from(monkeypatch)
    warehouse = Warehouse.open(tmp_path, create=True)
    others = {"limits": LimitsOf(({"storm_short_count": 2, "quiet_ms": 60_000},))}
    for at, flush in enumerate(flushes[:4]):
        deliver(warehouse, f"flush-{at}", flush)
        run(warehouse, settings=others)
    deliver(warehouse, "others", together(flushes[4:]))
    places.clear()

    def die(point: str) -> None:
        if point == "silver.judged_era":
            raise KeyboardInterrupt(point)

    with pytest.raises(KeyboardInterrupt):
        run(warehouse, reached=die)
    run(warehouse)
    assert places == 2 * [0, 0, 14, 14, 28], "some eras after the others, in order; once again after the crash"
    assert everything_of(warehouse) == expected
