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
_COLUMNS = ("partition", *_GIVEN)
SHORT_RECORDS = 50
"""Pieces of so many records are copied into the order of partitions, which takes a call for all; longer ones, as there
are while a collector catches up, are sliced."""
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


class LiveRecords:
    """Records of one topic as they arrive, of all its partitions."""

    source = "live"
    node = None
    partition = None

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._arrived: list[pa.RecordBatch] = []

    @property
    def columns(self) -> Columns:
        """Sorted by partition; within one in the order in which they came."""
        table = _by_partition(pa.Table.from_batches(self._arrived))
        self._arrived = table.to_batches()
        return dict(zip(_COLUMNS, table.columns, strict=True))

    def add_messages(self, messages: Sequence[Message]) -> int:
        """Add the client's messages; returns how many bytes they take."""
        return self._add([map(Message.partition, messages), *_columns_of(messages)])

    def add_rows(self, partition: int, rows: Sequence[Row]) -> int:
        """Add rows of one partition; returns how many bytes they take."""
        return self._add([[partition] * len(rows), *([row[at] for row in rows] for at in range(len(_GIVEN)))])

    def _add(self, columns: Sequence[Iterable[Any]]) -> int:
        # At once, while what the client made of the messages is still in the processor's cache.
        arrays = [record_column(name, list(column)) for name, column in zip(_COLUMNS, columns, strict=True)]
        self._arrived.append(pa.RecordBatch.from_arrays(arrays, names=list(_COLUMNS)))
        return int(self._arrived[-1].nbytes)


def _by_partition(table: pa.Table) -> pa.Table:
    partitions = table["partition"].to_numpy()
    begins = [0, *((partitions[1:] != partitions[:-1]).nonzero()[0] + 1).tolist()]
    if len(begins) * SHORT_RECORDS > table.num_rows:
        return table.combine_chunks().take(pa.array(partitions.argsort(kind="stable")))
    pieces = sorted(zip(begins, [*begins[1:], table.num_rows], strict=True), key=lambda piece: partitions[piece[0]])
    return pa.concat_tables([table.slice(begin, end - begin) for begin, end in pieces])
