"""Scores of Connect captures: running sets, intervals of tasks and connectors, and who waited for the delay.

Beside `tests.score`, which counts generations, causes, movements and pauses the same way for every protocol.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import ceil
from pathlib import Path

from rebalance_audit.domain.kinds import MovementKind
from rebalance_audit.domain.model import ConnectTask, Movement, Rebalance, SourceLine
from rebalance_audit.domain.reconstruct import Reconstruction
from tests.connect_truth import TrueRun, TrueWait, journal, true_runs, true_waits, words, worker_urls
from tests.truth import CLOCK_GRAIN_MS

WAIT_GRAIN_MS = 100


@dataclass(slots=True)
class ConnectTally:
    sets: int = 0
    sets_exact: int = 0
    sets_wrong: int = 0
    runs: int = 0
    runs_found: int = 0
    runs_invented: int = 0
    starts_inside: int = 0
    stops: int = 0
    stops_inside: int = 0
    stops_outside: int = 0
    stops_missed: int = 0
    """Shown to run on."""
    start_errors_ms: list[int] = field(default_factory=list)
    stop_errors_ms: list[int] = field(default_factory=list)
    waits: int = 0
    waits_exact: int = 0
    waits_wrong: int = 0
    """Not shown, or shown where nobody waited."""
    wait_errors_ms: list[int] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def __iadd__(self, other: ConnectTally) -> ConnectTally:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))
        return self

    @property
    def faults(self) -> int:
        outside = self.runs_found - self.starts_inside + self.stops_outside
        return self.sets_wrong + self.runs_invented + outside + self.waits_wrong


def is_of_workers(line: SourceLine) -> bool:
    return line.node.startswith("worker-")


def with_worker_names(rebalances: Iterable[Rebalance], capture: Path) -> list[Rebalance]:
    """In the words of the journal: resources by their kind, workers by their names, restarts in place as returns."""
    names = worker_urls(capture)

    def named(movement: Movement) -> Movement:
        return replace(
            movement,
            kind=MovementKind.RETURNED if movement.kind == MovementKind.RESTARTED else movement.kind,
            resource=name_of(movement),
            from_client_id=names.get(movement.from_worker_url or ""),
            to_client_id=names.get(movement.to_worker_url or ""),
        )

    return [replace(r, movements=tuple(named(m) for m in r.movements)) for r in rebalances]


def name_of(row: ConnectTask | Movement) -> str:
    return f"connector {row.connector}" if row.task is None else f"task {row.connector}-{row.task}"


def score_connect(capture: Path, found: Reconstruction | None) -> ConnectTally:
    """`found`: None where the evidence shows no Connect group."""
    tally = ConnectTally()
    names = worker_urls(capture)
    _score_sets(tally, capture, found.rebalances if found is not None else (), names)
    tasks = found.connect_tasks if found is not None else ()
    _score_runs(tally, capture, tasks, names)
    _score_waits(tally, true_waits(capture), [t for t in tasks if t.state == "WAITING"], _end_ms(capture))
    return tally


def _end_ms(capture: Path) -> int:
    return max(event["at_ms"] for event in journal(capture))


def _score_sets(tally: ConnectTally, capture: Path, rebalances: Sequence[Rebalance], names: Mapping[str, str]) -> None:
    """Each worker's running set after each generation, against the worker's own line about it."""
    shown = {
        (r.generation_id, names.get(m.worker_url or "")): m.assigned
        for r in rebalances
        for m in r.members
        if m.change != "left"
    }
    for word in words(capture):
        tally.sets += 1
        assigned = shown.get((word.number, word.worker))
        if assigned is None:
            tally.remarks.append(f"set of {word.worker} after generation {word.number} not shown")
        elif sorted(assigned) == sorted(name.partition(" ")[2] for name in word.running):
            tally.sets_exact += 1
        else:
            tally.sets_wrong += 1
            tally.remarks.append(
                f"set of {word.worker} after generation {word.number} is {sorted(word.running)}, shown {list(assigned)}"
            )


def _score_runs(tally: ConnectTally, capture: Path, tasks: Sequence[ConnectTask], names: Mapping[str, str]) -> None:
    truth = true_runs(capture)
    shown = shown_runs(tasks, names)
    for name in truth.keys() | shown.keys():
        wanted, found = truth.get(name, []), shown.get(name, [])
        workers, ours = [run.worker for run in wanted], [run.worker for run in found]
        pairs = _pairs(wanted, found)
        tally.runs += len(wanted)
        tally.runs_found += len(pairs)
        tally.runs_invented += len(found) - len(pairs)
        if workers != ours:
            tally.remarks.append(f"{name} ran on {workers}, shown {ours}")
        for run, row in pairs:
            _score_run(tally, name, run, row)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRun:
    """RUNNING intervals with nothing but a pause by request between them."""

    worker: str
    start: tuple[int | None, int, int | None]
    """Not before, best guess, not after."""
    end: tuple[int | None, int, int | None] | None
    ended_by: str | None


def shown_runs(tasks: Iterable[ConnectTask], names: Mapping[str, str]) -> dict[str, list[ShownRun]]:
    found: dict[str, list[ShownRun]] = {}
    going_on: dict[str, ConnectTask] = {}
    for row in tasks:
        name = name_of(row)
        runs_on = row.state == "RUNNING" or (row.state == "PAUSED" and row.task is not None)
        before = going_on.pop(name, None)
        if not runs_on:
            continue
        run = ShownRun(
            worker=names.get(row.worker_url or "", "?"),
            start=(row.from_lower_ms, row.from_ms, row.from_upper_ms),
            end=None if row.to_ms is None else (row.to_lower_ms, row.to_ms, row.to_upper_ms),
            ended_by=row.ended_by,
        )
        if before is not None and before.to_ms == row.from_ms and "PAUSED" in (before.state, row.state):
            run = replace(run, start=found[name].pop().start)
        found.setdefault(name, []).append(run)
        going_on[name] = row
    return found


def _pairs(wanted: Sequence[TrueRun], found: Sequence[ShownRun]) -> list[tuple[TrueRun, ShownRun]]:
    """Runs on the same worker, those that began nearest to each other first."""
    apart = sorted(
        (abs(run.start_ms - row.start[1]), a, b)
        for a, run in enumerate(wanted)
        for b, row in enumerate(found)
        if run.worker == row.worker
    )
    pairs: dict[int, int] = {}
    for _, a, b in apart:
        if a not in pairs and b not in pairs.values():
            pairs[a] = b
    return [(wanted[a], found[b]) for a, b in sorted(pairs.items())]


def _score_run(tally: ConnectTally, name: str, run: TrueRun, shown: ShownRun) -> None:
    tally.start_errors_ms.append(abs(shown.start[1] - run.start_ms))
    if _is_inside(run.start_ms, shown.start):
        tally.starts_inside += 1
    else:
        tally.remarks.append(f"{name} at {run.worker}: start outside, {run.start_ms} not in {shown.start}")
    if run.end_ms is None and shown.end is None:
        return
    tally.stops += 1
    if shown.end is None:
        tally.stops_missed += 1
        tally.remarks.append(f"{name} at {run.worker}: stopped at {run.end_ms}, shown to run on")
        return
    if run.end_ms is None:
        tally.stops_outside += 1
        tally.remarks.append(f"{name} at {run.worker}: runs on, shown {shown.end} {shown.ended_by}")
        return
    tally.stop_errors_ms.append(abs(shown.end[1] - run.end_ms))
    if _is_inside(run.end_ms, shown.end):
        tally.stops_inside += 1
    else:
        tally.stops_outside += 1
        tally.remarks.append(f"{name} at {run.worker}: stop outside, {run.end_ms} not in {shown.end} {shown.ended_by}")


def _is_inside(at_ms: int, bounds: tuple[int | None, int, int | None]) -> bool:
    lower, _, upper = bounds
    return (lower is None or lower - CLOCK_GRAIN_MS <= at_ms) and (upper is None or at_ms <= upper + CLOCK_GRAIN_MS)


def _score_waits(tally: ConnectTally, truth: Sequence[TrueWait], shown: Sequence[ConnectTask], end_ms: int) -> None:
    """One wait may be shown in parts: what is left of a delay is announced again."""
    left = list(shown)
    for wait in truth:
        tally.waits += 1
        mine = [
            t
            for t in left
            if name_of(t) == wait.resource and t.from_ms < wait.to_ms and (t.to_ms or end_ms) > wait.from_ms
        ]
        left = [t for t in left if t not in mine]
        if not mine:
            tally.waits_wrong += 1
            tally.remarks.append(f"{wait.resource} waited {wait.to_ms - wait.from_ms} ms: not shown")
            continue
        ms = sum((t.to_ms or end_ms) - t.from_ms for t in mine)
        error_ms = abs(ms - (wait.to_ms - wait.from_ms))
        tally.wait_errors_ms.append(error_ms)
        if error_ms <= WAIT_GRAIN_MS:
            tally.waits_exact += 1
        else:
            tally.remarks.append(f"{wait.resource} waited {wait.to_ms - wait.from_ms} ms, shown {ms}")
    tally.waits_wrong += len(left)
    tally.remarks += [f"{name_of(t)} did not wait, shown {t.from_ms} to {t.to_ms}" for t in left]


HEADER = (
    "| capture | evidence | running sets exact, of, wrong | intervals found, of, invented "
    "| starts inside, of | error median, p95 ms | stops inside, of | error median, p95 ms "
    "| waits exact, of, wrong | largest error ms |\n|---|---|---|---|---|---|---|---|---|---|"
)


def line(name: str, evidence: str, t: ConnectTally) -> str:
    cells = (
        name, evidence, f"{t.sets_exact}, {t.sets}, {t.sets_wrong}", f"{t.runs_found}, {t.runs}, {t.runs_invented}",
        f"{t.starts_inside}, {t.runs_found}", _errors(t.start_errors_ms), f"{t.stops_inside}, {t.stops}",
        _errors(t.stop_errors_ms), f"{t.waits_exact}, {t.waits}, {t.waits_wrong}",
        str(max(t.wait_errors_ms)) if t.wait_errors_ms else "–",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _errors(errors_ms: Sequence[int]) -> str:
    if not errors_ms:
        return "–"
    return f"{statistics.median(errors_ms):.0f}, {sorted(errors_ms)[ceil(0.95 * len(errors_ms)) - 1]}"
