"""What stages note beside the tables costs only work when it is damaged."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit.warehouse import known_footers
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from tests.spark_jobs.arrivals import gold


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """After two runs, with a note of every stage that keeps one."""
    folder = tmp_path_factory.mktemp("notes") / "w"
    warehouse, cluster = Warehouse.open(folder, create=True), GrowingCluster(groups=3, seed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_footers, "BEHIND", 0)
        for _ in range(2):
            cluster.land(Landing(folder), 6)
            pipeline.run(warehouse, engine="local")
    return warehouse


@pytest.mark.parametrize(
    "damage", [b"", b'{"form": 1, "fi', b'{"form": 1}', b"[1, 2]"], ids=["empty", "cut", "keys gone", "a list"]
)
def test_damaged_notes_change_no_table(tmp_path: Path, damage: bytes) -> None:
    for name in ("whole", "damaged"):
        warehouse, cluster = Warehouse.open(tmp_path / name, create=True), GrowingCluster(groups=3, seed=2)
        for _ in range(2):
            cluster.land(Landing(tmp_path / name), 6)
            pipeline.run(warehouse, engine="local")
            notes = sorted((tmp_path / name / "notes").glob("*.json"))
            assert len(notes) > 3
            for note in notes if name == "damaged" else []:
                note.write_bytes(damage)
    whole = gold(Warehouse.open(tmp_path / "whole"))
    assert whole["gold.rebalance"]
    assert gold(Warehouse.open(tmp_path / "damaged")) == whole


def test_a_note_that_lacks_any_key_or_has_another_value_is_lost(filled: Warehouse) -> None:
    names = filled.notes()
    assert {known_footers.NOTE, "detect", "last_run", "publish", "reassign", "reconstruct", "volumes"} <= set(names)
    for name in names:
        path = Path(filled.location, "notes", f"{name}.json")
        whole = path.read_bytes()
        assert filled.recall(name)
        for altered in _altered(json.loads(whole)):
            path.write_bytes(json.dumps(altered, sort_keys=True).encode())
            assert filled.recall(name) == {}, (name, altered)
        path.write_bytes(whole)


def _altered(value: Any) -> Iterator[Any]:
    """The value with one key removed, or the first item of a list, or with one leaf replaced."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(min(len(value), 1)):
            less = copy.deepcopy(value)
            del less[key]
            yield less
            for other in _altered(value[key]):
                changed = copy.deepcopy(value)
                changed[key] = other
                yield changed
    else:
        yield None if value is not None else 0
        yield [value]
        yield value + 1 if isinstance(value, int) else f"{value}~"
