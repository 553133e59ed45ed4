"""The time a page is about: in its address, kept while one walks, changed by one row of controls.

`last=24h` ends where the evidence ends and follows it; `from` and `to` stay where they are. `zone` is the reader's own
where the address names none.
"""

from __future__ import annotations

import functools
import zoneinfo
from collections.abc import Sequence
from datetime import tzinfo
from urllib.parse import urlencode

import streamlit as st

from app import words
from app.answers import ranges
from app.answers.rows import MarkRow, Span
from app.queries import HOUR_MS
from app.words import Html, fill

_TIME_PARAMS = ("from", "to", "last", "since")
_BROWSERS = "the browser's zone"


@functools.cache
def _known_zones() -> frozenset[str]:
    """Asked for with every link and line; the standard library walks some hundred folders each time."""
    return frozenset(zoneinfo.available_timezones())


def zone() -> tzinfo:
    return words.zone(zone_name())


def zone_name() -> str:
    """The zone of the address, else the one chosen before, else the browser's."""
    named = st.query_params.get("zone") or st.session_state.get("kept zone")
    return named if named in _known_zones() else st.context.timezone or "UTC"


def number_param(name: str) -> int | None:
    text = st.query_params.get(name)
    is_number = text is not None and text.isascii() and text.isdigit() and len(text) <= 15
    return int(text) if text is not None and is_number else None


def carried() -> dict[str, str]:
    """The parameters of the address that say time and zone. Every link away from the page carries them."""
    return {name: st.query_params[name] for name in (*_TIME_PARAMS, "zone") if st.query_params.get(name)}


def switch(label: str, options: Sequence[tuple[str, dict[str, str]]], chosen: int | None) -> None:
    """A few choices side by side: each with its words, and with the parameters of the address that it stands for.
    `palette.js` puts them into the address as it is when one is clicked. A choice of time replaces the time before."""
    now = st.query_params.to_dict()
    links = [
        fill(
            '<a class="ra-set" href="?{href}" data-set="{own}"{current}>{words}</a>',
            href=urlencode({k: v for k, v in now.items() if "last" not in own or k not in _TIME_PARAMS} | own),
            own=urlencode(own),
            current=Html(' aria-current="true"') if n == chosen else "",
            words=said,
        )
        for n, (said, own) in enumerate(options)
    ]
    markup = fill('<div class="ra-switch" role="group" aria-label="{l}">{all}</div>', l=label, all=words.join(links))
    st.html(markup, width="content")


def keep_zone() -> None:
    """A zone once chosen stays for the session, also over pages whose link names none."""
    if st.query_params.get("zone") in _known_zones():
        st.session_state["kept zone"] = st.query_params["zone"]
    elif "kept zone" in st.session_state:
        st.query_params["zone"] = st.session_state["kept zone"]


def span_of(whole: Span, default: str, marks: Sequence[MarkRow] = ()) -> Span:
    """The span of the address, else the one chosen before, else the default one; with controls to change it.

    What was not in the address is written into it, so that a copied link shows the same. A time or zone in it that
    cannot be understood is said.
    """
    chosen = _in_address(whole)
    odd = {n: st.query_params[n] for n in ("from", "to", "last") if chosen is None and st.query_params.get(n)}
    if (named := st.query_params.get("zone")) and named not in _known_zones():
        odd["zone"] = named
    if (since := st.query_params.get("since")) and not st.query_params.get("from"):  # a mark in the address has both
        odd["since"] = since
    if odd:
        asked = words.name("&".join(f"{n}={value}" for n, value in odd.items()), 80)
        st.html(
            fill(
                '<p class="ra-note">The address asks for {asked}, which cannot be shown: it is left out.</p>',
                asked=asked,
            )
        )
        for n in odd:
            st.query_params.pop(n, None)
    if chosen is None:
        kept: dict[str, str] = st.session_state.get("kept time", {})
        st.query_params.update(kept or {"last": default.replace(" ", "")})
        chosen = _in_address(whole) or whole
    st.session_state["kept time"] = {n: st.query_params[n] for n in _TIME_PARAMS if n in st.query_params}
    with st.container(horizontal=True, vertical_alignment="center", key="time-range"):
        _presets(whole)
        more = st.popover(_label(chosen), width="content", key="time-popover", on_change="rerun")
        if more.open:  # 600 zones are sent to nobody who does not ask
            with more:
                _from_and_to(chosen, whole)
                _since(marks)
                _zones()
    return chosen


def set_span(from_ms: int, to_ms: int) -> None:
    """Put a span that was chosen, as by a drag on a picture, into the address."""
    _forget()
    st.query_params.update({"from": str(from_ms), "to": str(to_ms)})


def set_since(mark: MarkRow) -> None:
    """From a deploy or change to where the evidence ends."""
    _forget()
    st.query_params.update({"from": str(mark.at_ms), "since": mark.mark_id})


def show_all() -> None:
    _forget()
    st.query_params["last"] = "all"


