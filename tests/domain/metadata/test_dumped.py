"""Captured metadata logs: what we read is what Kafka's own dump tool says (saved by dump_golden.py)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from ingest.segments import read_segment
from rebalance_audit.domain.metadata import decode_metadata
from tests.domain.metadata.dumped_form import as_dumped, holds

GOLDEN = Path(__file__).parents[2] / "golden"
DUMPED = sorted((Path(__file__).parent / "dumped").glob("*.jsonl.gz"))


def read_all(file: Path) -> dict[int, tuple[int, bytes]]:
    rows = {}
    for batch in read_segment(file):
        assert isinstance(batch, list), batch
        rows.update({row[0]: (row[1], row[3] or b"") for row in batch if not row[9]})
    return rows


@pytest.mark.parametrize("path", DUMPED, ids=[path.name.removesuffix(".jsonl.gz") for path in DUMPED])
def test_every_captured_record_says_what_kafkas_dump_tool_says(path: Path) -> None:
    kafka, scenario = path.name.removesuffix(".jsonl.gz").split("_", 1)
    files: dict[str, dict[int, tuple[int, bytes]]] = {}
    said: dict[str, set[int]] = {}
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        each = json.loads(line)
        if each["file"] not in files:
            files[each["file"]] = read_all(GOLDEN / kafka / scenario / each["file"])
        at_ms, value = files[each["file"]][each["offset"]]
        record = decode_metadata(value)
        said.setdefault(each["file"], set()).add(each["offset"])
        dumped = each["record"]
        assert (at_ms, record.name.lower(), record.version) == (
            each["at_ms"],
            dumped["type"].removesuffix("_RECORD").replace("_", "").lower(),
            dumped["version"],
        )
        if record.value is not None:
            assert holds(as_dumped(record.value), dumped["data"]), (record, dumped)
    for name, rows in files.items():  # and what the tool's list leaves out are no-ops
        assert all(decode_metadata(rows[offset][1]).name == "NoOp" for offset in rows.keys() - said[name])


def test_the_captures_hold_what_reassignments_are_made_of() -> None:
    seen = set()
    for path in DUMPED:
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            record = json.loads(line)["record"]
            seen.add((record["type"], record["version"]))
    assert {("PARTITION_RECORD", 1), ("PARTITION_RECORD", 2), ("TOPIC_RECORD", 0), ("CONFIG_RECORD", 0)} <= seen
