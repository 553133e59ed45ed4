"""The log lines that reassignments are made from: `parse_controller_line`, and the few forms only this part needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rebalance_audit.domain.gather.clocks import NodeClock, ZoneSource
from rebalance_audit.domain.log_lines import (
    ControllerEvent,
    ControllerKind,
    outside_torn_lines,
    parse_controller_line,
    read_head,
)
from rebalance_audit.domain.log_lines.controller import CONTROLLER_SIGNS, controller_event
from rebalance_audit.domain.model import SourceLine
from rebalance_audit.domain.reassign.advice import is_legal_topic
from rebalance_audit.domain.reassign.brokers import THROTTLES
from rebalance_audit.domain.reassign.stall import Roll, Surroundings

_N = r"(\d{1,18})"
_TP = r"([\w.-]{1,249})-(\d{1,9})"
_ELECT_PREFERRED = re.compile(
    rf"\[(?:QuorumController id=|Controller ){_N}\] Periodic task electPreferred generated {_N} records? "
)
_TOPIC_DELETED = re.compile(
    rf"\[Topic Deletion Manager {_N}\] Deletion of topic ([\w.-]{{1,249}}) successfully completed"
)
_NO_OVERRIDE = re.compile(r"Processing override for entityPath: (\S+) with config: (?:\w+\(\)|\{\})")
_SEEN = re.compile(  # up to 3.9 `and partition state LeaderAndIsrPartitionState(…) since`
    rf"\[Broker id={_N}\] Skipped the become-(?:leader|follower) state change for {_TP} with topic id (?:Some\()?"
    r"([\w-]+)\)?(?:,| and) partition (?:registration|state) \w+\((.*?)\) (?:and isNew=|since )"
)
_ROLLED = re.compile(rf"\[\w*Log partition={_TP}, dir=[^\]]*\] Rolled new log segment at offset {_N} in ")
_DISK_LOST = re.compile(
    rf"\[ReplicaManager broker={_N}\] Broker \d+ stopped fetcher for partitions ([\w.,-]*) and stopped moving logs"
)
_BROKER_CHANGED = re.compile(
    rf"\[(?:QuorumController id=|Controller ){_N}\] (?:Replayed (?:initial )?(?:RegisterBrokerRecord|"
    rf"BrokerRegistrationChangeRecord) .{{0,200}}?|Registered new broker: RegisterBrokerRecord)"
    rf"\(brokerId={_N}, .{{0,5000}}?fenced=(true|false|-?\d)"
)
_HANDLED = re.compile(rf"\[Controller id={_N}\] Handling reassignment of partition {_TP} to new replicas ([\d,]+)")
_STORED = re.compile(
    rf"\[Controller id={_N}\] Updated assigned replicas for partition {_TP} being reassigned to ([\d,]+)"
)
_CAUGHT_UP = re.compile(
    rf"\[Controller id={_N}\] {_N}/{_N} replicas have caught up with the leader for partition {_TP} being reassigned"
)
_SENT = re.compile(  # to 2.3 `PartitionState(controllerEpoch=…`, isr=1,2; in 2.4 and 2.5 with its name, isr=[1, 2]
    rf"\[Controller id={_N} epoch=\d+\] Sending become-(?:leader|follower) LeaderAndIsr request "
    rf"(?:LeaderAndIsr)?PartitionState\((?:topicName='[\w.-]{{1,249}}', partitionIndex=\d+, )?"
    rf"controllerEpoch=\d+, leader=(-?\d{{1,18}}), leaderEpoch={_N}, isr=\[?([\d, ]*)\]?, zkVersion={_N}, "
    rf".{{0,5000}}?\) to broker \d+ for partition {_TP}"
)
_CREATED = re.compile(
    rf"\[Controller id={_N}\] New topics: .{{0,100000}}?new partition replica assignment \[(.{{0,100000}})\]\s*\Z", re.S
)
_CREATED_WITH = re.compile(rf"{_TP} -> (?:\w+\(replicas=([\d,]+)|\w+\(([\d, ]+)\))")
"""To 2.3 `Vector(2, 0, 1)`, later `ReplicaAssignment(replicas=2,0,1, …`."""
_NO_HEARTBEAT = re.compile(
    rf"\[BrokerLifecycleManager id={_N}\] Unable to send a heartbeat because the RPC got timed out"
)
_LEVEL = re.compile(rf"name='metadata.version', minSupportedVersion=\d+, maxSupportedVersion={_N}")
_SIGNS = (
    "electPreferred generated",
    "Topic Deletion Manager",
    "Processing override for entityPath",
    "Skipped the become-",
    "Rolled new log segment",
    "stopped fetcher for partitions",
    "Unable to send a heartbeat",
    "Handling reassignment of partition",
    "Updated assigned replicas for partition",
    "replicas have caught up with the leader",
    " LeaderAndIsr request PartitionState(",
    " LeaderAndIsr request LeaderAndIsrPartitionState(",
    "new partition replica assignment [",
    "Replayed RegisterBrokerRecord",
    "Registered new broker: RegisterBrokerRecord",
    "Replayed initial RegisterBrokerRecord",
    "Replayed BrokerRegistrationChangeRecord",
)
_ENTRY = re.compile("(" + "|".join(re.escape(name) for name in THROTTLES) + r")(?: -> |=)")
_REGISTERED = re.compile(r"(\w+)=(?:\[([^\]]*)\]|(-?[0-9]{1,18})(?!\w))")
PREFERRED_RUN, PARTITION_SEEN, SEGMENT_ROLLED = "preferred_run", "partition_seen", "segment_rolled"
DISK_LOST, BROKER_CHANGED, NO_HEARTBEAT = "disk_lost", "broker_changed", "no_heartbeat"
REQUEST_HANDLED, REPLICAS_STORED, STATE_SENT = "request_handled", "replicas_stored", "state_sent"
CREATED_WITH = "created_with"
_LONGS = ("offset", "high_watermark", "epoch")
_SAME_OUTAGE_MS = 30_000
"""A broker without a controller logs it every few seconds: every half of broker.session.timeout.ms, 4.5 s by default
(docs/measured.md#defaults-of-kafka)."""
_BY_BROKERS = (ControllerKind.LEADER_STARTED, ControllerKind.FOLLOWER_STARTED, PARTITION_SEEN)
LINE_SIGNS = (*CONTROLLER_SIGNS, *_SIGNS)
"""A line without any of these says nothing here."""


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """An event with its settled time."""

    at_ms: int
    event: ControllerEvent
    kind: str
    """A ControllerKind, or one of this module: PREFERRED_RUN (automatic elections in KRaft: count), PARTITION_SEEN (a
    broker's registration), SEGMENT_ROLLED (offset), DISK_LOST (partitions), BROKER_CHANGED (fenced, level),
    NO_HEARTBEAT; and of ZooKeeper mode CREATED_WITH (replicas), up to 2.5 STATE_SENT (leader, leader_epoch, isr,
    version), up to 2.3 REQUEST_HANDLED (replicas), REPLICAS_STORED (replicas)."""
    zone_is_known: bool = True
    """False: nothing shows the zone of its time, which was read as UTC."""

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.event.fields


@dataclass(slots=True)
class LogLines:
    """Reads lines of all nodes, those of a file in its order. `utc_offset_ms` per node is subtracted from local times.

    Lines behind one that a client's text tore say nothing: the text may have made them."""

    utc_offset_ms: Mapping[str, int] = field(default_factory=dict)
    lines: list[PartitionLine] = field(default_factory=list)

    def read(self, sources: Iterable[SourceLine]) -> LogLines:
        for source in outside_torn_lines(sources):  # no record will confirm these lines one by one
            self.lines.extend(line for line in self._parsed(source) if _could_be_printed(line.event))
        return self

    def take(self, events: Iterable[ControllerEvent]) -> LogLines:
        """Add events that were parsed elsewhere."""
        self.lines.extend(self._line(event, event.kind.value) for event in events)
        return self

    def in_order(self) -> list[PartitionLine]:
        """All lines by time; lines of one file keep their order."""
        return sorted(self.lines, key=lambda line: line.at_ms)

    def _parsed(self, source: SourceLine) -> Iterator[PartitionLine]:
        if (event := parse_controller_line(source)) is not None:
            if event.topic is None or is_legal_topic(event.topic):
                if event.kind is ControllerKind.PARTITION_CREATED and "PartitionRegistration(" in source.text:
                    stated = registration(source.text.partition("PartitionRegistration(")[2])
                    event = replace(event, fields={**event.fields, "registration": stated})
                yield self._line(event, event.kind.value)
        elif any(sign in source.text for sign in _SIGNS) and (head := read_head(source.text)) is not None:
            # Names in brackets before the message look like a thread.
            message = head.message if head.message.startswith("[") else f"[{head.thread}] {head.message}"
            own = _own_form(head.message) or _own_form(message)
            for kind, logged_by, topic, partition, fields in [own] if own is not None else _created(message):
                known = kind if isinstance(kind, ControllerKind) else ControllerKind.TOPIC_REMOVED
                event = controller_event(source, head, known, logged_by, topic, partition, fields)
                yield self._line(event, kind)

    def _line(self, event: ControllerEvent, kind: str) -> PartitionLine:
        at_ms = event.at_ms
        if at_ms is None:
            at_ms = event.local_at_ms - self.utc_offset_ms.get(event.node, 0)
        return PartitionLine(at_ms, event, kind)


def settled(lines: Iterable[PartitionLine], clocks: Mapping[str, NodeClock]) -> list[PartitionLine]:
    """Sorted by time, as the nodes' clocks have it. Given in order of node, file and byte; a node without a clock keeps
    its times."""
    found = []
    latest: dict[str, int] = {}
    for line in lines:
        clock = clocks.get(line.event.node)
        file = line.event.ref.rpartition("@")[0]
        if line.event.at_ms is None and clock is not None:
            line = replace(line, at_ms=clock.to_utc_ms(line.event.local_at_ms, not_before_ms=latest.get(file)))
        if line.event.at_ms is None and (clock is None or clock.source is ZoneSource.ASSUMED):
            line = replace(line, zone_is_known=False)
        latest[file] = line.at_ms
        found.append(line)
    return sorted(found, key=lambda line: line.at_ms)


_Stated = tuple[str, int | None, str | None, int | None, dict[str, Any]]
"""(kind, who wrote it, topic, partition, fields)."""


def _created(message: str) -> Iterator[_Stated]:
    """The replicas each partition of a new topic was created with: one line names all."""
    if found := _CREATED.match(message):
        for topic, partition, later, first in _CREATED_WITH.findall(found[2]):
            yield CREATED_WITH, int(found[1]), topic, int(partition), {"replicas": _ids(later or first)}


def _own_form(message: str) -> _Stated | None:
    if found := _ELECT_PREFERRED.match(message):
        return PREFERRED_RUN, int(found[1]), None, None, {"count": int(found[2])}
    if found := _TOPIC_DELETED.match(message):
        return ControllerKind.TOPIC_REMOVED, int(found[1]), found[2], None, {}
    if found := _NO_OVERRIDE.match(message):
        return ControllerKind.THROTTLE_CHANGED, None, None, None, {"entity": found[1], "text": ""}
    if found := _SEEN.match(message):
        stated = registration(found[5])
        fields = {"topic_id": found[4], "registration": stated, "partition_epoch": stated.pop("epoch", None)}
        return PARTITION_SEEN, int(found[1]), found[2], int(found[3]), fields
    if found := _ROLLED.match(message):
        return SEGMENT_ROLLED, None, found[1], int(found[2]), {"offset": int(found[3])}
    if found := _DISK_LOST.match(message):
        return DISK_LOST, int(found[1]), None, None, {"partitions": tuple(filter(None, found[2].split(",")))}
    if found := _HANDLED.match(message):
        return REQUEST_HANDLED, int(found[1]), found[2], int(found[3]), {"replicas": _ids(found[4])}
    if found := _STORED.match(message):
        return REPLICAS_STORED, int(found[1]), found[2], int(found[3]), {"replicas": _ids(found[4])}
    if found := _CAUGHT_UP.match(message):
        kind = ControllerKind.REPLICAS_CAUGHT_UP if found[2] == found[3] else ControllerKind.REPLICAS_WAITING
        return kind, int(found[1]), found[4], int(found[5]), {}
    if found := _SENT.match(message):
        fields = {
            "leader": int(found[2]),
            "leader_epoch": int(found[3]),
            "isr": _ids(found[4]),
            "version": int(found[5]),
        }
        return STATE_SENT, int(found[1]), found[6], int(found[7]), fields
    if found := _NO_HEARTBEAT.match(message):
        return NO_HEARTBEAT, int(found[1]), None, None, {}
    if found := _BROKER_CHANGED.match(message):
        level = _LEVEL.search(message)
        fields = {"broker_id": int(found[2]), "fenced": {"true": 1, "false": -1}.get(found[3]) or int(found[3])}
        return BROKER_CHANGED, int(found[1]), None, None, fields | ({"level": int(level[1])} if level else {})
    return None


def _could_be_printed(event: ControllerEvent) -> bool:
    """Whether ids and epochs are Java's `int`: greater ones are a client's words, and fit into no column."""
    stated: list[Any] = [event.logged_by, *(value for name, value in event.fields.items() if name not in _LONGS)]
    while stated:
        match stated.pop():
            case int(number) if not -(1 << 31) <= number < 1 << 31:
                return False
            case tuple(several):
                stated.extend(several)
            case dict(inner):
                stated.extend(inner.values())
    return True


def registration(text: str) -> dict[str, Any]:
    """The fields of `replicas=[1, 2], …, isr=[1, 2], …, leader=1, …, partitionEpoch=0`, named as in a Sighting."""
    stated = _REGISTERED.findall(text[:65_536])
    lists = {name: ids for name, ids, number in stated if not number}
    numbers = {name: number for name, _, number in stated if number}
    found: dict[str, Any] = {}
    for ours, theirs in (
        ("replicas", "replicas"), ("isr", "isr"), ("adding", "addingReplicas"), ("removing", "removingReplicas"),
    ):  # fmt: skip
        if theirs in lists and (lists[theirs] or ours != "replicas"):  # a partition has some
            found[ours] = _ids(lists[theirs])
    for ours, theirs in (("leader", "leader"), ("leader_epoch", "leaderEpoch"), ("epoch", "partitionEpoch")):
        if theirs in numbers:
            found[ours] = int(numbers[theirs])
    return found


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(broker) for broker in re.findall(r"\d{1,18}", text))


