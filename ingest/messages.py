"""Messages of the client as rows and as columns. A column is filled by one `map` over a method of the client's own: a
loop in Python that makes a tuple per message takes as long as the client does for all the rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa
from confluent_kafka import Message

from ingest.batches import ROW_COLUMNS, Row
from ingest.landing import record_column
from ingest.readings import Columns

_GIVEN = ROW_COLUMNS[:6]
_NOT_GIVEN: tuple[None, ...] = (None,) * (len(ROW_COLUMNS) - len(_GIVEN))
"""Columns of a batch: a consumer does not see them."""
_TIMESTAMP_MS = itemgetter(1)


def rows_of(messages: Sequence[Message]) -> list[Row]:
    given = zip(*_columns_of(messages), strict=True)
    return [(*row, *_NOT_GIVEN) for row in given]


def _columns_of(messages: Sequence[Message]) -> list[Iterable[Any]]:
    """In the order of _GIVEN."""
    headers: list[Any] = list(map(Message.headers, messages))
    return [
        map(Message.offset, messages),
        map(_TIMESTAMP_MS, map(Message.timestamp, messages)),
        map(Message.key, messages),
        map(Message.value, messages),
        [tuple(found) if found else None for found in headers] if any(headers) else headers,
        map(Message.leader_epoch, messages),
    ]


class LiveRun:
    """Records of one partition as they arrive."""

    source = "live"
    node = None

    def __init__(self, topic: str, partition: int) -> None:
        self.topic, self.partition = topic, partition
        self._arrived: list[pa.RecordBatch] = []

    @property
    def columns(self) -> Columns:
        table = pa.Table.from_batches(self._arrived)
        return dict(zip(_GIVEN, table.columns, strict=True))

    def add_messages(self, messages: Sequence[Message]) -> int:
        """Add the client's messages; returns how many bytes they take."""
        return self._add(_columns_of(messages))

    def add_rows(self, rows: Sequence[Row]) -> int:
        """Add rows; returns how many bytes they take."""
        return self._add([[row[at] for row in rows] for at in range(len(_GIVEN))])

    def _add(self, columns: Sequence[Iterable[Any]]) -> int:
        # At once, while what the client made of the messages is still in the processor's cache.
        arrays = [record_column(name, list(column)) for name, column in zip(_GIVEN, columns, strict=True)]
        self._arrived.append(pa.RecordBatch.from_arrays(arrays, names=list(_GIVEN)))
        return int(self._arrived[-1].nbytes)
