"""Rows of groups become each group's objects, however the rows are parted."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from rebalance_audit.domain.kinds import MovementKind, ResourceType
from rebalance_audit.domain.model import ConnectTask, Rebalance, to_row
from rebalance_audit.domain.model.rebalances import Movement
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from spark_jobs import histories
from spark_jobs.engine import parcel

REBALANCES, TASKS = "silver.measured_rebalance", "silver.connect_task"
KINDS = {REBALANCES: Rebalance, TASKS: ConnectTask}


def _rebalance(group_id: str, place: int) -> Rebalance:
    moved = Movement(
        resource_type=ResourceType.PARTITION, resource="orders-0", kind=MovementKind.MOVED, pause_estimate_ms=place
    )
    return Rebalance(cluster_id="c", rebalance_id=f"c/{group_id}/{place}", group_id=group_id, movements=(moved,))


def _task(group_id: str) -> ConnectTask:
    return ConnectTask(
        cluster_id="c", group_id=group_id, resource_type=ResourceType.TASK, connector="files", task=0, state="RUNNING",
        from_ms=1,
    )  # fmt: skip


@pytest.mark.parametrize("packed", [(), ("movements",)])
@pytest.mark.parametrize("long_rows", [1, 3, 1_000])
@pytest.mark.parametrize("seed", range(5))
def test_each_group_has_all_of_its_objects_in_order(
    monkeypatch: pytest.MonkeyPatch, seed: int, long_rows: int, packed: tuple[str, ...]
) -> None:
    monkeypatch.setattr(histories, "_LONG_ROWS", long_rows)
    monkeypatch.setattr(histories, "_PORTION_ROWS", 4)
    draw = random.Random(seed)
    expected = {
        ("c", group_id): [_rebalance(group_id, place) for place in range(count)]
        for group_id, count in (("loud", 12), ("other", 3), ("quiet", 1))
    }
    rows = [to_row(r) | {"place": place} for of_group in expected.values() for place, r in enumerate(of_group)]
    if seed % 2:
        draw.shuffle(rows)
    parcels = []
    while rows:
        count = draw.randint(1, 5)
        parcels.append((REBALANCES, rows_to_table(REBALANCES, rows[:count])))
        rows = rows[count:]
    parcels += [(TASKS, rows_to_table(TASKS, [to_row(_task(group_id))])) for group_id in ("loud", "task")]
    draw.shuffle(parcels)
    of_bucket = [
        row
        for table, part in parcels
        for batch in part.combine_chunks().to_batches()
        for row in parcel(0, 0, table, batch).to_pylist()
    ]
    found = dict(histories._groups_in(of_bucket, KINDS, {}, packed))
    assert found.keys() == {*expected, ("c", "task")}
    for place, of_group in expected.items():
        objects = found[place][REBALANCES]
        assert [r.rebalance_id for r in objects] == [r.rebalance_id for r in of_group]
        assert [tuple(r.movements) for r in objects] == [r.movements for r in of_group]
    assert {place: known[TASKS] for place, known in found.items() if known[TASKS]} == {
        ("c", group_id): [_task(group_id)] for group_id in ("loud", "task")
    }


def test_a_parcel_of_one_group_alone_is_a_part_of_a_long_history() -> None:
    rows = rows_to_table(REBALANCES, [to_row(_rebalance("loud", place)) for place in range(3)])
    assert histories._only_place(rows) is None
    many = pa.concat_tables([rows] * 400)
    assert histories._only_place(many) == ("c", "loud")
    other = rows_to_table(REBALANCES, [to_row(_rebalance("other", 0))])
    assert histories._only_place(pa.concat_tables([many, other])) is None
