"""The form of a landing file, the same from the collector, an import, and Spark's tasks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_audit.warehouse.storage import Files

_ENCODINGS: dict[str, dict[str, Any]] = {
    "record": {
        # What rises by little is written as differences, what repeats once: a third of the size, two thirds of the
        # time.
        "column_encoding": dict.fromkeys(("offset", "timestamp_ms", "batch_base_offset"), "DELTA_BINARY_PACKED"),
        "use_dictionary": [
            "cluster_id", "topic", "partition", "copy", "key", "leader_epoch", "producer_id", "producer_epoch",
            "source", "node", "landing", "batch_crc",
        ],
        "write_statistics": ["cluster_id", "topic", "partition", "offset", "timestamp_ms"],  # nobody asks of the others
        "store_schema": False,
    }
}  # fmt: skip


def write_landing_file(files: Files, noun: str, landing_id: str, data: pa.Table) -> None:
    """Rows of bronze as `landing/<noun>/<id>.parquet`: there whole or not at all. The same name replaces."""
    sink = pa.BufferOutputStream()
    pq.write_table(data, sink, compression="zstd", **_ENCODINGS.get(noun, {}))
    files.write(f"landing/{noun}/{landing_id}.parquet", sink.getvalue())
