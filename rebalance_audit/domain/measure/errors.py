"""How far from the truth estimates lie, by the kind of evidence they rest on.

Source: the clients' and tasks' own clocks in the lab, over all captures (docs/measured.md#likely-ranges).
`python -m tests.likely` prints this table again, and how many truths of each capture the table of the others holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rebalance_audit.domain.kinds import Basis


class Spread(NamedTuple):
    """At least 84 of 100 truths lie between `early_ms` before the estimate and `late_ms` after it, and at most eight
    beyond each end. With that share at each of a pause's two instants, nine of ten pauses lie inside their ranges. The
    errors within one capture go together, so the ends are wider for kinds with fewer captures."""

    early_ms: int
    late_ms: int
    instants: int
    """How many instants were measured. With fewer than twenty, the two ends are the furthest errors seen, widened for
    those not seen."""
    window: tuple[float, float] | None = None
    """If the time is known in which the instant must lie, at least nine of ten truths lie between these shares of that
    time."""


_ANYWHERE = (0.04, 0.96)
"""By reasoning: each moment of that time is equally likely. Of 177 members killed in the lab 148 lie between 0.05 and
0.95 of it, 157 between these (docs/measured.md#likely-ranges)."""
_ALL = (0.0, 1.0)
"""By reasoning: the time is where it was seen to lie; or it died at its begin, or lived on to its end."""

ERRORS: Mapping[Basis, Spread] = {
    Basis.OWN_LINE: Spread(0, 3, 898),
    Basis.WORKER_LINE: Spread(0, 464, 102),
    Basis.CREATION: Spread(56, 8, 32),
    Basis.STATUS: Spread(9, 2, 58),
    Basis.STATUS_OF_NEW_WORKER: Spread(115, 2, 49),
    Basis.STATUS_OF_OLD_START: Spread(94, 45, 37, _ALL),
    Basis.STATUS_OF_STOP: Spread(29, 9, 75),
    Basis.STATUS_OF_OLD_STOP: Spread(393, 8, 28, _ALL),
    Basis.COMMIT_AS_IT_LET_GO: Spread(3, 11, 983),
    Basis.COMMIT_AFTER_FETCHES: Spread(334, 36, 252, _ALL),
    Basis.COMMIT_BEFORE_QUIET: Spread(0, 510, 168, _ALL),
    Basis.COMMIT_OF_TASKS: Spread(83, 94, 19),
    Basis.COMMIT_WHEN_ASKED: Spread(0, 121, 32),
    Basis.LAST_COMMIT: Spread(220, 7_385, 11),
    Basis.SIGNS_OF_LIFE: Spread(1_336, 512, 186, _ANYWHERE),
    Basis.CLOSED_OR_DEAD: Spread(50, 3_000, 4, _ALL),
    Basis.TAKEN_AWAY: Spread(8, 11, 45),
    Basis.TAKEN_AWAY_AFTER_FETCHES: Spread(2, 491, 39, _ALL),
    Basis.ASKED_TO_REVOKE: Spread(0, 312, 7),
    Basis.REJOIN: Spread(27, 100, 16),
    Basis.BACK_AFTER_EXPIRY: Spread(20_000, 100, 4, _ALL),
    Basis.LEAVE: Spread(630, 8_032, 9),
    Basis.GONE: Spread(15_811, 0, 15, _ANYWHERE),
    Basis.MAY_LIVE_ON: Spread(0, 21_160, 75, _ALL),
    Basis.JOIN_PHASE: Spread(33_694, 68, 17, _ANYWHERE),
    Basis.DELIVERY: Spread(7, 35, 843),
    Basis.DELIVERY_AT_ONCE: Spread(7, 6, 986),
    Basis.DELIVERY_AFTER_FETCHES: Spread(737, 265, 27, _ALL),
    Basis.TASK_DELIVERY: Spread(66, 141, 19),
    Basis.TASK_EPOCH_RECORD: Spread(627, 287, 2),
    Basis.EPOCH_RECORD: Spread(42, 136, 57),
    Basis.CONNECT_ROUND: Spread(0, 1_071, 2),
}
NOTHING_BUT_BOUNDS = Spread(0, 0, 0, _ANYWHERE)
"""An instant without an estimate: the middle of its bounds."""
