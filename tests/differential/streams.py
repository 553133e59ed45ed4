"""User data of Kafka Streams' assignor: our decoders beside Kafka's SubscriptionInfo and AssignmentInfo.

Kafka keeps maps and sets where we keep what was written in its order: they are compared as maps and sets.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from rebalance_audit.domain.protocols.streams_protocol import (
    LATEST_VERSION,
    NO_NEXT_REBALANCE,
    AssignmentInfo,
    HostPartitions,
    SubscriptionInfo,
    TaskId,
    decode_assignment_info,
    decode_subscription_info,
)
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests import encoders as enc
from tests.differential.cases import damage
from tests.differential.oracle import Answer, Case, Kind
from tests.differential.tally import Disagreement, Tally

DAMAGED_PER_WHOLE = 9
WRITTEN = Path(__file__).parents[1] / "domain" / "protocols" / "kafka_written" / "streams.json"
_KINDS = {"subscription": Kind.STREAMS_SUBSCRIPTION, "assignment": Kind.STREAMS_ASSIGNMENT}
_INTS = (0, 1, 2, 7, -1, -2, -3, 2**31 - 1, -(2**31))
_BELIEVED = 10_000
_TEXTS = ("", "t", "orders", "é", "x" * 130)


def written_cases() -> Iterator[Case]:
    """What Kafka's classes wrote of every version."""
    for name, content in json.loads(WRITTEN.read_text()).items():
        yield Case(_KINDS[name.partition("-")[0]], None, bytes.fromhex(content))


def batches(seed: int, count: int, batch_size: int = 2_000) -> Iterator[list[Case]]:
    random = Random(seed)
    written = list(written_cases())
    batch: list[Case] = []
    while count > 0:
        kind = random.choice((Kind.STREAMS_SUBSCRIPTION, Kind.STREAMS_ASSIGNMENT))
        make = _subscription if kind is Kind.STREAMS_SUBSCRIPTION else _assignment
        kafkas = [case.value or b"" for case in written if case.kind is kind]
        whole, other = (random.choice(kafkas) if random.random() < 0.1 else make(random) for _ in range(2))
        for data in (whole, *(damage(random, whole, other) for _ in range(DAMAGED_PER_WHOLE))):
            if not _claims_too_much(kind, data):
                batch.append(Case(kind, None, data))
        if len(batch) >= min(batch_size, count):
            count -= len(batch)
            yield batch
            batch = []


def _claims_too_much(kind: Kind, data: bytes) -> bool:
    """A count far beyond the bytes left: AssignmentInfo allocates for it, and its JVM is at its end."""
    try:
        if kind is Kind.STREAMS_ASSIGNMENT:
            decode_assignment_info(data)
    except DecodeError as refused:
        is_count = refused.reason is DecodeReason.SHORT_BUFFER and refused.at >= 4
        return is_count and int.from_bytes(data[refused.at - 4 : refused.at], "big") > _BELIEVED
    return False


def compare(case: Case, answers: list[Answer], releases: tuple[str, ...], tally: Tally) -> None:
    tally.cases += 1
    data = case.value or b""
    ours: SubscriptionInfo | AssignmentInfo | DecodeError
    is_subscription = case.kind is Kind.STREAMS_SUBSCRIPTION
    try:
        ours = decode_subscription_info(data) if is_subscription else decode_assignment_info(data)
    except DecodeError as refused:
        ours = refused
    for answer, release in zip(answers, releases, strict=True):
        tally.comparisons += 1
        if isinstance(ours, DecodeError):
            what = _refused(data, ours, answer, tally)
        elif isinstance(answer, str):
            what = "only we read it"
        else:
            shown = _subscription_shown(ours) if isinstance(ours, SubscriptionInfo) else _assignment_shown(ours)
            read = _subscription_as_read(answer["read"][0]) if is_subscription else _assignment_as_read(answer["read"])
            what = None if shown == read else "fields"
            if what is None:
                tally.accepted += 1
                version = ours.version if isinstance(ours, SubscriptionInfo) else ours.used_version
                tally.seen.add((release, int(case.kind), min(version, LATEST_VERSION + 1)))
        if what is not None:
            tally.disagreements.append(Disagreement(case, release, what, answer, str(ours)))


def _refused(data: bytes, ours: DecodeError, answer: Answer, tally: Tally) -> str | None:
    if isinstance(answer, str):
        tally.refused += 1
    elif ours.reason is DecodeReason.TRAILING_BYTES and answer["left"] == len(data) - ours.at:
        tally.trailing += 1
    elif ours.reason is DecodeReason.BAD_UTF8:
        tally.bad_utf8 += 1
    elif ours.reason is DecodeReason.BAD_VALUE and ours.field.endswith(".topic"):
        tally.refused += 1  # of a topic that its dictionary lacks Kafka makes a partition without a topic
    else:
        return "only Kafka reads it"
    return None


def _subscription_shown(read: SubscriptionInfo) -> Any:
    if read.version > LATEST_VERSION:
        return read.version, read.latest_supported_version
    tasks = [_task(each) for each in read.prev_active_tasks], [_task(each) for each in read.prev_standby_tasks]
    sums = sorted((*_task(each.task), each.offset_sum) for each in read.task_offset_sums)
    return (
        read.version, read.latest_supported_version, UUID(read.process_id or "").bytes,
        tasks if read.version < 7 else None, sums, (read.user_end_point or "").encode(),
        read.unique_field, read.error_code, [(key.encode(), value.encode()) for key, value in read.client_tags],
    )  # fmt: skip


