"""Compare our decoders with Kafka's classes on so many cases, and print what was compared.

python -m tests.differential [cases] [seed] [processes]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice
from time import monotonic
from typing import TypeVar

from tests.differential import metadata, streams
from tests.differential.cases import batches, captured_cases
from tests.differential.comparison import compare
from tests.differential.oracle import RELEASES, Oracle
from tests.differential.tally import Tally

MOST_DISAGREEMENTS = 25
"""More of them say nothing new; the run stops."""
PART = 5_000
"""Captured cases that the JVM is asked at once; it holds them and its answers in memory."""

_C = TypeVar("_C")

METADATA_ONE_IN = 10
"""One case of the metadata log to so many others."""
STREAMS_ONE_IN = 50
"""One case of Streams' user data: Kafka's class believes any count and allocates for it, which takes its time."""


def run(count: int, seed: int) -> Tally:
    tally = Tally()
    with Oracle() as oracle:
        for cases, answers in oracle.ask_all(batches(seed, count)):
            for case, answer in zip(cases, answers, strict=True):
                compare(case, answer, RELEASES, tally)
            if len(tally.disagreements) > MOST_DISAGREEMENTS:
                break
    return tally


def run_captured() -> Tally:
    tally = Tally()
    with Oracle() as oracle:
        for cases, answers in oracle.ask_all(_parts(captured_cases())):
            for case, answer in zip(cases, answers, strict=True):
                compare(case, answer, RELEASES, tally)
    return tally


def _parts(cases: Iterable[_C]) -> Iterator[list[_C]]:
    rest = iter(cases)
    while part := list(islice(rest, PART)):
        yield part


def run_metadata(count: int, seed: int) -> Tally:
    """The captured records of the metadata log, and generated ones."""
    tally = Tally()
    with Oracle() as oracle:
        for cases, answers in oracle.ask_all(chain(_parts(metadata.captured_cases()), metadata.batches(seed, count))):
            for case, answer in zip(cases, answers, strict=True):
                metadata.compare(case, answer, RELEASES, tally)
    return tally


def run_streams(count: int, seed: int) -> Tally:
    """What Kafka's classes wrote of every version, and generated user data."""
    tally = Tally()
    with Oracle() as oracle:
        for cases, answers in oracle.ask_all(chain(_parts(streams.written_cases()), streams.batches(seed, count))):
            for case, answer in zip(cases, answers, strict=True):
                streams.compare(case, answer, RELEASES, tally)
    return tally


def run_in(processes: int, count: int, seed: int) -> Tally:
    """Each process has a JVM of its own, which works while Python does."""
    share = count // processes
    total = Tally()
    with ProcessPoolExecutor(processes) as pool:
        for tally in pool.map(run, [share] * processes, range(seed, seed + processes)):
            total.add(tally)
    return total


def main(count: int, seed: int, processes: int) -> int:
    started = monotonic()
    captured = run_captured()
    print(f"captured records: {captured}")
    total = run_in(processes, count, seed)
    print(f"generated (seed {seed}, {processes} processes, {monotonic() - started:.0f} s): {total}")
    of_metadata = run_metadata(count // METADATA_ONE_IN, seed)
    print(f"metadata log: {of_metadata}")
    of_streams = run_streams(count // STREAMS_ONE_IN, seed)
    print(f"Streams user data: {of_streams}")
    for each in (captured, of_metadata, of_streams):
        total.add(each)
    for disagreement in total.disagreements[:MOST_DISAGREEMENTS]:
        print(disagreement)
    return 1 if total.disagreements else 0


if __name__ == "__main__":
    numbers = [int(argument.replace("_", "")) for argument in sys.argv[1:]]
    sys.exit(main(*(numbers + [1_000_000, 1, 2][len(numbers) :])))
