"""The bytes of binary Arrow columns as arrays of numpy, without a Python object for each row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Shorts = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


def plain_binary(column: pa.Array) -> pa.BinaryArray:
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def buffers_of(column: pa.BinaryArray) -> tuple[Shorts, Shorts, Bytes]:
    """Start and size of every row, and the bytes they are in; a null row has size 0."""
    _, offsets, data = column.buffers()
    if len(column) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    size = np.diff(ends)
    if column.null_count:  # the format does not forbid bytes behind a null
        size[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return ends[:-1], size, content


def int16_at(data: Bytes, at: Ints) -> npt.NDArray[np.int32]:
    high = data[at].astype(np.int8).astype(np.int32)
    return (high << 8) | data[at + 1]
