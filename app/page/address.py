"""The address holds the whole state: what it says, what changes it, what links to it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo

import streamlit as st

from app import words
from app.answers.rows import Span
from app.charts import Target
from app.queries import HOUR_MS

PRESETS_MS = {"1 h": HOUR_MS, "6 h": 6 * HOUR_MS, "24 h": 24 * HOUR_MS, "7 d": 168 * HOUR_MS, "all": None}


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


def _short(text: str) -> str:
    return words.name(text, 60)


def choice_in_address(
    label: str,
    name: str,
    options: list[str],
    placeholder: str = "all",
    say: Callable[[str], str] = _short,
    otherwise: str | None = None,
) -> str | None:
    """One of the options; `otherwise` where the address names none of them."""
    now = param(name)
    st.session_state[f"address-{name}"] = now if now in options else otherwise
    return st.selectbox(
        label,
        options,
        key=f"address-{name}",
        placeholder=placeholder,
        on_change=_into_address,
        args=(name,),
        format_func=say,
    )


def group_in_address(label: str, groups: list[tuple[str, str]]) -> tuple[str, str]:
    """One of these (cluster, group), the first where the address names none of them."""
    named = (param("cluster"), param("group"))
    now = next((g for g in groups if g == named), groups[0])
    if len(groups) > 1:
        st.session_state["address-group"] = now

        def change() -> None:
            cluster_id, group_id = st.session_state["address-group"]
            st.query_params.update(address(cluster=cluster_id, group=group_id))

        st.selectbox(
            label,
            groups,
            key="address-group",
            on_change=change,
            format_func=lambda g: f"{words.name(g[1], 50)} @ {words.name(g[0], 40)}",
        )
    return now


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
    """A link to a view with its whole state. The label is plain text.

    A `page_link` from a page to itself shows what it should but leaves the address as it was (Streamlit 1.67): a reload
    or a pasted address would show something else. There it is a button that changes the address.
    """
    if view == st.session_state.get("view"):
        st.session_state["links"] += 1
        st.button(
            words.markdown(label),
            key=f"link-{st.session_state['links']}",
            type="tertiary",
            on_click=st.query_params.from_dict,
            args=(address(**params),),
        )
    else:
        st.page_link(f"views/{view}.py", label=words.markdown(label), query_params=address(**params))


def go(view: str, **params: str | int | None) -> None:
    st.switch_page(f"views/{view}.py", query_params=address(**params))


def open_target(target: Target | None, cluster_id: str) -> None:
    """The page of a mark that was clicked."""
    if target is not None:
        view, found = target
        go(view, cluster=cluster_id, **{view: found})


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
