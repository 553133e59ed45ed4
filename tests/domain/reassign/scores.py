"""What a capture's reconstruction says against what was expected by hand, what the cluster itself had written, and what
the admin API was seen to say.

    python -m tests.domain.reassign.scores [--failures] [CAPTURE…]      captures: the golden ones, those below captures/

Evidence: `metadata log` = with all logs; `all logs` = those of controllers and brokers; `controllers` = theirs.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from ingest.evidence import read_evidence
from rebalance_audit.domain.reassign import Reassignment, ReassignmentHistory
from rebalance_audit.domain.reassign.history import reassignment_history
from rebalance_audit.domain.reassign.lines import LogLines
from tests.truth import written_events

Event = dict[str, Any]
State = tuple[tuple[int, ...], int | None, frozenset[int]]

ROOT = Path(__file__).parents[3]
RECORDS, LOGS, CONTROLLERS = "metadata log", "all logs", "controllers"
LINE_LIMIT_MS = 100
"""How far a line's time may be from that of the write it shows."""
POLL_MS = 100


@dataclass(slots=True)
class Score:
    """How one capture did, or several; `faults` is empty when everything agrees."""

    expected: int = 0
    found: int = 0
    invented: int = 0
    ladders_exact: int = 0
    stalls: int = 0
    stalls_right: int = 0
    start_errors_ms: list[int] = field(default_factory=list)
    step_errors_ms: list[int] = field(default_factory=list)
    end_errors_ms: list[int] = field(default_factory=list)
    elections: int = 0
    elections_right: int = 0
    states_polled: int = 0
    states_in_ladder: int = 0
    faults: list[str] = field(default_factory=list)

    def __iadd__(self, other: Score) -> Score:
        for each in fields(Score):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))
        return self

    @property
    def errors_ms(self) -> list[int]:
        return [*self.start_errors_ms, *self.step_errors_ms, *self.end_errors_ms]


@dataclass(frozen=True, slots=True)
class Written:
    """One attempt as the cluster's own writes show it: (since, state), the first from before the request."""

    states: tuple[tuple[int, State], ...]
    ended_at_ms: int | None
    starts_unwritten: bool = False
    """Nothing was written when it began."""


def evidence_of(capture: Path) -> tuple[str, ...]:
    is_kraft = bool(list(capture.glob("data/*/__cluster_metadata-0")))
    return (RECORDS, LOGS, CONTROLLERS) if is_kraft else (LOGS,)


def history_of(capture: Path, evidence: str = RECORDS) -> ReassignmentHistory:
    records = read_evidence(capture).metadata() if evidence == RECORDS else ()
    wanted = (
        line
        for line in read_evidence(capture).lines()
        if evidence != CONTROLLERS or line.node.startswith("controller-")
    )
    lines = LogLines().read(wanted).in_order()
    return reassignment_history(records, lines, cluster_id="lab")


def truth_of(capture: Path) -> dict[str, list[Event]]:
    """Events by kind, in order."""
    events: dict[str, list[Event]] = defaultdict(list)
    for event in written_events(capture):
        events[event["event"]].append(event)
    return events


def score(capture: Path, evidence: str = RECORDS) -> Score:
    history, events = history_of(capture, evidence), truth_of(capture)
    expected: dict[str, list[Event]] = defaultdict(list)
    for event in events["expected_reassignment"]:
        expected[event["tp"]].append(event)
    found: dict[str, list[Reassignment]] = defaultdict(list)
    for r in history.reassignments:
        found[r.name].append(r)
    result = Score()
    for tp in sorted(expected.keys() | found.keys()):
        of_tp = {kind: [e for e in each if e.get("tp") == tp] for kind, each in events.items()}
        _compare(tp, expected[tp], found[tp], of_tp, result, limit_ms=0 if evidence == RECORDS else LINE_LIMIT_MS)
    _elections(history, events, result)
    return result


def _elections(history: ReassignmentHistory, events: dict[str, list[Event]], score: Score) -> None:
    """Every change of leader that was written has its row, none is invented, and those that were asked for say so."""
    asked = {tp for e in events["asked"] if e["command"].startswith("elect ") for tp in e["command"].split()[1:]}
    by_tp: dict[str, list[Event]] = defaultdict(list)
    for e in events["written"]:
        by_tp[e["tp"]].append(e)
    written = Counter(
        (tp, a["leader"], b["leader"])
        for tp, rows in by_tp.items()
        for a, b in pairwise(rows)
        if a["leader"] != b["leader"]
    )
    rows = [e for e in history.elections if not e.topic.startswith("__") and e.previous_leader != e.elected]
    found = Counter((f"{e.topic}-{e.partition}", e.previous_leader, e.elected) for e in rows)
    score.elections += written.total()
    score.elections_right += (written & found).total()
    score.faults += [f"{tp}: leader {a} → {b} not found" for tp, a, b in written - found]
    score.faults += [f"{tp}: leader {a} → {b} invented" for tp, a, b in found - written]
    by_tool = {f"{e.topic}-{e.partition}" for e in rows if e.cause == "tool"}
    score.faults += [f"{tp}: by a tool, or not" for tp in sorted(by_tool ^ asked)]


