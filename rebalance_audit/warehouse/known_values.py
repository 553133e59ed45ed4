"""Which groups, rebalances, findings and incidents are in row groups that this process read or wrote.

Their first and last value say little of a small file: a commit's rows are of groups from everywhere. What is known here
is every value, eight bytes for each, so that a row group without a wanted one is not read again. A file never changes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

COLUMNS: Final = ("group_id", "rebalance_id", "finding_id", "incident_id", "mark_id")
"""By these columns few rows are asked for among many."""
KNOWN_BYTES = 16 << 20
"""Of all of them; files that were asked about least recently go first."""
_BYTES_BESIDE = 200
"""Of an array, beside its numbers."""

Hashes = npt.NDArray[np.int64]


class _Known:
    """Sorted hashes of values, by file and (row group, column)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_file: OrderedDict[str, dict[tuple[int, str], Hashes]] = OrderedDict()
        self._bytes = 0

    def of(self, file: str, number: int, column: str) -> Hashes | None:
        with self._lock:
            held = self._by_file.get(file)
            if held is None:
                return None
            self._by_file.move_to_end(file)
            return held.get((number, column))

    def keep(self, file: str, number: int, column: str, hashes: Hashes) -> None:
        with self._lock:
            held = self._by_file.setdefault(file, {})
            if (number, column) not in held:
                held[number, column] = hashes
                self._bytes += hashes.nbytes + _BYTES_BESIDE
            while self._bytes > KNOWN_BYTES:
                _, gone = self._by_file.popitem(last=False)
                self._bytes -= _bytes_of(gone)

    def rename(self, file: str, other: str) -> None:
        with self._lock:
            if (held := self._by_file.pop(file, None)) is not None:
                self._by_file[other] = held

    def let_go(self, file: str) -> None:
        with self._lock:
            if (held := self._by_file.pop(file, None)) is not None:
                self._bytes -= _bytes_of(held)


def _bytes_of(held: Mapping[tuple[int, str], Hashes]) -> int:
    return sum(each.nbytes + _BYTES_BESIDE for each in held.values())


_known = _Known()


def hashes_of(values: Iterable[str]) -> Hashes:
    """Sorted numbers, one for each value; those of different values may be alike."""
    return np.unique(np.fromiter(map(hash, values), np.int64))


def note_values(file: str, number: int, rows: pa.Table) -> None:
    """Keeps what these rows, all of a row group, hold in their columns of COLUMNS."""
    there = rows.schema.names  # made anew whenever it is asked for
    for name in COLUMNS:
        if name in there and _known.of(file, number, name) is None:
            _known.keep(file, number, name, hashes_of({*rows[name].to_pylist()} - {None}))


def rename_values(file: str, other: str) -> None:
    """The file has another name now."""
    _known.rename(file, other)


def let_values_go(file: str) -> None:
    """Nobody is expected to ask for the file again."""
    _known.let_go(file)


def may_have(file: str, number: int, column: str, wanted: Hashes) -> bool:
    """Whether a value with one of these hashes may be in the column of this row group."""
    found = places_among(file, number, column, wanted)
    return found is None or len(found) > 0


def places_among(file: str, number: int, column: str, wanted: Hashes) -> npt.NDArray[np.int64] | None:
    """The places, in these sorted hashes, of those that are in the column of this row group; None: not known."""
    known = _known.of(file, number, column)
    if known is None:
        return None
    if len(known) == 0 or len(wanted) == 0:
        return np.empty(0, np.int64)
    if len(known) < len(wanted):
        at = np.minimum(np.searchsorted(wanted, known), len(wanted) - 1)
        found: npt.NDArray[np.int64] = at[wanted[at] == known]
        return found
    at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.flatnonzero(known[at] == wanted)
