"""From a consumer's death to somebody's phone: seconds until the webhook has the alert, ours beside Prometheus.

    python -m bench.alerting [--groups 4]

A lab broker, some groups of two consumers with a session timeout of 10 s; every 20 s another group loses one to
SIGKILL. `watch --every 10s --to URL` as it comes; beside it Prometheus and Alertmanager with the intervals of their own
sample configuration (scraped and evaluated every 15 s, group_wait 30 s), over an exporter that describes the groups at
each scrape, and the quickest rule there is: fewer members than there were, at once.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from infra.lab.cluster import Cluster
from infra.lab.driver import Driver
from infra.lab.processes import free_ports
from rebalance_audit.domain.kinds import GroupType, Mode

TOOLS = ("prometheus", "prometheus-alertmanager")
BETWEEN_S = 20
PATIENCE_S = 120
PROMETHEUS = """
global: {scrape_interval: 15s, evaluation_interval: 15s}
rule_files: [rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: ["127.0.0.1:%(alertmanager)d"]}]}]}
scrape_configs: [{job_name: groups, static_configs: [{targets: ["127.0.0.1:%(here)d"]}]}]
"""
RULES = """
groups:
  - name: groups
    rules:
      - {alert: MemberGone, expr: kafka_consumergroup_members < 2}
"""
ALERTMANAGER = """
route: {receiver: here, group_by: [alertname, consumergroup], group_wait: 30s, group_interval: 5m}
receivers: [{name: here, webhook_configs: [{url: "http://127.0.0.1:%(here)d/prometheus"}]}]
"""


class Phone:
    """Takes both kinds of alerts, and is the exporter that Prometheus scrapes."""

    def __init__(self, bootstrap: str, groups: list[str]) -> None:
        phone = self
        self.rang: dict[tuple[str, str], float] = {}
        """(sender, group) → when its first alert came."""
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


@contextmanager
def running(*commands: list[str], said: Path) -> Iterator[None]:
    with said.open("w") as output:
        processes = [subprocess.Popen(command, stdout=output, stderr=output) for command in commands]
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGTERM)
            for process in processes:
                process.wait(60)


def set_up(place: Path, cluster: Cluster, phone: Phone) -> list[list[str]]:
    """The commands that watch the cluster."""
    alertmanager, prometheus = free_ports(2)
    ports = {"here": phone.port, "alertmanager": alertmanager}
    (place / "prometheus.yml").write_text(PROMETHEUS % ports)
    (place / "rules.yml").write_text(RULES)
    (place / "alertmanager.yml").write_text(ALERTMANAGER % ports)
    return [
        [
            sys.executable, "-m", "rebalance_audit.cli", "watch", "-w", str(place / "warehouse"),
            "-b", cluster.bootstrap, "--logs", f"broker-1={cluster.log_folders['broker-1']}",
            "--to", f"http://127.0.0.1:{phone.port}/ours",
        ],
        [
            TOOLS[0], f"--config.file={place / 'prometheus.yml'}", f"--storage.tsdb.path={place / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{prometheus}",
        ],
        [
            TOOLS[1], f"--config.file={place / 'alertmanager.yml'}", f"--storage.path={place / 'alerts'}",
            f"--web.listen-address=127.0.0.1:{alertmanager}", "--cluster.listen-address=",
        ],
    ]  # fmt: skip


def measure(group_count: int) -> None:
    groups = [f"orders-{number}" for number in range(group_count)]
    killed: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder, Cluster() as cluster:
        place = Path(folder)
        driver, phone = Driver(cluster), Phone(cluster.bootstrap, groups)
        driver.topics(orders=4)
        driver.produce()
        for group in groups:
            driver.group(group, group_type=GroupType.CLASSIC, mode=Mode.EAGER, assignor="range")
            for member in ("a", "b"):
                driver.join(f"{group}-{member}", group, ["orders"], library="librdkafka")
        try:
            with running(*set_up(place, cluster, phone), said=place / "said.txt"):
                time.sleep(60)  # both have seen the groups as they should be
                for group in groups:
                    driver.kill(f"{group}-b")
                    killed[group] = time.time()
                    time.sleep(BETWEEN_S)
                give_up_at = time.time() + PATIENCE_S
                while len(phone.rang) < 2 * group_count and time.time() < give_up_at:
                    time.sleep(0.5)
        finally:
            driver.end()
    for name, who in (("ours", "rebalance-audit watch"), ("prometheus", "Prometheus and Alertmanager")):
        took = [phone.rang[name, group] - killed[group] for group in groups if (name, group) in phone.rang]
        numbers = ", ".join(f"{s:.0f}" for s in took)
        median = f"{statistics.median(took):.0f}" if took else "–"
        print(f"| {who} | {median} | {numbers} | {len(took)} of {group_count} |")


def main() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=4)
    asked = parser.parse_args()
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        print(f"Not run: it compares with {' and '.join(missing)} (Debian's packages of that name).", file=sys.stderr)
        return
    print("| alerts from | s from the kill, median | each | sent |\n|---|---:|---|---|")
    measure(asked.groups)


if __name__ == "__main__":
    main()
