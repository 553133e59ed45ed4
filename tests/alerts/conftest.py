"""What the tests of alerts share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.alerts.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    yield server
    server.stop()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "alerts.json"
