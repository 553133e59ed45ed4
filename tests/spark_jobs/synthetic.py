"""Small evidence made by hand: records and log events as landing rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.encoders import (
    classic_member,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)
from tests.spark_jobs.arrivals import deliver

Row = dict[str, Any]
BASE_MS = 1_795_000_000_000


def a_record(offset: int, key: bytes | None, value: bytes | None, **others: Any) -> Row:
    return {
        "cluster_id": "c", "topic": "__consumer_offsets", "partition": 7, "offset": offset, "copy": 0,
        "timestamp_ms": BASE_MS + offset, "key": key, "value": value, "source": "segment", "node": "broker-1",
        "is_control": False, "is_transactional": False, "landing": "l",
    } | others  # fmt: skip


def a_commit(offset: int, group: str = "orders", topic: str = "t", partition: int = 0, **others: Any) -> Row:
    value = others.pop("value", offset_commit_value(offset, at_ms=BASE_MS + offset))
    return a_record(offset, offset_commit_key(group, topic, partition), value, **others)


def a_generation(offset: int, generation: int, group: str = "orders", **others: Any) -> Row:
    value = group_metadata_value(generation, [classic_member("m1")], protocol="range", leader="m1")
    return a_record(offset, group_metadata_key(group), value, **others)


def a_marker(offset: int, *, commits: bool, producer_id: int = 9) -> Row:
    key = b"\x00\x00" + (b"\x00\x01" if commits else b"\x00\x00")
    return a_record(
        offset, key, b"\x00\x00\x00\x00\x00\x00", is_control=True, is_transactional=True, producer_id=producer_id
    )


def a_line(byte: int, text: str, **others: Any) -> Row:
    return {
        "cluster_id": "c", "node": "broker-1", "file_name": "server.log", "file_id": "f1", "byte": byte, "text": text,
        "landing": "l",
    } | others  # fmt: skip


def land(warehouse: Warehouse, name: str, records: Iterable[Row] = (), lines: Iterable[Row] = ()) -> None:
    """One landing file of records and one of lines; their rows say so."""
    tables: Mapping[str, pa.Table] = {
        "record": rows_to_table("bronze.record", [row | {"landing": name} for row in records]),
        "log_line": rows_to_table("bronze.log_line", [row | {"landing": name} for row in lines]),
    }
    deliver(warehouse, name, tables)
