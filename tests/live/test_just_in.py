"""What is shown before the tables hold it is what they hold afterwards, row by row."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.growing_cluster import WrittenRebalance
from ingest.evidence import import_evidence
from ingest.landing import Landing
from rebalance_audit.live.group_memory import GroupMemory
from rebalance_audit.live.heard import Heard
from rebalance_audit.live.judge import Judge
from rebalance_audit.live.memory import ClusterMemory
from rebalance_audit.live.present import Present
from rebalance_audit.live.showing import Showing
from rebalance_audit.live.unpublished import LATE_MS
from rebalance_audit.warehouse.erased import digest_of
from rebalance_audit.warehouse.just_in import KEYS, NOTHING, JustInRows, from_note, to_note
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from tests.app.gold_rows.builders import a_rebalance
from tests.captures import GOLDEN
from tests.domain.detect.group_story import CLUSTER, T0_MS
from tests.live.arrivals import arrivals
from tests.live.no_past import NoPast
from tests.live.test_judge import LandedPieces, landing
from tests.live.test_memory import of_group

CAPTURES = (
    "4.3.0/eager_join_leave_kill",
    "4.3.0/cooperative_scale_up",
    "4.3.0/kip848_slow_revocation",
    "4.3.0/connect_worker_lost",
    "2.3.1/side_by_side_in_trouble",
)


class Watched:
    """A judge whose clock follows the evidence, and the notes it wrote."""

    def __init__(self) -> None:
        self.notes: list[Present] = []
        self.now = 1_000.0
        self.judge: Judge | None = None

    def follow(self, capture: Path) -> ClusterMemory:
        pieces = list(arrivals(capture))
        cluster_id = (pieces[0][0] or pieces[0][1])[0].cluster_id
        memory = ClusterMemory(cluster_id, NoPast())
        self.judge = Judge(
            lambda: memory, lambda incidents: True, show=self.notes.append, clock=lambda: self.now
        )  # fmt: skip
        for records, lines in pieces:
            self.go_on(memory, replace(landing(records, lines), cluster_id=cluster_id))
        for _ in range(8):
            self.go_on(memory)
        return memory

    def go_on(self, memory: ClusterMemory, *landed: LandedPieces) -> None:
        assert self.judge is not None
        self.now += 0.6
        self.judge.take(memory, [Heard.of(each) for each in landed])
        self.judge.judge(memory)
        self.judge._shown(memory).show()

    def last(self) -> JustInRows:
        text = json.dumps(to_note(self.notes[-1].just_in))
        return from_note(json.loads(text))


def _by_key(rows: list[dict[str, Any]], table: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    also = {"gold.rebalance_member": ("member_id",), "gold.movement": ("resource",)}
    names = (KEYS[table], *also.get(table, ()))
    return {tuple(row[n] for n in names): {k: v for k, v in row.items() if k != "revision"} for row in rows}


@pytest.mark.parametrize("capture", CAPTURES)
def test_a_row_stays_as_it_was_shown_when_the_tables_hold_it(tmp_path: Path, capture: str) -> None:
    watched = Watched()
    watched.follow(GOLDEN / capture)
    shown = watched.last()
    warehouse = Warehouse.open(tmp_path, create=True)
    import_evidence(GOLDEN / capture, Landing(tmp_path))
    pipeline.run(warehouse, engine="local", with_quality=False)
    assert shown.rows["gold.rebalance"].num_rows > 0
    assert shown.rows["gold.incident"].num_rows > 0
    for table, rows in shown.rows.items():
        stored = _by_key(warehouse.read(table).to_pylist(), table)
        for key, row in _by_key(rows.to_pylist(), table).items():
            other = stored.get(key) or {}
            assert {n: (v, other.get(n)) for n, v in row.items() if v != other.get(n)} == {}, (table, key)
    assert JustInRows() == NOTHING


def test_a_group_with_news_all_the_time_shows_what_came_since_the_tables_were_published() -> None:
    memory = ClusterMemory("lab", NoPast())
    memory.groups["orders"] = GroupMemory(rebalances=[a_rebalance("orders", 1)])
    showing = Showing(memory, lambda present: None, None, clock=lambda: 0.0, epoch_ms=lambda: 0)
    asked: list[int] = []
    showing._unpublished.put_group = lambda *given, from_ms, **named: asked.append(from_ms)  # type: ignore[method-assign]
    for second in range(1, 61):
        showing.news("orders", second * 1_000, float(second))
        if second % 20 == 0:
            showing.published(second - 1.0)
    showing.folded("orders", [], 60.0)
    assert asked == [(59 - 4) * 1_000 - LATE_MS]


@pytest.mark.parametrize("is_waiting", [False, True])
def test_an_erased_group_is_forgotten_and_what_comes_afterwards_is_shown(is_waiting: bool) -> None:
    """`is_waiting`: something that was landed before the erasure was not taken in when it was seen."""
    watched, erased = Watched(), dict[str, str]()
    memory = ClusterMemory(CLUSTER, NoPast())
    judge = Judge(lambda: memory, lambda incidents: True, show=watched.notes.append, erased=lambda: erased,
                  clock=lambda: watched.now)  # fmt: skip
    watched.judge = judge

    def lands(numbers: range, *, heard_before: bool = False) -> None:
        written = [WrittenRebalance.of(0, number, T0_MS + number * 1_000) for number in numbers]
        piece = replace(landing(*of_group(written, first=numbers[0])), cluster_id=CLUSTER)
        if heard_before:
            judge.hear(piece)
        else:
            watched.go_on(memory, piece)

    judge.begin()
    judge._memory = memory
    lands(range(1, 12))
    assert shown_generations(watched) == set(range(1, 12))
    if is_waiting:
        lands(range(12, 13), heard_before=True)
    erased["er-1"] = digest_of("group-000000")
    watched.now += 0.6
    memory.see(T0_MS + 12_000)
    judge._shown(memory)._is_outdated = True
    judge._show(memory)
    assert shown_generations(watched) == set()
    assert memory.names() == set()
    if is_waiting:
        watched.now += 0.6
        judge._step()
        assert shown_generations(watched) == set()
    lands(range(13, 16), heard_before=True)
    watched.now += 0.6
    judge._step()
    assert shown_generations(watched) == {13, 14, 15}
    assert memory.names() == {"group-000000"}


def test_any_name_that_a_group_may_have_has_a_digest() -> None:
    """A lone surrogate has no bytes in UTF-8; memory may hold such a name beside that of an erased group."""
    assert digest_of("orders-\ud800") != digest_of("orders-\ud801")


def shown_generations(watched: Watched) -> set[int]:
    rows = watched.last().rows
    return set(rows["gold.rebalance"]["generation_id"].to_pylist()) if "gold.rebalance" in rows else set()
