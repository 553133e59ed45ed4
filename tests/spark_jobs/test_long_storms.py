"""Storms over the ends of eras: publishing goes on from the last one, and gold is that of one run over everything."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bench.growing_cluster import GrowingCluster, WrittenRebalance
from ingest.landing import Landing
from rebalance_audit.domain.detect import LimitsOf, eras
from rebalance_audit.domain.incidents import ClusterRows
from rebalance_audit.warehouse import replacing
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import group_rows, loud, pipeline
from spark_jobs.incidents.around import StoredCluster
from spark_jobs.stages import detect, publish
from tests.spark_jobs.arrivals import Landed, by_place, cut, deliver, gold, landed, some_order, together

GROUPS = ("group-000000", "group-000001")
FLUSHES = 9


@pytest.fixture(autouse=True, scope="module")
def _short_eras() -> Iterator[None]:
    """Also: what a run brings of such a group is much."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eras, "ERA_REBALANCES", 7)
        patch.setattr(group_rows, "_ROWS_AT_MOST", 5)
        patch.setattr(replacing, "_ASKED_AT_MOST", 5)
        yield


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """By and by, how many rebalances of each group incidents were made of, and whether its storm went on from an era's
    end."""
    found: list[tuple[int, bool]] = []
    rows = StoredCluster.rows

    def noted(self: StoredCluster, *args: Any, storms: Any, **more: Any) -> ClusterRows:
        known = rows(self, *args, storms=storms, **more)
        found.extend((len(rebalances), group_id in storms) for group_id, rebalances in known.groups.items())
        return known

    monkeypatch.setattr(StoredCluster, "rows", noted)
    return found


LIMITS = LimitsOf(({"storm_short_count": 3},))


def run(warehouse: Warehouse, limits: LimitsOf = LIMITS, **more: Any) -> None:
    pipeline.run(warehouse, engine="local", with_quality=False, settings={"limits": limits}, **more)


@pytest.fixture(scope="module", params=[False, True], ids=["they leave", "they fail"])
def flushes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Landed]:
    """One group in a storm of ninety rebalances and another with a few, in nine flushes."""
    cluster = GrowingCluster(groups=2, seed=3, share_of_one=0.9, apart_ms=5_000)
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WrittenRebalance, "of", partial(WrittenRebalance.of, by_failure=request.param))
        for at in range(FLUSHES):
            scratch = tmp_path_factory.mktemp(f"flush-{at}")
            Warehouse.open(scratch, create=True)
            cluster.land(Landing(scratch), 12)
            found.append(landed([], scratch))
    return found


@pytest.fixture(scope="module")
def expected(flushes: list[Landed], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    warehouse = Warehouse.open(tmp_path_factory.mktemp("at_once"), create=True)
    deliver(warehouse, "all", together(flushes))
    run(warehouse)
    storms = warehouse.read("gold.incident", None, "kind = 'storm'").to_pylist()
    assert sorted(len(storm["rebalance_ids"]) for storm in storms) == [12, 96]
    return gold(warehouse)


def test_a_storm_is_published_from_the_end_of_an_era_on(
    flushes: list[Landed], expected: dict[str, list[str]], tmp_path: Path, read: list[tuple[int, bool]]
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, flush in enumerate(flushes):
        deliver(warehouse, f"flush-{at}", flush)
        read.clear()
        run(warehouse)
        if at > 2:
            assert all(count < 30 for count, _ in read), read
            assert any(goes_on for _, goes_on in read)
    assert gold(warehouse) == expected


@pytest.mark.parametrize("seed", range(3))
def test_any_order_repeat_crash_and_lost_note_give_the_incidents_of_all_at_once(
    flushes: list[Landed], expected: dict[str, list[str]], tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    monkeypatch.setattr(loud, "loud_ids", lambda files: frozenset(GROUPS))
    for module in (detect, publish):  # at each look others wait
        monkeypatch.setattr(module, "loud_ids", lambda files: frozenset(g for g in GROUPS if draw.random() < 0.4))
    order = some_order(draw, len(flushes), swaps=bool(seed))
    warehouse = Warehouse.open(tmp_path, create=True)
    died: list[str] = []

    def die(point: str) -> None:
        if point in ("silver.judged_era", "silver.finding", "gold.incident", "gold.group") and draw.random() < 0.3:
            died.append(point)
            raise KeyboardInterrupt(point)

    for number in order:
        deliver(warehouse, f"flush-{number}", flushes[number])
        with contextlib.suppress(KeyboardInterrupt):
            run(warehouse, may_wait=draw.random() < 0.5, reached=die)
        for note in ("detect", "publish"):
            if draw.random() < 0.2:
                warehouse.forget(note)
    assert died
    for module in (detect, publish):
        monkeypatch.setattr(module, "loud_ids", lambda files: frozenset())
    run(warehouse)
    run(warehouse)  # where a batch of detect was repeated
    assert gold(warehouse) == expected


def test_lines_that_come_late_and_other_limits_give_the_same(
    flushes: list[Landed], expected: dict[str, list[str]], tmp_path: Path
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    late = by_place(together(flushes))
    for at in (0, 1):
        deliver(warehouse, f"records-{at}", {noun: cut(late[noun], 2)[at] for noun in ("record", "source")})
        run(warehouse, LimitsOf(({"storm_short_count": 2, "quiet_ms": 60_000},)))
    deliver(warehouse, "lines", {"log_line": late["log_line"]})
    run(warehouse)
    assert gold(warehouse) == expected


def test_run_again_gives_the_same(flushes: list[Landed], expected: dict[str, list[str]], tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, flush in enumerate(flushes):
        deliver(warehouse, f"flush-{at}", flush)
        run(warehouse)
    run(warehouse, again=True)
    assert gold(warehouse) == expected