def _compare(
    tp: str, expected: list[Event], found: list[Reassignment], events: dict[str, list[Event]], score: Score, *,
    limit_ms: int,
) -> None:  # fmt: skip
    score.expected += len(expected)
    wanted = [(e["original"], e["target"], e["outcome"]) for e in expected]
    got = [(list(r.original_replicas or ()), list(r.target_replicas or ()), r.outcome) for r in found]
    if wanted != got:
        score.faults.append(f"{tp}: expected {wanted}, found {got}")
        same = sum(1 for each in wanted if each in got)
        score.found += same
        score.invented += len(got) - same
        return
    score.found += len(found)
    for want, r, written in zip(expected, found, _written_attempts(expected, events), strict=True):
        name = f"{tp} → {want['target']}"
        if "stalled_by" in want or r.blocked_by is not None:
            score.stalls += 1
            was = (want.get("stalled_by"), want.get("stalled_replicas"))
            is_right = (r.blocked_by, list(r.blocked_replicas)) == was
            score.stalls_right += is_right
            if not is_right:
                score.faults.append(f"{name}: stalled by {r.blocked_by} {list(r.blocked_replicas)}, was {was}")
        if "controller_changes" in want and r.controller_changes != want["controller_changes"]:
            score.faults.append(f"{name}: {r.controller_changes} controller changes")
        _ladder(name, r, written, score, limit_ms)
    _polled(tp, found, events, score)


def _written_attempts(expected: Sequence[Event], events: dict[str, list[Event]]) -> Iterator[Written]:
    """Each begins where the assignment changes, and ends where it changes next, or goes with the topic."""
    rows = [*events.get("written", ()), *events.get("removed", ())]
    rows.sort(key=lambda e: e["at_ms"])
    changes = [i for i, (a, b) in enumerate(pairwise(rows), start=1) if _assignment(a) != _assignment(b)]
    at = 0
    for want in expected:
        begin = changes[at]
        # Up to 2.3 nothing says what is being added and removed.
        is_moving = rows[begin]["adding"] or rows[begin]["removing"] or rows[begin]["replicas"] != want["target"]
        is_at_once = not is_moving
        end = begin if is_at_once else changes[at + 1]
        at += 1 if is_at_once or want["outcome"] == "superseded" else 2
        states: list[tuple[int, State]] = []
        first = begin - 1
        starts_unwritten = is_at_once and set(want["target"]) < set(rows[first]["replicas"])
        while starts_unwritten and rows[first]["at_ms"] > want["at_ms"]:
            first -= 1  # up to 2.3 replicas that go leave the in-sync ones first, and the list at the end
        for row in rows[first : end + 1]:
            if row["event"] == "written" and (not states or states[-1][1] != _state(row)):
                states.append((row["at_ms"], _state(row)))
        yield Written(tuple(states), rows[end]["at_ms"], starts_unwritten)


def _assignment(row: Event) -> object:
    return row.get("replicas"), row.get("adding"), row.get("removing")


def _state(row: Event) -> State:
    return tuple(row["replicas"]), row["leader"], frozenset(row["isr"])


def _ladder(name: str, r: Reassignment, written: Written, score: Score, limit_ms: int) -> None:
    ours = [(s.replicas, s.leader, frozenset(s.isr)) for s in r.steps]
    theirs = [state for _, state in written.states]
    if ours != theirs:
        shown = "\n      ".join(f"{_text(state)}{'' if state in theirs else '  <- never written'}" for state in ours)
        missing = ", ".join(_text(state) for state in theirs if state not in ours)
        score.faults.append(f"{name}: ladder\n      {shown}\n      lacks {missing or 'none, but the order'}")
        return
    score.ladders_exact += 1
    errors = [(step.at_ms or 0) - at_ms for step, (at_ms, _) in zip(r.steps, written.states, strict=True)][1:]
    end_error_ms = (r.ended_at_ms or 0) - (written.ended_at_ms or 0)
    if not written.starts_unwritten:
        score.start_errors_ms.append((r.started_at_ms or 0) - written.states[1][0])
    score.step_errors_ms += errors[1:]
    score.end_errors_ms.append(end_error_ms)
    for at, error_ms in enumerate([*errors, end_error_ms], start=1):
        if abs(error_ms) > limit_ms:
            score.faults.append(f"{name}: step {at} of {len(errors)} is {error_ms} ms from when it was written")
    fewest = min(len(r.original_replicas or ()), len(r.target_replicas or ()))
    for what, found_ms, wanted in (
        ("under replicated", r.under_replicated_ms, fewest),
        ("under min.insync.replicas", r.under_min_isr_ms, r.min_insync_replicas or 0),
    ):
        if abs(found_ms - (was_ms := _too_few_ms(written, wanted))) > 2 * limit_ms:
            score.faults.append(f"{name}: {what} for {found_ms} ms, was {was_ms}")


