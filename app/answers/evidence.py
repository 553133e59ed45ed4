"""The evidence behind a ref: the record with its bytes, or the log line in its surroundings. No streamlit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from app.answers.places import Field, flat, located_in_bytes, located_in_text
from app.queries import Questions
from rebalance_audit.domain import decode
from rebalance_audit.domain.log_lines import parse_line
from rebalance_audit.domain.metadata import METADATA_TOPIC, decode_control, decode_metadata, is_metadata_topic
from rebalance_audit.domain.model import SourceLine, SourceRecord
from rebalance_audit.domain.wire import DecodeError

SURROUNDING_LINES = 6
_NTH = {2: "2nd", 3: "3rd"}


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
class LogLine:
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
    before: tuple[LogLine, ...]
    after: tuple[LogLine, ...]
    kind: str | None
    group_id: str | None
    local_at_ms: int | None
    """The line's own time, read as if it were UTC."""
    could_be_forged: bool
    fields: tuple[Field, ...]
    """`start` and `end` count in `text`."""


def find(reader: Questions, cluster_id: str, ref: str) -> RecordEvidence | LineEvidence | None:
    """None: the ref is not readable, or what it names is not in this warehouse."""
    if (place := parse_record_ref(ref)) is not None:
        return _record(reader, cluster_id, ref, *place)
    if (place := parse_metadata_ref(ref)) is not None:
        return _record(reader, cluster_id, ref, *place)
    if (line := parse_log_ref(ref)) is not None:
        return _line(reader, cluster_id, ref, *line)
    return None


def is_ref(text: str) -> bool:
    return any(parse(text) is not None for parse in (parse_record_ref, parse_metadata_ref, parse_log_ref))


def stands_in(ref: str) -> str:
    """Where a piece of evidence stands, in two words."""
    if (line := parse_log_ref(ref)) is not None:
        return f"log of {line[0]}"
    return "record" if parse_record_ref(ref) is not None else "metadata log" if ref.startswith("metadata:") else ref


def places_in_words(refs: Sequence[str]) -> list[str]:
    """Where each piece of evidence stands. What stands in the same place as one before it is counted: `log of
    broker-1`, `2nd line`, `record`."""
    seen: Counter[str] = Counter()
    said = []
    for ref in refs:
        place = stands_in(ref)
        seen[place] += 1
        what = "line" if parse_log_ref(ref) is not None else "record"
        said.append(place if seen[place] == 1 else f"{_NTH.get(seen[place], f'{seen[place]}th')} {what}")
    return said


def parse_record_ref(ref: str) -> tuple[str, int, int] | None:
    """`record:<topic>-<p>@<offset>`."""
    kind, _, place = ref.partition(":")
    topic_partition, at, offset = place.rpartition("@")
    topic, dash, partition = topic_partition.rpartition("-")
    if kind != "record" or not at or not dash or not topic:
        return None
    return (topic, int(partition), int(offset)) if _is_number(partition) and _is_number(offset) else None


def parse_metadata_ref(ref: str) -> tuple[str, int, int] | None:
    """`metadata:<node>@<offset>`, or of a checkpoint `metadata:<node>@<its name>:<place>`: as it stands in bronze."""
    kind, _, place = ref.partition(":")
    _, at, where = place.rpartition("@")
    name, colon, offset = where.rpartition(":")
    topic = f"{METADATA_TOPIC}@{name}" if colon else METADATA_TOPIC
    if kind != "metadata" or not at or not _is_number(offset) or not is_metadata_topic(topic):
        return None
    return topic, 0, int(offset)


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
    reader: Questions, cluster_id: str, ref: str, topic: str, partition: int, offset: int
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
    kind = None
    try:
        if is_metadata_topic(topic):
            said = decode_control(record.key, record.value) if record.is_control else decode_metadata(record.value)
            kind, detail = said.name, asdict(said)
        else:
            kind = decode.source_kind(record)
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
        kind=kind,
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


def _line(
    reader: Questions, cluster_id: str, ref: str, node: str, file_name: str, file_id: str, byte: int
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
        before=tuple(LogLine(**row) for row in reversed(before)),
        after=tuple(LogLine(**row) for row in after),
        kind=str(event.kind) if event is not None else None,
        group_id=event.group_id if event is not None else None,
        local_at_ms=event.local_at_ms if event is not None else None,
        could_be_forged=event is not None and event.could_be_forged,
        fields=located_in_text(flat(said), text),
    )
