"""How far estimates lie from the truth, and how many truths the likely ranges hold: docs/measured.md#likely-ranges.

    python -m tests.likely [FOLDER…]    the table of measure/errors.py from all captures, and how many truths of each
                                        capture the table of the others holds; of captures below FOLDER (blind ones),
                                        how many the table in the code holds

The truth is what clients and tasks wrote down on the brokers' clock.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rebalance_audit.domain.incidents import ClusterRows, incidents_of
from rebalance_audit.domain.kinds import Basis
from rebalance_audit.domain.measure import likely
from rebalance_audit.domain.measure.errors import ALL, ANYWHERE, ERRORS, Spread
from rebalance_audit.domain.measure.marks import best_estimate
from rebalance_audit.domain.measure.pauses import Instant, instant, measure
from rebalance_audit.domain.model import Rebalance, changed
from rebalance_audit.domain.numbers import cost_of, happened_at_ms
from rebalance_audit.domain.ranges import Range, of_one_group
from tests.score import EVIDENCE, all_captures, captures_below, reconstructed, watched_and_true
from tests.truth import CLOCK_GRAIN_MS, Match, TruePause, library_of_clients, matched

FEW = 20
"""Of fewer instants the furthest seen count."""
WIDENED = 5
"""The furthest of n instants is taken to lie n + 5 n-ths away: another one lies further once in n + 1 times."""
TAIL = 0.08
"""So many truths beyond each end of an instant leave nine of ten pauses inside."""
ERROR_OF_TAIL = 0.5
"""Instants of one capture err together, so a share of them is only known as of so many captures: the tail is less by
half its standard error."""


OF_SARAMA: Mapping[str, Callable[[TruePause], str]] = {
    Basis.COMMIT_AFTER_FETCHES: lambda pause: pause.from_client,
    Basis.TAKEN_AWAY_AFTER_FETCHES: lambda pause: pause.from_client,
    Basis.DELIVERY_AFTER_FETCHES: lambda pause: pause.to_client,
}
"""Kinds that are measured on sarama's members alone, and whose habit it is."""


class Sample(NamedTuple):
    """One instant as estimated and as it was."""

    basis: Basis
    error_ms: int
    """Truth less estimate."""
    capture: str
    true_ms: int
    """Partitions that go together share it."""
    share: float | None
    """Of the time in which it must have been, if there is one: how much of it was over."""


@dataclass(slots=True)
class Coverage:
    """Truths inside their likely ranges, of pauses and of costs."""

    inside: int = 0
    count: int = 0
    widths: list[float] = field(default_factory=list)
    """Of pauses in ms, of costs as shares of the estimate: half the width."""

    def add(self, truth: float, lower: float, upper: float, grain: float, width: float | None) -> None:
        self.inside += lower - grain <= truth <= upper + grain
        self.count += 1
        if width is not None:
            self.widths.append(width)


@cache
def matches(capture: Path, evidence: str) -> tuple[Match, ...]:
    watched, pauses, _ = watched_and_true(capture, reconstructed(capture, evidence))
    return tuple(matched(watched, pauses)[0])


def samples(capture: Path) -> Iterator[Sample]:
    """What is said of members that may be sarama's is sarama's habit: others that may be taken for it would only make
    it look surer."""
    library_of = library_of_clients(capture)
    for evidence in EVIDENCE:
        for pause, _, movement in matches(capture, evidence):
            for marks, true_ms in (
                (movement.stop_marks, pause.stopped_at_ms),
                (movement.resume_marks, pause.resumed_at_ms),
            ):
                best, seen = best_estimate(marks), instant(marks)
                if best is not None and seen.estimate is not None:
                    assert best.basis is not None, f"an estimate without a kind: {best.detail}"
                    owner = OF_SARAMA[best.basis](pause) if best.basis in OF_SARAMA else None
                    if owner is not None and library_of.get((pause.group_id, owner)) != "sarama":
                        continue
                    yield Sample(
                        Basis(best.basis), true_ms - seen.estimate, str(capture), true_ms, _share(seen, true_ms)
                    )


def _share(seen: Instant, true_ms: int) -> float | None:
    window = seen.window
    if window is None and seen.lower is not None and seen.upper is not None:
        window = seen.lower, seen.upper
    if window is None or window[1] <= window[0]:
        return None
    return (true_ms - window[0]) / (window[1] - window[0])


