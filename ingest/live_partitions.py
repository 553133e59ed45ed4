"""Partitions of a running cluster as its brokers describe them now: replicas, leaders, in-sync replicas, throttles.

The admin API of this client has no ListPartitionReassignments: which replicas are being added or removed is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from ingest.broker import LiveCluster
from ingest.errors import Misconfigured
from rebalance_audit.domain.reassign import PartitionState, Throttle
from rebalance_audit.domain.reassign.brokers import THROTTLES

TIMEOUT_S = 15.0
TOPICS_AT_ONCE = 200


class LivePartitions:
    """Partitions, brokers and throttles as the brokers describe them. Raises Retryable or Misconfigured if the cluster
    does not answer."""

    def __init__(self, client_config: Mapping[str, Any]) -> None:
        self._cluster = LiveCluster(client_config)
        self._admin = AdminClient(dict(self._cluster.config))
        self.cluster_id, self.address = self._cluster.cluster_id, self._cluster.address
        self.topics = sorted(self._cluster.partition_counts)

    def states(self, topics: Sequence[str]) -> dict[tuple[str, int], PartitionState]:
        """The states of the partitions of those topics that exist and may be described."""
        found: dict[tuple[str, int], PartitionState] = {}
        for at in range(0, len(topics), TOPICS_AT_ONCE):
            some = list(topics[at : at + TOPICS_AT_ONCE])
            for topic, described in self._admin.describe_topics(
                TopicCollection(some), request_timeout=TIMEOUT_S
            ).items():
                try:
                    partitions = described.result().partitions
                except KafkaException as error:
                    raise Misconfigured(self._cluster.sentence(topic, error.args[0])) from error
                for each in partitions:
                    found[topic, each.id] = PartitionState(
                        replicas=tuple(node.id for node in each.replicas),
                        isr=tuple(node.id for node in each.isr),
                        leader=None if each.leader is None or each.leader.id < 0 else each.leader.id,
                    )
        return found

    def brokers(self) -> set[int]:
        """Ids of the brokers that are registered now."""
        return {node.id for node in self._admin.describe_cluster(request_timeout=TIMEOUT_S).result().nodes}

    def throttles(self, topics: Iterable[str]) -> tuple[Throttle, ...]:
        """Replication throttles of these topics and of all brokers; none where they may not be described."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        resources += [ConfigResource(ResourceType.BROKER, str(broker)) for broker in sorted(self.brokers())]
        if not resources:
            return ()
        found = []
        for resource, described in self._admin.describe_configs(resources, request_timeout=TIMEOUT_S).items():
            try:
                entries = described.result()
            except KafkaException:
                continue
            for name in THROTTLES:
                entry = entries.get(name)
                if entry is None or entry.value in (None, "") or entry.source == ConfigSource.DEFAULT_CONFIG.value:
                    continue
                found.append(
                    Throttle(
                        cluster_id=self.cluster_id,
                        resource_type="topic" if resource.restype == ResourceType.TOPIC else "broker",
                        resource=resource.name,
                        name=name,
                        value=entry.value,
                        set_at_ms=None,
                    )
                )
        return tuple(found)
