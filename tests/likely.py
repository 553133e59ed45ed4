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
from rebalance_audit.domain.measure.errors import ALL, ANYWHERE, ERRORS, ERRORS_OF_PACE, Pace, Spread
from rebalance_audit.domain.measure.marks import best_estimate
from rebalance_audit.domain.measure.pauses import Instant, instant, measure, pace_of
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
    pace: Pace = Pace.USUAL
    """Of the rebalance that hands it out."""


class Table(NamedTuple):
    """Errors by kind of evidence: of all rebalances, and of those kinds that quick and slow ones show often enough."""

    of_all: Mapping[Basis, Spread]
    of_pace: Mapping[Pace, Mapping[Basis, Spread]]


IN_THE_CODE = Table(ERRORS, ERRORS_OF_PACE)


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
        for pause, rebalance, movement in matches(capture, evidence):
            pace = pace_of(rebalance.joined_at_ms, rebalance.assigned_at_ms)
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
                    error_ms, share = true_ms - seen.estimate, _share(seen, true_ms)
                    yield Sample(Basis(best.basis), error_ms, str(capture), true_ms, share, pace)


def _share(seen: Instant, true_ms: int) -> float | None:
    window = seen.window
    if window is None and seen.lower is not None and seen.upper is not None:
        window = seen.lower, seen.upper
    if window is None or window[1] <= window[0]:
        return None
    return (true_ms - window[0]) / (window[1] - window[0])


def table_of(found: Iterable[Sample]) -> Table:
    """Of quick and slow rebalances only callbacks, where twenty and more are known."""
    known = list(found)
    of_pace = {
        pace: errors(s for s in known if s.pace is pace and s.basis in of_code)
        for pace, of_code in ERRORS_OF_PACE.items()
    }
    of_pace = {pace: {basis: s for basis, s in some.items() if s.instants >= FEW} for pace, some in of_pace.items()}
    return Table(errors(known), of_pace)


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


def coverage(captures: Iterable[Path], tables: Mapping[Path, Table]) -> dict[Kind, Coverage]:
    """Of single pauses, all and by the library that let go, of rebalances' costs, of incidents' and of groups', each
    capture by its table of errors. A cost is the sum of so many pauses: the clock's grain counts for each."""
    found: dict[Kind, Coverage] = defaultdict(Coverage)
    for capture in captures:
        likely.ERRORS, likely.ERRORS_OF_PACE = tables[capture]  # type: ignore[attr-defined]
        library_of = library_of_clients(capture)
        for evidence in EVIDENCE:
            costs: dict[str, list[tuple[float, Range, int]]] = defaultdict(list)
            of_rebalance: dict[str, tuple[float, Rebalance, int]] = {}
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
                    costs[rebalance.group_id].append((*cost, len(some)))
                    of_rebalance[rebalance.rebalance_id] = cost[0], seen, len(some)
            for of_group in costs.values():
                truths, ranges, pauses = zip(*of_group, strict=True)
                total = of_one_group(ranges)
                assert total is not None
                _add_cost(found[evidence, OF_GROUPS], math.fsum(truths), total, sum(pauses))
            for seen_by_clients in _of_incidents(capture, evidence, of_rebalance):
                truths, rebalances, pauses = zip(*seen_by_clients, strict=True)
                of_all = cost_of(rebalances)
                assert of_all.estimate is not None
                assert of_all.likely_lower is not None
                assert of_all.likely_upper is not None
                shown = Range(of_all.estimate, of_all.lower, of_all.upper, of_all.likely_lower, of_all.likely_upper)
                _add_cost(found[evidence, OF_INCIDENTS], math.fsum(truths), shown, sum(pauses))
    likely.ERRORS, likely.ERRORS_OF_PACE = IN_THE_CODE  # type: ignore[attr-defined]
    return dict(found)


def _of_incidents(
    capture: Path, evidence: str, of_rebalance: Mapping[str, tuple[float, Rebalance, int]]
) -> Iterator[list[tuple[float, Rebalance, int]]]:
    """Of each incident those rebalances whose hand-overs clients saw: what they lost, the rebalance, and in how many
    pauses."""
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


def _add_cost(into: Coverage, truth: float, shown: Range, pauses: int) -> None:
    width = None
    if shown.estimate >= 1:
        width = (shown.likely_upper - shown.likely_lower) / 2 / shown.estimate
    into.add(truth, shown.likely_lower, shown.likely_upper, pauses * CLOCK_GRAIN_MS / 1000, width)


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


def left_out(captures: Sequence[Path]) -> dict[Path, Table]:
    """By capture, the table that the others give. A kind that no other shows has no error at all: that counts as a miss
    where it errs."""
    of = {capture: list(samples(capture)) for capture in captures}
    unknown = {basis: Spread(0, 0, 0, ERRORS[basis].window) for basis in Basis}
    tables = {c: table_of(s for other, some in of.items() if other != c for s in some) for c in captures}
    return {capture: table._replace(of_all={**unknown, **table.of_all}) for capture, table in tables.items()}


def main(arguments: Sequence[str]) -> None:
    blind = [capture for folder in arguments for capture in captures_below(Path(folder))]
    if blind:
        print(f"{len(blind)} captures, by the table in the code:", "", sep="\n")
        print(report(coverage(blind, dict.fromkeys(blind, IN_THE_CODE))))
        return
    captures = list({(c / "meta.json").read_text(): c for c in reversed(all_captures())}.values())[::-1]
    of_all, of_pace = table_of(s for c in captures for s in samples(c))
    named = {"all": of_all} | {f"{pace.name.lower()} rebalances": table for pace, table in of_pace.items()}
    for name, table in named.items():
        print(f"Of {len(captures)} captures, {name}:")
        for basis, s in sorted(table.items()):
            window = {None: "", ANYWHERE: ", ANYWHERE", ALL: ", ALL"}.get(s.window, f", {s.window}")
            print(f"    Basis.{basis.name}: Spread({s.early_ms:_}, {s.late_ms:_}, {s.instants:_}{window}),")
    print("", "Each capture by the table that the others give:", "", sep="\n")
    print(report(coverage(captures, left_out(captures))))


if __name__ == "__main__":
    main(sys.argv[1:])
