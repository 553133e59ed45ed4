from __future__ import annotations

import gzip
import io
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import batches
from ingest.batches import Row
from ingest.errors import Problem
from ingest.segments import CHUNK_BYTES, MAX_BATCH_BYTES, read_batches, read_segment, rows_or_problem
from tests.ingest.batch_encoder import CODECS, a_batch, a_record, crc32c


def read(data: bytes) -> tuple[list[Row], list[Problem]]:
    rows: list[Row] = []
    problems: list[Problem] = []
    for item in read_batches(io.BytesIO(data)):
        got = item if isinstance(item, Problem) else rows_or_problem(item)
        if isinstance(got, Problem):
            problems.append(got)
        else:
            rows += got
    return rows, problems


def test_the_encoders_checksum_is_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # the check value of RFC 3720


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_any_codec_is_read(codec: str) -> None:
    records = [a_record(n, b"key-%d" % n, b"value" * (n % 50), timestamp_delta=n * 3) for n in range(20_000)]
    rows, problems = read(a_batch(1000, records[:300], codec=codec) + a_batch(9000, records, codec=codec))
    assert problems == []
    assert len(rows) == 20_300
    assert rows[299][:5] == (1299, 1_700_000_000_897, b"key-299", b"value" * 49, None)
    assert rows[300][0] == 9000
    assert rows[-1][0] == 28_999


def test_what_a_batch_says_of_itself_is_on_each_row() -> None:
    data = a_batch(7, [a_record(0)], attributes=0x10, producer_id=4001, producer_epoch=3, leader_epoch=12)
    (row,), _ = read(data)
    assert row == (
        7, 1_700_000_000_000, b"k", b"v", None, 12, 4001, 3, True, False, struct.unpack_from(">I", data, 17)[0], 7
    )  # fmt: skip


def test_null_and_empty_stay_apart() -> None:
    rows, _ = read(a_batch(0, [a_record(0, None, b""), a_record(1, b"", None)]))
    assert [row[2:4] for row in rows] == [(None, b""), (b"", None)]


def test_headers_keep_order_and_null_values() -> None:
    rows, _ = read(a_batch(0, [a_record(0, headers=[("b", b"1"), ("a", None), ("b", b"")])]))
    assert rows[0][4] == (("b", b"1"), ("a", None), ("b", b""))


def test_after_compaction_offsets_have_holes_and_the_batch_its_old_end() -> None:
    data = a_batch(100, [a_record(3), a_record(9)], last_offset_delta=11)
    (batch,) = read_batches(io.BytesIO(data))
    assert not isinstance(batch, Problem)
    assert [row[0] for row in batch.rows()] == [103, 109]
    assert batch.last_offset == 111


def test_an_empty_batch_is_no_problem() -> None:
    assert read(a_batch(5, [], last_offset_delta=4) + a_batch(10, [a_record(0)]))[1] == []


def test_with_a_delete_horizon_deltas_are_relative_to_it_and_may_be_negative() -> None:
    data = a_batch(0, [a_record(0, b"k", None, timestamp_delta=-86_400_000)], attributes=0x40,
                   base_timestamp=1_700_086_400_000)  # fmt: skip
    assert read(data)[0][0][1] == 1_700_000_000_000


def test_log_append_time_is_the_time_of_all_records() -> None:
    records = [a_record(0, timestamp_delta=5), a_record(1, timestamp_delta=50)]
    rows, _ = read(a_batch(0, records, attributes=0x08, max_timestamp=1_700_000_009_999))
    assert [row[1] for row in rows] == [1_700_000_009_999] * 2


def test_control_records_are_marked() -> None:
    commit = a_record(0, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 4))
    rows, _ = read(a_batch(0, [commit], attributes=0x30, producer_id=1, producer_epoch=0))
    assert rows[0][8:10] == (True, True)


def test_a_flipped_bit_costs_its_batch_and_no_other() -> None:
    first, second, third = (a_batch(n, [a_record(0, b"k" * 50)]) for n in range(3))
    broken = bytearray(second)
    broken[-10] ^= 1
    rows, problems = read(first + bytes(broken) + third)
    assert [row[0] for row in rows] == [0, 2]
    assert [(p.code, p.position) for p in problems] == [("unreadable", len(first))]
    assert "CRC" in problems[0].sentence


