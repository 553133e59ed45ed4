"""What was read: runs of records, log events, and the books about each source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ingest.batches import TIMESTAMP, Row
from ingest.errors import Problems


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRun:
    """Records of one topic-partition from one place."""

    topic: str
    partition: int
    source: str
    """`live` or `segment`."""
    node: str | None
    rows: Sequence[Row]


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
    """What one reading saw of one source. Becomes one row of bronze.source, and one more per problem."""

    source: str
    """`record:<topic>-<p>` or `log:<node>/<file>#<id>`."""
    kind: str
    from_position: int | None = None
    to_position: int | None = None
    """One past the last offset or byte read."""
    from_at_ms: int | None = None
    to_at_ms: int | None = None
    item_count: int = 0
    problems: Problems = field(default_factory=Problems)

    def saw(self, rows: Sequence[Row]) -> None:
        first_at_ms, last_at_ms = rows[0][TIMESTAMP], rows[-1][TIMESTAMP]
        self.from_at_ms = first_at_ms if self.from_at_ms is None else min(self.from_at_ms, first_at_ms)
        self.to_at_ms = last_at_ms if self.to_at_ms is None else max(self.to_at_ms, last_at_ms)
        self.item_count += len(rows)
