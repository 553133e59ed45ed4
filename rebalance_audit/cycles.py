"""Python's search for cycles of objects, held or seldom while very many rows live for a moment and none is part of
one."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = (100_000, 50, 50)
"""New objects before a search. Folding a group makes many small objects and hardly a cycle: at Python's own 700 a tenth
to a sixth of the time is lost."""


@contextmanager
def seldom_cycle_search() -> Iterator[None]:
    known = gc.get_threshold()
    gc.set_threshold(*SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*known)


@contextmanager
def without_cycle_search() -> Iterator[None]:
    """Inside the block no search for cycles runs: it costs a third of an import of millions of rows, and finds
    nothing."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
