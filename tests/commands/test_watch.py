"""`watch`: from logs to published tables, until it is stopped."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.warehouse.warehouse import Warehouse
from tests.commands.saying import EAGER, ROOT, assert_one_sentence


@pytest.mark.spark
def test_watch_follows_logs_publishes_and_ends_in_order(tmp_path: Path) -> None:
    """Without a broker: logs alone show rebalances, too."""
    logs, place = tmp_path / "broker-1", tmp_path / "w"
    logs.mkdir()
    (logs / "server.log").write_bytes(gzip.decompress((EAGER / "logs" / "broker-1" / "server.log.gz").read_bytes()))
    watching = subprocess.Popen(
        [sys.executable, "-m", "rebalance_audit.cli", "watch", "-w", str(place), "--logs", str(logs), "--cluster-id",
         "recorded", "--every", "1s"],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        give_up_at = time.monotonic() + 300
        found: list[Any] = []
        while not found and time.monotonic() < give_up_at and watching.poll() is None:
            time.sleep(1)
            if (place / "warehouse.json").exists():
                sql = "SELECT generation_id, trigger FROM gold.rebalance WHERE group_id = 'orders-app' ORDER BY 1"
                found = Warehouse.open(place).query(sql).to_pylist()
    finally:
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=120)
    truth = json.loads((EAGER / "truth" / "scenario.json").read_text())["groups"]["orders-app"]["rebalances"]
    assert [(r["generation_id"], r["trigger"]) for r in found] == [(t["number"], t["trigger"]) for t in truth], said
    assert watching.returncode == 0, said
    assert "Traceback" not in said
    assert not (place / "lease.json").exists()


@pytest.mark.parametrize("option", ["--every", "--stopped-after"])
def test_watch_refuses_to_look_without_a_pause(call: Any, tmp_path: Path, option: str) -> None:
    result = call("watch", "-w", tmp_path / "w", "--logs", EAGER / "logs", "--cluster-id", "shop", option, "0s")
    assert_one_sentence(result, 2)
    assert f"{option} 0s is no time at all" in result.err
    assert not (tmp_path / "w").exists()