def errors(found: Iterable[Sample]) -> dict[Basis, Spread]:
    """By kind of evidence. A time in which the instant must lie is as the code has it where that is by reasoning alone,
    and as it was measured where it was measured often enough."""
    by_basis: dict[Basis, dict[tuple[str, int], list[Sample]]] = defaultdict(lambda: defaultdict(list))
    for s in found:
        by_basis[s.basis][s.capture, s.true_ms].append(s)
    return {basis: _spread(basis, instants) for basis, instants in by_basis.items()}


def _spread(basis: Basis, instants: Mapping[tuple[str, int], Sequence[Sample]]) -> Spread:
    values = sorted(statistics.median(s.error_ms for s in several) for several in instants.values())
    if len(values) < FEW:
        early, late = (v * (1 + WIDENED / len(values)) for v in (values[0], values[-1]))
    else:
        early, late = _ends(values, {capture for capture, _ in instants})
    window = ERRORS[basis].window
    if window is not None and window != ANYWHERE:
        window = _measured_window(instants)
    return Spread(max(-math.floor(early), 0), max(math.ceil(late), 0), len(values), window)


def _measured_window(instants: Mapping[tuple[str, int], Sequence[Sample]]) -> tuple[float, float]:
    """The shares of the time between which the truths lie; all of it where it was measured less than twenty times."""
    places = {key: [s.share for s in several if s.share is not None] for key, several in instants.items()}
    shares = sorted(statistics.median(several) for several in places.values() if several)
    if len(shares) < FEW:
        return ALL
    first, last = _ends(shares, {capture for (capture, _), several in places.items() if several})
    return max(math.floor(first * 100) / 100, 0.0), min(math.ceil(last * 100) / 100, 1.0)


def _ends(ascending: Sequence[float], captures: Collection[str]) -> tuple[float, float]:
    tail = max(TAIL - ERROR_OF_TAIL * math.sqrt(TAIL * (1 - TAIL) / len(captures)), 0)
    return _quantile(ascending, tail), _quantile(ascending, 1 - tail)


