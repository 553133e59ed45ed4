"""The content of a running cluster, read once from beginning to end, without a warehouse."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from confluent_kafka import Message

from ingest.broker import LiveCluster
from ingest.broker_reader import NO_ANSWER_MS, BrokerReader, LivePartition
from ingest.collect_settings import CollectSettings, topics_to_read
from ingest.errors import Retryable
from ingest.messages import rows_of
from ingest.readings import SourceReading
from ingest.sources import source_record, without_secrets
from rebalance_audit.domain.model import SourceRecord

Choose = Callable[[str, int], Iterable[int]]
"""Topic and its number of partitions to the partitions to read."""


@dataclass(slots=True)
class LiveEvidence:
    """The content of a running cluster, without a warehouse. `sources` fills up while `records` is iterated."""

    settings: CollectSettings
    cluster: LiveCluster
    sources: list[SourceReading] = field(default_factory=list)

    @property
    def cluster_id(self) -> str:
        return self.cluster.cluster_id

    def records(
        self, wants: Callable[[str, bytes | None], bool] | None = None, choose: Choose | None = None
    ) -> Iterator[SourceRecord]:
        """Every record up to the present end, in order per partition. `choose` picks partitions: a group is in one."""
        topics, problems = topics_to_read(self.cluster, self.settings)
        counts = self.cluster.partition_counts
        partitions = {topic: choose(topic, counts[topic]) for topic in topics} if choose else None
        reader = BrokerReader(self.cluster, topics, partitions=partitions)
        idle_since = time.monotonic()
        try:
            while not reader.is_done:
                arrived = reader.poll(0.5)
                for live, messages in arrived:
                    idle_since = time.monotonic()
                    yield from self._records(live, messages, wants)
                if (time.monotonic() - idle_since) * 1000 > NO_ANSWER_MS:
                    raise Retryable(f"{self.cluster.address} stopped answering before the end was read; try again.")
            self.sources += reader.end_readings()
            for topic, problem in {**problems, **reader.problems}.items():
                reading = SourceReading(source=f"record:{topic}", kind="record")
                reading.problems.add(problem)
                self.sources.append(reading)
        finally:
            reader.close()

    def _records(
        self, live: LivePartition, messages: list[Message], wants: Callable[[str, bytes | None], bool] | None
    ) -> Iterator[SourceRecord]:
        if wants is not None:
            messages = [message for message in messages if wants(live.topic, message.key())]
        rows = rows_of(messages)
        for row in rows if live.kind == "group" else without_secrets(rows):
            yield source_record(self.cluster_id, live.topic, live.partition, row)


def live_evidence(settings: CollectSettings) -> LiveEvidence:
    """Open a running cluster's evidence. Raises Retryable or Misconfigured if the cluster does not answer."""
    return LiveEvidence(settings, LiveCluster(settings.client_config))
