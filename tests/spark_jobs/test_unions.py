"""A group's rows do not depend on what else is in the warehouse. All golden captures: `make unions`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ingest.folders import EvidenceFolder
from spark_jobs import parcel_plan
from tests.spark_jobs.unions import RowsByTable, alone, as_clusters, differences, together

pytestmark = pytest.mark.spark

CAPTURES = (
    "4.3.0/eager_join_leave_kill",
    "3.9.1/eager_join_leave_kill",
    "2.7.2/eager_join_leave_kill",
    "4.3.0/rolling_deploy",
    "4.3.0/kip848_join_leave",
    "4.3.0/connect_worker_lost",
    "3.9.1/reassign_moves_zookeeper",
)
COPIES = 6
"""So many that pyarrow 26 returns groups in another order than that of their first appearance."""


@pytest.fixture(scope="module")
def clusters(golden: Path) -> list[EvidenceFolder]:
    return as_clusters([golden / name for name in CAPTURES], COPIES)


@pytest.fixture(scope="module")
def each_alone(clusters: list[EvidenceFolder]) -> list[RowsByTable]:
    return [alone(cluster) for cluster in clusters]


@pytest.mark.parametrize(("order", "bucket_bytes"), [("at once", 1 << 20), ("last first", 32 << 10)])
def test_captures_in_one_warehouse_give_each_group_the_rows_it_gets_alone(
    clusters: list[EvidenceFolder],
    each_alone: list[RowsByTable],
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    order: str,
    bucket_bytes: int,
) -> None:
    monkeypatch.setattr(parcel_plan, "BUCKET_BYTES", bucket_bytes)
    half = len(clusters) // 2
    parts = [clusters] if order == "at once" else [clusters[half:], clusters[:half]]
    assert differences(together(parts, tmp_path, spark), each_alone) == []
