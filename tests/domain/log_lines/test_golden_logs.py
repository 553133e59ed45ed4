"""Logs of real clusters: nothing that shows a group is overlooked, nothing honest is suspected."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rebalance_audit.domain.log_lines import parse_lines, read_head, starts_event
from rebalance_audit.domain.model import LogEvent, LogKind, SourceLine
from tests.domain.log_lines.lines import a_line

GOLDEN = Path(__file__).parents[2] / "golden"
HOSTILE = "hostile_names"
"""A capture in which clients wrote lines of their own; it has tests of its own."""
LOGS = sorted(
    path
    for pattern in ("*/*/logs/*/*.log*", "*/*/truth/client-logs/*/*.log*")
    for path in GOLDEN.glob(pattern)
    if HOSTILE not in path.parts
)

FORGED_AT = "2026-11-21 12:00:00,000"
"""What the lines of the hostile clients claim; the capture was made at another hour."""

LOGGERS = (
    "kafka.coordinator.group.",
    "org.apache.kafka.coordinator.group.",
    "org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime",
    "org.apache.kafka.connect.runtime.distributed.",
    "org.apache.kafka.clients.consumer.internals.ConsumerRebalanceListenerInvoker",
    "org.apache.kafka.clients.consumer.internals.ConsumerMembershipManager",
    "org.apache.kafka.clients.consumer.internals.AbstractCoordinator",
)
OF_NO_INTEREST = (
    "Removed 0 expired offsets",
    "Finished loading offsets and group metadata from __consumer_offsets-",  # up to 2.5, without an epoch
    "Already loading offsets and group metadata from ",  # two orders to load one partition
    "Loaded member MemberMetadata(",  # what the record holds that it has read
    "Starting up.",
    "[group-coordinator-event-processor-",  # threads of the Java coordinator start and stop
    "[group-coordinator-reaper]",
    "Startup complete.",
    "Shutting down.",
    "Shutdown complete.",
    "Failed to parse Consumer Protocol ",  # the bytes themselves are in the record
    "Scheduling loading of offsets",  # since 2.8 "Elected …" says it
    "Scheduling unloading of offsets",
    "Started unloading",
    "Ignored unloading metadata for ",  # it never was that partition's coordinator
    "Generated ",
    "Discovered group coordinator",
    "Group coordinator ",
    "Requesting disconnect",
    "JoinGroup failed",
    "SyncGroup failed",
    "Herder start",
    "Herder stop",
    "Session key updated",
    "DistributedConfig values:",
    "Handling connector-only config update by ",
    "Internal request verification will be disabled",
    "The protocol used by this Connect cluster has been downgraded",
    "Close timed out with 1 pending requests to coordinator",
    "Attempt to heartbeat with Generation{",
    "Catching up to assignment's config offset.",
    "offsets associated with deleted partitions",
    "Configuring the topology ",
    "Valid topic configuration found",
    "Member updated its member metadata to StreamsGroupMember[",
    " with epoch ",  # the KIP-848 client's own states other than transitions
    "Closing coordinator runtime.",
    "Coordinator runtime closed.",
    "Size of assignment epochs 0 is not equal to",  # 4.3 reads a member record that an older broker wrote
    "failed due to: For requests intended only for the leader",  # names no group; the partition is unloaded right after
    "Execution of FlushBatch failed due to For requests intended only for the leader",
    "Auto-commit request before reconciling new assignment failed.",
    "Reconciliation failed.",
)
"""What these loggers also say; each was looked at."""

BY_WORDS = {
    LogKind.PREPARING: "Preparing to rebalance group",
    LogKind.STABILIZED: "Stabilized group",
    LogKind.ASSIGNMENT_RECEIVED: "Assignment received from leader",
    LogKind.EMPTIED: "is now empty",
    LogKind.MEMBER_FAILED: "has failed, removing it",
    LogKind.EPOCH_BUMPED: "group epoch to ",
    LogKind.TARGET_COMPUTED: "Computed a new target assignment",
    LogKind.WORKER_JOINED: "Joined group at generation",
    LogKind.WORKER_TASK_STARTED: "task finished initialization and start",
    LogKind.CLIENT_ASSIGNED: "Adding newly assigned partitions",
    LogKind.CLIENT_JOINED: "Successfully joined group",
}


def events_in(path: Path) -> Iterator[SourceLine]:
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8", "replace")
    event, at, byte = "", 0, 0
    for line in text.split("\n"):
        if starts_event(line) and event:
            yield a_line(event, byte=byte, node=path.parent.name, file_name=path.name)
            event, byte = "", at
        event += line + "\n"
        at += len(line.encode()) + 1
    if event.strip():
        yield a_line(event, byte=byte, node=path.parent.name, file_name=path.name)


def test_there_are_captures_of_each_kind_of_coordinator() -> None:
    assert {path.relative_to(GOLDEN).parts[0] for path in LOGS} >= {"2.7.2", "3.9.1", "4.3.0"}


@pytest.mark.parametrize("path", LOGS, ids=lambda path: "/".join(path.relative_to(GOLDEN).parts[:2] + path.parts[-2:]))
def test_no_line_about_a_group_is_overlooked_and_no_honest_one_is_suspected(path: Path) -> None:
    sources = list(events_in(path))
    events: dict[str, LogEvent] = {event.ref: event for event in parse_lines(sources)}
    assert not [event for event in events.values() if event.could_be_forged and not _is_ambiguous(event)]
    overlooked = []
    for source in sources:
        head = read_head(source.text)
        assert head is not None, source.text[:200]
        if source.ref in events or not (head.logger or "").startswith(LOGGERS):
            continue
        if not any(words in head.message for words in OF_NO_INTEREST):
            overlooked.append(head.message[:200])
    assert overlooked == []
    counts = Counter(event.kind for event in events.values())
    for kind, words in BY_WORDS.items():
        assert counts[kind] == sum(words in source.text for source in sources), kind


def _is_ambiguous(event: LogEvent) -> bool:
    """Kafka writes `[GroupId g] Computed new metadata hash` of consumer groups, `[GroupId g][MemberId m] …` of Streams
    groups: of a consumer group with such a name the line is the same, so it is marked until a record confirms it."""
    return event.kind is LogKind.TOPIC_METADATA_COMPUTED and event.fields.get("group_type") == "streams"


def test_a_streams_groups_metadata_hash_is_shown_of_the_group_and_marked() -> None:
    (path,) = (GOLDEN / "4.3.0" / "streams_protocol" / "logs").glob("*/server.log.gz")
    hashes = [event for event in parse_lines(events_in(path)) if event.kind is LogKind.TOPIC_METADATA_COMPUTED]
    assert [(event.group_id, event.could_be_forged) for event in hashes] == [("flow-app", True)]


def test_what_a_client_wrote_into_the_log_is_marked_and_what_the_broker_wrote_is_not() -> None:
    (path,) = (GOLDEN / "4.3.0" / HOSTILE / "logs").glob("*/server.log.gz")
    lines = {line.ref: line.text for line in events_in(path)}
    events = [event for event in parse_lines(events_in(path)) if "victim-app" in (event.group_id or "")]
    is_the_clients = {event.ref: FORGED_AT in lines[event.ref] for event in events}
    assert sum(is_the_clients.values()) >= 1
    assert {event.ref: event.could_be_forged for event in events} == is_the_clients
    kinds = [event.kind for event in events if event.group_id == "victim-app"]
    assert kinds.count(LogKind.STABILIZED) >= 2
    assert not any(event.could_be_forged for event in events if event.group_id == "victim-app")


def test_the_eager_story_reads_like_it_happened() -> None:
    """3.9.1, one consumer, then two, then three; one leaves, one is killed, the last one leaves."""
    found = [
        (event.kind, event.fields.get("generation_id"))
        for path in LOGS
        if path.relative_to(GOLDEN).parts[:2] == ("3.9.1", "eager_join_leave_kill")
        and path.name.startswith("server.log")
        for event in parse_lines(events_in(path))
        if event.group_id == "orders-app"
    ]
    generations = [number for kind, number in found if kind is LogKind.STABILIZED]
    assert generations == list(range(1, len(generations) + 1))
    assert [number for kind, number in found if kind is LogKind.ASSIGNMENT_RECEIVED] == generations
    assert [number for kind, number in found if kind is LogKind.PREPARING] == [*range(len(generations) + 1)]
    assert (LogKind.EMPTIED, len(generations) + 1) in found
