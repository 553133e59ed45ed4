"""From single events to all that is known about one group.

Two ways lead here and give the same: the pipeline (rows of silver.group_event and silver.commit_mark, brought together
by Spark) and `gather` (everything at once, in one process, for `explain`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from rebalance_audit.domain.connect_topics import ConnectConfig, ConnectStatus
from rebalance_audit.domain.decode import OFFSETS_TOPIC, Commit, decode_source, detail
from rebalance_audit.domain.frozen import maker
from rebalance_audit.domain.gather.belonging import ClusterFacts, Route, groups_by_route, routes_of
from rebalance_audit.domain.gather.clock_tally import infer_utc_offset_ms
from rebalance_audit.domain.gather.clocks import NodeClock, ZoneSource, pairs_by_node
from rebalance_audit.domain.gather.commit_marks import CommitFolder
from rebalance_audit.domain.log_lines import parse_lines
from rebalance_audit.domain.metadata import is_metadata_topic, named_topic
from rebalance_audit.domain.model import (
    CommitMark,
    ConnectRecord,
    GroupEvidence,
    GroupRecord,
    LogEvent,
    LogKind,
    SourceLine,
    SourceRecord,
    changed,
)
from rebalance_audit.domain.records import decode_record
from rebalance_audit.domain.wire import DecodeError

Event = GroupRecord | ConnectRecord | LogEvent

_UTC = NodeClock(source=ZoneSource.ASSUMED)


# ---- one event as a row, and back


def record_row(source: SourceRecord, event: GroupRecord | ConnectRecord) -> dict[str, Any]:
    """The event as a row of silver.group_event."""
    if isinstance(event, GroupRecord):
        source_kind, kind, group_id = "record", event.record.name, event.record.key.group_id
    else:
        source_kind = "status" if isinstance(event.record, ConnectStatus) else "config"
        kind, group_id = event.record.kind, None
    return {
        "cluster_id": source.cluster_id, "group_id": group_id, "ref": event.ref, "source_kind": source_kind,
        "kind": kind, "topic": source.topic, "partition": source.partition, "offset": source.offset,
        "at_ms": source.timestamp_ms, "key": source.key, "value": source.value,
        "detail": _write_json(detail(event)),
    }  # fmt: skip


def line_row(source: SourceLine, event: LogEvent) -> dict[str, Any]:
    """The event as a row of silver.group_event; its time is local."""
    detail = {"fields": dict(event.fields), "at_ms": event.at_ms, "coordinator_broker_id": event.coordinator_broker_id}
    if event.could_be_forged:  # its neighbours in the file may have shown it, so it is kept
        detail["could_be_forged"] = True
    return {
        "cluster_id": source.cluster_id, "group_id": event.group_id, "ref": event.ref, "source_kind": "log",
        "kind": event.kind.value, "node": source.node, "file_name": source.file_name, "file_id": source.file_id,
        "byte": source.byte, "at_ms": event.local_at_ms, "text": source.text, "detail": _write_json(detail),
    }  # fmt: skip


def event_of_row(row: Mapping[str, Any]) -> Event:
    """The event of a row of silver.group_event: a record decoded again from its bytes, a line as its detail holds it.

    Reading a line's text again would cost five times as much and say the same.
    """
    if row["source_kind"] == "log":
        detail, _ = _read_json(row["detail"])
        return _make_line(
            kind=_KINDS[row["kind"]], ref=row["ref"], node=row["node"], local_at_ms=row["at_ms"], at_ms=detail["at_ms"],
            group_id=row["group_id"], fields=_with_tuples(detail["fields"]),
            coordinator_broker_id=detail["coordinator_broker_id"], could_be_forged="could_be_forged" in detail,
        )  # fmt: skip
    if row["source_kind"] == "record":
        return _make_record(
            ref=row["ref"], at_ms=row["at_ms"], topic=row["topic"], partition=row["partition"], offset=row["offset"],
            record=decode_record(row["key"], row["value"]),
        )  # fmt: skip
    decoded = decode_source(
        SourceRecord(
            cluster_id=row["cluster_id"],
            topic=row["topic"],
            partition=row["partition"],
            offset=row["offset"],
            timestamp_ms=row["at_ms"],
            key=row["key"],
            value=row["value"],
        )
    )
    assert isinstance(decoded, ConnectRecord)
    return decoded


_KINDS = {kind.value: kind for kind in LogKind}
_make_line, _make_record = maker(LogEvent), maker(GroupRecord)
_write_json = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=list, sort_keys=True).encode
_read_json = json.JSONDecoder().raw_decode


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no tuples; events have no lists."""
    for name, value in fields.items():
        if isinstance(value, list):
            fields[name] = _as_tuple(value)
    return fields


