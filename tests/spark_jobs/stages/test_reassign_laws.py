"""The reassign stage on bronze as it might have come: cut, repeated, shuffled, killed. It needs no Spark."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rebalance_audit.domain.metadata import SourceMetadata, bronze_topic
from rebalance_audit.domain.reassign import kraft_history, reassignment_row
from rebalance_audit.domain.reassign.history import reassignment_history
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import cluster_reassignments, metadata_log
from spark_jobs.cluster_reassignments import FOUND
from spark_jobs.engine import ArrowTask, LocalEngine
from spark_jobs.metadata_log import ClusterLog
from spark_jobs.stages import reassign as stage_reassign
from spark_jobs.stages.stage import Run
from tests.domain.reassign.stories import CLUSTER, MetadataStory
from tests.spark_jobs.arrivals import rows_of


def context(warehouse: Warehouse, reached: Callable[[str], None] = lambda point: None) -> Run:
    def no_spark() -> Any:
        raise AssertionError("this stage needs no Spark")

    return Run(warehouse=warehouse, open_spark=no_spark, reached=reached)


class Bronze:
    """bronze.record as stage_bronze keeps it: each content of each node once, later ones as copies."""

    def __init__(self, place: Path) -> None:
        self.warehouse = Warehouse.open(place, create=True)
        self.seen: set[tuple[Any, ...]] = set()
        self.copies: dict[tuple[str, str, int], int] = {}

    def takes(self, sources: Sequence[SourceMetadata]) -> Bronze:
        rows = []
        for source in sources:
            topic = bronze_topic(source.snapshot)
            content = (
                source.cluster_id,
                topic,
                source.offset,
                source.timestamp_ms,
                source.key,
                source.value,
                source.node,
            )
            if content in self.seen:
                continue
            self.seen.add(content)
            place = source.cluster_id, topic, source.offset
            copy = self.copies[place] = self.copies.get(place, -1) + 1
            rows.append(
                {
                    "cluster_id": source.cluster_id, "topic": topic, "partition": 0, "offset": source.offset,
                    "copy": copy, "timestamp_ms": source.timestamp_ms, "key": source.key, "value": source.value,
                    "source": "segment", "node": source.node, "leader_epoch": source.epoch,
                    "is_control": source.is_control, "landing": "a test",
                }
            )  # fmt: skip
        self.warehouse.append("bronze.record", rows_to_table("bronze.record", rows))
        return self

    def read(self, read_id: str, to_position: int, above_majority: int | None = None) -> Bronze:
        """A row of the books, and its doubt."""
        known = {"cluster_id": CLUSTER, "source": "record:__cluster_metadata-0", "kind": "record", "landing": "a test"}
        rows = [known | {"read_id": read_id, "from_position": 0, "to_position": to_position, "item_count": 1}]
        if above_majority is not None:
            doubt = {"problem": "?", "problem_code": "above_majority", "problem_position": above_majority}
            rows.append(known | {"read_id": f"{read_id}#1", "item_count": 0} | doubt)
        self.warehouse.append("bronze.source", rows_to_table("bronze.source", rows))
        return self

    def run(self, reached: Callable[[str], None] = lambda point: None) -> Bronze:
        stage_reassign.run(context(self.warehouse, reached))
        return self

    def tables(self) -> dict[str, list[str]]:
        return {table: rows_of(self.warehouse, table) for table in stage_reassign.OUTPUTS}


def a_long_story() -> MetadataStory:
    """Everything the fold knows of, over several topics, with time between."""
    story = MetadataStory().config(4, "", "min.insync.replicas", "2").at(1_000).controller(29)
    story.topic("orders", (1, 0, 2), (1, 0, 2), (0, 2, 1), (2, 1, 0)).topic("doomed", (1, 2), (2, 1), number=2)
    story.throttle("orders", "1000", (0, 1, 2, 3, 5))
    for partition in (0, 1, 2):
        story.at(10_000 + partition).change(partition, replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))
    story.at(12_000).change(0, isr=(0, 1, 2, 3)).at(12_500).fenced(5)
    story.at(13_000).change(0, number=2, replicas=(3, 1, 2), adding=(3,), removing=(1, 2))
    story.begin().at(14_000).change(1, isr=(1, 2), leader=2).change(3, leader=1).at(14_500).end()
    story.begin().change(2, isr=(0,)).abort()
    story.at(20_000).change(0, isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), adding=(), removing=())
    story.at(21_000).change(1, replicas=(3, 5, 0, 1, 2), removing=(1, 2)).new_controller(101)
    story.at(30_000).remove_topic(2).at(200_000).no_op().at(200_500).fenced(5, is_fenced=False)
    story.topic("doomed", (0, 1), number=3).change(0, number=3, replicas=(1, 0))
    return story.at(330_000).no_op().at(900_000).no_op()


def at_once(place: Path, sources: Sequence[SourceMetadata]) -> dict[str, list[str]]:
    return Bronze(place).takes(sources).run().tables()


def test_the_rows_are_what_the_fold_of_the_whole_log_says(tmp_path: Path) -> None:
    story = a_long_story()
    bronze = Bronze(tmp_path).takes(story.sources).run()
    expected = rows_to_table("silver.reassignment", list(map(reassignment_row, story.history().reassignments)))
    found = bronze.warehouse.read("silver.reassignment")
    order = [("reassignment_id", "ascending")]
    assert found.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()
    assert {r["rule_id"] for r in bronze.warehouse.read(FOUND).to_pylist()} >= {"RA001", "RA003"}
    states = bronze.warehouse.read("silver.partition", ["topic", "partition", "replicas"]).to_pylist()
    assert {(s["topic"], s["partition"]): tuple(s["replicas"]) for s in states} == dict(story.history().replicas)


def test_any_chunks_give_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = at_once(tmp_path / "whole", a_long_story().sources)
    monkeypatch.setattr(cluster_reassignments, "RECORDS_AT_ONCE", 1)
    assert at_once(tmp_path / "cut", a_long_story().sources) == whole


class InTasks:
    """The engine of a cluster, whose tasks run here."""

    spread_count = 0

    def share(self, value: Any) -> Callable[[], Any]:
        return lambda: value

    def spread(self, work: pa.Table, task: ArrowTask, out: pa.Schema) -> pa.Table:
        self.spread_count += 1
        return LocalEngine().spread(work, task, out)


def test_tasks_that_work_out_some_clusters_each_give_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = [replace(s, cluster_id=cluster_id) for cluster_id in ("a", "b", "c") for s in a_long_story().sources]
    portions = (sources[::2], sources[1::2], [replace(sources[0], cluster_id="d")])
    here, in_tasks, engine = Bronze(tmp_path / "here"), Bronze(tmp_path / "tasks"), InTasks()
    for count, portion in enumerate(portions, 1):
        here.takes(portion).run()
        with monkeypatch.context() as patched:
            patched.setattr(metadata_log, "_ROWS_AT_ONCE", 1)
            patched.setattr(Run, "engine_for", lambda self, files: engine)
            in_tasks.takes(portion).run()
        assert in_tasks.tables() == here.tables()
        assert in_tasks.warehouse.recall("reassign")["quiet"] == here.warehouse.recall("reassign")["quiet"]
        assert engine.spread_count == min(count, 2)  # one cluster alone needs no tasks


def test_a_log_that_grows_a_few_records_at_a_time_gives_the_same_rows(tmp_path: Path) -> None:
    sources = a_long_story().sources
    bronze = Bronze(tmp_path / "grows")
    for at in range(0, len(sources), 3):
        bronze.takes(sources[at : at + 3]).run()
    assert bronze.tables() == at_once(tmp_path / "whole", sources)


@pytest.mark.parametrize("seed", range(3))
def test_any_cut_any_order_and_any_repeat_give_the_same_rows(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    sources = a_long_story().sources
    bronze = Bronze(tmp_path / "shuffled")
    cuts = sorted(dice.sample(range(1, len(sources)), 4))
    pieces = [sources[a:b] for a, b in zip([0, *cuts], [*cuts, len(sources)], strict=True)]
    dice.shuffle(pieces)
    for piece in pieces:
        bronze.takes(piece + dice.sample(sources, 2)).run()
    assert bronze.tables() == at_once(tmp_path / "whole", sources)


class Killed(Exception):
    pass


def test_killed_after_any_commit_and_run_again_gives_the_same_rows(tmp_path: Path) -> None:
    sources = a_long_story().sources
    half = len(sources) // 2
    whole = at_once(tmp_path / "whole", sources)
    for kill_at in stage_reassign.OUTPUTS:
        bronze = Bronze(tmp_path / kill_at).takes(sources[:half]).run().takes(sources[half:])

        def die(point: str, at: str = kill_at) -> None:
            if point == at:
                raise Killed(point)

        with pytest.raises(Killed):
            bronze.run(die)
        assert bronze.run().tables() == whole


def of_node(sources: Sequence[SourceMetadata], node: str) -> list[SourceMetadata]:
    return [replace(source, node=node) for source in sources]


def test_whose_copy_came_first_does_not_matter(tmp_path: Path) -> None:
    sources = a_long_story().sources
    first, second = of_node(sources, "broker-1"), of_node(sources[:20], "broker-2")
    one = Bronze(tmp_path / "one").takes(first).run().takes(second).run().tables()
    other = Bronze(tmp_path / "other").takes(second).run().takes(first).run().tables()
    assert one == other
    assert all("broker-2" not in row for rows in other.values() for row in rows)


def test_what_a_later_epoch_wrote_in_place_of_an_uncommitted_tail_is_what_counts(tmp_path: Path) -> None:
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2))
    common = list(story.sources)
    lost = MetadataStory(first_offset=2).at(5_000).change(replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))
    lost.at(6_000).change(isr=(0, 1, 2, 3)).at(7_000).no_op()
    story.new_controller(101).at(8_000).change(replicas=(1, 2, 0))
    won = story.sources
    assert [r.reassignment_id for r in story.attempts()] == ["orders-0@3"]
    tables = [
        Bronze(tmp_path / f"{n}").takes(a).run().takes(b).run().tables()
        for n, (a, b) in enumerate([(common + lost.sources, won), (won, common + lost.sources)])
    ]
    assert tables[0] == tables[1] == at_once(tmp_path / "whole", won)
    # Copies of different epochs are no contradiction.
    assert not any("TR005" in row for row in tables[0][FOUND])


def test_copies_of_one_epoch_that_differ_are_a_finding(tmp_path: Path) -> None:
    sources = MetadataStory().at(1_000).topic("orders", (1, 0, 2)).sources
    foreign = MetadataStory(node="elsewhere").at(1_000).topic("bills", (1, 0, 2), number=7).sources
    found = Bronze(tmp_path).takes(sources).takes(foreign).run().tables()[FOUND]
    assert ["TR005" in row for row in found] == [True]


def with_checkpoint() -> tuple[list[SourceMetadata], list[SourceMetadata], list[SourceMetadata]]:
    """A log from offset 0, the checkpoint that stands for its beginning, and what follows."""
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2), (0, 1, 2))
    story.at(10_000).change(replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1)).no_op().no_op()
    log = list(story.sources)
    snapshot = MetadataStory().snapshot_begins(story.offset, 10_000).topic("orders")
    snapshot.partition(0, (2, 3, 5, 0, 1), isr=(0, 1, 2), adding=(3, 5), removing=(0, 1), leader=1)
    snapshot.partition(1, (0, 1, 2)).snapshot_ends()
    rest = MetadataStory(first_offset=story.offset).at(20_000)
    rest.change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), adding=(), removing=()).change(1, leader=1)
    return log, snapshot.sources, rest.sources


def test_a_checkpoint_stands_for_what_is_not_held_until_that_comes(tmp_path: Path) -> None:
    log, snapshot, rest = with_checkpoint()
    bronze = Bronze(tmp_path / "a").takes(rest).run().takes(snapshot[:2]).run()
    assert bronze.tables()["silver.reassignment"] == []  # half a checkpoint is none
    bronze.takes(snapshot).run()
    assert bronze.tables() == at_once(tmp_path / "b", [*snapshot, *rest])
    (row,) = bronze.warehouse.read("silver.reassignment").to_pylist()
    (expected,) = kraft_history([*snapshot, *rest], cluster_id=CLUSTER).reassignments
    assert (row["outcome"], row["is_complete_evidence"]) == (expected.outcome, False)
    bronze.takes(log).run()
    assert bronze.tables() == at_once(tmp_path / "c", [*log, *rest])
    (row,) = bronze.warehouse.read("silver.reassignment").to_pylist()
    assert (row["started_at_ms"], row["is_complete_evidence"]) == (10_000, True)


def test_only_what_moves_or_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = MetadataStory().at(1_000).topic("wide", *[(1, 2)] * 50).change(7, leader=2)
    story.at(2_000).change(3, replicas=(3, 1, 2), adding=(3,), removing=(1, 2))
    bronze = Bronze(tmp_path).takes(story.sources).run()
    had = len(story.sources)
    read: list[int] = []

    def counting(records: Any, *rest: Any, **more: Any) -> Any:
        listed = list(records)
        read.append(len([r for r in listed if r.value[1] in (3, 5)]))
        return reassignment_history(listed, *rest, **more)

    monkeypatch.setattr(cluster_reassignments, "reassignment_history", counting)
    story.at(3_000).change(9, leader=2)
    bronze.takes(story.sources[had:]).run()
    assert read == [2 + 2]  # partitions 3 and 9: how each began, and its change
    assert len(bronze.tables()["silver.leader_election"]) == 2


def test_what_a_minority_of_the_copies_holds_is_not_final_until_more_do(tmp_path: Path) -> None:
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2)).change(replicas=(1, 2, 0))
    bronze = Bronze(tmp_path).takes(story.sources).read("import-1", 3, above_majority=2).run()

    def final() -> list[bool]:
        return bronze.warehouse.read("silver.reassignment", ["is_final"]).column("is_final").to_pylist()

    assert final() == [False]
    bronze.read("import-2", 3).run()
    assert final() == [True]


def no_ops(story: MetadataStory, count: int) -> list[SourceMetadata]:
    """The next of the log, by which a controller shows that it lives."""
    had = len(story.sources)
    for number in range(count):
        story.at(1_000_000 + 500 * (had + number)).no_op()
    return list(story.sources[had:])


def read_logs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    read: list[str] = []

    def counting(cluster_id: str, arrived: pa.Table) -> Any:
        read.append(cluster_id)
        return ClusterLog(cluster_id, arrived)

    monkeypatch.setattr(cluster_reassignments, "ClusterLog", counting)
    return read


def test_a_controller_that_only_lives_does_not_make_its_log_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2)).change(replicas=(1, 2, 0))
    bronze = Bronze(tmp_path / "kept").takes(story.sources).run()
    read = read_logs(monkeypatch)
    for _ in range(3):
        bronze.takes(no_ops(story, 2)).run()
    assert read == []
    came = no_ops(story, 4)
    bronze.takes(came[2:]).run()  # not the next of the log
    assert len(read) == 1
    bronze.takes(came[:2]).run().takes(no_ops(story, 1)).run()
    assert len(read) == 2
    had = len(story.sources)
    story.at(2_000_000).change(replicas=(1, 2, 0, 3), adding=(3,), removing=(0,))
    bronze.takes(story.sources[had:]).run().takes(no_ops(story, 1)).run()
    assert len(read) == 4  # while it moves, time may make it stand still
    assert bronze.tables() == at_once(tmp_path / "whole", story.sources)


def test_what_time_alone_will_find_is_looked_for(tmp_path: Path) -> None:
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2)).throttle("orders", "1000", (0, 1, 2))
    bronze = Bronze(tmp_path / "kept").takes(story.sources).run()
    for at_ms in (2_000, 5_000_000, 90_000_000):
        had = len(story.sources)
        story.at(at_ms).no_op()
        bronze.takes(story.sources[had:]).run()
    found = bronze.tables()
    assert found == at_once(tmp_path / "whole", story.sources)
    assert ["RA002" in row for row in found[FOUND]] == [True]


@pytest.mark.parametrize("seed", range(2))
def test_a_log_of_mostly_no_ops_in_any_cut_gives_the_same_rows(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    story = a_long_story()
    parts = [list(story.sources), *(no_ops(story, dice.randrange(4)) for _ in range(3))]
    had = len(story.sources)
    story.change(0, replicas=(3, 5, 2))
    parts += [list(story.sources[had:]), *(no_ops(story, dice.randrange(1, 3)) for _ in range(3))]
    late = dice.randrange(1, len(parts))
    parts = [*parts[:late], *parts[late + 1 :], parts[late]]
    bronze = Bronze(tmp_path / "cut")
    for part in parts:
        if part:
            bronze.takes(part + dice.sample(part, 1)).run()
    assert bronze.tables() == at_once(tmp_path / "whole", story.sources)
