"""A lab that runs until Ctrl-C, with groups of every kind to look at and to hurt."""

from __future__ import annotations

import threading
from contextlib import ExitStack

from .clients import (
    Client,
    SteadyProducer,
    create_topics,
    java_settings,
    kip848_settings,
    plain_settings,
    put_connector,
)
from .cluster import Cluster
from .configs import Settings, version_key
from .shape import ClusterShape

TOPICS = {"orders": 6, "payments": 8, "clicks": 6, "events": 2}


def up(version: str, *, brokers: int, connect_workers: int, load: bool) -> None:
    """Start the cluster, print where it is and whom to kill, and wait for Ctrl-C."""
    if load and not connect_workers:
        connect_workers = 1
    cluster = Cluster(
        ClusterShape(
            brokers=brokers,
            connect_workers=connect_workers,
            worker_properties={"scheduled.rebalance.max.delay.ms": 20_000},
        ),
        version=version,
    )
    with ExitStack() as stack:
        stack.enter_context(cluster)
        print(f"bootstrap    {cluster.bootstrap}")
        print(f"logs         {cluster.folder / 'logs'}")
        print(f"data         {cluster.folder / 'data'}")
        for name, url in cluster.worker_urls().items():
            print(f"{name:12} {url}")
        for name, pid in cluster.pids().items():
            print(f"{name:12} pid {pid}")
        if load:
            for client in sample_load(cluster, stack):
                kind = client.settings.get("group.protocol", "classic")
                print(f"{client.name:12} pid {client.pid}  group {client.group}, {kind}, {client.library}")
        print("Ctrl-C ends it all.", flush=True)
        threading.Event().wait()


def sample_load(cluster: Cluster, stack: ExitStack) -> list[Client]:
    """Topics, a producer, a connector, and consumers of three groups; `stack` ends them."""
    create_topics(cluster.bootstrap, TOPICS)
    producer = SteadyProducer(cluster.bootstrap, {topic: TOPICS[topic] for topic in ("orders", "payments", "clicks")})
    stack.callback(producer.stop)
    producer.start()
    wanted: list[tuple[str, str, str, str, Settings]] = [
        ("orders-1", "orders-app", "orders", "java", java_settings("range")),
        ("orders-2", "orders-app", "orders", "java", java_settings("range")),
        ("orders-3", "orders-app", "orders", "librdkafka", plain_settings("range")),
        ("payments-1", "payments-app", "payments", "java", java_settings("cooperative-sticky")),
        ("payments-2", "payments-app", "payments", "librdkafka", plain_settings("cooperative-sticky")),
    ]
    if version_key(cluster.version) >= (4, 0):
        wanted += [
            ("clicks-1", "clicks-app", "clicks", "java", kip848_settings()),
            ("clicks-2", "clicks-app", "clicks", "librdkafka", kip848_settings()),
        ]
    clients = []
    for name, group, topic, library, settings in wanted:
        client = Client(cluster, name, group, [topic], library=library, settings=settings)
        stack.callback(client.stop)
        client.start()
        clients.append(client)
    put_connector(cluster.worker_url(1), "alpha", tasks=4, topic="events")
    return clients
