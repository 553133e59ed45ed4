"""What rebalances of one group cost, as sums that are added part by part: of the parts together they are those of the
whole, to the last bit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.ranges import Range, Reach, of_sums, range_of

ExactSum = tuple[float, ...]
"""Floats that add up to a sum exactly, as no single one may: `math.fsum` of several such sums rounds once."""


def exact_sum(values: Iterable[float]) -> ExactSum:
    listed, parts = list(values), list[float]()
    while rest := math.fsum([*listed, *(-part for part in parts)]):
        parts.append(rest)
    return tuple(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSums:
    """The sums that `numbers.cost_of` needs of the rebalances of one group whose cost is known."""

    count: int = 0
    unbounded_count: int = 0
    """Those of which nothing bounds the cost."""
    estimate: ExactSum = ()
    lower: ExactSum = ()
    upper: ExactSum = ()
    early: ExactSum = ()
    """How far likely ranges reach to both sides of the estimates, and the squares of that: see `ranges.Reach`."""
    late: ExactSum = ()
    early_squares: ExactSum = ()
    late_squares: ExactSum = ()

    @classmethod
    def of(cls, rebalances: Iterable[Rebalance]) -> CostSums:
        known = [cost for r in rebalances if (cost := range_of(r)) is not None]
        early = [c.estimate - c.likely_lower for c in known]
        late = [c.likely_upper - c.estimate for c in known]
        return cls(
            count=len(known),
            unbounded_count=sum(c.upper is None for c in known),
            estimate=exact_sum(c.estimate for c in known),
            lower=exact_sum(c.lower or 0 for c in known),
            upper=exact_sum(c.upper or 0 for c in known),
            early=exact_sum(early),
            late=exact_sum(late),
            early_squares=exact_sum(e * e for e in early),
            late_squares=exact_sum(e * e for e in late),
        )

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> CostSums:
        """From its fields as JSON has them, in which sums are lists."""
        fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in row.items()}
        return cls(**fields)

    @classmethod
    def together(cls, parts: Sequence[CostSums]) -> CostSums:
        sums = [name for name in cls.__dataclass_fields__ if name not in ("count", "unbounded_count")]
        return cls(
            count=sum(part.count for part in parts),
            unbounded_count=sum(part.unbounded_count for part in parts),
            **{name: exact_sum(value for part in parts for value in getattr(part, name)) for name in sums},
        )

    @property
    def total(self) -> Range | None:
        """What all cost together; None where no cost is known."""
        if not self.count:
            return None
        reach = Reach(*map(math.fsum, (self.early, self.late, self.early_squares, self.late_squares)))
        upper = None if self.unbounded_count else math.fsum(self.upper)
        return of_sums(math.fsum(self.estimate), math.fsum(self.lower), upper, [reach])
