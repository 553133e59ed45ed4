"""gold.incident and gold.mark from tables, as news come: the same as over everything at once, from the news on only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from rebalance_audit.domain.detect import DEFAULT_OF, LimitsOf, detect_group
from rebalance_audit.domain.incidents import ClusterRows, incident_row, incidents_of, mark_row
from rebalance_audit.domain.model import Rebalance, to_row
from rebalance_audit.domain.publish.leader_moves import LeaderMove, leader_move_row
from rebalance_audit.domain.tables import BY_NAME
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import LocalEngine
from spark_jobs.group_rows import INSTANTS
from spark_jobs.incidents import reading, tables
from spark_jobs.incidents.around import StoredCluster
from spark_jobs.incidents.known import KnownIncidents
from spark_jobs.incidents.tables import incident_tables
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory
from tests.domain.incidents.fleet_story import a_fleet, loses_coordinator

HOUR_S = 3_600
SILVER = ("silver.measured_rebalance", "silver.connect_task", "silver.finding", "silver.reassignment")


class Published:
    """A warehouse as the stages before leave it, and publish after them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, limits: LimitsOf = DEFAULT_OF) -> None:
        self._limits = limits
        self.warehouse = Warehouse.open(folder, create=True)
        self.now_ms = 0
        self._before_ms: dict[str, int] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {}
        monkeypatch.setattr(tables, "seen_until_ms", lambda warehouse: {CLUSTER: self.now_ms})

    def publish(self, stories: list[GroupStory], until_s: float, moves: Sequence[LeaderMove] = ()) -> None:
        self.now_ms = T0_MS + round(until_s * 1000)
        rebalances = {
            s.group_id: [to_row(r) | {"place": at} for at, r in enumerate(s.rebalances) if self._is_past(r)]
            for s in stories
        }
        findings = [
            to_row(f) | {"group_id": s.group_id}
            for s in stories
            for f in detect_group(
                [r for r in s.rebalances if self._is_past(r)],
                (),
                self._limits(CLUSTER, s.group_id),
                seen_until_ms=self.now_ms,
            )
        ]
        before, now = self.versions(), [row for rows in rebalances.values() for row in rows]
        self._write("silver.measured_rebalance", now)
        self._write("silver.finding", findings)
        changed = [group_id for group_id, rows in rebalances.items() if rows != self._rows.get(group_id)]
        groups = pa.table({"cluster_id": [CLUSTER] * len(changed), "group_id": pa.array(changed, pa.string())})
        moved = rows_to_table("gold.leader_move", [leader_move_row(m) for m in moves if m.at_ms <= self.now_ms])
        with self.warehouse.staging_folder() as folder:
            made = incident_tables(
                self.warehouse, self.versions(), moved, groups, self._limits, engine=LocalEngine(), folder=folder,
                since_versions=before, seen_before_ms=self._before_ms,
            )  # fmt: skip
            self.warehouse.replace("gold.incident", made.incidents, made.incident_scope)
            self.warehouse.replace("gold.mark", made.marks, made.mark_scope)
        self._write("gold.rebalance", now)
        self._write("gold.finding", findings)
        self.warehouse.replace("gold.leader_move", moved, None)
        gold = ("gold.rebalance", "gold.finding", "gold.incident", "gold.mark", "gold.leader_move")
        self.warehouse.publish({name: v for name in gold if (v := self.warehouse.version(name)) is not None})
        self._rows, self._before_ms = rebalances, {CLUSTER: self.now_ms}

    def versions(self) -> dict[str, int]:
        return {name: -1 if (v := self.warehouse.version(name)) is None else v for name in SILVER}

    def _is_past(self, r: Any) -> bool:
        return (r.assigned_at_ms or r.ended_at_ms or r.started_at_ms or 0) <= self.now_ms

    def _write(self, table: str, rows: list[dict[str, Any]]) -> None:
        self.warehouse.replace(table, rows_to_table(table, rows), None)

    def rows(self, table: str, key: str) -> list[dict[str, Any]]:
        return self.warehouse.read(table).sort_by(key).to_pylist()


