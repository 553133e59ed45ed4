"""Which groups, rebalances, findings and incidents are in row groups that were read or written.

Their first and last value say little of a small file: a commit's rows are of groups from everywhere. What is known here
is every value, four bytes for each, so that a row group without a wanted one is not read again. A file never changes.
The groups are noted with what footers say (`known_footers`), so that a process that begins knows them, too.
"""

from __future__ import annotations

import base64
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rebalance_audit.warehouse import known_footers

COLUMNS: Final = ("group_id", "rebalance_id", "finding_id", "incident_id", "mark_id")
"""By these columns few rows are asked for among many."""
_NOTED = COLUMNS[0]
KNOWN_BYTES = 16 << 20
"""Of all of them; files that were asked about least recently go first."""
_BYTES_BESIDE = 200
"""Of an array, beside its numbers."""

Hashes = npt.NDArray[np.uint32]


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


def hash_of(value: str) -> int:
    """The same in every process. Those of different values may be alike."""
    return zlib.crc32(value.encode())


def hashes_of(values: Iterable[str]) -> Hashes:
    """Sorted numbers, one for each value."""
    return np.unique(np.fromiter(map(zlib.crc32, map(str.encode, values)), np.uint32))


def note_values(file: str, number: int, rows: pa.Table) -> None:
    """Keeps what these rows, all of a row group, hold in their columns of COLUMNS."""
    there = rows.schema.names  # made anew whenever it is asked for
    for name in COLUMNS:
        if name in there and _of(file, number, name) is None:
            hashes = hashes_of({*rows[name].to_pylist()} - {None})
            _known.keep(file, number, name, hashes)
            if name == _NOTED:
                known_footers.add(file, _fact(number), base64.b64encode(hashes.astype("<u4").tobytes()).decode())


def _fact(number: int) -> str:
    return f"values {_NOTED} {number}"


def _of(file: str, number: int, column: str) -> Hashes | None:
    found = _known.of(file, number, column)
    if found is None and column == _NOTED and (noted := known_footers.fact(file, _fact(number))) is not None:
        found = np.frombuffer(base64.b64decode(noted), "<u4")
        _known.keep(file, number, column, found)
    return found


def rename_values(file: str, other: str) -> None:
    """The file has another name now."""
    _known.rename(file, other)
    known_footers.rename(file, other)


def let_values_go(file: str) -> None:
    """Nobody is expected to ask for the file again."""
    _known.let_go(file)
    known_footers.let_go(file)


def distinct_count(file: str, number: int, column: str) -> int | None:
    """How many different values the column of this row group has; None: not known."""
    known = _of(file, number, column)
    return None if known is None else len(known)


def places_among(file: str, number: int, column: str, wanted: Hashes) -> npt.NDArray[np.int64] | None:
    """The places, in these sorted hashes, of those that are in the column of this row group; None: not known."""
    known = _of(file, number, column)
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
