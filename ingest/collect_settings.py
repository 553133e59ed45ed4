"""What to collect, and the errors for what cannot be collected."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ingest.broker import LiveCluster
from ingest.broker_reader import find_connect_topics
from ingest.errors import Misconfigured, Problem
from ingest.folders import OFFSETS_TOPIC
from ingest.sharing import DEAD_AFTER_S
from ingest.sifting import Interest


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectSettings:
    client_config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """librdkafka's settings, from client_config; without `bootstrap.servers` only logs are collected."""
    offsets_topic: str = OFFSETS_TOPIC
    connect_topics: Mapping[str, str] | None = None
    """Name to `status` or `config`; None: look for them."""
    logs: Sequence[tuple[str, str]] = ()
    """(node, glob pattern)."""
    cluster_id: str | None = None
    """Needed only without a broker; else it must be the broker's."""
    until_end: bool = False
    share_as: str | None = None
    """This collector's name among several that share the cluster's partitions; None: it reads all of them."""
    dead_after_s: float = DEAD_AFTER_S
    is_live: bool = False
    """Land what is urgent when it arrives, and the rest every `flush_ms`."""
    interest: Interest | None = None
    """Log events to keep, with some around each; None: all of them."""
    is_urgent: Callable[[str, bytes | None], bool] = lambda topic, key: True
    """Whether a record must be landed at once, by its topic and key."""
    flush_records: int = 100_000
    """The most records that wait: 400,000 took 50 MB more, with their Parquet."""
    flush_bytes: int = 32 << 20
    flush_ms: int = 5_000


def topics_to_read(cluster: LiveCluster, settings: CollectSettings) -> tuple[dict[str, str], dict[str, Problem]]:
    """Topic to kind, and the topics that cannot be read. Raises Misconfigured if none can."""
    wanted = {settings.offsets_topic: "group"}
    named = settings.connect_topics
    wanted |= named if named is not None else find_connect_topics(cluster)
    faults = {topic: fault for topic in wanted if (fault := cluster.why_not(topic)) is not None}
    if len(faults) == len(wanted):
        raise Misconfigured(*faults.values())
    topics = {topic: kind for topic, kind in wanted.items() if topic not in faults}
    return topics, {topic: Problem(code="unreadable", sentence=fault) for topic, fault in faults.items()}


def nothing_to_collect() -> Misconfigured:
    return Misconfigured("Nothing to collect from: give a broker with -b HOST:PORT, or --logs DIR and --cluster-id ID.")


def another_cluster(address: str, cluster_id: str, stated: str | None) -> Misconfigured:
    """The error for brokers of another cluster than the one that was stated."""
    return Misconfigured(
        f"{address} is cluster {cluster_id}, not {stated}; check -b, --cluster-id and what the settings say of both."
    )
