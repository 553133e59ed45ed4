"""What a ref leads to: the record with its bytes, or the log line in its surroundings. No streamlit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app import words
from app.queries import Reader
from rebalance_audit.domain import decode
from rebalance_audit.domain.log_lines import parse_line
from rebalance_audit.domain.model import SourceLine, SourceRecord
from rebalance_audit.domain.wire import DecodeError

SURROUNDING_LINES = 6
_LONGEST_RAW = 64 * 1024
"""Bytes of one key or value shown; a group of thousands of members has records of megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One decoded value, and where its bytes are, if that is certain."""

    path: str
    text: str
    part: str | None = None
    """`key` or `value`."""
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEvidence:
    ref: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    source: str
    node: str | None
    copies: int
    """Records with other bytes seen at the same offset; 1 where there is no contradiction."""
    kind: str | None
    group_id: str | None
    fields: tuple[Field, ...]
    problem: str | None
    """Why it could not be read, where it could not."""
    problem_at: int | None
    problem_part: str | None
    """`key` or `value` where the place is one of theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    byte: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LineEvidence:
    ref: str
    node: str
    file_name: str
    file_id: str
    byte: int
    text: str
    before: tuple[Line, ...]
    after: tuple[Line, ...]
    kind: str | None
    group_id: str | None
    local_at_ms: int | None
    """The line's own time, read as if it were UTC."""
    could_be_forged: bool
    fields: tuple[Field, ...]
    """`start` and `end` count in `text`."""


def find(reader: Reader, cluster_id: str, ref: str) -> RecordEvidence | LineEvidence | None:
    """None: the ref is not readable, or what it names is not in this warehouse."""
    if (place := parse_record_ref(ref)) is not None:
        return _record(reader, cluster_id, ref, *place)
    if (line := parse_log_ref(ref)) is not None:
        return _line(reader, cluster_id, ref, *line)
    return None


def parse_record_ref(ref: str) -> tuple[str, int, int] | None:
    """`record:<topic>-<p>@<offset>`."""
    kind, _, place = ref.partition(":")
    topic_partition, at, offset = place.rpartition("@")
    topic, dash, partition = topic_partition.rpartition("-")
    if kind != "record" or not at or not dash or not topic:
        return None
    return (topic, int(partition), int(offset)) if _is_number(partition) and _is_number(offset) else None


def parse_log_ref(ref: str) -> tuple[str, str, str, int] | None:
    """`log:<node>/<file name>#<file id>@<byte>`: node, file name, file id, byte."""
    kind, _, place = ref.partition(":")
    file, at, byte = place.rpartition("@")
    named, hash_sign, file_id = file.rpartition("#")
    node, slash, file_name = named.partition("/")
    if kind != "log" or not (at and hash_sign and slash) or not _is_number(byte):
        return None
    return node, file_name, file_id, int(byte)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 19


def _record(
    reader: Reader, cluster_id: str, ref: str, topic: str, partition: int, offset: int
) -> RecordEvidence | None:
    rows = reader.rows(
        'SELECT * FROM bronze.record WHERE cluster_id = ? AND topic = ? AND partition = ? AND "offset" = ? '
        "ORDER BY copy",
        (cluster_id, topic, partition, offset),
    )
    if not rows:
        return None
    row = rows[0]
    record = SourceRecord(
        cluster_id=cluster_id,
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=row["timestamp_ms"],
        key=row["key"],
        value=row["value"],
        is_control=bool(row["is_control"]),
        is_transactional=bool(row["is_transactional"]),
    )
    detail: dict[str, Any] = {}
    problem: str | None = None
    problem_at: int | None = None
    problem_part: str | None = None
    group_id: str | None = None
    try:
        decoded = decode.decode_source(record)
        detail = decode.detail(decoded)
        group_id = _group_of(decoded)
    except DecodeError as error:
        problem, problem_at, problem_part = str(error), error.at, error.part
    return RecordEvidence(
        ref=ref,
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=record.timestamp_ms,
        key=record.key,
        value=record.value,
        source=row["source"],
        node=row["node"],
        copies=len(rows),
        kind=decode.source_kind(record),
        group_id=group_id,
        fields=located_in_bytes(flat(detail), record.key, record.value),
        problem=problem,
        problem_at=problem_at,
        problem_part=problem_part,
    )


def _group_of(decoded: decode.Decoded) -> str | None:
    if isinstance(decoded, decode.Commit):
        return decoded.group_id
    key = getattr(getattr(decoded, "record", None), "key", None)
    found = getattr(key, "group_id", None)
    return found if isinstance(found, str) else None


