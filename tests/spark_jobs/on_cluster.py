"""The stages on a Spark standalone cluster whose workers are killed, beside the same in one process.

    python -m tests.spark_jobs.on_cluster [--archive FILE] [CAPTURE…]      by default two (`make cluster-kills`)
    python -m tests.spark_jobs.on_cluster --all                            all golden ones

Workers have nothing in common but the store, which throttles requests and loses answers to writes meanwhile.
`spark-defaults.conf` has speculation on. With an archive of the environment the workers have no Python of this
project, and get it by `spark-submit --files`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from ingest.folders import EvidenceFolder
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.storage import files_at
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from tests.object_store import BUCKET, Busy, ObjectStore
from tests.spark_cluster import ROOT, SparkCluster
from tests.spark_jobs.arrivals import deliver, landed, rows_of

SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"
CAPTURES = ("4.3.0/eager_join_leave_kill", "4.3.0/reassign_moves")
"""Enough for work in every stage."""
DRIVER = Path(__file__).with_name("deadly_driver.py")
DEFAULTS = """
spark.speculation true
spark.speculation.interval 200ms
spark.speculation.multiplier 1.2
spark.speculation.quantile 0.3
spark.speculation.minTaskRuntime 100ms
"""
FAULT_ONE_OF = 25
"""Requests and writes."""
WITHIN_S = 3_600
"""Beside other work each start of a worker takes a minute."""


@dataclass(slots=True, kw_only=True)
class Compared:
    rows: dict[str, int] = field(default_factory=dict)
    """Of each table."""
    different: list[str] = field(default_factory=list)
    """Names of tables that are not equal row for row."""
    killed: list[str] = field(default_factory=list)
    """Stages in the middle of which a worker was killed."""
    deaths: int = 0
    throttled: int = 0
    """Requests to the store."""
    answers_lost: int = 0
    """Of writes that the store had done."""
    took_s: float = 0.0


def compare(
    captures: Sequence[Path | EvidenceFolder], folder: Path, store: ObjectStore, url: str, archive: Path | None = None
) -> Compared:
    """The landing files come twice, so that bronze has something to merge."""
    evidence = landed(captures, folder / "landing")
    alone = Warehouse.open(folder / "alone", create=True)
    remote = Warehouse.open(url, create=True)
    for warehouse in (alone, remote):
        for name in ("all", "again"):
            deliver(warehouse, name, evidence)
    pipeline.run(alone, engine="local", with_quality=False)
    with SparkCluster(folder / "cluster", 2, store.environment(), has_package=archive is None) as cluster:
        store.fault = busy = Busy(FAULT_ONE_OF)
        began = time.monotonic()
        done = submitted(cluster, folder / "driver", url, archive)
        took_s = time.monotonic() - began
        store.fault = None
        time.sleep(2)  # a death of the last moment is counted, too
        found = Compared(deaths=cluster.deaths, throttled=busy.throttled, answers_lost=busy.lost, took_s=took_s)
    if done.returncode != 0:
        raise RuntimeError(f"the driver failed: {done.stdout[-1000:]}\n{done.stderr[-6000:]}")
    found.killed = files_at(f"{url}-kills").names("kills")
    for table in tables.TABLES:
        expected = rows_of(alone, table.name)
        found.rows[table.name] = len(expected)
        if rows_of(remote, table.name) != expected:
            found.different.append(table.name)
    return found


def submitted(cluster: SparkCluster, folder: Path, url: str, archive: Path | None) -> subprocess.CompletedProcess[str]:
    """`spark-submit` in a folder of its own, with a spark-defaults.conf and nothing else said in code."""
    (settings := folder / "conf").mkdir(parents=True)
    (settings / "spark-defaults.conf").write_text(f"spark.master {cluster.master}\n{DEFAULTS}")
    command = [str(SUBMIT), "--conf", f"spark.pyspark.driver.python={sys.executable}"]
    if archive is not None:
        command += ["--files", str(archive), "--conf", f"spark.pyspark.python=./{archive.name}"]
    environment = os.environ | {
        "SPARK_CONF_DIR": str(settings), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT),
        "SPARK_LOCAL_DIRS": str(folder),
    }  # fmt: skip
    environment.pop("SPARK_MASTER", None)
    if archive is None:
        environment["PYSPARK_PYTHON"] = sys.executable
    return subprocess.run(
        [*command, str(DRIVER), url, f"{url}-kills"],
        cwd=folder, capture_output=True, text=True, timeout=WITHIN_S, check=False, env=environment,
    )  # fmt: skip


def main(captures: Sequence[Path], archive: Path | None) -> int:
    from tests.spark_jobs.unions import as_clusters

    with tempfile.TemporaryDirectory(prefix="on-cluster-") as scratch, ObjectStore() as store:
        os.environ |= store.environment()
        found = compare(as_clusters(captures, 1), Path(scratch), store, f"s3://{BUCKET}/all", archive)
    print(f"{len(captures)} captures through spark-submit on two workers over a store, in {found.took_s:.0f} s\n")
    for name, count in found.rows.items():
        print(f"{'DIFFERENT' if name in found.different else 'equal':<10} {count:>8,} rows  {name}")
    print(f"\n{len(found.rows) - len(found.different)} of {len(found.rows)} tables equal row for row")
    print(f"{found.deaths} workers killed, in the middle of {', '.join(found.killed)}")
    print(f"{found.throttled} requests to the store throttled, {found.answers_lost} answers to writes lost")
    return int(bool(found.different))


if __name__ == "__main__":
    from tests import captures

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", type=Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("captures", nargs="*", type=Path)
    given = parser.parse_args()
    named = given.captures or [captures.GOLDEN / name for name in CAPTURES]
    sys.exit(main(captures.CAPTURES if given.all else named, given.archive and given.archive.resolve()))
