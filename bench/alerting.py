"""How long an alert takes from the broker's line that a consumer is gone to somebody's phone: seconds, CPU and memory,
beside Prometheus.

    python -m bench.alerting [--groups 6] [--idle 60]

A lab broker, some groups of two consumers with a session timeout of 10 s. First all is quiet, and the cost of watching
is measured. Then every 20 s another group loses one consumer to SIGKILL. Seconds count from the broker's own line that
says so (`Member … has failed`), to the first message at the webhook, and to the row that the app shows.
Beside `watch`: Prometheus and Alertmanager twice, with the intervals of their own sample configuration (scraped and
evaluated every 15 s, group_wait 30 s) and with everything tuned to one second, and the quickest rule there is: fewer
members than there were, at once. The exporter is kafka_exporter if it is in PATH
(go install github.com/danielqsj/kafka_exporter@latest), else one that describes the groups at each scrape.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from app import clock
from app.page.frame import LOOKS_AGAIN_S
from app.queries import Questions
from infra.lab.cluster import Cluster
from infra.lab.driver import Driver
from infra.lab.processes import free_ports, unwind_once
from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import GroupType, Mode
from rebalance_audit.warehouse.warehouse import Warehouse

TOOLS = ("prometheus", "prometheus-alertmanager")
EXPORTER = "kafka_exporter"
BETWEEN_S = 20
PATIENCE_S = 90
STARTING_S = 25
OURS = "rebalance-audit watch"
SAMPLE, TUNED = "Prometheus and Alertmanager, sample configuration", "the same, everything at one second"
INTERVALS = {SAMPLE: ("15s", "30s", "5m"), TUNED: ("1s", "0s", "1s")}
PROMETHEUS = """
global: {scrape_interval: %(every)s, evaluation_interval: %(every)s, scrape_timeout: 1s}
rule_files: [rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: ["127.0.0.1:%(alertmanager)d"]}]}]}
scrape_configs: [{job_name: groups, static_configs: [{targets: ["127.0.0.1:%(exporter)d"]}]}]
"""
RULES = """
groups:
  - name: groups
    rules:
      - alert: MemberGone
        expr: kafka_consumergroup_members{consumergroup=~"orders-.*"} < 2
"""
ALERTMANAGER = """
route: {receiver: here, group_by: [alertname, consumergroup], group_wait: %(wait)s, group_interval: %(interval)s}
receivers: [{name: here, webhook_configs: [{url: "http://127.0.0.1:%(here)d/%(path)s"}]}]
"""
LOST = f"""
    SELECT DISTINCT group_id FROM (SELECT group_id, unnest(triggers).trigger AS cause FROM gold.rebalance)
    WHERE cause = '{Cause.MEMBER_SESSION_EXPIRED}'
