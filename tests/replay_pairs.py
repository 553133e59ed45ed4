"""`whatif` against real clusters: the same timetable under two settings, predicted from one and measured in the other.

python -m tests.replay_pairs DIR      folders STORY-SETTING-RUN, made by `python -m infra.lab.pairs`

The prediction is made from the evidence of the runs under the story's first setting alone. What the others cost is
taken from their clients' own clocks. First waits are left out: when a process that starts is first heard of differs.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from infra.lab.pairs import GROUP, SETTINGS
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.situation import Situation, situation_of
from rebalance_audit.domain.replay.whatif import fit_of, option_of
from tests.captures import gathered
from tests.standstill_truth import true_standstill

FIRST = "range"
AFTER_THE_END_MS = 1_000


def situation(capture: Path) -> Situation:
    (evidence,) = [g for g in gathered(capture).groups if g.group_id == GROUP]
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    return situation_of(rows, max(r.ended_at_ms or 0 for r in rows) + AFTER_THE_END_MS)


def clients_seconds(capture: Path) -> float:
    truth = true_standstill(capture, GROUP)
    return truth.between_owners_seconds + truth.owner_idle_seconds


def runs_below(folder: Path) -> dict[tuple[str, str], list[Path]]:
    found: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for capture in sorted(folder.iterdir()):
        story, _, rest = capture.name.partition("-")
        setting = rest.rpartition("-")[0]
        if (capture / "origin.json").exists() and setting in SETTINGS:
            found[story, setting].append(capture)
    return found


def table(folder: Path) -> Iterator[str]:
    """One row per pair; a prediction is a median and a range over the runs under the first setting."""
    yield "| story, setting | fit | under A, clients s | predicted under B s | under B, clients s | better or worse |"
    yield "| --- | --- | --- | --- | --- | --- |"
    runs = runs_below(folder)
    for (story, setting), measured in sorted(runs.items()):
        if setting == FIRST or (story, FIRST) not in runs:
            continue
        before = [clients_seconds(capture) for capture in runs[story, FIRST]]
        after = [clients_seconds(capture) for capture in measured]
        medians, lowers, uppers, fits = [], [], [], []
        for capture in runs[story, FIRST]:
            told = situation(capture)
            fit = fit_of(told)
            fits.append("refused" if fit.refused else f"{fit.causes:.0%}")
            option = option_of(told, list(SETTINGS[setting].asked))
            if option.cost is None or option.cost_seconds is None:
                continue
            first_s = option.cost.first_wait_seconds
            medians.append(option.cost_seconds - first_s)
            lowers.append((option.cost_lower_seconds or 0.0) - first_s)
            uppers.append((option.cost_upper_seconds or 0.0) - first_s)
        if not medians:
            continue
        predicted, really = statistics.mean(medians), statistics.mean(after)
        told_better, is_better = predicted < statistics.mean(before), really < statistics.mean(before)
        yield (
            f"| {story}, {setting} | {', '.join(fits)} | {_listed(before)} | {predicted:.1f} ({min(lowers):.1f} … "
            f"{max(uppers):.1f}) | {_listed(after)} | {'right' if told_better == is_better else 'WRONG'} |"
        )


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


if __name__ == "__main__":
    for line in table(Path(sys.argv[1])):
        print(line)
