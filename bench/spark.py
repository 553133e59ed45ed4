"""What the pipeline carries, and what its parts cost: ratios of one run, side by side.

    python -m bench.spark [--commits 1000000] [--groups 2000] [--generations 20] [--no-checks]

Nothing is read: a synthetic __consumer_offsets is made, with many commits and few group records, as on real clusters.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_audit.domain.commit_marks import CommitFolder
from rebalance_audit.domain.decode import Commit, decode_source
from rebalance_audit.domain.model import GroupRecord, SourceRecord
from rebalance_audit.warehouse import Warehouse, arrow_schema
from spark_jobs import commits, pipeline
from spark_jobs.session import open_session
from tests.encoders import (
    classic_member,
    consumer_assignment,
    consumer_subscription,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)

BASE_MS = 1_795_000_000_000
PARTITIONS = 50
SAMPLE = 50_000
"""Records for the comparison of the two ways to decode commits."""


def evidence(commit_count: int, group_count: int, generations: int) -> Iterator[tuple[int, int, int, bytes, bytes]]:
    """(partition, offset, time, key, value): commits of every group, with a new generation in between."""
    rng = random.Random(1)
    groups = [f"group-{n}" for n in range(group_count)]
    keys = {(g, p): offset_commit_key(g, "events", p) for g in groups for p in range(4)}
    offsets = [0] * PARTITIONS
    steps = max(commit_count // (group_count * max(generations, 1)), 1)
    at_ms = BASE_MS

    def place(group: int) -> tuple[int, int]:
        partition = group % PARTITIONS
        offsets[partition] += 1
        return partition, offsets[partition]

    for generation in range(1, generations + 1):
        for number, group in enumerate(groups):
            at_ms += rng.randrange(3)
            members = [
                classic_member(
                    f"m{m}", subscription=consumer_subscription(["events"]),
                    assignment=consumer_assignment({"events": [p for p in range(4) if (p + generation) % 2 == m]}),
                )
                for m in range(2)
            ]  # fmt: skip
            value = group_metadata_value(
                generation, members, protocol="range", leader="m0", current_state_timestamp=at_ms
            )
            yield *place(number), at_ms, group_metadata_key(group), value
            for step in range(steps):
                at_ms += 1
                key = keys[group, step % 4]
                yield *place(number), at_ms, key, offset_commit_value(step, at_ms=at_ms)


def landed(warehouse: Warehouse, rows: Iterator[tuple[int, int, int, bytes, bytes]]) -> int:
    """As landing files of 200,000 records, each with whole stretches of offsets."""
    schema = arrow_schema("bronze.record")
    folder = Path(warehouse.location) / "landing" / "record"
    folder.mkdir(parents=True)
    everything = sorted(rows, key=lambda row: row[:2])
    for at in range(0, len(everything), 200_000):
        partitions, offsets, times, keys, values = zip(*everything[at : at + 200_000], strict=True)
        count = len(keys)
        given: dict[str, Any] = {
            "cluster_id": ["bench"] * count, "topic": ["__consumer_offsets"] * count, "partition": partitions,
            "offset": offsets, "copy": [0] * count, "timestamp_ms": times, "key": keys, "value": values,
            "source": ["segment"] * count, "landing": [f"l{at}"] * count,
        }  # fmt: skip
        arrays = [pa.array(given.get(f.name, [None] * count), f.type) for f in schema]
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), folder / f"l{at:012}.parquet", compression="zstd")
    return len(everything)


def timed(do: Callable[[], object]) -> float:
    started = time.perf_counter()
    do()
    return time.perf_counter() - started


def compare_kernels() -> None:
    rows = list(evidence(SAMPLE, 100, 5))
    sources = [
        SourceRecord(
            cluster_id="bench", topic="__consumer_offsets", partition=p, offset=o, timestamp_ms=t, key=k, value=v
        )
        for p, o, t, k, v in rows
    ]
    only_commits = [s for s in sources if s.key is not None and s.key[:2] == b"\x00\x01"]
    columns = ("cluster_id", "topic", "partition", "offset", "timestamp_ms", "key", "value")
    batch = pa.RecordBatch.from_pylist([{c: getattr(s, c) for c in columns} for s in only_commits])

    def one_by_one() -> None:
        folder = CommitFolder()
        for source in sources:
            decoded = decode_source(source)
            if isinstance(decoded, Commit):
                folder.commit(source, decoded)
            elif isinstance(decoded, GroupRecord):
                folder.group_record(decoded)

    slow = len(only_commits) / min(timed(one_by_one) for _ in range(3))
    quick = len(only_commits) / min(timed(lambda: commits.fold(batch, {})) for _ in range(5))
    print(f"{'commits, one by one':36}{slow:14,.0f} records/s")
    print(f"{'commits, vectorised':36}{quick:14,.0f} records/s{quick / slow:8.1f} x")


def main() -> None:
    options = argparse.ArgumentParser(description="Measure the pipeline on synthetic evidence.")
    options.add_argument("--commits", type=int, default=1_000_000)
    options.add_argument("--groups", type=int, default=2_000)
    options.add_argument("--generations", type=int, default=20)
    options.add_argument("--no-checks", action="store_true", help="without the data-quality suites")
    given = options.parse_args()
    compare_kernels()
    spark = open_session()
    spark.range(10).count()  # starting is measured elsewhere
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse.open(folder, create=True)
        count = landed(warehouse, evidence(given.commits, given.groups, given.generations))
        outcome = pipeline.run(warehouse, spark=spark, with_quality=not given.no_checks)
        total = sum(outcome.ms_by_stage.values())
        for stage, ms in outcome.ms_by_stage.items():
            print(f"{stage:36}{ms:11,} ms{count / max(ms, 1) * 1000:14,.0f} records/s{ms / total:8.1%}")
        print(f"{'all stages':36}{total:11,} ms{count / max(total, 1) * 1000:14,.0f} records/s")
        print(f"{count:,} records, {outcome.rows_written.get('gold.rebalance', 0):,} rebalances")
        again = timed(lambda: pipeline.run(warehouse, spark=spark))
        print(f"{'a run with nothing new':36}{again * 1000:11,.0f} ms")
    spark.stop()


if __name__ == "__main__":
    main()