def flat(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """The leaves of what was decoded, in its order: `members[0].client_id`."""
    if isinstance(value, Mapping):
        return [leaf for k, v in value.items() for leaf in flat(v, f"{path}.{k}" if path else str(k))]
    if isinstance(value, list | tuple) and value and all(_is_partition(v) for v in value):
        return [(path, words.resources([f"{topic}-{partition}" for topic, partition in value], 40))]
    if isinstance(value, list | tuple) and value and not all(isinstance(v, int | str) for v in value):
        return [leaf for i, v in enumerate(value) for leaf in flat(v, f"{path}[{i}]")]
    return [(path, value)]


def _is_partition(value: Any) -> bool:
    return (
        isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], int)
    )


def _said(value: Any) -> str:
    if value is None:
        return "null"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def located_in_bytes(leaves: list[tuple[str, Any]], key: bytes | None, value: bytes | None) -> tuple[Field, ...]:
    """Each text of a record with the place of its bytes; texts stand in a record in the order of decoding."""
    at = {"key": 0, "value": 0}
    found = []
    for path, leaf in leaves:
        place: tuple[str, int, int] | None = None
        if isinstance(leaf, str) and leaf:
            wanted = leaf.encode("utf-8", "surrogatepass")
            for part, raw in (("key", key), ("value", value)):
                start = -1 if raw is None else raw.find(wanted, at[part])
                if start >= 0:
                    place = (part, start, start + len(wanted))
                    at[part] = start + len(wanted)
                    break
        part_, start_, end_ = place or (None, None, None)
        found.append(Field(path=path, text=_said(leaf), part=part_, start=start_, end=end_))
    return tuple(found)


def located_in_text(leaves: list[tuple[str, Any]], text: str) -> tuple[Field, ...]:
    """Each field of a log line with its place in the text, the first that no other field took."""
    taken: list[tuple[int, int]] = []
    found = []
    for path, leaf in leaves:
        said = _said(leaf)
        place = _first_free(text, said, taken) if leaf not in (None, "", [], True, False) else None
        if place is not None:
            taken.append(place)
        found.append(Field(path=path, text=said, start=place[0] if place else None, end=place[1] if place else None))
    return tuple(found)


def _first_free(text: str, wanted: str, taken: list[tuple[int, int]]) -> tuple[int, int] | None:
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        is_whole = not (wanted.isdigit() and (text[at - 1 : at].isdigit() or text[end : end + 1].isdigit()))
        if is_whole and all(end <= a or b <= at for a, b in taken):
            return at, end
        at = text.find(wanted, at + 1)
    return None


def _line(
    reader: Reader, cluster_id: str, ref: str, node: str, file_name: str, file_id: str, byte: int
) -> LineEvidence | None:
    place = (cluster_id, node, file_id, byte)
    same = "cluster_id = ? AND node = ? AND file_id = ?"
    rows = reader.rows(f"SELECT text, file_name FROM bronze.log_line WHERE {same} AND byte = ?", place)
    if not rows:
        return None
    before = reader.rows(
        f"SELECT byte, text FROM bronze.log_line WHERE {same} AND byte < ? ORDER BY byte DESC LIMIT "
        f"{SURROUNDING_LINES}",
        place,
    )
    after = reader.rows(
        f"SELECT byte, text FROM bronze.log_line WHERE {same} AND byte > ? ORDER BY byte LIMIT {SURROUNDING_LINES}",
        place,
    )
    text = rows[0]["text"]
    name = rows[0]["file_name"] or file_name
    event = parse_line(
        SourceLine(cluster_id=cluster_id, node=node, file_name=name, file_id=file_id, byte=byte, text=text)
    )
    said = dict(event.fields) if event is not None else {}
    if event is not None and event.group_id is not None:
        said = {"group_id": event.group_id, **said}
    return LineEvidence(
        ref=ref,
        node=node,
        file_name=name,
        file_id=file_id,
        byte=byte,
        text=text,
        before=tuple(Line(**row) for row in reversed(before)),
        after=tuple(Line(**row) for row in after),
        kind=str(event.kind) if event is not None else None,
        group_id=event.group_id if event is not None else None,
        local_at_ms=event.local_at_ms if event is not None else None,
        could_be_forged=event is not None and event.could_be_forged,
        fields=located_in_text(flat(said), text),
    )


@dataclass(frozen=True, slots=True)
class HexRow:
    """Sixteen bytes: where they start, and each with the number of the field it belongs to."""

    start: int
    cells: tuple[tuple[int, int | None], ...]


def hex_rows(raw: bytes, part: str, fields: tuple[Field, ...]) -> tuple[list[HexRow], int]:
    """Rows of a dump, and how many bytes were left out."""
    owner: dict[int, int] = {}
    for i, f in enumerate(fields):
        if f.part == part and f.start is not None and f.end is not None:
            owner.update(dict.fromkeys(range(f.start, min(f.end, _LONGEST_RAW)), i))
    shown = raw[:_LONGEST_RAW]
    rows = [
        HexRow(start, tuple((shown[i], owner.get(i)) for i in range(start, min(start + 16, len(shown)))))
        for start in range(0, len(shown), 16)
    ]
    return rows, len(raw) - len(shown)
