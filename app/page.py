"""The frame around every view: which warehouse, which part of it (the address), how it is said, what opens what."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from datetime import tzinfo
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd
import streamlit as st

from app import charts, words
from app.answers import Span
from app.queries import HOUR_MS, Reader, WarehouseError
from app.words import Html, fill

ENVIRONMENT_NAME = "REBALANCE_AUDIT_WAREHOUSE"
PRESETS_MS = {"1 h": HOUR_MS, "6 h": 6 * HOUR_MS, "24 h": 24 * HOUR_MS, "7 d": 168 * HOUR_MS, "all": None}
_log = logging.getLogger(__name__)
_HERE = Path(__file__).parent


def warehouse_location() -> str | None:
    """From `-- --warehouse W` of the command line, else from the environment."""
    arguments = sys.argv[1:]
    for i, argument in enumerate(arguments):
        if argument == "--warehouse" and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith("--warehouse="):
            return argument.partition("=")[2]
    return os.environ.get(ENVIRONMENT_NAME) or None


@st.cache_resource(show_spinner=False, max_entries=4)
def _reader_of(location: str) -> Reader:
    return Reader.open(location)


def run(chosen: Any) -> None:
    """The chosen view. What goes wrong in it is said in our words; its details go to the server's log, nowhere else."""
    try:
        chosen.run()
    except WarehouseError as error:
        broken("The warehouse cannot be read.", str(error))
    except Exception as error:
        _log.exception("a page failed")
        broken(
            "This page could not be shown.",
            f"It met something it does not know ({type(error).__name__}). The server's log has the details; the "
            "other pages work.",
        )


def reader() -> Reader:
    """The warehouse, or a page that says what is missing and what to do, and nothing after it."""
    location = warehouse_location()
    if location is None:
        broken(
            "No warehouse was given.",
            "Start the app with `rebalance-audit ui --warehouse FOLDER`, or set REBALANCE_AUDIT_WAREHOUSE.",
        )
    try:
        found = _reader_of(location)
        found.refresh()
    except WarehouseError as error:
        _reader_of.clear()
        broken("The warehouse cannot be read.", str(error))
    return found


def reader_with_groups() -> Reader:
    """As `reader`; a page of its own where nothing has been audited yet."""
    found = reader()
    if found.group_count():
        return found
    state = found.state()
    title("Nothing has been audited yet")
    if state.record_count or state.line_count:
        seen = f"{words.count(state.record_count, 'record')} and {words.count(state.line_count, 'log line')}"
        panel(
            fill("<p>Evidence is there ({seen}), but no group was rebuilt from it.</p>", seen=seen),
            fill(
                "<p>If the pipeline never ran: <code>rebalance-audit run --warehouse {w}</code></p>", w=found.location
            ),
            Html(
                "<p>If it ran: the evidence holds no group's records. What was read and what could not be stands on "
                "the page Trust.</p>"
            ),
        )
    else:
        panel(
            fill(
                "<p>The warehouse at {w} is empty: no record and no log line was ever read into it.</p>",
                w=words.code(found.location, 90),
            ),
            fill(
                "<p>Read what a cluster wrote down: <code>rebalance-audit import FOLDER --warehouse {w}</code>, or a "
                "live one: "
                "<code>rebalance-audit collect -b HOST:PORT --warehouse {w}</code>; then "
                "<code>rebalance-audit run --warehouse {w}</code>.</p>",
                w=found.location,
            ),
        )
    st.stop()


def broken(what: str, why: str) -> NoReturn:
    title(what)
    panel(fill("<p>{why}</p>", why=words.visible(why)), Html("<p>Nothing was changed: this app only reads.</p>"))
    st.stop()


# ---- saying --------------------------------------------------------------------------------------------------------


def title(text: str | Html, over: str | Html = "") -> None:
    above = fill('<p class="ra-over">{over}</p>', over=over) if over else Html("")
    st.html(fill('{above}<h1 class="ra-title">{text}</h1>', above=above, text=text))


