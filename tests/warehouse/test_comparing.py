"""Rows are paired by their key, and those that differ in any column, however deep, are found."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from rebalance_audit.warehouse.comparing import differing_rows

SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("number", pa.float64()),
        ("things", pa.list_(pa.struct([("name", pa.string()), ("marks", pa.list_(pa.int64()))]))),
    ]
)


def table(*rows: tuple[str, float | None, Any]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def found(stored: pa.Table, arrived: pa.Table) -> tuple[list[int], list[int]] | None:
    places = differing_rows(stored, arrived, ["key"])
    return None if places is None else (places[0].tolist(), places[1].tolist())


def test_a_value_inside_of_a_list_makes_another_row() -> None:
    same, other = [{"name": "x", "marks": [1, 2]}], [{"name": "x", "marks": [1, 3]}]
    stored = table(("a", 1.0, same), ("b", 1.0, same), ("gone", None, None))
    assert found(stored, table(("new", None, []), ("b", 1.0, other), ("a", 1.0, same))) == ([1, 2], [0, 1])


def test_null_is_no_empty_list_and_nan_no_other_value_than_nan() -> None:
    stored = table(("a", float("nan"), None), ("b", None, None))
    assert found(stored, table(("a", float("nan"), None), ("b", None, []))) == ([1], [1])


def test_nan_is_no_other_value_however_deep_it_is() -> None:
    schema = pa.schema([("key", pa.string()), ("costs", pa.list_(pa.struct([("seconds", pa.float64())])))])
    stored, same, other = (
        pa.Table.from_pylist([{"key": "a", "costs": [{"seconds": of} for of in costs]}], schema)
        for costs in ((float("nan"), 1.0), (float("nan"), 1.0), (float("nan"), 2.0))
    )
    assert found(stored, same) == ([], [])
    assert found(stored, other) == ([0], [0])


def test_where_a_key_occurs_twice_nothing_is_said() -> None:
    assert found(table(("a", 1.0, None), ("a", 2.0, None)), table()) is None


def test_nothing_differs_from_nothing() -> None:
    assert found(table(), table()) == ([], [])


def test_rows_by_chance_differ_as_in_python() -> None:
    random = Random(5)

    def some() -> pa.Table:
        keys = random.sample(range(30), random.randrange(30))
        return table(*((str(key), random.choice([None, 1.0, 2.0]), random.choice([None, [], [{}]])) for key in keys))

    for _ in range(50):
        stored, arrived = some(), some()
        before, after = (list(map(repr, rows.to_pylist())) for rows in (stored, arrived))
        gone = [at for at, row in enumerate(before) if row not in after]
        assert found(stored, arrived) == (gone, [at for at, row in enumerate(after) if row not in before])