def test_a_file_cut_at_any_byte_gives_what_is_before_and_says_where() -> None:
    parts = [a_batch(n * 10, [a_record(0), a_record(1)], codec=codec) for n, codec in enumerate(CODECS)]
    ends = [sum(map(len, parts[: n + 1])) for n in range(len(parts))]
    whole = b"".join(parts)
    for cut in range(len(whole)):
        rows, problems = read(whole[:cut])
        whole_batches = sum(end <= cut for end in ends)
        assert len(rows) == 2 * whole_batches
        at = ends[whole_batches - 1] if whole_batches else 0
        is_all_zero = not any(whole[at:cut])  # nothing but the leading zeros of a base offset
        assert [p.position for p in problems] == ([] if is_all_zero else [at])


@pytest.mark.parametrize("length", [-1, 0, 48, MAX_BATCH_BYTES, 2**31 - 1])
def test_a_nonsense_length_ends_the_reading_and_allocates_nothing(length: int) -> None:
    good = a_batch(0, [a_record(0)])
    bad = bytearray(a_batch(1, [a_record(0)]))
    bad[8:12] = struct.pack(">i", length)
    rows, problems = read(good + bytes(bad) + good)
    assert len(rows) == 1
    assert [p.position for p in problems] == [len(good)]


@pytest.mark.parametrize("count", [2, -5, 2**31 - 1])
def test_a_batch_that_claims_more_records_than_it_has_is_refused(count: int) -> None:
    rows, problems = read(a_batch(0, [a_record(0)], record_count=count) + a_batch(1, [a_record(0)]))
    assert [row[0] for row in rows] == [1]
    assert [p.position for p in problems] == [0]


@pytest.mark.parametrize(
    "record",
    [
        b"\x02",  # shorter than it says
        b"\xfe\xff\xff\xff\x0f" + b"\0" * 20,  # two GiB long
        b"\xff" * 12,  # a varint that does not end
        b"\x0c\0\0\0\x03kv\0",  # key length -2
        b"\x0e\0\0\0\x02k\x7fv\0",  # value length -64
        b"\x10\0\0\0\x02k\x02v\x7e",  # 63 headers in no bytes
        b"\x12\0\0\0\x02k\x02v\x02\x02",  # a header cut off
        b"\x14\0\0\0\x02k\x02v\0\0\0",  # bytes left over
    ],
)
def test_a_malformed_record_is_a_problem_and_not_an_exception(record: bytes) -> None:
    rows, problems = read(a_batch(0, [record]) + a_batch(1, [a_record(0)]))
    assert [row[0] for row in rows] == [1]
    assert [p.position for p in problems] == [0]


