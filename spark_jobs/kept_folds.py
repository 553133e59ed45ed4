"""What is worked out of all rows of a table, kept between runs, so that a run reads the rows that came since.

A note of the warehouse (`notes/`): where it is lost, or rows have gone, everything is read once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rebalance_audit.warehouse.warehouse import Warehouse

Fold = Callable[[Any, Sequence[str]], Any]
"""The value with the rows of these files taken in; None as the value: of nothing. None as the answer: these rows cannot
be added to that value, and all must be read."""


def folded(warehouse: Warehouse, note: str, table: str, version: int | None, fold: Fold, *, form: int) -> Any:
    """The fold of all rows of the table at this version (None: the newest); None if there are none. The value must be
    what JSON can hold. `form`: the number of its form; a note of another one is not used.

    A table in which rows are replaced may be folded if no row that goes can make the value less true.
    """
    at = warehouse.version(table) if version is None else version
    if at is None or at < 0:
        return None
    identity = warehouse.table_id(table)
    kept = warehouse.recall(note)
    value, fresh = None, warehouse.files(table, at)
    if kept.get("form") == form and kept.get("table_id") == identity and kept["version"] <= at:
        if kept["version"] == at:
            return kept["value"]
        added = warehouse.added(table, kept["version"], at)
        if added is not None:
            value = fold(kept["value"], added) if added else kept["value"]
            fresh = [] if value is not None else fresh
    if fresh:
        value = fold(None, fresh)
    if warehouse.is_writing:
        warehouse.remember(note, {"form": form, "table_id": identity, "version": at, "value": value})
    return value
