"""A log that floods: CPU and bytes written by a reader of 100,000 lines a second that say nothing about groups.

    python -m bench.flood [--lines 100000] [--seconds 20]

Two kinds of text: a client that has lost its broker (`Connection to node … could not be established`, 10,000 lines a
second were seen), and an access log. In each, one line of a group coordinator a second, which must be kept. The writer
is a process of its own; `collect` follows the folder as it always does. CPU is that of the reader alone.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

import pyarrow.dataset

TEXTS = {
    "a client without its broker": (
        "WARN [Consumer clientId=consumer-orders-1, groupId=orders] Connection to node 1 (broker-1/10.0.0.1:9092) "
        "could not be established. Node may not be available. (org.apache.kafka.clients.NetworkClient)"
    ),
    "an access log": "INFO GET /orders/4711 200 13 ms from 10.0.0.7 user agent curl/8.5 (org.eclipse.jetty.RequestLog)",
}
OF_GROUP = "INFO [GroupCoordinator id=1] Stabilized group orders generation {n} (__consumer_offsets-1) with 2 members"
CATCH_UP_S = 15
_CPU_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return sum(map(int, fields[11:13])) / _CPU_TICKS


def stamp() -> str:
    return datetime.now().isoformat(" ", "milliseconds").replace(".", ",")


def write(log: Path, text: str, lines_per_s: int, seconds: int) -> int:
    """A tenth of a second's lines at a time, since writing them costs CPU of its own."""
    began, count = time.monotonic(), 0
    with log.open("a") as stream:
        for tick in range(seconds * 10):
            at = stamp()
            stream.write(f"[{at}] {text}\n" * (lines_per_s // 10))
            count += lines_per_s // 10
            if tick % 10 == 5:
                stream.write(f"[{at}] {OF_GROUP.format(n=tick)} (kafka.coordinator.group.GroupCoordinator)\n")
                count += 1
            stream.flush()
            time.sleep(max(0.0, began + (tick + 1) / 10 - time.monotonic()))
    return count


def measure(name: str, text: str, lines_per_s: int, seconds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        logs, warehouse = place / "logs", place / "warehouse"
        logs.mkdir()
        (logs / "server.log").write_text(f"[{stamp()}] {text}\n" * 20)
        command = [
            sys.executable, "-m", "rebalance_audit.cli", "collect", "-w", str(warehouse), "--cluster-id", "bench",
            "--logs", f"node={logs}",
        ]  # fmt: skip
        reader = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(5)
        before, began = cpu_s(reader.pid), time.monotonic()
        count = write(logs / "server.log", text, lines_per_s, seconds)
        took_s = time.monotonic() - began
        time.sleep(CATCH_UP_S)
        used = cpu_s(reader.pid) - before
        reader.send_signal(signal.SIGTERM)
        reader.wait(60)
        written = sum(f.stat().st_size for f in warehouse.rglob("*") if f.is_file())
        kept = pyarrow.dataset.dataset(warehouse / "landing/log_line").to_table(columns=["text"])["text"].to_pylist()
        books = pyarrow.dataset.dataset(warehouse / "landing/source").to_table(columns=["item_count", "let_go_count"])
        let_go = sum(filter(None, books["let_go_count"].to_pylist()))
        of_group = sum("GroupCoordinator" in line for line in kept)
        print(
            f"| {name} | {count / took_s:,.0f} | {used / took_s:.2f} | {written / took_s / 1e6:.3f} | {of_group} of "
            f"{seconds} | {len(kept):,} | {let_go:,} |", flush=True,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=100_000, help="a second")
    parser.add_argument("--seconds", type=int, default=20, help="of writing, for each kind of text")
    asked = parser.parse_args()
    print("| text | lines a second | cores | MB/s written | lines of the group kept | lines kept | let go |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, text in TEXTS.items():
        measure(name, text, asked.lines, asked.seconds)


if __name__ == "__main__":
    main()
