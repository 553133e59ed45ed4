"""One rule per message form: a template, the kind of event it is, and how its fields become values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from rebalance_audit.domain.frozen import maker, quick
from rebalance_audit.domain.log_lines.forms_by_word import FormsByWord
from rebalance_audit.domain.log_lines.numbers import java_int
from rebalance_audit.domain.log_lines.reasons import (
    ends_in_uuid,
    is_known_reason,
    option,
    split_member_ids,
    split_reason,
    tidy_client_reason,
)
from rebalance_audit.domain.log_lines.templates import Template, template
from rebalance_audit.domain.model import LogKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LineForm:
    template: Template
    kind: LogKind
    constants: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the form itself shows."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One way to understand a message."""

    rule: LineForm
    fields: Mapping[str, str | None]


_make_reading = maker(Reading)
Rules: TypeAlias = FormsByWord[LineForm]


def rules(forms: Iterable[tuple[LogKind, str] | tuple[LogKind, str, Mapping[str, Any]]]) -> Rules:
    return FormsByWord((first_word(form[1]), partial(_compiled, *form)) for form in forms)


def _compiled(kind: LogKind, text: str, constants: Mapping[str, Any] | None = None) -> LineForm:
    return LineForm(template=template(text), kind=kind, constants=constants or {})


def read_all(candidates: Iterable[LineForm], message: str) -> list[Reading]:
    """Every way to understand the message."""
    found: list[Reading] = []
    for rule in candidates:
        if rule.template.needle in message:
            found += [_make_reading(rule=rule, fields=fields) for fields in rule.template.readings(message)]
    return found


def begins_like_one(candidates: Iterable[LineForm], message: str) -> bool:
    """Whether the message has the beginning of a known form that goes on in free text."""
    return any(rule.template.free and rule.template.first.match(message) for rule in candidates)


def best(readings: list[Reading], offsets_partition: int | None) -> Reading:
    """The most plausible of several readings.

    The partition of the offsets topic that a coordinator's line names is that of the group's hash (true for the
    default of 50 partitions, else it decides nothing); member ids are or end in a UUID; reasons are Kafka's.
    What is left goes to the longest group id: the tail of a form is anchored, a group id is free. Of equals the form
    that stands first in its table, so special forms stand before general ones.
    """
    if len(readings) == 1:
        return readings[0]
    return max(readings, key=lambda reading: _plausibility(reading, offsets_partition))


def _plausibility(reading: Reading, offsets_partition: int | None) -> tuple[bool, bool, int, int]:
    group_id = reading.fields.get("group_id") or ""
    reason = reading.fields.get("reason")
    named = reading.fields.get("offsets_partition")
    partition = int(named.rsplit("-", 1)[-1]) if named else offsets_partition
    is_short = len(group_id) <= _MAX_HASHED
    return (
        partition is not None and is_short and default_offsets_partition(group_id) == partition,
        reason is None or is_known_reason(reason),
        sum(1 for name in _MEMBER_IDS if _is_member_id(reading.fields.get(name) or "")),
        len(group_id),
    )


def _is_member_id(text: str) -> bool:
    return ends_in_uuid(text) or _KAFKA_UUID.fullmatch(text) is not None


def default_offsets_partition(group_id: str) -> int:
    """The partition of __consumer_offsets that holds the group when the topic has its default of 50.

    Java's String.hashCode over UTF-16 units, sign bit cleared.
    """
    units = group_id.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % 50


def first_word(message: str) -> str:
    """The key of forms: the text up to the first blank or equals sign."""
    word = message[:80].split(" ", 1)[0]
    return word.split("=", 1)[0]


_MAX_HASHED = 4096
_KAFKA_UUID = re.compile(r"[\w-]{22}", re.ASCII)
"""Member ids as clients of the newer protocols make them."""
_MEMBER_IDS = ("member_id", "new_member_id", "expected_member_id")


def values(reading: Reading) -> dict[str, Any]:
    """The reading's fields as values: numbers where the template says so. Those that were not written are left out."""
    found: dict[str, Any] = {}
    numbers = dict(reading.rule.template.numbers)
    for name, text in reading.fields.items():
        if text is None or name == "group_id":
            continue
        convert = _CONVERT.get(name) or (int if name in numbers else None)
        found[name] = text if convert is None else convert(text)
    if "reason" in found and reading.rule.kind is LogKind.PREPARING:
        found["reason"], found["client_reason"] = split_reason(found["reason"])
    if reading.rule.kind is LogKind.MEMBER_FENCED and "reason" in found:
        found["reason"] = found["reason"].rstrip(".")  # up to 4.1 the reason brings a full stop of its own
    if reading.rule.kind is LogKind.EMPTY_ASSIGNMENT and "member_id" in found:
        found["member_ids"] = (found.pop("member_id"),)
    found.update(reading.rule.constants)
    return found


def _partition(text: str) -> int:
    """The partition in `__consumer_offsets-3` or plain `3`."""
    return int(text.rsplit("-", 1)[-1])


def _epoch(text: str) -> int | None:
    """The epoch in `5` or `OptionalInt[5]`; None for `OptionalInt.empty`."""
    return java_int(text.removeprefix("OptionalInt[").rstrip(".]"))


def _listed(text: str) -> tuple[str, ...]:
    """Connect's names: anything but control characters, so only the exact separator splits."""
    return tuple(text.split(", ")) if text else ()


def _names(text: str) -> tuple[str, ...]:
    """The names of `[a, b]`, `List(a, b)`, `Set(a, b)`, `a, b`: names without commas."""
    text = re.sub(r"\A(?:\w+\(|\[)", "", text.strip()).removesuffix(")").removesuffix("]")
    return tuple(name for name in (part.strip() for part in text.split(",")) if name)


def _error(text: str) -> int | str:
    number = java_int(text)
    return text if number is None else number


_CONVERT: dict[str, Callable[[str], Any]] = {
    "group_instance_id": option,
    "client_reason": tidy_client_reason,
    "member_ids": split_member_ids,
    "offsets_partition": _partition,
    "epoch": _epoch,
    "supported_assignors": _names,
    "error": _error,
    "partitions": _names,
    "assigned": _names,
    "owned": _names,
    "added": _names,
    "revoked": _names,
    "connectors": _listed,
    "tasks": _listed,
    "revoked_connectors": _listed,
    "revoked_tasks": _listed,
    "from_type": str.lower,
    "to_type": str.lower,
}
