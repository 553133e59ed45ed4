"""What tests of the command line share: where evidence lies, and what a fault looks like."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
EAGER = GOLDEN / "4.3.0" / "eager_join_leave_kill"


class Result:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


def assert_one_sentence(result: Result, status: int = 1, *, is_foreseen: bool = True) -> None:
    """The fault on stderr in a line, nothing on stdout, no traceback."""
    assert result.status == status, result.err
    assert result.out == ""
    assert result.err.count("\n") == 1, result.err
    assert result.err.startswith("rebalance-audit: ")
    assert "Traceback" not in result.err
    assert ("unexpected" in result.err) is not is_foreseen
