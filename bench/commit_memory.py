"""Memory and time of first runs over evidence that is nearly all commits, each three times the one before.

    python -m bench.commit_memory [--sizes 1000000 3000000 10000000] [--engine spark]

Two thousand groups with twenty partitions each commit all the time, and have a new generation twice. Their records are
real bytes, landed in files of half a million, as a collector lands them that catches up. `run` is a process of its own:
the driver is that process without its JVM.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.growing_cluster import BASE_MS, OFFSETS_PARTITIONS, FlushedRun
from bench.scale import Watched
from bench.spark import generation
from ingest.landing import Landing
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.encoders import offset_commit_key, offset_commit_value

GROUPS, PARTITIONS_OF_A_GROUP, GENERATIONS = 2_000, 20, 2
RECORDS_OF_A_FILE = 500_000
PER_MS = 100
"""Commits of the cluster: 100,000 a second."""
Bytes = npt.NDArray[np.uint8]


def name(group: int) -> str:
    return f"group-{group:05d}"


def keys() -> Bytes:
    """The keys of all groups' partitions, one a row: they are of one length."""
    found = [
        offset_commit_key(name(group), f"orders-{group:05d}", partition)
        for group in range(GROUPS)
        for partition in range(PARTITIONS_OF_A_GROUP)
    ]
    return np.frombuffer(b"".join(found), np.uint8).reshape(len(found), -1)


def as_binary(rows: Bytes) -> pa.ChunkedArray:
    ends = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1])
    buffers = [None, ends.buffers()[1], pa.py_buffer(rows)]
    return pa.chunked_array([pa.Array.from_buffers(pa.binary(), len(rows), buffers)])


def land(commits: int, location: str) -> None:
    """The commits of group g are in partition g modulo fifty."""
    random, landing, of_group = np.random.default_rng(1), Landing(location), keys()
    template = np.frombuffer(offset_commit_value(0, at_ms=0), np.uint8)
    next_offset = [0] * OFFSETS_PARTITIONS
    begins = [commits * number // GENERATIONS for number in range(GENERATIONS)]
    for done in range(0, commits, RECORDS_OF_A_FILE):
        count = min(RECORDS_OF_A_FILE, commits - done)
        numbers = done + np.arange(count)
        which = random.integers(0, len(of_group), count)
        partitions = which // PARTITIONS_OF_A_GROUP % OFFSETS_PARTITIONS
        born = [number for number, begin in enumerate(begins) if done <= begin < done + count]
        runs = []
        for partition in range(OFFSETS_PARTITIONS):
            mine = np.flatnonzero(partitions == partition)
            at_ms = BASE_MS + numbers[mine] // PER_MS
            values = np.tile(template, (len(mine), 1))
            values[:, 2:10] = numbers[mine].astype(">i8").view(np.uint8).reshape(-1, 8)
            values[:, -8:] = at_ms.astype(">i8").view(np.uint8).reshape(-1, 8)
            records = [
                (generation(name(group), number + 1), BASE_MS + begins[number] // PER_MS)
                for number in born
                for group in range(partition, GROUPS, OFFSETS_PARTITIONS)
            ]
            key_parts = as_binary(of_group[which[mine]]).chunks
            value_parts = as_binary(values).chunks
            if records:
                key_parts.insert(0, pa.array([key for (key, _), _ in records], pa.binary()))
                value_parts.insert(0, pa.array([value for (_, value), _ in records], pa.binary()))
                at_ms = np.concatenate([[at for _, at in records], at_ms])
            offsets = next_offset[partition] + np.arange(len(at_ms))
            next_offset[partition] += len(at_ms)
            runs.append(FlushedRun(partition, {
                "offset": pa.chunked_array([offsets]), "timestamp_ms": pa.chunked_array([at_ms]),
                "key": pa.chunked_array(key_parts), "value": pa.chunked_array(value_parts),
            }))  # fmt: skip
        landing.write_records(f"commits-{done:011d}", "bench", runs)


class Peak(threading.Thread):
    """The most that one process had resident, by the kernel's own book."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._status, self.mb, self.is_over = Path(f"/proc/{pid}/status"), 0.0, threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(0.1):
            with suppress(OSError):
                if found := re.search(r"VmHWM:\s+(\d+)", self._status.read_text()):
                    self.mb = int(found[1]) / 1024


def measured(commits: int, engine: str) -> tuple[float, float]:
    """(MB of the driver, CPU seconds of all)."""
    with tempfile.TemporaryDirectory(prefix="bench-commits-") as location:
        warehouse = Warehouse.open(location, create=True)
        land(commits, location)
        began = time.monotonic()
        command = [sys.executable, "-m", "rebalance_audit.cli", "run", "-w", location, "-q", "--engine", engine]
        process = subprocess.Popen(command)
        watched, driver = Watched(process.pid), Peak(process.pid)
        for each in (watched, driver):
            each.start()
        if process.wait() != 0:
            raise SystemExit("the run failed")
        wall_s = time.monotonic() - began
        for each in (watched, driver):
            each.is_over.set()
            each.join()
        [row] = warehouse.query(
            "SELECT (SELECT count(*) FROM bronze.record) records, (SELECT count(*) FROM gold.rebalance) rebalances"
        ).to_pylist()
        size_mb = sum(file.stat().st_size for file in Path(location).rglob("*") if file.is_file()) / 1e6
    print(
        f"| {commits:,} | {row['records']:,} | {row['rebalances']:,} | {size_mb:,.0f} | {wall_s:.0f} | "
        f"{watched.cpu_s:.0f} | {driver.mb:.0f} | {watched.mb:.0f} | {os.getloadavg()[0]:.0f} |", flush=True,
    )  # fmt: skip
    return driver.mb, watched.cpu_s


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, nargs="*", default=[1_000_000, 3_000_000, 10_000_000])
    arguments.add_argument("--engine", choices=("auto", "spark", "local"), default="spark")
    given = arguments.parse_args()
    print("| commits | records | rebalances | MB | wall s | CPU s | driver: MB at most | all: MB at most | load |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    took = [(size, *measured(size, given.engine)) for size in given.sizes]
    for (less, mb, cpu_s), (more, more_mb, more_cpu_s) in pairwise(took):
        per_million = (more - less) / 1e6
        print(
            f"from {less:,} to {more:,}: each million more takes {(more_mb - mb) / per_million:.2f} MB of the driver "
            f"and {(more_cpu_s - cpu_s) / per_million:.1f} CPU s"
        )


if __name__ == "__main__":
    main()
