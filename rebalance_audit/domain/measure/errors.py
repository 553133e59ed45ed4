"""How far from the truth estimates lie, by the kind of evidence they rest on.

Source: the clients' and tasks' own clocks in the lab, over all captures (docs/measured.md#likely-ranges).
`python -m tests.likely` prints this table again, and how many truths of each capture the table of the others holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from rebalance_audit.domain.kinds import Basis


class Pace(IntEnum):
    """How long a classic rebalance's assignment took after its join phase had ended (`pauses.pace_of`). Callbacks of
    its members are late as it is."""

    QUICK = 1
    USUAL = 2
    """Or it is not known."""
    SLOW = 3


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


ANYWHERE = (0.04, 0.96)
"""By reasoning: each moment of that time is equally likely. Of 177 members killed in the lab 148 lie between 0.05 and
0.95 of it, 157 between these (docs/measured.md#likely-ranges)."""
ALL = (0.0, 1.0)
"""By reasoning: the time is where it was seen to lie; or it died at its begin, or lived on to its end. Where that was
measured twenty times and more, the shares are as measured."""

ERRORS: Mapping[Basis, Spread] = {
    Basis.OWN_LINE: Spread(0, 3, 1_327),
    Basis.WORKER_LINE: Spread(0, 467, 100),
    Basis.CREATION: Spread(30, 30, 32),
    Basis.STATUS: Spread(10, 2, 65),
    Basis.STATUS_OF_NEW_WORKER: Spread(130, 2, 34),
    Basis.STATUS_OF_OLD_START: Spread(136, 19, 17, ALL),
    Basis.STATUS_OF_STOP: Spread(30, 9, 81),
    Basis.STATUS_OF_OLD_STOP: Spread(447, 11, 17, ALL),
    Basis.COMMIT_AS_IT_LET_GO: Spread(0, 14, 888),
    Basis.COMMIT_AFTER_CALLBACK: Spread(8, 0, 307),
    Basis.COMMIT_AFTER_FETCHES: Spread(325, 6, 236, (0.27, 1.0)),
    Basis.COMMIT_BEFORE_QUIET: Spread(36, 513, 82, (0.0, 0.96)),
    Basis.COMMIT_OF_TASKS: Spread(98, 105, 10),
    Basis.COMMIT_WHEN_ASKED: Spread(3, 102, 80),
    Basis.AFTER_TRANSACTIONS: Spread(141, 0, 29),
    Basis.LAST_COMMIT: Spread(151, 4_511, 25),
    Basis.SIGNS_OF_LIFE: Spread(1_564, 1_382, 168, ANYWHERE),
    Basis.CLOSED_OR_DEAD: Spread(0, 2_349, 7, ALL),
    Basis.TAKEN_AWAY: Spread(8, 8, 40),
    Basis.TAKEN_AWAY_AFTER_FETCHES: Spread(3, 285, 31, (0.01, 0.54)),
    Basis.ASKED_TO_REVOKE: Spread(0, 172, 24),
    Basis.REJOIN: Spread(209, 0, 29),
    Basis.BACK_AFTER_EXPIRY: Spread(42_278, 0, 11, ALL),
    Basis.LEAVE: Spread(324, 5_113, 21),
    Basis.GONE: Spread(37_337, 1_496, 59, ANYWHERE),
    Basis.MAY_LIVE_ON: Spread(0, 20_445, 111, (0.01, 0.98)),
    Basis.JOIN_PHASE: Spread(8_611, 0, 81),
    Basis.DELIVERY: Spread(7, 20, 770),
    Basis.DELIVERY_TO_NEW: Spread(7, 73, 286),
    Basis.DELIVERY_SOON: Spread(4, 19, 509),
    Basis.DELIVERY_AT_ONCE: Spread(2, 12, 441),
    Basis.DELIVERY_AFTER_FETCHES: Spread(1_687, 2_481, 27, (0.11, 0.88)),
    Basis.TASK_DELIVERY: Spread(78, 167, 10),
    Basis.TASK_EPOCH_RECORD: Spread(283, 1_368, 18),
    Basis.EPOCH_RECORD: Spread(43, 126, 156),
    Basis.CONNECT_ROUND: Spread(0, 1_071, 2),
}
ERRORS_OF_PACE: Mapping[Pace, Mapping[Basis, Spread]] = {
    Pace.QUICK: {
        Basis.COMMIT_AFTER_CALLBACK: Spread(6, 0, 181),
        Basis.COMMIT_AS_IT_LET_GO: Spread(0, 9, 356),
        Basis.DELIVERY: Spread(8, 6, 266),
        Basis.DELIVERY_AT_ONCE: Spread(2, 10, 287),
        Basis.DELIVERY_SOON: Spread(4, 10, 232),
        Basis.DELIVERY_TO_NEW: Spread(7, 16, 93),
    },
    Pace.SLOW: {
        Basis.COMMIT_AFTER_CALLBACK: Spread(29, 0, 32),
        Basis.COMMIT_AS_IT_LET_GO: Spread(1, 53, 159),
        Basis.DELIVERY: Spread(6, 106, 175),
        Basis.DELIVERY_AT_ONCE: Spread(1, 19, 49),
        Basis.DELIVERY_SOON: Spread(3, 68, 63),
        Basis.DELIVERY_TO_NEW: Spread(3, 259, 52),
    },
}
"""Of classic members' callbacks, where the rebalance was quick or slow itself. Of others `ERRORS` holds."""
NOTHING_BUT_BOUNDS = Spread(0, 0, 0, ANYWHERE)
"""An instant without an estimate: the middle of its bounds."""
