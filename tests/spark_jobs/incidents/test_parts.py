"""A large cluster is parted where no incident can reach over: its incidents and marks are those of all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rebalance_audit.domain.detect import DEFAULT_OF, detect_group
from rebalance_audit.domain.detect.history import is_loopback
from rebalance_audit.domain.incidents import ClusterRows, incident_row, incidents_of, mark_row
from rebalance_audit.domain.kinds import Severity
from rebalance_audit.domain.model import Finding, to_row
from rebalance_audit.domain.publish.leader_moves import LeaderMove, leader_move_row
from rebalance_audit.domain.reassign.model import Reassignment, reassignment_row
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.kept_columns import rows_on_disk
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import LocalEngine
from spark_jobs.incidents import by_id, reading, ties
from spark_jobs.incidents.known import KnownIncidents
from spark_jobs.incidents.reading import Buckets, reader_of
from spark_jobs.incidents.since import incidents_since
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory
from tests.domain.incidents.fleet_story import HOUR_S, a_fleet
from tests.domain.incidents.made_up import costing

NOW_MS = T0_MS + 8 * HOUR_S * 1000


class ManyTasks(LocalEngine):
    tasks_at_once = 1_000_000  # so that each bucket has what must be together and nothing else


@dataclass(kw_only=True)
class Cluster:
    """Its rows as the stages before leave them, and its incidents by both ways."""

    stories: Sequence[GroupStory]
    moves: Sequence[LeaderMove] = ()
    reassignments: Sequence[Reassignment] = ()
    apart: Sequence[Finding] = ()
    """Findings about no group."""
    parts: Buckets = field(init=False)

    @property
    def rows(self) -> ClusterRows:
        groups = {s.group_id: costing(s.rebalances) for s in self.stories}
        findings = [(g, f) for g, of in groups.items() for f in detect_group(of, (), seen_until_ms=NOW_MS)]
        findings += [(None, finding) for finding in self.apart]  # type: ignore[misc]
        return ClusterRows(
            cluster_id=CLUSTER, now_ms=NOW_MS, groups=groups, leader_moves=self.moves,
            reassignments=self.reassignments, first_places=dict.fromkeys(groups, 0),
            findings=sorted(findings, key=lambda of: (of[1].first_seen_at_ms, of[1].finding_id)),
        )  # fmt: skip

    def at_once(self) -> list[list[dict[str, Any]]]:
        incidents, marks = incidents_of(self.rows)
        return [
            rows_to_table("gold.incident", list(map(incident_row, incidents))).sort_by("incident_id").to_pylist(),
            rows_to_table("gold.mark", list(map(mark_row, marks))).sort_by("mark_id").to_pylist(),
        ]

    def in_parts(self, folder: Path) -> list[list[dict[str, Any]]]:
        """As `publish` makes them."""
        warehouse = Warehouse.open(folder, create=True)
        rows = [to_row(r) | {"place": at} for of in self.rows.groups.values() for at, r in enumerate(of)]
        Random(1).shuffle(rows)
        for at in range(0, len(rows), 100):
            _append(warehouse, "silver.measured_rebalance", rows[at : at + 100])
        _append(warehouse, "silver.finding", [to_row(f) | {"group_id": g} for g, f in self.rows.findings])
        _append(warehouse, "silver.reassignment", list(map(reassignment_row, self.reassignments)))
        moves = rows_to_table("gold.leader_move", list(map(leader_move_row, self.moves)))
        tables = ("silver.measured_rebalance", "silver.connect_task", "silver.finding", "silver.reassignment")
        versions = {name: -1 if (v := warehouse.version(name)) is None else v for name in tables}
        by_group = {CLUSTER: list(self.moves)}
        reader = reader_of(
            warehouse, versions, {CLUSTER: 0}, KnownIncidents(warehouse), leader_moves=by_group, buckets_at_least=10**6
        )
        self.parts = reader.buckets
        with warehouse.staging_folder() as staged:
            made = incidents_since(
                warehouse, versions, moves, {CLUSTER: 0}, {CLUSTER: NOW_MS}, DEFAULT_OF, ManyTasks(), staged
            )
            return [
                sorted((row for file in files for row in rows_on_disk(file).to_pylist()), key=lambda row: row[key])
                for files, key in ((made.incidents, "incident_id"), (made.marks, "mark_id"))
            ]


def _append(warehouse: Warehouse, table: str, rows: list[dict[str, Any]]) -> None:
    warehouse.append(table, rows_to_table(table, rows))


@pytest.fixture(autouse=True)
def any_cluster_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BUCKET_ROWS", 1)
    monkeypatch.setattr(reading, "_HELD_AT_MOST", 40)
    monkeypatch.setattr(by_id, "_BUCKET_ROWS", 7)


@pytest.mark.parametrize("seed", range(12))
def test_a_cluster_of_many_fleets_in_parts_has_the_incidents_of_all_at_once(tmp_path: Path, seed: int) -> None:
    """The fleets have hosts of their own. Brokers, and topics that grow, tie some of them by chance."""
    random = Random(seed)
    fleets = [a_fleet(random, name=f"{name}-", network=f"/10.{at}.0.") for at, name in enumerate("abcdefgh")]
    cluster = Cluster(
        stories=[story for stories, _ in fleets for story in random.sample(stories, random.randrange(1, 7))],
        moves=[move for _, moves in fleets for move in moves],
    )
    assert cluster.in_parts(tmp_path) == cluster.at_once()
    assert len(cluster.rows.groups) > cluster.parts.count > 1


@pytest.mark.parametrize("seed", range(6))
def test_members_without_hosts_are_told_by_their_names(tmp_path: Path, seed: int) -> None:
    """So they are on a laptop, and where only lines tell of them: groups with clients of one name are tied."""
    random = Random(seed)
    stories = []
    for number in range(30):
        name, host = f"c{random.randrange(8)}", random.choice((None, "/127.0.0.1", "/0:0:0:0:0:0:0:1", "/10.0.0.1"))
        story = GroupStory(f"g{number}").member(name, client_host=host).joins(name, "other", at_s=0)
        for _ in range(random.randrange(4)):
            at_s = random.choice((100, 7_000, 20_000)) + random.uniform(0, 100)
            if T0_MS + at_s * 1000 > (story.rebalances[-1].assigned_at_ms or 0):
                story.vanishes(name, at_s=at_s).joins(name, at_s=at_s + 20)
        if hidden := random.choice(((), ("left",), ("left", "joined"))):  # only lines say who went
            story.rebalances[:] = [
                replace(r, members=tuple(m for m in r.members if m.change not in hidden)) for r in story.rebalances
            ]
        stories.append(story)
    cluster = Cluster(stories=stories)
    assert cluster.in_parts(tmp_path) == cluster.at_once()
    assert 30 > cluster.parts.count > 3


def test_a_chain_of_groups_in_which_nothing_can_be_cut_is_one_part(tmp_path: Path) -> None:
    """Each lost a member on the host of the next one, so one incident holds them all."""
    stories = []
    for number in range(40):
        story = GroupStory(f"g{number:02}").member("c1", client_host=f"/10.0.0.{number}")
        story.member("c2", client_host=f"/10.0.0.{number + 1}").joins("c1", "c2", at_s=0)
        stories.append(story.vanishes("c1", at_s=HOUR_S + 30 * number).vanishes("c2", at_s=HOUR_S + 30 * number + 29))
    cluster = Cluster(stories=stories)
    made = cluster.in_parts(tmp_path)
    assert made == cluster.at_once()
    assert cluster.parts.count == 1
    assert max(len(row["group_ids"]) for row in made[0]) == 40


def test_groups_that_a_moment_parts_are_no_part_together(tmp_path: Path) -> None:
    def lost(group_id: str, host: str, at_s: float, session_ms: int = 10_000) -> GroupStory:
        story = GroupStory(group_id).member("c1", client_host=host, session_timeout_ms=session_ms)
        return story.joins("c1", "c2", at_s=0).vanishes("c1", at_s=at_s)

    cluster = Cluster(
        stories=[
            lost("a", "/10.0.0.1", HOUR_S), lost("b", "/10.0.0.1", HOUR_S + 59), lost("c", "/10.0.0.1", HOUR_S + 2_000),
            lost("d", "/10.0.0.2", HOUR_S),
            lost("e", "/10.0.0.1", HOUR_S + 590, session_ms=600_000),  # it died with the first two
        ]
    )  # fmt: skip
    assert cluster.in_parts(tmp_path) == cluster.at_once()
    parts = cluster.parts.of_group
    assert len({parts[CLUSTER, group_id] for group_id in "abe"}) == 1
    assert len({*parts.values()}) == 3


def test_what_belongs_to_no_group_is_in_the_part_of_groups_that_a_reassignment_moved(tmp_path: Path) -> None:
    stories = [GroupStory(g).joins("c1", "c2", at_s=0) for g in ("a", "b", "c", "d")]
    for story in stories[:2]:
        story.meets_again(at_s=HOUR_S, because="coordinator_failover")
    moved = Reassignment(
        cluster_id=CLUSTER, reassignment_id="__consumer_offsets-0@7", topic="__consumer_offsets", partition=0,
        started_at_ms=T0_MS + HOUR_S * 1000 - 1_000, ended_at_ms=T0_MS + HOUR_S * 1000 + 1_000, outcome="completed",
        evidence=("metadata:n@7",),
    )  # fmt: skip
    moves = [
        LeaderMove(
            cluster_id=CLUSTER, group_id=s.group_id, relation="coordinator_moved", topic="__consumer_offsets",
            partition=0, at_ms=T0_MS + HOUR_S * 1000, previous_leader=broker, elected=2, cause="reassignment",
            rebalance_id=s.rebalances[-1].rebalance_id, is_cause=True, reassignment_id=moved.reassignment_id,
        )
        for broker, s in enumerate(stories[:2])
    ]  # fmt: skip
    of_group = detect_group(GroupStory("x").joins("c1", "c2", at_s=0).vanishes("c1", at_s=9).rebalances, ())[0]
    about = {"partition": "__consumer_offsets-0", "broker": "1"}
    apart = [
        replace(
            of_group, finding_id=f"f{at}", rule_id="RA003", subject_type=kind, subject=name, severity=Severity.WARNING,
            first_seen_at_ms=T0_MS + HOUR_S * 1000, last_seen_at_ms=T0_MS + HOUR_S * 1000,
        )
        for at, (kind, name) in enumerate(about.items())
    ]  # fmt: skip
    cluster = Cluster(stories=stories, moves=moves, reassignments=[moved], apart=apart)
    made, marks = cluster.in_parts(tmp_path)
    assert [made, marks] == cluster.at_once()
    [of_plan] = [row for row in made if row["kind"] == "reassignment" and row["rebalance_ids"]]
    assert (of_plan["group_ids"], of_plan["finding_ids"][0]) == (["a", "b"], "f0")
    numbers = cluster.parts.of_group
    assert numbers[CLUSTER, "a"] == numbers[CLUSTER, "b"] == cluster.parts.of_cluster[CLUSTER]
    assert len({*numbers.values()}) == 3


def test_at_least_all_loopback_addresses_are_taken_for_such() -> None:
    hosts = [
        "/127.0.0.1", "127.1.2.3", "//127.0.0.1", "/::1", "/0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "::1%lo", "/0::0:01",
        "/10.0.0.1", "/2001:db8:0:0:0:0:0:1", "pod-127.example", "/1.127.0.0", "kafka", "/fe80:0:0:0:0:0:0:1%eth0",
    ]  # fmt: skip
    with cursor() as db:
        sql = f"SELECT regexp_matches(unnest(?::VARCHAR[]), '{ties._MAYBE_LOOPBACK}')"
        found = [maybe for (maybe,) in db.execute(sql, [hosts]).fetchall()]
    assert all(maybe for host, maybe in zip(hosts, found, strict=True) if is_loopback(host))
    assert [host for host, maybe in zip(hosts, found, strict=True) if not maybe] == hosts[8:]
