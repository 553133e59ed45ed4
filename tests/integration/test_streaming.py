"""Bronze by Spark's Kafka source is what the collector writes, over kills and a checkpoint that lost its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
CONFIGS = "shop-connect-configs"
SECRET = b"hunter2-do-not-keep"
GROUPS = 12
COMMITS = 40
IN_A_BATCH = 100


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rebalance_audit.cli", *arguments]


def produced(bootstrap: str) -> None:
    """Groups that rebalance and commit, and a topic of Connect's with a password in it."""
    client: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
    admin = AdminClient(client)  # held: a client that goes out of scope answers nothing
    for created in admin.create_topics([NewTopic("orders", 4, 1), NewTopic(CONFIGS, 1, 1)]).values():
        created.result(30)
    producer = Producer(client)
    properties = {"connector.class": "x.Y", "database.password": SECRET.decode()}
    value = json.dumps({"properties": properties}).encode()
    producer.produce(CONFIGS, key=b"connector-shop", value=value, headers=[("h", b"1"), ("n", None)])
    producer.produce(CONFIGS, key=b"connector-shop", value=None)
    producer.produce(CONFIGS, key=None, value=SECRET)
    assert producer.flush(30) == 0
    for number in range(GROUPS):
        commits(client, f"shop-{number}", first=0)
    consumer = Consumer({**client, "group.id": "shop-live", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    until = time.monotonic() + 30
    while not consumer.assignment() and time.monotonic() < until:
        consumer.poll(0.2)
    assert consumer.assignment()
    consumer.close()


def commits(client: dict[str, Any], group: str, *, first: int) -> None:
    consumer = Consumer({**client, "group.id": group, "enable.auto.commit": False})
    for offset in range(first, first + COMMITS):
        commit(consumer, TopicPartition("orders", offset % 4, offset))
    consumer.close()


def commit(consumer: Consumer, position: TopicPartition) -> None:
    """A broker that has just begun may refuse the first ones, which leaves nothing in its log."""
    until = time.monotonic() + 30
    while True:
        try:
            consumer.commit(offsets=[position], asynchronous=False)
            return
        except KafkaException as error:
            if error.args[0].code() != KafkaError.NOT_COORDINATOR or time.monotonic() > until:
                raise
            time.sleep(0.1)


def streamed(bootstrap: str, warehouse: Path) -> list[str]:
    return command(
        "stream", "-b", bootstrap, "-w", str(warehouse), "-t", f"{CONFIGS}=config", "--until-end",
        "--most-records", str(IN_A_BATCH),
    )  # fmt: skip


def killed_after(landings: int, bootstrap: str, warehouse: Path) -> None:
    """The driver, its JVM and its Python workers die at once, when so many more batches have landed something."""
    landings += len(batches(warehouse))
    process = subprocess.Popen(
        streamed(bootstrap, warehouse), cwd=ROOT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + 120
    while len(batches(warehouse)) < landings and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    assert process.poll() is None, f"it ended before it could be killed, with {len(batches(warehouse))} batches"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def batches(warehouse: Path) -> set[str]:
    return {"-".join(file.stem.split("-")[:7]) for file in (warehouse / "landing" / "record").glob("stream-*")}


def called(arguments: list[str]) -> str:
    done = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def bronze(folder: Path) -> list[dict[str, Any]]:
    """All that is known of a record, but which file brought it and what this source does not know."""
    warehouse = Warehouse.open(folder)
    pipeline.run(warehouse, ["bronze"], engine="local", with_quality=False)
    found: list[dict[str, Any]] = warehouse.query(
        'SELECT * EXCLUDE (landing, leader_epoch) FROM bronze.record ORDER BY topic, partition, "offset", copy'
    ).to_pylist()
    return found


def test_it_is_what_the_collector_writes_exactly_once(tmp_path: Path) -> None:
    from infra.lab.cluster import Cluster
    from infra.lab.shape import ClusterShape

    # Ten minutes on, a broker would write a tombstone of the group that committed nothing.
    kept = ClusterShape(broker_properties={"offsets.retention.check.interval.ms": 86_400_000})
    by_stream, by_collector = tmp_path / "stream", tmp_path / "collector"
    (lab := tmp_path / "lab").mkdir()
    with Cluster(kept, folder=lab) as cluster:
        produced(cluster.bootstrap)
        for landings in (1, 2):
            killed_after(landings, cluster.bootstrap, by_stream)
        assert "Landed" in called(streamed(cluster.bootstrap, by_stream))
        forget_last_commit(by_stream)
        commits({"bootstrap.servers": cluster.bootstrap, "log_level": 0}, "shop-0", first=COMMITS)
        called(streamed(cluster.bootstrap, by_stream))
        called(command("collect", "-b", cluster.bootstrap, "-w", str(by_collector), "-t", f"{CONFIGS}=config",
                       "--until-end"))  # fmt: skip
        printed = called(streamed(cluster.bootstrap, by_stream))
    assert "Landed 0 records" in printed
    rows = bronze(by_stream)
    assert rows == bronze(by_collector)
    assert len(rows) > GROUPS * COMMITS
    assert {row["copy"] for row in rows} == {0}
    assert SECRET not in b"".join(file.read_bytes() for file in (by_stream / "landing").rglob("*.parquet"))
    assert not any(SECRET in (row["value"] or b"") for row in rows)
    books = "SELECT source, max(to_position) AS read_to FROM bronze.source GROUP BY source ORDER BY source"
    assert Warehouse.open(by_stream).query(books).to_pylist() == Warehouse.open(by_collector).query(books).to_pylist()


def forget_last_commit(warehouse: Path) -> None:
    """As if it had died after landing the last batch and before its checkpoint said so."""
    (commits_folder,) = (warehouse / "positions" / "stream").glob("*/commits")
    last = max(int(file.name) for file in commits_folder.glob("[0-9]*"))
    (commits_folder / str(last)).unlink()
    (commits_folder / f".{last}.crc").unlink(missing_ok=True)


def test_a_broker_that_is_away_is_one_sentence(tmp_path: Path) -> None:
    done = subprocess.run(
        command("stream", "-b", "127.0.0.1:1", "-w", str(tmp_path / "w"), "--until-end"),
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    (sentence,) = [line for line in done.stderr.splitlines() if line.startswith("rebalance-audit:")]
    assert "No broker answers at 127.0.0.1:1 within 10 s" in sentence
