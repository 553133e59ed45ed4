"""Offset commits a second, on one core, on the same bytes: our kernel beside other decoders, in turns.

    python -m bench.decode [records] [rounds] [check]

Needs a JDK and Go. Each decoder reads every field of every record and says how many commits and tombstones it found and
a sum over their fields, which must be the same. Time is CPU time of the whole process, so that a busy machine slows the
run but hardly moves the ratios. With `check`, each of the records is also compared with what the domain reads.

What each kind of record costs the pure Python decoder: python -m bench.decode_kinds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench import rivals
from bench.commit_records import files
from bench.rivals import Pass, Rival
from rebalance_audit.domain.records import OffsetCommitKey, OffsetCommitValue, decode_record
from spark_jobs.commits import kernel as commit_kernel
from spark_jobs.commits.keys import COMMIT, TOMBSTONE

WARM_UP_PASSES = 2
PYTHON_RECORDS = 200_000
"""The plain decoder is timed on so many of them."""


def batches(arrow: Path) -> Iterator[pa.RecordBatch]:
    reader = pa.ipc.open_file(pa.memory_map(str(arrow)))
    return (reader.get_batch(number) for number in range(reader.num_record_batches))


def kernel_pass(given: list[pa.RecordBatch]) -> Pass:
    commit_count = tombstone_count = checksum = 0
    started = process_time()
    for batch in given:
        commits = commit_kernel.decode_commits(batch.column("key"), batch.column("value"))
        keys = commits.keys
        name_sizes = pc.add(pc.utf8_length(keys.group), pc.utf8_length(keys.topic)).to_numpy(zero_copy_only=False)
        is_commit = commits.verdict == COMMIT
        commit_count += int(np.count_nonzero(is_commit))
        tombstone_count += int(np.count_nonzero(commits.verdict == TOMBSTONE))
        names = (keys.partition + name_sizes).astype(np.int64)
        checksum += int(names[commits.key_code].sum()) - int(names[commits.key_code[~is_commit]].sum())
        checksum += int(commits.offset.sum()) * 31 + int(commits.commit_timestamp.sum()) * 7
    return Pass(commit_count, tombstone_count, checksum % 2**64, process_time() - started)


def python_records_per_second(given: list[pa.RecordBatch]) -> float:
    pairs = list(islice(_pairs(given), PYTHON_RECORDS))
    started = process_time()
    for key, value in pairs:
        decode_record(key, value)
    return len(pairs) / (process_time() - started)


def _pairs(given: list[pa.RecordBatch]) -> Iterator[tuple[bytes, bytes | None]]:
    for batch in given:
        yield from zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)


def mismatches(given: list[pa.RecordBatch]) -> int:
    """Records in which the kernel says anything else than the domain."""
    return sum(_mismatches_of(batch) for batch in given)


def _mismatches_of(batch: pa.RecordBatch) -> int:
    commits = commit_kernel.decode_commits(batch.column("key"), batch.column("value"))
    groups, topics = commits.keys.group.to_pylist(), commits.keys.topic.to_pylist()
    partitions = commits.keys.partition.tolist()
    columns = (commits.offset, commits.commit_timestamp, commits.leader_epoch, commits.expire_timestamp)
    fields = zip(*(column.tolist() for column in columns), commits.topic_ids().to_pylist(), strict=True)
    rows = zip(commits.verdict.tolist(), commits.key_code.tolist(), fields, _pairs([batch]), strict=True)
    found = 0
    for verdict, code, row, (key, value) in rows:
        record = decode_record(key, value)
        assert isinstance(record.key, OffsetCommitKey)
        said = (record.key.group, record.key.topic, record.key.partition)
        found += (groups[code], topics[code], partitions[code]) != said
        if isinstance(record.value, OffsetCommitValue):
            read = record.value
            epoch = -1 if read.leader_epoch is None else read.leader_epoch
            expires = -1 if read.expire_timestamp is None else read.expire_timestamp
            topic_id = None if read.topic_id is None else commit_kernel.uuid_bytes(read.topic_id)
            expected = (read.offset, read.commit_timestamp, epoch, expires, topic_id)
            found += (verdict, row) != (COMMIT, expected)
        else:
            found += verdict != TOMBSTONE
    return found


def main(count: int, rounds: int, check: bool) -> int:
    arrow, framed = files(count)
    given = list(batches(arrow))
    pa.set_cpu_count(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {0})
    with ExitStack() as stack:
        serde = stack.enter_context(Rival(rivals.kafka_serde(), framed))
        kmsg = stack.enter_context(Rival(rivals.kmsg(), framed))
        run: dict[str, Callable[[], Pass]] = {
            "kernel": lambda: kernel_pass(given),
            f"Kafka {rivals.KAFKA} serde": serde.run,
            "kmsg": kmsg.run,
        }
        for _ in range(WARM_UP_PASSES):
            said = {name: each().said for name, each in run.items()}
        passes = [{name: each() for name, each in run.items()} for _ in range(rounds)]
    if len(set(said.values())) != 1:
        print(f"The decoders do not agree: {said}")
        return 1
    print(f"{count:,} records, {rounds} rounds in turns, one core, CPU time; all found {said['kernel']}")
    _print_table(count, passes, python_records_per_second(given))
    if check:
        found = mismatches(given)
        print(f"{found} mismatches between the kernel and the domain in {count:,} records")
        return int(found > 0)
    return 0


def _print_table(count: int, passes: list[dict[str, Pass]], python_speed: float) -> None:
    print("\n| decoder | M records/s, median | kernel against it, median of rounds | rounds |")
    print("| --- | ---: | ---: | --- |")
    for name in passes[0]:
        speeds = [count / each[name].cpu_seconds / 1e6 for each in passes]
        ratio = median(each[name].cpu_seconds / each["kernel"].cpu_seconds for each in passes)
        print(f"| {name} | {median(speeds):.2f} | {ratio:.2f} × | {' '.join(f'{speed:.1f}' for speed in speeds)} |")
    kernel = median(count / each["kernel"].cpu_seconds for each in passes)
    print(f"| Python, one by one | {python_speed / 1e6:.2f} | {kernel / python_speed:.0f} × | |\n")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "check"]
    numbers = [int(word.replace("_", "")) for word in words]
    count, passes = numbers + [10_000_000, 5][len(numbers) :]
    sys.exit(main(count, passes, check="check" in sys.argv))
