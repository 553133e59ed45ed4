"""Ours beside Kafka's: the same verdict, the same fields, the same bytes left over.

Kafka's classes accept two things that we refuse on purpose, each with its reason in README.md:

1. bytes after the end of a key or a value (Kafka ignores them; we need them to distinguish layouts);
2. text that is not UTF-8 (Kafka puts U+FFFD in its place; its brokers never write such text).

So each case is compared twice. `_as_kafka` reads it with our decoders on a reader that tolerates just these two, and
must agree with Kafka in everything, the number of bytes left included. `decode_record` itself must then accept exactly
the cases without either, with the same fields. Releases differ in which types, layouts and tagged fields they know;
ours is held to what each of them knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

from rebalance_audit.domain.records import OffsetCommitValue, decode_record
from rebalance_audit.domain.records.registry import RECORD_TYPES, Layout
from rebalance_audit.domain.wire import DecodeError, DecodeReason, Reader
from tests.differential.embedded import compare_embedded
from tests.differential.kafka_reader import NEWEST, REPLACED, KafkaReader, Release
from tests.differential.oracle import Answer, Case, Kind
from tests.differential.tally import Disagreement, Tally

_ZERO_UUID = "A" * 22


_MODERN = {4: "3.8", 5: "3.8", 7: "3.8", 8: "3.8", 11: "4.1", 15: "4.1"}
_SINCE_4_1 = frozenset(range(24)) - {9, 18}
RELEASES = {
    "4.3.0": Release((4, 3), _SINCE_4_1, _MODERN),
    "4.1.1": Release((4, 1), _SINCE_4_1, _MODERN),
    "3.9.1": Release((3, 9), frozenset(range(9)), _MODERN, False, range(5)),
}


@dataclass(frozen=True, slots=True)
class _Read:
    key: Any
    value: Any
    version: int | None
    key_left: int
    value_left: int
    replaced: bool


def compare(case: Case, answers: list[Answer], releases: tuple[str, ...], tally: Tally) -> None:
    tally.cases += 1
    if case.kind is not Kind.RECORD:
        compare_embedded(case, answers, releases, tally)
        return
    known = [each for each in zip(answers, releases, strict=True) if _is_known(case, RELEASES[each[1]])]
    for answer, name in known:
        _compare_record(case, answer, name, tally)
    if known:
        _compare_strict(case, *known[0], tally)


def _compare_record(case: Case, answer: Answer, name: str, tally: Tally) -> None:
    tally.comparisons += 1
    try:
        ours = _as_kafka(case, RELEASES[name])
    except DecodeError as refused:
        if isinstance(answer, str):
            tally.refused += 1
        else:
            tally.disagreements.append(Disagreement(case, name, "only Kafka reads it", answer, str(refused)))
        return
    if isinstance(answer, str):
        tally.disagreements.append(Disagreement(case, name, "only we read it", answer, str(ours)))
        return
    differs = _difference(ours, answer)
    if differs:
        tally.disagreements.append(Disagreement(case, name, differs, answer, str(ours)))
        return
    tally.accepted += 1
    if case.key is not None and ours.version is not None:
        tally.seen.add((name, int.from_bytes(case.key[:2], "big"), ours.version))


def _is_known(case: Case, release: Release) -> bool:
    if case.key is None or len(case.key) < 2:
        return True
    number = int.from_bytes(case.key[:2], "big", signed=True)
    if number not in RECORD_TYPES:
        return True  # nobody knows it: both refuse
    if number not in release.types:
        return False
    if case.value is None or len(case.value) < 2:
        return True
    version = int.from_bytes(case.value[:2], "big", signed=True)
    if version not in RECORD_TYPES[number].layouts:
        return release.checks_value_version
    return number != 0 or version in release.reads_legacy_commits_of


def _as_kafka(case: Case, release: Release) -> _Read:
    if case.key is None:
        raise DecodeError(DecodeReason.NULL_NOT_ALLOWED, 0, "", "key")
    keys = KafkaReader(case.key, part="key")
    number = keys.int16("type")
    record_type = RECORD_TYPES.get(number)
    if record_type is None:
        raise DecodeError(DecodeReason.UNKNOWN_RECORD_TYPE, 0, "type", "key")
    key = record_type.read_key(keys)
    if case.value is None:
        return _Read(key, None, None, keys.remaining, 0, keys.replaced)
    version = Reader(case.value).int16("version")
    layout = _layout(number, version, release)
    values = KafkaReader(case.value, 2, flexible=layout.flexible, release=release.number)
    value = layout.read(values)
    return _Read(key, value, version, keys.remaining, values.remaining, keys.replaced or values.replaced)


def _layout(number: int, version: int, release: Release) -> Layout:
    layouts = RECORD_TYPES[number].layouts.get(version)
    if layouts is None:
        raise DecodeError(DecodeReason.UNKNOWN_VALUE_VERSION, 0, "version")
    if len(layouts) == 1:
        return layouts[0]
    return next(each for each in layouts if each.since == release.layouts[number])


def _strict(case: Case, release: Release) -> Any:
    """decode_record's (key, value), or its DecodeError."""
    number = int.from_bytes((case.key or b"")[:2], "big", signed=True)
    try:
        record = decode_record(case.key, case.value, layout=release.layouts.get(number))
    except DecodeError as refused:
        return refused
    return record.key, record.value


