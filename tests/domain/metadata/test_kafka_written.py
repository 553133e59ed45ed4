"""Records that Kafka's own serializer wrote, of kinds and versions the captures lack; made by WriteRecords.java."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.domain.metadata import RECORD_TYPES, decode_metadata
from tests.domain.metadata.dumped_form import as_dumped, holds
from tests.domain.metadata.encoder import LAYOUTS

CASES = [json.loads(line) for line in (Path(__file__).parent / "kafka_written.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=[f"{n}-{case['type']}-{case['version']}" for n, case in enumerate(CASES)])
def test_what_kafka_wrote_is_read(case: dict[str, Any]) -> None:
    record = decode_metadata(bytes.fromhex(case["hex"]))
    assert record.name.lower() == case["type"].removesuffix("_RECORD").replace("_", "").lower()
    assert record.version == case["version"]
    decoded = as_dumped(record.value)
    assert holds(decoded, case["data"]), (decoded, case["data"])
    silent = {name: value for name, value in decoded.items() if name not in case["data"]}
    assert all(not value or value in (-1, -2) for value in silent.values()), (
        silent
    )  # what Kafka leaves out is a default


def test_every_layout_of_partitions_and_brokers_has_a_record_that_kafka_wrote() -> None:
    numbers = {kind.name.lower(): number for number, kind in RECORD_TYPES.items()}
    written = {
        (numbers[case["type"].removesuffix("_RECORD").replace("_", "").lower()], case["version"]) for case in CASES
    }
    assert {layout for layout in LAYOUTS if layout[0] in (0, 3, 5, 17)} <= written
