"""Bounds of the columns by which files are chosen, as the Delta log states them of each file.

So a process that begins opens only the footers of files that may hold what is wanted. Of files of an older release, and
of those that came since a table was listed first, nothing is known here: their footers say it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

_ASKED = frozenset(
    {
        "group_id", "outcome", "status", "topic_id", "copy",
        "assigned_at_ms", "joined_at_ms", "started_at_ms", "ended_at_ms", "started_lower_ms",
    }
)  # fmt: skip
"""Beside the leading column of a table."""
_FILES_AT_MOST = 1 << 17


class StatedColumn(NamedTuple):
    row_count: int
    first: Any
    """None: there is no value."""
    last: Any
    null_count: int


class _Listed(NamedTuple):
    """A listing of a table's files; a row for each."""

    row_counts: pa.ChunkedArray
    columns: dict[str, tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray]]
    """The least and the greatest value, and how many are null."""


_lock = threading.Lock()
_places: OrderedDict[str, tuple[_Listed, int]] = OrderedDict()
"""By file, where its bounds stand."""


def note_stated(files: Sequence[str], listed: pa.Table) -> None:
    """Keeps what the log states of these files: the rows of `DeltaTable.get_add_actions(flatten=True)`."""
    names = set(listed.schema.names)
    if "num_records" not in names:
        return
    columns = {}
    for name in sorted(names):
        kind, _, column = name.partition(".")
        if kind == "min" and {f"max.{column}", f"null_count.{column}"} <= names:
            columns[column] = listed[name], listed[f"max.{column}"], listed[f"null_count.{column}"]
    of_table = _Listed(listed["num_records"], columns)
    with _lock:
        for at, file in enumerate(files):
            _places[file] = of_table, at
        while len(_places) > _FILES_AT_MOST:
            _places.popitem(last=False)


def stated(file: str, column: str) -> StatedColumn | None:
    """What the log states of a column of a file; None if that is not known."""
    of_table, at = _places.get(file, (None, 0))
    if of_table is None or column not in of_table.columns:
        return None
    first, last, null_count = (values[at].as_py() for values in of_table.columns[column])
    row_count = of_table.row_counts[at].as_py()
    if row_count is None or null_count is None or (None in (first, last) and null_count != row_count):
        return None
    return StatedColumn(row_count, first, last, null_count)


def stats_of(metadata: pq.FileMetaData, leading: str) -> dict[str, Any]:
    """What a commit states of a file of a table with this leading column, by its footer."""
    found: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    for at in range(metadata.num_columns):
        column = metadata.schema.column(at).path
        if column != leading and column not in _ASKED:
            continue
        held = [group.column(at).statistics for group in groups]
        if any(one is None or not one.has_null_count or not (one.has_min_max or one.num_values == 0) for one in held):
            continue
        found["nullCount"][column] = sum(one.null_count for one in held)
        if bounds := [(one.min, one.max) for one in held if one.has_min_max]:
            found["minValues"][column] = min(first for first, _ in bounds)
            found["maxValues"][column] = max(last for _, last in bounds)
    return {"numRecords": metadata.num_rows, **{name: of_kind for name, of_kind in found.items() if of_kind}}
