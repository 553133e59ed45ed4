"""The runbook's text as the app shows it."""

import re

import pytest

from app.answers.runbook import runbook
from rebalance_audit.domain.detect import GROUP_RULES, REASSIGNMENT_RULES, TABLE_RULES


@pytest.mark.parametrize("rule_id", [*GROUP_RULES, *TABLE_RULES, *REASSIGNMENT_RULES])
def test_no_link_leads_to_a_page_that_the_app_lacks(rule_id: str) -> None:
    text = runbook(rule_id)
    assert text
    assert not re.search(r"\]\((?!https?:)", text)


def test_a_link_in_brackets_is_left_out_and_one_in_a_sentence_is_its_words() -> None:
    assert "No timeout\n  ends this by itself." in (runbook("RB020") or "")
    assert "(CN003, connect.md)" in (runbook("CN006") or "")