def surroundings_in(lines: Sequence[PartitionLine], cluster_id: str, stall_limit_ms: int) -> Surroundings:
    """Copies, disks and controllers by the logs; lines in order of time."""
    around = Surroundings(cluster_id, stall_limit_ms, rolls=_rolls_in(lines), without_controller=_outages_in(lines))
    for line in lines:
        if line.kind == DISK_LOST and line.event.logged_by is not None:
            around.brokers.lost_disk(line.event.logged_by, line.fields["partitions"], line.at_ms, line.event.ref)
    return around


def brokers_by_node(lines: Iterable[PartitionLine]) -> dict[str, int]:
    """The broker whose logs a node has, where its lines say so."""
    stated = ((line.event.node, line.event.logged_by) for line in lines if line.kind in _BY_BROKERS)
    return {node: broker for node, broker in stated if broker is not None}


def _rolls_in(lines: Sequence[PartitionLine]) -> dict[tuple[str, int], list[Roll]]:
    """How far each broker's copy of a partition came, by what its own log says."""
    brokers = brokers_by_node(lines)
    found: dict[tuple[str, int], list[Roll]] = {}
    for line in lines:
        broker = brokers.get(line.event.node)
        if line.kind == SEGMENT_ROLLED and broker is not None and line.event.topic is not None:
            place = (line.event.topic, line.event.partition or 0)
            found.setdefault(place, []).append(Roll(line.at_ms, broker, line.fields["offset"]))
    return found


