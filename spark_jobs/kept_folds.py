"""Keeps between runs what was worked out from all rows of a table, so that a run reads only the rows that came since.

It is a note of the warehouse (`notes/`): if it is lost, or rows have gone, everything is read once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from rebalance_audit.warehouse.warehouse import Warehouse

Fold = Callable[[Any, Sequence[str]], Any]
"""Adds the rows of these files to the value; the value is None at first. It returns None if these rows cannot be added,
so that all rows must be read. It must not change its argument, and returns the same object if nothing was new."""

_KEPT: WeakKeyDictionary[Warehouse, dict[str, dict[str, Any]]] = WeakKeyDictionary()
"""What was kept last, by note: a process that goes on need not read it again."""
_BEHIND = 50
"""How many versions the note of an unchanged value may be behind the table."""


def folded(warehouse: Warehouse, note: str, table: str, version: int | None, fold: Fold, *, value_version: int) -> Any:
    """The fold of all rows of the table at this version (None: the newest); None if there are none. The value must be
    what JSON can hold. `value_version` goes up where its form changes: a note with another one is not used.

    A table in which rows are replaced may be folded if no row that goes can make the value less true.
    """
    at = warehouse.version(table) if version is None else version
    if at is None or at < 0:
        return None
    identity = warehouse.table_id(table)
    memory = _KEPT.setdefault(warehouse, {})
    kept = memory.get(note)
    if kept is None:
        kept = warehouse.recall(note)
        kept["noted"] = kept.get("version")
    value, fresh, is_known = None, [], False
    if kept.get("form") == value_version and kept.get("table_id") == identity and kept["version"] <= at:
        value, is_known = kept["value"], True
        added = warehouse.added(table, kept["version"], at)
        if added is None:
            is_known = False
        elif added:
            value = fold(value, added)
            is_known = value is not None
    if not is_known:
        kept["noted"] = None
        fresh = warehouse.files(table, at)
        value = fold(None, fresh) if fresh else None
    is_late = kept["noted"] is None or at - kept["noted"] > _BEHIND
    noted = kept["noted"]
    if warehouse.is_writing and (is_late or value is not kept.get("value")):
        warehouse.remember(note, {"form": value_version, "table_id": identity, "version": at, "value": value})
        noted = at
    memory[note] = {"form": value_version, "table_id": identity, "version": at, "value": value, "noted": noted}
    return value
