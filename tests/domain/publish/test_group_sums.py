"""Sums of parts of a history, put together, are those of the whole, however it is parted."""

from __future__ import annotations

import math
import random
from fractions import Fraction

from rebalance_audit.domain.cost_sums import exact_sum
from rebalance_audit.domain.kinds import EvidenceTier
from rebalance_audit.domain.model import MemberStandstill, Rebalance
from rebalance_audit.domain.numbers import cost_of
from rebalance_audit.domain.publish.group_sums import GroupSums
from rebalance_audit.domain.publish.groups import group_row
from tests.domain.publish.test_groups import NOW_MS, a_rebalance


def test_an_exact_sum_loses_nothing() -> None:
    values = [1e16, 1.0, -1e16, 0.1, 1e-300, 3.5]
    assert sum(map(Fraction, exact_sum(values))) == sum(map(Fraction, values))
    assert exact_sum([]) == exact_sum([0.0, 1.0, -1.0]) == ()


def test_parts_give_the_row_of_the_whole() -> None:
    draw = random.Random(5)
    history = [_some_rebalance(draw, generation) for generation in range(60)]
    history.append(a_rebalance(61))
    whole = group_row(history, [], NOW_MS)
    assert whole["resource_seconds_estimate"] == cost_of(history).estimate
    for _ in range(50):
        cuts = sorted({0, *draw.sample(range(61), 3)})
        *before, (last, _) = zip(cuts, [*cuts[1:], 61], strict=True)
        parts = [GroupSums.of_text(GroupSums.of(history[a:b]).text) for a, b in before]
        rates = {window: whole[f"rebalance_count_{name}"] for window, name in ((3_600_000, "1h"), (86_400_000, "24h"))}
        assert group_row(history[last:], [], NOW_MS, before=parts, rates=rates) == whole


def _some_rebalance(draw: random.Random, generation: int) -> Rebalance:
    seconds = draw.choice([None, 0.1, 0.2, 1e9, math.pi])
    still = MemberStandstill(
        member_id="m", resources=("t-0",), from_lower_ms=1, from_ms=2, from_upper_ms=3, to_lower_ms=4, to_ms=5,
        to_upper_ms=6, pause_lower_ms=1, pause_estimate_ms=3, pause_upper_ms=5, resource_seconds_lower=0,
        resource_seconds_estimate=draw.random(), resource_seconds_upper=None, usual_commit_ms=1,
        tier=EvidenceTier.INFERRED, detail="",
    )  # fmt: skip
    return a_rebalance(
        generation,
        draw.randrange(90_000_000),
        outcome=draw.choice(["completed", "emptied", "superseded", "missing"]),
        trigger=draw.choice(["member_left", "member_joined", "unknown"]),
        mode=draw.choice(["eager", "cooperative"]),
        assignor=draw.choice([None, "range", "sticky"]),
        protocol_type=draw.choice([None, "consumer"]),
        pause_estimate_ms=draw.choice([None, 5, 5, 70, -3]),
        resource_seconds_estimate=seconds,
        resource_seconds_lower=None if seconds is None else seconds / 3,
        resource_seconds_upper=None if seconds is None else seconds * 3,
        resource_seconds_likely_lower=None if seconds is None else seconds / 2,
        resource_seconds_likely_upper=None if seconds is None else seconds * 1.7,
        standstills=(still,) if draw.random() < 0.2 else (),
    )
