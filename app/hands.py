"""What a reader can do about an incident: acknowledge it, or silence its alerts. Everybody sees who did."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile

import streamlit as st

from app import access, clock, page, words
from app.queries import Questions, WarehouseError
from app.words import fill
from rebalance_audit.domain.detect.wording import shown
from rebalance_audit.domain.incidents.responses import (
    Response,
    ResponseRefused,
    Standing,
    Subject,
    acknowledgement,
    silence,
    silenced_words,
    standing,
    standing_words,
)

HOUR_MS = 3_600_000
ENDS = {"1 h": HOUR_MS, "4 h": 4 * HOUR_MS, "24 h": 24 * HOUR_MS, "7 d": 168 * HOUR_MS}
_NAME = "hands-name"


def badge(stands: Standing) -> str:
    """`acknowledged`, `silenced`, both or nothing: for a line of a list."""
    first = "" if stands.acknowledged is None else f"acknowledged by {words.name(stands.acknowledged.by, 30)}"
    return ", ".join(each for each in (first, "" if stands.silenced is None else "silenced") if each)


def answers(reader: Questions, incident: Subject, *, is_over: bool) -> None:
    """What was answered, and two small forms: not for one that is over, since no alert about it follows. A silence in
    force can be lifted all the same. To be called once per incident of a page."""
    stands = reader.standing(incident, clock.now_ms())
    for said in standing_words(stands):
        st.html(
            fill('<p class="ra-note">{s}.</p>', s=words.utc_in(words.visible(said[0].upper() + said[1:]), page.zone()))
        )
    if (why := st.session_state.pop(f"hands-said-{incident.incident_id}", None)) is not None:
        page.panel(fill("<p>{w}</p>", w=words.utc_in(words.visible(why), page.zone())))
    if not reader.may_answer:
        return
    if is_over and stands.silenced is None:
        return
    with st.container(horizontal=True):
        if not is_over:
            with st.popover("Acknowledge"):
                _acknowledge(reader, incident)
        if stands.silenced is None:
            with st.popover("Silence its alerts"):
                _silence(reader, incident)
        else:
            st.button(
                _lift_words(incident, stands.silenced),
                key=f"hands-lift-{incident.incident_id}",
                on_click=_lift,
                args=(reader, incident, stands.silenced),
            )


def _lift_words(incident: Subject, silenced: Response) -> str:
    """A silence may be of a pattern that takes in more than this incident."""
    if silenced.pattern == incident.incident_id:
        return "Lift the silence"
    return f"Lift the silence of {words.markdown(words.name(silenced.pattern, 40))}"


def _who(key: str) -> None:
    """Asks who they are, where nobody is logged in."""
    if access.visitor().name is None:
        st.text_input("Your name", value=st.session_state.get(_NAME, ""), key=key)


# A press is handled before the page is built again. By then the page may have run again because of another reader's
# answer, or the form may be gone, and the press with it.


def _acknowledge(reader: Questions, incident: Subject) -> None:
    form = f"hands-ack-{incident.incident_id}"
    with st.form(form, border=False):
        _who(f"{form}-by")
        st.text_input("What is being done (may be empty)", key=f"{form}-reason")
        st.form_submit_button("I am on it", on_click=_keep, args=(reader, incident, form, _acknowledged))


def _acknowledged(incident: Subject, form: str, by: str, now: int) -> Response:
    return acknowledgement(incident, by, now, st.session_state[f"{form}-reason"].strip() or None)


def _silence(reader: Questions, incident: Subject) -> None:
    form = f"hands-silence-{incident.incident_id}"
    with st.form(form, border=False):
        _who(f"{form}-by")
        st.selectbox("For", list(ENDS), key=f"{form}-ends")
        st.text_input("Why nobody needs to hear of it", key=f"{form}-reason")
        st.form_submit_button("Send no alerts about it", on_click=_keep, args=(reader, incident, form, _silenced))


def _silenced(incident: Subject, form: str, by: str, now: int) -> Response:
    until = now + ENDS[st.session_state[f"{form}-ends"]]
    return silence(incident.incident_id, by, now, until, st.session_state[f"{form}-reason"], incident.cluster_id)


def _lift(reader: Questions, incident: Subject, silenced: Response) -> None:
    now = clock.now_ms()
    by = access.visitor().name or st.session_state.get(_NAME) or "a reader of the app"
    lifted = silence(silenced.pattern or "", by, now, now, "lifted in the app", silenced.cluster_id)
    try:
        reader.respond(lifted)
    except (ResponseRefused, WarehouseError) as error:
        st.session_state[f"hands-said-{incident.incident_id}"] = str(error)


def _keep(reader: Questions, incident: Subject, form: str, made: Callable[[Subject, str, str, int], Response]) -> None:
    now = clock.now_ms()
    by = access.visitor().name or st.session_state.get(f"{form}-by", "")
    try:
        response = made(incident, form, by, now)
        all_there_are = reader.respond(response)
        st.session_state[_NAME] = by.strip()
    except (ResponseRefused, WarehouseError) as error:
        st.session_state[f"hands-said-{incident.incident_id}"] = str(error)
        return
    before = standing(incident, takewhile(lambda each: each != response, all_there_are), now)
    if response.kind == "silenced" and before.silenced is not None:  # there was none when the form was offered
        said = f"{shown(before.silenced.by, 60)} was first: {silenced_words(before)}. Yours is kept too."
        st.session_state[f"hands-said-{incident.incident_id}"] = said
