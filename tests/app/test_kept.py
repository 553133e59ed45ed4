"""Answers are kept until a table that they rest on changes, and what two ask at once is worked out once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.queries import Questions
from app.queries.kept import Answer, KeptAnswers
from rebalance_audit.warehouse.just_in import JustInRows, changed
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows

GROUPS = "SELECT count(*) AS n FROM gold.group"
FINDINGS = "SELECT count(*) AS n FROM gold.finding"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return gold_rows.write(tmp_path / "w", many=0)


def _counting(reader: Questions, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []
    ask = reader._ask

    def noted(sql: str, *rest: Any) -> pa.Table:
        asked.append(sql)
        return ask(sql, *rest)

    monkeypatch.setattr(reader, "_ask", noted)
    return asked


def _publish_again(warehouse: Warehouse, table: str) -> None:
    """One row of the table more."""
    warehouse.append(table, warehouse.read(table).slice(0, 1))
    versions = warehouse.published()
    warehouse.publish({**versions, table: warehouse.version(table) or 0})


def test_a_publication_forgets_what_rests_on_the_tables_that_it_changes(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = Questions(warehouse)
    reader.refresh()
    asked = _counting(reader, monkeypatch)
    (groups,), (findings,) = reader.rows(GROUPS), reader.rows(FINDINGS)
    built = reader.built(("both",), lambda: reader.rows(GROUPS)[0]["n"] + reader.rows(FINDINGS)[0]["n"])
    _publish_again(warehouse, "gold.finding")
    reader.refresh()
    assert reader.rows(GROUPS) == [groups]
    assert asked == [GROUPS, FINDINGS]
    assert reader.rows(FINDINGS) == [{"n": findings["n"] + 1}]
    assert asked == [GROUPS, FINDINGS, FINDINGS]
    assert reader.built(("both",), lambda: reader.rows(GROUPS)[0]["n"] + reader.rows(FINDINGS)[0]["n"]) == built + 1


def test_what_is_published_after_damage_is_asked_again_whole(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that counted a table as empty must not outlive the note that it could not be read."""
    reader = Questions(warehouse)
    reader.refresh()
    folder = Path(warehouse.location, "gold", "group")
    files = {file: file.read_bytes() for file in folder.glob("*.parquet")}
    for file in files:
        file.unlink()
    assert reader.rows(GROUPS) == [{"n": 0}]
    assert reader.unread("gold.group") == "gold.group"
    for file, content in files.items():
        file.write_bytes(content)
    _publish_again(warehouse, "gold.finding")
    reader.refresh()
    assert reader.rows(GROUPS)[0]["n"] > 0
    assert reader.unread("gold.group") is None


def test_two_who_ask_the_same_at_once_share_one_answer() -> None:
    kept, began, may_end, made = KeptAnswers(4), threading.Event(), threading.Event(), []

    def make() -> Answer:
        made.append(1)
        began.set()
        assert may_end.wait(60)
        return Answer(len(made), frozenset({"gold.group"}))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(kept.get, "q", make)
        assert began.wait(60)
        second = pool.submit(kept.get, "q", make)
        may_end.set()
        assert first.result(60) == second.result(60)
    assert made == [1]


def test_who_asks_after_news_does_not_get_an_answer_that_was_begun_before() -> None:
    kept, began, may_end = KeptAnswers(4), threading.Event(), threading.Event()

    def old() -> Answer:
        began.set()
        assert may_end.wait(60)
        return Answer("old", frozenset({"gold.group"}))

    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(kept.get, "q", old)
        assert began.wait(60)
        kept.forget({"gold.finding"})
        assert kept.get("q", lambda: Answer("new", frozenset({"gold.group"}))).value == "new"
        may_end.set()
        assert slow.result(60).value == "old"
    assert kept.get("q", old).value == "new"


def test_whose_question_another_thread_could_not_answer_asks_for_himself() -> None:
    kept, began, may_end = KeptAnswers(4), threading.Event(), threading.Event()

    def fails() -> Answer:
        began.set()
        assert may_end.wait(60)
        raise KeyboardInterrupt  # as Streamlit ends a run that is not wanted any more: no Exception

    def well() -> Answer:
        return Answer("well", frozenset({"gold.group"}))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(kept.get, "q", fails)
        assert began.wait(60)
        second = pool.submit(kept.get, "q", well)
        may_end.set()
        assert second.result(60).value == "well"
        assert isinstance(first.exception(60), KeyboardInterrupt)
    assert kept.get("q", well).value == "well"


def test_what_rests_on_no_table_is_forgotten_at_any_news_and_the_oldest_makes_room() -> None:
    kept = KeptAnswers(2)
    for name in "abc":
        kept.get(name, lambda: Answer(0, frozenset({"gold.group"})))
    assert kept.get("a", lambda: Answer(1, frozenset())).value == 1
    kept.forget({"gold.group", "gold.finding"})
    assert kept.get("a", lambda: Answer(2, frozenset())).value == 2
    assert kept.get("c", lambda: Answer(3, frozenset())).value == 0


def test_a_row_that_is_just_in_changes_every_table_with_its_key(warehouse: Warehouse) -> None:
    rebalances = warehouse.read("gold.rebalance")
    some, others = (JustInRows(rows={"gold.rebalance": rebalances.slice(i, 1)}) for i in (0, 1))
    of_rebalances = {"gold.rebalance", "gold.rebalance_member", "gold.movement", "gold.standstill"}
    assert changed(some, some) == set()
    assert changed(some, others) == changed(JustInRows(), some) == of_rebalances
    assert changed(JustInRows(gone={"incident_id": [("c", "i")]}), JustInRows()) == {"gold.incident"}
