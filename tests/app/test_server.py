"""What `rebalance-audit ui` does before it serves."""

import gc
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from streamlit.web import cli

from app import access, server
from app.answers import ranges
from app.answers.rows import FindingFilter
from app.queries import opened, opened_for_visitor
from app.server import ask_first_clicks, ask_homes_questions
from rebalance_audit.warehouse.catalog import Catalog
from tests.app import gold_rows
from tests.app.test_access import RULES


@pytest.fixture
def location(tmp_path: Path) -> Iterator[str]:
    gold_rows.write(tmp_path / "w", many=0)
    access.rules.cache_clear()
    opened.cache_clear()
    yield str(tmp_path / "w")
    access.rules.cache_clear()
    opened.cache_clear()


@pytest.mark.parametrize("with_log_in", [False, True])
def test_the_first_reader_who_sees_all_finds_homes_answers(
    location: str, monkeypatch: pytest.MonkeyPatch, with_log_in: bool
) -> None:
    if with_log_in:
        monkeypatch.setenv(access.ENVIRONMENT_ACCESS, json.dumps(RULES))
    ask_homes_questions(location)
    if with_log_in:
        auditor = access.Visitor(name="eve@example.org", may_answer=False)
        monkeypatch.setattr("app.access.visitor", lambda: auditor)

    def refused(*_: object) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(Catalog, "query", refused)
    reader = opened_for_visitor(location)
    reader.refresh()
    assert reader.group_count() == 6
    assert reader.clusters()


def test_what_a_click_on_home_leads_to_is_known_before(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ask_homes_questions(location)
    ask_first_clicks(location)

    def refused(*_: object) -> None:
        raise AssertionError("asked again")

    monkeypatch.setattr(Catalog, "query", refused)
    reader = opened(location, access.SEES_ALL)
    whole = reader.span()
    assert whole is not None
    assert len(reader.groups(ranges.preset(ranges.of_home(reader.open_at_home(whole), whole), whole))) == 6
    assert reader.finding_sums(FindingFilter()).all_count
    assert reader.checks()


def test_no_run_of_a_page_looks_at_all_that_was_there_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    monkeypatch.delenv("REBALANCE_AUDIT_WAREHOUSE", raising=False)
    monkeypatch.setattr(cli, "main", lambda arguments, **_: given.extend(arguments))
    try:
        server.main(["--server.port", "1"])
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()
    assert given[given.index("--runner.postScriptGC") + 1] == "false"
    assert given[-2:] == ["--server.port", "1"]
