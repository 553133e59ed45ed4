"""Tables to take away: no cell of a CSV is a formula or obeyed by a terminal, and JSON has every character."""

from __future__ import annotations

import csv
import io
import json

import pandas as pd
import pytest

from app import page
from app.page.long_table import for_spreadsheets
from tests.app.gold_rows import HOSTILE_GROUP

HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "a\x1b[2Jb", "a=1", HOSTILE_GROUP]
SHOWN = ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\\t=1", "'\\r=1", "'\\n=1", "a\\x1b[2Jb", "a=1"]


@pytest.mark.parametrize("dtype", ["object", "string", "category"])
def test_no_cell_is_a_formula_or_a_control_character(dtype: str) -> None:
    frame = pd.DataFrame({"group_id": pd.Series(HOSTILE, dtype=dtype), "change": [-1.5] * len(HOSTILE)})
    text = for_spreadsheets(frame).to_csv(index=False)
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["group_id"] for row in rows[: len(SHOWN)]] == SHOWN
    assert {row["change"] for row in rows} == {"-1.5"}  # a number stays one
    assert len(rows) == len(HOSTILE) == len(text.splitlines()) - 1
    assert all(line.isprintable() for line in text.splitlines())


def test_what_is_taken_away_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: dict[str, bytes] = {}
    monkeypatch.setattr("streamlit.download_button", lambda label, data, *_, **__: taken.update({label: data()}))
    page.downloads(lambda: pd.DataFrame({"group_id": HOSTILE, "cost": [None, *range(len(HOSTILE) - 1)]}), "groups")
    assert taken["CSV"].decode().splitlines()[1] == "'=1+1,"
    rows = json.loads(taken["JSON"])
    assert [row["group_id"] for row in rows] == HOSTILE
    assert [row["cost"] for row in rows] == [None, *range(len(HOSTILE) - 1)]  # unknown is null, and numbers numbers


def test_numbers_of_findings_are_numbers_in_json_and_text_in_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: dict[str, bytes] = {}
    monkeypatch.setattr("streamlit.download_button", lambda label, data, *_, **__: taken.update({label: data()}))
    numbers = {"count": 7, "share": 0.5, "who": "=1\x1b"}
    page.downloads(lambda: pd.DataFrame({"numbers": [numbers, {}]}), "findings")
    assert json.loads(taken["JSON"]) == [{"numbers": numbers}, {"numbers": {}}]
    (first, _) = csv.DictReader(io.StringIO(taken["CSV"].decode()))
    assert json.loads(first["numbers"]) == numbers
    assert "\x1b" not in taken["CSV"].decode()
