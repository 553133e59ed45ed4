"""`make score`: every capture reconstructed from all its evidence and from parts of it, against what its clients saw.

    python -m tests.score [--failures] [CAPTURE…]      captures: golden, in tests/not_yet and below captures/

Evidence: `all` = records and brokers' logs; `+clients` = and the clients' own logs; `records`, `logs` = those alone.
Connect: `+clients` = and the workers' logs; `logs` = the brokers' and the workers'.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any

from ingest.evidence import read_evidence
from ingest.sources import LogFile
from rebalance_audit.domain.gather.groups import gather
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Movement, Rebalance, SourceLine
from rebalance_audit.domain.reconstruct import Reconstruction, reconstruct
from tests import connect_scores, connect_truth
from tests.connect_scores import ConnectTally
from tests.domain.reassign import scores as reassignment_scores
from tests.truth import (
    Score,
    Step,
    TruePause,
    as_known,
    client_events,
    client_of_members,
    group_of_clients,
    scenario,
    score_pauses,
    true_pauses,
    true_steps,
)
from tests.window_scores import Window, table, windows

ROOT = Path(__file__).parents[1]
EVIDENCE = ("all", "+clients", "records", "logs")


@dataclass(slots=True)
class Tally:
    """Counts of one capture, or of several."""

    found: int = 0
    missed: int = 0
    invented: int = 0
    steps: int = 0
    steps_exact: int = 0
    steps_wrong: int = 0
    right: int = 0
    unknown: int = 0
    wrong: int = 0
    pauses: Score = field(default_factory=Score)
    windows: list[Window] = field(default_factory=list)
    connect: ConnectTally = field(default_factory=ConnectTally)
    remarks: list[str] = field(default_factory=list)

    def __iadd__(self, other: Tally) -> Tally:
        for name in ("found", "missed", "invented", "steps", "steps_exact", "steps_wrong", "right", "unknown", "wrong"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in (
            "pauses",
            "inside",
            "likely",
            "unbounded",
            "errors_ms",
            "widths_ms",
            "likely_widths_ms",
            "unmatched",
            "outside",
        ):
            setattr(self.pauses, name, getattr(self.pauses, name) + getattr(other.pauses, name))
        self.windows += other.windows
        self.connect += other.connect
        return self


@lru_cache(maxsize=4)
def reconstructed(capture: Path, evidence: str) -> Mapping[str, Reconstruction]:
    """By group, its rebalances measured, from one kind of evidence."""
    source = read_evidence(capture)
    lines: Iterable[SourceLine] = () if evidence == "records" else source.lines()
    if evidence == "+clients":
        lines = [*lines, *_client_lines(capture, source.cluster_id)]
    if evidence == "all":
        lines = (line for line in lines if not connect_scores.is_of_workers(line))
    gathered = gather(() if evidence == "logs" else source.records(), lines)
    found = {g.group_id: reconstruct(g) for g in gathered.groups}
    return {g: replace(r, rebalances=tuple(measure(row) for row in r.rebalances)) for g, r in found.items()}


def _client_lines(capture: Path, cluster_id: str) -> Iterator[SourceLine]:
    for path in sorted((capture / "truth" / "client-logs").glob("*/*.log*")):
        for line in LogFile(path.parent.name, path).lines():
            yield SourceLine(
                cluster_id=cluster_id, node=f"client-{path.parent.name}", file_name=line.file_name,
                file_id=line.file_id, byte=line.byte, text=line.text,
            )  # fmt: skip


def score(capture: Path, evidence: str, only: Collection[str] | None = None) -> Tally:
    """`only`: these groups of the scenario, and what is none of it; all without."""
    return score_of(capture, evidence, reconstructed(capture, evidence), only)


def score_of(
    capture: Path, evidence: str, every: Mapping[str, Reconstruction], only: Collection[str] | None = None
) -> Tally:
    """`every`: what was reconstructed of the capture, by group."""
    groups = scenario(capture)["groups"]
    left_out = set() if only is None else groups.keys() - set(only)
    shown = {g: found for g, found in every.items() if g not in left_out}
    groups = {g: story for g, story in groups.items() if g not in left_out}
    found = {group_id: list(group.rebalances) for group_id, group in shown.items()}
    tally = Tally()
    for group_id, story in groups.items():
        rows = found.get(group_id, [])
        _score_rows(tally, group_id, story, rows, records_only=evidence == "records")
    for group_id in found.keys() - groups.keys():
        tally.invented += len(found[group_id])
        tally.remarks += [f"{group_id!r} is not a group of the scenario"] if found[group_id] else []
    for group_id in set(connect_groups(capture)) - left_out:
        tally.connect = connect_scores.score_connect(capture, shown.get(group_id))
        tally.remarks += tally.connect.remarks
    watched, pauses, steps = watched_and_true(capture, shown)
    pauses = [p for p in pauses if p.group_id not in left_out]
    steps = {place: chain for place, chain in steps.items() if place[0] not in left_out}
    _score_steps(tally, steps, steps_of(watched))
    tally.pauses = score_pauses(watched, pauses)
    tally.windows = windows(watched, pauses)
    tally.remarks += [
        f"{p.resource} {p.from_client}→{p.to_client} stood still {p.pause_ms} ms, shown "
        f"[{m.pause_lower_ms} {m.pause_estimate_ms} {m.pause_upper_ms}] {m.pause_detail}"
        for p, m, _ in tally.pauses.outside
    ]
    if evidence != "logs":
        tally.remarks += [
            f"{p.resource} {p.from_client}→{p.to_client}: a pause of {p.pause_ms} ms not shown"
            for p in tally.pauses.unmatched
        ]
    return tally


def connect_groups(capture: Path) -> list[str]:
    """Those whose tasks keep a journal; MirrorMaker's own keep none."""
    if not connect_truth.true_runs(capture):
        return []
    return [g for g, story in scenario(capture)["groups"].items() if story.get("protocol_type") == "connect"]


