"""How far apart records, lines and callbacks are: `python -m tests.timings` prints the table of docs/measured.md.

One end of each time is a record or a line of Kafka, the other what clients and tasks wrote down on the same clock, over
all golden captures. Nothing here comes from a reconstruction.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

from ingest.evidence import read_evidence
from rebalance_audit.domain.decode import Commit, decode_source
from rebalance_audit.domain.model import GroupEvidence, GroupRecord, LogKind
from rebalance_audit.domain.protocols import connect_protocol, consumer_protocol
from rebalance_audit.domain.records import MemberMetadata
from rebalance_audit.domain.wire import DecodeError
from tests.captures import CAPTURES, gathered
from tests.connect_truth import journal, worker_urls
from tests.truth import client_events, scenario

NEAR_MS = 5_000
"""Two instants further apart belong to different rebalances: the steps of a scenario are further apart."""
STATUS_NEAR_MS = 1_000

OTHER_LIBRARIES = {"kafkajs", "franz-go", "sarama", "kafka-go", "kafka-python", "aiokafka"}
"""When these commit, heartbeat and call back is their own (docs/clients.md); the page is of Java and librdkafka."""
MEASURED = [c for c in CAPTURES if not OTHER_LIBRARIES & {x["library"] for x in scenario(c).get("clients", ())}]

Event = Mapping[str, Any]
Sample = tuple[str, int]
"""(what was measured, ms)."""


def samples(capture: Path) -> Iterator[Sample]:
    """Every sample of one capture."""
    events = client_events(capture)
    has_workers = bool(scenario(capture).get("workers"))
    for group in gathered(capture).groups:
        mine = [e for e in events if e.get("group") == group.group_id]
        records = sorted(group.records, key=lambda r: (r.topic, r.partition, r.offset))
        classic = [r for r in records if r.record.name == "GroupMetadata" and r.record.value and r.record.value.members]
        yield from _deliveries([r for r in classic if r.record.value.protocol_type == "consumer"], mine)
        yield from _windows(group, classic)
        yield from _poll_timeouts(group, mine)
        yield from _epochs(records, mine)
        if has_workers:
            yield from _tasks(classic, capture)
            yield from _statuses(group, capture)
    yield from _commits(capture, events)


def _deliveries(records: Iterable[GroupRecord], events: Sequence[Event]) -> Iterator[Sample]:
    for record in records:
        value = record.record.value
        given = [e["at_ms"] for e in _near(events, "assigned_start", record) if e.get("generation") == value.generation]
        if given:
            yield "first assigned callback after the group record", min(given) - record.at_ms
            yield "last assigned callback after the group record", max(given) - record.at_ms
        if value.protocol == "cooperative-sticky":
            for client in sorted({m.client_id for m in value.members if _loses(m)}):
                taken = [e["at_ms"] for e in _near(events, "revoked_start", record) if e["client"] == client]
                if taken:
                    what = "revoked callback after the cooperative assignment that takes away"
                    yield what, min(taken, key=lambda at: abs(at - record.at_ms)) - record.at_ms


def _loses(member: MemberMetadata) -> bool:
    """Whether it owned more as it joined than the assignment leaves it."""
    owned = consumer_protocol.decode_subscription(member.subscription).owned_partitions
    kept = consumer_protocol.decode_assignment(member.assignment).partitions if member.assignment else ()
    return bool(set(owned) - set(kept))


def _windows(group: GroupEvidence, records: Sequence[GroupRecord]) -> Iterator[Sample]:
    by_number = {r.record.value.generation: r for r in records if r.record.value.protocol_type == "consumer"}
    for line in group.lines:
        record = by_number.get(line.fields.get("generation_id", -2) + 1) if line.kind is LogKind.PREPARING else None
        if record is not None and line.at_ms is not None and record.at_ms >= line.at_ms:
            yield "group record after the `Preparing` line", record.at_ms - line.at_ms


def _poll_timeouts(group: GroupEvidence, events: Sequence[Event]) -> Iterator[Sample]:
    for line in group.lines:
        if line.kind is LogKind.MEMBER_LEFT and "poll timeout" in str(line.fields.get("client_reason")):
            for event in events:
                if event["event"] == "lost_start" and event.get("member_id") == line.fields.get("member_id"):
                    yield "lost callback after the LeaveGroup of a poll timeout", event["at_ms"] - (line.at_ms or 0)


def _epochs(records: Sequence[GroupRecord], events: Sequence[Event]) -> Iterator[Sample]:
    begun: dict[int, int] = {}
    held: dict[str, int] = {}
    for record in records:
        name, value = record.record.name, record.record.value
        if value is None:
            continue
        if name == "ConsumerGroupMetadata":
            begun[value.epoch] = record.at_ms
        elif name == "ConsumerGroupTargetAssignmentMetadata" and value.assignment_epoch in begun:
            yield "target assignment after the epoch record", record.at_ms - begun.pop(value.assignment_epoch)
        elif name == "ConsumerGroupCurrentMemberAssignment":
            member_id = record.record.key.member_id
            count = sum(len(entry.partitions) for entry in value.assigned_partitions)
            if count > held.get(member_id, 0):
                mine = [e for e in _near(events, "assigned_start", record) if e.get("member_id") == member_id]
                given = [e["at_ms"] for e in mine if e["partitions"]]
                if given:
                    nearest = min(given, key=lambda at: abs(at - record.at_ms))
                    yield "assigned callback after the current-assignment record", nearest - record.at_ms
            held[member_id] = count


def _tasks(records: Iterable[GroupRecord], capture: Path) -> Iterator[Sample]:
    names, events = worker_urls(capture), journal(capture)
    for record in records:
        value = record.record.value
        if value.protocol_type != "connect" or value.protocol == "default":
            continue
        for member in value.members:
            if not member.assignment:
                continue
            worker = names.get(connect_protocol.decode_worker_state(member.subscription).url)
            assignment = connect_protocol.decode_assignment(member.assignment)
            for what, kind, tasks in (
                ("Connect: start() returned after the group record", "task_start_end", assignment.assigned),
                ("Connect: stop() called after the group record", "task_stop_begin", assignment.revoked),
            ):
                for task in tasks:
                    done = _of_task(events, kind, worker, f"{task.connector}-{task.task}")
                    found = [at for at in done if -50 <= at - record.at_ms < NEAR_MS]
                    if found:
                        yield what, found[0] - record.at_ms


def _statuses(group: GroupEvidence, capture: Path) -> Iterator[Sample]:
    events = journal(capture)
    by_worker_id = {url.split("//")[-1].rstrip("/"): name for url, name in worker_urls(capture).items()}
    for status in group.statuses:
        record = status.record
        if record.task is None or record.state not in ("RUNNING", "UNASSIGNED"):
            continue
        kind = "task_start_end" if record.state == "RUNNING" else "task_stop_end"
        done = _of_task(events, kind, by_worker_id.get(record.worker_id or ""), f"{record.connector}-{record.task}")
        near = [at for at in done if abs(at - status.at_ms) < STATUS_NEAR_MS]
        if near:
            after = "start()" if record.state == "RUNNING" else "stop()"
            nearest = min(near, key=lambda at: abs(at - status.at_ms))
            yield f"Connect: {record.state} status after {after} returned", status.at_ms - nearest


def _commits(capture: Path, events: Iterable[Event]) -> Iterator[Sample]:
    commits: dict[tuple[str, str], list[int]] = defaultdict(list)
    for source in read_evidence(capture).records():
        try:
            decoded = decode_source(source)
        except DecodeError:
            continue
        if isinstance(decoded, Commit) and not decoded.is_tombstone:
            commits[decoded.group_id, f"{decoded.topic}-{decoded.partition}"].append(source.timestamp_ms)
    for times in commits.values():
        times.sort()
    for event in events:
        if event["event"] != "revoked_start":
            continue
        found = [commits.get((event["group"], p), []) for p in event["partitions"]]
        last = [times[at - 1] for times in found if (at := bisect_right(times, event["at_ms"] + 20))]
        if last:
            yield "revoked callback after the last commit of its partitions", event["at_ms"] - max(last)


def _near(events: Iterable[Event], kind: str, record: GroupRecord) -> list[Event]:
    return [e for e in events if e["event"] == kind and abs(e["at_ms"] - record.at_ms) < NEAR_MS]


def _of_task(events: Iterable[Event], kind: str, worker: str | None, task: str) -> list[int]:
    return [e["at_ms"] for e in events if e["event"] == kind and e["client"] == worker and task in e.get("tasks", ())]


def table(found: Iterable[Sample]) -> str:
    """Markdown: what, count, smallest, median, 90th percentile, largest."""
    by_name: dict[str, list[int]] = defaultdict(list)
    for name, ms in found:
        by_name[name].append(ms)
    lines = ["| what, ms | n | min | median | p90 | max |", "|---|---|---|---|---|---|"]
    for name, values in sorted(by_name.items()):
        values.sort()
        numbers = (len(values), values[0], statistics.median(values), values[ceil(0.9 * len(values)) - 1], values[-1])
        lines.append(f"| {name} | {' | '.join(f'{n:g}' for n in numbers)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(sample for capture in MEASURED for sample in samples(capture)))