@pytest.mark.parametrize(
    "batch",
    [
        a_batch(0, [a_record(0, timestamp_delta=1 << 62)]),
        a_batch(0, [a_record(0, timestamp_delta=-(1 << 64))]),
        a_batch(0, [a_record(0, timestamp_delta=90)], base_timestamp=(1 << 63) - 1),
        a_batch(0, [a_record(0), a_record(1 << 63), a_record(1)]),
        a_batch((1 << 63) - 1, [a_record(0), a_record(1)]),
        a_batch(-1, [a_record(0)]),
    ],
    ids=["time", "time below", "base time", "offset", "base offset", "base offset below"],
)
def test_numbers_that_no_column_holds_are_a_problem(batch: bytes) -> None:
    rows, problems = read(batch + a_batch(1, [a_record(0)]))
    assert [row[0] for row in rows] == [1]
    assert [p.position for p in problems] == [0]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_a_decompression_bomb_is_refused(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MAX_DECOMPRESSED_BYTES", 1 << 20)
    rows, problems = read(a_batch(0, [a_record(0, b"k", b"\0" * (2 << 20))], codec=codec))
    assert rows == []
    assert len(problems) == 1


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_packs_a_thousandfold_is_read(codec: str) -> None:
    rows, problems = read(a_batch(0, [a_record(0, b"k", b"\0" * (8 << 20))], codec=codec))
    assert problems == []
    assert len(rows[0][3] or b"") == 8 << 20


@pytest.mark.parametrize("codec", [1, 2, 3, 4, 5, 7])
def test_bytes_that_are_not_compressed_as_claimed_are_a_problem(codec: int) -> None:
    rows, problems = read(a_batch(0, [a_record(0)], attributes=codec))
    assert rows == []
    assert len(problems) == 1


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_refused_once_with_the_reason(magic: int) -> None:
    old = struct.pack(">qiIbb", 0, 22, 0, magic, 0) + b"\0" * 16
    rows, problems = read(old * 3 + a_batch(9, [a_record(0)]))
    assert [row[0] for row in rows] == [9]
    assert [p.position for p in problems] == [0]
    assert "0.11" in problems[0].sentence


def test_preallocated_space_is_the_end_and_no_problem() -> None:
    rows, problems = read(a_batch(0, [a_record(0)]) + b"\0" * 100_000)
    assert len(rows) == 1
    assert problems == []


def test_text_is_no_segment() -> None:
    rows, problems = read(b"[2024-05-01 12:00:00,123] INFO this is a log file (kafka.server.KafkaServer)\n" * 4)
    assert rows == []
    assert [p.position for p in problems] == [0]


def test_batches_across_the_edges_of_chunks_are_whole() -> None:
    data = b"".join(a_batch(n, [a_record(0, b"%d" % n, b"x" * 3000)]) for n in range(1000))
    assert len(data) > 2 * CHUNK_BYTES
    rows, problems = read(data)
    assert [row[2] for row in rows] == [b"%d" % n for n in range(1000)]
    assert problems == []


def test_a_packed_segment_is_read_and_a_broken_pack_gives_what_is_before(tmp_path: Path) -> None:
    data = b"".join(a_batch(n, [a_record(0, b"%d" % n, random.Random(n).randbytes(500))]) for n in range(2000))
    path = tmp_path / f"{0:020d}.log.gz"
    path.write_bytes(gzip.compress(data))
    assert sum(len(got) for got in read_segment(path) if isinstance(got, list)) == 2000
    path.write_bytes(gzip.compress(data)[:-40])
    items = list(read_segment(path))
    assert sum(isinstance(item, list) for item in items) > 1900
    assert [isinstance(item, Problem) for item in items].count(True) == 1
    assert isinstance(items[-1], Problem)
    assert "gzip" in items[-1].sentence


_optional_bytes = st.none() | st.binary(max_size=300)
_records = st.tuples(
    _optional_bytes, _optional_bytes, st.integers(-(2**40), 2**40),
    st.lists(st.tuples(st.text(max_size=5), _optional_bytes), max_size=3), st.integers(1, 2**20),
)  # fmt: skip


@settings(max_examples=150)
@given(
    st.lists(_records, min_size=1, max_size=30), st.sampled_from(sorted(CODECS)), st.integers(0, 2**62 - 1),
    st.integers(0, 2**41),
)  # fmt: skip
def test_what_is_written_is_read(records: list[tuple], codec: str, base: int, time_ms: int) -> None:  # type: ignore[type-arg]
    encoded, expected, delta = [], [], -1
    for key, value, time_delta, headers, step in records:
        delta += step
        encoded.append(a_record(delta, key, value, timestamp_delta=time_delta, headers=headers))
        expected.append((base + delta, time_ms + time_delta, key, value, tuple(headers) or None))
    rows, problems = read(a_batch(base, encoded, codec=codec, base_timestamp=time_ms, last_offset_delta=delta))
    assert problems == []
    assert [row[:5] for row in rows] == expected


@settings(max_examples=300)
@given(st.data())
def test_no_bytes_make_it_fail(data: st.DataObject) -> None:
    """A batch with sound frame and checksum around arbitrary content, and arbitrary damage to the file."""
    content = data.draw(st.binary(max_size=200))
    attributes = data.draw(st.integers(0, 7))
    count = data.draw(st.integers(-1, 40))
    whole = bytearray(a_batch(3, [content], attributes=attributes, record_count=count) * 2)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4)):
        whole[at] = byte
    read(bytes(whole))
