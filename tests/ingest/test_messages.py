"""Records of many partitions as they arrive: in the order of partitions when they are landed, whatever order they came
in."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Message

from ingest.broker_reader import LivePartition
from ingest.collector import Landed
from ingest.landing import Landing
from ingest.messages import SHORT_RECORDS, LiveRecords
from ingest.pending import PendingEvidence
from rebalance_audit.live.heard import LandedRows

TOPIC = "__consumer_offsets"


def message(partition: int, offset: int) -> Message:
    return Message(
        topic=TOPIC, partition=partition, offset=offset, key=b"k%d" % offset, value=b"v", timestamp=(1, 1_000 + offset),
        headers=[("h", b"x")] if offset == 1 else None, leader_epoch=3,
    )  # fmt: skip


def polls(pieces: int, length: int, partitions: int) -> list[list[Message]]:
    """Each poll brings some consecutive records of one partition after another."""
    random, offsets = Random(1), [0] * partitions
    made: list[list[Message]] = [[]]
    for _ in range(pieces):
        partition = random.randrange(partitions)
        made[-1] += [message(partition, offsets[partition] + n) for n in range(length)]
        offsets[partition] += length
        if random.random() < 0.3:
            made.append([])
    return [poll for poll in made if poll]


def landed(warehouse: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(warehouse / "landing" / "record" / "one.parquet").to_pylist()
    return rows


def places_of(columns: Any) -> list[tuple[int, int]]:
    return list(zip(columns["partition"].to_pylist(), columns["offset"].to_pylist(), strict=True))


@pytest.mark.parametrize("length", [1, 3, 4 * SHORT_RECORDS])
def test_records_are_sorted_by_partition_and_keep_their_order_within_one(length: int) -> None:
    arrived = polls(40, length, 7)
    records = LiveRecords(TOPIC)
    for messages in arrived:
        assert records.add_messages(messages) > 0
    expected = sorted((m.partition(), m.offset()) for messages in arrived for m in messages)
    assert places_of(records.columns) == expected
    assert places_of(records.columns) == expected, "asked again, the same"
    records.add_messages([message(0, 10_000)])
    assert places_of(records.columns) == sorted([*expected, (0, 10_000)])


def test_a_landing_of_fifty_partitions_is_one_table_for_the_file_and_for_the_judge(tmp_path: Path) -> None:
    pending = PendingEvidence()
    for messages in polls(400, 3, 50):
        by_partition = [(LivePartition(TOPIC, m.partition() or 0, "group", 0, 0), [m]) for m in messages]
        pending.add_messages(by_partition)
    assert pending.item_count == 1_200
    runs = pending.runs
    assert len(runs) == 1
    assert {column.num_chunks for column in runs[0].columns.values()} == {1}  # type: ignore[attr-defined]
    assert Landing(tmp_path).write_records("one", "c", runs) == 1_200
    rows = landed(tmp_path)
    assert [(row["topic"], row["partition"]) for row in rows] == [(TOPIC, p) for p, _ in places_of(runs[0].columns)]
    assert {(row["source"], row["copy"], row["leader_epoch"]) for row in rows} == {("live", 0, 3)}
    assert all((row["headers"] is not None) == (row["offset"] == 1) for row in rows)

    news = Landed(cluster_id="c", runs=runs, lines=(), until_ms=None, is_history=False)
    heard = LandedRows.of(news.runs)
    assert len(heard.places) == 50
    for (topic, partition), (_, count) in heard.places.items():
        of_place = heard.of_place((topic, partition))
        assert of_place["offset"].to_pylist() == list(range(count))
    assert [(r.partition, r.offset) for r in heard.records("c")] == places_of(runs[0].columns)


def test_offsets_that_come_again_are_landed_in_order(tmp_path: Path) -> None:
    """The client reads a partition again after a truncation."""
    records = LiveRecords(TOPIC)
    records.add_messages([message(1, 5), message(1, 6), message(0, 1)])
    records.add_messages([message(1, 5)])
    Landing(tmp_path).write_records("one", "c", [records])
    rows = [(row["partition"], row["offset"]) for row in landed(tmp_path)]
    assert rows == [(0, 1), (1, 5), (1, 5), (1, 6)]
