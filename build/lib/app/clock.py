"""The app's one look at the clock. Callers say `clock.now_ms()`, so that a test can hold it still."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Epoch milliseconds."""
    return int(time.time() * 1000)
