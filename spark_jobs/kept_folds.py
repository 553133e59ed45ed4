"""Keeps between runs what was worked out from all rows of a table, so that a run reads only the rows that came since.

It is a note of the warehouse (`notes/`): if it is lost, or rows have gone, everything is read once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from rebalance_audit.warehouse.warehouse import Warehouse

Fold = Callable[[Any, Sequence[str]], Any]
"""Adds the rows of these files to the value; the value is None at first. It returns None if these rows cannot be added,
so that all rows must be read. It must not change its argument, and returns the same object if nothing was new."""

NOTE: Final = "kept-folds"
"""A note is written when its value changes. This note has, for each value that still holds at a later version of its
table, the form and the version that its own note states, and the later version. So a process that begins reads only
what came since the last run."""
_KEPT: WeakKeyDictionary[Warehouse, dict[str, dict[str, Any]]] = WeakKeyDictionary()
"""What was kept last, by note: a process that goes on need not read it again."""


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
        form, noted, until = warehouse.recall(NOTE).get(note, (None, None, None))
        if noted is not None and (form, noted) == (kept.get("form"), kept["noted"]):
            kept["version"] = until
    value, is_known = None, False
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
        files = warehouse.files(table, at)
        value = fold(None, files) if files else None
    noted = kept["noted"]
    if warehouse.is_writing and (noted is None or value is not kept.get("value")):
        warehouse.remember(note, {"form": value_version, "table_id": identity, "version": at, "value": value})
        noted = at
    memory[note] = {"form": value_version, "table_id": identity, "version": at, "value": value, "noted": noted}
    return value


def keep(warehouse: Warehouse) -> None:
    """Notes up to which versions of their tables the values hold that did not change. Only for the one who writes."""
    before = warehouse.recall(NOTE)
    now = {
        note: [kept["form"], kept["noted"], kept["version"]]
        for note, kept in _KEPT.get(warehouse, {}).items()
        if kept["noted"] not in (None, kept["version"])
    }
    if (whole := before | now) != before:
        warehouse.remember(NOTE, whole)
