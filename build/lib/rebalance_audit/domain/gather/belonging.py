"""Finds the groups of evidence that names none: Connect's topics, workers' logs, other lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rebalance_audit.domain.connect_topics import ConnectStatus
from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.model import ConnectRecord, GroupRecord, LogEvent
from rebalance_audit.domain.protocols import connect_protocol
from rebalance_audit.domain.records import GroupMetadataValue
from rebalance_audit.domain.wire import DecodeError


@dataclass(slots=True)
class ClusterFacts:
    """The names by which evidence without a group finds its groups. One cluster."""

    offsets_partitions: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Groups with records in a partition of __consumer_offsets."""
    worker_ids: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Connect groups by `host:port` of a worker."""
    connectors: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Connect groups by the name of a connector they ran."""
    topic_worker_ids: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Workers named in a status topic."""
    topic_connectors: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Connectors named in a status or config topic."""
    worker_nodes: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Connect groups named in the logs of a node."""
    members: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Groups by the id of a member they had."""

    def add(self, event: GroupRecord | ConnectRecord | LogEvent) -> None:
        if isinstance(event, GroupRecord):
            self._add_group_record(event)
        elif isinstance(event, ConnectRecord):
            connector = event.record.connector
            if connector is not None:
                self.topic_connectors[event.topic].add(connector)
            if isinstance(event.record, ConnectStatus) and event.record.worker_id:
                self.topic_worker_ids[event.topic][event.record.worker_id] += 1
        elif event.group_id is not None:
            if event.kind.startswith("worker_"):
                self.worker_nodes[event.node].add(event.group_id)
            for member_id in named_members(event.fields):
                self.members[member_id].add(event.group_id)

    def _add_group_record(self, event: GroupRecord) -> None:
        group_id, value = event.record.key.group_id, event.record.value
        if event.topic == OFFSETS_TOPIC:
            self.offsets_partitions[event.partition].add(group_id)
        if not isinstance(value, GroupMetadataValue):
            return
        for member in value.members:
            self.members[member.member_id].add(group_id)
            if value.protocol_type != "connect":
                continue
            try:
                state = connect_protocol.decode_worker_state(member.subscription)
                given = connect_protocol.decode_assignment(member.assignment) if member.assignment else None
            except DecodeError:
                continue
            self.worker_ids[worker_id_of_url(state.url)].add(group_id)
            for held in (state.allocation, given):
                for resource in held.assigned if held else ():
                    self.connectors[resource.connector].add(group_id)


def worker_id_of_url(url: str) -> str:
    """`http://host:8083/` -> `host:8083`, as status records name a worker."""
    return url.partition("://")[2].strip("/") or url


def named_members(fields: Mapping[str, Any]) -> list[str]:
    names = (fields.get(name) for name in ("member_id", "new_member_id", "expected_member_id"))
    return [name for name in names if isinstance(name, str) and name]


def connect_topics(facts: ClusterFacts) -> dict[str, str]:
    """The Connect group of each status and config topic, where it can be found.

    A status topic goes to the group with most of its workers; a config topic, which names none, to the group whose
    connectors it names. Where that ties, or nothing matches, a cluster with one Connect group leaves no doubt.
    """
    groups = set().union(*facts.worker_ids.values(), *facts.worker_nodes.values())
    found: dict[str, str] = {}
    for topic in sorted({*facts.topic_connectors, *facts.topic_worker_ids}):
        votes: Counter[str] = Counter()
        for worker_id, times in facts.topic_worker_ids.get(topic, {}).items():
            votes.update(dict.fromkeys(facts.worker_ids.get(worker_id, ()), times))
        if not votes:
            for connector in facts.topic_connectors.get(topic, ()):
                votes.update(facts.connectors.get(connector, ()))
        best = votes.most_common(2)
        if best and (len(best) == 1 or best[0][1] > best[1][1]):
            found[topic] = best[0][0]
        elif len(groups) == 1:
            found[topic] = next(iter(groups))
    return found


Route = str
"""Where an event without a group belongs: `topic:<Connect topic>`, `coordinator:<offsets partition>`,
`member:<member id>`, `node:<node>`."""


def routes_of(
    source_kind: str, kind: str, topic: str | None, node: str | None, fields: Mapping[str, Any]
) -> list[Route]:
    """The routes of an event that names no group; `fields` are its own."""
    if source_kind in ("status", "config"):
        return [f"topic:{topic}"]
    if kind.startswith("worker_"):
        return [f"node:{node}"]
    members = named_members(fields)
    if members:
        return [f"member:{member_id}" for member_id in members]
    if fields.get("offsets_partition") is not None:
        return [f"coordinator:{fields['offsets_partition']}"]
    return []


def groups_by_route(facts: ClusterFacts) -> dict[Route, set[str]]:
    found: dict[Route, set[str]] = {f"topic:{topic}": {group} for topic, group in connect_topics(facts).items()}
    found |= {f"coordinator:{partition}": set(groups) for partition, groups in facts.offsets_partitions.items()}
    found |= {f"member:{member_id}": set(groups) for member_id, groups in facts.members.items()}
    found |= {f"node:{node}": set(groups) for node, groups in facts.worker_nodes.items()}
    return found
