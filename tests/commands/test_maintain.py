"""`maintain`: fewer files, the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_maintenance_leaves_the_rows_and_fewer_files(call: Any, filled: Path) -> None:
    before = call("export", "rebalance", "-w", filled).out
    result = call("maintain", "-w", filled)
    assert result.status == 0, result.err
    assert "landing files that bronze holds are gone" in result.err
    assert call("export", "rebalance", "-w", filled).out == before
    result = call("maintain", "-w", filled, "--keep", "10m")
    assert result.status == 2
    assert "at least 1h" in result.err