def heading(text: str | Html) -> None:
    st.html(fill('<h2 class="ra-h2">{text}</h2>', text=text))


def say(template: str, /, **parts: object) -> None:
    st.html(fill(f'<p class="ra-say">{template}</p>', **parts))


def note(template: str, /, **parts: object) -> None:
    st.html(fill(f'<p class="ra-note">{template}</p>', **parts))


def panel(*paragraphs: Html) -> None:
    st.html(fill('<div class="ra-state">{all}</div>', all=words.join(list(paragraphs))))


def facts(pairs: Mapping[str, str | Html]) -> None:
    rows = [fill("<dt>{k}</dt><dd>{v}</dd>", k=k, v=v) for k, v in pairs.items()]
    st.html(fill('<dl class="ra-facts">{rows}</dl>', rows=words.join(rows)))


def table(head: list[str], rows: list[list[str | Html]]) -> None:
    """A small table that is read, wraps and prints; large ones are `st.dataframe`."""
    top = words.join([fill("<th>{h}</th>", h=h) for h in head])
    body = words.join(
        [fill("<tr>{cells}</tr>", cells=words.join([fill("<td>{c}</td>", c=c) for c in row])) for row in rows]
    )
    st.html(
        fill(
            '<div class="ra-scroll"><table '
            'class="ra-table"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>',
            top=top,
            body=body,
        )
    )


def clickable_table(frame: pd.DataFrame, columns: dict[str, Any], key: str, height: int | None = None) -> int | None:
    """A table of up to thousands of rows; the number (in `frame`) of the row that was clicked."""
    shown = min(len(frame), 15)
    event = st.dataframe(
        frame,
        hide_index=True,
        column_config=columns,
        key=key,
        on_select="rerun",
        selection_mode="single-cell",
        height=height or 38 + 35 * max(1, shown),
        placeholder="not known",
    )
    cells = event.selection.cells
    return int(cells[0][0]) if cells else None


# ---- where we are --------------------------------------------------------------------------------------------------


def zone() -> tzinfo:
    return words.zone(zone_name())


def zone_name() -> str:
    return st.context.timezone or "UTC"


def param(name: str) -> str | None:
    return st.query_params.get(name) or None


def number_param(name: str) -> int | None:
    text = param(name)
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= 15
    return int(text) if text is not None and is_number else None


def _into_address(name: str) -> None:
    value = st.session_state[f"address-{name}"]
    if value:
        st.query_params[name] = "1" if value is True else str(value)
    else:
        st.query_params.pop(name, None)


# The address is the only truth: each run sets the widget from it, and a change of the widget goes into it.


def text_in_address(label: str, name: str, placeholder: str) -> str:
    st.session_state[f"address-{name}"] = param(name) or ""
    return st.text_input(label, key=f"address-{name}", placeholder=placeholder, on_change=_into_address, args=(name,))


def flag_in_address(label: str, name: str) -> bool:
    st.session_state[f"address-{name}"] = param(name) == "1"
    return st.checkbox(label, key=f"address-{name}", on_change=_into_address, args=(name,))


def choice_in_address(label: str, name: str, options: list[str], placeholder: str = "all") -> str | None:
    now = param(name)
    st.session_state[f"address-{name}"] = now if now in options else None
    return st.selectbox(
        label,
        options,
        key=f"address-{name}",
        placeholder=placeholder,
        on_change=_into_address,
        args=(name,),
        format_func=lambda o: words.name(o, 60),
    )


def switch_in_address(label: str, name: str, options: list[str]) -> str:
    """One of a few, the first where the address says nothing."""
    now = param(name)
    st.session_state[f"address-{name}"] = now if now in options else options[0]
    chosen = st.segmented_control(
        label, options, key=f"address-{name}", on_change=_into_address, args=(name,), label_visibility="collapsed"
    )
    return chosen or options[0]