def watched_and_true(
    capture: Path, shown: Mapping[str, Reconstruction]
) -> tuple[list[Rebalance], list[TruePause], dict[tuple[str, str], list[Step]]]:
    """Rebalances whose members kept a journal, and what stands in it: pauses and steps, in the names that they use."""
    groups = scenario(capture)["groups"]
    events, group_of = client_events(capture), group_of_clients(capture)
    name_of = client_of_members(capture)
    watched = [
        replace(r, movements=tuple(_named(m, name_of) for m in r.movements))
        for g, found in shown.items()
        if _has_callbacks(groups.get(g, {}))
        for r in found.rebalances
    ]
    pauses, steps = as_known(capture, true_pauses(events, group_of), true_steps(events, group_of))
    for group_id in connect_groups(capture):
        found = shown[group_id].rebalances if group_id in shown else ()
        watched += connect_scores.with_worker_names(found, capture)
        pauses += connect_truth.true_pauses(capture, group_id)
        steps |= connect_truth.true_steps(capture, group_id)
    return watched, pauses, steps


def _named(movement: Movement, name_of: Mapping[str, str]) -> Movement:
    """With the clients of its members, where evidence names members alone."""
    if movement.to_client_id is not None or movement.from_client_id is not None:
        return movement
    old, new = (name_of.get(m or "") for m in (movement.from_member_id, movement.to_member_id))
    return replace(movement, from_client_id=old, to_client_id=new)


def _has_callbacks(story: dict[str, Any]) -> bool:
    """Share consumers do not learn what they are given; Connect's tasks have journals instead."""
    return story.get("group_type") != "share" and story.get("protocol_type") != "connect"


