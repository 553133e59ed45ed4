"""gold.incident and gold.mark from tables, as news come: the same as over everything at once, from the news on only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.incidents import ClusterRows, incident_row, incidents_of, mark_row
from rebalance_audit.domain.model import to_row
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import incidents
from spark_jobs.engine import LocalEngine
from spark_jobs.incidents import incident_tables
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory

HOUR_S = 3_600
SILVER = ("silver.measured_rebalance", "silver.connect_task", "silver.finding", "silver.reassignment")
NOTHING = pa.table({"cluster_id": pa.array([], pa.string())})


class Told:
    """A warehouse as the stages before leave it, and publish after them."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.warehouse = Warehouse.open(folder, create=True)
        self.now_ms = 0
        monkeypatch.setattr(incidents, "seen_until_ms", lambda warehouse: {CLUSTER: self.now_ms})

    def publish(self, stories: list[GroupStory], until_s: float) -> None:
        self.now_ms = T0_MS + round(until_s * 1000)
        rebalances = [
            to_row(r) | {"place": place} for s in stories for place, r in enumerate(s.rebalances) if self._is_past(r)
        ]
        findings = [
            to_row(f) | {"group_id": s.group_id}
            for s in stories
            for f in detect_group([r for r in s.rebalances if self._is_past(r)], (), seen_until_ms=self.now_ms)
        ]
        self._write("silver.measured_rebalance", rebalances)
        self._write("silver.finding", findings)
        versions = {name: self.warehouse.version(name) for name in SILVER}
        groups = pa.table({"cluster_id": [CLUSTER] * len(stories), "group_id": [s.group_id for s in stories]})
        known = {n: -1 if v is None else v for n, v in versions.items()}
        with self.warehouse.staging_folder() as folder:
            told = incident_tables(self.warehouse, known, NOTHING, groups, engine=LocalEngine(), folder=folder)
            self.warehouse.replace("gold.incident", told.incidents, told.incident_scope)
            self.warehouse.replace("gold.mark", told.marks, told.mark_scope)
        self._write("gold.rebalance", rebalances)
        self._write("gold.finding", findings)
        gold = ("gold.rebalance", "gold.finding", "gold.incident", "gold.mark")
        self.warehouse.publish({name: v for name in gold if (v := self.warehouse.version(name)) is not None})

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


def whole(stories: list[GroupStory], now_ms: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Everything at once."""
    found, marks = incidents_of(
        ClusterRows(
            cluster_id=CLUSTER,
            now_ms=now_ms,
            groups={s.group_id: s.rebalances for s in stories},
            findings=[(s.group_id, f) for s in stories for f in detect_group(s.rebalances, (), seen_until_ms=now_ms)],
        )
    )
    as_stored = rows_to_table("gold.incident", [incident_row(i) for i in found]).sort_by("incident_id").to_pylist()
    return as_stored, rows_to_table("gold.mark", [mark_row(m) for m in marks]).sort_by("mark_id").to_pylist()


def test_hour_by_hour_the_tables_come_to_what_everything_at_once_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stories = [a_life("orders"), a_life("refunds")]
    told = Told(tmp_path, monkeypatch)
    for hour in (1, 9.02, 9.05, 10, 18.01, 18.05, 27.05, 27.1, 27.3, 30, 40.01, 41, 48):
        told.publish(stories, until_s=hour * HOUR_S)
    expected, marks = whole(stories, told.now_ms)
    assert told.rows("gold.incident", "incident_id") == expected
    assert told.rows("gold.mark", "mark_id") == marks
    assert {row["kind"] for row in expected} >= {"deploy", "member_fault", "storm"}


def test_only_what_lies_near_the_news_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stories = [a_life("orders")]
    told = Told(tmp_path, monkeypatch)
    told.publish(stories, until_s=39 * HOUR_S)
    asked: list[int] = []
    read = incidents._reader
    monkeypatch.setattr(
        incidents, "_reader", lambda w, v, since, *more: (asked.extend(since.values()), read(w, v, since, *more))[1]
    )
    told.publish(stories, until_s=48 * HOUR_S)
    assert asked
    assert min(asked) >= T0_MS + 36 * HOUR_S * 1000  # the margin before the deploy at 40 h; the storm was long over
    told.publish(stories, until_s=48 * HOUR_S)
    assert len(asked) == 1  # no news, nothing open


def test_an_open_incident_is_over_when_time_alone_has_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stories = [GroupStory("orders").joins("c1", "c2", at_s=-HOUR_S * 5).vanishes("c1", at_s=0)]
    told = Told(tmp_path, monkeypatch)

    def states() -> list[str]:
        return [r["status"] for r in told.rows("gold.incident", "incident_id") if r["kind"] == "member_fault"]

    told.publish(stories, until_s=30)
    assert states() == ["open"]
    told.publish(stories, until_s=HOUR_S)
    assert states() == ["over"]
