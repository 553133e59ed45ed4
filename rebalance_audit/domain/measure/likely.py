"""From when to when an instant likely was, by the measured errors of its kind of evidence (`errors`)."""

from __future__ import annotations

import math

from rebalance_audit.domain.kinds import Basis

from .errors import ERRORS, ERRORS_OF_PACE, NOTHING_BUT_BOUNDS, Pace
from .marks import inside


def likely_instant(
    estimate: int,
    lower: int | None,
    upper: int | None,
    basis: Basis | None,
    window: tuple[int, int] | None,
    *,
    pace: Pace = Pace.USUAL,
) -> tuple[int, int]:
    """(from, to), epoch ms: where the instant likely was, around the estimate and inside the bounds. `window`: the time
    in which it must have been by reasoning, if that is not the bounds'. `pace`: the rebalance's own."""
    spread = NOTHING_BUT_BOUNDS if basis is None else ERRORS[basis]
    if pace is not Pace.USUAL and basis is not None:
        spread = ERRORS_OF_PACE[pace].get(basis, spread)
    early, late = estimate - spread.early_ms, estimate + spread.late_ms
    if spread.window is not None:
        if window is None and lower is not None and upper is not None:
            window = lower, upper
        if window is not None:
            length_ms = window[1] - window[0]
            early = min(estimate, window[0] + int(spread.window[0] * length_ms))
            late = max(estimate, window[0] + math.ceil(spread.window[1] * length_ms))
    return inside(early, lower, upper), inside(late, lower, upper)
