"""Records per second from a real broker to landing files, beside what the client alone could do, and beside segments.

    python -m bench.collect [--records 2000000] [--rounds 3]

All numbers come from one run against one broker of the lab, in turns, so that their ratios mean something on any
machine. CPU time is that of this process with the client's threads.
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median

import pyarrow as pa
from confluent_kafka import Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from infra.lab.cluster import Cluster
from ingest.broker import LiveCluster
from ingest.broker_reader import CONSUME_RECORDS
from ingest.collect_settings import CollectSettings
from ingest.collector import collect
from ingest.evidence import import_evidence
from ingest.folders import PartitionFiles, open_data_dir
from ingest.landing import Landing
from ingest.replicas import Replica, segments_in
from ingest.segments import read_segment

TOPIC = "bench-offsets"
PARTITIONS = 4


COMMITTED_TOPICS = tuple(b"orders-%02d" % n for n in range(10))
COMMITTED_PARTITIONS = 12


def offset_commit(n: int) -> tuple[bytes, bytes]:
    topic = COMMITTED_TOPICS[n % len(COMMITTED_TOPICS)]
    return offset_commit_of(b"group-%02d" % (n % 100), topic, n % COMMITTED_PARTITIONS, n)


def offset_commit_of(group: bytes, topic: bytes, partition: int, offset: int) -> tuple[bytes, bytes]:
    """Key and value as Kafka 3.x writes them."""
    place = struct.pack(">h", len(group)) + group + struct.pack(">h", len(topic)) + topic + struct.pack(">i", partition)
    return struct.pack(">h", 1) + place, struct.pack(">hqihq", 3, offset, 5, 0, 1_700_000_000_000 + offset)


def fill(bootstrap: str, records: int) -> None:
    """Small batches, as a coordinator writes them: a commit request of a few partitions is one batch."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        created.result(30)
    producer = Producer({
        "bootstrap.servers": bootstrap, "batch.num.messages": 8, "linger.ms": 5, "acks": 1,
        "queue.buffering.max.messages": 200_000, "max.in.flight.requests.per.connection": 50,
    })  # fmt: skip
    for n in range(records):
        key, value = offset_commit(n)
        while True:
            try:
                producer.produce(TOPIC, key=key, value=value, partition=n // 8 % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def consumed(address: str, records: int, look: Callable[[list[Message]], object]) -> int:
    """The client alone, with the collector's own settings: what no collector built on it can pass."""
    consumer = LiveCluster({"bootstrap.servers": address}).consumer()
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    read = 0
    while read < records:
        messages = [message for message in consumer.consume(CONSUME_RECORDS, 0.2) if message.error() is None]
        look(messages)
        read += len(messages)
    consumer.close()
    return read


def four_fields(messages: list[Message]) -> list[tuple[object, ...]]:
    return [(message.offset(), message.timestamp(), message.key(), message.value()) for message in messages]


def collected(settings: CollectSettings, warehouse: Path) -> int:
    return collect(settings, Landing(warehouse)).record_count


def rows_in(segments: list[Path]) -> int:
    return sum(len(item) for path in segments for item in read_segment(path) if isinstance(item, list))


def ways(cluster: Cluster, records: int, work: Path) -> dict[str, Callable[[], int]]:
    address = cluster.bootstrap
    settings = CollectSettings(
        client_config={"bootstrap.servers": address}, offsets_topic=TOPIC, connect_topics={}, until_end=True
    )
    data_dir = cluster.node_folders["broker-1"]
    found = open_data_dir(data_dir, node="broker-1")
    replicas = [Replica("broker-1", segments_in(path)) for path in sorted(data_dir.glob(f"{TOPIC}-*"))]
    segments = [path for replica in replicas for path in replica.segments]
    found.partitions = [
        PartitionFiles(topic=TOPIC, partition=n, kind="group", replicas=[replica]) for n, replica in enumerate(replicas)
    ]
    found.log_files, found.metadata = [], {}
    round_number = count()

    def warehouse() -> Path:
        return work / f"warehouse-{next(round_number)}"

    return {
        "`consume()`, nothing looked at": lambda: consumed(address, records, lambda messages: None),
        "`consume()`, four fields of each": lambda: consumed(address, records, four_fields),
        "**broker → landing files, durable** (`collect`)": lambda: collected(settings, warehouse()),
        "segments → rows, nothing kept": lambda: rows_in(segments),
        "segments → landing files, durable (`import`)": lambda: (
            import_evidence(found, Landing(warehouse())).record_count
        ),
    }


def timed(run: Callable[[], int]) -> tuple[int, float, float]:
    """Records, wall seconds, CPU seconds of this process with all its threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    return run(), time.perf_counter() - wall, time.process_time() - cpu


def main(records: int, rounds: int) -> None:
    work = Path(tempfile.mkdtemp(prefix="bench-collect-"))
    try:
        with Cluster(folder=work / "lab") as cluster:
            fill(cluster.bootstrap, records)
            pa.set_cpu_count(1)
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(0, {0})  # this process and its threads; the broker keeps every core
            known = ways(cluster, records, work)
            passes = [{name: timed(way) for name, way in known.items()} for _ in range(rounds)]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{records:,} commits in batches of 8, {rounds} rounds in turns, one core; median\n")
    print("| way | records/s of CPU time | records/s of wall time |")
    print("| --- | ---: | ---: |")
    for name in known:
        by_cpu = median(one[name][0] / one[name][2] for one in passes)
        by_wall = median(one[name][0] / one[name][1] for one in passes)
        print(f"| {name} | {by_cpu:,.0f} | {by_wall:,.0f} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    main(given.records, given.rounds)