def _quantile(ascending: Sequence[float], share: float) -> float:
    place = share * (len(ascending) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (ascending[high] - ascending[low]) * (place - low)


PAUSES, OF_REBALANCES, OF_GROUPS = "pauses", "costs of rebalances", "costs of groups"
OF_INCIDENTS = "costs of incidents"
Kind = tuple[str, str]
"""(evidence, what is counted)."""


def coverage(captures: Iterable[Path], tables: Mapping[Path, Mapping[Basis, Spread]]) -> dict[Kind, Coverage]:
    """Of single pauses, all and by the library that let go, of rebalances' costs, of incidents' and of groups', each
    capture by its table of errors."""
    found: dict[Kind, Coverage] = defaultdict(Coverage)
    for capture in captures:
        likely.ERRORS = tables[capture]  # type: ignore[attr-defined]
        library_of = library_of_clients(capture)
        for evidence in EVIDENCE:
            costs: dict[str, list[tuple[float, Range]]] = defaultdict(list)
            of_rebalance: dict[str, tuple[float, Rebalance]] = {}
            for rebalance, some in _by_rebalance(matches(capture, evidence)).values():
                seen = measure(changed(rebalance, movements=tuple(m for _, _, m in some)))
                for (pause, _, _), m in zip(some, seen.movements, strict=True):
                    if m.pause_likely_lower_ms is not None and m.pause_likely_upper_ms is not None:
                        lower, upper = m.pause_likely_lower_ms, m.pause_likely_upper_ms
                        for counted in (PAUSES, library_of.get((pause.group_id, pause.from_client), "Connect")):
                            found[evidence, counted].add(pause.pause_ms, lower, upper, CLOCK_GRAIN_MS, upper - lower)
                cost = _cost(seen, some)
                if cost is not None:
                    _add_cost(found[evidence, OF_REBALANCES], *cost, len(some))
                    costs[rebalance.group_id].append(cost)
                    of_rebalance[rebalance.rebalance_id] = cost[0], seen
            for of_group in costs.values():
                total = of_one_group(r for _, r in of_group)
                assert total is not None
                _add_cost(found[evidence, OF_GROUPS], math.fsum(t for t, _ in of_group), total, len(of_group))
            for seen_by_clients in _of_incidents(capture, evidence, of_rebalance):
                truth, rebalances = math.fsum(t for t, _ in seen_by_clients), [r for _, r in seen_by_clients]
                of_all = cost_of(rebalances)
                assert of_all.estimate is not None
                assert of_all.likely_lower is not None
                assert of_all.likely_upper is not None
                shown = Range(of_all.estimate, of_all.lower, of_all.upper, of_all.likely_lower, of_all.likely_upper)
                _add_cost(found[evidence, OF_INCIDENTS], truth, shown, len(rebalances))
    likely.ERRORS = ERRORS  # type: ignore[attr-defined]
    return dict(found)


def _of_incidents(
    capture: Path, evidence: str, of_rebalance: Mapping[str, tuple[float, Rebalance]]
) -> Iterator[list[tuple[float, Rebalance]]]:
    """Of each incident those rebalances whose hand-overs clients saw: what they lost, and the rebalances."""
    groups = {group_id: list(r.rebalances) for group_id, r in reconstructed(capture, evidence).items()}
    now_ms = max((happened_at_ms(r) or 0 for rows in groups.values() for r in rows), default=0)
    for incident in incidents_of(ClusterRows(cluster_id="", now_ms=now_ms, groups=groups))[0]:
        known = [of_rebalance[id_] for id_ in incident.rebalance_ids if id_ in of_rebalance]
        if known:
            yield known


def _by_rebalance(found: Iterable[Match]) -> Mapping[str, tuple[Rebalance, list[Match]]]:
    rebalances: dict[str, tuple[Rebalance, list[Match]]] = {}
    for match in found:
        rebalances.setdefault(match[1].rebalance_id, (match[1], []))[1].append(match)
    return rebalances


def _cost(seen: Rebalance, some: Sequence[Match]) -> tuple[float, Range] | None:
    """The true cost of those movements that clients saw, and what is said of the same."""
    if seen.resource_seconds_estimate is None or seen.resource_seconds_likely_lower is None:
        return None
    assert seen.resource_seconds_likely_upper is not None
    truth = sum(max(p.pause_ms, 0) for p, _, _ in some) / 1000
    return truth, Range(
        seen.resource_seconds_estimate,
        seen.resource_seconds_lower,
        seen.resource_seconds_upper,
        seen.resource_seconds_likely_lower,
        seen.resource_seconds_likely_upper,
    )


def _add_cost(into: Coverage, truth: float, shown: Range, count: int) -> None:
    width = None
    if shown.estimate >= 1:
        width = (shown.likely_upper - shown.likely_lower) / 2 / shown.estimate
    into.add(truth, shown.likely_lower, shown.likely_upper, count * CLOCK_GRAIN_MS / 1000, width)


def report(found: Mapping[Kind, Coverage]) -> str:
    """Markdown."""
    lines = [f"| truths inside | {' | '.join(EVIDENCE)} |", f"|---|{'---|' * len(EVIDENCE)}"]
    first = (PAUSES, OF_REBALANCES, OF_INCIDENTS, OF_GROUPS)
    for counted in (*first, *sorted({c for _, c in found} - set(first))):
        cells = [_cell(found.get((evidence, counted)), is_cost=counted.startswith("costs")) for evidence in EVIDENCE]
        lines.append(f"| {counted} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(c: Coverage | None, *, is_cost: bool) -> str:
    if c is None:
        return "–"
    width = statistics.median(c.widths) if c.widths else 0.0
    return f"{c.inside} of {c.count}, {c.inside / c.count:.1%}, {f'± {width:.1%}' if is_cost else f'{width:.0f} ms'}"


def left_out(captures: Sequence[Path]) -> dict[Path, dict[Basis, Spread]]:
    """By capture, the table that the others give. A kind that no other shows has no error at all: that counts as a miss
    where it errs."""
    of = {capture: list(samples(capture)) for capture in captures}
    unknown = {basis: Spread(0, 0, 0, ERRORS[basis].window) for basis in Basis}
    return {
        capture: unknown | errors(s for other, some in of.items() if other != capture for s in some)
        for capture in captures
    }


def main(arguments: Sequence[str]) -> None:
    blind = [capture for folder in arguments for capture in captures_below(Path(folder))]
    if blind:
        print(f"{len(blind)} captures, by the table in the code:", "", sep="\n")
        print(report(coverage(blind, dict.fromkeys(blind, ERRORS))))
        return
    captures = list({(c / "meta.json").read_text(): c for c in reversed(all_captures())}.values())[::-1]
    print(f"Of {len(captures)} captures:")
    for basis, s in sorted(errors(s for c in captures for s in samples(c)).items()):
        window = {None: "", ANYWHERE: ", ANYWHERE", ALL: ", ALL"}.get(s.window, f", {s.window}")
        print(f"    Basis.{basis.name}: Spread({s.early_ms:_}, {s.late_ms:_}, {s.instants:_}{window}),")
    print("", "Each capture by the table that the others give:", "", sep="\n")
    print(report(coverage(captures, left_out(captures))))


if __name__ == "__main__":
    main(sys.argv[1:])
