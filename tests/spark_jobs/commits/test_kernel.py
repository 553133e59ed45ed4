"""The kernel reads every row as the domain does, whatever is in it."""

from __future__ import annotations

import struct
from random import Random

import pyarrow as pa
import pytest

from spark_jobs.commits import kernel
from spark_jobs.commits.keys import COMMIT
from tests import encoders as enc
from tests.differential.cases import batches
from tests.differential.oracle import Case, Kind
from tests.spark_jobs.kernel_rows import Pair, assert_as_the_domain_reads, by_domain, decoded, rows

TOPIC_ID = "3fkd8mT0QJ-wE1lVt5v_Zw"
AT_MS = 1_795_276_800_123


def a_commit(n: int = 0, **value: object) -> Pair:
    return enc.offset_commit_key(f"group-{n % 3}", "orders", n % 4), enc.offset_commit_value(n, AT_MS + n, **value)  # type: ignore[arg-type]


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("metadata", ["", "m", "x" * 126, "x" * 127, "y" * 300, "é" * 20])
def test_commits_of_one_shape_are_read_as_one_block(version: int, metadata: str) -> None:
    pairs = [a_commit(n, version=version, metadata=metadata, leader_epoch=n % 5 - 1) for n in range(60)]
    assert_as_the_domain_reads(pairs)
    commits = decoded(pairs)
    assert commits.offset.tolist() == list(range(60))
    assert (commits.verdict == COMMIT).all()


def test_a_topic_id_is_read_and_all_zero_is_none() -> None:
    pairs = [a_commit(n, version=4, topic_id=TOPIC_ID if n % 2 else "A" * 22) for n in range(60)]
    assert_as_the_domain_reads(pairs)
    ids = decoded(pairs).topic_ids().to_pylist()
    assert ids[:2] == [None, enc.uuid(TOPIC_ID)]


@pytest.mark.parametrize(
    "tags",
    [
        b"\x01\x05\x03new",
        b"\x02\x00\x10" + bytes(range(16)) + b"\x05\x00",
        b"\x02\x05\x00\x00\x10" + bytes(range(16)),
        b"\x02\x00\x10" + bytes(16) + b"\x00\x10" + bytes(range(16)),
        b"\x01\x00\x03" + bytes(range(16)),
        b"\x01\x00\x10" + bytes(15),
        b"\x01\x05\x04new",
        b"\x01\x05\x02new",
        b"\x02\x05\x03new",
        b"\x01\x80\x01\x00",
        b"\x80\x00",
        b"\xff\xff\xff\xff\x0f",
        b"\x09" + b"\x05\x00" * 9,
        b"",
        b"\x00\x00",
    ],
)
def test_tagged_fields_are_read_as_the_domain_reads_them(tags: bytes) -> None:
    key, value = a_commit(version=4, metadata="m")
    assert value is not None
    assert_as_the_domain_reads([(key, value[:-1] + tags)] * 50)


def test_a_length_in_more_bytes_than_it_needs_is_not_taken_for_another() -> None:
    key, value = a_commit(version=4)
    assert value is not None
    assert_as_the_domain_reads([(key, value[:14] + b"\x81\x00" + value[15:]), (key, value)] * 50)


def test_what_is_not_a_commit_is_distinguished() -> None:
    pairs: list[Pair] = [
        (None, b"x"),
        (b"", None),
        (enc.group_metadata_key("g"), enc.group_metadata_value(1)),
        (enc.record_key(3, "g"), b""),
        (enc.int16(99), b""),
        (a_commit()[0], None),
        (a_commit()[0], b""),
        (enc.record_key(0, "g", "t", -5), a_commit()[1]),
        (enc.offset_commit_key("é", "t", 2**31 - 1), a_commit()[1]),
        (enc.offset_commit_key("g", "t", 1)[:-1], a_commit()[1]),
        (enc.offset_commit_key("g", "t", 1) + b"x", a_commit()[1]),
        (enc.int16(1) + b"\x00\x01\xff\x00\x01t" + enc.int32(1), a_commit()[1]),
        (enc.int16(1) + b"\xff\xff\x00\x01t" + enc.int32(1), a_commit()[1]),
    ]
    assert_as_the_domain_reads(pairs * 40)


