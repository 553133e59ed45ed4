"""Readings: runs of records, log events, and what was read of each source (rows of bronze.source)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Protocol

from ingest.batches import ROW_COLUMNS, TIMESTAMP, Row
from ingest.errors import Problems

Columns = Mapping[str, Sequence[Any]]
"""Some of ROW_COLUMNS, and `partition` where a run has none, all of one length, as lists or chunked arrays; one that is
missing is null throughout."""


class AnyRun(Protocol):
    """Consecutive records of one topic-partition, or of several partitions one after the other; at least one."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int | None:
        """None: a column says it of each record."""

    @property
    def source(self) -> str:
        """How the records were read: `live` or `segment`."""

    @property
    def node(self) -> str | None: ...

    @property
    def columns(self) -> Columns: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRun:
    topic: str
    partition: int
    source: str
    node: str | None
    rows: Sequence[Row]

    @property
    def columns(self) -> Columns:
        # zip(*rows) has every row as an argument of one call, which takes four times as long.
        return {name: list(map(itemgetter(at), self.rows)) for at, name in enumerate(ROW_COLUMNS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogText:
    """One log event: where it stands in a file's uncompressed text, and what it says."""

    node: str
    file_name: str
    file_id: str
    byte: int
    text: str


@dataclass(slots=True, kw_only=True)
class SourceReading:
    """One reading of one source, and what it saw. Becomes one row of bronze.source, and one more per problem."""

    source: str
    """`record:<topic>-<p>` or `log:<node>/<file>#<id>`."""
    kind: str
    from_position: int | None = None
    to_position: int | None = None
    """One past the last offset or byte read."""
    from_at_ms: int | None = None
    to_at_ms: int | None = None
    item_count: int = 0
    let_go_count: int = 0
    """Lines that were read and not kept."""
    problems: Problems = field(default_factory=Problems)

    def saw(self, rows: Sequence[Row]) -> None:
        self.saw_records(len(rows), rows[0][TIMESTAMP], rows[-1][TIMESTAMP])

    def saw_records(self, count: int, first_at_ms: int, last_at_ms: int) -> None:
        self.from_at_ms = first_at_ms if self.from_at_ms is None else min(self.from_at_ms, first_at_ms)
        self.to_at_ms = last_at_ms if self.to_at_ms is None else max(self.to_at_ms, last_at_ms)
        self.item_count += count
