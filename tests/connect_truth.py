"""What the connectors and tasks of a capture wrote down themselves, and what its workers said they were assigned.

A run is a resource on a worker: from the return of start() to the call of stop(), to its failure, or to the kill or
freeze of the worker. Names of resources are `task alpha-0` and `connector alpha`: a connector may be named `alpha-0`.
"""

from __future__ import annotations

import datetime as dt
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

from tests.truth import TruePause, written_events

_JOINED = re.compile(
    r"\[(?P<at>[-0-9]+ [:0-9]+,\d{3})\] INFO \[Worker [^]]*\] Joined group at generation (?P<number>\d+) .*"
    r"connectorIds=\[(?P<connectors>.*)\], taskIds=\[(?P<tasks>.*)\], revokedConnectorIds=.*"
    r"delay=(?P<delay>\d+)\}(?: with rebalance delay| \()"  # up to 2.3 the line ends there
)
_BEGAN = re.compile(r"\[(?P<at>[-0-9]+ [:0-9]+,\d{3})\] INFO \[Worker [^]]*\] Rebalance started")
SETTLED_MS = 1_000
"""A worker whose journal was silent for so long before the next rebalance has carried out what it was asked."""

STOPPED_TOGETHER_MS = 1_000
"""Two workers that run the same and have to stop by one assignment do so within this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueRun:
    worker: str
    start_ms: int
    end_ms: int | None = None
    """None: until the capture ended."""
    ended_by: str | None = None
    """stop, failed, killed, frozen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A worker's own line about one generation: all it runs from now on."""

    worker: str
    number: int
    at_ms: int
    running: frozenset[str]
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrueWait:
    """Nobody ran the resource from when the first worker heard of the delay until its start."""

    resource: str
    from_ms: int
    to_ms: int


def journal(capture: Path) -> list[dict[str, Any]]:
    return sorted(written_events(capture), key=lambda e: e["at_ms"])


def worker_urls(capture: Path) -> dict[str, str]:
    """Name of each worker by its URL."""
    workers = json.loads((capture / "truth" / "scenario.json").read_text())["workers"]
    return {w["worker_url"]: w["client"] for w in workers}


@cache
def true_runs(capture: Path) -> dict[str, list[TrueRun]]:
    """By resource, in the order of their starts."""
    found: dict[str, list[TrueRun]] = {}
    frozen: dict[str, set[str]] = {}
    for event in journal(capture):
        worker, at_ms, kind = event["client"], event["at_ms"], event["event"]
        names = [
            *(f"task {t}" for t in event.get("tasks", ())),
            *(f"connector {c}" for c in event.get("connectors", ())),
        ]
        match kind:
            case "task_start_end" | "connector_start":
                for name in names:
                    found.setdefault(name, []).append(TrueRun(worker=worker, start_ms=at_ms))
            case "task_stop_begin" | "connector_stop" | "task_failed":
                for name in names:
                    _end(found, name, worker, at_ms, "failed" if kind == "task_failed" else "stop")
            case "killed" | "frozen":
                held = {name for name in found if _end(found, name, worker, at_ms, kind)}
                frozen[worker] = held if kind == "frozen" else set()
            case "thawed":
                for name in frozen.pop(worker, ()):
                    found[name].append(TrueRun(worker=worker, start_ms=at_ms))
    return found


def _end(found: dict[str, list[TrueRun]], name: str, worker: str, at_ms: int, how: str) -> bool:
    runs = found.get(name, [])
    for place, run in enumerate(runs):
        if run.worker == worker and run.end_ms is None:
            runs[place] = replace(run, end_ms=at_ms, ended_by=how)
            return True
    return False


@cache
def words(capture: Path) -> tuple[Word, ...]:
    """Every `Joined group` line of every worker, in order of time."""
    found = [
        Word(
            worker=worker,
            number=int(match["number"]),
            at_ms=_utc_ms(match["at"]),
            running=frozenset(
                [f"connector {c}" for c in match["connectors"].split(", ") if c]
                + [f"task {t}" for t in match["tasks"].split(", ") if t]
            ),
            delay_ms=int(match["delay"]),
        )
        for worker, match in _matches(capture, _JOINED)
    ]
    return tuple(sorted(found, key=lambda w: w.at_ms))


def contradicted_words(capture: Path) -> tuple[int, list[str]]:
    """How many of the workers' words could be held against the journal, and those it contradicts."""
    runs = true_runs(capture)
    began = sorted(_utc_ms(match["at"]) for _, match in _matches(capture, _BEGAN))
    last_ms = max(event["at_ms"] for event in journal(capture))
    checked, faults = 0, []
    silenced = {
        e["client"]: e["at_ms"] for e in journal(capture) if e["event"] in ("killed", "frozen", "worker_stopped")
    }
    for word in words(capture):
        until_ms = next((at for at in began if at > word.at_ms), last_ms + SETTLED_MS + 1)
        own = [t for rs in runs.values() for r in rs if r.worker == word.worker for t in (r.start_ms, r.end_ms) if t]
        if any(until_ms - SETTLED_MS < t <= until_ms for t in own) or until_ms - word.at_ms < SETTLED_MS:
            continue
        if word.at_ms < silenced.get(word.worker, 0) < until_ms or _is_out_of_order(runs, word, until_ms):
            continue
        checked += 1
        seen = {name for name, run in running(runs, until_ms - 1) if run.worker == word.worker}
        if seen != word.running:
            faults.append(
                f"{word.worker} in generation {word.number}: journal {sorted(seen)}, log {sorted(word.running)}"
            )
    return checked, faults


