"""Hypothesis strategies for the values that tests/encoders can write, and what they ought to decode to."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from tests import encoders as enc

# Lengths on both sides of 127, where a compact length takes a second byte.
TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["", "é" * 64, "x" * 126, "x" * 127, "y" * 200, "\x00", "😀"]))
BYTES = st.one_of(st.binary(max_size=6), st.sampled_from([b"", bytes(127), bytes(300)]))
ODD_INSTANTS = st.sampled_from([-1, 0, 1, 999, 1_600_000_000_123, 1_795_276_800_001, 2**63 - 1, -(2**63)])
_INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
UNKNOWN_TAGS = st.dictionaries(st.sampled_from([9, 127, 128, 70_000]), BYTES, max_size=2)


def of_kind(kind: str, flexible: bool) -> st.SearchStrategy[Any]:
    if kind.endswith("?"):
        return st.one_of(st.none(), of_kind(kind[:-1], flexible))
    if kind.startswith("[]"):
        return st.lists(of_kind(kind[2:], flexible), max_size=3)
    if kind.startswith("@"):
        return of_fields(enc.STRUCTS[kind[1:]], flexible)
    match kind:
        case "string":
            return TEXTS
        case "bytes":
            return BYTES
        case "uuid":
            return st.binary(min_size=16, max_size=16).map(_kafka_uuid)
        case "uint16":
            return st.integers(0, 65535)
        case "int64":
            return st.one_of(ODD_INSTANTS, st.integers(-(2**63), 2**63 - 1))
    bits = _INTEGERS[kind]
    return st.one_of(st.sampled_from([-1, 0, 1]), st.integers(-(2**bits), 2**bits - 1))


def _kafka_uuid(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode()[:22]


def of_fields(fields: enc.Fields, flexible: bool) -> st.SearchStrategy[dict[str, Any]]:
    always = {name: of_kind(kind, flexible) for name, kind in fields if not kind.startswith("tag ")}
    tagged = {name: of_kind(kind.split(" ", 2)[2], flexible) for name, kind in fields if kind.startswith("tag ")}
    if flexible:
        tagged["unknown_tags"] = UNKNOWN_TAGS
    return st.fixed_dictionaries(always, optional=tagged)


def of_layout(record_type: int, layout: str) -> st.SearchStrategy[dict[str, Any]]:
    version, fields = enc.VALUES[record_type, layout]
    return of_fields(fields, flexible=record_type > 2 or version >= 4)


def snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


_NONE_FOR_MINUS_ONE = {
    "LeaderEpoch",
    "ExpireTimestamp",
    "CurrentStateTimestamp",
    "RebalanceTimeoutMs",
    "ValidatedTopologyEpoch",
    "StoredDescriptionTopologyEpoch",
    "FailedDescriptionTopologyEpoch",
}
_NONE_FOR_ZERO = {"MetadataHash", "AssignmentTimestamp"}
_ZERO_UUID = "A" * 22


def _is_written_for_unknown(name: str, value: Any, record_type: int) -> bool:
    if name == "TopicId":
        return record_type in (0, 1) and value == _ZERO_UUID
    return (name in _NONE_FOR_MINUS_ONE and value == -1) or (name in _NONE_FOR_ZERO and value == 0)


def assert_says(decoded: Any, written: Mapping[str, Any], record_type: int) -> None:
    """The decoded object has what was written, by the upstream names in snake_case, and nothing else."""
    meant = dict(written)
    if "RebalanceTimeout" in meant and meant["RebalanceTimeout"] == -1:
        meant["RebalanceTimeout"] = meant["SessionTimeout"]
    if "SessionTimeout" in meant:
        meant.setdefault("RebalanceTimeout", meant["SessionTimeout"])
    seen = set()
    for name, value in meant.items():
        field = snake_case(name)
        if record_type == 8 and field == "topic_partitions":
            field = "assigned_partitions"
        seen.add(field)
        actual = getattr(decoded, field)
        if name == "unknown_tags":
            assert actual == tuple(sorted(value.items()))
        elif _is_written_for_unknown(name, value, record_type):
            assert actual is None
        elif isinstance(value, Mapping):
            assert_says(actual, value, record_type)
        elif isinstance(value, list):
            assert isinstance(actual, tuple)
            assert len(actual) == len(value)
            for one, meant_one in zip(actual, value, strict=True):
                if isinstance(meant_one, Mapping):
                    assert_says(one, meant_one, record_type)
                else:
                    assert one == meant_one
        else:
            assert actual == value, name
    for field in set(decoded.__slots__) - seen:
        assert getattr(decoded, field) in (None, ()), field