def _compare_strict(case: Case, answer: Answer, name: str, tally: Tally) -> None:
    """decode_record reads what the tolerant reader reads, but for the two things we refuse."""

    def disagree(what: str) -> None:
        tally.disagreements.append(Disagreement(case, name, f"decode_record: {what}", answer, str(strict)))

    release = RELEASES[name]
    strict = _strict(case, release)
    try:
        ours = _as_kafka(case, replace(release, number=NEWEST))
    except DecodeError as refused:
        # The tolerant reader may come further before it refuses, never less far.
        if not isinstance(strict, DecodeError) or (strict.part == refused.part and strict.at > refused.at):
            disagree("refused later than by the tolerant reader, or not at all")
        return
    if not (ours.key_left or ours.value_left or ours.replaced):
        if strict != (ours.key, ours.value):
            disagree("other fields")
    elif not isinstance(strict, DecodeError):
        disagree("ought to be refused")
    elif strict.reason is DecodeReason.BAD_UTF8 and ours.replaced:
        tally.bad_utf8 += 1
    elif strict.reason is DecodeReason.TRAILING_BYTES and (ours.key_left or ours.value_left):
        tally.trailing += 1
        if (
            strict.at
            != (len(case.key or b"") - ours.key_left, len(case.value or b"") - ours.value_left)[not ours.key_left]
        ):
            disagree("another byte")
    else:
        disagree("refused for another reason")


# Fields

_FOR_NONE: Mapping[str, Any] = {
    "leader_epoch": -1,
    "expire_timestamp": -1,
    "topic_id": _ZERO_UUID,
    "current_state_timestamp": -1,
    "rebalance_timeout_ms": -1,
    "metadata_hash": 0,
    "assignment_timestamp": 0,
    "validated_topology_epoch": -1,
    "stored_description_topology_epoch": -1,
    "failed_description_topology_epoch": -1,
}
"""What Kafka has where we say None; any other field of ours that is None is null there too."""
_KAFKA_MAKES_UP: Mapping[str, Any] = {
    "assignment_epochs": [],
    "last_assignment_configs": [],
    "classic_member_metadata": {"sessionTimeoutMs": 0, "supportedProtocols": []},
}
"""A tagged field that is not there is None for us; Kafka's classes hold an empty list or struct in its place. Brokers
write a null out, so that None is also what a missing field is taken for."""
_FOR_NONE_ELSEWHERE = {slot: number for slot, number in _FOR_NONE.items() if slot != "topic_id"}
"""Only an offset commit may do without a topic id."""


@cache
def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@cache
def _slots(kind: type) -> frozenset[str]:
    return frozenset(each.name for each in fields(kind))


def _difference(ours: _Read, answer: dict[str, Any]) -> str | None:
    """Where the two differ; None where they do not."""
    if (ours.version, ours.key_left, ours.value_left) != (answer["version"], answer["keyLeft"], answer["valueLeft"]):
        return f"version or bytes left: {ours.version}, {ours.key_left}, {ours.value_left}"
    same = _same if not ours.replaced else _same_but_for_replacements
    if not same(ours.key, answer["key"]):
        return "key"
    return None if same(ours.value, answer["value"]) else "value"


def _same(ours: Any, kafka: Any) -> bool:
    if isinstance(kafka, dict):
        return _same_struct(ours, kafka)
    if isinstance(kafka, list):
        return len(ours) == len(kafka) and all(map(_same, ours, kafka))
    if isinstance(ours, bytes):
        return ours.hex() == kafka
    return bool(ours == kafka)


def _same_struct(ours: Any, kafka: dict[str, Any]) -> bool:
    left = set(_slots(type(ours)))  # type: ignore[arg-type]  # a class can be hashed
    for_none = _FOR_NONE if isinstance(ours, OffsetCommitValue) else _FOR_NONE_ELSEWHERE
    for name, value in kafka.items():
        if name == "~":
            continue
        slot = _snake_case(name)
        if slot not in left:
            return False
        left.discard(slot)
        mine = getattr(ours, slot)
        if slot == "rebalance_timeout" and value == -1:
            value = kafka["sessionTimeout"]  # as Kafka's coordinator itself does when it loads the group
        if mine is None:
            if value != for_none.get(slot) and value != _KAFKA_MAKES_UP.get(slot):
                return False
        elif slot in for_none and mine == for_none[slot]:
            return False  # None ought to stand there
        elif not _same(mine, value):
            return False
    tags = [(tag & 0xFFFFFFFF, data) for tag, data in kafka.get("~", ())]
    if [(tag, data.hex()) for tag, data in getattr(ours, "unknown_tags", ())] != tags:
        return False
    left.discard("unknown_tags")
    return all(getattr(ours, slot) in (None, ()) for slot in left)


def _same_but_for_replacements(ours: Any, kafka: Any) -> bool:
    """Java and Python put a different number of U+FFFD in the place of the same bytes."""
    if isinstance(kafka, dict):
        names = {name: _snake_case(name) for name in kafka if name != "~"}
        return all(
            getattr(ours, slot) is None or _same_but_for_replacements(getattr(ours, slot), kafka[name])
            for name, slot in names.items()
        )
    if isinstance(kafka, list):
        return len(ours) == len(kafka) and all(map(_same_but_for_replacements, ours, kafka))
    if isinstance(ours, str):
        return REPLACED.sub("\ufffd", ours) == REPLACED.sub("\ufffd", kafka)
    return _same(ours, kafka) or isinstance(ours, int)
