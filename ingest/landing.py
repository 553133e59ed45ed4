"""Landing files: immutable Parquet, there whole or not at all. The only writer of `landing/` and `positions/`.

Order is the promise: a landing file is durable before the position after it is remembered. A crash between the two
repeats evidence, which collapses downstream, and never loses any.
"""

from __future__ import annotations

import json
import os
import urllib.parse
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from ingest.errors import Misconfigured, retryable
from ingest.readings import AnyRun, LogText, SourceReading
from ingest.sharing import Share
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.landing_files import write_landing_file
from rebalance_audit.warehouse.storage import files_at

_RECORD = arrow_schema(tables.BRONZE_RECORD)
_LOG_LINE = arrow_schema(tables.BRONZE_LOG_LINE)
_SOURCE = arrow_schema(tables.BRONZE_SOURCE)


class Landing:
    """The landing folders of one warehouse: a folder, or an object-store URL."""

    def __init__(self, warehouse: str | os.PathLike[str]) -> None:
        self._files = files_at(os.fspath(warehouse))

    def write_records(self, landing_id: str, cluster_id: str, runs: Iterable[AnyRun]) -> int:
        """Land records as one file, sorted by topic, partition and offset. Returns how many; without records no file is
        made."""
        parts = [_record_table(cluster_id, landing_id, run) for run in runs]
        if not parts:
            return 0
        data = pa.concat_tables(parts).unify_dictionaries()
        if not _is_sorted(parts):  # dictionaries have no order in Arrow
            topics = data["topic"].cast(_RECORD.field("topic").type)
            data = data.set_column(data.schema.get_field_index("topic"), "topic", topics).sort_by(
                [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
            )
        self._write("record", landing_id, data)
        return int(data.num_rows)

    def write_log_lines(self, landing_id: str, cluster_id: str, lines: Sequence[LogText]) -> int:
        if not lines:
            return 0
        columns: dict[str, Any] = {
            "cluster_id": [cluster_id] * len(lines),
            "node": [line.node for line in lines],
            "file_name": [line.file_name for line in lines],
            "file_id": [line.file_id for line in lines],
            "byte": [line.byte for line in lines],
            "text": [line.text for line in lines],
            "landing": [landing_id] * len(lines),
        }
        self._write("log_line", landing_id, pa.table(columns, schema=_LOG_LINE))
        return len(lines)

    def write_sources(
        self,
        landing_id: str,
        cluster_id: str,
        read_id: str,
        readings: Iterable[SourceReading],
        *,
        kafka_version: str | None = None,
        log_time_zone: str | None = None,
    ) -> int:
        """Land readings of sources. A problem is a row of its own under `<read_id>#<n>`: one row, one fact."""
        rows: list[dict[str, Any]] = []
        for reading in readings:
            known = {
                "cluster_id": cluster_id, "source": reading.source, "kind": reading.kind, "landing": landing_id,
                "log_time_zone": log_time_zone, "kafka_version": kafka_version,
            }  # fmt: skip
            seen = {
                name: getattr(reading, name)
                for name in ("from_position", "to_position", "from_at_ms", "to_at_ms", "item_count", "let_go_count")
            }
            if reading.from_position is not None or not len(reading.problems):
                rows.append({**known, **seen, "read_id": read_id})
            for n, problem in enumerate(reading.problems, 1):
                read = {
                    "problem": problem.sentence, "problem_code": problem.code, "problem_position": problem.position
                }  # fmt: skip
                rows.append({**known, **read, "read_id": f"{read_id}#{n}", "item_count": 0})
        if rows:
            self._write("source", landing_id, pa.Table.from_pylist(rows, schema=_SOURCE))
        return len(rows)

    def read_positions(self, name: str) -> dict[str, Any]:
        with retryable():
            text = self._files.read(f"positions/{name}.json")
        if text is None:
            return {}
        try:
            positions: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise Misconfigured(
                f"{self._files.uri}/positions/{name}.json is not readable ({error}); delete it to read everything once "
                "more."
            ) from error
        return positions

    def write_positions(self, name: str, positions: Mapping[str, Any]) -> None:
        """Remember positions. Call only after everything before them has been written."""
        with retryable():
            self._files.write(f"positions/{name}.json", json.dumps(positions, indent=1, sort_keys=True).encode())

    def forget_positions(self, cluster_id: str) -> None:
        """What was read of a cluster, so that all of it can be read anew. Those of the logs of a cluster whose name
        goes on behind a hyphen may go, too: those logs are read once more, and repeats collapse."""
        own = {positions_name(what, cluster_id) for what in ("import", "live", "metadata", "shared")}
        shared = positions_name("logs", f"{cluster_id}-")
        for name in self._files.names("positions"):
            stem = name.rpartition("/")[2].removesuffix(".json")
            if stem in own or stem.startswith(shared):
                self._files.delete(f"positions/{stem}.json")

    def share(
        self, cluster_id: str, name: str, places: Iterable[str], first_positions: Mapping[str, int], dead_after_s: float
    ) -> Share:
        """This collector's share of the cluster's partitions, for one of several collectors."""
        document = positions_name("shared", cluster_id)
        return Share(self._files, document, name, places, first_positions, dead_after_s=dead_after_s)

    def _write(self, noun: str, landing_id: str, data: pa.Table) -> None:
        with retryable():
            write_landing_file(self._files, noun, landing_id, data)


def new_read_id(what: str) -> str:
    """A name for one import or collector run; sorts by time."""
    return f"{what}-{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"


def positions_name(what: str, cluster_id: str) -> str:
    """The name of one cluster's positions: two clusters in one warehouse do not share what was read."""
    return f"{what}-{urllib.parse.quote(cluster_id, safe='')}"


def _record_table(cluster_id: str, landing_id: str, run: AnyRun) -> pa.Table:
    columns = run.columns
    count = len(columns["offset"])
    texts = {"cluster_id": cluster_id, "topic": run.topic, "source": run.source, "landing": landing_id}
    if run.node is not None:
        texts["node"] = run.node
    numbers = {"copy": 0} if run.partition is None else {"partition": run.partition, "copy": 0}
    codes = pa.repeat(pa.scalar(0, pa.int8()), count)
    arrays = []
    for column in _RECORD:
        if column.name in texts:  # as a dictionary, which is how Parquet writes it, and not 400,000 times
            arrays.append(pa.DictionaryArray.from_arrays(codes, pa.array([texts[column.name]], column.type)))
        elif column.name in numbers:
            arrays.append(pa.repeat(pa.scalar(numbers[column.name], column.type), count))
        elif column.name not in columns:
            arrays.append(pa.nulls(count, column.type))
        elif isinstance(given := columns[column.name], pa.ChunkedArray):
            arrays.append(given)
        else:
            arrays.append(record_column(column.name, given))
    return pa.Table.from_arrays(arrays, names=_RECORD.names)


def record_column(name: str, values: Sequence[Any]) -> pa.Array:
    type_ = _RECORD.field(name).type
    if name != "headers":
        return pa.array(values, type_)
    if not any(values):
        return pa.nulls(len(values), type_)
    return pa.array([h and [{"key": key, "value": value} for key, value in h] for h in values], type_)


def _is_sorted(parts: Sequence[pa.Table]) -> bool:
    last: tuple[str, int, int] = ("", -1, -1)
    for part in parts:
        partitions, offsets = part["partition"].to_numpy(), part["offset"].to_numpy()
        first = (part["topic"][0].as_py(), int(partitions[0]), int(offsets[0]))
        goes_back = (offsets[1:] < offsets[:-1]) & (partitions[1:] == partitions[:-1])
        if first < last or goes_back.any() or (partitions[1:] < partitions[:-1]).any():
            return False
        last = (first[0], int(partitions[-1]), int(offsets[-1]))
    return True
