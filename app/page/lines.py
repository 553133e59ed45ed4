"""Lines that open in place: `lines.js`."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.page.address import href
from app.page.script import script

ADVICE = "What to do:"
"""The name of the fact in which commands stand between backticks."""
_draw = st.components.v2.component(
    "rebalance_audit_lines",
    html='<div class="ra-list"></div>',
    js=script("lines.js"),
    isolate_styles=False,
)


def lines(rows: Sequence[dict[str, object]], alt: str, key: str, heads: Sequence[str] = ()) -> None:
    """`rows` as `line` makes them; `heads` over subject, cause, the two right-hand columns, or none."""
    if rows:
        _draw(data={"rows": list(rows), "alt": alt, "heads": list(heads), "advice": ADVICE}, key=key)


def line(
    key: str,
    tone: str,
    sign: str,
    cells: tuple[str, str, str, str],
    facts: Sequence[tuple[str, str]],
    links: Sequence[dict[str, object]],
    under: str = "",
) -> dict[str, object]:
    """`cells`: subject, cause, and two short ones. `facts`, (name, text), and `links` are seen when it is open. `under`
    the cause: how it stands."""
    subject, cause, cost, age = cells
    return {
        "key": key,
        "tone": tone,
        "sign": sign,
        "subject": subject,
        "cause": cause,
        "cost": cost,
        "age": age,
        "under": under,
        "facts": list(facts),
        "links": list(links),
    }


def line_link(label: str, view: str, is_main: bool = False, **params: str | int | None) -> dict[str, object]:
    """The main one is what `o` opens."""
    return {"label": label, "href": href(view, **params), "isMain": is_main}
