"""Endless cases for the differential test: what encoders write, records of real clusters, and damage to both.

A seed decides everything, so that a disagreement can be had again.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from ingest.batches import IS_CONTROL, KEY, VALUE
from ingest.segments import read_segment
from tests import encoders as enc
from tests.differential.oracle import Case, Kind

GOLDEN = Path(__file__).parents[1] / "golden"
DAMAGED_PER_WHOLE = 15
"""Cases made of one whole one by damaging it."""

_TEXTS = ("", "g", "orders", "/10.0.0.7", "é" * 64, "x" * 126, "y" * 127, "z" * 200, "\x00", "😀", "\ufffd", '"\\\n')
_NUMBERS = (-(2**63), -(2**31), -32768, -129, -128, -2, -1, 0, 1, 2, 127, 128, 255, 32767, 65535, 2**31 - 1, 2**63 - 1)
_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_BAD_TEXT = (
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\x80",
    b"\xc3(",
    b"\xed\xbf\xbf",
)
_LENGTHS = (
    b"\xff\xff",
    b"\xff\xfe",
    b"\x80\x00",
    b"\x7f\xff",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x80\x80\x80\x08",
    b"\x81\x80\x80\x80\x08",
    b"\xff\xff\xff\xff\x07",
    b"\xff\xff\xff\xff\x1f",
    b"\x80\x80\x80\x80\x80\x01",
    b"\x80\x80\x02",
    b"\x80\x00",
    b"\x00",
    b"\x01",
)


def batches(seed: int, count: int, batch_size: int = 2_000) -> Iterator[list[Case]]:
    """`count` cases, in batches."""
    random = Random(seed)
    makers: list[Callable[[Random], Case]] = [
        *(_record_maker(*which) for which in enc.VALUES),
        _tombstone,
        *[_subscription, _assignment, _worker_state, _connect_assignment, _sticky] * 2,
    ]
    captured = list(captured_cases())
    left, batch = count, list[Case]()
    while left > 0:
        if captured and random.random() < 0.1:
            whole, other = random.choice(captured), random.choice(captured)
        else:
            make = random.choice(makers)
            whole, other = make(random), make(random)
        for case in (whole, *(_damaged(random, whole, other) for _ in range(DAMAGED_PER_WHOLE))):
            batch.append(case)
            left -= 1
            if len(batch) == batch_size or left == 0:
                yield batch
                batch = []
            if left == 0:
                return


def captured_cases() -> Iterator[Case]:
    """Every record of the captured offsets topics, and what the members of its classic groups put in."""
    from rebalance_audit.domain.records import GroupMetadataValue, decode_record

    seen: set[Case] = set()
    for segment in sorted(GOLDEN.glob("*/*/data/*/__consumer_offsets-*/*.log*")):
        for batch in read_segment(segment):
            if not isinstance(batch, list):
                continue
            for row in batch:
                if row[IS_CONTROL]:
                    continue
                key, value = row[KEY], row[VALUE]
                found = [Case(Kind.RECORD, key, value)]
                record = None if key is None else decode_record(key, value).value
                if isinstance(record, GroupMetadataValue):
                    is_connect = record.protocol_type == "connect"
                    for member in record.members:
                        found.append(_member_case(is_connect, False, member.subscription))
                        if member.assignment:
                            found.append(_member_case(is_connect, True, member.assignment))
                for case in found:
                    if case not in seen:
                        seen.add(case)
                        yield case


def _member_case(is_connect: bool, is_assignment: bool, data: bytes) -> Case:
    if is_connect and data[:2] == b"\x00\x00":
        return Case(Kind.EAGER_ASSIGNMENT if is_assignment else Kind.EAGER_WORKER_STATE, None, data)
    if is_connect:
        return Case(Kind.COOPERATIVE_ASSIGNMENT if is_assignment else Kind.COOPERATIVE_WORKER_STATE, None, data)
    return Case(Kind.CONSUMER_ASSIGNMENT if is_assignment else Kind.CONSUMER_SUBSCRIPTION, None, data)


# Whole ones


def _number(random: Random, bits: int) -> int:
    number = random.choice(_NUMBERS) if random.random() < 0.5 else random.getrandbits(bits)
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _text(random: Random) -> str:
    return random.choice(_TEXTS) if random.random() < 0.7 else f"t{random.getrandbits(20)}"


def _of_kind(random: Random, kind: str, flexible: bool) -> Any:
    if kind.endswith("?"):
        return None if random.random() < 0.3 else _of_kind(random, kind[:-1], flexible)
    if kind.startswith("[]"):
        return [_of_kind(random, kind[2:], flexible) for _ in range(random.choice((0, 1, 1, 2, 3)))]
    if kind.startswith("@"):
        return _of_fields(random, enc.STRUCTS[kind[1:]], flexible)
    match kind:
        case "string":
            return _text(random)
        case "bytes":
            return random.randbytes(random.choice((0, 1, 5, 127, 128)))
        case "uuid":
            return urlsafe_b64encode(random.randbytes(16) if random.random() < 0.8 else bytes(16))[:22].decode()
        case "uint16":
            return random.getrandbits(16)
    return _number(random, _BITS[kind])


def _of_fields(random: Random, fields: enc.Fields, flexible: bool) -> dict[str, Any]:
    value = {}
    for name, kind in fields:
        if kind.startswith("tag "):
            if random.random() < 0.5:
                value[name] = _of_kind(random, kind.split(" ", 2)[2], flexible)
        else:
            value[name] = _of_kind(random, kind, flexible)
    if flexible and random.random() < 0.15:
        tags = random.sample((4, 5, 9, 127, 128, 70_000, 2**31 - 1), random.choice((1, 2)))
        value["unknown_tags"] = {tag: random.randbytes(random.choice((0, 1, 4, 16, 130))) for tag in tags}
    return value


def _record_maker(record_type: int, layout: str) -> Callable[[Random], Case]:
    version, fields = enc.VALUES[record_type, layout]
    flexible = record_type > 2 or version >= 4

    def make(random: Random) -> Case:
        value = enc.record_value(record_type, layout, _of_fields(random, fields, flexible))
        return Case(Kind.RECORD, _key(random, record_type), value)

    return make


def _key(random: Random, record_type: int) -> bytes:
    fields = enc.key_fields(record_type)
    return enc.record_key(record_type, *(_number(random, 32) if f == "partition" else _text(random) for f in fields))


def _tombstone(random: Random) -> Case:
    return Case(Kind.RECORD, _key(random, random.randrange(25)), None)


def _owned(random: Random) -> list[tuple[str, list[int]]]:
    return [
        (_text(random), [random.choice((-1, 0, 1, 2, 7, 2**31 - 1)) for _ in range(random.randrange(4))])
        for _ in range(random.randrange(4))
    ]


def _user_data(random: Random) -> bytes | None:
    return random.choice((None, b"", b"\x00\x00\x00\x05", random.randbytes(9)))


def _version(random: Random) -> int:
    return random.choice((0, 1, 1, 2, 2, 3, 3, 4, 9, 32767, -1, -32768))


def _subscription(random: Random) -> Case:
    version = _version(random)
    data = enc.consumer_subscription(
        [_text(random) for _ in range(random.randrange(4))],
        version=version,
        user_data=_user_data(random),
        owned=_owned(random),
        generation_id=random.choice((-2, -1, 0, 5, 2**31 - 1)),
        rack_id=random.choice((None, "", "rack-1")),
    )
    rest = random.randbytes(3) if version > 3 else b""
    return Case(Kind.CONSUMER_SUBSCRIPTION, None, data + rest)


def _assignment(random: Random) -> Case:
    data = enc.consumer_assignment(_owned(random), version=_version(random), user_data=_user_data(random))
    return Case(Kind.CONSUMER_ASSIGNMENT, None, data)


def _sticky(random: Random) -> Case:
    generation = random.choice((None, -1, 0, 7, 2**31 - 1))
    return Case(Kind.STICKY_USER_DATA, None, enc.sticky_user_data(dict(_owned(random)), generation))


def _connectors(random: Random) -> dict[str, list[int]] | None:
    return None if random.random() < 0.2 else dict(_owned(random))


def _connect_bytes(random: Random, version: int) -> bytes:
    given = _connectors(random)
    return enc.connect_assignment(
        given if version or given is not None else {},
        _connectors(random),
        version=version,
        error=random.choice((0, 1, 7)),
        leader=_text(random),
        leader_url=_text(random),
        config_offset=_number(random, 64),
        delay_ms=_number(random, 32),
    )


def _connect_version(random: Random) -> int:
    return random.choice((0, 0, 1, 1, 2, 2, 2, 3, 32767, -1))


def _connect_assignment(random: Random) -> Case:
    version = _connect_version(random)
    kind = Kind.COOPERATIVE_ASSIGNMENT if version else Kind.EAGER_ASSIGNMENT
    return Case(kind, None, _connect_bytes(random, version))


def _worker_state(random: Random) -> Case:
    version = _connect_version(random)
    allocation = None if random.random() < 0.3 else _connect_bytes(random, random.choice((1, 1, 2, 2, 3)))
    data = enc.connect_worker_state(_text(random), _number(random, 64), allocation, version=version)
    return Case(Kind.COOPERATIVE_WORKER_STATE if version else Kind.EAGER_WORKER_STATE, None, data)


# Damage


def _damaged(random: Random, whole: Case, other: Case) -> Case:
    kind, key, value = whole
    if kind is Kind.RECORD and key is not None and random.random() < 0.12:
        match random.randrange(4):
            case 0:
                return Case(kind, damage(random, key, other.key or b""), value)
            case 1:  # a record of another type with this value
                return Case(kind, struct.pack(">h", random.randrange(-1, 26)) + key[2:], value)
            case 2:
                return Case(kind, key, None if random.random() < 0.5 else b"")
            case _:
                return Case(kind, key, other.value)
    if value is None:
        return Case(kind, None if key is None else damage(random, key, other.key or b""), None)
    if kind is Kind.RECORD and value and random.random() < 0.1:
        return Case(kind, key, struct.pack(">h", random.choice((0, 1, 2, 3, 4, 5, -1, 9, 256))) + value[2:])
    damaged = damage(random, value, other.value or b"")
    while random.random() < 0.25:
        damaged = damage(random, damaged, other.value or b"")
    return Case(_kind_by_header(kind, damaged), key, damaged)


_CONNECT = {
    Kind.EAGER_WORKER_STATE: (Kind.EAGER_WORKER_STATE, Kind.COOPERATIVE_WORKER_STATE),
    Kind.EAGER_ASSIGNMENT: (Kind.EAGER_ASSIGNMENT, Kind.COOPERATIVE_ASSIGNMENT),
    Kind.COOPERATIVE_WORKER_STATE: (Kind.EAGER_WORKER_STATE, Kind.COOPERATIVE_WORKER_STATE),
    Kind.COOPERATIVE_ASSIGNMENT: (Kind.EAGER_ASSIGNMENT, Kind.COOPERATIVE_ASSIGNMENT),
}


def _kind_by_header(kind: Kind, data: bytes) -> Kind:
    """Kafka asks the class of the group's protocol, we go by the header: asked as the two go together."""
    if kind not in _CONNECT:
        return kind
    return _CONNECT[kind][not data.startswith(b"\x00\x00")]


