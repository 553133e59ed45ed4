"""When rebalances were, asked of files that hold rows of several clusters."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_audit.domain.model import Rebalance, from_row
from rebalance_audit.domain.publish.groups import HOUR_MS, group_row
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from spark_jobs import instants
from spark_jobs.instants import counts_within, groups_within, times_of

REBALANCES = "silver.measured_rebalance"


def test_each_cluster_is_asked_within_its_own_bounds(tmp_path: Path) -> None:
    ended = [
        ("a", "at the first instant", 100),
        ("a", "within", 101),
        ("a", "at the last instant", 200),
        ("a", "behind", 201),
        ("a", "never", None),
        ("b", "within", 101),
        ("b", "later", 900),
        ("not asked", "within", 101),
    ]
    rows = [
        {"cluster_id": cluster_id, "group_id": group_id, "rebalance_id": f"{cluster_id}/{group_id}", "ended_at_ms": at}
        for cluster_id, group_id, at in ended
    ]
    files = []
    for at, part in enumerate((rows[::2], rows[1::2])):
        files.append(str(tmp_path / f"{at}.parquet"))
        pq.write_table(rows_to_table(REBALANCES, part), files[-1])
    found = groups_within(files, {"a": (100, 200), "b": (800, 900)})
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == [
        ("a", "at the last instant"), ("a", "within"), ("b", "later"),
    ]  # fmt: skip
    assert groups_within([], {"a": (100, 200)}).num_rows == 0


@pytest.mark.parametrize("few_groups", [0, 8])
def test_a_groups_counts_are_those_of_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_groups: int) -> None:
    monkeypatch.setattr(instants, "_FEW_GROUPS", few_groups)
    random, files = Random(3), []
    rows = [
        {
            "cluster_id": random.choice("ab"), "group_id": random.choice("gh"), "rebalance_id": f"r{number}",
            "kind": random.choice(("rebalance", "rebalance", "static_rewrite")),
            "outcome": random.choice(("completed", "missing")), "member_count": 1,
            "ended_at_ms": random.choice((None, number)), "started_at_ms": random.choice((None, number - 5)),
        }
        for number in range(200)
    ]  # fmt: skip
    for at in range(3):
        files.append(str(tmp_path / f"{at}.parquet"))
        pq.write_table(rows_to_table(REBALANCES, rows[at::3]), files[-1])
    seen = {"a": HOUR_MS + 100, "b": HOUR_MS + 150}
    for place in itertools.product("ab", "gh"):
        of_group = [row for row in rows if (row["cluster_id"], row["group_id"]) == place]
        asked = group_row([from_row(Rebalance, _whole(row)) for row in of_group], [], seen[place[0]])
        assert counts_within(files, [place, ("c", "g")], seen, HOUR_MS) == [asked["rebalance_count_1h"], 0]
        assert 0 < asked["rebalance_count_1h"] < asked["rebalance_count_24h"]


def test_files_that_lie_within_a_window_are_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = []
    for at in range(4):
        rows = [
            {
                "cluster_id": "a", "group_id": group_id, "rebalance_id": f"{group_id}-{at}-{n}", "kind": "rebalance",
                "outcome": "completed", "ended_at_ms": 10 * at + n,
            }
            for n in range(3)
            for group_id in "gh"
        ]  # fmt: skip
        files.append(str(tmp_path / f"{at}.parquet"))
        pq.write_table(rows_to_table(REBALANCES, rows), files[-1])
    until = {"a": HOUR_MS + 11}
    assert counts_within(files, [("a", "g")], until, HOUR_MS) == [7]
    read: list[str] = []

    def noted(some: Sequence[str]) -> pa.Table:
        read.extend(some)
        return times_of(some)

    monkeypatch.setattr(instants, "times_of", noted)
    assert counts_within(files, [("a", "g"), ("a", "h")], until, HOUR_MS) == [7, 7]
    assert read == files[1:2]


def _whole(row: Mapping[str, object]) -> dict[str, Any]:
    known = {
        "group_type": "classic",
        "mode": "eager",
        "trigger": "unknown",
        "trigger_tier": "unknown",
        "started_tier": "unknown",
    }
    return dict(rows_to_table(REBALANCES, [{**known, **row}]).to_pylist()[0])
