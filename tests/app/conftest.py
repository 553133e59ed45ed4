import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app.queries import Questions
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.app.gold_rows import T0
from tests.app.opening import Open, shown
from tests.app.serving import browser, chromium_path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    if chromium_path() is None:
        if os.environ.get("CI"):
            pytest.fail("no chromium, and CI is set; install it or name it in CHROMIUM")
        pytest.skip("no chromium; install it or name it in CHROMIUM")
    with browser() as found:
        yield found


@pytest.fixture(scope="session")
def full_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All stories of gold_rows, and 2,000 groups more."""
    location = tmp_path_factory.mktemp("full") / "warehouse"
    gold_rows.write(location)
    return location


@pytest.fixture(scope="session")
def empty_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    location = tmp_path_factory.mktemp("empty") / "warehouse"
    Warehouse.open(location, create=True)
    return location


@pytest.fixture(scope="session")
def newer_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    location = tmp_path_factory.mktemp("newer") / "warehouse"
    Warehouse.open(location, create=True)
    (location / "warehouse.json").write_text(f'{{"schema_version": {tables.SCHEMA_VERSION + 1}}}')
    return location


@pytest.fixture
def reader(full_warehouse: Path) -> Questions:
    found = Questions.open(full_warehouse)
    found.refresh()
    return found


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Open:
    """Opens a page of a warehouse; `params` are the address."""

    def open_view(location: Path | None, view: str, now_ms: int = T0 + 60_000, **params: str) -> AppTest:
        monkeypatch.setattr("sys.argv", ["streamlit"])
        monkeypatch.setattr("app.clock.now_ms", lambda: now_ms)
        if location is None:
            monkeypatch.delenv("REBALANCE_AUDIT_WAREHOUSE", raising=False)
        else:
            monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", str(location))
        return shown(view, params)

    return open_view
