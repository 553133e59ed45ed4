"""Groups that are looked at because time has passed: what a note says of them spares work, and changes no finding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.due_groups import REBALANCES, TASKS, Calm
from spark_jobs.stages import detect
from spark_jobs.stages.stage import Batch

LIMITS = "default"
PLACE = ("lab", "orders")


def batch(since: int, until: int) -> Batch:
    return Batch(stage="detect", since={REBALANCES: since, TASKS: 0}, until={REBALANCES: until, TASKS: 0})


def test_what_the_last_run_noted_is_known() -> None:
    calm = Calm()
    calm.add(PLACE, 1_000)
    calm.add(("lab", "payments"), 500)
    note = {"limits": LIMITS, **calm.as_note(batch(3, 4), {"lab": 600})}
    assert Calm.noted(note, batch(4, 5), LIMITS).by_place == {PLACE: 1_000}


@pytest.mark.parametrize(("limits", "since"), [("others", 4), (LIMITS, 5)])
def test_a_note_of_other_limits_or_of_a_run_that_is_not_the_last_is_none(limits: str, since: int) -> None:
    """The latter is what a crash between the commit and the note leaves."""
    calm = Calm({PLACE: 1_000})
    note = {"limits": LIMITS, **calm.as_note(batch(3, 4), {"lab": 600})}
    assert Calm.noted(note, batch(since, 6), limits).by_place == {}
    assert Calm.noted({}, batch(4, 5), LIMITS).by_place == {}


def test_findings_are_those_of_runs_without_the_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []
    histories_of = detect._histories_of

    def counted(context: Any, batch: Any, groups: Any, starting: Any) -> Any:
        judged.append(groups.num_rows)
        return histories_of(context, batch, groups, starting)

    monkeypatch.setattr(detect, "_histories_of", counted)
    findings: dict[str, list[Any]] = {}
    counts: dict[str, int] = {}
    for name in ("with notes", "without", "with old notes"):
        folder = tmp_path / name
        cluster = GrowingCluster(groups=8, seed=5)
        warehouse, landing = Warehouse.open(folder, create=True), Landing(str(folder))
        judged.clear()
        findings[name] = []
        for _ in range(5):
            cluster.land(landing, 4)
            before = warehouse.recall("detect")
            pipeline.run(warehouse, engine="local")
            if name == "without":
                warehouse.forget("detect")
            elif name == "with old notes" and before:  # it was killed right after its commit
                warehouse.remember("detect", before)
            for table in ("silver.finding", "gold.finding", "gold.group"):
                findings[name].append(sorted(map(repr, warehouse.read(table).to_pylist())))
        counts[name] = sum(judged)
    assert findings["without"] == findings["with notes"] == findings["with old notes"]
    assert counts["with notes"] < counts["with old notes"]
    assert any("resolved" in row for row in findings["with notes"][-3])
