"""The numbers of docs/measured.md that the golden captures can give are those they give."""

from __future__ import annotations

from pathlib import Path

from tests.captures import CAPTURES
from tests.timings import samples, table

MEASURED = Path(__file__).parents[1] / "docs" / "measured.md"


def test_the_page_shows_what_the_golden_captures_give() -> None:
    assert table(sample for capture in CAPTURES for sample in samples(capture)) in MEASURED.read_text()
