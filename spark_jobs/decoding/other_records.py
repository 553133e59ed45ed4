"""Tasks that decode all records but offset commits, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from rebalance_audit.domain.decode import decode_source, source_kind
from rebalance_audit.domain.frozen import positional_maker
from rebalance_audit.domain.gather.groups import record_row, undecoded
from rebalance_audit.domain.metadata import is_metadata_topic
from rebalance_audit.domain.model import ConnectRecord, GroupRecord, SourceRecord
from rebalance_audit.domain.wire import DecodeError
from spark_jobs import record_files
from spark_jobs.decoding.output import DecodeCounts, DecodedRows, undecoded_row
from spark_jobs.engine import ArrowTask

_RECORD = tuple(name for name in record_files.COLUMNS if name != "copy")
_make_record = positional_maker(SourceRecord, _RECORD)


def _records_in(batch: pa.RecordBatch) -> Iterator[tuple[SourceRecord, int]]:
    """Each record and which copy it is. A function of its own, so that a worker finds it by name. As part of a task's
    code it would be sent as a copy, with a class of its own."""
    columns = dict(zip(batch.schema.names, map(_decoded, batch.columns), strict=True))
    flags = {name: columns[name].fill_null(False) for name in ("is_control", "is_transactional")}
    lists = [(columns | flags)[name].to_pylist() for name in _RECORD]
    return zip(map(_make_record, *lists), columns["copy"].to_pylist(), strict=True)


def _decoded(column: pa.Array) -> pa.Array:
    """Without a dictionary, from which each value would be looked up in Python."""
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


def decode_records(folder: str) -> ArrowTask:
    def decode(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = DecodedRows(folder)
        for batch in (batch for some in named for batch in record_files.others_in(some)):
            counts = DecodeCounts("record")
            events: list[dict[str, Any]] = []
            refusals: list[dict[str, Any]] = []
            for source, copy in _records_in(batch):
                if is_metadata_topic(source.topic):  # read as a whole by the stage reassign
                    counts.add(source.cluster_id, "metadata", "in_count")
                    counts.add(source.cluster_id, "metadata", "skipped_count")
                    continue
                kind = source_kind(source)
                counts.add(source.cluster_id, kind, "in_count")
                if copy:
                    counts.add(source.cluster_id, kind, "skipped_count")
                    continue
                try:
                    decoded = decode_source(source)
                except DecodeError as error:
                    refusals.append(undecoded_row(source.cluster_id, undecoded(source, error)))
                    counts.add(source.cluster_id, kind, "undecoded_count")
                    continue
                if isinstance(decoded, GroupRecord | ConnectRecord):
                    events.append(record_row(source, decoded))
                    counts.add(source.cluster_id, kind, "event_count")
                else:
                    counts.add(source.cluster_id, kind, "skipped_count")
            out.rows("silver.group_event", events)
            out.rows("silver.undecoded", refusals)
            out.rows("count", counts.rows())
        yield from out.written()

    return decode
