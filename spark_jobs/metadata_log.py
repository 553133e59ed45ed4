"""The metadata log as bronze has it, and what logs say beside it, by cluster. Read on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rebalance_audit.domain.clocks import NodeClock
from rebalance_audit.domain.metadata import (
    METADATA_TOPIC,
    TOPIC_FRAME,
    SourceMetadata,
    in_log_order,
    is_metadata_topic,
    metadata_of_bronze,
    named_topic,
)
from rebalance_audit.domain.model import SourceLine
from rebalance_audit.domain.reassign.lines import LINE_SIGNS, Line, LogLines, settled
from rebalance_audit.warehouse import Warehouse

OF_METADATA = f"copy = 0 AND starts_with(topic, '{METADATA_TOPIC}')"
OF_CONTROLLERS = "(" + " OR ".join(f"contains(text, '{sign}')" for sign in LINE_SIGNS) + ")"
_COLUMNS = ["cluster_id", "topic", "offset", "timestamp_ms", "key", "value", "node", "leader_epoch", "is_control"]


def metadata_of(warehouse: Warehouse, cluster_id: str, version: int) -> list[SourceMetadata]:
    """The log of one cluster in its order, snapshots where they stand in it."""
    return in_log_order(_sources(warehouse, f"{OF_METADATA} AND cluster_id = ?", [cluster_id], version))


def logged_topic_names(warehouse: Warehouse) -> Iterator[tuple[str, str, str]]:
    """(cluster id, topic id, topic), of topics that were deleted too."""
    names_topic = f"hex(value[1:{len(TOPIC_FRAME)}]) = '{TOPIC_FRAME.hex().upper()}'"
    for source in _sources(warehouse, f"{OF_METADATA} AND {names_topic}", [], None):
        if (named := named_topic(source)) is not None:
            yield source.cluster_id, *named


def controller_lines(
    warehouse: Warehouse, cluster_id: str, clocks: Mapping[str, NodeClock], version: int
) -> list[Line]:
    """What brokers and controllers logged about partitions, by time."""
    columns = ["cluster_id", "node", "file_name", "file_id", "byte", "text"]
    rows = warehouse.read("bronze.log_line", columns, f"{OF_CONTROLLERS} AND cluster_id = ?", [cluster_id], version)
    in_files = rows.sort_by([("node", "ascending"), ("file_id", "ascending"), ("byte", "ascending")])
    sources = (SourceLine(**row) for batch in in_files.to_batches(10_000) for row in batch.to_pylist())
    return settled(LogLines().read(sources).lines, clocks)


def _sources(warehouse: Warehouse, where: str, params: list[str], version: int | None) -> Iterator[SourceMetadata]:
    rows = warehouse.read("bronze.record", _COLUMNS, where, params, version)
    for batch in rows.to_batches(10_000):
        for row in batch.to_pylist():
            if is_metadata_topic(row["topic"]):  # a user's topic may begin like it
                yield metadata_of_bronze(**row)
