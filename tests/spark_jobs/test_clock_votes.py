"""Votes on clocks are the same whoever finds them, and however a record is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from rebalance_audit.domain.gather.clock_tally import REACH_MS
from rebalance_audit.domain.gather.clocks import instants_of
from rebalance_audit.domain.gather.groups import event_of_row
from rebalance_audit.domain.model import GroupRecord
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.spreading import ArrowTask, in_this_process
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.clock_votes import all_votes
from spark_jobs.day_votes import DAY_MS
from spark_jobs.node_tallies import Versions
from tests.spark_jobs.arrivals import deliver, landed

GOLDEN = (
    "eager_join_leave_kill",
    "kip848_join_leave",
    "connect_worker_lost",
    "share_group",
    "streams_standby",
    "storm",
)


@pytest.fixture(scope="module")
def decoded(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folders = [Path("tests/golden/4.3.0") / name for name in GOLDEN]
    warehouse = Warehouse.open(tmp_path_factory.mktemp("warehouse"), create=True)
    deliver(warehouse, "all", landed(folders, tmp_path_factory.mktemp("scratch")))
    pipeline.run(warehouse, ["bronze", "decode"], engine="local")
    return warehouse


def versions(warehouse: Warehouse) -> Versions:
    return warehouse.version("silver.group_event"), warehouse.version("bronze.source")


def in_tasks(work: pa.Table, task: ArrowTask, out: pa.Schema) -> pa.Table:
    """A row at a time, by a task that was sent."""
    sent: ArrowTask = cloudpickle.loads(cloudpickle.dumps(task))

    def one_by_one() -> Iterator[pa.RecordBatch]:
        yield from work.to_batches(max_chunksize=1)

    return pa.Table.from_batches(list(sent(one_by_one())), out)


def test_tasks_find_the_votes_that_the_driver_finds(decoded: Warehouse) -> None:
    asked: list[int] = []

    def spread_of(byte_count: int) -> object:
        asked.append(byte_count)
        return in_tasks

    by_driver = all_votes(decoded, versions(decoded), in_this_process)
    by_tasks = all_votes(decoded, versions(decoded), spread_of)  # type: ignore[arg-type]
    assert asked == [sum(Path(file).stat().st_size for file in decoded.files("silver.group_event"))]
    assert by_tasks.readings == by_driver.readings
    assert sum(reading.clock.pair_count for reading in by_tasks.readings) > 100
    assert by_tasks.votes.days == by_driver.votes.days
    for cluster_id in by_driver.tallies:
        for day in by_driver.votes.days:
            found, expected = (votes.votes.of(cluster_id, day) for votes in (by_tasks, by_driver))
            assert found.voters == expected.voters
            assert found.answers.keys() == expected.answers.keys()
            assert Counter(found.pairs()) == Counter(expected.pairs())


def test_what_is_written_beside_records_answers_as_the_records_do(decoded: Warehouse) -> None:
    votes = all_votes(decoded, versions(decoded), in_this_process).votes
    expected: dict[tuple[str, str, int], list[tuple[object, int]]] = {}
    for row in decoded.read("silver.group_event", None, "source_kind = 'record'").to_pylist():
        event = event_of_row(row)
        assert isinstance(event, GroupRecord)
        for subject, at_ms in instants_of(event):
            assert isinstance(subject, tuple)
            expected.setdefault((row["cluster_id"], *subject[1:]), []).append((subject, at_ms))
    answered = 0
    for cluster_id in sorted({number[0] for number in expected}):
        for day in sorted(votes.days):
            for number, said in votes.of(cluster_id, day).answers.items():
                near = [
                    (subject, at_ms)
                    for subject, at_ms in expected.get((cluster_id, *number), [])
                    if abs(at_ms - day * DAY_MS - DAY_MS // 2) <= DAY_MS // 2 + REACH_MS
                ]
                assert Counter(said) == Counter(near)
                answered += bool(said)
    assert answered > 20


def test_without_lines_there_are_no_votes_to_find(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    records = [{"cluster_id": "c", "group_id": "g", "ref": "record:t-0@1", "source_kind": "record", "kind": "odd"}]
    warehouse.append("silver.group_event", rows_to_table("silver.group_event", records))
    assert all_votes(warehouse, versions(warehouse), lambda _: in_tasks).readings == []
