"""Segments that a Java broker wrote, and the same records over the wire: two readers that must agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ingest.batches import IS_CONTROL
from ingest.collector import CollectSettings, live_evidence
from ingest.evidence import read_evidence
from ingest.folders import open_data_dir
from ingest.segments import read_segment
from rebalance_audit.domain.metadata.source import is_metadata_topic
from rebalance_audit.domain.model import SourceRecord

CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
RECORDS = 2_000


def fields(record: SourceRecord) -> tuple[object, ...]:
    return record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.value


@pytest.mark.broker
def test_segments_and_the_wire_agree_for_every_codec_of_the_broker(tmp_path: Path) -> None:
    from infra.lab.cluster import Cluster

    with Cluster(brokers=1, folder=tmp_path) as cluster:
        client = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        topics = {f"connect-status-{codec}": codec for codec in CODECS}
        new = [NewTopic(name, 1, 1, config={"compression.type": codec}) for name, codec in topics.items()]
        admin = AdminClient(client)
        for created in admin.create_topics(new).values():
            created.result(30)
        producer = Producer(client)  # sends plain batches; the broker packs them anew with its own libraries
        for name in topics:
            for n in range(RECORDS):
                headers = [("h", b"%d" % n)] if n % 100 == 0 else None
                value = None if n % 50 == 7 else b"value " * (n % 40)
                producer.produce(name, key=b"status-task-sink-%d" % (n % 9), value=value, headers=headers)
            assert producer.flush(30) == 0
        aborted_and_committed(client)
        consumer = Consumer({**client, "group.id": "shop", "enable.auto.commit": False})
        for n in range(20):
            consumer.commit(offsets=[TopicPartition("connect-status-gzip", 0, n)], asynchronous=False)
        consumer.close()
        live = live_evidence(CollectSettings(client_config=client))
        wire = {fields(record) for record in live.records()}
        data_dir = cluster.node_folders["broker-1"]
        assert live.cluster_id == read_evidence(open_data_dir(data_dir, node="broker-1")).cluster_id
    found = open_data_dir(data_dir, node="broker-1")
    evidence = read_evidence(found)
    # No consumer is given the metadata log; only files have it.
    records = [record for record in evidence.records() if not is_metadata_topic(record.topic)]
    assert {fields(record) for record in records if not record.is_control} == wire
    assert len([topic for topic, *_ in wire if topic in topics]) >= RECORDS * len(CODECS)
    assert sum(record.is_control for record in records) == 2
    assert [p.sentence for s in evidence.sources for p in s.problems if p.code == "unreadable"] == []
    packed = {
        codec: batch_codec(data_dir / f"{name}-0" / f"{0:020d}.log") for name, codec in topics.items()
    }  # the broker did pack them
    assert packed == {codec: number for number, codec in enumerate(CODECS)}


def aborted_and_committed(client: dict[str, object]) -> None:
    producer = Producer({**client, "transactional.id": "t1"})
    producer.init_transactions(60)
    for n in range(2):
        producer.begin_transaction()
        producer.produce("connect-status-lz4", key=b"status-task-tx-%d" % n, value=b"{}")
        if n:
            producer.commit_transaction(60)
        else:
            producer.flush(30)
            producer.abort_transaction(60)


def batch_codec(segment: Path) -> int:
    assert any(isinstance(item, list) and not item[0][IS_CONTROL] for item in read_segment(segment))
    return segment.read_bytes()[22] & 7
