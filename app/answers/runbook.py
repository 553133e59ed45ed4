"""The runbook's text on one rule, as it stands in docs/runbook.md."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_APP = Path(__file__).parents[1]
_PLACES = (_APP / "runbook.md", _APP.parent / "docs" / "runbook.md")
"""In a wheel, and in a checkout."""
_LINK_OF_THE_DOCS = re.compile(r"\s*\(\[[^\]]*\]\((?!https?:)[^)]*\)\)|\[([^\]]*)\]\((?!https?:)[^)]*\)")
"""The other pages are not in the app: there a link in a sentence is its words, and one in brackets is left out."""


@lru_cache(maxsize=1)
def _sections() -> dict[str, str]:
    text = next((place.read_text(encoding="utf-8") for place in _PLACES if place.is_file()), "")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    sections = zip(parts[1::2], parts[2::2], strict=True)
    return {head.strip().upper(): _LINK_OF_THE_DOCS.sub(r"\1", body.strip()) for head, body in sections}


def rule_name(rule_id: str) -> str:
    """`Storm` for RB001: the first words of its section; the id alone where nothing is known of it."""
    found = re.match(r"\*\*(.+?)(?:[:;,.(]|\*\*)", (runbook(rule_id) or "").replace("\n", " "))
    return found[1].strip() if found else rule_id


def rule_title(rule_id: str) -> str:
    """`RB001 Storm`."""
    name = rule_name(rule_id)
    return rule_id if name == rule_id else f"{rule_id} {name}"


def runbook(rule_id: str) -> str | None:
    """Markdown without its heading and without links to other docs; None where the runbook has no such section."""
    return _sections().get(rule_id.upper())
