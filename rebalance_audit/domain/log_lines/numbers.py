"""Numbers in text that others wrote: what Java would print of one, and nothing else."""

from __future__ import annotations

import re

_INT = re.compile(r"-?[0-9]{1,10}")
_LIMIT = 1 << 31


def java_int(text: str) -> int | None:
    """The `int` that is printed so; None for any other text. Python alone takes `²` for a digit, fails on thousands of
    digits, and knows numbers that no column holds."""
    number = int(text) if _INT.fullmatch(text) else _LIMIT
    return number if -_LIMIT <= number < _LIMIT else None


def int_of(text: str) -> int:
    """The number in a text that must be one, read like `java_int`. Raises ValueError."""
    number = java_int(text)
    if number is None:
        raise ValueError(text[:20])
    return number
