"""Ctrl-K: any group, incident, connector or topic by a part of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st

from app import words
from app.answers.rows import Place
from app.page.address import href
from app.page.frame import fragment, warehouse_location
from app.page.script import script
from app.queries import WarehouseError, opened_for_visitor

_HERE = Path(__file__).parents[1]
MOST = 30
LONGEST_QUERY = 200
_VIEWS = {
    "group": "group",
    "incident": "incident",
    "connector": "connect",
    "topic": "reassignments",
    "reader": "group",
}
_KINDS = {"topic": "topic, moved", "reader": "topic"}
_draw = st.components.v2.component(
    "rebalance_audit_palette",
    html='<button type="button">Search \u00b7 Ctrl K</button><dialog aria-label="Search"><input type="text" '
    'role="combobox" aria-expanded="true" aria-controls="ra-found" aria-label="Name of a group, incident, connector or '
    'topic" placeholder="Name of a group, incident, connector or topic"><ol id="ra-found" role="listbox" '
    'aria-label="Found"></ol><p></p></dialog>',
    css=(_HERE / "palette.css").read_text(encoding="utf-8"),
    js=script("drawing.js", "palette.js"),
)


@fragment
def palette() -> None:
    """Asks the warehouse while somebody types; no other part of the page runs again."""
    query = str(st.session_state.get("palette", {}).get("query") or st.session_state.get("palette-query", ""))
    query = query[:LONGEST_QUERY]
    st.session_state["palette-query"] = query
    found = _found(query)
    data = {
        "query": query,
        "found": [_row(p) for p in found],
        "note": f"The first {MOST}: type more of the name." if len(found) >= MOST else "",
    }
    _draw(data=data, key="palette", on_query_change=lambda: None)


def _found(query: str) -> list[Place]:
    location = warehouse_location()
    if not query or location is None:
        return []
    try:
        return opened_for_visitor(location).places(query, MOST)
    except WarehouseError:
        return []  # the page itself says so


def _row(p: Place) -> dict[str, Any]:
    params: dict[str, str | None] = {"cluster": p.cluster_id}
    if p.kind == "incident":
        params["incident"] = p.found_id
    elif p.kind in ("group", "connector", "reader"):
        params["group"] = p.found_id
    else:
        params["search"] = p.found_id
    return {
        "kind": _KINDS.get(p.kind, p.kind),
        "name": words.cut(words.visible(p.name), 90),
        "where": (f"{words.name(p.found_id, 40)} \u00b7 " if p.kind == "reader" else "") + words.name(p.cluster_id, 30),
        "href": href(_VIEWS[p.kind], **params),
    }