def _score_rows(
    tally: Tally, group_id: str, story: dict[str, Any], rows: Sequence[Rebalance], *, records_only: bool
) -> None:
    expected = story["rebalances"]
    if records_only:
        expected = [x for x in without_used_again(story) if x["outcome"] != "open"]
    # A generation that never got a record is a number missing to who sees records alone; epochs have theirs at once.
    without = (
        {"superseded": "missing", "failed": "missing"} if records_only and story.get("group_type") == "classic" else {}
    )
    shown = [(r.generation_id if r.generation_id is not None else r.group_epoch, r.kind, r.outcome) for r in rows]
    # From 4.0 on a record that was refused is in the log, and may show what became of it.
    told = [(x["number"], x["kind"], x["outcome"]) for x in expected]
    wanted = [one if one in shown else (*one[:2], without.get(one[2], one[2])) for one in told]
    matches = SequenceMatcher(None, wanted, shown, autojunk=False).get_matching_blocks()
    pairs = [(a + i, b + i) for a, b, size in matches for i in range(size)]
    tally.found += len(pairs)
    tally.missed += len(wanted) - len(pairs)
    tally.invented += len(shown) - len(pairs)
    name = group_id[:24].replace("\n", "⏎")
    tally.remarks += [f"{name}: missed {wanted[i]}" for i in range(len(wanted)) if i not in {a for a, _ in pairs}]
    tally.remarks += [
        f"{name}: invented {shown[i]} {rows[i].trigger}" for i in range(len(shown)) if i not in {b for _, b in pairs}
    ]
    for a, b in pairs:
        right = {expected[a]["trigger"], expected[a].get("or_trigger")}
        if rows[b].trigger in right:
            tally.right += 1
        elif rows[b].trigger == "unknown":
            tally.unknown += 1
            tally.remarks.append(f"{name} {shown[b][0]}: unknown, was {expected[a]['trigger']}")
        else:
            tally.wrong += 1
            tally.remarks.append(f"{name} {shown[b][0]}: {rows[b].trigger}, was {expected[a]['trigger']}")


def without_used_again(story: dict[str, Any]) -> list[dict[str, Any]]:
    """The rebalances of the script without those that wrote nothing and whose number is used again: preparations that
    came to nothing, and generations whose coordinator lost them between their join phase and their record."""
    rows = story["rebalances"]
    is_classic = story.get("group_type") == "classic"
    used = [x["number"] for x in rows]
    is_again = [
        (x["outcome"] == "failed" and x["number"] in used[at + 1 :])
        or (is_classic and x["outcome"] == "superseded" and used[at + 1 : at + 2] == [x["number"]])
        for at, x in enumerate(rows)
    ]
    return [x for x, again in zip(rows, is_again, strict=True) if not again]


def steps_of(rebalances: Iterable[Rebalance]) -> dict[tuple[str, str], list[Step]]:
    """By (group, resource): every time a rebalance says it was handed out."""
    steps: dict[tuple[str, str], list[Step]] = {}
    for rebalance in rebalances:
        for movement in rebalance.movements:
            if movement.kind in ("assigned", "moved", "returned") and movement.to_client_id is not None:
                key = (rebalance.group_id, movement.resource)
                steps.setdefault(key, []).append((movement.from_client_id, movement.to_client_id))
    return steps


def _score_steps(
    tally: Tally, truth: dict[tuple[str, str], list[Step]], shown: dict[tuple[str, str], list[Step]]
) -> None:
    for key in truth.keys() | shown.keys():
        wanted, found = truth.get(key, []), shown.get(key, [])
        exact = sum(block.size for block in SequenceMatcher(None, wanted, found, autojunk=False).get_matching_blocks())
        tally.steps += len(wanted)
        tally.steps_exact += exact
        tally.steps_wrong += len(found) - exact
        if found and wanted != found:
            tally.remarks.append(f"{key[1]} was handed out {_chain(wanted)}, shown {_chain(found)}")


def _chain(steps: Sequence[Step]) -> str:
    return " ".join(f"{a or '·'}→{b}" for a, b in steps) or "never"


