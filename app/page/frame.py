"""Around every view: opens the warehouse, and shows what to do if there is none or it cannot be read."""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Collection
from contextvars import ContextVar
from pathlib import Path
from typing import Any, NoReturn

import streamlit as st

from app import access, clock, words
from app.page.address import arrive, link
from app.page.saying import note, panel, title
from app.page.time_range import keep_zone
from app.queries import Questions, WarehouseError, asked_tables, opened, opened_for_visitor
from app.words import Html, fill
from rebalance_audit import __version__

ENVIRONMENT_NAME = "REBALANCE_AUDIT_WAREHOUSE"
LOOKS_AGAIN_S = 1
_log = logging.getLogger(__name__)
_drawn: ContextVar[tuple[Any, set[str]] | None] = ContextVar("drawn", default=None)
"""Of the page that is being drawn, the place above it, and the tables that it asked so far."""
_HERE = Path(__file__).parents[1]


def warehouse_location() -> str | None:
    """From `-- --warehouse W` of the command line, else from the environment."""
    arguments = sys.argv[1:]
    for i, argument in enumerate(arguments):
        if argument == "--warehouse" and i + 1 < len(arguments):
            return arguments[i + 1]
        if argument.startswith("--warehouse="):
            return argument.partition("=")[2]
    return os.environ.get(ENVIRONMENT_NAME) or None


def fragment(function: Callable[..., None], *, run_every: float | None = None) -> Callable[..., None]:
    """A part of a page that runs alone when something in it changes, or every so many seconds. What goes wrong in it is
    shown in our words, in its place: the rest of the page stays."""

    @functools.wraps(function)
    def guarded(*given: Any, **named: Any) -> None:
        try:
            function(*given, **named)
        except WarehouseError as error:
            _part_broken(str(error))
        except Exception as error:
            _log.exception("a part of a page failed")
            if _over_damage():
                st.rerun()
            _part_broken(_our_fault("this part of the page", error, "a part of a page failed"))

    return st.fragment(guarded, run_every=run_every)  # type: ignore[no-any-return]


def _part_broken(why: str) -> None:
    panel(fill("<p><b>This part of the page cannot be shown.</b> {why}</p>", why=words.with_code(why)))


def _our_fault(where: str, error: Exception, logged: str) -> str:
    return (
        f"The fault is ours: it is in {where} of rebalance-audit {__version__} ({type(error).__name__}), not in the "
        "warehouse, of which every table can be read. The other pages work. Choose another time or subject, and report "
        f"it with the lines after `{logged}` in the server's log."
    )


def follow() -> None:
    """New versions are shown without a reload while somebody reads; until then the page stays as it is.

    A page that is just being built shows what is newest anyway: to start it anew would forget what was clicked on it.
    """
    _look_again(_newest())


@st.fragment(run_every=LOOKS_AGAIN_S)
def _look_again(shown: tuple[Any, ...] | None) -> None:
    """`shown`: what was newest when the page was built."""
    if _newest() not in (None, shown):
        st.rerun()


def _newest() -> tuple[Any, ...] | None:
    """None where there is no warehouse, or where it cannot be read: the page itself says so."""
    location = warehouse_location()
    try:
        return None if location is None else opened_for_visitor(location).newest()
    except WarehouseError:
        return None


def run(chosen: Any) -> None:
    """The chosen view. What goes wrong in it is shown in our words; its details go only to the server's log."""
    arrive(chosen.url_path)
    keep_zone()
    place = st.container()
    with asked_tables() as asked:
        token = _drawn.set((place, asked))
        try:
            chosen.run()
        except WarehouseError as error:
            broken("The warehouse cannot be read.", str(error))
        except Exception as error:
            _log.exception("a page failed")
            if _over_damage():
                st.rerun()
            broken("This page could not be shown.", _our_fault("this page", error, "a page failed"))
        finally:
            _drawn.reset(token)
        with place:
            _damage(asked)


def stop() -> NoReturn:
    """Ends the page here, with what could not be read above it and the way out below: after `st.stop` nothing is drawn
    any more."""
    if (drawn := _drawn.get()) is not None:
        with drawn[0]:
            _damage(drawn[1])
        account()
    st.stop()


def _over_damage() -> bool:
    """Whether a table turned out to be damaged, without which the page may stand."""
    location = warehouse_location()
    try:
        return location is not None and opened_for_visitor(location).found_damage()
    except WarehouseError:
        return False


def _damage(asked: Collection[str]) -> None:
    """Lists which of the tables that the page asked could not be read, above everything else, so that missing tables
    are not taken for empty ones."""
    location = warehouse_location()
    try:
        found = opened_for_visitor(location).damaged(asked) if location is not None else {}
    except WarehouseError:
        return  # the page itself says so
    if found:
        which = "A table" if len(found) == 1 else f"{len(found):,} tables"
        panel(
            fill(
                "<p><b>{which} cannot be read.</b> What rests on it is not known here, and not zero.</p>", which=which
            ),
            *[
                fill(
                    "<p>{name}{holds} {why}.</p>",
                    name=words.code(name),
                    holds=f" ({words.HOLDS[name]})" if name in words.HOLDS else "",
                    why=words.with_code(why.removeprefix(f"{name} ")),
                )
                for name, why in found.items()
            ],
            fill("<p><code>rebalance-audit doctor -w {w}</code> looks at every table.</p>", w=location),
        )