def _is_out_of_order(runs: Mapping[str, Sequence[TrueRun]], word: Word, until_ms: int) -> bool:
    """A task failed, or somebody paused or stopped a connector: assigned, and not running."""
    return any(
        run.worker == word.worker and run.end_ms is not None and run.end_ms < until_ms and name in word.running
        for name, found in runs.items()
        for run in [*found[-1:], *(a for a, b in pairwise(found) if b.start_ms > until_ms)]
    )


def running(runs: Mapping[str, Sequence[TrueRun]], at_ms: int) -> Iterator[tuple[str, TrueRun]]:
    for name, found in runs.items():
        for run in found:
            if run.start_ms <= at_ms and (run.end_ms is None or at_ms < run.end_ms):
                yield name, run


def true_waits(capture: Path) -> list[TrueWait]:
    """What ran nowhere and was given to nobody when the first worker heard of a delay, and ran again later.

    A delay announced again, or what is left of it, is the same wait.
    """
    runs, found = true_runs(capture), []
    for word in _first_of_each_delay(words(capture)):
        given = {name for w in words(capture) if w.number == word.number for name in w.running}
        for name, mine in runs.items():
            if name in given:
                continue
            held = next(
                (r for r in mine if r.start_ms <= word.at_ms and (r.end_ms is None or word.at_ms < r.end_ms)), None
            )
            before = [r for r in mine if r.start_ms <= word.at_ms]
            after = [r for r in mine if r.start_ms > word.at_ms]
            if held is not None or not before or not after:
                continue
            found.append(TrueWait(resource=name, from_ms=word.at_ms, to_ms=after[0].start_ms))
    return found


def _first_of_each_delay(said: Sequence[Word]) -> list[Word]:
    first: list[Word] = []
    by_number: dict[int, Word] = {}
    for word in said:
        by_number.setdefault(word.number, word)
    due_ms = 0
    for number in sorted(by_number):
        word = by_number[number]
        if word.delay_ms and word.at_ms >= due_ms:
            first.append(word)
            due_ms = word.at_ms + word.delay_ms
    return first


def true_pauses(capture: Path, group_id: str) -> list[TruePause]:
    """Between two runs of a resource that a rebalance ended and began."""
    return [
        TruePause(
            group_id=group_id,
            resource=name,
            from_client=earlier.worker,
            to_client=later.worker,
            stopped_at_ms=earlier.end_ms,
            resumed_at_ms=later.start_ms,
        )
        for name, earlier, later, is_made_anew in _hand_outs(capture)
        if earlier is not None and earlier.end_ms is not None and not is_made_anew
    ]


def true_steps(capture: Path, group_id: str) -> dict[tuple[str, str], list[tuple[str | None, str]]]:
    """By (group, resource): every time a rebalance handed it out, from whom to whom."""
    found: dict[tuple[str, str], list[tuple[str | None, str]]] = {}
    for name, earlier, later, is_made_anew in _hand_outs(capture):
        giver = earlier.worker if earlier is not None and not is_made_anew else None
        found.setdefault((group_id, name), []).append((giver, later.worker))
    return found


def _hand_outs(capture: Path) -> Iterator[tuple[str, TrueRun | None, TrueRun, bool]]:
    """(resource, its run before, its run, whether it did not exist in between) of each run that a rebalance began: not
    of one that goes on after a freeze, that follows a failure, or that somebody asked for. The run before is the last
    one to begin, unless it ended well before another: what went on after a freeze."""
    for name, runs in true_runs(capture).items():
        requests = _requests(capture)
        for place, later in enumerate(runs):
            earlier = runs[place - 1] if place else None
            last = max(runs[:place], key=_end_ms, default=None)
            if earlier is not None and last is not None and _end_ms(earlier) < _end_ms(last) - STOPPED_TOGETHER_MS:
                earlier = last
            request = next((r for r in requests if earlier is not None and _ends(r, name, earlier)), None)
            if request is not None:
                requests.remove(request)  # a connector that was restarted for its settings may be stopped again soon
            is_removed = request is not None and request["action"] == "stop" and name.startswith("task ")
            is_own = (
                (request is not None and not is_removed)
                or later.start_ms in thaws(capture)
                or (earlier is not None and earlier.ended_by == "failed")
            )
            if not is_own:
                yield name, earlier, later, is_removed


def _end_ms(run: TrueRun) -> float:
    return inf if run.end_ms is None else run.end_ms


def thaws(capture: Path) -> set[int]:
    return {event["at_ms"] for event in journal(capture) if event["event"] == "thawed"}


def _requests(capture: Path) -> list[dict[str, Any]]:
    actions = json.loads((capture / "truth" / "scenario.json").read_text())["actions"]
    return [a for a in actions if a["action"] in ("pause", "stop", "restart task", "reconfigure")]


def _ends(request: dict[str, Any], name: str, run: TrueRun) -> bool:
    """Pausing stops a connector and reconfiguring restarts it, restarting a task restarts that: without a rebalance. A
    connector that is stopped has no tasks any more: a rebalance takes them, and makes them again."""
    if run.end_ms is None or not 0 <= run.end_ms - request["at_ms"] < 3_000:
        return False
    subject = request["subject"]
    match request["action"]:
        case "restart task":
            return name == f"task {subject}"
        case "stop":
            return name.startswith(f"task {subject}-") or name == f"connector {subject}"
        case _:
            return name == f"connector {subject}"


def _matches(capture: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, re.Match[str]]]:
    for path in sorted(capture.glob("logs/worker-*/connect*log*")):
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            match = pattern.match(line)
            if match:
                yield path.parent.name, match


def _utc_ms(text: str) -> int:
    """The lab's logs are in UTC."""
    at = dt.datetime.strptime(text, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=dt.UTC)
    return round(at.timestamp() * 1000)