def _subscription_as_read(read: dict[str, Any]) -> Any:
    version = read["version"]
    if version > LATEST_VERSION:
        return version, read["latestSupportedVersion"]
    tasks = tuple([(each["topicGroupId"], each["partition"], "") for each in read[name]]
                  for name in ("prevTasks", "standbyTasks"))  # fmt: skip
    sums = [
        (each["topicGroupId"], part["partition"], each.get("namedTopology") or "", part["offsetSum"])
        for each in read["taskOffsetSums"]
        for part in (each["partitionToOffsetSum"] if version < 10 else (each,))
    ]
    return (
        version, read["latestSupportedVersion"] if version >= 3 else None,
        base64.urlsafe_b64decode(read["processId"] + "=="), tasks if version < 7 else None, sorted(sums),
        bytes.fromhex(read["userEndPoint"]), read["uniqueField"] if version >= 8 else None, read["errorCode"],
        [(bytes.fromhex(each["key"]), bytes.fromhex(each["value"])) for each in read["clientTags"]],
    )  # fmt: skip


def _task(task: TaskId) -> tuple[int, int, str]:
    return task.subtopology, task.partition, task.named_topology or ""


def _assignment_shown(read: AssignmentInfo) -> Any:
    def by_host(hosts: tuple[HostPartitions, ...]) -> Any:
        return {(each.host, each.port): frozenset(each.partitions) for each in hosts}

    return (
        read.used_version, read.commonly_supported_version, [_task(each) for each in read.active_tasks],
        {_task(each.task): frozenset(each.partitions) for each in read.standby_tasks},
        by_host(read.partitions_by_host), by_host(read.standby_partitions_by_host), read.error_code,
        read.next_rebalance_at_ms,
    )  # fmt: skip


def _assignment_as_read(read: list[Any]) -> Any:
    version, commonly, active, standby, by_host, standby_by_host, error, next_ms = read

    def task_of(task: list[Any]) -> tuple[int, int, str]:
        return task[0], task[1], task[2] or ""

    def mapped(pairs: list[Any]) -> dict[Any, Any]:
        return {tuple(place): frozenset(map(tuple, partitions)) for place, partitions in pairs}

    return (
        version, commonly if version >= 3 else None, [task_of(each) for each in active],
        {task_of(task): frozenset(map(tuple, partitions)) for task, partitions in standby}, mapped(by_host),
        mapped(standby_by_host), error, None if next_ms == NO_NEXT_REBALANCE else next_ms,
    )  # fmt: skip


# Written from the format's description (docs/record_types.md#user-data-of-streams), not from the decoder.


def _number(random: Random) -> bytes:
    return enc.int32(random.choice(_INTS))


def _listed(random: Random, *parts: Any, count: int | None = None) -> bytes:
    """An int32 count, and as many elements, each made of all parts."""
    count = random.randrange(4) if count is None else count
    return enc.int32(count) + b"".join(part(random) for _ in range(count) for part in parts)


def _bytes(random: Random) -> bytes:
    content = random.choice(_TEXTS).encode()
    return enc.int32(len(content)) + content


def _text_or_null(random: Random) -> bytes:
    return enc.int16(-1) if random.random() < 0.3 else enc.string(random.choice(_TEXTS))


def _long(random: Random) -> bytes:
    return enc.int64(random.choice((*_INTS, 2**63 - 1)))


def _subscription(random: Random) -> bytes:
    version = random.randrange(1, 12)
    data = (
        enc.int32(version) + (enc.int32(version + random.randrange(3)) if version >= 3 else b"") + random.randbytes(16)
    )
    if version <= 6:
        data += _listed(random, _number, _number) + _listed(random, _number, _number)
    if version >= 2:
        data += _bytes(random)
    if 7 <= version <= 9:
        data += _listed(random, _number, lambda inner: _listed(inner, _number, _long))
    if version >= 10:
        data += _listed(random, _number, _number, _long, _text_or_null)
    if version >= 8:
        data += enc.int8(random.randrange(-128, 128))
    if version >= 9:
        data += _number(random)
    return data + (_listed(random, _bytes, _bytes) if version >= 11 else b"")


def _utf(random: Random) -> bytes:
    content = random.choice(("", "t", "orders", "é", "x" * 130)).encode()
    return len(content).to_bytes(2, "big") + content


def _assignment(random: Random) -> bytes:
    version = random.randrange(1, 12)

    def named(inner: Random) -> bytes:
        text = inner.choice(("", "", "named", "é"))
        return enc.int32(len(text)) + text.encode("utf-16-be") if version >= 10 else b""

    def partitions(inner: Random) -> bytes:
        return _listed(inner, _utf, _number)

    def indexed(inner: Random) -> bytes:
        return _listed(inner, lambda each: enc.int32(each.randrange(3)), _number)

    data = enc.int32(version) + (enc.int32(random.randrange(1, 14)) if version >= 3 else b"")
    data += _listed(random, _number, _number, named) + _listed(random, _number, _number, named, partitions)
    if 2 <= version <= 4:
        data += _listed(random, _utf, _number, partitions)
    if version >= 5:
        data += enc.int32(3) + b"".join(enc.int32(index) + _utf(random) for index in range(3))
        data += _listed(random, _utf, _number, indexed)
    if version >= 6:
        data += _listed(random, _utf, _number, indexed)
    return data + (_number(random) if version >= 4 else b"") + (_long(random) if version >= 7 else b"")
