"""Which groups' marks the news may change, and which of their records and known marks must be read for it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.commits import concerned
from spark_jobs.stages.stage import Run

EVENTS = "silver.group_event"


def news(*rows: tuple[int, str, int]) -> pa.Table:
    """(partition, group, first offset)"""
    listed = [("c", OFFSETS_TOPIC, partition, group, first) for partition, group, first in rows]
    return pa.table([list(column) for column in zip(*listed, strict=True)], schema=concerned.CONCERNED)


def records(context: Run, of: pa.Table) -> set[tuple[int, str, int]]:
    found = concerned.records_behind(context, of)
    rows = [tuple(row[name] for name in ("partition", "group_id", "offset")) for row in found.to_pylist()]
    assert len(rows) == len(set(rows))
    return set(rows)


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`loud` has a record at every tenth offset up to 990 in partition 3, `quiet` one at 5 there, `moved` one in each
    of two partitions."""
    monkeypatch.setattr(concerned, "_FEW_ROWS", 0)
    monkeypatch.setattr(concerned, "_BACK", 50)
    opened = Warehouse.open(tmp_path, create=True)
    places = [(3, "loud", offset) for offset in range(0, 1_000, 10)]
    places += [(3, "quiet", 5), (3, "moved", 700), (4, "moved", 2)]
    rows = [
        {
            "cluster_id": "c", "group_id": group, "ref": f"{partition}@{offset}", "source_kind": "record",
            "topic": OFFSETS_TOPIC, "partition": partition, "offset": offset,
        }
        for partition, group, offset in places
    ]  # fmt: skip
    opened.append(EVENTS, rows_to_table(EVENTS, rows))
    return Run(warehouse=opened, open_spark=lambda: pytest.fail("not asked for"))


def test_of_a_long_history_the_last_records_are_read(context: Run) -> None:
    assert records(context, news((3, "loud", 983))) == {(3, "loud", at) for at in (940, 950, 960, 970, 980, 990)}


def test_a_record_far_behind_is_found_and_the_others_are_not_read_twice(context: Run) -> None:
    found = records(context, news((3, "loud", 983), (3, "quiet", 984)))
    assert found == {(3, "loud", at) for at in (940, 950, 960, 970, 980, 990)} | {(3, "quiet", 5)}


def test_a_group_in_two_partitions_needs_its_last_record_in_each(context: Run) -> None:
    assert records(context, news((3, "moved", 710), (4, "moved", 900))) == {(3, "moved", 700), (4, "moved", 2)}


def test_the_last_record_before_the_news_bounds_the_known_marks() -> None:
    of = news((3, "loud", 983), (3, "new", 990), (4, "moved", 9), (3, "moved", 700))
    places = [
        (3, "loud", 970),
        (3, "loud", 980),
        (3, "loud", 983),
        (3, "loud", 990),
        (3, "moved", 650),
        (4, "moved", 2),
    ]
    known = pa.table(
        {
            "cluster_id": ["c"] * len(places), "topic": [OFFSETS_TOPIC] * len(places),
            "partition": [place[0] for place in places], "group_id": [place[1] for place in places],
            "offset": [place[2] for place in places],
        }
    )  # fmt: skip
    least = concerned.least_of(concerned.last_records(of, known))
    assert (least.column, least.of) == ("last_offset", "group_id")
    # What ends at 980 is in an earlier stretch; of a new group nothing is; of two partitions the lower one counts.
    assert least.by_value == {"loud": 981, "new": 0, "moved": 3}
