"""A published warehouse with hostile text, and the command line to call on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rebalance_audit import cli
from tests.app import gold_rows
from tests.commands.saying import Result
from tests.ingest.test_metadata import a_story, batches, folder, log_name


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REBALANCE_AUDIT_WAREHOUSE", "REBALANCE_AUDIT_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published warehouse with hostile text in it."""
    place = tmp_path_factory.mktemp("filled") / "w"
    gold_rows.write(place, many=5)
    return place


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Any:
    def one(*arguments: str | Path) -> Result:
        capfd.readouterr()
        status = cli.run([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return Result(status, out, err)

    return one


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """Evidence of one reassignment: the metadata log of one controller."""
    return folder(tmp_path / "moved", "controller-100", {log_name(0): batches(a_story().sources)})
