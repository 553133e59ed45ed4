"""The time line on a page: a drag becomes the span of the address, a clicked mark its target."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from app import charts, words
from app.page.saying import note
from app.page.script import script
from app.page.time_range import set_span, show_all, zone_name

_HERE = Path(__file__).parents[1]

_draw = st.components.v2.component(
    "rebalance_audit_time_line",
    html='<div class="time-line"><canvas></canvas><div class="tip" hidden></div><div class="scrub" hidden></div>'
    '<button type="button" class="png" title="Save this picture">PNG</button></div>',
    css=(_HERE / "time_line.css").read_text(encoding="utf-8"),
    js=script("time_line.js"),
)


def time_line(picture: charts.TimeLine, alt: str, key: str) -> charts.Target | None:
    """Draws it. A drag becomes the span of the address; the target of a clicked mark is given back."""
    result = _draw(
        data=picture.data(zone_name(), alt), key=key, on_range_change=lambda: None, on_mark_change=lambda: None
    )
    if picture.left_out:
        note(
            "{n} not drawn: the others are the ones with the most to show.",
            n=words.count(picture.left_out, "more line is", "more lines are"),
        )
    if result.range == "all":
        show_all()
        st.rerun()
    if isinstance(result.range, list | tuple) and len(result.range) == 2:
        set_span(int(result.range[0]), int(result.range[1]))
        st.rerun()
    if result.mark is not None and 0 <= int(result.mark) < len(picture.targets):
        return picture.targets[int(result.mark)]
    return None
