"""What a reader can do about an incident: acknowledge it, or silence its alerts. Everybody sees who did."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from app import access, clock, page, words
from app.queries import Questions, WarehouseError
from app.words import fill
from rebalance_audit.domain.incidents.responses import (
    Response,
    ResponseRefused,
    Standing,
    Subject,
    acknowledgement,
    silence,
    standing_words,
)

HOUR_MS = 3_600_000
ENDS = {"1 h": HOUR_MS, "4 h": 4 * HOUR_MS, "24 h": 24 * HOUR_MS, "7 d": 168 * HOUR_MS}
_NAME = "hands-name"


def badge(stands: Standing) -> str:
    """`acknowledged`, `silenced`, both or nothing: for a line of a list."""
    first = "" if stands.acknowledged is None else f"acknowledged by {words.name(stands.acknowledged.by, 30)}"
    return ", ".join(each for each in (first, "" if stands.silenced is None else "silenced") if each)


def answers(reader: Questions, incident: Subject) -> None:
    """What was answered, and two small forms. To be called once per incident of a page."""
    stands = reader.standing(incident, clock.now_ms())
    for said in standing_words(stands):
        st.html(
            fill('<p class="ra-note">{s}.</p>', s=words.utc_in(words.visible(said[0].upper() + said[1:]), page.zone()))
        )
    if (why := st.session_state.pop(f"hands-refused-{incident.incident_id}", None)) is not None:
        page.panel(fill("<p>{w}</p>", w=words.visible(why)))
    if not reader.may_answer:
        return
    with st.container(horizontal=True):
        with st.popover("Acknowledge"):
            _acknowledge(reader, incident)
        if stands.silenced is None:
            with st.popover("Silence its alerts"):
                _silence(reader, incident)
        else:
            st.button(
                f"Lift the silence of {words.markdown(words.name(stands.silenced.pattern, 40))}",
                key=f"hands-lift-{incident.incident_id}",
                on_click=_lift,
                args=(reader, incident, stands.silenced),
            )


def _who() -> str:
    """Who is logged in, else who they say they are."""
    known = access.visitor().name
    return known if known is not None else st.text_input("Your name", value=st.session_state.get(_NAME, ""))


def _acknowledge(reader: Questions, incident: Subject) -> None:
    with st.form(f"hands-ack-{incident.incident_id}", border=False):
        by = _who()
        reason = st.text_input("What is being done (may be empty)")
        if st.form_submit_button("I am on it"):
            _keep(reader, incident, by, lambda now: acknowledgement(incident, by, now, reason.strip() or None))


def _silence(reader: Questions, incident: Subject) -> None:
    with st.form(f"hands-silence-{incident.incident_id}", border=False):
        by = _who()
        ends = st.selectbox("For", list(ENDS))
        reason = st.text_input("Why nobody need hear of it")
        if st.form_submit_button("Send no alerts about it"):
            _keep(
                reader,
                incident,
                by,
                lambda now: silence(incident.incident_id, by, now, now + ENDS[ends], reason, incident.cluster_id),
            )


def _lift(reader: Questions, incident: Subject, silenced: Response) -> None:
    now = clock.now_ms()
    by = access.visitor().name or st.session_state.get(_NAME) or "a reader of the app"
    lifted = silence(silenced.pattern or "", by, now, now, "lifted in the app", silenced.cluster_id)
    try:
        reader.respond(lifted)
    except (ResponseRefused, WarehouseError) as error:
        st.session_state[f"hands-refused-{incident.incident_id}"] = str(error)


def _keep(reader: Questions, incident: Subject, by: str, made: Callable[[int], Response]) -> None:
    try:
        reader.respond(made(clock.now_ms()))
        st.session_state[_NAME] = by.strip()
    except (ResponseRefused, WarehouseError) as error:
        st.session_state[f"hands-refused-{incident.incident_id}"] = str(error)
    st.rerun()
