"""Live collection against librdkafka's mock cluster: real sockets and protocol, no JVM."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from confluent_kafka import KafkaError, Producer

from ingest.broker import LiveCluster
from ingest.broker_reader import start_position
from ingest.collect_settings import CollectSettings
from ingest.collector import CollectSummary, Landed, collect
from ingest.errors import Misconfigured, Retryable
from ingest.landing import Landing
from ingest.live_evidence import live_evidence

SECRET = b"hunter2-do-not-keep"
OFFSETS = "__consumer_offsets"


def produce(producer: Producer, topic: str, partition: int, *records: tuple[bytes | None, bytes | None]) -> None:
    for key, value in records:
        producer.produce(topic, key=key, value=value, partition=partition)
    assert producer.flush(10) == 0


def landed(warehouse: Path, noun: str) -> list[dict[str, Any]]:
    files = sorted((warehouse / "landing" / noun).glob("*.parquet"))  # not one that is being written
    return list(ds.dataset([str(file) for file in files]).to_table().to_pylist()) if files else []


def places(warehouse: Path) -> list[tuple[str, int, int]]:
    return sorted((row["topic"], row["partition"], row["offset"]) for row in landed(warehouse, "record"))


def until_end(address: str, warehouse: Path, **settings: Any) -> CollectSummary:
    config = {"bootstrap.servers": address}
    given = CollectSettings(client_config=config, until_end=True, **{"connect_topics": {}, **settings})
    return collect(given, Landing(warehouse))


def test_everything_that_was_there_is_landed_exactly_as_it_was(
    mock_broker: Producer, address: str, tmp_path: Path
) -> None:
    produce(mock_broker, OFFSETS, 0, (b"k0", b"v0"), (b"k1", None), (None, b""), (b"", b"v3"))
    produce(mock_broker, OFFSETS, 2, *((b"k%d" % n, b"v" * n) for n in range(500)))
    mock_broker.produce(OFFSETS, key=b"h", value=b"v", partition=3, headers=[("a", b"1"), ("b", None)])
    mock_broker.flush(10)
    summary = until_end(address, tmp_path)
    assert summary.record_count == 505
    rows = {(row["partition"], row["offset"]): row for row in landed(tmp_path, "record")}
    assert [(rows[0, n]["key"], rows[0, n]["value"]) for n in range(4)] == [
        (b"k0", b"v0"), (b"k1", None), (None, b""), (b"", b"v3")
    ]  # fmt: skip
    assert rows[3, 0]["headers"] == [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]
    assert {row["source"] for row in rows.values()} == {"live"}
    assert {row["cluster_id"] for row in rows.values()} == {summary.cluster_id}
    assert abs(rows[2, 7]["timestamp_ms"] - time.time() * 1000) < 60_000


def test_the_books_abut_from_run_to_run(mock_broker: Producer, address: str, tmp_path: Path) -> None:
    produce(mock_broker, OFFSETS, 1, *((b"k", b"v") for _ in range(3)))
    until_end(address, tmp_path)
    produce(mock_broker, OFFSETS, 1, *((b"k", b"v") for _ in range(4)))
    until_end(address, tmp_path)
    rows = [row for row in landed(tmp_path, "source") if row["source"] == f"record:{OFFSETS}-1"]
    assert sorted((row["from_position"], row["to_position"], row["item_count"]) for row in rows) == [
        (0, 3, 3), (3, 7, 4)
    ]  # fmt: skip
    empty = [row for row in landed(tmp_path, "source") if row["source"] == f"record:{OFFSETS}-0"]
    assert (empty[0]["from_position"], empty[0]["to_position"], empty[0]["item_count"]) == (0, 0, 0)
    assert len(places(tmp_path)) == len(set(places(tmp_path))) == 7


def test_a_crash_between_landing_and_positions_repeats_and_never_loses(
    mock_broker: Producer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(mock_broker, OFFSETS, 0, *((b"k%d" % n, b"v") for n in range(10)))

    def power_cut(*_: Any) -> None:
        raise SystemError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(Landing, "write_positions", power_cut)
        with pytest.raises(SystemError):
            until_end(address, tmp_path)
    assert len(places(tmp_path)) == 10
    until_end(address, tmp_path)
    assert len(places(tmp_path)) == 20
    assert len(set(places(tmp_path))) == 10


def test_a_crash_before_landing_is_as_if_it_never_ran(
    mock_broker: Producer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(mock_broker, OFFSETS, 0, *((b"k%d" % n, b"v") for n in range(10)))

    def disk_full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Landing, "write_records", disk_full)
        with pytest.raises(OSError, match="No space"):
            until_end(address, tmp_path)
    assert not (tmp_path / "positions").exists()
    until_end(address, tmp_path)
    assert len(places(tmp_path)) == len(set(places(tmp_path))) == 10


def test_continuous_collection_lands_what_arrives_and_stops_when_asked(
    mock_broker: Producer, address: str, tmp_path: Path
) -> None:
    produce(mock_broker, OFFSETS, 0, (b"k", b"v"))
    log = tmp_path / "logs" / "server.log"
    log.parent.mkdir()
    log.write_text("".join(f"[2024-05-01 12:00:00,123] INFO event {n} {'.' * 50} (x.Y)\n" for n in range(30)))
    settings = CollectSettings(
        client_config={"bootstrap.servers": address}, connect_topics={}, flush_ms=200, logs=[("b1", str(log))]
    )
    stop = threading.Event()
    thread = threading.Thread(
        target=collect, args=(settings, Landing(tmp_path / "w")), kwargs={"stop": stop.is_set}, daemon=True
    )
    thread.start()
    try:
        assert eventually(lambda: len(landed(tmp_path / "w", "record")) == 1)
        produce(mock_broker, OFFSETS, 3, (b"k", b"late"))
        assert eventually(lambda: len(landed(tmp_path / "w", "record")) == 2)
        assert eventually(lambda: len(landed(tmp_path / "w", "log_line")) == 30)
    finally:
        stop.set()
        thread.join(10)
    assert not thread.is_alive()
    (positions,) = (tmp_path / "w" / "positions").glob("live-*.json")
    content = json.loads(positions.read_text())
    assert content["partitions"][f"{OFFSETS}-3"] == 1
    assert content["logs"]["files"][0]["position"] == log.stat().st_size


def eventually(holds: Callable[[], bool], within_s: float = 15) -> bool:
    give_up_at = time.monotonic() + within_s
    while time.monotonic() < give_up_at:
        if holds():
            return True
        time.sleep(0.1)
    return holds()


def test_connect_topics_are_found_by_their_keys_and_their_secrets_stay_out(
    mock_broker: Producer, address: str, tmp_path: Path
) -> None:
    produce(mock_broker, OFFSETS, 0, (b"k", b"v"))
    produce(mock_broker, "team-connect-a", 0, (b"status-task-sink-0", b'{"state":"RUNNING"}'))
    produce(
        mock_broker, "team-connect-b", 0,
        (b"connector-sink", b'{"properties":{"connector.class":"X","password":"' + SECRET + b'"}}'),
        (b"session-key", b'{"key":"' + SECRET + b'","algorithm":"HmacSHA256","creation-timestamp":1}'),
    )  # fmt: skip
    produce(mock_broker, "connected-customers", 0, (b"customer-1", SECRET))
    until_end(address, tmp_path, connect_topics=None)
    assert {topic for topic, _, _ in places(tmp_path)} == {OFFSETS, "team-connect-a", "team-connect-b"}
    assert not any(SECRET in path.read_bytes() for path in tmp_path.rglob("*.parquet"))
    assert not any(SECRET in (row["value"] or b"") for row in landed(tmp_path, "record"))


def test_a_topic_that_is_not_there_is_shown_and_the_others_go_on(
    mock_broker: Producer, address: str, tmp_path: Path
) -> None:
    produce(mock_broker, OFFSETS, 0, (b"k", b"v"))
    summary = until_end(address, tmp_path, connect_topics={"nowhere": "status"})
    assert summary.record_count == 1
    assert summary.problems == [
        f"Topic nowhere is not on {address}, or hidden from this user; check its name and your rights."
    ]
    assert [row["problem_code"] for row in landed(tmp_path, "source") if row["source"] == "record:nowhere"] == [
        "unreadable"
    ]
    assert "nowhere" not in mock_broker.list_topics(timeout=5).topics  # an observer creates nothing


def test_if_no_topic_is_there_it_is_an_error(address: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="__consumer_offsets is not on"):
        until_end(address, tmp_path)


def test_a_broker_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(Retryable, match=r"^No broker answers at 127\.0\.0\.1:1 within 1 s \(.*refused.*\); check"):
        LiveCluster({"bootstrap.servers": "127.0.0.1:1"}, timeout_s=1)


def test_settings_the_client_refuses_are_one_sentence_without_secrets() -> None:
    with pytest.raises(Misconfigured, match="The client settings are refused") as raised:
        LiveCluster({"bootstrap.servers": "x:1", "sasl.password": "hunter2", "security.protocol": "hunter2"})
    assert "hunter2" not in str(raised.value)


def test_settings_only_the_consumer_refuses_are_one_sentence_too(
    mock_broker: Producer, address: str, tmp_path: Path
) -> None:
    produce(mock_broker, OFFSETS, 0, (b"k", b"v"))
    config = {"bootstrap.servers": address, "message.max.bytes": 500_000_000}
    with pytest.raises(Misconfigured, match="settings are refused"):
        collect(CollectSettings(client_config=config, connect_topics={}, until_end=True), Landing(tmp_path))


def test_a_denied_topic_is_shown_with_the_rights_it_needs(mock_broker: Producer, address: str) -> None:
    cluster = LiveCluster({"bootstrap.servers": address})
    sentence = cluster.sentence(OFFSETS, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert "may not be read by this user" in sentence
    assert "DESCRIBE and READ" in sentence


def test_another_cluster_than_meant_is_refused(mock_broker: Producer, address: str, tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="not prod"):
        until_end(address, tmp_path, cluster_id="prod")


@pytest.mark.parametrize(
    ("remembered", "low", "high", "start", "position"),
    [
        (None, 5, 9, 5, None),
        (7, 5, 9, 7, None),
        (9, 5, 9, 9, None),
        (5, 5, 9, 5, None),
        (3, 5, 9, 5, 3),
        (12, 5, 9, 5, 9),
    ],
)
def test_where_to_begin_and_what_is_lost(
    remembered: int | None, low: int, high: int, start: int, position: int | None
) -> None:
    found, problem = start_position("t", 0, remembered, low, high)
    assert found == start
    assert (problem.position if problem else None) == position
    assert problem is None or problem.code == "lost"


def test_positions_beyond_the_end_are_a_gap_and_read_again(mock_broker: Producer, address: str, tmp_path: Path) -> None:
    produce(mock_broker, OFFSETS, 0, (b"k", b"v"))
    summary = until_end(address, tmp_path)
    Landing(tmp_path).write_positions(f"live-{summary.cluster_id}", {"partitions": {f"{OFFSETS}-0": 99}})
    until_end(address, tmp_path)
    (row,) = [row for row in landed(tmp_path, "source") if row["problem_code"] == "lost"]
    assert "truncated or recreated" in row["problem"]
    assert len(places(tmp_path)) == 2
    assert len(set(places(tmp_path))) == 1


def test_live_evidence_needs_no_warehouse_and_reads_only_what_is_chosen(mock_broker: Producer, address: str) -> None:
    produce(mock_broker, OFFSETS, 0, (b"a", b"v"))
    produce(mock_broker, OFFSETS, 1, (b"a", b"1"), (b"b", b"2"))
    evidence = live_evidence(CollectSettings(client_config={"bootstrap.servers": address}, connect_topics={}))
    records = list(evidence.records(lambda topic, key: key == b"b", choose=lambda topic, count: [1]))
    assert [(r.partition, r.offset, r.value) for r in records] == [(1, 1, b"2")]
    assert [s.source for s in evidence.sources] == [f"record:{OFFSETS}-1"]


def test_logs_alone_need_a_cluster_id(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("[2024-05-01 12:00:00,123] INFO one (x.Y)\n")
    logs = [("b1", str(log))]
    with pytest.raises(Misconfigured, match="Nothing to collect from"):
        collect(CollectSettings(logs=logs, until_end=True), Landing(tmp_path / "w"))
    summary = collect(CollectSettings(logs=logs, cluster_id="c1", until_end=True), Landing(tmp_path / "w"))
    assert (summary.cluster_id, summary.line_count) == ("c1", 1)


class Listener:
    """A Follower that notes what was durable when it heard."""

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        self.heard: list[tuple[list[bytes | None], list[str], bool]] = []
        self.heard_at: list[float] = []
        self.is_caught_up = threading.Event()

    def landed(self, news: Landed) -> None:
        columns: list[Any] = [run.columns["key"] for run in news.runs]
        keys = [key for column in columns for key in column.to_pylist()]
        durable = [row["key"] for row in landed(self.warehouse, "record")]
        assert all(key in durable for key in keys)
        assert list((self.warehouse / "positions").iterdir())
        self.heard.append((keys, [line.text for line in news.lines], news.is_history))
        self.heard_at.append(time.monotonic())

    def caught_up(self) -> None:
        self.is_caught_up.set()


def test_live_what_is_urgent_is_landed_on_arrival_and_the_rest_waits(
    mock_broker: Producer, address: str, tmp_path: Path
) -> None:
    """The follower hears of nothing before it is durable; what was there before is history."""
    produce(mock_broker, OFFSETS, 0, (b"old", b"v"))
    log = tmp_path / "server.log"
    line = "[2024-05-01 12:00:00,123] INFO one " + "." * 1_024 + " (x.Y)\n"
    log.write_text(line)
    listener, stop = Listener(tmp_path / "w"), threading.Event()
    settings = CollectSettings(
        client_config={"bootstrap.servers": address}, connect_topics={}, is_live=True, flush_ms=60_000,
        is_urgent=lambda topic, key: key == b"urgent", logs=[("b1", str(log))],
    )  # fmt: skip
    thread = threading.Thread(
        target=collect, args=(settings, Landing(tmp_path / "w")),
        kwargs={"stop": stop.is_set, "follower": listener}, daemon=True,
    )  # fmt: skip
    thread.start()
    try:
        assert listener.is_caught_up.wait(30)
        _until(lambda: any("one" in text for _, texts, _ in listener.heard for text in texts))  # it was the last line
        produce(mock_broker, OFFSETS, 1, (b"patient", b"v"))
        time.sleep(1.0)
        assert not any(b"patient" in keys for keys, *_ in listener.heard)
        produced_at = time.monotonic()
        produce(mock_broker, OFFSETS, 1, (b"urgent", b"v"))
        _until(lambda: any(b"urgent" in keys for keys, *_ in listener.heard))
        with log.open("a") as file:
            file.write(line.replace("one", "two"))
        _until(lambda: any("two" in text for _, texts, _ in listener.heard for text in texts))
    finally:
        stop.set()
        thread.join(30)
    assert listener.heard[0][0] == [b"old"]
    (news,) = [n for n, (keys, *_) in enumerate(listener.heard) if b"urgent" in keys]
    assert listener.heard[news][0] == [b"patient", b"urgent"]
    assert listener.heard_at[news] - produced_at < 5
    assert not listener.heard[news][2]


def _until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 30
    while not is_so() and time.monotonic() < give_up_at:
        time.sleep(0.05)
    assert is_so()
