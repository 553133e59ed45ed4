"""The buttons beside an incident: what one reader answers, the next one sees; a silence without a reason is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.queries import Questions
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.alerts.incidents import T_MS, an_incident

SCRIPT = """
import os
from app import access, hands, page
from app.queries import opened
from tests.alerts.incidents import an_incident
page.follow()
hands.answers(opened(os.environ["REBALANCE_AUDIT_WAREHOUSE"], access.SEES_ALL), an_incident(1), is_over=False)
"""
OVER = SCRIPT.replace("is_over=False", "is_over=True")

PICTURE = """
import streamlit as st
if st.button("a mark"):
    st.html("opened")
"""


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    Warehouse.open(tmp_path / "w", create=True)
    monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", str(tmp_path / "w"))
    monkeypatch.setattr("app.clock.now_ms", lambda: T_MS)
    return tmp_path / "w"


def page(script: str = SCRIPT) -> AppTest:
    at = AppTest.from_string(script, default_timeout=60).run()
    assert not at.exception
    return at


def said(at: AppTest) -> str:
    return " ".join(each.value for each in at.html)


def pressed(at: AppTest, label: str, *texts: str) -> AppTest:
    (button,) = [b for b in at.button if label in b.label]
    form = [t for t in at.text_input if t.form_id == button.form_id] if button.form_id else []
    for field, text in zip(form, texts, strict=True):
        field.set_value(text)
    button.click()
    at.run()
    assert not at.exception
    return at


def test_what_one_reader_answers_the_next_one_sees(location: Path) -> None:
    pressed(page(), "I am on it", "<b>anna</b>", "rolling back")
    second = pressed(page(), "I am on it", "ben", "")
    assert "Acknowledged by &lt;b&gt;anna&lt;/b&gt; at 2025-11-21" in said(second)
    assert "rolling back; also by ben." in said(second)


def test_a_press_counts_although_another_reader_answered_since_the_page_was_shown(
    location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page that looks again for what is new must not forget what was pressed on it."""
    anna, ben = page(), page()
    pressed(anna, "I am on it", "anna", "rolling back")
    monkeypatch.setattr("app.clock.now_ms", lambda: T_MS + 1)
    pressed(ben, "I am on it", "ben", "asking the team")
    assert "rolling back; also by ben (asking the team)." in said(ben)
    assert "rolling back; also by ben (asking the team)." in said(anna.run())


def test_a_click_counts_although_something_new_is_there_since_the_page_was_shown(location: Path) -> None:
    """What was clicked on a picture is known to one run only: one more would forget it."""
    ben = page(SCRIPT + PICTURE)
    pressed(page(), "I am on it", "anna", "rolling back")
    assert "rolling back" not in said(ben)
    pressed(ben, "a mark")
    assert "rolling back" in said(ben)
    assert "opened" in said(ben)


def test_two_who_silence_at_once_are_both_kept_and_the_second_reads_who_was_first(
    location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, ben = page(), page()
    pressed(anna, "Send no alerts", "anna", "planned")
    monkeypatch.setattr("app.clock.now_ms", lambda: T_MS + 1)
    pressed(ben, "Send no alerts", "<i>ben</i>", "a drill")
    kept = Questions.open(location).responses()
    assert sorted((r.by, r.reason) for r in kept) == [("<i>ben</i>", "a drill"), ("anna", "planned")]
    assert "anna was first: alerts silenced by anna until 2025-11-21 15:03:11 UTC: planned." in said(ben)
    assert "was first" not in said(ben.run())


def test_a_silence_is_set_with_a_reason_only_and_can_be_lifted(location: Path) -> None:
    refused = pressed(page(), "Send no alerts", "anna", " ")
    assert "The reason is empty" in said(refused)
    silenced = pressed(page(), "Send no alerts", "anna", "planned")
    assert "Alerts silenced by anna until 2025-11-21 15:03:11 UTC: planned." in said(silenced)
    assert [b.label for b in silenced.button if "Lift" in b.label] == ["Lift the silence"]  # it names no id
    lifted = pressed(silenced, "Lift the silence")
    assert "silenced" not in said(lifted)


def test_an_incident_that_is_over_needs_no_answer_but_a_silence_can_be_lifted(location: Path) -> None:
    assert not page(OVER).button
    pressed(page(), "Send no alerts", "anna", "planned")
    over = page(OVER)
    assert [b.label for b in over.button] == ["Lift the silence"]
    assert "silenced" not in said(pressed(over, "Lift the silence"))


def test_who_reads_looks_again_when_somebody_answered(location: Path) -> None:
    reader = Questions.open(location)
    before = reader.newest()
    pressed(page(), "I am on it", "anna", "")
    assert reader.newest() != before
    (kept,) = reader.responses()
    assert (kept.by, kept.incident_id) == ("anna", an_incident(1).incident_id)