def phone_navigation(views: list[Any]) -> None:
    """The same pages as above, for a screen on which Streamlit folds them away; elsewhere the style sheet hides it. One
    element, since each one costs every click on every screen; `palette.js` opens them, with the time of the address."""
    links = [fill('<a class="ra-menu" href="./{v}">{t}</a>', v=view.url_path, t=view.title) for view in views]
    st.html(fill('<nav class="ra-pages" aria-label="Menu">{links}</nav>', links=words.join(links, " ")))


def gate() -> None:
    """Stops the page for visitors who must log in first, and for those whom no team and no list of auditors names."""
    if access.rules() is None:
        return
    if not access.is_logged_in():
        title("Log in to see your groups")
        st.button("Log in", type="primary", on_click=st.login)
        st.stop()
    here = access.visitor()
    if here.teams is not None and not here.teams:
        title("Your account belongs to no team")
        panel(
            fill("<p>You are logged in as {n}.</p>", n=words.code(here.name, 80)),
            Html("<p>Whoever keeps the settings file can add you to a team's members, or to the auditors.</p>"),
        )
        st.button("Log out", on_click=st.logout)
        st.stop()


def account() -> None:
    """Who is logged in, and the way out."""
    if access.rules() is not None:
        who = access.visitor()
        role = "auditor, sees all" if who.teams is None else ", ".join(sorted(who.teams))
        with st.container(horizontal=True, horizontal_alignment="right", key="account"):
            note("{n} ({r})", n=words.name(who.name, 60), r=words.name(role, 60))
            st.button("Log out", type="tertiary", on_click=st.logout)


def reader() -> Questions:
    """The warehouse, or a page that says what is missing and what to do, and nothing after it."""
    location = warehouse_location()
    if location is None:
        broken(
            "No warehouse was given.",
            "Start the app with `rebalance-audit ui --warehouse FOLDER`, or set REBALANCE_AUDIT_WAREHOUSE.",
        )
    try:
        found = opened_for_visitor(location)
        found.refresh(clock.now_ms())
    except WarehouseError as error:
        opened.cache_clear()
        broken("The warehouse cannot be read.", str(error))
    return found


def reader_with_groups() -> Questions:
    """Like `reader`, but shows a page of its own where nothing has been audited yet."""
    found = reader()
    if found.group_count() or (found.sight is not None and found.connect_groups()):  # a team may have connectors alone
        return found
    if found.unread("gold.group"):
        return found  # what the other tables hold is worth showing
    if found.sight is not None:
        title("None of your team's groups is here yet")
        panel(
            Html("<p>Groups appear once their cluster's evidence was collected; other teams' groups are not shown.</p>")
        )
        stop()
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
                "<p>Read what a cluster wrote down:<br><code>rebalance-audit import FOLDER --warehouse {w}</code></p>"
                "<p>or what a live one writes:<br><code>rebalance-audit collect -b HOST:PORT --warehouse {w}</code></p>"
                "<p>then:<br><code>rebalance-audit run --warehouse {w}</code></p>",
                w=found.location,
            ),
        )
    stop()


def broken(what: str, why: str) -> NoReturn:
    title(what)
    panel(fill("<p>{why}</p>", why=words.with_code(why)), Html("<p>Nothing was changed: this app only reads.</p>"))
    stop()


def not_known(
    kind: str,
    found_id: str | None,
    cluster_id: str | None,
    view: str,
    unread: str | None = None,
    beside: Callable[[], None] = lambda: None,
) -> NoReturn:
    """Where the address names none of a kind, or one that is not there; `view` lists those that are. `unread`: the
    table that would hold it, where that cannot be read; then `beside` shows what other tables say of it."""
    title(f"Which {kind}?")
    if unread is not None:
        panel(
            fill(
                "<p>Whether {kind} {id} exists is not known: {table} cannot be read.</p>",
                kind=kind,
                id=words.code(found_id or "", 80),
                table=unread,
            )
        )
        beside()
    elif found_id:
        panel(
            fill(
                "<p>Nothing is known of {kind} {id} in cluster {c}.</p>",
                kind=kind,
                id=words.code(found_id, 80),
                c=words.code(cluster_id, 60),
            ),
            Html(
                "<p>It may be spelt differently, or its evidence was not collected: see Trust for what was not "
                "seen.</p>"
            ),
        )
    else:
        panel(fill("<p>The address names no {kind}. Choose one.</p>", kind=kind))
    link(f"All {kind}s" if view == "home" else f"All {view}", view)
    stop()


def style() -> None:
    st.html(f"<style>{(_HERE / 'style.css').read_text(encoding='utf-8')}</style>")
