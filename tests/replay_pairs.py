"""`whatif` against real clusters: the same timetable under two settings, predicted from one and measured in the other.

python -m tests.replay_pairs DIR...      every capture below DIR that `python -m infra.lab.pairs` made

A pair is one story under its first setting (A) and under another (B), with one library on one version of the brokers,
each run several times. The prediction is made from the evidence of A's runs alone. What the runs cost is taken from
their clients' own clocks. First waits are left out, of costs and of savings: when a process that starts is first heard
of differs.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from infra.lab.pairs import FIRST, GAP_S, RESTART_S, SETTINGS, pair_group
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import GroupEvidence
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.deploys import deploys_of
from rebalance_audit.domain.replay.requests import RequestError
from rebalance_audit.domain.replay.situation import Situation, situation_of
from rebalance_audit.domain.replay.whatif import Option, fit_of, option_of
from tests.captures import gathered
from tests.replay_ceiling import (
    CLOSE_SECONDS,
    CLOSE_SHARE,
    ceiling_of,
    chance_of_wide,
    own_spread,
    pooled_spread,
)
from tests.standstill_truth import true_connect_standstill, true_standstill
from tests.truth import scenario

AFTER_THE_END_MS = 1_000


@dataclass(frozen=True, slots=True)
class Side:
    """One run of one side of a pair."""

    truth_seconds: float
    evidence: GroupEvidence


@dataclass(frozen=True, slots=True)
class Pair:
    """All seconds without first waits; `lower` and `upper` are the predicted bounds of B's cost."""

    story: str
    under: str
    """The setting of A's runs."""
    asked: tuple[str, ...]
    """B's settings, as they are asked for from A's."""
    library: str
    version: str
    before: Sequence[float]
    after: Sequence[float]
    predicted: float
    lower: float
    upper: float
    saved_lower: float
    saved_upper: float
    refused: str | None

    @property
    def measured(self) -> float:
        return statistics.mean(self.after)

    @property
    def is_inside(self) -> bool:
        return self.lower <= self.measured <= self.upper

    @property
    def is_close(self) -> bool:
        return abs(self.predicted - self.measured) <= max(CLOSE_SECONDS, CLOSE_SHARE * self.measured)

    @property
    def is_wide(self) -> bool:
        """Its range is wider than twice what the runs of either side differ by."""
        return self.upper - self.lower > 2 * max(max(runs) - min(runs) for runs in (self.before, self.after))

    @property
    def is_met(self) -> bool:
        """All that is asked of a pair holds at once."""
        return self.refused is None and self.is_inside and self.is_close and not (self.is_wide or self.confuses)

    @property
    def confuses(self) -> bool:
        """It says that B saves where B's every run cost more than A's every run, or the other way round."""
        is_dearer, is_cheaper = min(self.after) > max(self.before), max(self.after) < min(self.before)
        return (is_dearer and self.saved_lower > 0) or (is_cheaper and self.saved_upper < 0)


def sides_below(folder: Path) -> dict[tuple[str, str, str, str], list[Side]]:
    """Runs by (story, setting, library, version), in the order of their names."""
    found: dict[tuple[str, str, str, str], list[Side]] = defaultdict(list)
    for origin in sorted(folder.rglob("origin.json")):
        capture = origin.parent
        version = scenario(capture)["kafka_version"]
        for evidence in sorted(gathered(capture).groups, key=lambda g: g.group_id):
            group = pair_group(evidence.group_id)
            if group is None:
                continue
            truth = (
                true_connect_standstill(capture)
                if group.is_connect
                else true_standstill(capture, evidence.group_id, counts_outages=True)
            )
            seconds = truth.between_owners_seconds + truth.owner_idle_seconds
            found[group.story, group.setting, group.library, version].append(Side(seconds, evidence))
    return found


def situation(evidence: GroupEvidence) -> Situation:
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    return situation_of(rows, max(r.ended_at_ms or 0 for r in rows) + AFTER_THE_END_MS, marks=evidence.marks)


def pairs_of(sides: Mapping[tuple[str, str, str, str], Sequence[Side]]) -> Iterator[Pair]:
    situations: dict[int, Situation] = {}
    for (story, name, library, version), after in sorted(sides.items()):
        setting = SETTINGS[name]
        compared = {setting.under: setting.asked} if setting.asked else {}
        for under, asked in {**compared, **setting.also_under}.items():
            first = sides.get((story, under, library, version), ())
            if first:
                options, refused = _options(first, asked, situations)
                yield _pair((story, under, asked, library, version), first, after, options, refused)


def _options(
    first: Sequence[Side], asked: Sequence[str], situations: dict[int, Situation]
) -> tuple[list[tuple[Option, float]], str | None]:
    """What each of A's runs says of B's setting, with the seconds of A's first waits; and why one says nothing."""
    options: list[tuple[Option, float]] = []
    refused: str | None = None
    for side in first:
        from_a = situations.setdefault(id(side), situation(side.evidence))
        fit = fit_of(from_a)
        if fit.refused is not None:
            refused = fit.refused
            continue
        try:
            option = option_of(from_a, [_as_seen(pair, from_a) for pair in asked])
        except RequestError as error:
            refused = str(error)
            continue
        if option.refused is None:
            options.append((option, from_a.measured.cost.first_wait_seconds))
        refused = option.refused or refused
    return options, refused


