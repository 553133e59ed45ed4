"""From a metadata log on disk to published reassignments, in one reading or two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ingest.evidence import import_evidence
from ingest.landing import Landing
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import metadata_log, pipeline
from spark_jobs.plan import STAGES
from tests.ingest.test_metadata import a_story, batches, folder, log_name
from tests.spark_jobs.arrivals import GOLD, gold

NODE = "controller-100"
TABLES = [*GOLD, *(name for stage in STAGES for name in stage.writes if name.startswith("silver."))]


def published(warehouse: Warehouse, table: str, columns: str) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in warehouse.query(f"SELECT {columns} FROM {table} ORDER BY ALL").to_pylist()]


def test_a_reassignment_is_published_and_shown_again_when_the_log_goes_on(
    engine: dict[str, Any], tmp_path: Path
) -> None:
    from tests.domain.reassign.stories import MetadataStory

    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2))
    story.at(10_000).change(replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))
    story.at(200_000).write(b"\x01\x14\x00\x00")  # a NoOpRecord: time goes on, the copies do not
    evidence = folder(tmp_path / "evidence", NODE, {log_name(0): batches(story.sources)})
    place = tmp_path / "w"
    warehouse = Warehouse.open(place, create=True)
    import_evidence(evidence, Landing(place))
    pipeline.run(warehouse, **engine)
    state = "topic, partition, outcome, started_at_ms, ended_at_ms, stalled_since_ms"
    assert published(warehouse, "gold.reassignment", state) == [("orders", 0, "open", 10_000, None, 10_000)]
    assert published(warehouse, "gold.reassignment_step", "step, phase") == [(0, "before"), (1, "accepted")]
    assert published(warehouse, "gold.finding", "rule_id, subject, status") == [("RA001", "orders-0", "open")]
    assert published(warehouse, "silver.decode_count", "kind, in_count, skipped_count") == [("metadata", 4, 4)]
    verdicts = published(warehouse, "gold.check", "table_name, success")
    assert ("gold.reassignment", True) in verdicts
    assert ("gold.reassignment", False) not in verdicts

    before = {name: warehouse.version(name) for name in TABLES}
    assert pipeline.run(warehouse, **engine).ms_by_stage == {}
    assert {name: warehouse.version(name) for name in TABLES} == before

    story.at(220_000).change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), adding=(), removing=())
    folder(tmp_path / "evidence", NODE, {log_name(0): batches(story.sources)})
    import_evidence(evidence, Landing(place))
    pipeline.run(warehouse, **engine)
    assert published(warehouse, "gold.reassignment", state) == [("orders", 0, "completed", 10_000, 220_000, None)]
    assert ("RA001", "orders-0", "resolved") in published(warehouse, "gold.finding", "rule_id, subject, status")

    at_once = Warehouse.open(tmp_path / "at_once", create=True)
    import_evidence(evidence, Landing(tmp_path / "at_once"))
    pipeline.run(at_once, **engine, with_quality=False)
    ours, theirs = gold(warehouse), gold(at_once)
    for noun in ("reassignment", "reassignment_step", "leader_election", "finding"):
        assert ours[f"gold.{noun}"] == theirs[f"gold.{noun}"]


def test_clusters_are_worked_out_piece_by_piece(
    engine: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_log, "_ROWS_AT_ONCE", 1)
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    for cluster_id in ("one", "two", "three"):
        evidence = folder(tmp_path / cluster_id, NODE, {log_name(0): batches(a_story().sources)})
        import_evidence(evidence, Landing(tmp_path / "w"))
    pipeline.run(warehouse, **engine)
    state = "cluster_id, topic, partition, outcome, started_at_ms, ended_at_ms"
    moved = ("orders", 0, "completed", 10_000, 20_000)
    assert published(warehouse, "gold.reassignment", state) == [(c, *moved) for c in ("one", "three", "two")]
