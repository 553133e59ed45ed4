"""A large metadata log: decoding, folding and making rows of it, on one core, without Spark.

    python -m bench.reassign [partitions] [changes] [rolling|moves|mixed] [stage]

The log creates all partitions and then changes them: `rolling` restarts take a broker out of the in-sync replicas, move
its leaders, and bring it back; `moves` are reassignments of four records each; `mixed` is half of each. What is timed
is what the stage does, a piece of the log at a time: rows of what ended are taken away as they come. The goal is
200,000 partitions and a million changes in 60 s on two cores. Memory is the most that the process held.

`stage`: the pipeline's stage on the same log in a warehouse, its rows written; then again after 400 more changes, and
after one no-op. The checks, which need Spark, are left out.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from struct import pack
from typing import Any

import pyarrow as pa

from rebalance_audit.domain.metadata import MetadataReader, SourceMetadata
from rebalance_audit.domain.reassign import KRaftFold, election_row, reassignment_row, step_rows
from tests.domain.metadata.encoder import record

PER_TOPIC = 100
BROKERS = 60
PIECE = 50_000
GOAL_S = 60
_CHANGE = b"\x01\x05\x02"


def log(partitions: int, changes: int, kind: str) -> Iterator[SourceMetadata]:
    """Written byte by byte where it is the same a million times: the log must not cost more than its reading."""
    offset = 0
    for number in range(partitions // PER_TOPIC):
        yield _source(offset, record(2, 0, {"name": f"topic-{number}", "topicId": _topic_id(number)}))
        offset += 1
        for partition in range(PER_TOPIC):
            replicas = _replicas(number, partition)
            fields = {
                "partitionId": partition, "topicId": _topic_id(number), "replicas": replicas, "isr": replicas,
                "leader": replicas[0],
            }  # fmt: skip
            yield _source(offset, record(3, 2, fields))
            offset += 1
    for change in islice(_changes(partitions, kind), changes):
        yield _source(offset, change)
        offset += 1


def _changes(partitions: int, kind: str) -> Iterator[bytes]:
    at = 0
    while True:
        number, partition = divmod(at % partitions, PER_TOPIC)
        place = _CHANGE + pack(">i", partition) + number.to_bytes(16, "big")
        one, two, three = _replicas(number, partition)
        if kind == "moves" or (kind == "mixed" and at % 3 == 0):
            if at // partitions % 2:  # the second time it moves back
                one, two, three, new = (one + 3) % BROKERS, two, three, one
            else:
                new = (one + 3) % BROKERS
            yield place + _tags(replicas=(new, two, three, one), adding=(new,), removing=(one,))
            yield place + _tags(isr=(one, two, three, new))
            yield place + _tags(isr=(two, three, new), leader=new, replicas=(new, two, three), adding=(), removing=())
            yield place + _tags(leader=new)
        else:
            yield place + _tags(isr=(two, three), leader=two)
            yield place + _tags(isr=(two, three, one))
        at += 1


_TAGS: dict[tuple[tuple[str, object], ...], bytes] = {}


def _tags(**fields: object) -> bytes:
    key = tuple(fields.items())
    if key not in _TAGS:
        names = {"adding": "addingReplicas", "removing": "removingReplicas"}
        named = {names.get(name, name): value for name, value in fields.items()}
        _TAGS[key] = record(5, 2, {"partitionId": 0, "topicId": _topic_id(0), **named})[len(_CHANGE) + 4 + 16 :]
    return _TAGS[key]


def _replicas(number: int, partition: int) -> tuple[int, int, int]:
    first = (number + partition) % BROKERS
    return first, (first + 1) % BROKERS, (first + 2) % BROKERS


def _topic_id(number: int) -> str:
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


def _source(offset: int, value: bytes) -> SourceMetadata:
    return SourceMetadata(
        cluster_id="bench", topic="__cluster_metadata", partition=0, offset=offset,
        timestamp_ms=1_800_000_000_000 + 5 * offset, key=None, value=value, is_control=False, node="controller-1",
        epoch=1,
    )  # fmt: skip


class TimedStep:
    """CPU and wall time of one step, summed over pieces."""

    def __init__(self, name: str) -> None:
        self.name, self.cpu_s, self.wall_s, self.count = name, 0.0, 0.0, 0

    def __enter__(self) -> TimedStep:
        self._cpu, self._wall = time.process_time(), time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu_s += time.process_time() - self._cpu
        self.wall_s += time.monotonic() - self._wall

    def line(self) -> str:
        rate = self.count / self.cpu_s if self.cpu_s else 0
        return f"{self.name:10}{self.count:>12,}{self.cpu_s:>10.1f}{self.wall_s:>10.1f}{rate:>14,.0f}"


def main(partitions: int = 200_000, changes: int = 1_000_000, kind: str = "mixed") -> None:
    sources = log(partitions, changes, kind)
    reader, fold = MetadataReader(), KRaftFold("bench")
    make, decode, folding, rows = TimedStep("(writing)"), TimedStep("decode"), TimedStep("fold"), TimedStep("rows")
    ended = elections = 0
    while True:
        with make:
            piece = list(islice(sources, PIECE))
        if not piece:
            break
        with decode:
            decoded = list(reader.read(piece))
        with folding:
            fold.read(decoded)
        with rows:
            for r in fold.ended():
                reassignment_row(r)
                rows.count += 1 + len(step_rows(r))
                ended += 1
            for election in fold.take_elections():
                election_row(election)
                elections += 1
        for step in (make, decode, folding):
            step.count += len(piece)
    rows.count += elections
    print(f"{partitions:,} partitions, {changes:,} changes ({kind}): {ended:,} reassignments, {elections:,} elections")
    print(f"{'step':10}{'items':>12}{'CPU s':>10}{'wall s':>10}{'per CPU s':>14}")
    for step in (make, decode, folding, rows):
        print(step.line())
    total = decode.cpu_s + folding.cpu_s + rows.cpu_s
    print(f"all but writing: {total:.1f} s CPU, {total / GOAL_S:.0%} of the goal; peak memory {peak_mb():,.0f} MB")


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def stage(partitions: int, changes: int, kind: str) -> None:
    from rebalance_audit.warehouse.warehouse import Warehouse
    from spark_jobs.stages import reassign as stage_reassign
    from tests.spark_jobs.stages.test_reassign_laws import context

    def run(what: str, *sources: SourceMetadata) -> None:
        warehouse.append("bronze.record", _bronze(sources))
        step = TimedStep(what)
        with step:
            stage_reassign.run(context(warehouse))
        print(f"{what:20}{step.cpu_s:>10.1f}{step.wall_s:>10.1f}{peak_mb():>10,.0f}")

    with tempfile.TemporaryDirectory() as place:
        warehouse = Warehouse.open(place, create=True)
        sources = log(partitions, changes, kind)
        while piece := list(islice(sources, 4 * PIECE)):
            warehouse.append("bronze.record", _bronze(piece))
            last = piece[-1].offset
        print(f"{'stage reassign':20}{'CPU s':>10}{'wall s':>10}{'peak MB':>10}")
        run("the whole log")
        more = [_source(last + at, value) for at, value in enumerate(islice(_changes(partitions, "moves"), 400), 1)]
        run("400 more changes", *more)
        run("one no-op", _source(last + 401, b"\x01\x14\x00\x00"))


def _bronze(sources: Sequence[SourceMetadata]) -> pa.Table:
    from rebalance_audit.warehouse.arrow_tables import arrow_schema

    count = len(sources)
    known: dict[str, list[Any]] = {
        "cluster_id": ["bench"] * count, "topic": ["__cluster_metadata"] * count, "partition": [0] * count,
        "offset": [s.offset for s in sources], "copy": [0] * count, "timestamp_ms": [s.timestamp_ms for s in sources],
        "value": [s.value for s in sources], "source": ["segment"] * count, "node": ["controller-1"] * count,
        "leader_epoch": [1] * count, "is_control": [False] * count, "landing": ["bench"] * count,
    }  # fmt: skip
    schema = arrow_schema("bronze.record")
    columns = [pa.array(known[f.name], f.type) if f.name in known else pa.nulls(count, f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


if __name__ == "__main__":
    given = sys.argv[1:]
    chosen: Callable[..., None] = stage if given[3:] == ["stage"] else main
    chosen(*(int(number) for number in given[:2]), *given[2:3])
