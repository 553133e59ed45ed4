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
"""By reasoning: the time is where it was seen to lie; or it died at its begin, or lived on to its end."""

ERRORS: Mapping[Basis, Spread] = {
    Basis.OWN_LINE: Spread(0, 3, 833),
    Basis.WORKER_LINE: Spread(0, 465, 87),
    Basis.CREATION: Spread(34, 9, 25),
    Basis.STATUS: Spread(115, 9, 189),
    Basis.COMMIT_AS_IT_LET_GO: Spread(2, 11, 831),
    Basis.COMMIT_AFTER_FETCHES: Spread(377, 28, 206, _ALL),
    Basis.COMMIT_BEFORE_QUIET: Spread(0, 512, 131, _ALL),
    Basis.COMMIT_OF_TASKS: Spread(84, 95, 18),
    Basis.COMMIT_WHEN_ASKED: Spread(0, 125, 29),
    Basis.LAST_COMMIT: Spread(220, 7_385, 11),
    Basis.SIGNS_OF_LIFE: Spread(1_351, 503, 145, _ANYWHERE),
    Basis.TAKEN_AWAY: Spread(8, 6, 38),
    Basis.TAKEN_AWAY_AFTER_FETCHES: Spread(3, 485, 30, _ALL),
    Basis.ASKED_TO_REVOKE: Spread(0, 312, 7),
    Basis.REJOIN: Spread(27, 100, 16),
    Basis.LEAVE: Spread(630, 8_032, 9),
    Basis.GONE: Spread(16_093, 0, 14, _ANYWHERE),
    Basis.MAY_LIVE_ON: Spread(0, 21_180, 62, _ALL),
    Basis.JOIN_PHASE: Spread(8_924, 74, 12, _ANYWHERE),
    Basis.DELIVERY: Spread(7, 20, 1_384),
    Basis.DELIVERY_AFTER_FETCHES: Spread(633, 232, 21, _ALL),
    Basis.TASK_DELIVERY: Spread(67, 142, 18),
    Basis.TASK_EPOCH_RECORD: Spread(627, 287, 2),
    Basis.EPOCH_RECORD: Spread(42, 135, 52),
    Basis.CONNECT_ROUND: Spread(0, 1_071, 2),
}
NOTHING_BUT_BOUNDS = Spread(0, 0, 0, _ANYWHERE)
"""An instant without an estimate: the middle of its bounds."""
