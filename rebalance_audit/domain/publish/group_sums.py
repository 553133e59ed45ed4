"""What a row of gold.group says of all rebalances of its group, as sums of parts of them that are put together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.cost_sums import CostSums, ExactSum, exact_sum
from rebalance_audit.domain.kinds import Outcome
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.numbers import happened_at_ms, is_counted


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSums:
    """Of consecutive rebalances of one group."""

    row_count: int
    """Of them all."""
    rebalance_count: int
    """Of those that count."""
    triggers: dict[str, int]
    pauses: list[tuple[int, int]]
    """Each estimate of a pause in ms, and how many rebalances have it."""
    cost: CostSums
    standstill_seconds: ExactSum | None
    settled: tuple[str, int | None, int | None] | None
    """Mode, members and resources of the last one that settled."""
    protocol_type: str | None
    """The last that is known, as the next."""
    assignor: str | None
    first_at_ms: int | None
    last_at_ms: int | None

    @classmethod
    def of(cls, rebalances: Sequence[Rebalance]) -> GroupSums:
        counted = [r for r in rebalances if is_counted(r)]
        settled = next((r for r in reversed(rebalances) if r.outcome in (Outcome.COMPLETED, Outcome.EMPTIED)), None)
        pauses = Counter(r.pause_estimate_ms for r in rebalances if r.pause_estimate_ms is not None)
        still = [s.resource_seconds_estimate for r in rebalances for s in r.standstills]
        return cls(
            row_count=len(rebalances),
            rebalance_count=len(counted),
            triggers=dict(Counter(r.trigger for r in counted if r.trigger != Cause.UNKNOWN)),
            pauses=sorted(pauses.items()),
            cost=CostSums.of(rebalances),
            standstill_seconds=exact_sum(still) if still else None,
            settled=None if settled is None else (settled.mode, settled.member_count, settled.resource_count),
            protocol_type=next((r.protocol_type for r in reversed(rebalances) if r.protocol_type), None),
            assignor=next((r.assignor for r in reversed(rebalances) if r.assignor), None),
            first_at_ms=next((at for r in rebalances if (at := happened_at_ms(r)) is not None), None),
            last_at_ms=next((at for r in reversed(rebalances) if (at := happened_at_ms(r)) is not None), None),
        )

    @classmethod
    def together(cls, parts: Sequence[GroupSums]) -> GroupSums:
        """`parts`: in the order of the rebalances."""
        triggers: Counter[str] = Counter()
        pauses: Counter[int] = Counter()
        for part in parts:
            triggers.update(part.triggers)
            pauses.update(dict(part.pauses))
        still = [part.standstill_seconds for part in parts if part.standstill_seconds is not None]
        latest = parts[::-1]
        return cls(
            row_count=sum(part.row_count for part in parts),
            rebalance_count=sum(part.rebalance_count for part in parts),
            triggers=dict(triggers),
            pauses=sorted(pauses.items()),
            cost=CostSums.together([part.cost for part in parts]),
            standstill_seconds=exact_sum(value for values in still for value in values) if still else None,
            settled=next((part.settled for part in latest if part.settled is not None), None),
            protocol_type=next((part.protocol_type for part in latest if part.protocol_type), None),
            assignor=next((part.assignor for part in latest if part.assignor), None),
            first_at_ms=next((part.first_at_ms for part in parts if part.first_at_ms is not None), None),
            last_at_ms=next((part.last_at_ms for part in latest if part.last_at_ms is not None), None),
        )

    @property
    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> GroupSums:
        stored: dict[str, Any] = json.loads(text)
        still, settled = stored["standstill_seconds"], stored["settled"]
        return cls(**stored | {
            "pauses": list(map(tuple, stored["pauses"])),
            "cost": CostSums.of_row(stored["cost"]),
            "standstill_seconds": None if still is None else tuple(still),
            "settled": None if settled is None else tuple(settled),
        })  # fmt: skip
