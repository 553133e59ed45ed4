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
    Basis.OWN_LINE: Spread(0, 3, 1_224),
    Basis.WORKER_LINE: Spread(0, 464, 99),
    Basis.CREATION: Spread(29, 13, 33),
    Basis.STATUS: Spread(6, 2, 62),
    Basis.STATUS_OF_NEW_WORKER: Spread(131, 2, 33),
    Basis.STATUS_OF_OLD_START: Spread(104, 14, 21, _ALL),
    Basis.STATUS_OF_STOP: Spread(31, 9, 77),
    Basis.STATUS_OF_OLD_STOP: Spread(447, 11, 17, _ALL),
    Basis.COMMIT_AS_IT_LET_GO: Spread(0, 14, 997),
    Basis.COMMIT_AFTER_CALLBACK: Spread(6, 0, 357),
    Basis.COMMIT_AFTER_FETCHES: Spread(191, 4, 252, _ALL),
    Basis.COMMIT_BEFORE_QUIET: Spread(24, 46, 130, _ALL),
    Basis.COMMIT_OF_TASKS: Spread(98, 105, 10),
    Basis.COMMIT_WHEN_ASKED: Spread(2, 103, 71),
    Basis.LAST_COMMIT: Spread(143, 4_492, 27),
    Basis.SIGNS_OF_LIFE: Spread(1_415, 1_222, 148, _ANYWHERE),
    Basis.CLOSED_OR_DEAD: Spread(0, 2_349, 7, _ALL),
    Basis.TAKEN_AWAY: Spread(8, 9, 39),
    Basis.TAKEN_AWAY_AFTER_FETCHES: Spread(4, 259, 8, _ALL),
    Basis.ASKED_TO_REVOKE: Spread(0, 258, 12),
    Basis.REJOIN: Spread(227, 0, 28),
    Basis.BACK_AFTER_EXPIRY: Spread(31_186, 0, 11, _ALL),
    Basis.LEAVE: Spread(540, 6_884, 15),
    Basis.GONE: Spread(15_496, 0, 29, _ANYWHERE),
    Basis.MAY_LIVE_ON: Spread(3, 20_847, 105, _ALL),
    Basis.JOIN_PHASE: Spread(11_806, 0, 38),
    Basis.DELIVERY: Spread(7, 15, 744),
    Basis.DELIVERY_TO_NEW: Spread(7, 51, 283),
    Basis.DELIVERY_SOON: Spread(4, 16, 604),
    Basis.DELIVERY_AT_ONCE: Spread(2, 8, 434),
    Basis.DELIVERY_AFTER_FETCHES: Spread(892, 332, 9, _ALL),
    Basis.TASK_DELIVERY: Spread(78, 167, 10),
    Basis.TASK_EPOCH_RECORD: Spread(403, 331, 4),
    Basis.EPOCH_RECORD: Spread(43, 125, 136),
    Basis.CONNECT_ROUND: Spread(86, 612, 5),
}
NOTHING_BUT_BOUNDS = Spread(0, 0, 0, _ANYWHERE)
"""An instant without an estimate: the middle of its bounds."""
