"""docs/record_types.md says how each type is tested: with the captures and with what Kafka's classes wrote."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.domain.metadata import RECORD_TYPES as METADATA_TYPES
from rebalance_audit.domain.records import RECORD_TYPES
from tests import encoders as enc
from tests.differential.oracle import RELEASES
from tests.domain.metadata.encoder import LAYOUTS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "record_types.md").read_text(encoding="utf-8")
HERE = Path(__file__).parent
Seen = dict[int, set[tuple[str, int]]]
"""Type -> (release, version) of values."""


def rows(heading: str) -> dict[str, list[str]]:
    """First cell -> cells, of the table under the heading."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|")
    return {row[0]: row for row in cells if not set(row[0]) <= {"-", " "}}


def captured() -> Seen:
    found: Seen = defaultdict(set)
    for path in (HERE / "dumped").glob("*.jsonl"):
        for each in map(json.loads, path.read_text().splitlines()):
            if each["value"] is not None:
                found[int(each["key"]["type"])].add((path.name.split("_")[0], int(each["value"]["version"])))
    return found


def written_by_kafka() -> Seen:
    found: Seen = defaultdict(set)
    for case in json.loads((HERE / "kafka_written" / "values.json").read_text()):
        found[case["type"]].add((case["kafka"], case["version"]))
    return found


def named_in(cell: str, source: str) -> tuple[set[str], set[int]]:
    """Releases and versions behind `captured` or `Kafka's classes`."""
    part = next((part for part in cell.split(";") if part.strip().startswith(source)), "")
    return set(re.findall(r"\d+\.\d+\.\d+", part)), {int(version) for version in re.findall(r"\bv(\d)", part)}


@pytest.mark.parametrize(("source", "seen"), [("captured", captured()), ("Kafka's classes", written_by_kafka())])
@pytest.mark.parametrize("number", RECORD_TYPES)
def test_records_of_groups_are_tested_with_what_the_page_names(number: int, source: str, seen: Seen) -> None:
    cell = rows("`__consumer_offsets`")[str(number)][5]
    releases, versions = named_in(cell, source)
    assert releases == {release for release, _ in seen[number]}
    assert versions in ({version for _, version in seen[number]}, set())
    assert ("round trip" in cell) == any(encoded == number for encoded, _ in enc.VALUES)


def test_the_releases_of_the_differential_are_named() -> None:
    assert ("3.9.1, 4.1.1 and 4.3.0") in PAGE
    assert sorted(RELEASES) == ["3.9.1", "4.1.1", "4.3.0"]


def metadata_rows() -> Iterable[tuple[int, list[str]]]:
    for numbers, cells in rows("`__cluster_metadata`").items():
        for number in re.findall(r"\d+", numbers):
            yield int(number), cells


def metadata_seen(paths: Iterable[Path], record: str | None) -> dict[str, set[int]]:
    """Kafka's name in one word -> versions."""
    found: dict[str, set[int]] = defaultdict(set)
    for path in paths:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for line in content.decode().splitlines():
            each: dict[str, Any] = json.loads(line)
            each = each[record] if record else each
            found[each["type"].removesuffix("_RECORD").replace("_", "").lower()].add(each["version"])
    return found


def test_every_type_of_the_metadata_log_has_its_row() -> None:
    assert sorted(number for number, _ in metadata_rows()) == sorted(METADATA_TYPES)


@pytest.mark.parametrize(("number", "cells"), list(metadata_rows()))
def test_records_of_the_metadata_log_are_tested_with_what_the_page_names(number: int, cells: list[str]) -> None:
    kind, cell = METADATA_TYPES[number], cells[4]
    metadata = HERE.parent / "metadata"
    dumped = metadata_seen((metadata / "dumped").glob("*.gz"), "record")[kind.name.lower()]
    if kind.name == "NoOp":  # left out of the saved dumps: test_dumped.py holds all that is not in them to be one
        dumped = {0}
    written = metadata_seen([metadata / "kafka_written.jsonl"], None)[kind.name.lower()]
    assert kind.name in cells[1]
    if "captured (" not in cell or "v" in cell:
        assert ("captured" in cell) == bool(dumped), dumped
        assert named_in(cell, "captured")[1] in (dumped, set())
    assert ("Kafka's classes" in cell) == bool(written), written
    if "(all)" in cell:
        assert written == set(range(kind.latest_version + 1))
    assert (kind.read is not None) == any(encoded == number for encoded, _ in LAYOUTS)
    assert ("by name" in cells[2]) == (kind.read is None)
