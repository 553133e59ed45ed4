"""A warehouse that is not there, is empty, or is of a newer version: said by each verb, and left as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.commands.saying import EAGER, assert_one_sentence


@pytest.mark.parametrize("verb", ["check", "report", "export"])
def test_nothing_published_and_nothing_found_look_different(call: Any, tmp_path: Path, verb: str) -> None:
    Warehouse.open(tmp_path / "w", create=True)
    result = call(verb, *(["rebalance"] if verb == "export" else []), "-w", tmp_path / "w")
    assert_one_sentence(result)
    assert "rebalance-audit run" in result.err


@pytest.mark.parametrize("verb", ["check", "report", "export", "run", "serve", "ui", "alert"])
def test_a_warehouse_that_is_not_there_is_said_and_not_made(call: Any, tmp_path: Path, verb: str) -> None:
    extra = {"export": ["rebalance"], "alert": ["--to", "json://localhost"]}.get(verb, [])
    result = call(verb, *extra, "-w", tmp_path / "nothing")
    assert_one_sentence(result)
    assert "There is no warehouse" in result.err
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("verb", ["check", "run", "import"])
def test_a_warehouse_of_a_newer_version_is_left_alone(call: Any, tmp_path: Path, verb: str) -> None:
    stated = json.dumps({"schema_version": tables.SCHEMA_VERSION + 1})
    (tmp_path / "warehouse.json").write_text(stated)
    result = call(verb, *([EAGER] if verb == "import" else []), "-w", tmp_path)
    assert_one_sentence(result)
    assert "newer version" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["warehouse.json"]
    assert (tmp_path / "warehouse.json").read_text() == stated
