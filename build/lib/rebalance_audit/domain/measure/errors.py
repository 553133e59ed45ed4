"""How far from the truth estimates lie, by the kind of evidence they rest on.

Source: the clients' and tasks' own clocks in the lab, over half of the captures (docs/measured.md#likely-ranges).
`python -m tests.likely` prints this table anew, and how many truths of the other half lie inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rebalance_audit.domain.kinds import Basis


class Spread(NamedTuple):
    """Of a hundred truths 86 lie from `early_ms` before the estimate to `late_ms` after it, and seven beyond each: so
    much of each of its two instants leaves nine of ten pauses inside theirs."""

    early_ms: int
    late_ms: int
    instants: int
    """On so many it was measured. Of fewer than twenty the two are the furthest seen."""
    window: tuple[float, float] | None = None
    """Where a time is known in which it must have been: nine of ten truths lie between these shares of it."""


_ANYWHERE = (0.05, 0.95)
"""By reasoning: any moment of the time is as likely as another."""
_ALL = (0.0, 1.0)
"""By reasoning: it died at the begin of the time, or lived on to its end."""

ERRORS: Mapping[Basis, Spread] = {
    Basis.OWN_LINE: Spread(0, 3, 336),
    Basis.WORKER_LINE: Spread(0, 434, 29),
    Basis.CREATION: Spread(108, 145, 5),
    Basis.STATUS: Spread(143, 8, 59),
    Basis.COMMIT_AS_IT_LET_GO: Spread(3, 13, 248),
    Basis.COMMIT_WHEN_ASKED: Spread(0, 128, 9),
    Basis.LAST_COMMIT: Spread(151, 5_077, 8),
    Basis.SIGNS_OF_LIFE: Spread(1_362, 173, 20, _ANYWHERE),
    Basis.TAKEN_AWAY: Spread(8, 11, 21),
    Basis.ASKED_TO_REVOKE: Spread(0, 87, 1),
    Basis.REJOIN: Spread(20, 76, 10),
    Basis.LEAVE: Spread(317, 5_163, 3),
    Basis.GONE: Spread(11_120, 0, 6, _ANYWHERE),
    Basis.MAY_LIVE_ON: Spread(970, 29_138, 18, _ALL),
    Basis.JOIN_PHASE: Spread(6_299, 0, 4, _ANYWHERE),
    Basis.DELIVERY: Spread(7, 16, 309),
    Basis.EPOCH_RECORD: Spread(42, 118, 16),
    Basis.CONNECT_ROUND: Spread(0, 306, 2),
}
NOTHING_BUT_BOUNDS = Spread(0, 0, 0, _ANYWHERE)
"""An instant without an estimate: the middle of its bounds."""
