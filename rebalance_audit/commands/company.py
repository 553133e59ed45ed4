"""The invented company that `demo` shows, and where the recorded evidence of its clusters is.

`setup.py` reads this file by itself, so that it imports nothing but the standard library.
"""

from __future__ import annotations

import os
from pathlib import Path

COMPANY = {
    "webshop": "4.3.0/storm",
    "orders": "4.3.0/eager_join_leave_kill",
    "payments": "4.3.0/poll_timeout",
    "warehouse": "4.3.0/rolling_deploy",
    "clickstream": "4.3.0/kip848_join_leave",
    "reporting": "4.3.0/connect_worker_lost",
    "billing": "4.3.0/reassign_throttled",
    "customers": "4.3.0/reassign_target_down",
    "mainframe": "2.7.2/eager_join_leave_kill",
}
"""The name of each of its clusters, with the recorded evidence of a real cluster."""
_CHECKOUT = Path(__file__).resolve().parents[2]
_IN_CHECKOUT = _CHECKOUT / "tests" / "golden"
_IS_CHECKOUT = _IN_CHECKOUT.is_dir()
RECORDED = _IN_CHECKOUT if _IS_CHECKOUT else Path(__file__).resolve().parents[1] / "recorded"
"""The folder that COMPANY's places are in. `setup.py` copies those to `rebalance_audit/recorded` of a wheel."""


def folder_of_demos() -> Path:
    """Where warehouses of demos go that were given no place: in a checkout's `.build`, else in the user's cache."""
    if _IS_CHECKOUT:
        return _CHECKOUT / ".build" / "demo"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rebalance-audit" / "demo"
