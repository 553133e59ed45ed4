"""Times in logs that name no group: a given zone holds for them, too; where none is known the answer says so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit import cli
from rebalance_audit.domain.gather.clocks import ZoneSource
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.coverage import ledger
from spark_jobs.group_evidence import node_clocks
from spark_jobs.stages import reassign as stage_reassign
from tests.spark_jobs.stages.test_reassign_laws import context

GOLDEN = Path(__file__).parent / "golden"
CAPTURE = GOLDEN / "3.9.1" / "reassign_moves_zookeeper"
KOLKATA_MS = 19_800_000
"""Five hours and a half, all year."""


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Logs of brokers and controllers in ZooKeeper mode; no line of them names a group, and nothing says their zone."""
    place = tmp_path / "evidence"
    shutil.copytree(CAPTURE / "logs", place / "logs")
    (place / "meta.json").write_text(json.dumps({"cluster_id": "zk"}))
    return place


def explained(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    capfd.readouterr()
    assert cli.run(["explain", "--reassignment", "orders", "-q", *map(str, arguments)]) == 0
    return capfd.readouterr().out


def starts(printed: str) -> list[int]:
    return [r["started_at_ms"] for r in json.loads(printed)["reassignments"]]


def test_explain_reads_controllers_times_in_the_zone_of_the_command_line_and_of_meta_json(
    capfd: pytest.CaptureFixture[str], evidence: Path
) -> None:
    utc = starts(explained(capfd, "--evidence", evidence, "--log-time-zone", "UTC", "-o", "json"))
    local = starts(explained(capfd, "--evidence", evidence, "--log-time-zone", "Asia/Kolkata", "-o", "json"))
    assert len(utc) >= 3
    assert [a - b for a, b in zip(utc, local, strict=True)] == [KOLKATA_MS] * len(utc)
    (evidence / "meta.json").write_text(json.dumps({"cluster_id": "zk", "log_time_zone": "Asia/Kolkata"}))
    assert starts(explained(capfd, "--evidence", evidence, "-o", "json")) == local


def test_explain_says_where_no_zone_is_known(capfd: pytest.CaptureFixture[str], evidence: Path) -> None:
    printed = explained(capfd, "--evidence", evidence)
    assert "No zone of broker-" in printed
    assert "--log-time-zone" in printed
    known = explained(capfd, "--evidence", evidence, "--log-time-zone", "UTC")
    assert "No zone" not in known


# ---- the same in a warehouse

HEAD = "[2026-11-21 14:00:0{},123] INFO "
LINES = [
    HEAD.format(0) + "[Controller id=1] Updating assignment of partition orders-0 from ReplicaAssignment("
    "replicas=1,2, addingReplicas=, removingReplicas=) to ReplicaAssignment(replicas=3,1,2, addingReplicas=3, "
    "removingReplicas=) (kafka.controller.KafkaController)",
    HEAD.format(1) + "[Controller id=1] Successfully updated assignment of partition orders-0 to ReplicaAssignment("
    "replicas=3,1,2, addingReplicas=3, removingReplicas=) (kafka.controller.KafkaController)",
    HEAD.format(5) + "[Controller id=1] Successfully updated assignment of partition orders-0 to ReplicaAssignment("
    "replicas=3,1,2, addingReplicas=, removingReplicas=) (kafka.controller.KafkaController)",
]
STARTED_LOCAL_MS = 1_795_269_601_123
"""2026-11-21T14:00:01.123, by `date -u -d`."""


def a_warehouse(place: Path, zone: str | None) -> Warehouse:
    warehouse = Warehouse.open(place, create=True)
    where = {"cluster_id": "zk", "landing": "a test"}
    line: dict[str, Any] = where | {"node": "broker-1", "file_name": "controller.log", "file_id": "f"}
    rows = [line | {"byte": 400 * at, "text": text} for at, text in enumerate(LINES)]
    warehouse.append("bronze.log_line", rows_to_table("bronze.log_line", rows))
    book = where | {
        "source": "log:broker-1/controller.log#f", "kind": "log", "read_id": "r1", "from_position": 0,
        "to_position": 1_200, "item_count": 3, "log_time_zone": zone,
    }  # fmt: skip
    warehouse.append("bronze.source", rows_to_table("bronze.source", [book]))
    stage_reassign.run(context(warehouse))
    return warehouse


def test_a_configured_zone_holds_for_nodes_whose_logs_name_no_group(tmp_path: Path) -> None:
    warehouse = a_warehouse(tmp_path, "Asia/Kolkata")
    assert node_clocks(warehouse, None, None)["zk"]["broker-1"].source is ZoneSource.CONFIGURED
    (row,) = warehouse.read("silver.reassignment").to_pylist()
    assert row["started_at_ms"] == STARTED_LOCAL_MS - KOLKATA_MS
    assert row["detail"] is None
    assert [r["problem_code"] for r in ledger(warehouse)] == ["none"]


def test_where_no_zone_is_known_rows_and_coverage_say_so(tmp_path: Path) -> None:
    warehouse = a_warehouse(tmp_path, None)
    (row,) = warehouse.read("silver.reassignment").to_pylist()
    assert row["started_at_ms"] == STARTED_LOCAL_MS
    assert row["detail"] == "No zone of broker-1's log times is known: they were read as UTC."
    assert [r["problem_code"] for r in ledger(warehouse)] == ["none", "time_zone"]


def test_a_zone_that_is_given_later_dates_the_rows_anew(tmp_path: Path) -> None:
    warehouse = a_warehouse(tmp_path, None)
    later = {
        "cluster_id": "zk", "landing": "a test", "source": "log:broker-1/controller.log#f", "kind": "log",
        "read_id": "r2", "from_position": 0, "to_position": 1_200, "item_count": 3, "log_time_zone": "Asia/Kolkata",
    }  # fmt: skip
    warehouse.append("bronze.source", rows_to_table("bronze.source", [later]))
    stage_reassign.run(context(warehouse))
    (row,) = warehouse.read("silver.reassignment").to_pylist()
    assert (row["started_at_ms"], row["detail"]) == (STARTED_LOCAL_MS - KOLKATA_MS, None)
