"""Evidence: what was read, line by line and record by record, and all of it that is known about one group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.model.log_kinds import LogKind

NO_END = 1 << 62
"""Greater than every offset, index and instant: the end of what has not ended."""


def record_ref(topic: str, partition: int, offset: int) -> str:
    """The evidence ref of a record; read together with the row's cluster_id."""
    return f"record:{topic}-{partition}@{offset}"


def log_ref(node: str, file_name: str, file_id: str, byte: int) -> str:
    """The evidence ref of a log event: `byte` counts in uncompressed text; `file_id` survives rotation."""
    return f"log:{node}/{file_name}#{file_id}@{byte}"


def node_of_log(ref: str) -> str:
    """`broker-1` of `log:broker-1/server.log#1f…`, the ref of a log or of a line in it; "" of other refs."""
    return ref.removeprefix("log:").partition("/")[0] if ref.startswith("log:") else ""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """A record exactly as it was: one row of bronze.record."""

    cluster_id: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """CreateTime: the coordinator's clock at append."""
    key: bytes | None
    value: bytes | None
    """None is a tombstone."""
    is_control: bool = False
    is_transactional: bool = False
    producer_id: int | None = None
    producer_epoch: int | None = None

    @property
    def ref(self) -> str:
        return record_ref(self.topic, self.partition, self.offset)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A log event exactly as it was, continuation lines included: one row of bronze.log_line."""

    cluster_id: str
    node: str
    """The folder or host it was read from, e.g. `broker-1`."""
    file_name: str
    """The label the file has now; rotation changes it."""
    file_id: str
    """Hash of the file's first KiB of uncompressed text."""
    byte: int
    """Where the event starts, in uncompressed text."""
    text: str

    @property
    def ref(self) -> str:
        return log_ref(self.node, self.file_name, self.file_id, self.byte)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One log line of a known kind, read."""

    kind: LogKind
    ref: str
    node: str
    local_at_ms: int
    """The line's own local time read as if it were UTC; the zone is settled per node afterwards."""
    at_ms: int | None = None
    """UTC, once the zone of the node is known."""
    group_id: str | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    coordinator_broker_id: int | None = None
    could_be_forged: bool = False
    """A client chooses text on this line in a way that could have made the whole line."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A decoded record of one group at its place in __consumer_offsets; `record` is a records.CoordinatorRecord."""

    ref: str
    at_ms: int
    topic: str
    partition: int
    offset: int
    record: Any


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMark:
    """The offset commits of one partition in a stretch of __consumer_offsets without a group record: the first, the
    last, and the two with the longest time between them (None: too few commits, or not known)."""

    topic: str
    partition: int
    offsets_topic: str
    offsets_partition: int
    first_offset: int
    first_at_ms: int
    last_offset: int
    last_at_ms: int
    commit_count: int
    topic_id: str | None = None
    """The topic's id as commits have it, from Kafka 4.1 on: KIP-848 records name topics by id alone."""
    first_position: int | None = None
    """The committed offset of the first commit."""
    last_position: int | None = None
    next_at_ms: int | None = None
    """The second commit."""
    next_position: int | None = None
    gap_from_offset: int | None = None
    gap_from_at_ms: int | None = None
    gap_from_position: int | None = None
    gap_to_offset: int | None = None
    gap_to_at_ms: int | None = None
    gap_to_position: int | None = None
    after_at_ms: int | None = None
    """The commit after the one that ended the longest time without: by then it has read what it had missed."""
    after_position: int | None = None
    second_gap_ms: int | None = None
    in_transaction: bool | None = None
    """Whether the last commit came in a transaction. None: not known."""
    """The longest of the other times between two commits."""

    @property
    def first_ref(self) -> str:
        return record_ref(self.offsets_topic, self.offsets_partition, self.first_offset)

    @property
    def last_ref(self) -> str:
        return record_ref(self.offsets_topic, self.offsets_partition, self.last_offset)

    @property
    def gap_refs(self) -> tuple[str, ...]:
        """The commits before and after the longest gap."""
        ends = (self.gap_from_offset, self.gap_to_offset)
        return tuple(record_ref(self.offsets_topic, self.offsets_partition, at) for at in ends if at is not None)

    @property
    def gap_ms(self) -> int | None:
        """The longest time between two commits, ms; not below 0: a clock that was set back makes no gap."""
        if self.gap_from_at_ms is None or self.gap_to_at_ms is None:
            return None
        return max(self.gap_to_at_ms - self.gap_from_at_ms, 0)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRecord:
    """A decoded record of a Connect topic; `record` is a connect_topics.ConnectStatus or ConnectConfig."""

    ref: str
    at_ms: int
    topic: str
    partition: int
    offset: int
    record: Any


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvidence:
    """All that is known about one group. Any order; `reconstruct` sorts."""

    cluster_id: str
    group_id: str
    records: tuple[GroupRecord, ...] = ()
    marks: tuple[CommitMark, ...] = ()
    lines: tuple[LogEvent, ...] = ()
    """Lines of this group, and lines of its coordinators that name no group; `at_ms` settled."""
    statuses: tuple[ConnectRecord, ...] = ()
    """Connect groups: the status topic whose workers are this group's."""
    configs: tuple[ConnectRecord, ...] = ()
    """Connect groups: the config topic."""
    topic_names: tuple[tuple[str, str], ...] = ()
    """(topic id, topic) as commits, metadata records or the brokers have them; KIP-848 records hold ids alone."""
    is_continued: bool = False
    """Part of a longer history: its records begin with the latest of each key before it."""
    stated: tuple[tuple[str, tuple[str, ...] | None], ...] = ()
    """(client id, client libraries) that lines before this part state. None: two that contradict each other."""
    ownerless: tuple[tuple[str, int], ...] = ()
    """(topic, partition) that members of the classic group had before this part, and none has as it begins."""
