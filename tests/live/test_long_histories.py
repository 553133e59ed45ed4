"""A group that lives for months: memory holds what happened lately, and says what the tables say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench.group_events import CLUSTER
from bench.growing_cluster import BASE_MS, GrowingCluster, WrittenRebalance
from ingest.landing import Landing
from rebalance_audit.domain.detect import DEFAULT_OF
from rebalance_audit.domain.incidents import Incident, incident_row
from rebalance_audit.domain.model import Rebalance, SourceLine, SourceRecord, from_row
from rebalance_audit.live.group_memory import MOST_ROUNDS
from rebalance_audit.live.memory import ClusterMemory
from rebalance_audit.live.past import WarehousePast
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from tests.live.no_past import NoPast
from tests.live.test_memory import of_group

HALF_AN_HOUR_MS = 1_800_000


class HeardLanding(Landing):
    """Lands, and keeps what memory is given of it."""

    records: list[SourceRecord]
    lines: list[SourceLine]

    def listen(self) -> None:
        self.records, self.lines = [], []

    def write_records(self, landing_id: str, cluster_id: str, runs: Iterable[Any]) -> int:
        for run in (runs := list(runs)):
            for row in zip(*run.columns.values(), strict=True):
                columns = dict(zip(run.columns, row, strict=True))
                self.records.append(
                    SourceRecord(cluster_id=cluster_id, topic=run.topic, partition=run.partition, **columns)
                )
        return super().write_records(landing_id, cluster_id, runs)

    def write_log_lines(self, landing_id: str, cluster_id: str, lines: Iterable[Any]) -> int:
        lines = list(lines)
        names = ("node", "file_name", "file_id", "byte", "text")
        self.lines += [
            SourceLine(cluster_id=cluster_id, **{each: getattr(line, each) for each in names}) for line in lines
        ]
        return super().write_log_lines(landing_id, cluster_id, lines)


def stored(warehouse: Warehouse, group_id: str) -> list[Rebalance]:
    rows = warehouse.read("silver.measured_rebalance", None, "group_id = ?", [group_id]).to_pylist()
    return [from_row(Rebalance, row) for row in sorted(rows, key=lambda row: row["place"])]


def told(incidents: Iterable[Incident]) -> dict[str, tuple[Any, ...]]:
    rows = map(incident_row, incidents)
    return {row["incident_id"]: tuple(row[n] for n in ("kind", "title", "status", "first_at_ms")) for row in rows}


def test_memory_goes_on_from_a_checkpoint_and_says_what_the_tables_say(tmp_path: Path) -> None:
    warehouse, landing = Warehouse.open(tmp_path, create=True), HeardLanding(tmp_path)
    landing.listen()
    cluster = GrowingCluster(groups=3, apart_ms=HALF_AN_HOUR_MS)
    cluster.land(landing, 600)
    pipeline.run(warehouse, engine="local", with_quality=False)
    memory = ClusterMemory(CLUSTER, WarehousePast(warehouse, CLUSTER, DEFAULT_OF))
    for _ in range(4):
        landing.listen()
        cluster.land(landing, 5)
        touched = memory.take(landing.records, landing.lines)
        for group_id in touched:
            memory.fold(group_id)
        pipeline.run(warehouse, engine="local", with_quality=False)
        for group_id in touched:
            group, rebalances = memory.groups[group_id], stored(warehouse, group_id)
            assert group.start is not None
            assert not group.is_whole
            assert len(group.events) < 600
            assert 10 <= len(group.rebalances) < 100 < len(rebalances)
            assert list(group.rebalances) == rebalances[-len(group.rebalances) :]
        live = memory.incidents()
        since_ms = min(incident.first_at_ms for incident in live)
        rows = warehouse.read("gold.incident", None, "first_at_ms >= ?", [since_ms]).to_pylist()
        names = ("kind", "title", "status", "first_at_ms")
        of_tables = {row["incident_id"]: tuple(row[n] for n in names) for row in rows}
        assert of_tables
        assert told(live).items() >= of_tables.items()


def test_a_group_that_stays_in_memory_goes_on_from_later_and_later(tmp_path: Path) -> None:
    memory, whole = ClusterMemory(CLUSTER, NoPast()), ClusterMemory(CLUSTER, NoPast())
    starts, kept = set(), []
    for number in range(1, 600):
        written = [WrittenRebalance.of(0, number, BASE_MS + number * HALF_AN_HOUR_MS)]
        memory.take(*of_group(written, first=number))
        whole.take(*of_group(written, first=number))
        if number % 20 == 0:
            memory.fold("group-000000")
            group = memory.groups["group-000000"]
            starts.add(None if group.start is None else group.start.read_from_ms)
            kept.append(len(group.events))
    assert len(starts) > 3
    assert max(kept) <= 5 * MOST_ROUNDS
    whole.groups["group-000000"].tried_at = 1 << 30
    memory.fold("group-000000")
    whole.fold("group-000000")
    rebalances = memory.groups["group-000000"].rebalances
    assert len(whole.groups["group-000000"].rebalances) > 500 > len(rebalances)
    assert list(rebalances) == list(whole.groups["group-000000"].rebalances)[-len(rebalances) :]
