"""A bounded part of the simulator; all of it: python -m tests.faults.simulator 5000."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest

from ingest.landing import Landing
from tests.faults import simulator
from tests.faults.stand_ins import FAULTS

RUNS = int(os.environ.get("FAULT_RUNS", "12"))


def test_runs_with_faults_end_as_the_undisturbed_one(capsys: pytest.CaptureFixture[str]) -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, RUNS + 1):
        counts += simulator.check(seed).counts
    with capsys.disabled():
        met = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        print(f"\n{RUNS} simulated runs ended as the undisturbed one; in them: {met}")
    assert sum(counts[fault] for fault in FAULTS) > RUNS


def test_the_same_seed_is_the_same_run() -> None:
    assert simulator.check(7).counts == simulator.check(7).counts


def test_positions_that_run_ahead_of_what_is_landed_are_found_out() -> None:
    """The simulator itself: with the one order turned round that keeps evidence, it must say so."""
    write_records = Landing.write_records

    def too_late(landing: Landing, landing_id: str, cluster_id: str, runs: Any) -> int:
        known = list(runs)
        for run in known:
            # Of one partition offsets rise, and the last one stays.
            places = zip(run.columns["partition"].to_pylist(), run.columns["offset"].to_pylist(), strict=True)
            positions = {f"{run.topic}-{partition}": offset + 1 for partition, offset in places}
            landing.write_positions(f"live-{cluster_id}", {"partitions": positions, "logs": {"files": []}})
        return write_records(landing, landing_id, cluster_id, known)

    def all_of(seeds: range) -> None:
        for seed in seeds:
            simulator.check(seed)

    simulator.undisturbed()
    with patch.object(Landing, "write_records", too_late), pytest.raises(AssertionError, match="records differ"):
        all_of(range(1, 40))
