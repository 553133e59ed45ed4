"""The address holds the whole state of a page: these functions read it, change it and make links."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote, urlencode, urlsplit

import streamlit as st

from app import words
from app.answers.rows import MarkRow
from app.charts import Target
from app.page.script import script
from app.page.time_range import carried, set_since, switch
from app.words import Html, fill

_visit = st.components.v2.component(
    "rebalance_audit_visit",
    html="<span></span>",
    js=script("visit.js"),
    isolate_styles=False,
)

_arrive = st.components.v2.component(
    "rebalance_audit_arrive",
    html="<span></span>",
    js=script("arrive.js"),
    isolate_styles=False,
)

_FETCHED_AHEAD = ("Selectbox", "DownloadButton")


def arrive(view: str) -> None:
    """At the begin of each run, with the page that it shows. Of a page that was not there before, the browser checks
    the address: whoever clicks early sees late what the page before wrote into its own."""
    state = st.session_state
    if state.get("view") != view:
        asked = urlencode(st.query_params.to_dict())
        state["arrival"] = {"view": view, "asked": asked, "number": state.get("arrival", {}).get("number", 0) + 1}
        state["view"] = view
    _arrive(data={**state["arrival"], "ahead": _scripts_ahead()}, key="arrive")


@functools.cache
def _scripts_ahead() -> list[str]:
    """The names, with their hashes, of Streamlit's scripts that a page fetches with its first element of a kind."""
    folder = Path(st.__file__).parent / "static" / "static" / "js"
    return [file.name for kind in _FETCHED_AHEAD for file in sorted(folder.glob(f"{kind}.*.js"))]


UNKNOWN_PAGE = "unknown-page"
"""The name of a page that the address of this session asked for and that there is not, in the session's state."""


def unknown_page(known: Collection[str]) -> str | None:
    """The name in the address, if no page has it. Streamlit removes the name of a page that it found, so a name that
    was unknown once is kept for the following runs."""
    named = unquote(urlsplit(st.context.url or "").path.rstrip("/").rpartition("/")[2]).strip()
    elsewhere = {*known, str(st.get_option("server.baseUrlPath")).strip("/")}
    if named and "/" not in named and named not in elsewhere:
        st.session_state[UNKNOWN_PAGE] = named
    found: str | None = st.session_state.get(UNKNOWN_PAGE)
    return found


def param(name: str) -> str | None:
    return st.query_params.get(name) or None


def put_param(name: str, value: str) -> None:
    """Into the address; an empty value takes the name out of it."""
    if value:
        st.query_params[name] = value
    else:
        st.query_params.pop(name, None)


def _into_address(name: str) -> None:
    put_param(name, str(st.session_state[f"address-{name}"] or ""))


# The address is the only truth: each run sets the widget from it, and a change of the widget goes into it.


def text_in_address(label: str, name: str, placeholder: str) -> str:
    st.session_state[f"address-{name}"] = param(name) or ""
    return st.text_input(label, key=f"address-{name}", placeholder=placeholder, on_change=_into_address, args=(name,))


def short(text: str) -> str:
    return words.name(text, 60)


def choice_in_address(
    label: str,
    name: str,
    options: list[str],
    placeholder: str = "all",
    say: Callable[[str], str] = short,
    otherwise: str | None = None,
) -> str | None:
    """One of the options; `otherwise` where the address names none of them, which is said if it names another."""
    now = param(name)
    st.session_state[f"address-{name}"] = now if now in options else otherwise
    chosen: str | None = st.selectbox(
        label,
        options,
        key=f"address-{name}",
        placeholder=placeholder,
        on_change=_into_address,
        args=(name,),
        format_func=say,
    )
    if now is not None and now not in options:
        is_not_here(now)
    return chosen


def is_not_here(*named: str | None) -> None:
    said = " @ ".join(words.name(each, 40) for each in named if each)
    st.html(fill('<p class="ra-note">{named}, which the address names, is not here.</p>', named=said))


def group_in_address(label: str, groups: list[tuple[str, str]]) -> tuple[str, str]:
    """One of these (cluster, group): the first that is as the address names it. Where none is, the first of all, and
    that is said."""
    cluster_id, group_id = param("cluster"), param("group")
    found = [g for g in groups if cluster_id in (None, g[0]) and group_id in (None, g[1])]
    now = (found or groups)[0]
    if not found:
        is_not_here(group_id, cluster_id)
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
    chosen = now if now in options else options[0]
    switch(label, [(option, {name: option}) for option in options], options.index(chosen))
    return chosen


def address(**params: str | int | None) -> dict[str, str]:
    """An address with the time and zone of this page, unless `params` name others."""
    named = {k: str(v) for k, v in params.items() if v is not None}
    kept = carried()
    if named.keys() & {"from", "last"}:
        kept = {k: v for k, v in kept.items() if k == "zone"}
    return named | {k: v for k, v in kept.items() if k not in named}


def link(label: str, view: str, **params: str | int | None) -> None:
    """A link to a view with its whole state. The label is plain text."""
    links(anchor(label, view, **params))


def links(*anchors: Html) -> None:
    """Links side by side, one element of HTML. Ten of Streamlit's own, labels of Markdown, cost a click on their page
    five times as much, and from a page to itself they leave the address as it was (1.67)."""
    if anchors:
        st.html(fill('<p class="ra-links">{all}</p>', all=words.join(list(anchors), " ")), width="content")


def go(view: str, **params: str | int | None) -> NoReturn:
    """Opens that page instead of this one."""
    _visit(data={"href": href(view, **params)}, key=f"visit-{view}")
    st.stop()


def href(view: str, **params: str | int | None) -> str:
    """For HTML and components of ours: relative to any page."""
    return f"{'./' if view == 'home' else view}?{urlencode(address(**params))}"


def whole_address(view: str, **params: str) -> str:
    """For what is copied elsewhere: Streamlit gives the address of a page without its query."""
    return f"{(st.context.url or '').rpartition('/')[0]}/{view}?{urlencode(params)}"


def anchor(label: str, view: str, **params: str | int | None) -> Html:
    """A link within `st.html`; `palette.js` opens it without a reload."""
    return fill('<a class="ra-go" href="{h}">{label}</a>', h=href(view, **params), label=label)


def open_target(target: Target | None, cluster_id: str, marks: Sequence[MarkRow] = ()) -> None:
    """The page of a mark that was clicked; of a deploy or change, this page since then."""
    if target is None:
        return
    view, found = target
    if view != "since":
        go(view, cluster=cluster_id, **{view: found})
    elif (mark := next((m for m in marks if m.mark_id == found), None)) is not None:
        set_since(mark)
        st.rerun()
