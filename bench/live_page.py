"""`make live` with a page open: seconds from the line of a killed member's session to its incident on that page.

    python -m bench.live_page [--kills 3]

A real cluster with its sample load, `watch`, the app and a browser, as a stranger has them after `make live`. A member
of each group is killed in turn. Seconds count from the broker's own line; the page is looked at every 50 ms.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from infra.lab.processes import unwind_once
from tests.app.serving import browser, settled

SESSION_ENDED = re.compile(r"^\[([-\d]+ [:\d]+,\d+)\](.*(?:has failed, removing it|session expired).*)", re.MULTILINE)
UP_S, SEEN_S, BETWEEN_S = 180.0, 120.0, 20.0


def started(warehouse: str) -> tuple[subprocess.Popen[str], str, Path, list[tuple[str, int]]]:
    """The demo, the app's address, the folder of the brokers' logs, and (group, process) of each member."""
    command = [sys.executable, "-m", "rebalance_audit.cli", "demo", "--live", "-w", warehouse, "--port", "0"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert demo.stdout is not None
    address, logs, members = "", Path(), list[tuple[str, int]]()
    for line in demo.stdout:
        print(line, end="", flush=True)
        if match := re.search(r"its logs in (.+)\.$", line):
            logs = Path(match[1])
        elif match := re.search(r"The app is at (http\S+?)\.? ", line):
            address = match[1]
        elif match := re.search(r"pid (\d+)  group ([^,]+),", line):
            members.append((match[2], int(match[1])))
        elif "Ctrl-C ends it all" in line:
            break
    threading.Thread(target=demo.stdout.read, daemon=True).start()
    return demo, address, logs, members


def ended_at(logs: Path, group: str) -> float | None:
    """When a broker says that the session of the group's member ended."""
    for file in logs.rglob("*.log"):
        for at, text in SESSION_ENDED.findall(file.read_text(errors="replace")):
            if group in text:
                return datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp()
    return None


def measured(page: Any, logs: Path, group: str, process: int) -> str:
    title = re.compile(rf"[^\n]*{re.escape(group)}[^\n]*(?:expired|vanish|died|lost)[^\n]*", re.IGNORECASE)
    before = set(title.findall(page.inner_text("body")))
    os.kill(process, signal.SIGKILL)
    until = time.time() + SEEN_S
    seen: float | None = None
    found: set[str] = set()
    while seen is None and time.time() < until:
        found = set(title.findall(page.inner_text("body"))) - before
        seen = time.time() if found else None
        time.sleep(0.05)
    ended = ended_at(logs, group)
    if seen is None or ended is None:
        return f"{group}: not seen (line {ended}, page {seen})"
    return f"{group}: {seen - ended:.2f} s ({' / '.join(sorted(found))[:150]})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=3)
    signal.signal(signal.SIGTERM, unwind_once)  # the lab goes with it
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-live-") as folder, browser() as chromium:
        demo, address, logs, members = started(f"{folder}/warehouse")
        try:
            page = chromium.new_page(viewport={"width": 1440, "height": 1800})
            page.goto(address)
            settled(page)
            groups = dict(reversed(members))  # the first member of each
            until = time.time() + UP_S
            while not all(group in page.inner_text("body") for group in groups) and time.time() < until:
                time.sleep(1)
            time.sleep(BETWEEN_S)
            for group, process in list(groups.items())[-asked.kills :]:
                print(measured(page, logs, group, process), flush=True)
                time.sleep(BETWEEN_S)
        finally:
            demo.send_signal(signal.SIGINT)
            demo.wait(120)


if __name__ == "__main__":
    main()
