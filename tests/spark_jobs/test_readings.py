"""Readings that follow each other become one, and the ledger says the same of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import readings
from spark_jobs.coverage import ledger, ledger_rows
from spark_jobs.readings import joined

Row = dict[str, Any]


def a_reading(start: int | None, end: int | None, count: int | None = None, **others: Any) -> Row:
    return {
        "cluster_id": "c", "source": "record:t-0", "read_id": f"r{start}", "kind": "record", "from_position": start,
        "to_position": end, "from_at_ms": start, "to_at_ms": end,
        "item_count": (end or 0) - (start or 0) if count is None else count, "problem": None, "problem_code": None,
        "problem_position": None, "landing": f"collect-{end or 0:06d}",
    } | others  # fmt: skip


def test_readings_that_follow_each_other_are_one() -> None:
    found = joined([a_reading(5, 9), a_reading(0, 5), a_reading(9, 12, to_at_ms=None)])
    assert found is not None
    assert [(r["from_position"], r["to_position"], r["item_count"], r["to_at_ms"]) for r in found] == [(0, 12, 12, 9)]
    assert found[0]["landing"] == "collect-000012"


def test_gaps_repeats_and_problems_stay() -> None:
    rows = [
        a_reading(0, 5), a_reading(6, 9), a_reading(9, 12), a_reading(9, 12),
        a_reading(12, 15, problem="cut short", problem_code="unreadable"), a_reading(15, 16),
    ]  # fmt: skip
    found = joined(rows)
    assert found is not None
    assert sorted((r["from_position"], r["to_position"]) for r in found) == [
        (0, 5), (6, 9), (9, 12), (9, 12), (12, 15), (15, 16),
    ]  # fmt: skip


def test_a_repeat_of_what_was_joined_asks_for_all_rows() -> None:
    """Of the joined one alone nobody can say whether it was read twice or otherwise."""
    found = joined([a_reading(0, 5), a_reading(5, 9)])
    assert found is not None
    assert joined([*found, a_reading(5, 9)]) is None


def test_of_readings_without_news_the_last_one_stays() -> None:
    rows = [a_reading(5, 5, landing=f"collect-{n}") for n in (2, 3, 1)]
    found = joined([*rows, a_reading(None, None, landing="collect-1")])
    assert found is not None
    assert sorted((r["from_position"] or 0, r["landing"]) for r in found) == [(0, "collect-1"), (5, "collect-3")]


_PIECES = st.builds(
    lambda source, start, size, count, problem, landing: a_reading(
        start, start + size, count, source=source, kind=source[:3], problem=problem, problem_code=problem,
        problem_position=start, read_id=f"{landing}-{start}-{size}-{count}", landing=f"collect-{landing}",
        from_at_ms=start if count else None,
    ),
    st.sampled_from(["log:n/server.log#1", "record:t-0"]),
    st.integers(0, 8), st.integers(0, 3), st.sampled_from([1, 2, None]),
    st.sampled_from([None, None, None, "unreadable"]), st.integers(1, 4),
)  # fmt: skip


@given(st.lists(_PIECES, max_size=12), st.data())
def test_the_ledger_is_that_of_all_readings_however_they_come(rows: list[Row], data: st.DataObject) -> None:
    known: list[Row] = []
    left = data.draw(st.permutations(rows))
    seen: list[Row] = []
    while left:
        size = data.draw(st.integers(1, len(left)))
        new, left = left[:size], left[size:]
        seen += new
        found = joined([*known, *new])
        known = found if found is not None else joined(seen) or []
    assert _in_order(ledger_rows(known, {})) == _in_order(ledger_rows(rows, {}))


def _in_order(rows: list[Row]) -> list[str]:
    return sorted(repr(sorted(row.items(), key=str)) for row in rows)


def test_a_run_reads_the_readings_that_are_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = Warehouse.open(str(tmp_path / "w"), create=True)
    asked: list[int] = []

    def counted(every: Any) -> Any:
        listed = list(every)
        asked.append(len(listed))
        return joined(listed)

    monkeypatch.setattr(readings, "joined", counted)
    for number in range(4):
        row = a_reading(5 * number, 5 * number + 5, read_id=str(number))
        warehouse.append("bronze.source", rows_to_table("bronze.source", [row]))
        (line,) = ledger(warehouse)
        assert (line["from_position"], line["to_position"], line["item_count"]) == (0, 5 * number + 5, 5 * number + 5)
    assert asked == [1, 2, 2, 2]
