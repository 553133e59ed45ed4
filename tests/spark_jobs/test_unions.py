"""A group's rows do not depend on what else is in the warehouse. All golden captures: `make unions`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_jobs import parcels
from tests.spark_jobs.unions import Told, alone, differences, together

pytestmark = pytest.mark.spark

CAPTURES = (
    "4.3.0/eager_join_leave_kill",
    "3.9.1/eager_join_leave_kill",
    "2.7.2/eager_join_leave_kill",
    "4.3.0/rolling_deploy",
    "4.3.0/storm",
    "4.3.0/kip848_join_leave",
    "4.3.0/connect_worker_lost",
    "3.9.1/reassign_moves_zookeeper",
    "4.3.0/reassign_moves",
)


@pytest.fixture(scope="module")
def captures(golden: Path) -> list[Path]:
    return [golden / name for name in CAPTURES]


@pytest.fixture(scope="module")
def each_alone(captures: list[Path]) -> dict[Path, Told]:
    return {capture: alone(capture) for capture in captures}


@pytest.mark.parametrize(("order", "bucket_bytes"), [("at once", 1 << 20), ("last first", 32 << 10)])
def test_captures_in_one_warehouse_give_each_group_the_rows_it_gets_alone(
    captures: list[Path],
    each_alone: dict[Path, Told],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    bucket_bytes: int,
) -> None:
    monkeypatch.setattr(parcels, "BUCKET_BYTES", bucket_bytes)
    parts = [captures] if order == "at once" else [captures[5:], captures[:5]]
    assert differences(captures, together(parts, tmp_path, spark), each_alone) == []
