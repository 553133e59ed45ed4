"""How far from the truth estimates lie, by the kind of evidence they rest on.

Source: the clients' and tasks' own clocks in the lab, over all captures (docs/measured.md#likely-ranges).
`python -m tests.likely` prints this table anew, and how many truths of each capture the table of the others holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rebalance_audit.domain.kinds import Basis


class Spread(NamedTuple):
    """From `early_ms` before the estimate to `late_ms` after it lie at least 84 of a hundred truths, and at most eight
    beyond each: so much of each of its two instants leaves nine of ten pauses inside theirs. Instants of one capture
    err together: the fewer captures a kind has, the further its ends are taken to lie."""

    early_ms: int
    late_ms: int
    instants: int
    """On so many it was measured. Of fewer than twenty the two are the furthest seen, widened for what was not."""
    window: tuple[float, float] | None = None
    """Where a time is known in which it must have been: nine of ten truths lie between these shares of it."""


_ANYWHERE = (0.05, 0.95)
"""By reasoning: any moment of the time is as likely as another."""
_ALL = (0.0, 1.0)
"""By reasoning: it died at the begin of the time, or lived on to its end."""

ERRORS: Mapping[Basis, Spread] = {
    Basis.OWN_LINE: Spread(0, 3, 705),
    Basis.WORKER_LINE: Spread(0, 465, 74),
    Basis.CREATION: Spread(51, 27, 21),
    Basis.STATUS: Spread(109, 9, 157),
    Basis.COMMIT_AS_IT_LET_GO: Spread(2, 12, 476),
    Basis.COMMIT_AFTER_FETCHES: Spread(255, 7, 82, _ALL),
    Basis.COMMIT_BEFORE_CLOSE: Spread(0, 514, 6),
    Basis.COMMIT_OF_TASKS: Spread(98, 105, 10),
    Basis.COMMIT_WHEN_ASKED: Spread(0, 128, 26),
    Basis.LAST_COMMIT: Spread(227, 7_616, 10),
    Basis.SIGNS_OF_LIFE: Spread(1_372, 69, 51, _ANYWHERE),
    Basis.TAKEN_AWAY: Spread(8, 7, 35),
    Basis.ASKED_TO_REVOKE: Spread(0, 296, 8),
    Basis.REJOIN: Spread(27, 102, 15),
    Basis.LEAVE: Spread(630, 8_032, 9),
    Basis.GONE: Spread(14_391, 0, 17, _ANYWHERE),
    Basis.MAY_LIVE_ON: Spread(0, 23_644, 33, _ALL),
    Basis.JOIN_PHASE: Spread(10_799, 0, 7, _ANYWHERE),
    Basis.DELIVERY: Spread(7, 20, 659),
    Basis.DELIVERY_AFTER_FETCHES: Spread(0, 1_227, 6),
    Basis.TASK_DELIVERY: Spread(78, 167, 10),
    Basis.TASK_EPOCH_RECORD: Spread(403, 261, 4),
    Basis.EPOCH_RECORD: Spread(43, 121, 47),
    Basis.CONNECT_ROUND: Spread(0, 1_071, 2),
}
NOTHING_BUT_BOUNDS = Spread(0, 0, 0, _ANYWHERE)
"""An instant without an estimate: the middle of its bounds."""
