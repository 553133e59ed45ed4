"""The records of some groups are the same rows, whether DuckDB is asked for them or not."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import group_rows
from spark_jobs.commits import group_records
from spark_jobs.group_rows import places_table

EVENTS = "silver.group_event"


def test_few_rows_and_many_show_the_same_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random, warehouse = Random(3), Warehouse.open(tmp_path, create=True)
    for _ in range(3):
        rows = [
            {
                "cluster_id": f"c{random.randrange(2)}", "group_id": f"g{random.randrange(4)}", "ref": f"r{at}",
                "source_kind": random.choice(("record", "log")), "offset": random.randrange(50),
            }
            for at in range(40)
        ]  # fmt: skip
        warehouse.append(EVENTS, rows_to_table(EVENTS, rows))
    groups = places_table([("c0", "g1"), ("c1", "g1"), ("c1", "g3")])
    found = []
    for few_rows, rows_in_memory in ((0, 0), (0, 1_000), (1_000, 1_000)):
        monkeypatch.setattr(group_records, "_FEW_ROWS", few_rows)
        monkeypatch.setattr(group_rows, "_IN_MEMORY_ROWS", rows_in_memory)
        records = group_records.records_of_groups(warehouse, ["group_id", "offset", "cluster_id"], groups)
        assert records.schema.names == ["group_id", "offset", "cluster_id"]
        found.append(sorted(zip(*records.to_pydict().values(), strict=True)))
    assert found[0] == found[1] == found[2] != []
    whole = warehouse.read(EVENTS).to_pylist()
    assert len(found[0]) == sum(
        row["source_kind"] == "record"
        and (row["cluster_id"], row["group_id"]) in {("c0", "g1"), ("c1", "g1"), ("c1", "g3")}
        for row in whole
    )


def test_of_a_long_history_only_rows_that_are_asked_for_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    rows = [{"cluster_id": "c", "group_id": f"g{at % 2}", "ref": f"r{at}", "offset": at} for at in range(100)]
    warehouse.append(EVENTS, rows_to_table(EVENTS, rows))
    monkeypatch.setattr(group_rows, "_IN_MEMORY_ROWS", 99)
    monkeypatch.setattr(group_rows, "chosen_rows", None)
    groups = places_table([("c", "g1"), ("d", "g0")])
    found = group_rows.rows_of_groups(
        warehouse, EVENTS, ["ref"], groups, '"offset" IN (6, 7)', where_columns=["offset"]
    )
    assert found["ref"].to_pylist() == ["r7"]