def _too_few_ms(written: Written, wanted: int) -> int:
    until = [*(at_ms for at_ms, _ in written.states[2:]), written.ended_at_ms or 0]
    spans = zip(written.states[1:], until, strict=True)
    return sum(until_ms - at_ms for (at_ms, (_, _, isr)), until_ms in spans if len(isr) < wanted)


def _polled(tp: str, found: Sequence[Reassignment], events: dict[str, list[Event]], score: Score) -> None:
    """Every polled state is one of ours (states may be too short to be polled), and never older than its step."""
    since: dict[State, int] = {}
    for step in (step for r in found for step in r.steps):
        since.setdefault((step.replicas, step.leader, frozenset(step.isr)), step.at_ms or 0)
    start_ms = min((r.started_at_ms for r in found if r.started_at_ms is not None), default=0)
    end_ms = max((r.ended_at_ms for r in found if r.ended_at_ms is not None), default=0)
    for e in events.get("state", ()):
        if start_ms < e["at_ms"] <= end_ms + POLL_MS:
            score.states_polled += 1
            state = _state(e)
            if state not in since:
                score.faults.append(f"{tp}: polled {_text(state)}, which is no step")
            elif e["at_ms"] < since[state] - LINE_LIMIT_MS - POLL_MS:
                score.faults.append(f"{tp}: polled {_text(state)} {since[state] - e['at_ms']} ms before its step")
            else:
                score.states_in_ladder += 1


def _text(state: State) -> str:
    replicas, leader, isr = state
    return f"[{','.join(map(str, replicas))}] leader {leader} in sync {{{','.join(map(str, sorted(isr)))}}}"


HEADER = (
    "| capture | evidence | attempts found, missed, invented | ladders exact, of | stall reasons right, of "
    "| leaders right, of | start ms (median, worst) | steps ms (median, worst) | end ms (median, worst) | beyond "
    f"{LINE_LIMIT_MS} ms, of | polled states in the ladder, of |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def line(name: str, evidence: str, s: Score) -> str:
    beyond = sum(1 for each in s.errors_ms if abs(each) > LINE_LIMIT_MS)
    cells = (
        name, evidence, f"{s.found}, {s.expected - s.found}, {s.invented}", f"{s.ladders_exact}, {s.expected}",
        f"{s.stalls_right}, {s.stalls}", f"{s.elections_right}, {s.elections}", _spread(s.start_errors_ms),
        _spread(s.step_errors_ms), _spread(s.end_errors_ms), f"{beyond}, {len(s.errors_ms)}",
        f"{s.states_in_ladder}, {s.states_polled}",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def _spread(errors_ms: Sequence[int]) -> str:
    return f"{statistics.median(errors_ms):.0f}, {max(errors_ms, key=abs)}" if errors_ms else "–"


def main(arguments: Sequence[str]) -> int:
    """Prints a table; 1 if the metadata log was misread, or logs invented something."""
    named = [Path(a) for a in arguments if not a.startswith("-")]
    everything = [
        path for folder in ("tests/golden", "captures") for path in sorted((ROOT / folder).glob("*/reassign_*"))
    ]
    captures = named or list({(c.parent.name, c.name): c for c in reversed(everything)}.values())[::-1]
    totals: dict[str, Score] = defaultdict(Score)
    counts: Counter[str] = Counter()
    print(HEADER)
    for capture in captures:
        mode = "KRaft" if RECORDS in evidence_of(capture) else "ZooKeeper"
        for evidence in evidence_of(capture):
            result = score(capture, evidence)
            kind = f"{mode}: {evidence}"
            print(line(f"{capture.parent.name} {capture.name}", kind, result), flush=True)
            if "--failures" in arguments:
                for fault in result.faults[:20]:
                    print(f"    {fault}")
            totals[kind] += result
            counts[kind] += 1
    for kind, total in totals.items():
        print(line(f"**{counts[kind]} captures**", kind, total))
    is_wrong = totals[f"KRaft: {RECORDS}"].faults or any(total.invented for total in totals.values())
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