def damage(random: Random, content: bytes, other: bytes) -> bytes:
    size = len(content)
    at = random.randrange(size + 1)
    data = bytearray(content)
    match random.randrange(10):
        case 0 | 1 if size:
            data[at % size] ^= 1 << random.randrange(8)
        case 2:
            del data[at:]
        case 3:
            data += random.randbytes(random.choice((1, 2, 5)))
        case 4 if size:
            data[at % size] = random.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        case 5:
            del data[at : at + random.choice((1, 1, 2, 4, 8))]
        case 6:
            length = random.choice(_LENGTHS)
            end = at if random.random() < 0.5 else at + len(length)
            data[at:end] = length
        case 7:
            data = data[:at] + other[random.randrange(len(other) + 1) :]
        case 8:
            bad = random.choice(_BAD_TEXT)
            data[at : at + len(bad)] = bad
        case _:
            _retag(random, data)
    return bytes(data)


def _retag(random: Random, data: bytearray) -> None:
    """Other tagged fields at the end: doubled, in any order, with sizes that lie."""
    if data and data[-1] == 0:
        del data[-1]
    count = random.choice((1, 1, 2, 3))
    data += enc.uvarint(count)
    for _ in range(count):
        content = random.randbytes(random.choice((0, 1, 4, 8, 16)))
        size = len(content) + random.choice((0, 0, 0, 0, 1, -1))
        data += enc.uvarint(random.choice((0, 0, 1, 2, 3, 7, 300))) + enc.uvarint(max(size, 0)) + content
