"""What clients wrote, in a cell of a spreadsheet and on a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.commands.output import csv_cell
from rebalance_audit.domain.visible import visible


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\\t=1"),
        ("\r=1", "'\\r=1"),
        ("a=1", "a=1"),
        (-1, -1),
        (-0.5, -0.5),
        (None, None),
        (True, "true"),
        ("a\nb\x1b[2J\u202e", "a\\nb\\x1b[2J\\u202e"),
        (["-x"], '["-x"]'),
        (b"\x00\xff", "00ff"),
    ],
)
def test_no_cell_is_a_formula_or_a_control_character(value: Any, cell: Any) -> None:
    assert csv_cell(value) == cell


def test_a_terminal_obeys_nothing_that_is_printed() -> None:
    assert visible("a\x1b]0;x\x07\x9b2J\u202eb") == "a\\x1b]0;x\\x07\\x9b2J\\u202eb"