def address(**params: str | int | None) -> dict[str, str]:
    return {k: str(v) for k, v in params.items() if v is not None}


def link(label: str, view: str, **params: str | int | None) -> None:
    """A link to a view with its whole state. The label is plain text."""
    st.page_link(f"views/{view}.py", label=words.markdown(label), query_params=address(**params))


def go(view: str, **params: str | int | None) -> None:
    st.switch_page(f"views/{view}.py", query_params=address(**params))


def span_of(whole: Span, default: str) -> Span:
    """The span of the address, else the default one before the evidence ends; with buttons to change it."""
    chosen = _span_in_address(whole, default)
    options = [name for name, length in PRESETS_MS.items() if length is None or length < whole.length_ms]
    now = next((n for n in options if _preset(n, whole) == chosen), None)
    if len(options) > 1 or now is None:
        st.session_state["span"] = now

        def change() -> None:
            wanted = st.session_state["span"]
            if wanted is not None:
                span = _preset(wanted, whole)
                st.query_params.update({"from": str(span.from_ms), "to": str(span.to_ms)})

        st.segmented_control("Time", options, key="span", on_change=change, label_visibility="collapsed")
    return chosen


def default_span(whole: Span, last_at_ms: int | None) -> str:
    """The shortest preset of a day or more that still shows the last thing that happened."""
    if whole.length_ms <= 48 * HOUR_MS:
        return "all"
    return next(
        (n for n in ("24 h", "7 d") if last_at_ms is not None and last_at_ms >= _preset(n, whole).from_ms), "all"
    )


def _preset(name: str, whole: Span) -> Span:
    length = PRESETS_MS[name]
    return whole if length is None else Span(from_ms=max(whole.from_ms, whole.to_ms - length), to_ms=whole.to_ms)


def _span_in_address(whole: Span, default: str) -> Span:
    from_ms, to_ms = number_param("from"), number_param("to")
    if from_ms is None or to_ms is None or to_ms <= from_ms:
        return _preset(default, whole)
    return Span(from_ms=from_ms, to_ms=to_ms)


def span_words(span: Span, tz: tzinfo) -> str:
    if span.length_ms < HOUR_MS:
        ends = f"{words.instant(span.from_ms, tz)} to {words.clock(span.to_ms, tz)}"
    else:
        ends = f"{words.minute(span.from_ms, tz)} to {words.minute(span.to_ms, tz)}"
    return f"{words.duration(span.length_ms)} from {ends}"


# ---- the time line -------------------------------------------------------------------------------------------------

_draw = st.components.v2.component(
    "rebalance_audit_time_line",
    html='<div class="time-line"><canvas></canvas><div class="tip" hidden></div></div>',
    css=(_HERE / "time_line.css").read_text(encoding="utf-8"),
    js=(_HERE / "time_line.js").read_text(encoding="utf-8"),
)


def time_line(picture: charts.TimeLine, alt: str, key: str) -> str | None:
    """Draws it. A drag becomes the span of the address; the target of a clicked mark is given back."""
    result = _draw(
        data=picture.data(zone_name(), alt), key=key, on_range_change=lambda: None, on_mark_change=lambda: None
    )
    if picture.left_out:
        note(
            "{n} not drawn: the others are the ones with the most to show.",
            n=words.count(picture.left_out, "more lane is", "more lanes are"),
        )
    if result.range == "all":
        for end in ("from", "to"):
            st.query_params.pop(end, None)
        st.rerun()
    if isinstance(result.range, list | tuple) and len(result.range) == 2:
        st.query_params.update({"from": str(int(result.range[0])), "to": str(int(result.range[1]))})
        st.rerun()
    if result.mark is not None and 0 <= int(result.mark) < len(picture.targets):
        return picture.targets[int(result.mark)]
    return None


def style() -> None:
    st.html(f"<style>{(_HERE / 'style.css').read_text(encoding='utf-8')}</style>")
