"""What members put into classic groups, ours beside Kafka's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rebalance_audit.domain.protocols import connect_protocol, consumer_protocol, sticky_user_data
from rebalance_audit.domain.wire import DecodeError, DecodeReason, Reader
from tests.differential.kafka_reader import REPLACED, KafkaReader
from tests.differential.oracle import Answer, Case, Kind
from tests.differential.tally import Disagreement, Tally

_Shown = tuple[list[Any], int | None]
"""The fields in the order of Oracle.java, and the bytes left over; None where we do not keep them."""


def compare_embedded(case: Case, answers: list[Answer], releases: tuple[str, ...], tally: Tally) -> None:
    assert case.value is not None
    try:
        ours: Any = _READ[case.kind](case.value)
    except DecodeError as refused:
        ours = refused
    for answer, name in zip(answers, releases, strict=True):
        tally.comparisons += 1
        if isinstance(ours, DecodeError):
            _compare_embedded_refusal(case, answer, name, ours, tally)
        elif isinstance(answer, str):
            tally.disagreements.append(Disagreement(case, name, "only we read it", answer, str(ours)))
        elif ours != (_as_we_say_it(case.kind, answer["read"]), answer["left"] if ours[1] is not None else None):
            tally.disagreements.append(Disagreement(case, name, "fields", answer, str(ours)))
        else:
            tally.accepted += 1


def _compare_embedded_refusal(case: Case, answer: Answer, name: str, ours: DecodeError, tally: Tally) -> None:
    if isinstance(answer, str):
        tally.refused += 1
    elif ours.reason is DecodeReason.BAD_UTF8 and _reads_alike_with_replacements(case, answer):
        tally.bad_utf8 += 1
    elif case.kind is Kind.STICKY_USER_DATA and answer["read"] in ([[], -1], [[], None]):
        tally.refused += 1  # Kafka's assignor goes on as if the member had had nothing
    else:
        tally.disagreements.append(Disagreement(case, name, "only Kafka reads it", answer, str(ours)))


def _reads_alike_with_replacements(case: Case, answer: dict[str, Any]) -> bool:
    assert case.value is not None
    modules: list[Any] = [consumer_protocol, connect_protocol, sticky_user_data]
    for module in modules:
        module.Reader = KafkaReader
    try:
        read, left = _READ[case.kind](case.value)
    except DecodeError:
        # For sticky user data Kafka knows no refusal.
        return case.kind is Kind.STICKY_USER_DATA and answer["read"] in ([[], -1], [[], None])
    finally:
        for module in modules:
            module.Reader = Reader
    theirs = _as_we_say_it(case.kind, _collapsed(answer["read"]))
    return _as_we_say_it(case.kind, _collapsed(read)) == theirs and left in (None, answer["left"])


def _collapsed(read: Any) -> Any:
    if isinstance(read, list | tuple):
        return [_collapsed(each) for each in read]
    return REPLACED.sub("\ufffd", read) if isinstance(read, str) else read


_PARTITION_LISTS = {Kind.CONSUMER_SUBSCRIPTION: 2, Kind.CONSUMER_ASSIGNMENT: 0, Kind.STICKY_USER_DATA: 0}
_EMPTY_ALLOCATION: list[Any] = [0, None, None, -1, [], [], 1, [], [], 0]


def _as_we_say_it(kind: Kind, read: list[Any]) -> list[Any]:
    """A partition is named once, however often a list does; a sticky generation of -1 and no allocation are None."""
    at = _PARTITION_LISTS.get(kind)
    if at is not None:
        read[at] = [list(pair) for pair in dict.fromkeys(map(tuple, read[at]))]
    if kind is Kind.STICKY_USER_DATA and read[1] == -1:
        read[1] = None
    if kind is Kind.COOPERATIVE_WORKER_STATE and read[2] == _EMPTY_ALLOCATION:
        read[2] = None
    return read


def _hex(content: bytes | None) -> str | None:
    return None if content is None else content.hex()


def _subscription(data: bytes) -> _Shown:
    read = consumer_protocol.decode_subscription(data)
    owned = [list(pair) for pair in read.owned_partitions]
    return [list(read.topics), _hex(read.user_data), owned, read.generation_id, read.rack_id], len(read.rest)


def _assignment(data: bytes) -> _Shown:
    read = consumer_protocol.decode_assignment(data)
    return [[list(pair) for pair in read.partitions], _hex(read.user_data)], len(read.rest)


def _worker_state(data: bytes) -> _Shown:
    read = connect_protocol.decode_worker_state(data)
    shown = [read.url, read.config_offset]
    if read.version:
        shown.append(None if read.allocation is None else _connect_fields(read.allocation, True))
    return shown, len(read.rest)


def _connect_assignment(data: bytes) -> _Shown:
    read = connect_protocol.decode_assignment(data)
    return _connect_fields(read, read.version > 0), len(read.rest)


def _connect_fields(read: connect_protocol.ConnectAssignment, is_cooperative: bool) -> list[Any]:
    shown = [read.error, read.leader, read.leader_url, read.config_offset, *_split(read.assigned)]
    return [*shown, read.version, *_split(read.revoked), read.delay_ms] if is_cooperative else shown


def _split(given: tuple[connect_protocol.ConnectorTask, ...]) -> tuple[list[str], list[list[Any]]]:
    connectors = [each.connector for each in given if each.task is None]
    return connectors, [[each.connector, each.task] for each in given if each.task is not None]


def _sticky(data: bytes) -> _Shown:
    read = sticky_user_data.decode_sticky(data)
    return [[list(pair) for pair in read.previous_assignment], read.generation], None


_READ: Mapping[Kind, Callable[[bytes], _Shown]] = {
    Kind.CONSUMER_SUBSCRIPTION: _subscription,
    Kind.CONSUMER_ASSIGNMENT: _assignment,
    Kind.EAGER_WORKER_STATE: _worker_state,
    Kind.EAGER_ASSIGNMENT: _connect_assignment,
    Kind.COOPERATIVE_WORKER_STATE: _worker_state,
    Kind.COOPERATIVE_ASSIGNMENT: _connect_assignment,
    Kind.STICKY_USER_DATA: _sticky,
}