def a_life(group_id: str) -> GroupStory:
    """Two days with a deploy, a vanished member, a storm and another deploy, hours apart."""
    story = GroupStory(group_id).joins("c1", "c2", "c3", at_s=0)
    story.deploys("c1", "c2", "c3", from_s=9 * HOUR_S, each_s=90)
    story.vanishes("c1", at_s=18 * HOUR_S).joins("c1", at_s=18 * HOUR_S + 100)
    story.again(
        range(12),
        lambda s, n: s.exceeds_poll_interval("c2", at_s=27 * HOUR_S + n * 60, comes_back=False).joins(
            "c2", at_s=27 * HOUR_S + n * 60 + 20
        ),
    )
    return story.deploys("c3", "c1", from_s=40 * HOUR_S, each_s=90)


def whole(
    stories: list[GroupStory], now_ms: int, moves: Sequence[LeaderMove] = ()
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Everything at once."""
    past = {s.group_id: [r for r in s.rebalances if (r.assigned_at_ms or 0) <= now_ms] for s in stories}
    found, marks = incidents_of(
        ClusterRows(
            cluster_id=CLUSTER,
            now_ms=now_ms,
            groups=past,
            leader_moves=[m for m in moves if m.at_ms <= now_ms],
            findings=[(g, f) for g, of_group in past.items() for f in detect_group(of_group, (), seen_until_ms=now_ms)],
        )
    )
    as_stored = rows_to_table("gold.incident", [incident_row(i) for i in found]).sort_by("incident_id").to_pylist()
    return as_stored, rows_to_table("gold.mark", [mark_row(m) for m in marks]).sort_by("mark_id").to_pylist()


few_or_many = pytest.mark.parametrize(
    ("few_groups", "rows_of_a_part"),
    [(tables.FEW_GROUPS, reading.BUCKET_ROWS), (0, reading.BUCKET_ROWS), (0, 1)],
    ids=["around the news", "since the news", "since the news, in parts"],
)


@few_or_many
def test_hour_by_hour_the_tables_come_to_what_everything_at_once_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_groups: int, rows_of_a_part: int
) -> None:
    monkeypatch.setattr(tables, "FEW_GROUPS", few_groups)
    monkeypatch.setattr(reading, "BUCKET_ROWS", rows_of_a_part)
    stories = [a_life("orders"), a_life("refunds")]
    history = Published(tmp_path, monkeypatch)
    for hour in (1, 9.02, 9.05, 10, 18.01, 18.05, 27.05, 27.1, 27.3, 30, 40.01, 41, 48):
        history.publish(stories, until_s=hour * HOUR_S)
    expected, marks = whole(stories, history.now_ms)
    assert history.rows("gold.incident", "incident_id") == expected
    assert history.rows("gold.mark", "mark_id") == marks
    assert {row["kind"] for row in expected} >= {"deploy", "member_fault", "storm"}


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 14, 24])
def test_news_bit_by_bit_come_to_what_everything_at_once_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    stories, moves = a_fleet(random)
    if seed % 2:
        monkeypatch.setattr(reading, "BUCKET_ROWS", 1)  # many news are worked out in parts
    history = Published(tmp_path, monkeypatch)
    at_s = 0.0
    while at_s < 7.5 * HOUR_S:
        at_s += random.choice((15, 300, 1_500, 2_500)) * random.uniform(0.5, 1.5)
        monkeypatch.setattr(tables, "FEW_GROUPS", random.choice((300, 300, 300, 0)))
        history.publish(stories, at_s, moves)
        expected, marks = whole(stories, history.now_ms, moves)
        assert history.rows("gold.incident", "incident_id") == expected, at_s
        assert history.rows("gold.mark", "mark_id") == marks, at_s
    assert any(len(row["group_ids"]) > 1 for row in expected)


Seen = Callable[[Rebalance, float], bool]
"""Whether evidence of a rebalance has come by now (s)."""
Comes = Callable[[Random, list[float]], tuple[Seen, list[float]]]
"""Of the instants of all rebalances: what has come, and when publish runs."""


def comes_late(random: Random, instants: list[float]) -> tuple[Seen, list[float]]:
    """Every fifth rebalance is known hours after it happened."""
    late_s = {at: random.uniform(0, 3 * HOUR_S) for at in range(8 * HOUR_S) if random.random() < 0.2}
    return lambda r, now_s: _at_s(r) + late_s.get(int(_at_s(r)), 0) <= now_s, _steps(random)


def comes_with_a_hole(random: Random, instants: list[float]) -> tuple[Seen, list[float]]:
    """Nothing of some hours is known until the seventh, for half of the groups."""
    groups = set(random.sample([f"g{n}" for n in range(6)], 3))
    from_s = random.uniform(0, 3) * HOUR_S
    hole = from_s, from_s + random.uniform(0.5, 3) * HOUR_S
    return (
        lambda r, now_s: (
            _at_s(r) <= now_s and not (r.group_id in groups and hole[0] <= _at_s(r) < hole[1] and now_s < 7 * HOUR_S)
        ),
        _steps(random),
    )


def comes_oldest_last(random: Random, instants: list[float]) -> tuple[Seen, list[float]]:
    """After the last rebalance, each step shows some of those before."""
    return lambda r, now_s: _at_s(r) >= 15 * HOUR_S - now_s, [7.5 * HOUR_S + at_s for at_s in _steps(random)]


def comes_one_by_one(random: Random, instants: list[float]) -> tuple[Seen, list[float]]:
    """A cut at each rebalance for a while; the rest at once."""
    first = random.randrange(len(instants))
    return lambda r, now_s: _at_s(r) <= now_s, [*instants[first : first + 8], 7.5 * HOUR_S]


def _at_s(r: Rebalance) -> float:
    return ((r.assigned_at_ms or r.ended_at_ms or r.started_at_ms or T0_MS) - T0_MS) / 1_000


def _steps(random: Random) -> list[float]:
    at_s, steps = 0.0, []
    while at_s < 7.5 * HOUR_S:
        at_s += random.choice((300, 1_500, 5_000)) * random.uniform(0.5, 1.5)
        steps.append(at_s)
    return steps


def check_a_fleet_that(comes: Comes, seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(seed)
    stories, moves = a_fleet(random)
    seen, steps = comes(random, sorted({_at_s(r) for s in stories for r in s.rebalances}))
    history = Published(folder, monkeypatch)
    for at_s in steps:
        monkeypatch.setattr(tables, "FEW_GROUPS", random.choice((300, 300, 300, 0)))
        known = [with_rebalances(s, [r for r in s.rebalances if seen(r, at_s)]) for s in stories]
        shown = {r.rebalance_id for s in known for r in s.rebalances}
        of_known = [m for m in moves if m.rebalance_id in shown]
        history.publish(known, at_s, of_known)
        expected, marks = whole(known, history.now_ms, of_known)
        assert history.rows("gold.incident", "incident_id") == expected, (seed, at_s)
        assert history.rows("gold.mark", "mark_id") == marks, (seed, at_s)


def with_rebalances(story: GroupStory, rebalances: list[Rebalance]) -> GroupStory:
    known = copy(story)
    known.rebalances = rebalances
    return known


@pytest.mark.parametrize("seed", [100, 101])
@pytest.mark.parametrize("comes", [comes_late, comes_with_a_hole, comes_oldest_last, comes_one_by_one])
def test_evidence_in_any_order_comes_to_what_everything_at_once_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, comes: Comes, seed: int
) -> None:
    check_a_fleet_that(comes, seed, tmp_path, monkeypatch)


def test_only_what_lies_near_the_news_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stories = [a_life("orders"), GroupStory("refunds").joins("c7", "c8", at_s=39.9 * HOUR_S)]
    history = Published(tmp_path, monkeypatch)
    history.publish(stories, until_s=39.95 * HOUR_S)
    history.publish(stories, until_s=39.99 * HOUR_S)
    asked: list[tuple[set[str], int]] = []
    rows = StoredCluster.rows

    def noted(self: StoredCluster, groups: Collection[str], from_ms: int, **more: Any) -> ClusterRows:
        asked.append((set(groups), from_ms))
        return rows(self, groups, from_ms, **more)

    monkeypatch.setattr(StoredCluster, "rows", noted)
    history.publish(stories, until_s=48 * HOUR_S)
    # The margin before the deploy at 40 h; the storm was long over, and nothing links the other group to it.
    assert {frozenset(groups) for groups, _ in asked} == {frozenset({"orders"})}
    assert min(from_ms for _, from_ms in asked) >= T0_MS + 36 * HOUR_S * 1000
    asked.clear()
    history.publish(stories, until_s=48 * HOUR_S)
    assert not asked  # no news, nothing open


def test_the_incidents_of_all_clusters_are_asked_for_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = {"a": [(0, 10), (8, 20), (30, 40)], "b": [(0, 10), (15, 20)], "c": [], "other": [(0, 99)]}
    columns: dict[str, Any] = {column.name: None for column in BY_NAME["gold.incident"].columns}
    rows = [
        {**columns, "cluster_id": cluster_id, "incident_id": f"{cluster_id}{first}", "status": "over",
         "rebalance_ids": ["r"], "reassignment_ids": [], "finding_ids": [], "first_at_ms": first, "last_at_ms": last}
        for cluster_id, of_cluster in spans.items() for first, last in of_cluster
    ]  # fmt: skip
    warehouse = Warehouse.open(tmp_path, create=True)
    warehouse.append("gold.incident", rows_to_table("gold.incident", rows))
    reads: list[str] = []
    read = Warehouse.read

    def counted(self: Warehouse, name: str, *others: Any, **more: Any) -> pa.Table:
        reads.append(name)
        return read(self, name, *others, **more)

    monkeypatch.setattr(Warehouse, "read", counted)
    known = KnownIncidents(warehouse)
    found = known.reaching_back({"a": 15, "b": 15, "c": 15})
    assert found == {"a": 0, "b": 15, "c": 15}  # the second of a begins in the first
    assert sorted(row["incident_id"] for row in known.since(found)) == ["a0", "a30", "a8", "b15"]
    assert len(reads) == 5  # the open ones, three steps back of which the last two are of `a` alone, and what goes


def test_an_open_incident_is_over_when_time_alone_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stories = [GroupStory("orders").joins("c1", "c2", at_s=-HOUR_S * 5).vanishes("c1", at_s=0)]
    history = Published(tmp_path, monkeypatch)

    def states() -> list[str]:
        return [r["status"] for r in history.rows("gold.incident", "incident_id") if r["kind"] == "member_fault"]

    history.publish(stories, until_s=30)
    assert states() == ["open"]
    history.publish(stories, until_s=HOUR_S)
    assert states() == ["over"]


def test_time_alone_makes_a_fault_of_a_broker_that_of_the_members(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members of another group expired later through the same broker, so that their incident ends later. No finding
    that ends meanwhile is news either."""
    monkeypatch.setattr(sys.modules[__name__], "detect_group", lambda *known, **until: [])
    stories = [GroupStory(group_id).joins("c1", "c2", "c3", at_s=-HOUR_S * 5) for group_id in ("orders", "refunds")]
    moves = [
        loses_coordinator(story, ["c1", "c2", "c3"], at_s, broker=1)
        for story, at_s in zip(stories, (0, 50), strict=True)
    ]
    history = Published(tmp_path, monkeypatch)
    for until_s, kinds in ((250, {"coordinator"}), (299, {"coordinator"}), (301, {"coordinator", "member_fault"})):
        history.publish(stories, until_s, moves)
        assert history.rows("gold.incident", "incident_id") == whole(stories, history.now_ms, moves)[0]
        assert {r["kind"] for r in history.rows("gold.incident", "incident_id") if not r["expected"]} == kinds


@few_or_many
def test_findings_stay_with_their_incidents_where_nobody_knows_when_a_rebalance_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_groups: int, rows_of_a_part: int
) -> None:
    """Then the news may be from the beginning of all times, and a margin before that."""
    monkeypatch.setattr(tables, "FEW_GROUPS", few_groups)
    monkeypatch.setattr(reading, "BUCKET_ROWS", rows_of_a_part)
    orders, refunds = GroupStory("orders").joins("c1", "c2", at_s=0), GroupStory("refunds").joins("c3", "c4", at_s=0)
    orders.vanishes("c1", at_s=HOUR_S)
    unknown: dict[str, Any] = dict.fromkeys(INSTANTS)
    refunds.rebalances[0] = replace(refunds.rebalances[0], **unknown)
    history = Published(tmp_path, monkeypatch)
    history.publish([orders, refunds], until_s=2 * HOUR_S)
    [fault] = [row for row in history.rows("gold.incident", "incident_id") if row["kind"] == "member_fault"]
    assert len(fault["finding_ids"]) == 1
    assert fault["severity"] == "warning"