HEADER = (
    "| capture | evidence | generations found, missed, invented | movements exact, of, wrong "
    "| trigger right, unknown, wrong | pauses inside, measured, of | error median, p95 ms | width median ms | open |\n"
    "|---|---|---|---|---|---|---|---|---|"
)


def line(name: str, evidence: str, t: Tally) -> str:
    p = t.pauses
    measured = p.pauses - len(p.unmatched)
    errors, widths = sorted(p.errors_ms), p.widths_ms
    error = f"{statistics.median(errors):.0f}, {errors[ceil(0.95 * len(errors)) - 1]}" if errors else "–"
    width = f"{statistics.median(widths):.0f}" if widths else "–"
    cells = (
        name, evidence, f"{t.found}, {t.missed}, {t.invented}", f"{t.steps_exact}, {t.steps}, {t.steps_wrong}",
        f"{t.right}, {t.unknown}, {t.wrong}", f"{p.inside}, {measured}, {p.pauses}", error, width, str(p.unbounded),
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def likely_lines(totals: Mapping[str, Tally]) -> list[str]:
    """Markdown: pauses inside their likely ranges. `python -m tests.likely` checks them on captures they were not made
    from, and costs as well."""
    lines = ["| pauses inside their likely range | inside | of | share | median width, ms |", "|---|---|---|---|---|"]
    for evidence, tally in totals.items():
        p = tally.pauses
        if p.likely_widths_ms:
            count = len(p.likely_widths_ms)
            width = f"{statistics.median(p.likely_widths_ms):.0f}"
            lines.append(f"| {evidence} | {p.likely} | {count} | {p.likely / count:.1%} | {width} |")
    return lines


def captures_below(folder: Path) -> list[Path]:
    found = sorted(path.parent.parent for path in folder.glob("**/truth/scenario.json"))
    # Reassignments have no groups to score.
    return [capture for capture in found if scenario(capture).get("groups")]


def all_captures() -> list[Path]:
    """The golden ones, those in `not_yet` of which something is still wrong, and those that are not kept."""
    return [found for place in ("tests/golden", "tests/not_yet", "captures") for found in captures_below(ROOT / place)]


def main(arguments: Sequence[str]) -> int:
    """Exit 1 if a generation is missed or invented, a cause or a movement wrong, or a pause outside its bounds."""
    is_talkative = "--failures" in arguments
    named = [Path(a) for a in arguments if not a.startswith("-")]
    # A golden capture may have been kept from captures/: it counts once.
    everything = all_captures()
    captures = named or list({(c / "meta.json").read_text(): c for c in reversed(everything)}.values())[::-1]
    totals = {evidence: Tally() for evidence in EVIDENCE}
    connect_lines: list[str] = []
    print(HEADER)
    for capture in captures:
        name = f"{capture.parent.name} {capture.name}"
        for evidence in EVIDENCE:
            tally = score(capture, evidence)
            totals[evidence] += tally
            print(line(name, evidence, tally), flush=True)
            if tally.connect.runs:
                connect_lines.append(connect_scores.line(name, evidence, tally.connect))
            if is_talkative:
                for remark in tally.remarks:
                    print(f"    {remark}")
    for evidence, tally in totals.items():
        print(line(f"**{len(captures)} captures**", evidence, tally))
    print("", table(totals["all"].windows), sep="\n")
    print("", *likely_lines(totals), sep="\n")
    print("", connect_scores.HEADER, *connect_lines, sep="\n")
    for evidence, tally in totals.items():
        print(connect_scores.line("**together**", evidence, tally.connect))
    with_logs = totals["all"]
    faults = with_logs.connect.stops_missed + sum(
        t.invented + t.wrong + t.steps_wrong + len(t.pauses.outside) + t.connect.faults for t in totals.values()
    )
    print()
    of_reassignments = 0 if named else reassignment_scores.main([a for a in arguments if a.startswith("-")])
    return 1 if with_logs.missed or faults else of_reassignments


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
