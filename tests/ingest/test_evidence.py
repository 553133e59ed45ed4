from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from ingest import evidence as evidence_module
from ingest.errors import Misconfigured
from ingest.evidence import import_evidence, read_evidence
from ingest.folders import open_data_dir
from ingest.landing import Landing
from rebalance_audit.domain import tables
from rebalance_audit.domain.metadata import named_topic
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from tests.ingest.batch_encoder import a_batch, a_record

GOLDEN = Path(__file__).parents[1] / "golden" / "4.3.0" / "eager_join_leave_kill"
SECRET = b"hunter2-do-not-keep"
LINE = "[2024-05-01 12:00:0%d,123] INFO line %d (kafka.server.KafkaServer)\n"


UNKNOWN_TYPE = b"\x01\x7f\x00" + SECRET
"""A record of the metadata log that nobody here knows, so nobody knows whether it is a secret."""


def put(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def offsets(*numbers: int) -> bytes:
    return b"".join(a_batch(n, [a_record(0, b"\0\1\0\1g", b"value-%d" % n)]) for n in numbers)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "evidence"
    for node in ("broker-1", "broker-2"):
        put(root / f"data/{node}/__consumer_offsets-3/{0:020d}.log", offsets(0, 1, 2))
    put(root / f"data/broker-1/__consumer_offsets-12/{40:020d}.log.gz", gzip.compress(offsets(40, 41)))
    status = [a_record(0, b"status-task-sink-0", b'{"state":"RUNNING"}')]
    put(root / f"data/broker-1/my-state-0/{0:020d}.log", a_batch(0, status))
    config = [
        a_record(0, b"connector-sink", b'{"properties":{"connector.class":"X","password":"%s"}}' % SECRET),
        a_record(1, b"session-key", b'{"key":"%s","algorithm":"HmacSHA256","creation-timestamp":1}' % SECRET),
    ]
    put(root / f"data/broker-1/my-config-0/{0:020d}.log", a_batch(0, config))
    put(root / f"data/broker-1/orders-0/{0:020d}.log", a_batch(0, [a_record(0, b"customer", SECRET)]))
    topic = bytes.fromhex("010200") + b"\x07orders" + bytes(16) + b"\0"
    log = a_batch(0, [a_record(0, None, topic)]) + a_batch(1, [a_record(0, None, UNKNOWN_TYPE)])
    put(root / f"data/broker-1/__cluster_metadata-0/{0:020d}.log", log)
    put(root / "logs/broker-1/server.log", "".join(LINE % (n, n) for n in range(5)).encode())
    put(root / "logs/broker-1/kafkaServer-gc.log", b"[0.005s][info][gc] Using G1\n")
    put(root / "logs/broker-1/notes.txt", b"not a log\n")
    put(root / "meta.json", b'{"cluster_id": "c1", "kafka_version": "4.3.0", "log_time_zone": "UTC"}')
    return root


def landed(warehouse: Path, noun: str) -> list[dict[str, Any]]:
    return list(ds.dataset(warehouse / "landing" / noun).to_table().to_pylist())


def test_an_evidence_folder_is_read_with_replicas_collapsed(folder: Path) -> None:
    evidence = read_evidence(folder)
    records = list(evidence.records())
    assert [(r.topic, r.partition, r.offset) for r in records] == [
        *(("__cluster_metadata", 0, n) for n in range(2)),
        *(("__consumer_offsets", 3, n) for n in range(3)), *(("__consumer_offsets", 12, n) for n in (40, 41)),
        *(("my-config", 0, n) for n in range(2)), ("my-state", 0, 0),
    ]  # fmt: skip
    assert {r.cluster_id for r in records} == {"c1"}
    assert records[6].value == b"value-41"


def test_log_events_are_read_with_their_bytes(folder: Path) -> None:
    evidence = read_evidence(folder)
    lines = list(evidence.lines())
    assert [line.byte for line in lines] == [n * len(LINE % (0, 0)) for n in range(5)]
    assert lines[2].text == (LINE % (2, 2)).rstrip()
    by_source = {source.source: source for source in evidence.sources}
    assert by_source[f"log:broker-1/server.log#{lines[0].file_id}"].item_count == 5
    (gc,) = [s for name, s in by_source.items() if "gc.log" in name]
    assert [p.code for p in gc.problems] == ["skipped"]


def test_reading_again_gives_the_same_and_counts_nothing_twice(folder: Path) -> None:
    put(folder / f"data/broker-1/__consumer_offsets-3/{0:020d}.log", offsets(0, 1)[:-1])
    evidence = read_evidence(folder)
    first, books = list(evidence.records()), repr(evidence.sources)
    assert list(evidence.records()) == first
    assert len(repr(evidence.sources)) == len(books)


def test_what_is_not_read_is_said(folder: Path) -> None:
    evidence = read_evidence(folder)
    list(evidence.records())
    said = " ".join(p.sentence for source in evidence.sources for p in source.problems)
    assert "__cluster_metadata" not in said
    assert "1 topic that holds neither groups nor Connect's status or configuration: orders." in said


def test_the_metadata_log_lands_without_secrets_and_names_topics(folder: Path, tmp_path: Path) -> None:
    (name, unknown) = read_evidence(folder).metadata()
    assert named_topic(name) == ("AAAAAAAAAAAAAAAAAAAAAA", "orders")
    assert SECRET not in (unknown.value or b"")
    import_evidence(folder, Landing(tmp_path / "w"))
    rows = [row for row in landed(tmp_path / "w", "record") if row["topic"] == "__cluster_metadata"]
    assert [(row["offset"], row["value"], row["node"]) for row in rows] == [
        (0, name.value, "broker-1"),
        (1, unknown.value, "broker-1"),
    ]
    (book,) = [row for row in landed(tmp_path / "w", "source") if row["source"] == "record:__cluster_metadata-0"]
    assert (book["from_position"], book["to_position"], book["item_count"], book["problem"]) == (0, 2, 2, None)


def test_no_secret_of_a_connect_configuration_leaves(folder: Path, tmp_path: Path) -> None:
    assert not any(SECRET in (r.value or b"") for r in read_evidence(folder).records())
    warehouse = tmp_path / "w"
    import_evidence(folder, Landing(warehouse))
    config = [row for row in landed(warehouse, "record") if row["topic"] == "my-config"]
    assert len(config) == 2
    assert not any(SECRET in (row["value"] or b"") for row in config)
    assert not any(SECRET in path.read_bytes() for path in warehouse.rglob("*") if path.is_file())


def test_a_config_topic_taken_for_a_status_topic_is_redacted_all_the_same(folder: Path) -> None:
    meta = {"cluster_id": "c1", "status.storage.topic": ["my-config", "my-state"]}
    put(folder / "meta.json", json.dumps(meta).encode())
    records = [r for r in read_evidence(folder).records() if r.topic == "my-config"]
    assert len(records) == 2
    assert not any(SECRET in (r.value or b"") for r in records)


def test_landing_files_have_the_columns_of_bronze_and_are_sorted(folder: Path, tmp_path: Path) -> None:
    summary = import_evidence(folder, Landing(tmp_path / "w"))
    assert (summary.record_count, summary.line_count) == (10, 5)
    for noun, table in (
        ("record", tables.BRONZE_RECORD), ("log_line", tables.BRONZE_LOG_LINE), ("source", tables.BRONZE_SOURCE)
    ):  # fmt: skip
        assert ds.dataset(tmp_path / "w/landing" / noun).schema == arrow_schema(table)
    rows = landed(tmp_path / "w", "record")
    places = [(row["topic"], row["partition"], row["offset"]) for row in rows]
    assert places == sorted(places)
    assert {(row["copy"], row["source"], row["node"]) for row in rows} == {(0, "segment", "broker-1")}


def test_the_books_say_from_where_to_where(folder: Path, tmp_path: Path) -> None:
    import_evidence(folder, Landing(tmp_path / "w"))
    by_source = {row["source"]: row for row in landed(tmp_path / "w", "source") if row["problem"] is None}
    row = by_source["record:__consumer_offsets-12"]
    assert (row["from_position"], row["to_position"], row["item_count"]) == (40, 42, 2)
    assert row["from_at_ms"] == row["to_at_ms"] == 1_700_000_000_000
    assert (row["kafka_version"], row["log_time_zone"]) == ("4.3.0", "UTC")


def test_importing_twice_lands_nothing_twice(folder: Path, tmp_path: Path) -> None:
    import_evidence(folder, Landing(tmp_path / "w"))
    again = import_evidence(folder, Landing(tmp_path / "w"))
    assert (again.record_count, again.line_count) == (0, 0)
    assert again.skipped_count == 6
    assert len(landed(tmp_path / "w", "record")) == 10


def test_a_folder_that_grew_is_read_where_it_grew(folder: Path, tmp_path: Path) -> None:
    import_evidence(folder, Landing(tmp_path / "w"))
    with (folder / "logs/broker-1/server.log").open("a") as file:
        file.write("\tat continued(Here.java:1)\n" + LINE % (6, 6))
    put(folder / f"data/broker-1/__consumer_offsets-12/{42:020d}.log", offsets(42))
    again = import_evidence(folder, Landing(tmp_path / "w"))
    assert (again.record_count, again.line_count) == (3, 2)  # the last event grew, and a new one follows
    lines = {(row["file_id"], row["byte"]) for row in landed(tmp_path / "w", "log_line")}
    assert len(lines) == 6


def test_an_import_in_small_pieces_lands_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_evidence(folder, Landing(tmp_path / "one"))
    monkeypatch.setattr(evidence_module, "FLUSH_ROWS", 1)
    import_evidence(folder, Landing(tmp_path / "many"))
    assert len(list((tmp_path / "many/landing/record").iterdir())) > 3

    def without_names(noun: str, warehouse: str) -> list[str]:
        rows = landed(tmp_path / warehouse, noun)
        return sorted(repr({k: v for k, v in row.items() if k not in ("landing", "read_id")}) for row in rows)

    for noun in ("record", "log_line"):
        assert without_names(noun, "one") == without_names(noun, "many")
    counted = {row["source"]: row["item_count"] for row in landed(tmp_path / "many", "source") if not row["problem"]}
    assert counted["record:__consumer_offsets-3"] == 3


class _Crash(Exception):
    pass


@pytest.mark.parametrize("dies_at", range(1, 25))
def test_a_crash_at_any_write_repeats_and_never_loses(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies_at: int
) -> None:
    monkeypatch.setattr(evidence_module, "FLUSH_ROWS", 2)
    expected = {(r.topic, r.partition, r.offset) for r in read_evidence(folder).records()}
    landing, writes = Landing(tmp_path / "w"), 0
    write = landing._files.write

    def dying(name: str, content: Any) -> None:
        nonlocal writes
        writes += 1
        if writes == dies_at:
            raise _Crash
        write(name, content)

    monkeypatch.setattr(landing._files, "write", dying)
    try:
        import_evidence(folder, landing)
    except _Crash:
        import_evidence(folder, Landing(tmp_path / "w"))
    assert {(r["topic"], r["partition"], r["offset"]) for r in landed(tmp_path / "w", "record")} == expected
    assert len({row["byte"] for row in landed(tmp_path / "w", "log_line")}) == 5
    counted = {row["source"] for row in landed(tmp_path / "w", "source") if row["problem"] is None}
    assert {"record:__consumer_offsets-3", "record:__consumer_offsets-12", "record:my-state-0"} <= counted


def test_a_brokers_own_folders_are_read_in_place(folder: Path) -> None:
    data = folder / "data/broker-1"
    put(data / "meta.properties", b"version=1\ncluster.id=from-the-broker\nnode.id=1\n")
    found = open_data_dir(data, node="1", log_dir=folder / "logs/broker-1")
    evidence = read_evidence(found)
    assert evidence.cluster_id == "from-the-broker"
    assert len(list(evidence.records())) == 10
    assert {line.node for line in evidence.lines()} == {"1"}


def test_nodes_of_two_clusters_are_refused(folder: Path) -> None:
    (folder / "meta.json").unlink()
    put(folder / "data/broker-1/meta.properties", b"cluster.id=A\n")
    put(folder / "data/broker-2/meta.properties", b"cluster.id=B\n")
    with pytest.raises(Misconfigured, match=r"several clusters \(broker-1: A, broker-2: B\)"):
        read_evidence(folder)


@pytest.mark.parametrize(
    ("meta", "says"),
    [(b"{", "not readable as JSON"), (b"[]", "not a JSON object"), (b'{"cluster_id": 7}', "cluster_id")],
)
def test_a_bad_meta_file_is_refused_with_its_name(folder: Path, meta: bytes, says: str) -> None:
    put(folder / "meta.json", meta)
    with pytest.raises(Misconfigured, match=says) as raised:
        read_evidence(folder)
    assert "meta.json" in str(raised.value)


def test_a_folder_that_is_none_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="is not a folder"):
        read_evidence(tmp_path / "nowhere")
    with pytest.raises(Misconfigured, match="neither data/<node>/ nor logs/<node>/"):
        read_evidence(tmp_path)


@pytest.mark.skipif(not GOLDEN.is_dir(), reason="the golden capture is not there")
def test_a_real_capture_is_read_whole(tmp_path: Path) -> None:
    """Offsets of a broker's log without compaction are dense, so every one must be there."""
    evidence = read_evidence(GOLDEN)
    offsets_seen = [r.offset for r in evidence.records() if r.topic == "__consumer_offsets"]
    assert offsets_seen == list(range(len(offsets_seen)))
    assert offsets_seen
    lines = list(evidence.lines())
    text = gzip.decompress((GOLDEN / "logs/broker-1/server.log.gz").read_bytes())
    for line in lines:
        if line.file_name == "server.log.gz":
            assert text[line.byte :].startswith(line.text.encode())
    assert sum(1 for line in lines if "Preparing to rebalance group" in line.text) == text.count(
        b"Preparing to rebalance group"
    )
    summary = import_evidence(GOLDEN, Landing(tmp_path / "w"))
    assert (summary.record_count, summary.line_count) == (len(list(evidence.records())), len(lines))
