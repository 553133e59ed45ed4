"""Sentences, facts and tables on a page; `fill` escapes what they show."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from app import words
from app.page.address import anchor, go
from app.words import Html, fill

Leads = tuple[str, dict[str, str | int | None]]
"""A page, and what stands in its address."""
MOST_ON_A_PHONE = 8
"""Rows of a large table."""


def _show(markup: Html) -> None:
    """Words of ours: no line ends inside a duration."""
    st.html(words.unbroken(markup))


def title(text: str | Html, over: str | Html = "", under: str | Html = "") -> None:
    """The subject, on the page and in the browser's tab; `under` is the question that the page answers."""
    above = fill('<p class="ra-over">{over}</p>', over=over) if over else Html("")
    below = fill('<p class="ra-under">{under}</p>', under=under) if under else Html("")
    _show(fill('{above}<h1 class="ra-title">{text}</h1>{below}', above=above, text=text, below=below))
    st.set_page_config(page_title=words.cut(words.plain(text), 80))


def heading(text: str | Html) -> None:
    st.html(fill('<h2 class="ra-h2">{text}</h2>', text=text))


def say(template: str, /, **parts: object) -> None:
    _show(fill(f'<p class="ra-say">{template}</p>', **parts))


def note(template: str, /, **parts: object) -> None:
    _show(fill(f'<p class="ra-note">{template}</p>', **parts))


def not_read(table: str) -> None:
    """Says which table could not be read (`Tables.unread`), in place of what it would have shown."""
    note("Not known: {table} cannot be read.", table=table)


def nothing(unread: str | None, template: str, /, **parts: object) -> None:
    """Says that there is none; or, where their table could not be read, that this is not known."""
    if unread is None:
        note(template, **parts)
    else:
        not_read(unread)


def panel(*paragraphs: Html) -> None:
    st.html(fill('<div class="ra-state">{all}</div>', all=words.join(list(paragraphs))))


def facts(pairs: Mapping[str, str | Html]) -> None:
    rows = [fill("<dt>{k}</dt><dd>{v}</dd>", k=k, v=v) for k, v in pairs.items()]
    _show(fill('<dl class="ra-facts">{rows}</dl>', rows=words.join(rows)))


def table(head: Sequence[str], rows: Sequence[Sequence[str | Html]]) -> None:
    """A small table that is read, wraps and prints, on a phone a block per row; large ones are `st.dataframe`."""
    _show(fill('<div class="ra-scroll">{table}</div>', table=_small(head, rows)))


def _small(head: Sequence[str], rows: Sequence[Sequence[str | Html]]) -> Html:
    top = words.join([fill("<th>{h}</th>", h=h) for h in head])
    body = words.join(
        [
            fill(
                "<tr>{cells}</tr>",
                cells=words.join(
                    [fill('<td data-head="{h}"><div>{c}</div></td>', h=h, c=c) for h, c in zip(head, row, strict=True)]
                ),
            )
            for row in rows
        ]
    )
    return fill(
        '<table class="ra-table ra-stack"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>',
        top=top,
        body=body,
    )


def _on_a_phone(
    frame: pd.DataFrame, columns: Mapping[str, Any], placeholder: str, to: Callable[[int], Leads | None]
) -> None:
    """The first rows of a large table, a block each: the table itself, which the style sheet hides there, scrolls
    sideways. Both come with the page, since a server does not know how wide a screen is."""
    head = [(columns.get(name) or {}).get("label") or name for name in frame.columns]
    rows: list[list[str | Html]] = []
    for n, row in enumerate(frame.head(MOST_ON_A_PHONE).itertuples(index=False)):
        cells: list[str | Html] = [_in_words(value, placeholder) for value in row]
        if (leads := to(n)) is not None:
            cells[0] = anchor(str(cells[0]), leads[0], **leads[1])
        rows.append(cells)
    is_cut = len(frame) > len(rows)
    rest = fill('<p class="ra-note">A wider screen lists all {n}.</p>', n=f"{len(frame):,}") if is_cut else Html("")
    _show(fill('<div class="ra-phone">{table}{rest}</div>', table=_small(head, rows), rest=rest))


def _in_words(value: object, placeholder: str) -> str:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return placeholder
    if isinstance(value, str):
        return value
    return f"{value:,.2f}" if isinstance(value, float) and not value.is_integer() else f"{value:,.0f}"


def for_spreadsheets(frame: pd.DataFrame) -> pd.DataFrame:
    """A table can be downloaded: see `words.cell`."""
    texts = frame.select_dtypes(include=["object", "string", "category"])
    return frame.assign(**{c: [_cell(v) for v in frame[c]] for c in texts})


def _cell(value: object) -> object:
    if isinstance(value, dict):
        value = json.dumps(value)
    return words.cell(value) if isinstance(value, str) else value


def long_table(frame: pd.DataFrame, columns: dict[str, Any] | None = None, rows: int = 12) -> None:
    """A table of up to thousands of rows, `rows` of them in sight."""
    st.dataframe(
        for_spreadsheets(frame),
        hide_index=True,
        column_config=columns,
        height=38 + 35 * max(1, min(len(frame), rows)),
        placeholder="not known",
    )
    _on_a_phone(frame, columns or {}, "not known", lambda _: None)


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


def clickable_table(
    frame: pd.DataFrame,
    columns: dict[str, Any],
    key: str,
    to: Callable[[int], Leads | None],
    height: int | None = None,
    placeholder: str = "not known",
    *,
    is_stacked: bool = True,
) -> None:
    """Like `long_table`; a click on a row opens the page that it leads `to`, by its number in `frame`. `is_stacked`:
    not where a phone has something else in its place."""
    shown = min(len(frame), 15)
    event = st.dataframe(
        for_spreadsheets(frame),
        hide_index=True,
        column_config=columns,
        key=key,
        on_select="rerun",
        selection_mode="single-cell",
        height=height or 38 + 35 * max(1, shown),
        placeholder=placeholder,
    )
    if is_stacked:
        _on_a_phone(frame, columns, placeholder, to)
    cells = event.selection.cells
    if cells and int(cells[0][0]) < len(frame) and (leads := to(int(cells[0][0]))) is not None:
        go(leads[0], **leads[1])
