"""Filters of a list, all of them one element: `filters.js`. The address holds what is chosen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from app.page.address import is_not_here, param, put_param, short
from app.page.script import script

_KEY = "filters"
_draw = st.components.v2.component(
    "rebalance_audit_filters",
    html='<div class="ra-filters" role="group" aria-label="Filters"></div>',
    js=script("filters.js"),
    isolate_styles=False,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of some options, or all."""

    name: str
    """In the address."""
    label: str
    options: Sequence[str]
    say: Callable[[str], str] = short


def filters(choices: Sequence[Choice], flags: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """What the address names of each choice, None where that is none of its options; and "1" of each flag that is set.
    `flags`: labels by the name in the address. Streamlit's own select boxes cost a click on their page five times as
    much."""
    flags = flags or {}
    named = {c.name: param(c.name) for c in choices} | {name: param(name) for name in flags}
    now = {c.name: named[c.name] if named[c.name] in c.options else None for c in choices}
    now |= {name: "1" if named[name] == "1" else None for name in flags}
    data = {
        "all": "all",
        "choices": [
            {"name": c.name, "label": c.label, "options": [[option, c.say(option)] for option in c.options]}
            for c in choices
        ],
        "flags": [{"name": name, "label": label} for name, label in flags.items()],
        "now": {name: value for name, value in now.items() if value is not None},
    }
    _draw(data=data, key=_KEY, on_chosen_change=partial(_into_address, frozenset(now)))
    for c in choices:
        if named[c.name] is not None and now[c.name] is None:
            is_not_here(named[c.name])
    return now


def _into_address(names: Collection[str]) -> None:
    """Before the run that it begins, so that the run shows it."""
    chosen = st.session_state[_KEY].get("chosen")
    if not isinstance(chosen, Mapping) or chosen.get("name") not in names:
        return
    put_param(chosen["name"], str(chosen.get("value") or ""))
