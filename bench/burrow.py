"""Burrow beside us, end to end: from a broker's topic of offset commits to every commit's fields, on one core.

    python -m bench.burrow [--records 2000000]

Burrow is Debian's package, unpacked under .build and run as its users run it: a process that reads the offsets topic
from its beginning and keeps the newest offsets of every group in memory. We read the same topic of the same broker into
durable landing files, and decode every field of every record out of them. Each is pinned to the same core and measured
from its start until it has the last commit of every partition.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.collect import COMMITTED_PARTITIONS, COMMITTED_TOPICS, PARTITIONS, TOPIC, consumed, fill, offset_commit_of
from bench.rivals import pinned
from infra.lab.cluster import Cluster
from infra.lab.jars import BUILD
from infra.lab.processes import free_ports
from infra.lab.shape import ClusterShape
from ingest.collect_settings import CollectSettings
from ingest.collector import collect
from ingest.landing import Landing
from spark_jobs.commits.kernel import decode_commits
from spark_jobs.commits.keys import COMMIT

GIVE_UP_S = 600
GOAL = 25
KAFKA = "3.9.1"
"""The last one with ZooKeeper, without which Burrow does not start."""
_SETTINGS = """
[general]
pidfile="{folder}/burrow.pid"
[logging]
filename="{folder}/burrow.log"
level="info"
[zookeeper]
servers=["{zookeeper}"]
[client-profile.bench]
client-id="burrow-bench"
kafka-version="2.0.0"
[cluster.bench]
class-name="kafka"
servers=["{address}"]
client-profile="bench"
topic-refresh=120
offset-refresh=30
[consumer.bench]
class-name="kafka"
cluster="bench"
servers=["{address}"]
client-profile="bench"
offsets-topic="{topic}"
start-latest=false
backfill-earliest=false
group-denylist=""
group-allowlist=""
[httpserver.default]
address="127.0.0.1:{port}"
[storage.default]
class-name="inmemory"
workers=20
intervals=15
expire-group=1000000000
min-distance=1
"""
"""As Burrow ships, but for addresses and the age at which it drops commits: those of the benchmark are old."""


def installed() -> Path:
    """Debian's package, unpacked and not installed."""
    folder = BUILD / "burrow"
    program = folder / "usr" / "bin" / "Burrow"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", "burrow"], cwd=folder, check=True)
        subprocess.run(["dpkg", "-x", str(next(folder.glob("burrow_*.deb"))), str(folder)], check=True)
    return program


def prepare(address: str, records: int) -> int:
    """The commits, and the topics they are about, since Burrow leaves out commits about topics that are not there."""
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(topic.decode(), COMMITTED_PARTITIONS, 1) for topic in COMMITTED_TOPICS]
    for created in admin.create_topics(topics).values():
        created.result(60)
    fill(address, records)
    producer = Producer({"bootstrap.servers": address})
    for partition in range(PARTITIONS):
        key, value = offset_commit_of(_last_group(partition).encode(), COMMITTED_TOPICS[0], 0, records)
        producer.produce(TOPIC, key=key, value=value, partition=partition)
    producer.flush()
    return records + PARTITIONS


def _last_group(partition: int) -> str:
    return f"last-{partition}"


def burrow(cluster: Cluster, work: Path) -> tuple[float, float]:
    """Wall and CPU seconds until it knows the last commit of every partition of the offsets topic."""
    (port,) = free_ports(1)
    settings = _SETTINGS.format(
        folder=work, address=cluster.bootstrap, zookeeper=cluster.zookeeper, topic=TOPIC, port=port
    )
    (work / "burrow.toml").write_text(settings)
    wanted = {_last_group(partition) for partition in range(PARTITIONS)}
    started = time.perf_counter()
    process = subprocess.Popen(
        [*pinned(), str(installed()), "--config-dir", str(work)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not wanted <= _groups(port):
            if process.poll() is not None or time.perf_counter() - started > GIVE_UP_S:
                log = (work / "burrow.log").read_text().splitlines()
                raise SystemExit("Burrow ended or has not read the topic:\n" + "\n".join(log[-5:]))
            time.sleep(0.1)
        return time.perf_counter() - started, _cpu_seconds(process.pid)
    finally:
        process.kill()
        process.wait()


def _groups(port: int) -> set[str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v3/kafka/bench/consumer", timeout=5) as answer:
            return set(json.load(answer)["consumers"])
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return set()  # not up yet


def _cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def ours(address: str, records: int, work: Path) -> tuple[float, float]:
    """Wall and CPU seconds from the broker to durable files to every field of every commit."""
    wall, cpu = time.perf_counter(), time.process_time()
    settings = CollectSettings(
        client_config={"bootstrap.servers": address}, offsets_topic=TOPIC, connect_topics={}, until_end=True
    )
    collect(settings, Landing(work / "warehouse"))
    commits = 0
    for file in sorted((work / "warehouse" / "landing" / "record").glob("*.parquet")):
        for batch in pq.read_table(file, columns=["key", "value"]).to_batches():
            decoded = decode_commits(batch.column("key"), batch.column("value"))
            commits += int((decoded.verdict == COMMIT).sum())
    if commits != records:
        raise SystemExit(f"{commits} commits were decoded of {records}")
    return time.perf_counter() - wall, time.process_time() - cpu


def client_alone(address: str, records: int) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    consumed(address, records, lambda messages: None)
    return time.perf_counter() - wall, time.process_time() - cpu


def main(records: int, rounds: int) -> None:
    installed()
    work = Path(tempfile.mkdtemp(prefix="bench-burrow-"))
    try:
        with Cluster(ClusterShape(zookeeper=True), version=KAFKA, folder=work / "lab") as cluster:
            count = prepare(cluster.bootstrap, records)
            pa.set_cpu_count(1)
            os.sched_setaffinity(0, {0})
            passes = []
            for number in range(rounds):
                folder = work / f"round-{number}"
                folder.mkdir()
                mine, theirs = ours(cluster.bootstrap, count, folder), burrow(cluster, folder)
                passes.append((mine, theirs, client_alone(cluster.bootstrap, count)))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{count:,} commits in {PARTITIONS} partitions, {rounds} rounds in turns, one core\n")
    print("| from the broker to | CPU s | wall s | commits/s of CPU time | commits/s of wall time |")
    print("| --- | --- | --- | ---: | ---: |")
    for at, name in enumerate((
        "ours: durable files, then every field decoded", "Burrow 1.2.1: offsets in memory",
        "confluent-kafka alone: `consume()`, nothing looked at, which bounds ours",
    )):  # fmt: skip
        wall, cpu = (sorted(one[at][what] for one in passes)[rounds // 2] for what in (0, 1))
        print(f"| {name} | {cpu:.2f} | {wall:.2f} | {count / cpu:,.0f} | {count / wall:,.0f} |")
    for what, name in ((1, "CPU"), (0, "wall")):
        ratios = sorted(theirs[what] / mine[what] for mine, theirs, _ in passes)
        bound = sorted(theirs[what] / client[what] for _, theirs, client in passes)
        ratio = f"{ratios[rounds // 2]:.1f} × Burrow's speed, the client alone {bound[rounds // 2]:.1f} ×"
        print(f"\n{name} time: {ratio} (goal {GOAL} ×)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    main(given.records, given.rounds)
