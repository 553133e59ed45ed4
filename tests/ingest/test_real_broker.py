"""Segments that a Java broker wrote, and the same records over the wire: two readers that must agree."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ingest.batches import IS_CONTROL
from ingest.collect_settings import CollectSettings
from ingest.evidence import read_evidence
from ingest.folders import OFFSETS_TOPIC, open_data_dir
from ingest.live_evidence import live_evidence
from ingest.segments import read_segment
from rebalance_audit.domain.gather.groups import gather
from rebalance_audit.domain.metadata.source import is_metadata_topic
from rebalance_audit.domain.model import SourceRecord

CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
RECORDS = 2_000
TRANSACTIONAL = "tx-app"


def fields(record: SourceRecord) -> tuple[object, ...]:
    return record.topic, record.partition, record.offset, record.timestamp_ms, record.key, record.value


@pytest.mark.broker
def test_segments_and_the_wire_agree_for_every_codec_of_the_broker(tmp_path: Path) -> None:
    from infra.lab.cluster import Cluster

    with Cluster(folder=tmp_path) as cluster:
        client = {"bootstrap.servers": cluster.bootstrap, "log_level": 0}
        topics = {f"connect-status-{codec}": codec for codec in CODECS}
        new = [NewTopic(name, 1, 1, config={"compression.type": codec}) for name, codec in topics.items()]
        admin = AdminClient(client)
        for created in admin.create_topics(new).values():
            created.result(30)
        producer = Producer(client)  # sends plain batches; the broker packs them again with its own libraries
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
        consumed = list(live.records())
        wire = {fields(record) for record in consumed}
        data_dir = cluster.node_folders["broker-1"]
        assert live.cluster_id == read_evidence(open_data_dir(data_dir, node="broker-1")).cluster_id
    found = open_data_dir(data_dir, node="broker-1")
    evidence = read_evidence(found)
    # No consumer is given the metadata log; only files have it.
    records = [record for record in evidence.records() if not is_metadata_topic(record.topic)]
    assert {fields(record) for record in records if not record.is_control} == wire
    assert len([topic for topic, *_ in wire if topic in topics]) >= RECORDS * len(CODECS)
    assert sum(record.is_control for record in records) == 4
    of_transactions = [record for record in records if record.is_transactional and record.topic == OFFSETS_TOPIC]
    tried = [record for record in of_transactions if not record.is_control]
    assert len(tried) == 2
    assert commits_of(records) == (1, tried[1].offset)
    assert commits_of(consumed) == (2, tried[1].offset)  # a consumer does not see which are transactional
    assert [p.sentence for s in evidence.sources for p in s.problems if p.code == "unreadable"] == []
    packed = {
        codec: batch_codec(data_dir / f"{name}-0" / f"{0:020d}.log") for name, codec in topics.items()
    }  # the broker did pack them
    assert packed == {codec: number for number, codec in enumerate(CODECS)}


def aborted_and_committed(client: dict[str, object]) -> None:
    """The group commits offset 10 in a transaction that is aborted, then 11 in one that is not."""
    consumer = Consumer({**client, "group.id": TRANSACTIONAL})
    producer = Producer({**client, "transactional.id": "t1"})
    producer.init_transactions(60)
    for n in range(2):
        producer.begin_transaction()
        producer.produce("connect-status-lz4", key=b"status-task-tx-%d" % n, value=b"{}")
        offsets = [TopicPartition("connect-status-lz4", 0, 10 + n)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 60)
        if n:
            producer.commit_transaction(60)
        else:
            producer.flush(30)
            producer.abort_transaction(60)
    [held] = consumer.committed([TopicPartition("connect-status-lz4", 0)], 30)
    assert held.offset == 11
    consumer.close()


def commits_of(records: Iterable[SourceRecord]) -> tuple[int, int]:
    """(how many commits of the transactional group count, where the last stands)."""
    [group] = gather(records, [], group_id=TRANSACTIONAL).groups
    [mark] = group.marks
    return mark.commit_count, mark.last_offset


def batch_codec(segment: Path) -> int:
    assert any(isinstance(item, list) and not item[0][IS_CONTROL] for item in read_segment(segment))
    return segment.read_bytes()[22] & 7
