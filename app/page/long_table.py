"""Tables of many rows: `long_table.js`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import streamlit as st

from app import words
from app.page.address import href
from app.page.script import script

Leads = tuple[str, dict[str, str | int | None]]
"""A page, and what stands in its address."""
_ROW_PX = 33
_draw = st.components.v2.component(
    "rebalance_audit_long_table",
    html='<div class="ra-long"></div>',
    js=script("long_table.js"),
    isolate_styles=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLook:
    """How a column is shown: widths are shares where the window is wider than all of them."""

    width: int | None = None
    """Pixels; None: as its longest text needs."""
    help: str = ""
    decimals: int | None = None
    """None: two where a number is not whole."""
    top: int = 1
    """Of bars: the height of all rows' bars."""


def long_table(
    frame: pd.DataFrame,
    key: str,
    columns: Mapping[str, ColumnLook] | None = None,
    to: Callable[[int], Leads | None] = lambda _: None,
    rows: int = 15,
    placeholder: str = "not known",
    *,
    is_searched: bool = True,
    is_taken: bool = True,
) -> None:
    """A table of up to thousands of rows, `rows` of them in sight; a row opens the page that it leads `to`, by its
    number in `frame`. `is_searched`: not where the page has a search of its own; `is_taken`: not where it has
    `downloads`."""
    leads = [to(n) for n in range(len(frame))]
    hrefs = [None if each is None else href(each[0], **each[1]) for each in leads]
    before, after = _in_common([each for each in hrefs if each is not None])
    shown = for_spreadsheets(frame)  # a table that is copied is pasted into one
    _draw(
        data={
            "columns": [_column(shown[name], (columns or {}).get(name, ColumnLook())) for name in shown.columns],
            "hrefs": [None if each is None else each[len(before) : len(each) - len(after)] for each in hrefs],
            "around": [before, after],
            "placeholder": placeholder,
            "height": _ROW_PX * (1 + max(1, min(len(frame), rows))) + 2,
            "label": key,
            "isSearched": is_searched,
            "isTaken": is_taken,
        },
        key=key,
    )


def _in_common(hrefs: Sequence[str]) -> tuple[str, str]:
    """What all begin and end with: a page, and its time. Sent once, since rows are sent with each key of a search."""
    before = _beginning(hrefs)
    return before, _beginning([each[len(before) :][::-1] for each in hrefs])[::-1]


def _beginning(texts: Sequence[str]) -> str:
    low, high = min(texts, default=""), max(texts, default="")
    return low[: next((at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))]


def _column(values: pd.Series[Any], column: ColumnLook) -> dict[str, Any]:
    head = str(values.name)
    cells = [_sent(value) for value in values.tolist()]
    longest = max((len(str(cell)) for cell in cells if not isinstance(cell, list)), default=0)
    return {
        "head": head,
        "help": column.help,
        "width": column.width or min(340, 22 + 7 * max(longest, len(head))),
        "decimals": column.decimals,
        "top": column.top,
        "cells": cells,
    }


def _sent(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return list(value)
    return None if pd.isna(value) else value


def for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """A table can be taken away: see `words.cell`."""
    texts = frame.select_dtypes(include=["object", "string", "category"])
    return frame.assign(**{c: [_cell(v) for v in frame[c]] for c in texts})


def _cell(value: object) -> object:
    if isinstance(value, dict):
        value = json.dumps(value)
    return words.cell(value) if isinstance(value, str) else value


def downloads(frame: Callable[[], pd.DataFrame], name: str) -> None:
    """What is shown, whole, to take away; made when it is asked for. CSV as a spreadsheet may open it."""
    with st.container(horizontal=True):
        st.download_button(
            "CSV",
            lambda: for_spreadsheets(frame()).to_csv(index=False).encode(),
            f"{name}.csv",
            "text/csv",
            on_click="ignore",
            key=f"{name}-csv",
        )
        st.download_button(
            "JSON",
            lambda: frame().to_json(orient="records", force_ascii=True).encode(),
            f"{name}.json",
            "application/json",
            on_click="ignore",
            key=f"{name}-json",
        )