def default_span(whole: Span, last_at_ms: int | None) -> str:
    """Of one group: all of a short history, else the shortest preset that still shows the last thing that happened."""
    return "all" if whole.length_ms <= 48 * HOUR_MS else ranges.that_shows(last_at_ms, whole)


def span_words(span: Span, tz: tzinfo) -> str:
    if span.length_ms < HOUR_MS:
        ends = f"{words.instant(span.from_ms, tz)} to {words.clock(span.to_ms, tz)}"
    else:
        ends = f"{words.minute(span.from_ms, tz)} to {words.minute(span.to_ms, tz)}"
    return f"{words.duration(span.length_ms)} from {ends}"


def _forget() -> None:
    for name in _TIME_PARAMS:
        st.query_params.pop(name, None)
    st.session_state.pop("kept time", None)


def _in_address(whole: Span) -> Span | None:
    from_ms, to_ms = number_param("from"), number_param("to")
    if from_ms is not None and ((to_ms is None and whole.to_ms > from_ms) or (to_ms is not None and to_ms > from_ms)):
        return Span(from_ms=from_ms, to_ms=whole.to_ms if to_ms is None else to_ms)
    return ranges.last(st.query_params.get("last") or "", whole)


def _presets(whole: Span) -> None:
    names = [name for name, length in ranges.PRESETS_MS.items() if length is None or length < whole.length_ms]
    options = [(name, {"last": name.replace(" ", "")}) for name in names]
    last = st.query_params.get("last") or ""
    is_all = not number_param("from") and ranges.last(last, whole) == whole
    now = "all" if is_all else last
    switch("Time", options, next((n for n, (_, own) in enumerate(options) if own["last"] == now), None))


def _label(span: Span) -> str:
    tz = zone()
    start, end = words.minute(span.from_ms, tz), words.minute(span.to_ms, tz)
    if start[:10] == end[:10]:
        return words.markdown(f"{start[:16]} \u2013 {end[11:]}")
    return words.markdown(f"{start[:16]} \u2013 {end}")


def _from_and_to(span: Span, whole: Span) -> None:
    tz = zone()
    st.session_state["time-from"] = words.typed_time(span.from_ms, tz)
    st.session_state["time-to"] = words.typed_time(span.to_ms, tz)

    def change() -> None:
        ends = [words.moment(st.session_state[f"time-{end}"], tz, whole.to_ms) for end in ("from", "to")]
        if ends[0] is None or ends[1] is None or ends[0] >= ends[1]:
            st.session_state["time-odd"] = True
        else:
            set_span(ends[0], ends[1])

    st.text_input("From", key="time-from", on_change=change)
    st.text_input("To", key="time-to", on_change=change)
    if st.session_state.pop("time-odd", False):
        st.html('<p class="ra-note">Not a time that ends after it begins. Write 2026-11-21 14:00, or \u22122h.</p>')

    def last() -> None:
        text = st.session_state["time-last"].strip().lower().replace(" ", "")
        if ranges.last(text, whole) is not None:
            _forget()
            st.query_params["last"] = text
        elif text:
            st.session_state["time-last-odd"] = True

    # Never filled from here: a run that is cut short leaves the browser with the old text, which comes back as typed.
    st.text_input("Last", key="time-last", placeholder="90m, 36h, 14d", on_change=last)
    if st.session_state.pop("time-last-odd", False):
        st.html('<p class="ra-note">Not a length of time. Write 90m, 36h, 14d or all.</p>')


def _since(marks: Sequence[MarkRow]) -> None:
    if not marks:
        return
    now = st.query_params.get("since")
    # A mark of every cluster is one change to choose; the one in the address stands for its like.
    like = {(m.at_ms, m.text, m.scope): m for m in sorted(marks, key=lambda m: (-m.at_ms, m.mark_id == now))}
    newest = {m.mark_id: m for m in like.values()}
    tz = zone()
    st.session_state["time-since"] = now if now in newest else None

    def change() -> None:
        mark = newest.get(st.session_state["time-since"] or "")
        if mark is not None:
            set_since(mark)

    st.selectbox(
        "Since a deploy or change",
        list(newest),
        key="time-since",
        placeholder="choose one",
        on_change=change,
        format_func=lambda i: f"{words.minute(newest[i].at_ms, tz)[5:16]} {words.name(newest[i].text, 70)}",
    )


def _zones() -> None:
    zones = [_BROWSERS, "UTC", *sorted(_known_zones() - {"UTC", "localtime"})]
    named = st.query_params.get("zone")
    st.session_state["time-zone"] = named if named in zones else _BROWSERS

    def change() -> None:
        wanted = st.session_state["time-zone"]
        st.session_state.pop("kept zone", None)
        if wanted == _BROWSERS:
            st.query_params.pop("zone", None)
        else:
            st.query_params["zone"] = wanted

    st.selectbox("Zone", zones, key="time-zone", on_change=change)
