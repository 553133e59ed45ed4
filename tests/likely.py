"""How far estimates lie from the truth, and how many truths the likely ranges hold: docs/measured.md#likely-ranges.

    python -m tests.likely      the table of measure/errors.py from half of the captures, and its check on the other

The truth is what clients and tasks wrote down on the brokers' clock. By name, every second capture is of the same half,
so that each has captures of most situations.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rebalance_audit.domain.kinds import Basis
from rebalance_audit.domain.measure.marks import best_estimate
from rebalance_audit.domain.measure.pauses import instant, measure
from rebalance_audit.domain.model import Rebalance, changed
from rebalance_audit.domain.ranges import Range, of_one_group
from tests.score import EVIDENCE, all_captures, reconstructed, watched_and_true
from tests.truth import CLOCK_GRAIN_MS, Match, matched

FEW = 20
"""Of fewer instants the furthest seen count, not the 7th and the 93rd of a hundred."""
TAIL = 0.07
"""Chosen on the captures to calibrate on: so many truths beyond each end leave nine of ten pauses inside."""


class Sample(NamedTuple):
    """One instant as estimated and as it was."""

    basis: Basis
    error_ms: int
    """Truth less estimate."""
    instant: tuple[str, int]
    """(capture, when): partitions that go together share it."""


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


def halves(captures: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """(to calibrate on, to check on)."""
    by_name = sorted(captures, key=lambda c: (c.name, c.parent.name))
    return by_name[::2], by_name[1::2]


def matches(capture: Path, evidence: str) -> list[Match]:
    watched, pauses, _ = watched_and_true(capture, reconstructed(capture, evidence))
    return matched(watched, pauses)[0]


def samples(capture: Path, found: Iterable[Match]) -> Iterator[Sample]:
    for pause, _, movement in found:
        for marks, true_ms in (
            (movement.stop_marks, pause.stopped_at_ms),
            (movement.resume_marks, pause.resumed_at_ms),
        ):
            best, seen = best_estimate(marks), instant(marks)
            if best is not None and seen.estimate is not None:
                assert best.basis is not None, f"an estimate without a kind: {best.detail}"
                yield Sample(Basis(best.basis), true_ms - seen.estimate, (str(capture), true_ms))


def errors(found: Iterable[Sample]) -> dict[Basis, tuple[int, int, int]]:
    """By kind of evidence: how much earlier and later than the estimate nine of ten truths lie, and of how many
    instants."""
    by_basis: dict[Basis, list[Sample]] = defaultdict(list)
    for sample in found:
        by_basis[sample.basis].append(sample)
    table = {}
    for basis, some in by_basis.items():
        values = sorted(s.error_ms for s in some)
        count = len({s.instant for s in some})
        cut = 0.0 if count < FEW else TAIL
        early, late = _quantile(values, cut), _quantile(values, 1 - cut)
        table[basis] = max(-math.floor(early), 0), max(math.ceil(late), 0), count
    return table


def _quantile(ascending: Sequence[int], share: float) -> float:
    place = share * (len(ascending) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (ascending[high] - ascending[low]) * (place - low)


def coverage(captures: Iterable[Path], evidence: Sequence[str] = EVIDENCE) -> dict[str, Coverage]:
    """Of single pauses, of rebalances' costs and of groups'."""
    found: dict[str, Coverage] = defaultdict(Coverage)
    for capture in captures:
        for kind in evidence:
            costs: dict[str, list[tuple[float, Range]]] = defaultdict(list)
            for rebalance, some in _by_rebalance(matches(capture, kind)).values():
                for pause, _, m in some:
                    if m.pause_likely_lower_ms is not None and m.pause_likely_upper_ms is not None:
                        lower, upper = m.pause_likely_lower_ms, m.pause_likely_upper_ms
                        found["pauses"].add(pause.pause_ms, lower, upper, CLOCK_GRAIN_MS, upper - lower)
                        if m.kind == "returned":
                            found["pauses of members that stayed"].add(
                                pause.pause_ms, lower, upper, CLOCK_GRAIN_MS, upper - lower
                            )
                cost = _cost(rebalance, some)
                if cost is not None:
                    _add_cost(found["costs of rebalances"], *cost, len(some))
                    costs[rebalance.group_id].append(cost)
            for of_group in costs.values():
                total = of_one_group(r for _, r in of_group)
                assert total is not None
                _add_cost(found["costs of groups"], math.fsum(t for t, _ in of_group), total, len(of_group))
    return dict(found)


def _by_rebalance(found: Iterable[Match]) -> Mapping[str, tuple[Rebalance, list[Match]]]:
    rebalances: dict[str, tuple[Rebalance, list[Match]]] = {}
    for match in found:
        rebalances.setdefault(match[1].rebalance_id, (match[1], []))[1].append(match)
    return rebalances


def _cost(rebalance: Rebalance, some: Sequence[Match]) -> tuple[float, Range] | None:
    """The true cost of those movements that clients saw, and what is said of the same."""
    seen = measure(changed(rebalance, movements=tuple(m for _, _, m in some)))
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


def _add_cost(into: Coverage, truth: float, told: Range, count: int) -> None:
    width = None
    if told.estimate >= 1:
        width = (told.likely_upper - told.likely_lower) / 2 / told.estimate
    into.add(truth, told.likely_lower, told.likely_upper, count * CLOCK_GRAIN_MS / 1000, width)


def report(found: Mapping[str, Coverage]) -> str:
    """Markdown."""
    lines = ["| of | truths inside | of | share | median width |", "|---|---|---|---|---|"]
    for name, c in found.items():
        width = statistics.median(c.widths) if c.widths else 0.0
        shown = f"± {width:.1%}" if name.startswith("costs") else f"{width:.0f} ms"
        lines.append(f"| {name} | {c.inside} | {c.count} | {c.inside / c.count:.1%} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    captures = list({(c / "meta.json").read_text(): c for c in reversed(all_captures())}.values())[::-1]
    calibrated, checked = halves(captures)
    mine = (s for c in calibrated for e in EVIDENCE for s in samples(c, matches(c, e)))
    print(f"Of {len(calibrated)} captures:")
    for basis, (early, late, count) in sorted(errors(mine).items()):
        print(f"    Basis.{basis.name}: Spread({early:_}, {late:_}, {count:_}),")
    for name, half in (("the half it was made from", calibrated), ("the other half", checked)):
        print("", f"Checked on {len(half)} captures, {name}:", "", report(coverage(half)), sep="\n")


if __name__ == "__main__":
    main()