def _outages_in(lines: Sequence[PartitionLine]) -> list[tuple[int, int, str]]:
    """(from, to, ref): when most brokers reached no active controller; of one alone it is that broker's trouble."""
    known = {line.fields["broker_id"] for line in lines if line.kind == BROKER_CHANGED}
    found: list[tuple[int, int, str, set[int | None]]] = []
    for line in (line for line in lines if line.kind == NO_HEARTBEAT):
        if found and line.at_ms - found[-1][1] <= _SAME_OUTAGE_MS:
            from_ms, _, ref, who = found.pop()
            found.append((from_ms, line.at_ms, ref, {*who, line.event.logged_by}))
        else:
            found.append((line.at_ms, line.at_ms, line.event.ref, {line.event.logged_by}))
    return [
        (from_ms, to_ms, ref)
        for from_ms, to_ms, ref, who in found
        if (2 * len(who) > len(known) if known else len(who) > 1)
    ]


def throttles_in(text: str) -> dict[str, str]:
    """(name, value) of each throttle in `HashMap(leader.replication.throttled.rate -> 700000, …)`; lists hold commas,
    too."""
    found = list(_ENTRY.finditer(text))
    ends = [*(entry.start() for entry in found[1:]), len(text)][: len(found)]
    return {
        entry[1]: text[entry.end() : end].rstrip(")} ").rstrip(",").strip()
        for entry, end in zip(found, ends, strict=True)
    }
