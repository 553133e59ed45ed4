"""`watch` as its users see it: a process that follows a log, and somebody who is called."""

from __future__ import annotations

import gzip
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rebalance_audit.warehouse.warehouse import Warehouse
from tests.captures import GOLDEN
from tests.webhook import Webhook

ROOT = Path(__file__).parents[2]
EAGER = GOLDEN / "4.3.0" / "eager_join_leave_kill"


def landed_texts(landing: Path) -> list[str]:
    """The lines that are durable."""
    return [text for f in landing.glob("*.parquet") for text in pq.read_table(f, columns=["text"])["text"].to_pylist()]


def test_watch_alerts_on_arrival_and_the_tables_say_the_same_once(tmp_path: Path) -> None:
    """A log that grows: the member's end is alerted from its line, when that is durable; the stages add no message."""
    logs, place = tmp_path / "broker-1", tmp_path / "w"
    logs.mkdir()
    text = gzip.decompress((EAGER / "logs" / "broker-1" / "server.log.gz").read_bytes()).decode()
    before, gone, after = text.partition("[2026-11-21 16:18:26,205] INFO")
    assert gone
    (logs / "server.log").write_text(before)
    landed_then: list[str] = []
    receiver = Webhook(lambda: landed_then.extend(landed_texts(place / "landing" / "log_line")))
    watching = subprocess.Popen(
        [sys.executable, "-m", "rebalance_audit.cli", "watch", "-w", str(place), "--logs", str(logs), "--cluster-id",
         "recorded", "--engine", "local", "--to", receiver.url],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    said: list[str] = []
    try:
        assert watching.stderr is not None
        for line in watching.stderr:
            said.append(line)
            if line.startswith("Caught up"):
                break
        with (logs / "server.log").open("a") as log:
            log.write(gone + after.partition("[2026-11-21 16:18:34")[0])
        rows: list[dict[str, Any]] = []
        give_up_at = time.monotonic() + 120
        sql = "SELECT incident_id, severity, status FROM gold.incident WHERE severity = 'warning'"
        while not (rows and receiver.alerts) and time.monotonic() < give_up_at and watching.poll() is None:
            time.sleep(0.5)
            rows = Warehouse.open(place).query(sql).to_pylist()
        with (logs / "server.log").open("a") as log:  # any news makes the stages run again
            log.write("[2026-11-21 16:18:34" + after.partition("[2026-11-21 16:18:34")[2])
        time.sleep(5)
    finally:
        watching.send_signal(signal.SIGTERM)
        said.append(watching.communicate(timeout=120)[1])
        receiver.close()
    assert watching.returncode == 0, said
    assert said[0].startswith("Following "), said
    assert "live" in said[0]
    assert receiver.labels("incident_id") == [row["incident_id"] for row in rows], said
    assert any("has failed, removing it from the group" in line for line in landed_then)
    assert "Traceback" not in "".join(said)
