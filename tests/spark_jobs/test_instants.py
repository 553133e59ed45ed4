"""When rebalances were, asked of files that hold rows of several clusters."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from spark_jobs.instants import groups_within

REBALANCES = "silver.measured_rebalance"


def test_each_cluster_is_asked_within_its_own_bounds(tmp_path: Path) -> None:
    ended = [
        ("a", "at the first instant", 100),
        ("a", "within", 101),
        ("a", "at the last instant", 200),
        ("a", "behind", 201),
        ("a", "never", None),
        ("b", "within", 101),
        ("b", "later", 900),
        ("not asked", "within", 101),
    ]
    rows = [
        {"cluster_id": cluster_id, "group_id": group_id, "rebalance_id": f"{cluster_id}/{group_id}", "ended_at_ms": at}
        for cluster_id, group_id, at in ended
    ]
    files = []
    for at, part in enumerate((rows[::2], rows[1::2])):
        files.append(str(tmp_path / f"{at}.parquet"))
        pq.write_table(rows_to_table(REBALANCES, part), files[-1])
    found = groups_within(files, {"a": (100, 200), "b": (800, 900)})
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [
        ("a", "at the last instant"), ("a", "within"), ("b", "later"),
    ]  # fmt: skip
    assert groups_within([], {"a": (100, 200)}).num_rows == 0
