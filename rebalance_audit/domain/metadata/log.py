"""The metadata log in order: which records hold, and since when.

Transactions become effective as a whole at their end. Snapshots stand for what came before them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rebalance_audit.domain.metadata.others import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ControlRecord,
    EndTransactionRecord,
    TopicRecord,
    decode_control,
)
from rebalance_audit.domain.metadata.registry import MetadataRecord, decode_metadata
from rebalance_audit.domain.metadata.source import SourceMetadata
from rebalance_audit.domain.model import SourceRecord
from rebalance_audit.domain.wire import DecodeError

TOPIC_FRAME = b"\x01\x02"
"""The first bytes of a TopicRecord: frame version, record type."""


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """One record that holds. Made by the million, so without keywords."""

    record: MetadataRecord | ControlRecord
    ref: str
    at_ms: int
    """When it became effective: in a transaction the time of its end."""
    offset: int
    epoch: int | None = None
    snapshot: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that could not be decoded; the rest goes on."""

    source: SourceMetadata
    error: DecodeError


@dataclass(slots=True)
class MetadataReader:
    """Reads the log from front to back, a record at a time; snapshots where they stand in it.

    `refused` and `gaps` fill while reading.
    """

    refused: list[Refused] = field(default_factory=list)
    next_offset: int | None = None
    """One past the last offset read."""
    gaps: list[tuple[int, int]] = field(default_factory=list)
    """Offsets [from, to) that no file at hand holds."""
    seen_until_ms: int | None = None
    stretches: Sequence[tuple[int, int]] | None = None
    """Offsets [from, to) that are held, in order, where only some of their records are handed over; None: all are."""
    _transaction: list[MetadataChange] | None = None
    has_base: bool = False
    """The state is known: the log was read from offset 0, or a snapshot was."""

    def read(self, sources: Iterable[SourceMetadata]) -> Iterator[MetadataChange]:
        """Yield the changes of these records, in the order of the log. May be called again with what follows: a log
        that is still growing."""
        for source in sources:
            if source.snapshot is None:
                if self.next_offset is not None and source.offset < self.next_offset:
                    continue  # read before, from another copy or in a snapshot
                self._come_to(source.offset)
                self.next_offset = source.offset + 1
                if self.seen_until_ms is None or source.timestamp_ms > self.seen_until_ms:
                    self.seen_until_ms = source.timestamp_ms
            elif self._stands_for_nothing(source.snapshot[0]):
                continue
            try:
                yield from self._effective(source)
            except DecodeError as error:
                self.refused.append(Refused(source, error))

    def _come_to(self, offset: int) -> None:
        start = offset if self.stretches is None else _stretch_at(self.stretches, offset)[0]
        if self.next_offset is not None and start > self.next_offset:
            self.gaps.append((self._reached(start), start))
            self._transaction = None
        self.has_base = self.has_base or start == 0

    def _reached(self, offset: int) -> int:
        """One past the last offset before `offset` that is held."""
        reached = self.next_offset or 0
        if self.stretches is None:
            return reached
        return max(reached, min(offset, _stretch_at(self.stretches, offset - 1)[1]))

    def _stands_for_nothing(self, end_offset: int) -> bool:
        """Whether all that this snapshot stands for was read: from the log, or from another snapshot."""
        is_from_zero = bool(self.stretches) and end_offset > 0 and _stretch_at(self.stretches or (), 0)[1] > 0
        return (self.has_base or is_from_zero) and end_offset <= self._reached(end_offset)

    def _effective(self, source: SourceMetadata) -> Iterator[MetadataChange]:
        if source.is_control:
            control = decode_control(source.key, source.value)
            yield self._change(control, source)
            if control.name == "snapshot_footer" and source.snapshot is not None:
                reached = self._reached(source.snapshot[0])
                if reached > 0 and source.snapshot[0] > reached:
                    self.gaps.append((reached, source.snapshot[0]))
                self.next_offset = max(self.next_offset or 0, source.snapshot[0])
                self._transaction, self.has_base = None, True
            return
        record = decode_metadata(source.value)
        content = record.value
        if self._transaction is None:
            if isinstance(content, BeginTransactionRecord):
                self._transaction = []
                return
            yield self._change(record, source)
        elif isinstance(content, AbortTransactionRecord):
            self._transaction = None
        elif isinstance(content, EndTransactionRecord):
            effective, self._transaction = self._transaction, None
            for change in effective:
                yield MetadataChange(change.record, change.ref, source.timestamp_ms, change.offset, change.epoch)
        else:
            self._transaction.append(self._change(record, source))

    def _change(self, record: MetadataRecord | ControlRecord, source: SourceMetadata) -> MetadataChange:
        return MetadataChange(record, source.ref, source.timestamp_ms, source.offset, source.epoch, source.snapshot)


def _stretch_at(stretches: Sequence[tuple[int, int]], offset: int) -> tuple[int, int]:
    """The last one that begins at or before the offset; an empty one where none does."""
    at = bisect_right(stretches, offset, key=lambda stretch: stretch[0]) - 1
    return stretches[at] if at >= 0 else (0, 0)


def named_topic(source: SourceRecord) -> tuple[str, str] | None:
    """(topic id, topic) where the record gives a topic its name, read without the log around it: for a name it does not
    matter whether its transaction came to an end. Never raises."""
    if source.is_control or (source.value or b"")[:2] != TOPIC_FRAME:
        return None
    try:
        content = decode_metadata(source.value).value
    except DecodeError:
        return None  # who reads the whole log says so
    return (content.topic_id, content.name) if isinstance(content, TopicRecord) else None


def topic_names(sources: Iterable[SourceMetadata]) -> dict[str, str]:
    """Topic id -> name, of topics that were deleted too: records of KIP-848 groups name topics by id alone."""
    names: dict[str, str] = {}
    for change in MetadataReader().read(sources):
        if isinstance(change.record, MetadataRecord) and isinstance(change.record.value, TopicRecord):
            names[change.record.value.topic_id] = change.record.value.name
    return names
