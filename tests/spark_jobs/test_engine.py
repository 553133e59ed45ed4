"""Which engine carries a stage, and what running in this process means."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rebalance_audit.commands.options import UsageError, size_bytes
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import PARCEL, LocalEngine, parcel
from spark_jobs.spark_engine import SparkEngine
from spark_jobs.stages.stage import Run
from tests.spark_jobs.synthetic import a_generation, land

OUT = pa.schema([("text", pa.string())])


def refused() -> Any:
    raise AssertionError("Spark was asked for")


def test_small_news_runs_here_and_large_news_in_spark(tmp_path: Path) -> None:
    run = Run(warehouse=Warehouse.open(tmp_path, create=True), open_spark=refused, spark_from_bytes=1_000)
    assert isinstance(run.engine_of(999), LocalEngine)
    with pytest.raises(AssertionError, match="Spark was asked for"):
        run.engine_of(1_000)
    run.engine = "local"
    assert isinstance(run.engine_of(1 << 40), LocalEngine)
    run.engine = "spark"
    with pytest.raises(AssertionError, match="Spark was asked for"):
        run.engine_of(0)


def test_parcels_come_bucket_by_bucket_in_the_order_of_their_slices() -> None:
    def pack(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in (row for some in work for row in some.to_pylist()):
            text = pa.RecordBatch.from_pydict({"text": [f"{row['bucket']}.{row['slice']}"]})
            yield parcel(row["bucket"], row["slice"], "text", text)

    def fold(parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for one in parcels:
            assert one.schema == PARCEL
            yield from pa.ipc.open_stream(one["rows"][0].as_py()).read_all().to_batches()

    work = pa.Table.from_pylist([{"bucket": b, "slice": s} for b, s in ((1, 1), (0, 2), (1, 0), (0, 0))])
    found = LocalEngine().gather(work, pack, fold, OUT, buckets=2)
    assert found["text"].to_pylist() == ["0.0", "0.2", "1.0", "1.1"]
    assert LocalEngine().spread(work.slice(0, 0), lambda batches: iter(()), OUT).num_rows == 0


def test_a_run_over_small_news_loads_neither_spark_nor_great_expectations(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    land(warehouse, "a", [a_generation(1, 1)])
    program = (
        "import sys; from spark_jobs import pipeline; "
        f"pipeline.run({str(tmp_path)!r}); "
        "print(sorted({'pyspark', 'great_expectations', 'py4j'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert warehouse.read("gold.rebalance", ["generation_id"]).to_pylist() == [{"generation_id": 1}]


@pytest.mark.parametrize(("text", "expected"), [("16MB", 16 << 20), ("512k", 512 << 10), ("1 GiB", 1 << 30), ("7", 7)])
def test_sizes_are_read_as_people_write_them(text: str, expected: int) -> None:
    assert size_bytes(text) == expected


def test_a_size_that_is_none_is_refused_with_an_example() -> None:
    with pytest.raises(UsageError, match="write it as 16MB, 512k or 1g"):
        size_bytes("much")


@pytest.mark.spark
@pytest.mark.parametrize(("rows", "tasks"), [(3, 3), (63, 4), (160, 10), (10_000, 32)])
def test_much_work_has_more_tasks_than_run_at_once(rows: int, tasks: int, spark: SparkSession) -> None:
    def told(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = [number for some in work for number in some["number"].to_pylist()]
        yield pa.RecordBatch.from_pydict({"text": [f"{min(numbers)} {len(numbers)}"]})

    engine = SparkEngine(spark)
    assert engine.tasks_at_once == 4
    found = engine.spread(pa.table({"number": list(range(rows))}), told, OUT)
    parts = sorted(tuple(map(int, text.split())) for text in found["text"].to_pylist())
    assert len(parts) == tasks
    assert [first for first, _ in parts] == [sum(count for _, count in parts[:at]) for at in range(tasks)], "neighbours"
    assert max(count for _, count in parts) - min(count for _, count in parts) <= 1


@pytest.mark.spark
def test_rows_of_work_that_are_unlike_come_in_parts_of_about_one_size(spark: SparkSession) -> None:
    def told(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = [name for some in work for row in some.to_pylist() for name in (row["name"], *row["held_in"])]
        yield pa.RecordBatch.from_pydict({"text": [" ".join(names)]})

    engine = SparkEngine(spark)
    assert engine.tasks_at_once == 4
    work = pa.table({"name": ["a", "b", "c", "d", "e"], "held_in": [["x"], [], ["x", "y"], [], ["y"]]})
    found = engine.spread(work, told, OUT, sizes=[1, 1, 1, 1, 60])  # 32 tasks would have 2 each
    assert sorted(found["text"].to_pylist()) == ["a x b", "c x y d", "e y"]
