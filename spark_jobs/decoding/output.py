"""The rows of the tables that `decode` writes, and those that only the driver reads."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rebalance_audit.domain.gather.groups import Undecoded
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from spark_jobs.commits.partial_marks import PARTIAL_MARK
from spark_jobs.task_files import TaskWriter, files_by_table, rows_for_driver

COUNTS = ("in_count", "event_count", "commit_count", "undecoded_count", "skipped_count")
_COUNT = pa.schema(
    [
        *((n, pa.string()) for n in ("cluster_id", "source_kind", "kind")),
        *((n, pa.int64()) for n in COUNTS),
    ]
)
LOG_FILE_END = pa.schema(
    [*((n, pa.string()) for n in ("cluster_id", "node", "file_id")), ("byte", pa.int64()), ("torn", pa.int64())]
)
"""How a log file was left: its last line that was parsed, and the torn one whose end has not come."""
_OF_DRIVER = {"count": _COUNT, "mark": PARTIAL_MARK, "end": LOG_FILE_END}


class DecodedFiles:
    """The output of the stage's tasks: rows of tables, and rows that only the driver reads."""

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = defaultdict(list)

    def add(self, written: pa.Table) -> None:
        for name, files in files_by_table(written).items():
            self.files[name] += files

    def rows(self, name: str) -> pa.Table:
        return rows_for_driver(self.files[name], _OF_DRIVER[name])


class DecodedRows(TaskWriter):
    """Rows of the tables that the stage writes, and its counts, as one task writes them."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, _OF_DRIVER)

    def rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            type_ = pa.struct(list(_OF_DRIVER.get(name) or arrow_schema(name)))
            self.add(name, pa.RecordBatch.from_struct_array(pa.array(rows, type_)))


class DecodeCounts:
    """Rows in and rows out by cluster, source kind and kind."""

    def __init__(self, source_kind: str) -> None:
        self.source_kind = source_kind
        self.counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def add(self, cluster_id: str, kind: str, what: str, count: int = 1) -> None:
        self.counts[cluster_id, kind][what] += count

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"cluster_id": cluster_id, "source_kind": self.source_kind, "kind": kind}
            | {name: counter[name] for name in COUNTS}
            for (cluster_id, kind), counter in sorted(self.counts.items())
        ]


def undecoded_row(cluster_id: str, refused: Undecoded) -> dict[str, Any]:
    return {"cluster_id": cluster_id} | {name: getattr(refused, name) for name in refused.__slots__}