def _as_seen(asked: str, from_a: Situation) -> str:
    """A deploy's times as A's history has them, changed by what B's timetable changes: a history sees a process when it
    asks to join, some tenths of a second after its start (a JVM on a busy machine: 3 s), and the timetable does not."""
    name, _, value = asked.partition("=")
    deploys = deploys_of(from_a.script)
    if name == "deploy.restart":
        seen_ms = [restart.away_ms for deploy in deploys for restart in deploy]
        planned_s = RESTART_S
    elif name == "deploy.gap":
        seen_ms = [b.closed_ms - a.started_ms for deploy in deploys for a, b in pairwise(deploy)]
        planned_s = GAP_S
    else:
        return asked
    later_ms = 1_000 * (float(value.removesuffix("s")) - planned_s)
    return f"{name}={max(0, round(statistics.median(seen_ms) + later_ms))}"


def _pair(
    key: tuple[str, str, tuple[str, ...], str, str],
    first: Sequence[Side],
    after: Sequence[Side],
    options: Sequence[tuple[Option, float]],
    refused: str | None,
) -> Pair:
    def mean(name: str, *, is_saving: bool = False) -> float:
        values = []
        for option, waited_before in options:
            waits = option.cost.first_wait_seconds if option.cost else 0.0
            values.append(getattr(option, name) + (waits - waited_before if is_saving else -waits))
        return statistics.mean(values) if values else 0.0

    return Pair(
        *key,
        before=[s.truth_seconds for s in first],
        after=[s.truth_seconds for s in after],
        predicted=mean("cost_seconds"),
        lower=max(0.0, mean("cost_lower_seconds")),
        upper=mean("cost_upper_seconds"),
        saved_lower=mean("saved_lower_seconds", is_saving=True),
        saved_upper=mean("saved_upper_seconds", is_saving=True),
        refused=refused if not options else None,
    )


def table(pairs: Sequence[Pair]) -> Iterator[str]:
    """One row per pair, the misses first."""
    yield "| story | setting | clients, brokers | under A s | predicted for B s | under B s | |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for pair in sorted(pairs, key=_place):
        predicted = f"{pair.predicted:.1f} ({pair.lower:.1f} … {pair.upper:.1f})"
        yield (
            f"| {pair.story} | {_said(pair)} | {pair.library}, {pair.version} | "
            f"{_listed(pair.before)} | {'nothing' if pair.refused else predicted} | {_listed(pair.after)} | "
            f"{_verdict(pair)} |"
        )
    said = [pair for pair in pairs if pair.refused is None]
    yield ""
    width = statistics.median((p.upper - p.lower) / max(p.measured, 1) for p in said)
    wide_by_chance = sum(chance_of_wide(p, 1, 1) for p in said)
    yield (
        f"{len(pairs)} pairs, {sum(len(p.after) for p in pairs)} runs under B: {len(pairs) - len(said)} refused; "
        f"inside the predicted range {sum(p.is_inside for p in said)} of {len(said)}, median within 20 % or 0.2 s "
        f"{sum(p.is_close for p in said)}, better and worse confused {sum(p.confuses for p in said)}. The range is "
        f"{width:.0%} of the cost wide in the median; wider than twice what the runs of either side differ by it is in "
        f"{sum(p.is_wide for p in said)}, by chance alone it would be in {wide_by_chance:.0f}."
    )
    of_libraries = _by_library(pairs, lambda library: str(sum(p.is_met for p in pairs if p.library == library)))
    yield (
        f"All three at once (mean inside, range not wide, median right) hold in {sum(p.is_met for p in pairs)} of "
        f"{len(pairs)}: {of_libraries}."
    )
    yield _ceiling(pairs)


def _ceiling(pairs: Sequence[Pair]) -> str:
    own, pooled = ceiling_of(pairs, own_spread), ceiling_of(pairs, pooled_spread(pairs))
    of_libraries = _by_library(
        pairs, lambda library: f"{own.by_library[library]:.0f} or {pooled.by_library[library]:.0f}"
    )
    return (
        f"A prediction without any fault would have all three in {own.mean:.0f} ({own.lower:.0f} … {own.upper:.0f}) of "
        f"{len(pairs)}, with the spread of each side's own runs, and in {pooled.mean:.0f} ({pooled.lower:.0f} … "
        f"{pooled.upper:.0f}) with that of all sides of its story and library: {of_libraries}."
    )


def _by_library(pairs: Sequence[Pair], met: Callable[[str], str]) -> str:
    counts = Counter(pair.library for pair in pairs)
    return ", ".join(f"{met(library)} of {count} of {library}" for library, count in counts.most_common())


def _place(pair: Pair) -> tuple[object, ...]:
    setting = next(name for name, s in SETTINGS.items() if pair.asked in (s.asked, *s.also_under.values()))
    return not _misses(pair), not pair.is_wide, pair.story, setting, pair.under, pair.library, pair.version


def _said(pair: Pair) -> str:
    """B's settings, and A's where these are not the story's first."""
    before = "" if pair.under == FIRST else f" (from `{pair.under}`)"
    return ", ".join(pair.asked) + before


def _verdict(pair: Pair) -> str:
    return ", ".join([*_misses(pair), *(["wide"] if pair.refused is None and pair.is_wide else [])])


def _misses(pair: Pair) -> list[str]:
    if pair.refused is not None:
        return [f"refused: {pair.refused}"]
    faults = [] if pair.is_inside else ["outside the range"]
    faults += [] if pair.is_close else [f"off by {pair.predicted / max(pair.measured, 0.001) - 1:+.0%}"]
    return faults + (["better and worse confused"] if pair.confuses else [])


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


if __name__ == "__main__":
    for folder in sys.argv[1:]:
        for line in table(list(pairs_of(sides_below(Path(folder))))):
            print(line)