"""
_CPU_TICKS = os.sysconf("SC_CLK_TCK")


class Phone:
    """Takes both kinds of alerts, and is an exporter that Prometheus can scrape."""

    def __init__(self, bootstrap: str, groups: list[str]) -> None:
        phone = self
        self.rang: dict[tuple[str, str], float] = {}
        """(sender's path, group) → when its first alert came."""
        admin = AdminClient({"bootstrap.servers": bootstrap})

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                for alert in message["alerts"] if isinstance(message, dict) else message:
                    group = alert["labels"].get("consumergroup") or alert["labels"].get("subject")
                    phone.rang.setdefault((self.path.strip("/"), group), time.time())
                self._answer("")

            def do_GET(self) -> None:
                described = admin.describe_consumer_groups(groups)
                states = {group: future.result(10) for group, future in described.items()}
                self._answer("".join(
                    f'kafka_consumergroup_members{{consumergroup="{group}"}} {len(state.members)}\n'
                    for group, state in states.items() if state.state == ConsumerGroupState.STABLE
                ))  # fmt: skip

            def _answer(self, text: str) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


class PublishedRows(threading.Thread):
    """Notes when a reader of the published tables first sees that a group lost its member."""

    def __init__(self, location: Path) -> None:
        super().__init__(daemon=True)
        self._location, self.stopped = location, threading.Event()
        self.seen: dict[str, float] = {}

    def run(self) -> None:
        published, before = self._location / "published.json", 0.0
        while not self.stopped.wait(0.1):
            if not published.exists() or (at := published.stat().st_mtime) == before:
                continue
            before = at
            for row in Warehouse.open(self._location).query(LOST).to_pylist():
                self.seen.setdefault(row["group_id"], at)


class ShownRows(threading.Thread):
    """Notes when the app's reader first shows that a group lost its member: it looks once a second, as an open page
    does."""

    def __init__(self, location: Path) -> None:
        super().__init__(daemon=True)
        self._location, self.stopped = location, threading.Event()
        self.incidents: dict[str, float] = {}
        """By group, when the list of incidents had it."""
        self.rebalances: dict[str, float] = {}
        """By group, when its own page had the rebalance."""
        self.looks_s: list[float] = []

    def run(self) -> None:
        reader: Questions | None = None
        while not self.stopped.wait(LOOKS_AGAIN_S):
            began = time.process_time()
            if reader is None:
                if not (self._location / "published.json").exists():
                    continue
                reader = Questions.open(self._location)
            reader.refresh(clock.now_ms())
            span = reader.span()
            if span is None:
                continue
            for incident in reader.incidents(span, expected=False, most=1_000):
                for group_id in incident.group_ids if incident.root_cause == Cause.MEMBER_SESSION_EXPIRED else ():
                    self.incidents.setdefault(group_id, time.time())
                    if group_id in self.rebalances:
                        continue
                    rows = reader.group_rebalances(incident.cluster_id, group_id, span)
                    if (rows["trigger"] == Cause.MEMBER_SESSION_EXPIRED).any():
                        self.rebalances[group_id] = time.time()
            self.looks_s.append(time.process_time() - began)


class Notes(threading.Thread):
    """Notes when a page could first see that a group waits for its members: `live/present.py`."""

    def __init__(self, location: Path) -> None:
        super().__init__(daemon=True)
        self._location, self.stopped = location, threading.Event()
        self.seen: dict[str, float] = {}

    def run(self) -> None:
        while not self.stopped.wait(0.05):
            for note in self._location.glob("notes/present-*.json"):
                present = json.loads(note.read_text())["note"]
                for row in present["running"]:
                    self.seen.setdefault(row["group_id"], present["written_at_ms"] / 1000)


@contextmanager
def running(commands: Mapping[str, Sequence[Sequence[str]]], said: Path) -> Iterator[dict[str, list[int]]]:
    """Process ids by what they are measured as."""
    with said.open("w") as output:
        processes = {
            name: [subprocess.Popen(command, stdout=output, stderr=output) for command in of_name]
            for name, of_name in commands.items()
        }
        try:
            yield {name: [process.pid for process in of_name] for name, of_name in processes.items()}
        finally:
            for process in (p for of_name in processes.values() for p in of_name):
                process.send_signal(signal.SIGTERM)
            for process in (p for of_name in processes.values() for p in of_name):
                process.wait(60)


def cpu_s(pids: Sequence[int]) -> float:
    """CPU time of these processes and their children that ended."""
    total = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
        total += sum(map(int, fields[11:15]))
    return total / _CPU_TICKS


def memory_mb(pids: Sequence[int]) -> int:
    texts = [Path(f"/proc/{pid}/status").read_text() for pid in pids]
    return sum(int(found[1]) for text in texts if (found := re.search(r"VmRSS:\s+(\d+)", text))) // 1024


def set_up(place: Path, cluster: Cluster, phone: Phone) -> dict[str, list[list[str]]]:
    """The commands that watch the cluster, by what they are measured as."""
    commands: dict[str, list[list[str]]] = {
        OURS: [[
            sys.executable, "-m", "rebalance_audit.cli", "watch", "-w", str(place / "warehouse"),
            "-b", cluster.bootstrap, "--logs", f"broker-1={cluster.log_folders['broker-1']}",
            "--to", f"http://127.0.0.1:{phone.port}/ours",
        ]]
    }  # fmt: skip
    if any(shutil.which(tool) is None for tool in TOOLS):
        return commands
    exporter = phone.port
    if shutil.which(EXPORTER):
        (exporter,) = free_ports(1)
        address = f"--web.listen-address=127.0.0.1:{exporter}"
        commands["the exporter"] = [[EXPORTER, f"--kafka.server={cluster.bootstrap}", address]]
    for path, (name, (every, wait, interval)) in enumerate(INTERVALS.items()):
        folder = place / str(path)
        folder.mkdir()
        alertmanager, prometheus = free_ports(2)
        values = {
            "here": phone.port, "alertmanager": alertmanager, "exporter": exporter, "every": every, "wait": wait,
            "interval": interval, "path": str(path),
        }  # fmt: skip
        (folder / "prometheus.yml").write_text(PROMETHEUS % values)
        (folder / "rules.yml").write_text(RULES)
        (folder / "alertmanager.yml").write_text(ALERTMANAGER % values)
        commands[name] = [
            [
                TOOLS[0], f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{prometheus}",
            ],
            [
                TOOLS[1], f"--config.file={folder / 'alertmanager.yml'}", f"--storage.path={folder / 'alerts'}",
                f"--web.listen-address=127.0.0.1:{alertmanager}", "--cluster.listen-address=",
            ],
        ]  # fmt: skip
    return commands


def failed_at(logs: Path) -> dict[str, float]:
    """By group the time at which its coordinator wrote that a member has failed, by the broker's clock."""
    found: dict[str, float] = {}
    for line in (logs / "server.log").read_text("utf-8", "replace").splitlines():
        match = re.match(r"\[([\d-]+ [\d:]+,\d+)\] INFO .*Member \S+ in group (\S+) has failed, removing", line)
        if match:
            at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f").timestamp()
            found.setdefault(match[2], at)
    return found


def measure(group_count: int, idle_s: int) -> None:
    groups = [f"orders-{number}" for number in range(group_count)]
    killed: dict[str, float] = {}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(Cluster())
        driver, phone = Driver(cluster), Phone(cluster.bootstrap, groups)
        stack.callback(driver.end)
        driver.topics(orders=4)
        driver.produce()
        for group in groups:
            driver.group(group, group_type=GroupType.CLASSIC, mode=Mode.EAGER, assignor="range")
            for member in ("a", "b"):
                driver.join(f"{group}-{member}", group, ["orders"], library="librdkafka")
        rows, notes = PublishedRows(place / "warehouse"), Notes(place / "warehouse")
        shown = ShownRows(place / "warehouse")
        rows.start()
        shown.start()
        pids = stack.enter_context(running(set_up(place, cluster, phone), place / "said.txt"))
        time.sleep(STARTING_S)  # all have seen the groups as they should be
        before = {name: cpu_s(of_name) for name, of_name in pids.items()}
        time.sleep(idle_s)
        idle = {name: (cpu_s(of_name) - before[name]) / idle_s for name, of_name in pids.items()}
        at_rest = {name: memory_mb(of_name) for name, of_name in pids.items()}
        busy_since, before = time.monotonic(), {name: cpu_s(of_name) for name, of_name in pids.items()}
        notes.start()
        for group in groups:
            driver.kill(f"{group}-b")
            killed[group] = time.time()
            time.sleep(BETWEEN_S)
        senders = 1 + sum(name in pids for name in INTERVALS)
        give_up_at = time.time() + PATIENCE_S
        while len(phone.rang) < senders * group_count and time.time() < give_up_at:
            time.sleep(0.5)
        busy_s = time.monotonic() - busy_since
        busy = {name: (cpu_s(of_name) - before[name]) / busy_s for name, of_name in pids.items()}
        memory = {name: memory_mb(of_name) for name, of_name in pids.items()}
        appended = failed_at(Path(cluster.log_folders["broker-1"]))
        rows.stopped.set()
        shown.stopped.set()
        notes.stopped.set()
        if len(phone.rang) < senders * group_count:
            print((place / "said.txt").read_text()[-3_000:], file=sys.stderr)
    print("| alerts from | s after the broker's line: median | most | each | s after the kill: median | sent |")
    print("|---|---:|---:|---|---:|---|")
    at_phone = {OURS: "ours"} | {name: str(path) for path, name in enumerate(INTERVALS)}
    rung = [(name, {g: phone.rang[path, g] for g in groups if (path, g) in phone.rang})
            for name, path in at_phone.items() if name in pids]  # fmt: skip
    rung += [(f"{OURS}: {what}", {g: seen[g] for g in groups if g in seen})
             for what, seen in (("the page may know", notes.seen), ("a line of the app's list", shown.incidents),
                               ("a row of the group's page", shown.rebalances),
                               ("the tables have it", rows.seen))]  # fmt: skip
    for name, rang in rung:
        took = [rang[g] - appended[g] for g in groups if g in rang and g in appended]
        if not took:
            print(f"| {name} | – | – | – | – | 0 of {group_count} |")
            continue
        each = ", ".join(f"{s:.2f}" for s in took)
        since_kill = statistics.median(rang[g] - killed[g] for g in groups if g in rang)
        print(f"| {name} | {statistics.median(took):.2f} | {max(took):.2f} | {each} | {since_kill:.1f} "
              f"| {len(rang)} of {group_count} |")  # fmt: skip
    print("\n| cost of | % of a core, quiet | MB, quiet | % of a core, a kill every 20 s | MB then |")
    print("|---|---:|---:|---:|---:|")
    for name in pids:
        print(f"| {name} | {idle[name]:.1%} | {at_rest[name]} | {busy[name]:.1%} | {memory[name]} |")


def main() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--idle", type=int, default=60, help="seconds of quiet that are measured")
    asked = parser.parse_args()
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        print(f"Ours alone: {' and '.join(missing)} (Debian's packages of that name) are not here.", file=sys.stderr)
    signal.signal(signal.SIGTERM, unwind_once)  # the lab goes with it
    measure(asked.groups, asked.idle)


if __name__ == "__main__":
    main()
