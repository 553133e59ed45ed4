from __future__ import annotations

import gzip
import hashlib
import io
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ingest.log_files import MAX_EVENT_BYTES, EventReader, Identity, LastEvent
from ingest.segments import open_plain
from rebalance_audit.domain.log_lines.heads import starts_event

HEAD = b"[2024-05-01 12:00:00,123] INFO "


def read(
    data: bytes, position: int = 0, last: LastEvent = LastEvent.GIVEN
) -> tuple[list[tuple[int, str]], EventReader]:
    reader = EventReader(io.BufferedReader(io.BytesIO(data)), position)
    return list(reader.events(last)), reader


def test_an_event_is_its_head_line_and_what_follows() -> None:
    data = HEAD + b"one\n\tat x\n\n" + HEAD + b"two\r\n"
    events, _ = read(data)
    assert events == [(0, (HEAD + b"one\n\tat x").decode()), (len(HEAD) + 11, (HEAD + b"two").decode())]


def test_undecodable_bytes_become_replacement_characters_and_positions_stay_bytes() -> None:
    data = HEAD + b"\xff\xfe \xe2\x82\n" + HEAD + b"next\n"
    events, _ = read(data)
    assert events[0][1].endswith("\ufffd\ufffd \ufffd")
    assert events[1][0] == data.index(HEAD, 1)


def test_only_a_line_feed_ends_a_line() -> None:
    text = "a\u2028b\x0bc\x85d\re"
    events, _ = read(HEAD + text.encode() + b"\n")
    assert events == [(0, HEAD.decode() + text)]


def test_lines_before_the_first_head_are_an_event_of_their_own() -> None:
    events, _ = read(b"\tat the.end(Of.java)\n" + HEAD + b"one\n")
    assert [byte for byte, _ in events] == [0, 21]


def test_an_overlong_event_is_cut_and_reported_and_the_next_one_is_whole() -> None:
    data = HEAD + b"x" * (3 * MAX_EVENT_BYTES) + b"\n" + b"\tat y\n" * 10 + HEAD + b"next\n"
    events, reader = read(data)
    assert len(events[0][1]) == MAX_EVENT_BYTES
    assert events[1] == (data.rindex(HEAD), (HEAD + b"next").decode())
    assert [(p.code, p.position) for p in reader.problems] == [("unreadable", 0)]


def test_a_file_that_starts_no_event_is_refused_and_nothing_of_it_is_given() -> None:
    for data in (b"GC pause\n" * 5000, b"one line", b"\0" * 5_000_000):
        events, reader = read(data)
        assert events == []
        assert [p.code for p in reader.problems] == ["skipped"]


def test_a_line_of_json_that_a_client_wrote_is_part_of_the_event_whatever_it_says() -> None:
    """A group id may hold line breaks: what follows one stands at the beginning of a line of server.log."""
    hostile = [
        b'{"message": "x", "time": 1e999}\n',
        b'{"message": "x", "time": "2026-99-99T00:00:00"}\n',
        b'{"instant": {"epochSecond": 1, "nanoOfSecond": "x"}, "message": "x"}\n',
        b"[" * 5_000 + b"\n",
    ]
    data = HEAD + b"group evil\n" + b"".join(hostile) + HEAD + b"after\n"
    events, reader = read(data)
    assert [byte for byte, _ in events] == [0, len(data) - len(HEAD + b"after\n")]
    assert len(reader.problems) == 0


def test_an_empty_file_is_no_problem() -> None:
    events, reader = read(b"")
    assert events == []
    assert len(reader.problems) == 0


def test_a_packed_file_cut_short_gives_what_is_before(tmp_path: Path) -> None:
    data = b"".join(HEAD + hashlib.sha256(b"%d" % n).hexdigest().encode() + b"\n" for n in range(5000))
    path = tmp_path / "server.log.gz"
    path.write_bytes(gzip.compress(data)[:-100])
    with open_plain(path) as file:
        reader = EventReader(file)
        events = list(reader.events(LastEvent.GIVEN))
    assert len(events) > 1000
    assert all(data[byte:].startswith(text.encode()) for byte, text in events)
    assert "gzip" in next(iter(reader.problems)).sentence


def test_the_file_id_is_a_hash_of_the_first_kilobyte() -> None:
    head = b"x" * 2000
    identity = Identity.of(head[:1024])
    assert identity == Identity(hashlib.sha256(b"x" * 1024).hexdigest()[:16], 1024)


def test_a_short_file_that_grew_is_recognised() -> None:
    short = Identity.of(b"first line\n")
    assert short.head_bytes == 11
    assert Identity.of(b"first line\nsecond line\n", [short]) == short
    assert Identity.of(b"other line\nsecond line\n", [short]) != short


_pieces = st.lists(
    st.sampled_from([HEAD + b"a\n", HEAD + b"\n", b"\tat x\n", b"\n", b"\xff\n", b"caf\xc3\xa9\n"]), max_size=30
)


@given(_pieces, st.booleans())
def test_events_cover_a_file_without_gap_or_overlap(pieces: list[bytes], ends: bool) -> None:
    data = b"".join([HEAD + b"first\n", *pieces])
    data = data if ends else data[:-1]
    events, reader = read(data)
    starts = [byte for byte, _ in events]
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    for start, end, (_, text) in zip(starts, [*starts[1:], len(data)], events, strict=True):
        assert data[start:end].decode("utf-8", "replace").rstrip("\r\n") == text
    assert reader.position == len(data)


@given(_pieces, st.integers(0, 400))
def test_stopping_anywhere_and_going_on_gives_the_same(pieces: list[bytes], size: int) -> None:
    """A growing file: first a prefix, the last event held; then the whole from the position on."""
    data = b"".join([HEAD + b"first\n", *pieces])
    first, reader = read(data[:size], last=LastEvent.HELD)
    rest, _ = read(data, reader.position)
    assert first + rest == read(data)[0]


def test_the_layouts_are_those_of_the_domain() -> None:
    assert starts_event(HEAD.decode() + "x")
