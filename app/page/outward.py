"""Ways to pages of other tools, by the templates of the settings file (`app.links`)."""

from __future__ import annotations

import json
import os

import streamlit as st

from app import words
from app.answers.rows import Span
from rebalance_audit.domain.links import filled

ENVIRONMENT_LINKS = "REBALANCE_AUDIT_LINKS"
"""Titles and templates as JSON, from `rebalance-audit ui`, which has validated them."""


def outward(span: Span, **about: str | int | None) -> None:
    """The links whose template needs nothing but `about` and the time."""
    values = {**about, "from_ms": span.from_ms, "to_ms": span.to_ms}
    for title, template in json.loads(os.environ.get(ENVIRONMENT_LINKS) or "[]"):
        if (address := filled(template, values)) is not None:
            st.link_button(words.markdown(f"{title} \u2197"), address, type="tertiary")
