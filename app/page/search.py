"""A search box that searches while one types, and keeps its text in the address."""

from __future__ import annotations

import streamlit as st

from app.page.script import script

_LONGEST = 200
_draw = st.components.v2.component(
    "rebalance_audit_search",
    html='<input class="ra-search" type="search" autocomplete="off" spellcheck="false">',
    js=script("search.js"),
    isolate_styles=False,
)


def search(label: str, name: str, placeholder: str) -> str:
    """What is searched for now."""
    value = st.query_params.get(name) or ""
    data = {"value": value, "label": label, "placeholder": placeholder}
    result = _draw(data=data, key=f"search-{name}", on_text_change=lambda: None)
    if isinstance(result.text, str):
        value = result.text[:_LONGEST]
        if value:
            st.query_params[name] = value
        else:
            st.query_params.pop(name, None)
    return value.strip()
