"""Coverage-guided fuzzing with atheris, one process per target, so many executions each.

    python -m tests.fuzz [executions] [target ...]

What it finds lies in .build/fuzz as crash-*, slow-unit-*, timeout-* or oom-*; the same input becomes a test case.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / ".build" / "fuzz"
# Wall time, which on a busy machine says little: our own 100 ms are CPU time.
LIMITS = ["-timeout=60", "-report_slow_units=60", "-rss_limit_mb=1024", "-malloc_limit_mb=256", "-max_len=65536"]
MOST_SECONDS = 0.1


def fuzz_one(name: str, arguments: list[str]) -> None:
    """In this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=["rebalance_audit", "ingest", "spark_jobs"]):
        from tests.fuzz.targets import TARGETS

    from time import thread_time

    target = TARGETS[name]

    def seconds_of(data: bytes) -> float:
        started = thread_time()
        target(data)
        return thread_time() - started

    def timed(data: bytes) -> None:
        if seconds_of(data) > MOST_SECONDS:
            # Again: the first time may have been the turn of Python's collector, over all that libFuzzer keeps.
            seconds = min(seconds_of(data) for _ in range(3))
            if seconds > MOST_SECONDS:
                raise AssertionError(f"{seconds:.3f} s for {len(data)} bytes")

    atheris.Setup([name, *arguments], timed)
    atheris.Fuzz()


def fuzz(name: str, executions: int) -> int | None:
    """How many inputs were run; None if one of them broke the target."""
    corpus, grown = FOLDER / "seeds" / name, FOLDER / "grown" / name
    grown.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.fuzz", "--target", name, f"-runs={executions}", *LIMITS]
    command += ["-print_final_stats=1", f"-artifact_prefix={FOLDER}/{name}-", str(grown), str(corpus)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    count = re.search(r"stat::number_of_executed_units: (\d+)", done.stderr)
    if done.returncode != 0 or count is None:
        print(f"{name}: {done.stdout[-2000:]}{done.stderr[-3000:]}")
        return None
    slowest = re.search(r"stat::slowest_unit_time_sec: +(\d+)", done.stderr)
    cover = re.findall(r"cov: (\d+)", done.stderr)
    print(f"{name:32} {int(count[1]):>10,} executions, {cover[-1] if cover else '?'} branches", end="")
    print(f", slowest {slowest[1]} s" if slowest and slowest[1] != "0" else "", flush=True)
    return int(count[1])


def main(executions: int, names: list[str]) -> int:
    from tests.fuzz import seeds  # needs what atheris does not: only the parent makes them
    from tests.fuzz.targets import TARGETS

    seeds.main(FOLDER / "seeds")
    counts = [fuzz(name, executions) for name in names or TARGETS]
    print(f"{sum(count or 0 for count in counts):,} executions, {counts.count(None)} targets broken")
    return int(None in counts)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--target"]:
        fuzz_one(sys.argv[2], sys.argv[3:])
    words = sys.argv[1:]
    sys.exit(main(int(words[0].replace("_", "")) if words else 200_000, words[1:]))
