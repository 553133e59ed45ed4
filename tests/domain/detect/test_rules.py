"""A rule is a sentence, a function, a table of cases and a page in the runbook, or it does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rebalance_audit.domain.detect import GROUP_RULES, REASSIGNMENT_RULES, TABLE_RULES

ROOT = Path(__file__).resolve().parents[3]
RULES = {**GROUP_RULES, **TABLE_RULES, **REASSIGNMENT_RULES}


def _pages() -> dict[str, str]:
    text = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (\S+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_runbook_has_a_heading_for_each_rule_and_for_nothing_else() -> None:
    assert list(_pages()) == list(RULES)


def test_the_runbook_begins_with_a_link_to_each_rule() -> None:
    head = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8").partition("\n## ")[0]
    assert set(re.findall(r"\[(\w+)\]\(#\w+\)", head)) == set(RULES)


@pytest.mark.parametrize("rule_id", RULES)
def test_each_page_says_what_it_means_how_to_check_what_to_do_and_when_it_is_silent(rule_id: str) -> None:
    page = _pages()[rule_id]
    assert re.match(r"\n\n\*\*[^*]+\*\*", page)
    for part in ("- *Check:* ", "- *Do:* ", "- *Silent:* "):
        assert part in page, f"{rule_id} lacks {part}"


@pytest.mark.parametrize("rule_id", RULES)
def test_each_rule_is_a_sentence_and_says_when_it_is_silent(rule_id: str) -> None:
    doc = RULES[rule_id].__doc__ or ""
    assert doc.split("\n\n")[0].rstrip().endswith(".")
    assert "Silent" in doc or "Info only" in doc, f"{rule_id} does not say when it is silent"
