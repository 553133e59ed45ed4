"""Tasks that parse log lines, and how each log file was left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import pyarrow as pa

from rebalance_audit.domain.frozen import positional_maker
from rebalance_audit.domain.gather.groups import line_row
from rebalance_audit.domain.log_lines import Torn, parse_lines
from rebalance_audit.domain.model import SourceLine
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.decoding.output import LOG_FILE_END, DecodeCounts, DecodedRows
from spark_jobs.engine import ArrowTask
from spark_jobs.group_rows import literal

_LINES = "bronze.log_line"
TORN_CONTEXT_BYTES = 2 * 131_072
"""How many bytes before a file's new lines the parser looks for a line that a client's text tore
(log_lines.parse_lines)."""
_LINES_AT_ONCE = 5_000
_LOG_FILE = pa.schema(
    [(n, pa.string()) for n in ("cluster_id", "node", "file_id")]
    + [("from_byte", pa.int64()), ("held_in", pa.list_(pa.string()))]
)
_LINE = ("cluster_id", "node", "file_id", "byte", "file_name", "text")
_Line: TypeAlias = tuple[Any, ...]
"""A value for each of _LINE, and whether the line is new."""
_file_of = itemgetter(0, 1, 2)
_make_line = positional_maker(SourceLine, _LINE)

LogFile = tuple[str, str, str]
"""Cluster, node and file."""
Ends = dict[LogFile, tuple[int, int | None]]
"""The byte of the last line that was parsed, and that of the torn one whose end has not come."""
_ENDS: WeakKeyDictionary[Warehouse, tuple[int, Ends]] = WeakKeyDictionary()
"""How log files were left, and at which version of bronze.log_line: nobody need read lines again to know whether new
ones stand behind a torn one. Those with lines that came last are last."""
_ENDS_AT_MOST = 10_000
NOTE = "log-file-ends"
"""The note with the same, of the last files: most others were rotated and get no more lines."""
_NOTED_AT_MOST = 500
_FORM = 1


def ends_before(warehouse: Warehouse, version: int) -> Ends:
    """The end of each log file as it was left at this version of bronze.log_line; empty where that is not known."""
    known_version, ends = _ENDS.get(warehouse) or _noted(warehouse)
    return ends if known_version == version and len(ends) < _ENDS_AT_MOST else {}


def keep_ends(warehouse: Warehouse, version: int, before: Ends, rows: pa.Table) -> None:
    """`rows`: the new ends, as LOG_FILE_END has them."""
    new = {(row["cluster_id"], row["node"], row["file_id"]): (row["byte"], row["torn"]) for row in rows.to_pylist()}
    ends = {place: end for place, end in before.items() if place not in new} | new
    _ENDS[warehouse] = version, ends
    if new:
        listed = [[*place, *end] for place, end in list(ends.items())[-_NOTED_AT_MOST:]]
        table_id = warehouse.table_id(_LINES)
        warehouse.remember(NOTE, {"form": _FORM, "table_id": table_id, "version": version, "ends": listed})


def _noted(warehouse: Warehouse) -> tuple[int | None, Ends]:
    note = warehouse.recall(NOTE)
    if note.get("form") != _FORM or note["table_id"] != warehouse.table_id(_LINES):
        return None, {}
    return note["version"], {(cluster, node, file): (byte, torn) for cluster, node, file, byte, torn in note["ends"]}


def log_files_in(files: Sequence[str]) -> tuple[pa.Table, list[int]]:
    """The work of the tasks that parse: log files with new lines, where these begin, and the files that hold them; and
    how many lines each has: a broker's log may have a thousand times as many as its neighbours."""
    with cursor() as db:
        found = db.execute(
            "SELECT cluster_id, node, file_id, min(byte) from_byte, list(DISTINCT filename ORDER BY filename) held_in, "
            "count(*) line_count "
            f"FROM {relation(files, with_name=True)} GROUP BY ALL ORDER BY cluster_id, node, file_id"
        )
        counted = found.to_arrow_table()
        return counted.drop_columns("line_count").cast(_LOG_FILE), counted["line_count"].to_pylist()


