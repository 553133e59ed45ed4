"""A note that differs in anything from what was kept reads as one that is lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_audit.warehouse.notes import content_of, sealed
from rebalance_audit.warehouse.warehouse import Warehouse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
NOTES = st.dictionaries(st.text(max_size=8), JSON, max_size=4)


@given(NOTES)
def test_a_note_is_json_that_reads_as_it_was_kept(content: dict[str, Any]) -> None:
    note = sealed("floors", content)
    assert json.loads(note)["note"] == content_of("floors", note) == content


@given(NOTES, st.data())
def test_a_note_with_another_byte_is_lost(content: dict[str, Any], data: st.DataObject) -> None:
    note = bytearray(sealed("floors", content))
    at = data.draw(st.integers(0, len(note) - 1))
    note[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != note[at]))
    assert content_of("floors", bytes(note)) == {}


@given(NOTES, st.data())
def test_a_note_that_was_cut_or_that_grew_is_lost(content: dict[str, Any], data: st.DataObject) -> None:
    note = sealed("floors", content)
    assert content_of("floors", note[: data.draw(st.integers(0, len(note) - 1))]) == {}
    assert content_of("floors", note + data.draw(st.binary(min_size=1, max_size=9))) == {}


@pytest.mark.parametrize(
    "text",
    [b"", b"null", b"[1, 2]", b"3", b'{"form": 1}', b'{"groups": [["c", "g"]]}', b"\xff\xfe\x00"],
    ids=["empty", "null", "a list", "a number", "of an older release", "of no form", "not UTF-8"],
)
def test_what_is_no_note_is_lost(text: bytes) -> None:
    assert content_of("floors", text) == {}


def test_a_note_under_the_name_of_another_is_lost(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    warehouse.remember("floors", {"groups": [["c", "g"]]})
    notes = tmp_path / "w" / "notes"
    (notes / "detect.json").write_bytes((notes / "floors.json").read_bytes())
    assert warehouse.recall("floors") == {"groups": [["c", "g"]]}
    assert warehouse.recall("detect") == {}
