"""Values that Kafka's own classes wrote, release by release: the content is hand-written, the bytes are Kafka's.

How they were made is in kafka_written/KafkaWrites.java.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.domain.records import RECORD_TYPES, decode_record
from tests import encoders as enc
from tests.domain.records.strategies import assert_says

CASES = json.loads((Path(__file__).parent / "kafka_written" / "values.json").read_text())
_BYTES = {"subscription", "assignment", "metadata", "metadataBytes"}


def upstream(value: Any, name: str = "", is_text: bool = False) -> Any:
    """As in the case, with names as upstream spells them and bytes as bytes."""
    if isinstance(value, Mapping):
        return {each[0].upper() + each[1:]: upstream(inner, each, is_text) for each, inner in value.items()}
    if isinstance(value, list):
        return [upstream(each, "", is_text) for each in value]
    return b64decode(value) if name in _BYTES and not is_text else value


@pytest.mark.parametrize("case", CASES, ids=[f"{at}-{case['kafka']}-{case['schema']}" for at, case in enumerate(CASES)])
def test_what_kafka_wrote_is_read_and_its_layout_recognised(case: dict[str, Any]) -> None:
    number = case["type"]
    key = enc.record_key(number, *(("g", "t", 0) if number < 2 else ("g", "m")[: len(enc.key_fields(number))]))
    record = decode_record(key, bytes.fromhex(case["hex"]))
    assert record.name + "Value" == case["schema"]
    assert (record.value_version, record.layout) == (case["version"], case["layout"])
    assert_says(record.value, upstream(case["value"], is_text=number < 2), number)


def test_every_layout_has_a_value_that_kafka_wrote() -> None:
    written = {(case["type"], case["layout"]) for case in CASES}
    known = {
        (number, layout.since)
        for number, kind in RECORD_TYPES.items()
        for layouts in kind.layouts.values()
        for layout in layouts
    }
    assert known == written