def parse_files(folder: str, older: Sequence[str], ends: Ends) -> ArrowTask:
    def parse(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = DecodedRows(folder)
        for log_files in (some for some in named if some.num_rows):
            places = zip(*(log_files[name].to_pylist() for name in _LOG_FILE.names[:4]), strict=True)
            begins: dict[LogFile, int] = {(cluster, node, file): byte for cluster, node, file, byte in places}
            torn = {place: ends[place][1] for place, byte in begins.items() if place in ends and ends[place][0] < byte}
            _parse_files(_lines_of(log_files, older, torn), torn, out)
        yield from out.written()

    return parse


def _lines_of(log_files: pa.RecordBatch, older: Sequence[str], known: Collection[LogFile]) -> Iterator[_Line]:
    """The new lines of these log files, and enough of those before, but for files that are `known`; each file in its
    order."""
    columns, place = ", ".join(_LINE), ", ".join(_LINE[:3])
    files = sorted(set(log_files["held_in"].flatten().to_pylist()))
    sources = [f"SELECT {columns}, true is_new FROM {relation(files)} SEMI JOIN log_file USING ({place})"]
    unknown = [row for row in log_files.to_pylist() if (row["cluster_id"], row["node"], row["file_id"]) not in known]
    if older and unknown:
        ids = ", ".join(literal(name) for name in sorted({row["file_id"] for row in unknown}))
        sources.append(
            f"SELECT {columns}, false FROM {relation(older)} JOIN unknown USING ({place}) WHERE file_id IN ({ids}) "
            f"AND byte < from_byte AND byte >= from_byte - {TORN_CONTEXT_BYTES}"
        )
    with cursor() as db:
        db.register("log_file", pa.Table.from_batches([log_files]))
        db.register("unknown", pa.Table.from_pylist(unknown, _LOG_FILE))
        # A file is parsed in its order: what a client's text tore shows in the lines after it.
        ordered = db.execute(f"{' UNION ALL '.join(sources)} ORDER BY {place}, byte")
        for batch in ordered.to_arrow_reader(_LINES_AT_ONCE):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _parse_files(rows: Iterator[_Line], torn: Mapping[LogFile, int | None], out: DecodedRows) -> None:
    counts = DecodeCounts("log")
    new_line: SourceLine | None = None  # one is enough: the parser reports a line before it asks for the next
    in_counts: Counter[tuple[str, str]] = Counter()
    last_byte = 0

    def lines(rows: Iterator[_Line]) -> Iterator[SourceLine]:
        nonlocal new_line, last_byte
        for *fields, is_new in rows:
            line = _make_line(*fields)
            last_byte = line.byte
            if is_new:
                new_line = line
                in_counts[line.cluster_id, line.file_name] += 1
            yield line

    events: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    for place, file_rows in groupby(rows, key=_file_of):
        state = Torn(torn.get(place))
        for event in parse_lines(lines(file_rows), state):
            line = new_line
            if line is None or line.ref != event.ref:
                continue
            events.append(line_row(line, event))
            counts.add(line.cluster_id, _file_kind(line.file_name), "event_count")
            if len(events) >= _LINES_AT_ONCE:
                out.rows("silver.group_event", events)
                events = []
        ends.append(dict(zip(LOG_FILE_END.names, (*place, last_byte, state.at_byte), strict=True)))
    out.rows("end", ends)
    out.rows("silver.group_event", events)
    for (cluster_id, file_name), count in in_counts.items():
        counts.add(cluster_id, _file_kind(file_name), "in_count", count)
    tallies = counts.rows()
    for row in tallies:
        row["skipped_count"] = row["in_count"] - row["event_count"]  # known, and of no interest
    out.rows("count", tallies)


def _file_kind(file_name: str) -> str:
    """`server.log` for server.log.2026-11-21-03.gz: rotation is not a kind."""
    stem, found, _ = file_name.partition(".log")
    return stem + found if found else file_name
