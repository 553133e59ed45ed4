"""docs/support.md: a row for every client library, and in every cell a count or that it was not tried."""

from __future__ import annotations

import re
from pathlib import Path

from infra.lab import jars, programs
from tests.captures import GOLDEN
from tests.support import MEASURES, NAMES, NOT_TRIED, ORDER, Count, groups_of, page

PAGE = Path(__file__).parents[1] / "docs" / "support.md"


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_page_has_a_table_for_each_measure_and_a_row_for_each_library() -> None:
    text = PAGE.read_text()
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [measure.title for measure in MEASURES]
    first_cells = [row[0] for row in rows(text) if row[0]]
    assert first_cells == [NAMES.get(library, library) for library in ORDER] * len(MEASURES)
    assert set(programs.LIBRARIES) < set(ORDER)


def test_every_cell_is_a_count_or_says_that_it_was_not_tried() -> None:
    for row in rows(PAGE.read_text()):
        for cell in row[1:] if row[0] else []:
            assert re.fullmatch(rf"\d+ of \d+|{NOT_TRIED}", cell), row


def test_the_columns_are_versions_that_the_lab_can_start() -> None:
    for row in rows(PAGE.read_text()):
        if not row[0]:
            assert set(row[1:]) <= set(jars.versions())


def test_a_group_counts_for_every_library_that_took_part_in_it() -> None:
    assert groups_of(GOLDEN / "4.3.0/kafka_go_beside_java") == {"java": {"torn-app"}, "kafka-go": {"torn-app"}}
    assert groups_of(GOLDEN / "4.3.0/connect_worker_lost") == {"connect": {"connect-lab"}}


def test_what_was_not_tried_is_not_nothing_of_nothing() -> None:
    text = page({("kafkajs", "4.3.0"): [Count(3, 4), *[Count()] * 4]}, ["4.3.0"], 1)
    kafkajs = [row for row in rows(text) if row[0] == "kafkajs"]
    assert [row[1] for row in kafkajs] == ["3 of 4", *[NOT_TRIED] * 4]