def _as_tuple(values: list[Any]) -> tuple[Any, ...]:
    return tuple(_as_tuple(value) if isinstance(value, list) else value for value in values)


# ---- all of one group


def with_instants(lines: Iterable[LogEvent], clocks: Mapping[str, NodeClock]) -> list[LogEvent]:
    """The lines with their instants. A line whose layout has a zone keeps its own; a node without a clock is on UTC."""
    found = []
    latest: dict[str, int] = {}
    for (file, _), line in sorted([(_place_in_file(line), line) for line in lines], key=itemgetter(0)):
        at_ms = line.at_ms
        if at_ms is None:
            clock = clocks.get(line.node, _UTC)
            at_ms = clock.to_utc_ms(line.local_at_ms, not_before_ms=latest.get(file))
            line = changed(line, at_ms=at_ms)
        latest[file] = at_ms
        found.append(line)
    return found


def _place_in_file(line: LogEvent) -> tuple[str, int]:
    file, _, byte = line.ref.rpartition("@")
    return file, int(byte)


def group_evidence(
    cluster_id: str,
    group_id: str,
    events: Iterable[Event],
    marks: Iterable[CommitMark],
    clocks: Mapping[str, NodeClock],
    topic_names: Iterable[tuple[str, str]] = (),
) -> GroupEvidence:
    """All that is known about one group, from its own events and those routed to it, in any order.

    `topic_names`: what other groups' commits and the metadata log show, for records that name topics by id; a share
    group has no commits of its own.
    """
    marks = list(marks)
    records: list[GroupRecord] = []
    lines: list[LogEvent] = []
    statuses: list[ConnectRecord] = []
    configs: list[ConnectRecord] = []
    for event in events:
        if isinstance(event, GroupRecord):
            records.append(event)
        elif isinstance(event, LogEvent):
            lines.append(event)
        elif isinstance(event.record, ConnectStatus):
            statuses.append(event)
        elif isinstance(event.record, ConnectConfig):
            configs.append(event)
    names = {(m.topic_id, m.topic) for m in marks if m.topic_id is not None}
    if any(r.record.name != "GroupMetadata" for r in records):  # those of a classic group name topics themselves
        names.update(topic_names)
    return GroupEvidence(
        cluster_id=cluster_id,
        group_id=group_id,
        records=tuple(sorted(records, key=_place_in_topic)),
        marks=tuple(sorted(marks, key=_place_of_mark)),
        lines=tuple(with_instants(lines, clocks)),
        statuses=tuple(sorted(statuses, key=_place_in_topic)),
        configs=tuple(sorted(configs, key=_place_in_topic)),
        topic_names=tuple(sorted(names)),
    )


