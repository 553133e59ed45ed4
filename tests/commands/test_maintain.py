"""`maintain`: fewer files, the same rows. And how a verb waits its turn."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.commands import turns
from rebalance_audit.warehouse.warehouse import Warehouse


def test_maintenance_leaves_the_rows_and_fewer_files(call: Any, filled: Path) -> None:
    before = call("export", "rebalance", "-w", filled).out
    result = call("maintain", "-w", filled)
    assert result.status == 0, result.err
    assert "landing files that bronze holds are gone" in result.err
    assert call("export", "rebalance", "-w", filled).out == before
    result = call("maintain", "-w", filled, "--keep", "10m")
    assert result.status == 2
    assert "at least 1h" in result.err


@pytest.mark.parametrize("verb", ["maintain", "whatif"])
def test_a_nightly_verb_waits_for_its_turn_beside_another_writer(
    verb: str, call: Any, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As beside `watch`, whose turns are seconds long."""
    has_written, said = threading.Event(), list[str]()

    def heard(sentence: str, *, quiet: bool) -> None:
        said.append(sentence)
        has_written.set()

    def write() -> None:
        with Warehouse.open(filled).lease("run"):
            is_writing.set()
            has_written.wait(60)

    is_writing = threading.Event()
    monkeypatch.setattr(turns, "note", heard)
    other = threading.Thread(target=write)
    other.start()
    assert is_writing.wait(60)
    result = call(verb, "-w", filled)
    other.join()
    assert result.status == 0, result.err
    (sentence,) = said
    assert "is being written by process" in sentence
    assert sentence.endswith("wait for it to end. Waiting for up to 60 s.")


def test_maintenance_does_not_wait_without_end(call: Any, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE_S", 0.0)
    with Warehouse.open(filled).lease("run"):
        result = call("maintain", "-w", filled)
    assert result.status == 1
    assert "is being written by process" in result.err
