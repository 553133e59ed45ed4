"""Events survive the way through a table row; lines get their instants."""

from __future__ import annotations

from rebalance_audit.domain.decode import decode_source
from rebalance_audit.domain.gather.clocks import NodeClock, ZoneSource
from rebalance_audit.domain.gather.groups import event_of_row, gather, line_row, record_row, undecoded, with_instants
from rebalance_audit.domain.log_lines import parse_line
from rebalance_audit.domain.model import ConnectRecord, GroupRecord, LogEvent, SourceLine, SourceRecord
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests.encoders import group_metadata_key, group_metadata_value

HOUR_MS = 3_600_000


def a_source(key: bytes, value: bytes | None, topic: str = "__consumer_offsets") -> SourceRecord:
    return SourceRecord(cluster_id="c", topic=topic, partition=1, offset=2, timestamp_ms=3, key=key, value=value)


def a_line(byte: int, second: int, hour: int = 10) -> SourceLine:
    text = (
        f"[2026-10-25 {hour:02d}:30:{second:02d},000] INFO [GroupCoordinator 1]: Group orders with generation 3 is now "
        "empty (__consumer_offsets-7) (kafka.coordinator.group.GroupCoordinator)"
    )
    return SourceLine(cluster_id="c", node="n", file_name="server.log", file_id="f", byte=byte, text=text)


def an_event(line: SourceLine) -> LogEvent:
    event = parse_line(line)
    assert event is not None
    return event


def test_a_group_record_comes_back_from_its_row() -> None:
    source = a_source(group_metadata_key("orders"), group_metadata_value(4))
    decoded = decode_source(source)
    assert isinstance(decoded, GroupRecord)
    row = record_row(source, decoded)
    assert (row["group_id"], row["kind"], row["source_kind"]) == ("orders", "GroupMetadata", "record")
    assert event_of_row(row) == decoded


def test_a_status_record_comes_back_from_its_row_and_names_no_group() -> None:
    source = a_source(b"status-task-sink-0", b'{"state":"RUNNING","worker_id":"w:1","generation":2}', "status")
    decoded = decode_source(source)
    assert isinstance(decoded, ConnectRecord)
    row = record_row(source, decoded)
    assert (row["group_id"], row["kind"], row["source_kind"]) == (None, "task", "status")
    assert event_of_row(row) == decoded


def test_a_line_comes_back_from_its_row_with_what_its_neighbours_show() -> None:
    from dataclasses import replace

    line = a_line(0, 1)
    for event in (an_event(line), replace(an_event(line), could_be_forged=True)):
        assert event_of_row(line_row(line, event)) == event


def test_a_line_in_the_hour_that_comes_twice_is_not_before_the_line_before_it() -> None:
    clock = NodeClock(source=ZoneSource.CONFIGURED, zone="Europe/Berlin")
    lines = [an_event(a_line(byte, second, hour=2)) for byte, second in ((0, 50), (300, 10))]
    first, second = with_instants(reversed(lines), {"n": clock})
    assert (first.at_ms, second.at_ms) == (lines[0].local_at_ms - 2 * HOUR_MS, lines[1].local_at_ms - HOUR_MS)


def test_a_node_without_a_clock_is_on_utc() -> None:
    event = an_event(a_line(0, 1))
    assert with_instants([event], {})[0].at_ms == event.local_at_ms


def test_the_place_of_refused_bytes_counts_through_key_and_value() -> None:
    source = a_source(b"12345678", b"value")
    in_value = undecoded(source, DecodeError(DecodeReason.SHORT_BUFFER, 2, "offset", "value"))
    assert (in_value.byte_position, in_value.raw, in_value.part) == (10, b"value", "value")
    in_key = undecoded(source, DecodeError(DecodeReason.SHORT_BUFFER, 2, "group", "key"))
    assert (in_key.byte_position, in_key.raw) == (2, b"12345678")


def test_gathering_keeps_what_could_not_be_read_and_finds_the_group() -> None:
    good = a_source(group_metadata_key("orders"), group_metadata_value(4))
    bad = a_source(b"\x00\x63", b"")
    gathered = gather([good, bad], [a_line(0, 1)])
    assert [g.group_id for g in gathered.groups] == ["orders"]
    assert (len(gathered.groups[0].records), len(gathered.groups[0].lines)) == (1, 1)
    assert [u.reason for u in gathered.undecoded] == ["unknown_record_type"]
    assert gather([good], [], group_id="another").groups == ()
