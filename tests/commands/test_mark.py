"""`mark`: what was noted is there at once, beside what was found; odd times and texts are refused in one sentence."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit import cli
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.signing import ENVIRONMENT_HEADS, ENVIRONMENT_KEY, make_key
from rebalance_audit.warehouse.warehouse import Warehouse

GROUP: dict[str, Any] = {
    "group_id": "orders", "group_type": "classic", "state": "Stable", "mode": "eager", "rebalance_count": 1,
    "rebalance_count_1h": 0, "rebalance_count_24h": 0, "open_finding_count": 0,
}  # fmt: skip


@pytest.fixture
def filled(tmp_path: Path) -> Warehouse:
    """Two clusters, and a mark that was found in evidence."""
    opened = Warehouse.open(tmp_path / "w", create=True)
    opened.append("gold.group", rows_to_table("gold.group", [GROUP | {"cluster_id": c} for c in ("one", "two")]))
    found = {
        "cluster_id": "one",
        "mark_id": "mk:1",
        "at_ms": 1,
        "source": "evidence",
        "text": "Deploy",
        "scope": "orders",
    }
    opened.append("gold.mark", rows_to_table("gold.mark", [found | {"evidence": ["record:a-0@1"]}]))
    opened.publish({"gold.group": opened.version("gold.group") or 0, "gold.mark": opened.version("gold.mark") or 0})
    return opened


def marks(opened: Warehouse) -> list[tuple[Any, ...]]:
    rows = opened.query("SELECT cluster_id, at_ms, source, text, scope FROM gold.mark ORDER BY ALL").to_pylist()
    return [tuple(row.values()) for row in rows]


def test_a_mark_is_in_every_cluster_at_once_and_twice_the_same_is_once(filled: Warehouse) -> None:
    for _ in range(2):
        asked = ["mark", "-w", filled.location, "--at", "2026-11-21T14:00", "--text", " v2.3 of orders ", "-g", "ord*"]
        assert cli.run(asked) == 0
    assert marks(filled) == [
        ("one", 1, "evidence", "Deploy", "orders"),
        ("one", 1_795_269_600_000, "told", "v2.3 of orders", "ord*"),
        ("two", 1_795_269_600_000, "told", "v2.3 of orders", "ord*"),
    ]


def test_the_settings_name_the_warehouse_and_the_key_that_signs_what_was_noted(
    filled: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in (ENVIRONMENT_KEY, ENVIRONMENT_HEADS):
        monkeypatch.setenv(name, "")  # so that it is put back as it was: settings set it
        monkeypatch.delenv(name)
    make_key(tmp_path / "audit.pem")
    settings = tmp_path / "s.yaml"
    settings.write_text(
        f"warehouse: {filled.location}\nevidence_log: {{key_file: {tmp_path}/audit.pem, heads: {tmp_path}/heads}}\n"
    )
    assert cli.run(["mark", "--config", str(settings), "--text", "v2.3 of orders", "--at", "2026-11-21T14:00"]) == 0
    assert [text for _, _, source, text, _ in marks(filled) if source == "told"] == ["v2.3 of orders"] * 2
    capfd.readouterr()
    assert cli.run(["audit", "verify", "--config", str(settings)]) == 0
    assert "not signed" not in "".join(capfd.readouterr())
    assert (tmp_path / "heads" / "heads.jsonl").exists()


def test_without_a_time_it_is_now_and_without_a_group_all(filled: Warehouse) -> None:
    before_ms = time.time_ns() // 1_000_000
    assert cli.run(["mark", "-w", filled.location, "--text", "=cmd()\x1b[2J", "--cluster-id", "two"]) == 0
    cluster_id, at_ms, _, text, scope = marks(filled)[-1]
    assert (cluster_id, text, scope) == ("two", "=cmd()\x1b[2J", "*")  # stored as it is, escaped where it is shown
    assert before_ms <= at_ms <= time.time_ns() // 1_000_000


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (["--at", "yesterday"], "is no time"),
        (["--at", "2026-13-45T99:00"], "is no time"),
        (["--at", "1970-01-01"], "before there was a Kafka"),
        (["--at", "9999-12-31"], "more than a day ahead"),
        (["--at", "99999999999999999999"], "no calendar has this time"),
        (["--at", "-99999999w"], "no calendar has this time"),
        (["--text", "  "], "0 characters"),
        (["--text", "x" * 501], "501 characters"),
        (["-g", " "], "-g is empty"),
        (["--cluster-id", "three"], "There is no cluster 'three'"),
    ],
)
def test_what_is_odd_is_refused_in_one_sentence(
    filled: Warehouse, capfd: pytest.CaptureFixture[str], odd: list[str], why: str
) -> None:
    given = {"--text": "v2", "--at": "-1h"} | dict([odd])
    assert cli.run(["mark", "-w", filled.location, *(word for pair in given.items() for word in pair)]) == 2
    printed = capfd.readouterr()
    assert why in printed.err
    assert printed.err.count("\n") == 1
    assert len(marks(filled)) == 1


def test_marks_of_a_group_are_those_whose_pattern_it_fits(filled: Warehouse, capfd: pytest.CaptureFixture[str]) -> None:
    for pattern in ("ord*", "pay*", "*"):
        cli.run(["mark", "-w", filled.location, "--text", pattern, "-g", pattern, "--cluster-id", "one", "-q"])
    capfd.readouterr()
    assert cli.run(["export", "mark", "-w", filled.location, "-g", "orders", "-o", "csv"]) == 0
    lines = capfd.readouterr().out.splitlines()[1:]
    assert sorted(line.split(",")[4] for line in lines) == ["*", "Deploy", "ord*"]


def test_a_warehouse_in_which_nothing_is_published_says_what_to_do(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    Warehouse.open(tmp_path / "w", create=True)
    assert cli.run(["mark", "-w", str(tmp_path / "w"), "--text", "v2"]) == 1
    assert "rebalance-audit run -w" in capfd.readouterr().err
