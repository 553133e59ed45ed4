"""Real processes that are killed: `watch` follows a log that grows, dies by SIGKILL again and again, and comes back.

    python -m tests.faults.processes [RUNS] [--seed N]

Everything is real but the broker, whose log of a golden capture is rewritten line by line; the instants of the kills
come from the seed. At the end the tables and the incidents alerted must be those of a warehouse that took in the whole
log at once.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from rebalance_audit.cli import EXIT_INTERRUPTED
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.captures import GOLDEN
from tests.webhook import Webhook

ROOT = Path(__file__).parents[2]
LOG = GOLDEN / "4.3.0" / "eager_join_leave_kill" / "logs" / "broker-1" / "server.log.gz"
KILLS = 3
LINES_AT_ONCE = 6
BETWEEN_S = 0.4
PATIENCE_S = 300.0
"""On a busy machine a start alone takes half a minute."""


def command(verb: str, *given: str) -> list[str]:
    return [sys.executable, "-m", "rebalance_audit.cli", verb, *given]


def started(given: list[str], said: Path) -> subprocess.Popen[bytes]:
    """With its words in a file; if it crashes, the stack of each thread is among them."""
    with said.open("ab") as words:
        return subprocess.Popen(given, cwd=ROOT, stderr=words, env=os.environ | {"PYTHONFAULTHANDLER": "1"})


def log_lines() -> list[str]:
    """The lines of the group's coordinator, behind the first KiB, which says which file it is."""
    lines = gzip.decompress(LOG.read_bytes()).decode().splitlines(keepends=True)
    return [line for n, line in enumerate(lines) if n < 20 or "GroupCoordinator" in line]


def rows(warehouse: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (
        Warehouse.open(warehouse)
        .query("SELECT * EXCLUDE (revision) FROM gold.rebalance ORDER BY rebalance_id")
        .to_pylist()
    )
    return found


def incidents(warehouse: Path) -> set[str]:
    sql = "SELECT incident_id FROM gold.incident WHERE severity IN ('warning', 'critical')"
    return {row["incident_id"] for row in Warehouse.open(warehouse).query(sql).to_pylist()}


@cache
def undisturbed() -> tuple[list[dict[str, Any]], set[str]]:
    with tempfile.TemporaryDirectory() as folder:
        logs, warehouse = Path(folder) / "broker-1", Path(folder) / "w"
        logs.mkdir()
        (logs / "server.log").write_text("".join(log_lines()))
        given = ["-w", str(warehouse), "--logs", str(logs), "--cluster-id", "recorded"]
        for verb in (command("import", *given), command("run", "-w", str(warehouse), "--engine", "local")):
            subprocess.run(verb, cwd=ROOT, check=True, capture_output=True)
        return rows(warehouse), incidents(warehouse)


def check(seed: int) -> int:
    """How many messages came twice. Raises AssertionError where the end differs from the undisturbed one."""
    rng = random.Random(seed)
    expected, grave = undisturbed()
    alerts = Webhook()
    with tempfile.TemporaryDirectory() as folder:
        logs, warehouse = Path(folder) / "broker-1", Path(folder) / "w"
        logs.mkdir()
        lines = log_lines()
        watch = command(
            "watch", "-w", str(warehouse), "--logs", str(logs), "--cluster-id", "recorded", "--engine", "local",
            "--to", alerts.url, "-q",
        )  # fmt: skip
        pieces = [lines[n : n + LINES_AT_ONCE] for n in range(20, len(lines), LINES_AT_ONCE)]
        deaths = sorted(rng.uniform(1.5, 3.0 + BETWEEN_S * len(pieces)) for _ in range(KILLS))
        (logs / "server.log").write_text("".join(lines[:20]))
        said = Path(folder) / "said.txt"
        watching = started(watch, said)
        began = time.monotonic()
        try:
            while pieces or deaths:
                if deaths and time.monotonic() - began >= deaths[0]:
                    deaths.pop(0)
                    watching.kill()
                    watching.wait()
                    watching = started(watch, said)
                if pieces and time.monotonic() - began > 3.0:
                    with (logs / "server.log").open("a") as log:
                        log.write("".join(pieces.pop(0)))
                time.sleep(BETWEEN_S)
            give_up_at = time.monotonic() + PATIENCE_S
            found: list[dict[str, Any]] = []
            while time.monotonic() < give_up_at and not (
                found == expected and grave <= set(alerts.labels("incident_id"))
            ):
                time.sleep(0.5)
                if (warehouse / "published.json").exists():
                    found = rows(warehouse)
            watching.send_signal(signal.SIGTERM)
            # One that is still starting has nothing to bring in order.
            code = watching.wait(PATIENCE_S)
            last_words = said.read_text("utf-8", "replace")[-4_000:]
            is_in_order = code in (0, -signal.SIGTERM, EXIT_INTERRUPTED)
            assert is_in_order, f"seed {seed}: it did not end in order ({code}): {last_words}"
        finally:
            watching.kill()
            watching.wait()
            alerts.close()
        assert found == expected, f"seed {seed}: {len(found)} rows, not the {len(expected)} of the undisturbed run"
        assert incidents(warehouse) == grave, f"seed {seed}: incidents differ"
        lost = grave - set(alerts.labels("incident_id"))
        assert not lost, f"seed {seed}: alerts lost: {lost}"
    came = list(zip(alerts.labels("incident_id"), alerts.labels("severity"), strict=True))
    return len(came) - len(set(came))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=200)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    asked = parser.parse_args()
    failed = twice = 0
    for seed in range(asked.seed, asked.seed + asked.runs):
        try:
            twice += check(seed)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed += 1
            print(error, file=sys.stderr, flush=True)
        print(
            f"{seed - asked.seed + 1} runs, {KILLS} kills in each, {failed} failed, {twice} messages twice", flush=True
        )
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
