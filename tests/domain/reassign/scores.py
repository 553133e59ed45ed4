"""What a capture's reconstruction says against what was expected by hand and polled from the admin API.

python -m tests.domain.reassign.scores CAPTURE…
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ingest.evidence import read_evidence
from ingest.metadata import metadata_of_folder
from rebalance_audit.domain.reassign import Reassignment, ReassignmentHistory
from rebalance_audit.domain.reassign.history import reassignment_history
from rebalance_audit.domain.reassign.lines import LogLines

POLL_MS = 100
EARLY_MS = 60
"""A batch is stamped when it is opened: records were seen up to 25 ms older than their request, lines never much."""
LATE_START_MS = 500
LATE_POLL_MS = 1_000
"""Different brokers answer the poll from caches of their own, seen up to 674 ms behind."""


@dataclass(slots=True)
class Score:
    """How one capture did; `faults` is empty when everything agrees."""

    expected: int = 0
    found: int = 0
    states_polled: int = 0
    states_in_ladder: int = 0
    start_errors_ms: list[int] = field(default_factory=list)
    end_errors_ms: list[int] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def history_of(capture: Path, *, with_metadata: bool = True) -> ReassignmentHistory:
    records = metadata_of_folder(capture, "lab").records() if with_metadata else ()
    lines = LogLines().read(read_evidence(capture).lines()).in_order()
    return reassignment_history(records, lines, cluster_id="lab")


def truth_of(capture: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (capture / "truth/clients.jsonl").read_text().splitlines()]


def score(capture: Path, *, with_metadata: bool = True) -> Score:
    history = history_of(capture, with_metadata=with_metadata)
    events = truth_of(capture)
    result = Score()
    expected: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["event"] == "expected_reassignment":
            expected[event["tp"]].append(event)
    found: dict[str, list[Reassignment]] = defaultdict(list)
    for r in history.reassignments:
        found[r.name].append(r)
    for tp in sorted(expected.keys() | found.keys()):
        _compare(tp, expected[tp], found[tp], events, result)
    return result


def _compare(
    tp: str,
    expected: Sequence[dict[str, Any]],
    found: Sequence[Reassignment],
    events: list[dict[str, Any]],
    score: Score,
) -> None:
    score.expected += len(expected)
    wanted = [(e["original"], e["target"], e["outcome"]) for e in expected]
    got = [(list(r.original_replicas or ()), list(r.target_replicas or ()), r.outcome) for r in found]
    if wanted != got:
        score.faults.append(f"{tp}: expected {wanted}, found {got}")
        return
    score.found += len(found)
    for want, r in zip(expected, found, strict=True):
        if "stalled_by" in want and r.blocked_by != want["stalled_by"]:
            score.faults.append(f"{tp}: stalled by {r.blocked_by}, expected {want['stalled_by']}")
        if "controller_changes" in want and r.controller_changes != want["controller_changes"]:
            score.faults.append(f"{tp}: {r.controller_changes} controller changes")
        _times(tp, want, r, events, score)
    _ladder(tp, found, events, score)


def _times(tp: str, want: dict[str, Any], r: Reassignment, events: list[dict[str, Any]], score: Score) -> None:
    requests = [
        e for e in events
        if e["event"] == "done" and e["at_ms"] >= want["at_ms"] and tp in e["command"].replace("=", " ").split()
    ]  # fmt: skip
    if requests and r.started_at_ms is not None:
        asked = [e for e in events if e["event"] == "asked" and e["command"] == requests[0]["command"]]
        asked_ms = next(e["at_ms"] for e in asked if e["at_ms"] >= want["at_ms"])
        error_ms = r.started_at_ms - asked_ms
        score.start_errors_ms.append(error_ms)
        if not -EARLY_MS <= error_ms <= LATE_START_MS + requests[0]["at_ms"] - asked_ms:
            score.faults.append(f"{tp}: started {error_ms} ms after the request")
    if r.outcome not in ("completed", "cancelled") or r.ended_at_ms is None:
        return
    final = list(r.steps[-1].replicas)
    seen = [
        e for e in events
        if e["event"] == "state" and e["tp"] == tp and e["replicas"] == final and not e["adding"] and not e["removing"]
        and e["at_ms"] >= r.ended_at_ms - POLL_MS
    ]  # fmt: skip
    if seen:
        error_ms = seen[0]["at_ms"] - r.ended_at_ms
        score.end_errors_ms.append(error_ms)
        if error_ms > LATE_POLL_MS:
            score.faults.append(f"{tp}: its end was polled {error_ms} ms later")


def _ladder(tp: str, found: Sequence[Reassignment], events: list[dict[str, Any]], score: Score) -> None:
    """Every polled state is one of ours, and ours come in that order (states may be too short to be polled)."""
    states = [(s.replicas, s.leader, frozenset(s.isr)) for r in found for s in r.steps]
    start_ms = min((r.started_at_ms for r in found if r.started_at_ms is not None), default=0)
    end_ms = max((r.ended_at_ms for r in found if r.ended_at_ms is not None), default=0)
    for e in events:
        if e["event"] == "state" and e["tp"] == tp and start_ms < e["at_ms"] <= end_ms + POLL_MS:
            score.states_polled += 1
            state = (tuple(e["replicas"]), e["leader"], frozenset(e["isr"]))
            if state in states:
                score.states_in_ladder += 1
            else:
                score.faults.append(f"{tp}: polled {state}, which is no step")


def main(captures: Sequence[str]) -> None:
    for name in captures:
        capture = Path(name)
        modes = [True, False] if list(capture.glob("data/*/__cluster_metadata-0")) else [False]
        for with_metadata in modes:
            result = score(capture, with_metadata=with_metadata)
            spread = [
                f"{min(errors)}…{sorted(errors)[len(errors) // 2]}…{max(errors)} ms" if errors else "-"
                for errors in (result.start_errors_ms, result.end_errors_ms)
            ]
            print(
                f"{capture.parent.name}/{capture.name} {'records' if with_metadata else 'logs only'}: "
                f"{result.found}/{result.expected} attempts, {result.states_in_ladder}/{result.states_polled} polled "
                f"states, start {spread[0]}, end {spread[1]}"
            )
            for fault in result.faults[:20]:
                print(f"   {fault}")


if __name__ == "__main__":
    main(sys.argv[1:])
