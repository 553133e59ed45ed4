"""Records per second from a real broker to landing files, beside what each part of the way could do alone.

    python -m bench.collect [--records 1000000]

All numbers come from one run against one broker of the lab, so that their ratios mean something on any machine.
"""

from __future__ import annotations

import argparse
import shutil
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from infra.lab.cluster import Cluster
from ingest.broker import BrokerReader
from ingest.broker import Cluster as LiveCluster
from ingest.collector import CollectSettings, collect
from ingest.evidence import import_evidence, read_evidence
from ingest.folders import PartitionFiles, open_data_dir
from ingest.landing import Landing
from ingest.replicas import Replica, segments_in
from ingest.segments import read_segment

TOPIC = "bench-offsets"
PARTITIONS = 4


def offset_commit(n: int) -> tuple[bytes, bytes]:
    """A commit as Kafka 3.x writes it: 100 groups, 50 topics, 12 partitions."""
    group, topic = b"group-%02d" % (n % 100), b"orders-%02d" % (n % 50)
    key = struct.pack(">hh", 1, len(group)) + group + struct.pack(">h", len(topic)) + topic + struct.pack(">i", n % 12)
    return key, struct.pack(">hqihq", 3, n, 5, 0, 1_700_000_000_000 + n)


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


def consume_only(settings: CollectSettings) -> int:
    cluster = LiveCluster(settings.client_config)
    reader = BrokerReader(cluster, {TOPIC: "group"})
    count = 0
    while not reader.is_done:
        count += sum(len(rows) for _, rows in reader.poll(0.5))
    reader.close()
    return count


def timed(name: str, run: Callable[[], int], reference: float | None) -> float:
    started = time.perf_counter()
    count = run()
    rate = count / (time.perf_counter() - started)
    ratio = "" if reference is None else f"   {rate / reference:6.2f} x"
    print(f"{name:<44}{count:>12,} records   {rate:>12,.0f} /s{ratio}", flush=True)
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    records = parser.parse_args().records
    work = Path(tempfile.mkdtemp(prefix="bench-collect-"))
    try:
        with Cluster(brokers=1, folder=work / "lab") as cluster:
            fill(cluster.bootstrap, records)
            settings = CollectSettings(
                client_config={"bootstrap.servers": cluster.bootstrap}, offsets_topic=TOPIC, connect_topics={},
                until_end=True,
            )  # fmt: skip
            reference = timed("broker -> rows (nothing kept)", lambda: consume_only(settings), None)
            timed("broker -> landing files, durable", lambda: collected(settings, work / "live"), reference)
            data_dir = cluster.node_folders["broker-1"]
            found = open_data_dir(data_dir, node="broker-1")
            replicas = [Replica("broker-1", segments_in(path)) for path in sorted(data_dir.glob(f"{TOPIC}-*"))]
            segments = [path for replica in replicas for path in replica.segments]
            found.partitions = [
                PartitionFiles(topic=TOPIC, partition=n, kind="group", replicas=[replica])
                for n, replica in enumerate(replicas)
            ]
            timed("segments -> rows (nothing kept)", lambda: rows_in(segments), reference)
            timed("segments -> SourceRecord objects", lambda: sum(1 for _ in read_evidence(found).records()), reference)
            timed(
                "segments -> landing files, durable",
                lambda: import_evidence(found, Landing(work / "import")).record_count,
                reference,
            )
    finally:
        shutil.rmtree(work, ignore_errors=True)


def collected(settings: CollectSettings, warehouse: Path) -> int:
    return collect(settings, Landing(warehouse)).record_count


def rows_in(segments: list[Path]) -> int:
    return sum(len(item) for path in segments for item in read_segment(path) if isinstance(item, list))


if __name__ == "__main__":
    main()
