from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer


@pytest.fixture
def mock_broker() -> Iterator[Producer]:
    """A producer that carries librdkafka's mock cluster in its process; the cluster lives as long as it does."""
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock", "log_level": 0})
    producer.list_topics(timeout=10)
    yield producer
    producer.flush(5)


@pytest.fixture
def address(mock_broker: Producer) -> str:
    brokers = mock_broker.list_topics(timeout=10).brokers.values()
    return ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
