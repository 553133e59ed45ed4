"""Staged files of few rows that nobody wrote yet. A cycle stages two dozen. Most become part of larger files, so only
their rows are asked for: to write, open and read them took a twentieth of the cycle.

A file is written as soon as somebody asks for the file itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pyarrow as pa

MOST_BYTES = 32 << 20
"""Of the rows of all such files together, as Arrow has them."""


class _UnwrittenFile(NamedTuple):
    rows: pa.Table
    byte_count: int
    write: Callable[[], None]


_lock = threading.RLock()
_waiting: dict[str, _UnwrittenFile] = {}


def put(file: str, rows: pa.Table, write: Callable[[], None]) -> bool:
    """Keeps the rows of the file, which `write` writes. False if there is no room for them."""
    byte_count = rows.get_total_buffer_size()
    with _lock:
        if sum(each.byte_count for each in _waiting.values()) + byte_count > MOST_BYTES:
            return False
        _waiting[file] = _UnwrittenFile(rows, byte_count, write)
        return True


def rows_of(file: str) -> pa.Table | None:
    """The rows of a file that is not written yet; None of any other."""
    waiting = _waiting.get(file)
    return None if waiting is None else waiting.rows


def byte_count_of(file: str) -> int | None:
    """The bytes of the buffers of these rows, which takes less time to know than those of the rows alone."""
    waiting = _waiting.get(file)
    return None if waiting is None else waiting.byte_count


def is_waiting(file: str) -> bool:
    """Whether the file is not written yet."""
    return file in _waiting


def write(files: Iterable[str]) -> None:
    """Writes those of the files that are not written yet."""
    if not _waiting:
        return
    for file in files:
        with _lock:
            if (waiting := _waiting.pop(file, None)) is not None:
                waiting.write()


def write_all() -> None:
    """For another process that is given the names of files."""
    write(list(_waiting))


def let_go(file: str) -> None:
    """Nobody asks for the file again."""
    with _lock:
        _waiting.pop(file, None)


def below(folder: str) -> list[str]:
    """The files in a folder that are not written yet."""
    return [file for file in list(_waiting) if file.startswith(f"{folder}/")]
