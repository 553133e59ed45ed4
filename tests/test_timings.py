"""The numbers of docs/measured.md that the golden captures can give are those they give."""

from __future__ import annotations

from pathlib import Path

from tests.timings import MEASURED, samples, table

PAGE = Path(__file__).parents[1] / "docs" / "measured.md"


def test_the_page_shows_what_the_golden_captures_give() -> None:
    assert table(sample for capture in MEASURED for sample in samples(capture)) in PAGE.read_text()