def test_every_proper_prefix_and_every_changed_byte_is_read_as_the_domain_reads_it() -> None:
    pairs: list[Pair] = []
    for version in range(5):
        key, value = a_commit(7, version=version, metadata="meta", topic_id=TOPIC_ID if version == 4 else None)
        assert key is not None
        assert value is not None
        for at in range(len(value)):
            changed = bytes(byte ^ 0x81 if n == at else byte for n, byte in enumerate(value))
            pairs += [(key, value[:at]), (key, changed)]
        pairs += [(key[:at], value) for at in range(len(key))]
    assert_as_the_domain_reads(pairs * 30)


def test_a_slice_of_a_column_is_read_like_the_whole() -> None:
    pairs = [a_commit(n) if n % 7 else (a_commit(n)[0], None) for n in range(100)]
    keys, values = (pa.array(column, pa.binary()) for column in zip(*pairs, strict=True))
    part = kernel.decode_commits(keys.slice(33, 40), values.slice(33, 40))
    assert rows(part) == [by_domain(*pair) for pair in pairs[33:73]]
    large = kernel.decode_commits(keys.cast(pa.large_binary()).dictionary_encode(), values.cast(pa.large_binary()))
    assert rows(large) == [by_domain(*pair) for pair in pairs]


def test_no_rows_are_no_commits() -> None:
    empty = kernel.decode_commits(pa.array([], pa.binary()), pa.array([], pa.binary()))
    assert (len(empty.verdict), len(empty.keys.group)) == (0, 0)
    nothing = decoded([(None, None)])
    assert rows(nothing) == [by_domain(None, None)]


@pytest.mark.parametrize("seed", range(4))
def test_damaged_records_of_all_types_are_read_as_the_domain_reads_them(seed: int) -> None:
    cases: list[Case] = [case for batch in batches(seed, 6_000) for case in batch if case.kind is Kind.RECORD]
    assert_as_the_domain_reads([(case.key, case.value) for case in cases])


@pytest.mark.parametrize("seed", range(4))
def test_many_copies_of_damaged_commits_go_through_the_blocks(seed: int) -> None:
    random = Random(seed)
    pairs: list[Pair] = []
    for _ in range(60):
        version = random.randrange(5)
        key, value = a_commit(random.randrange(9), version=version, metadata="m" * random.randrange(3))
        assert value is not None
        damaged = bytearray(value)
        for _ in range(random.randrange(3)):
            damaged[random.randrange(len(damaged))] = random.choice((0, 1, 2, 4, 0x7F, 0x80, 0xFF))
        for n in range(30):
            varied = bytearray(damaged)
            varied[2:10] = struct.pack(">q", n - 1)
            pairs.append((key, bytes(varied)))
    random.shuffle(pairs)
    assert_as_the_domain_reads(pairs)


def test_of_chosen_rows_only_their_own_keys_are_parsed() -> None:
    pairs: list[Pair] = [
        *(a_commit(n) for n in range(60)),
        (b"\xff\xff", b""),
        (None, b""),
        (b"\x00\x02\x00\x01g", b""),
    ]
    keys, values = (pa.array(column, pa.binary()) for column in zip(*pairs, strict=True))
    whole = pa.record_batch({"key": keys.dictionary_encode(), "value": values})
    for chosen in ([5, 3, 41], [60, 7], [61, 62], []):
        some = whole.take(pa.array(chosen, pa.int64()))
        commits = kernel.decode_commits(some["key"], some["value"])
        assert rows(commits) == [by_domain(*pairs[at]) for at in chosen]
        assert len(commits.keys.verdict) == len({pairs[at][0] for at in chosen})
