"""A bounded run without an instrumented interpreter: damaged seeds through every target, counted, timed, weighed."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from time import thread_time

from tests.fuzz.seeds import damaged
from tests.fuzz.targets import TARGETS

MOST_SECONDS = 0.1
"""For one input, in CPU time: a busy machine is not the decoder's fault."""
WEIGHED_ONE_IN = 200
MOST_MEMORY_PER_BYTE, MOST_MEMORY_BESIDES = 600, 400_000
"""Peak bytes allocated: so many per byte of input, and what an empty input may take (compiled patterns, caches)."""
LARGEST_INPUT = 1 << 16


@dataclass(slots=True)
class Run:
    executions: int = 0
    slowest_seconds: float = 0.0
    most_memory_bytes: int = 0


class Broken(AssertionError):
    """An input that crashed a target, took too long or too much; its hex is in the text."""


def run(name: str, seeds: list[bytes], executions: int, seed: int = 1) -> Run:
    random, target, done = Random(f"{name} {seed}"), TARGETS[name], Run()
    target(seeds[0])  # what is loaded on first use is no input's doing
    for number in range(executions):
        data = damaged(random, random.choice(seeds), random.choice(seeds)) if number >= len(seeds) else seeds[number]
        if random.random() < 0.001:
            data = (data * (LARGEST_INPUT // max(len(data), 1) + 1))[:LARGEST_INPUT]
        is_weighed = number % WEIGHED_ONE_IN == 0
        if is_weighed:
            tracemalloc.start()
        started = thread_time()
        try:
            target(data)
        except Exception as broken:
            raise Broken(f"{name}: {broken!r} for {data.hex()}") from broken
        finally:
            seconds = thread_time() - started
            peak = tracemalloc.get_traced_memory()[1] if is_weighed else 0
            tracemalloc.stop()
        done.executions += 1
        if not is_weighed:  # being weighed takes time
            if seconds > MOST_SECONDS:  # once may be the collection of other tests' garbage
                seconds = min(seconds, _seconds(target, data))
            done.slowest_seconds = max(done.slowest_seconds, seconds)
            if seconds > MOST_SECONDS:
                raise Broken(f"{name}: {seconds:.3f} s for {data[:3_000].hex()} ({len(data)} bytes)")
        done.most_memory_bytes = max(done.most_memory_bytes, peak)
        if peak > MOST_MEMORY_BESIDES + MOST_MEMORY_PER_BYTE * len(data):
            raise Broken(f"{name}: {peak:,} bytes for {data[:3_000].hex()} ({len(data)} bytes)")
    return done


def _seconds(target: Callable[[bytes], object], data: bytes) -> float:
    started = thread_time()
    target(data)
    return thread_time() - started
