"""The stages on a Spark cluster whose workers have only the store in common write what one process writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_audit import cli
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.spark_engine import WorkerError, collected
from tests.object_store import ObjectStore
from tests.spark_cluster import ROOT, SparkCluster
from tests.spark_jobs.arrivals import deliver, landed, rows_of
from tests.spark_jobs.on_cluster import CAPTURES

READERS = (["report", "-o", "json"], ["check", "-o", "json"], ["export", "rebalance", "-o", "jsonl"])


@pytest.mark.spark
def test_the_tables_are_those_of_one_process(
    object_store: ObjectStore, store_url: str, golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evidence = landed([golden / name for name in CAPTURES], tmp_path / "landing")
    alone = Warehouse.open(tmp_path / "w", create=True)
    deliver(alone, "all", evidence)
    pipeline.run(alone, engine="local")
    deliver(Warehouse.open(store_url, create=True), "all", evidence)
    with SparkCluster(tmp_path / "cluster", 2, object_store.environment()) as cluster:
        driver = tmp_path / "driver"
        driver.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "rebalance_audit.cli", "run", "-w", store_url, "--engine", "spark"],
            cwd=driver, capture_output=True, text=True, timeout=420, check=False,
            env=os.environ | {
                "SPARK_MASTER": cluster.master, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT),
                "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_DIRS": str(driver),
            },
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    on_cluster = Warehouse.open(store_url)
    for table in tables.TABLES:
        assert rows_of(on_cluster, table.name) == rows_of(alone, table.name), table.name
    rebalances = len(rows_of(alone, "gold.rebalance"))
    assert rebalances
    for verb, *options in READERS:
        answers = []
        for location in (str(tmp_path / "w"), store_url):
            status = cli.run([verb, "-w", location, "-q", *options])
            answers.append((status, capsys.readouterr().out))
        assert answers[0] == answers[1], verb
    with capsys.disabled():
        print(f"\n{len(tables.TABLES)} of {len(tables.TABLES)} tables equal row for row, {rebalances} rebalances")


class WithoutOurPython:
    """A frame whose workers are started with another Python, and what Spark 4.2.1 standalone said then."""

    def toArrow(self) -> None:
        raise RuntimeError(
            "Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times\nError from python worker:\n"
            "  /usr/bin/python3: Error while finding module specification for 'spark_jobs.worker_daemon' "
            "(ModuleNotFoundError: No module named 'spark_jobs')\nPYTHONPATH was: /opt/spark/python"
        )


def test_a_worker_without_the_right_python_is_one_sentence() -> None:
    with pytest.raises(WorkerError, match=r"lack the Python .* \(No module named 'spark_jobs'\); give them"):
        collected(WithoutOurPython())
