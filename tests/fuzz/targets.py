"""Everything that reads bytes or lines somebody else wrote: what each may do with any input is read it or refuse it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from rebalance_audit.domain import connect_topics
from rebalance_audit.domain.decode import OFFSETS_TOPIC, decode_source, detail, source_kind
from rebalance_audit.domain.gather.groups import line_row
from rebalance_audit.domain.log_lines import (
    classify_fence,
    classify_leave,
    classify_reason,
    parse_controller_line,
    parse_line,
    parse_lines,
    read_head,
    split_reason,
    starts_event,
)
from rebalance_audit.domain.model import SourceLine, SourceRecord
from rebalance_audit.domain.protocols import (
    connect_protocol,
    consumer_protocol,
    schema_registry,
    sticky_user_data,
    streams_protocol,
)
from rebalance_audit.domain.reassign.lines import LogLines
from rebalance_audit.domain.wire import DecodeError
from tests.fuzz.batch_targets import commit_rows, log_file, record_batch, segment
from tests.fuzz.metadata_targets import metadata_log, metadata_record
from tests.fuzz.split import split

Target = Callable[[bytes], None]


def _refusable(decode: Callable[[bytes], object]) -> Target:
    def run(data: bytes) -> None:
        try:
            decode(data)
        except DecodeError as refused:
            if not 0 <= refused.at <= len(data):
                raise AssertionError(f"refused at byte {refused.at} of {len(data)}") from refused

    return run


def _source(topic: str, data: bytes) -> None:
    key, value = split(data)
    record = SourceRecord(cluster_id="lab", topic=topic, partition=0, offset=0, timestamp_ms=0, key=key, value=value)
    source_kind(record)
    try:
        decoded = decode_source(record)
    except DecodeError as refused:
        if not 0 <= refused.at <= len(data):
            raise AssertionError(f"refused at byte {refused.at} of {len(data)}") from refused
        return
    detail(decoded)


def _group_record(data: bytes) -> None:
    _source(OFFSETS_TOPIC, data)


def _connect_record(data: bytes) -> None:
    _source("connect-configs", data)


def _redact(data: bytes) -> None:
    key, value = split(data)
    connect_topics.internal_topic_kind([key or b""])
    connect_topics.redact_config(key, value)


def source_line(text: str, node: str = "broker-1", file_name: str = "server.log") -> SourceLine:
    return SourceLine(cluster_id="lab", node=node, file_name=file_name, file_id="f", byte=0, text=text)


def _line(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    starts_event(text)
    read_head(text)
    source = source_line(text)
    if (event := parse_line(source)) is not None:
        _assert_storable(line_row(source, event), [event.local_at_ms, event.at_ms, *event.fields.values()])
    parse_controller_line(source)
    for line in LogLines().read([source]).lines:
        _assert_storable(dict(line.fields), [line.at_ms, line.event.logged_by, line.event.partition])


def _assert_storable(row: object, numbers: Iterable[object]) -> None:
    """In UTF-8 and in columns of 64 bits."""
    json.dumps(row, ensure_ascii=False, default=list).encode("utf-8")
    if any(not -(1 << 63) <= number < 1 << 63 for number in numbers if isinstance(number, int)):
        raise AssertionError(f"numbers that no column holds: {row}")


def _lines(data: bytes) -> None:
    texts = data.decode("utf-8", "replace").split("\n")
    for _ in parse_lines(source_line(text) for text in texts):
        pass


def _reason(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for read in (classify_reason, classify_leave, classify_fence, split_reason):
        read(text)


TARGETS: Mapping[str, Target] = {
    "group_record": _group_record,
    "connect_record": _connect_record,
    "redact_config": _redact,
    "consumer_subscription": _refusable(consumer_protocol.decode_subscription),
    "consumer_assignment": _refusable(consumer_protocol.decode_assignment),
    "connect_worker_state": _refusable(connect_protocol.decode_worker_state),
    "connect_assignment": _refusable(connect_protocol.decode_assignment),
    "sticky_user_data": _refusable(sticky_user_data.decode_sticky),
    "cooperative_sticky_user_data": _refusable(sticky_user_data.decode_cooperative_sticky),
    "streams_subscription_info": _refusable(streams_protocol.decode_subscription_info),
    "streams_assignment_info": _refusable(streams_protocol.decode_assignment_info),
    "schema_registry_identity": _refusable(schema_registry.decode_identity),
    "schema_registry_assignment": _refusable(schema_registry.decode_assignment),
    "metadata_record": metadata_record,
    "metadata_log": metadata_log,
    "segment": segment,
    "record_batch": record_batch,
    "commit_rows": commit_rows,
    "log_file": log_file,
    "log_line": _line,
    "log_lines": _lines,
    "reason": _reason,
}