_place_in_topic = attrgetter("topic", "partition", "offset")
_place_of_mark = attrgetter("topic", "partition", "first_offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecoded:
    """A row of silver.undecoded."""

    ref: str
    reason: str
    byte_position: int
    part: str
    field: str
    detail: str
    raw: bytes | None
    at_ms: int | None


def undecoded(source: SourceRecord, refused: DecodeError) -> Undecoded:
    before = len(source.key or b"") if refused.part not in ("key", "") else 0
    return Undecoded(
        ref=source.ref,
        reason=refused.reason.value,
        byte_position=before + refused.at,
        part=refused.part,
        field=refused.field,
        detail=str(refused),
        raw=source.key if refused.part == "key" else source.value,
        at_ms=source.timestamp_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    groups: tuple[GroupEvidence, ...]
    """By group id."""
    undecoded: tuple[Undecoded, ...]
    clocks: Mapping[str, NodeClock]
    """By node."""


def gather(
    records: Iterable[SourceRecord],
    lines: Iterable[SourceLine],
    zones: Mapping[str, str] | None = None,
    group_id: str | None = None,
) -> Gathered:
    """All groups of one cluster with their evidence, in one process. Records of a partition come in offset order, lines
    of a file in byte order. `zones` are configured time zones by node. With `group_id` the result holds that group
    only; clocks and the belonging of Connect topics are found from all groups."""
    facts = ClusterFacts()
    named: dict[str, list[Event]] = defaultdict(list)
    unnamed: list[Event] = []
    refused: list[Undecoded] = []
    commits = CommitFolder()
    topic_names: set[tuple[str, str]] = set()
    cluster_id = ""
    for source in _besides_metadata(records, topic_names):
        cluster_id = source.cluster_id
        if source.is_control and source.topic == OFFSETS_TOPIC:
            commits.marker(source)
            continue
        try:
            event = decode_source(source)
        except DecodeError as error:
            refused.append(undecoded(source, error))
            continue
        if isinstance(event, Commit):
            if event.topic_id is not None:
                topic_names.add((event.topic_id, event.topic))
            if group_id is None or event.group_id == group_id:
                commits.commit(source, event)
        elif isinstance(event, GroupRecord):
            commits.group_record(event)
            named[event.record.key.group_id].append(event)
            facts.add(event)
        elif isinstance(event, ConnectRecord):
            unnamed.append(event)
            facts.add(event)
    parsed: list[LogEvent] = []
    seen: dict[str, str] = {}
    for _, file_lines in groupby(lines, key=lambda line: (line.node, line.file_id)):
        for line in parse_lines(_noting(file_lines, seen)):
            cluster_id = cluster_id or seen["cluster_id"]
            parsed.append(line)
            facts.add(line)
            if line.group_id is None:
                unnamed.append(line)
            else:
                named[line.group_id].append(line)
    all_records = [e for events in named.values() for e in events if isinstance(e, GroupRecord)]
    clocks = clocks_of(
        pairs_by_node(parsed, all_records), {line.node for line in parsed} | set(zones or ()), zones or {}
    )
    belonging = groups_by_route(facts)
    for homeless in unnamed:
        for group in {g for route in _routes(homeless) for g in belonging.get(route, ())}:
            named[group].append(homeless)
    marks = commits.marks()
    wanted = sorted({*named, *marks}) if group_id is None else [group_id] if group_id in {*named, *marks} else []
    groups = tuple(
        group_evidence(cluster_id, g, named.get(g, ()), marks.get(g, ()), clocks, topic_names) for g in wanted
    )
    return Gathered(groups=groups, undecoded=tuple(refused), clocks=clocks)


def clocks_of(
    pairs: Mapping[str, Iterable[tuple[int, int]]], nodes: Iterable[str], zones: Mapping[str, str | None]
) -> dict[str, NodeClock]:
    return {node: infer_utc_offset_ms(pairs.get(node, ()), zones.get(node)) for node in sorted(nodes)}


def _besides_metadata(records: Iterable[SourceRecord], names: set[tuple[str, str]]) -> Iterator[SourceRecord]:
    """Records of groups and Connect; of the metadata log only the names it gives to topics are taken."""
    for source in records:
        if not is_metadata_topic(source.topic):
            yield source
        elif (named := named_topic(source)) is not None:
            names.add(named)


def _noting(lines: Iterable[SourceLine], seen: dict[str, str]) -> Iterator[SourceLine]:
    for line in lines:
        seen["cluster_id"] = line.cluster_id
        yield line


def _routes(event: Event) -> list[Route]:
    if isinstance(event, LogEvent):
        return routes_of("log", event.kind, None, event.node, event.fields)
    return routes_of("status", "", event.topic, None, {})
