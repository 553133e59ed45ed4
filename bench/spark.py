"""The pipeline's throughput, stage by stage: from landing files to decoded and aggregated commits and on to gold.

    python -m bench.spark [--commits 10000000] [--no-checks] [--stages bronze decode]

Nothing is read but what is made here: the commits of bench.commit_records in fifty partitions, with new generations of
their groups in between. CPU time is that of all processes of the run: this one, the JVM and Spark's Python workers.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import commit_records
from ingest.landing import Landing
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.commits import kernel as commit_kernel
from spark_jobs.plan import BY_NAME
from spark_jobs.session import open_session
from tests.encoders import (
    classic_member,
    consumer_assignment,
    consumer_subscription,
    group_metadata_key,
    group_metadata_value,
)

OFFSETS_TOPIC, PARTITIONS = "__consumer_offsets", 50
GENERATIONS = 5
BASE_MS = 1_795_000_000_000
CORES = 2


def generation(group: str, number: int) -> tuple[bytes, bytes]:
    members = [
        classic_member(
            f"m{m}", subscription=consumer_subscription(["events"]),
            assignment=consumer_assignment({"events": [p for p in range(4) if (p + number) % 2 == m]}),
        )
        for m in range(2)
    ]  # fmt: skip
    at_ms = BASE_MS + number * 60_000
    value = group_metadata_value(number, members, protocol="range", leader="m0", current_state_timestamp=at_ms)
    return group_metadata_key(group), value


class PartitionRun:
    """All records of one partition: the commits of its groups, and each group's new generation before every part."""

    topic, source, node = OFFSETS_TOPIC, "segment", None

    def __init__(self, partition: int, groups: list[str], keys: pa.Array, values: pa.Array) -> None:
        self.partition = partition
        key_parts, value_parts = [], []
        rows = -(-len(keys) // GENERATIONS)
        for number in range(GENERATIONS):
            records = [generation(group, number + 1) for group in groups]
            key_parts += [pa.array([key for key, _ in records], pa.binary()), keys.slice(number * rows, rows)]
            value_parts += [pa.array([value for _, value in records], pa.binary()), values.slice(number * rows, rows)]
        offset = pa.array(np.arange(len(keys) + GENERATIONS * len(groups)))
        self.columns = {
            "offset": pa.chunked_array([offset]),
            "timestamp_ms": pa.chunked_array([pc.add(offset, BASE_MS)]),
            "key": pa.chunked_array(key_parts),
            "value": pa.chunked_array(value_parts),
        }


def land(warehouse: Warehouse, commit_count: int) -> int:
    """A landing file per partition, as the collector writes them. How many records."""
    arrow, _ = commit_records.files(commit_count)
    table = pa.ipc.open_file(pa.memory_map(str(arrow))).read_all().slice(0, commit_count)
    codes = table["key"].combine_chunks().dictionary_encode()
    names = commit_kernel.decode_commits(codes.dictionary, pa.nulls(len(codes.dictionary), pa.binary())).keys.group
    groups = sorted(set(names.to_pylist()))
    partition_of = {group: number % PARTITIONS for number, group in enumerate(groups)}
    partition = np.array([partition_of[name] for name in names.to_pylist()])[codes.indices.to_numpy()]
    landing, written = Landing(warehouse.location), 0
    for number in range(PARTITIONS):
        part = table.filter(pa.array(partition == number))
        own = [group for group in groups if partition_of[group] == number]
        run = PartitionRun(number, own, part["key"].combine_chunks(), part["value"].combine_chunks())
        written += landing.write_records(f"bench-{number:03}", "bench", [run])
    return written


def _has_children() -> bool:
    for children in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            if children.read_text():
                return True
    return False


def cpu_seconds() -> float:
    """CPU seconds of this process and all its children, ended ones included. To look at all processes takes 5 ms, which
    would be counted, too: that is not done while there is no child."""
    if not _has_children():
        spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(of_some.ru_utime + of_some.ru_stime for of_some in spent)
    ticks, ours = 0, {os.getpid()}
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            stats[int(path.parent.name)] = (int(words[1]), sum(map(int, words[11:15])))
    while grown := {pid for pid, (parent, _) in stats.items() if parent in ours} - ours:
        ours |= grown
    ticks = sum(stats[pid][1] for pid in ours if pid in stats)
    return ticks / os.sysconf("SC_CLK_TCK")


class Stopwatch:
    """Wall and CPU seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, tuple[float, float]] = {}
        self._started = 0.0, 0.0

    def note(self, stage: str, what: str) -> None:
        now = time.perf_counter(), cpu_seconds()
        if what == "started":
            self._started = now
        else:
            self.seconds[stage] = now[0] - self._started[0], now[1] - self._started[1]


def main(commit_count: int, stages: list[str], *, with_checks: bool) -> None:
    spark = open_session()
    spark.range(10).mapInArrow(lambda batches: batches, "id long").count()  # starting is not what is measured
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        warehouse = Warehouse.open(folder, create=True)
        count = land(warehouse, commit_count)
        watch = Stopwatch()
        outcome = pipeline.run(warehouse, stages, watch.note, spark=spark, with_quality=with_checks)
        nothing = time.perf_counter()
        pipeline.run(warehouse, stages, spark=spark, with_quality=with_checks)
        nothing = time.perf_counter() - nothing
    spark.stop()
    rows: list[tuple[Any, ...]] = [(stage, *seconds) for stage, seconds in watch.seconds.items()]
    aggregated = rows[:2]  # bronze and decode: from landing files to commit marks
    rows.insert(2, ("**bronze → commit marks**", *map(sum, zip(*(row[1:] for row in aggregated), strict=True))))
    rows.append(("all stages", *map(sum, zip(*watch.seconds.values(), strict=True))))
    print(f"{count:,} records, {outcome.rows_written.get('gold.rebalance', 0):,} rebalances, {CORES} cores, "
          f"checks {'on' if with_checks else 'off'}\n")  # fmt: skip
    print("| stage | wall s | CPU s | records/s of wall time | records/s of CPU time, times the cores |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, wall, cpu in rows:
        print(f"| {name} | {wall:.1f} | {cpu:.1f} | {count / wall:,.0f} | {CORES * count / max(cpu, 0.01):,.0f} |")
    print(f"\nA run with nothing new took {nothing:.1f} s.")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--commits", type=int, default=10_000_000)
    options.add_argument("--no-checks", action="store_true", help="without the data-quality suites")
    options.add_argument("--stages", nargs="+", default=list(BY_NAME), help="bronze and decode at least")
    given = options.parse_args()
    main(given.commits, given.stages, with_checks=not given.no_checks)
