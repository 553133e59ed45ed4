"""Rows of Arrow tables, whether they are few or many."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from rebalance_audit.warehouse import arrow_tables
from rebalance_audit.warehouse.arrow_tables import distinct, rows_in_order


def some_rows(count: int) -> pa.Table:
    by_chance = random.Random(count)
    return pa.table(
        {
            "cluster_id": [by_chance.choice(["a", "b", None]) for _ in range(count)],
            "place": pa.array([by_chance.choice([1, 2, None]) for _ in range(count)], pa.int32()),
            "marks": [[at] for at in range(count)],
        }
    )


@pytest.mark.parametrize("few", [0, 500])
@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_each_row_is_there_once(count: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow_tables, "_FEW_ROWS", few)
    rows = some_rows(count)
    found = distinct(rows, ["place", "cluster_id"])
    listed = list(zip(rows["place"].to_pylist(), rows["cluster_id"].to_pylist(), strict=True))
    assert found.schema == rows.select(["place", "cluster_id"]).schema
    values = [tuple(row.values()) for row in found.to_pylist()]
    assert len(values) == len(set(values))
    assert set(values) == set(listed)


def test_rows_come_in_the_order_of_their_places() -> None:
    by_chance, rows = random.Random(3), some_rows(12)
    orders = [[], [0], [5, 4], list(range(12)), [11, *range(11)], [*range(4), 7, *range(4, 7), *range(8, 12)]]
    orders += [by_chance.sample(range(12), by_chance.randint(1, 12)) for _ in range(40)]
    for order in orders:
        found = rows_in_order(rows, np.array(order, np.int64))
        assert found.schema == rows.schema
        assert found.to_pylist() == [rows.to_pylist()[at] for at in order]
