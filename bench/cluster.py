"""First runs over a fleet on a standalone cluster of two workers with a core each, beside `local[2]`, in turns.

    python -m bench.cluster [--sizes 20000 60000] [--times 2] [--store] [--conf spark.x=y]

The evidence is imported once (bench.fleet), and each run begins with a copy of it. Master and workers are there before
the clock starts; executors and their Python are started by the run, and count. The cluster's driver has the settings of
infra/spark/spark-defaults.conf; `--conf spark.executor.defaultJavaOptions=` takes one away. With `--store` the copies
are in an S3 server, whose own CPU seconds are nobody's. At the end stands the table of sizes, the least of each.
Exits with 1 if a table differs, by count and hash.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import obstore

from bench.scale import Watched, fleet
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.object_store import bucket
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.object_store import BUCKET
from tests.spark_cluster import ROOT, SparkCluster

LOCAL, CLUSTER = "local[2]", "cluster"
DEFAULTS = ROOT / "infra" / "spark" / "spark-defaults.conf"
Tables = dict[str, tuple[int, int]]
"""(rows, hash of all of them in any order) by table."""


class FirstRun(NamedTuple):
    wall_s: float
    cpu_s: float
    mb: float
    stages: dict[str, float]
    tables: Tables


@contextmanager
def a_store() -> Iterator[None]:
    """A process of its own, so that it does not serve in turns with what this one does."""
    command = [sys.executable, "-m", "tests.object_store"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        os.environ |= json.loads(process.stdout.readline())
        try:
            yield
        finally:
            process.terminate()


def copied(evidence: Path, location: str) -> None:
    if "://" not in location:
        shutil.copytree(evidence, location)
        return
    to, inside = bucket(location)
    for file in evidence.rglob("*"):
        if file.is_file():
            obstore.put(to, f"{inside}/{file.relative_to(evidence)}", file)


def ran(location: str, master: str, scratch: Path, cluster: SparkCluster | None, conf: Sequence[str]) -> FirstRun:
    """`run` as a process of its own, with all below it, and what master and workers started for it."""
    scratch.mkdir()
    own = "".join(f"{line.replace('=', ' ', 1)}\n" for line in conf)
    (scratch / "spark-defaults.conf").write_text(DEFAULTS.read_text() + own)  # of two lines the later one holds
    environment = os.environ | {"SPARK_MASTER": master, "SPARK_LOCAL_IP": "127.0.0.1"}
    if cluster is not None:
        environment |= {
            "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_DIRS": str(scratch),
            "SPARK_CONF_DIR": str(scratch),
        }  # fmt: skip
    command = [sys.executable, "-m", "rebalance_audit.cli", "run", "-w", location, "-q", "--engine", "spark"]
    daemons = [Watched(pid) for pid in cluster.pids] if cluster is not None else []
    before = sum(each.spent_so_far() for each in daemons)
    began = time.monotonic()
    process = subprocess.Popen(command, env=environment, cwd=ROOT)
    watched = [Watched(process.pid), *daemons]
    for each in watched:
        each.start()
    status = process.wait()
    wall_s = time.monotonic() - began
    for each in watched:
        each.is_over.set()
        each.join()
    if status != 0:
        raise SystemExit(f"the run on {master} failed")
    noted = Warehouse.open(location).recall("last_run") or {}
    stages = {stage: ms / 1000 for stage, ms in noted["ms_by_stage"].items()}
    cpu_s = sum(each.cpu_s for each in watched) - before
    return FirstRun(wall_s, cpu_s, sum(each.mb for each in watched), stages, hashed(location))


def hashed(location: str) -> Tables:
    warehouse, found = Warehouse.open(location), {}
    for table in tables.TABLES:
        columns = ", ".join(f'"{column.name}"' for column in table.columns)
        [row] = warehouse.query(
            f"SELECT count(*) n, coalesce(sum(hash(r)), 0)::VARCHAR h FROM (SELECT row({columns}) r FROM {table.name})"
        ).to_pylist()
        found[table.name] = (int(row["n"]), int(row["h"]))
    return found


def compared(size: int, given: argparse.Namespace, folder: Path) -> tuple[bool, str]:
    """Prints what each run took; whether all tables were equal, and the size's row of the table of sizes."""
    evidence = folder / f"evidence-{size}"
    Warehouse.open(evidence, create=True)
    fleet(size, str(evidence))
    took: dict[str, list[FirstRun]] = {LOCAL: [], CLUSTER: []}
    for turn in range(given.times):
        for where in (LOCAL, CLUSTER):
            name = f"{size}-{where[:5]}-{turn}"
            location = f"s3://{BUCKET}/{name}" if given.store else str(folder / name)
            copied(evidence, location)
            on = SparkCluster(folder / f"spark-{name}", 2, dict(os.environ)) if where == CLUSTER else nullcontext()
            with on as cluster:
                master = cluster.master if cluster is not None else LOCAL
                took[where].append(ran(location, master, folder / f"scratch-{name}", cluster, given.conf))
            last = took[where][-1]
            stages = ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in last.stages.items())
            print(
                f"{where:9} {last.tables['gold.rebalance'][0]:,} rebalances: {last.wall_s:.1f} s, {last.cpu_s:.1f} "
                f"CPU s, {last.mb:.0f} MB at most; load {os.getloadavg()[0]:.0f}; {stages}", flush=True,
            )  # fmt: skip
            if not given.store:
                shutil.rmtree(folder / name)
    columns = [f"{took[LOCAL][0].tables['gold.rebalance'][0]:,}"]
    for what in ("wall_s", "cpu_s"):
        local, cluster_ = (min(getattr(each, what) for each in took[where]) for where in (LOCAL, CLUSTER))
        columns += [f"{local:.1f}, {cluster_:.1f}", f"{cluster_ / local:.2f} x"]
    expected = took[LOCAL][0].tables
    runs = [run for of_engine in took.values() for run in of_engine]
    different = [name for name in expected if any(run.tables[name] != expected[name] for run in runs)]
    print(f"{len(expected) - len(different)} of {len(expected)} tables equal {different or ''}", flush=True)
    columns += [f"{len(expected) - len(different)} of {len(expected)}", f"{os.getloadavg()[0]:.0f}"]
    return not different, f"| {' | '.join(columns)} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[20_000, 60_000])
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--store", action="store_true", help="the warehouse in an S3 server")
    parser.add_argument("--conf", action="append", default=[], help="for spark-defaults.conf of the cluster's driver")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-cluster-") as folder, a_store() if given.store else nullcontext():
        found = [compared(size, given, Path(folder)) for size in given.sizes]
    print("\n| rebalances | wall s: local, cluster | | CPU s: local, cluster | | tables equal | load |")
    print("| ---: | --- | ---: | --- | ---: | --- | ---: |")
    print("\n".join(row for _, row in found))
    return int(not all(are_equal for are_equal, _ in found))


if __name__ == "__main__":
    sys.exit(main())
