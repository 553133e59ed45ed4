"""What the stage detect works out of all evidence, part by part or at once."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import Mock

import pyarrow.parquet as pq
import pytest

from rebalance_audit.domain.detect import CLOCK_APART_MS, ContradictionCount, UndecodedCount
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from spark_jobs import clock_steps
from spark_jobs.stages import detect
from tests.steps import steps_in

TOPIC = "__consumer_offsets"


def a_record(partition: int, offset: int, at_ms: int) -> dict[str, Any]:
    return {
        "cluster_id": "c", "source_kind": "record", "topic": TOPIC, "partition": partition, "offset": offset,
        "at_ms": at_ms, "ref": f"record:{TOPIC}-{partition}@{offset}",
    }  # fmt: skip


@pytest.mark.parametrize(("rows_at_once", "few_rows"), [(1, 0), (2, 0), (1_000, 0), (1_000, 1_000)])
def test_steps_of_clocks_are_found_however_many_records_are_looked_at_once(
    rows_at_once: int, few_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock_steps, "_ROWS_AT_ONCE", rows_at_once)
    monkeypatch.setattr(clock_steps, "_FEW_ROWS", few_rows)
    back_ms = CLOCK_APART_MS + 1
    batches = [
        [a_record(7, 1, 100 * back_ms), a_record(8, 5, 50 * back_ms), a_record(9, 3, 10)],
        [a_record(7, 2, 99 * back_ms), a_record(8, 6, 48 * back_ms), a_record(8, 7, 48 * back_ms - 1)],
    ]
    known: dict[str, Any] | None = None
    files = [str(tmp_path / f"{number}.parquet") for number in range(2)]
    for file, rows in zip(files, batches, strict=True):
        pq.write_table(rows_to_table("silver.group_event", rows), file)
        known = clock_steps.with_steps(known, [file])
    assert known is not None
    assert [(step["source"], step["back_ms"], step["before_ref"], step["ref"]) for step in known["steps"]] == [
        (f"{TOPIC}-7", back_ms, f"record:{TOPIC}-7@1", f"record:{TOPIC}-7@2"),
        (f"{TOPIC}-8", 2 * back_ms, f"record:{TOPIC}-8@5", f"record:{TOPIC}-8@6"),
    ]
    assert {(row["partition"], row["offset"], row["ref"]) for row in known["last"]} == {
        (partition, offset, f"record:{TOPIC}-{partition}@{offset}") for partition, offset in ((7, 2), (8, 7), (9, 3))
    }
    assert clock_steps.with_steps(known, files[:1]) is None, "a record before the last one"


def test_few_records_show_the_steps_that_many_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(7)
    known: list[dict[str, Any] | None] = [None, None]
    for number in range(30):
        file, offset = str(tmp_path / f"{number}.parquet"), 100 * number
        rows = [
            a_record(random.randrange(4), offset + n, random.randrange(10 * CLOCK_APART_MS))
            for n in range(random.randrange(9))
        ]
        lines = [{"cluster_id": "c", "source_kind": "log", "at_ms": 5, "ref": f"log:n/server.log#{number}"}]
        random.shuffle(rows)
        pq.write_table(rows_to_table("silver.group_event", [*rows, *lines]), file)
        for at, few_rows in enumerate((0, 1_000)):
            monkeypatch.setattr(clock_steps, "_FEW_ROWS", few_rows)
            known[at] = clock_steps.with_steps(known[at], [file])
        assert known[0] is not None
        assert known[1] is not None
        assert known[0]["steps"] == known[1]["steps"]
        by_place = itemgetter("cluster_id", "topic", "partition")
        assert sorted(known[0]["last"], key=by_place) == sorted(known[1]["last"], key=by_place)


def steps_with(clusters: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Of each cluster one contradiction, one record that was refused and one gap."""
    names = [f"cluster-{number}" for number in range(clusters)]
    parts = {
        "_contradictions": [
            ContradictionCount(
                cluster_id=name, group_id="orders", is_line=True, count=0, first_detail="", first_ref="", last_ref=""
            )
            for name in names
        ],
        "_undecoded": [
            UndecodedCount(cluster_id=name, source="s", reason="r", count=0, first_ref="", last_ref="")
            for name in names
        ],
        "_conflicts": [],
        "_clocks": [],
        "_clock_steps": [],
    }
    for part, rows in parts.items():
        monkeypatch.setattr(detect, part, lambda *of_run, rows=rows: rows)
    monkeypatch.setattr(detect, "ledger", lambda *of_run: [])
    context, batch = Mock(), Mock(until={"bronze.source": 0})
    return steps_in(detect, lambda: detect._evidence_findings(context, batch, {}))


def test_ten_times_the_clusters_take_ten_times_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    assert steps_with(200, monkeypatch) < 11 * steps_with(20, monkeypatch)
