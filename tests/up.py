"""The whole set as plain processes on this machine, until Ctrl-C (`make up`).

    python -m tests.up [--kafka 4.3.0] [--engine auto|spark|local] [--every 30] [--no-airflow]

A lab cluster with its clients, an S3 store, two collectors that share the topics, Spark standalone with two workers,
Airflow over PostgreSQL, the app, metrics, Prometheus and Alertmanager. Airflow runs the stages again and again; without
it they are run one after the other, and not checked again. What alerts is printed. It ends what it started and nothing
else. PostgreSQL, Prometheus and Alertmanager are Debian's packages; where one is missing it says so and goes on.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from infra.lab import jars
from infra.lab.cluster import Cluster
from infra.lab.load import sample_load
from infra.lab.processes import LabError, Process, free_ports, unwind_once, wait_until
from infra.lab.run_folder import remove_run_folder
from infra.lab.shape import ClusterShape
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.dags.standalone import OVER, ROOT, Standalone
from tests.object_store import BUCKET
from tests.spark_cluster import SparkCluster
from tests.webhook import Quiet, listening

DAG = "rebalance_audit"
WAREHOUSE = f"s3://{BUCKET}/up"
CLI = [sys.executable, "-m", "rebalance_audit.cli"]
ALL_IS_UP = "All is up; Ctrl-C ends it."
PROMETHEUS, ALERTMANAGER = "prometheus", "prometheus-alertmanager"
SCRAPED = """
global: {scrape_interval: 5s, evaluation_interval: 5s}
rule_files: ["%(rules)s"]
alerting: {alertmanagers: [{static_configs: [{targets: ["%(alertmanager)s"]}]}]}
scrape_configs: [{job_name: rebalance-audit, static_configs: [{targets: ["%(metrics)s"]}]}]
"""
ROUTED = """
route: {receiver: here, group_by: [alertname, cluster], group_wait: 1s, group_interval: 5s}
receivers: [{name: here, webhook_configs: [{url: "%(here)s"}]}]
"""
say = functools.partial(print, flush=True)


class Phone(Quiet):
    """Prints what Alertmanager sends."""

    def do_POST(self) -> None:
        for alert in json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"]:
            labels, words = alert["labels"], alert["annotations"]
            say(f"alert        {alert['status']} {labels['alertname']}: {words.get('summary') or words.get('title')}")
        self.send_response(200)
        self.end_headers()


class Set:
    """What runs, in the order in which it was started."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.environment: dict[str, str] = dict(os.environ)
        self.parts: list[Process] = []

    def run(self, name: str, command: Sequence[str], **more: str) -> Process:
        part = Process(name, command, folder=ROOT, output=self._folder / f"{name}.txt")
        self._stack.callback(part.stop, 10)
        part.start(self.environment | more)
        self.parts.append(part)
        return part

    def ours(self, name: str, *words: str) -> None:
        """One of our own verbs."""
        self.run(name, [*CLI, *words, "-w", WAREHOUSE])

    def must_run(self) -> None:
        for part in self.parts:
            if not part.is_running():
                raise LabError(f"{part.name} ended by itself: {part.last_output(3)}")


def database(folder: Path, port: int, stack: ExitStack) -> str | None:
    """The URL of a PostgreSQL of our own, as Airflow takes it. None: it is not installed."""
    found = [*map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))), shutil.which("initdb")]
    if found[0] is None:
        return None
    place, password, initdb = folder / "postgresql", secrets.token_hex(16), Path(str(found[0]))
    place.mkdir()
    (place / "password").write_text(password)
    user = None
    if os.geteuid() == 0:  # it refuses root
        user = "postgres"
        folder.chmod(0o711)
        for each in (place, place / "password"):
            os.chown(each, pwd.getpwnam(user).pw_uid, -1)
    made = subprocess.run(
        [initdb, "-D", place / "data", "-U", "airflow", "-A", "scram-sha-256", f"--pwfile={place / 'password'}", "-N"],
        user=user, cwd=place, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        raise LabError(f"PostgreSQL's initdb failed: {made.stderr.strip()[-300:]}")
    with (place / "said.txt").open("w") as said:
        server = subprocess.Popen(
            [initdb.with_name("postgres"), "-D", "data", "-h", "127.0.0.1", "-p", str(port), "-k", place],
            user=user, cwd=place, stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    stack.callback(server.wait, 30)
    stack.callback(server.send_signal, signal.SIGINT)  # without waiting for those who are connected
    wait_until(
        "PostgreSQL takes connections", timeout_s=60,
        is_so=lambda: "ready to accept connections" in (place / "said.txt").read_text(errors="replace"),
    )  # fmt: skip
    return f"postgresql+psycopg2://airflow:{password}@127.0.0.1:{port}/postgres"


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def monitoring(started: Set, folder: Path, metrics: str, prometheus: str, alertmanager: str, phone: str) -> None:
    """Debian's Prometheus and Alertmanager with our rules."""
    values = {
        "rules": ROOT / "infra" / "prometheus" / "rules.yml", "alertmanager": alertmanager, "metrics": metrics,
        "here": phone,
    }  # fmt: skip
    for name, settings in ((PROMETHEUS, SCRAPED), (ALERTMANAGER, ROUTED)):
        (folder / f"{name}.yml").write_text(settings % values)
        if shutil.which(name) is None:
            say(f"{name} is missing: apt-get install {name}")
    if shutil.which(ALERTMANAGER):
        started.run(ALERTMANAGER, [
            ALERTMANAGER, f"--config.file={folder / ALERTMANAGER}.yml", f"--storage.path={folder / 'alerts'}",
            f"--web.listen-address={alertmanager}", "--cluster.listen-address=",
        ])  # fmt: skip
    if shutil.which(PROMETHEUS):
        started.run(PROMETHEUS, [
            PROMETHEUS, f"--config.file={folder / PROMETHEUS}.yml", f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={prometheus}",
        ])  # fmt: skip


def airflow_settings(folder: Path, port: int, stack: ExitStack, carried: Mapping[str, str]) -> dict[str, str]:
    url = database(folder, port, stack)
    if url is None:
        say("postgresql is missing: apt-get install postgresql; Airflow keeps its own in SQLite")
    return {
        **carried,
        "REBALANCE_AUDIT_COMMAND": " ".join(CLI),
        "REBALANCE_AUDIT_WAREHOUSE": WAREHOUSE,
        "REBALANCE_AUDIT_BOOTSTRAP": "none",
        **({"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url} if url else {}),
    }


def up(given: argparse.Namespace, folder: Path, stack: ExitStack) -> None:
    ports = iter(free_ports(6))
    store, app, metrics, prometheus, alertmanager = (f"127.0.0.1:{next(ports)}" for _ in range(5))
    cluster = Cluster(ClusterShape(connect_workers=1), version=given.kafka)
    stack.callback(remove_run_folder, cluster.folder)
    credentials = {
        "AWS_ENDPOINT_URL": f"http://{store}", "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test-secret-value",
    }  # fmt: skip
    os.environ |= credentials
    started = Set(folder, stack)
    spark = SparkCluster(folder / "spark", 2, {})
    airflow = None if given.no_airflow else Standalone(folder / "airflow", {})
    addresses: Mapping[str, str] = {
        "kafka": cluster.bootstrap,
        "store": f"http://{store}, the warehouse {WAREHOUSE}",
        "spark": f"{spark.master}, page {spark.page}",
        "airflow": f"http://127.0.0.1:{airflow.port}" if airflow else "none",
        "app": f"http://{app}",
        "metrics": f"http://{metrics}/metrics",
        "prometheus": f"http://{prometheus}",
        "alertmanager": f"http://{alertmanager}",
        "output": str(folder),
    }

    def say_addresses() -> None:
        for name, address in addresses.items():
            say(f"{name:12} {address}")

    say_addresses()
    started.run("store", [sys.executable, "-m", "tests.object_store", store.rpartition(":")[2]])
    stack.enter_context(cluster)
    clients = sample_load(cluster, stack)
    wait_until("the store answers", lambda: answers(f"http://{store}/"), timeout_s=60)
    Warehouse.open(WAREHOUSE, create=True)
    for number, more in ((1, ["--logs", str(cluster.folder / "logs")]), (2, [])):
        started.ours(
            f"collector-{number}", "collect", "-b", cluster.bootstrap, "--share-as", f"collector-{number}", *more
        )
    stack.enter_context(spark)
    carried = {
        "REBALANCE_AUDIT_ENGINE": given.engine,
        "REBALANCE_AUDIT_ALERT_TO": f"http://{alertmanager}/api/v2/alerts" if shutil.which(ALERTMANAGER) else "",
        "SPARK_MASTER": spark.master,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    if airflow is not None:
        airflow.environment |= airflow_settings(folder, next(ports), stack, carried)
        stack.enter_context(airflow)
        airflow.ask("POST", "/api/v2/pools", {"name": DAG, "slots": 1})
    started.ours("app", "ui", "--port", app.rpartition(":")[2])
    started.ours("metrics", "serve", "--every", "5s", "--port", metrics.rpartition(":")[2])
    phone = stack.enter_context(listening(Phone))
    monitoring(started, folder, metrics, prometheus, alertmanager, phone)
    wait_until("the app answers", lambda: answers(f"http://{app}/_stcore/health"), timeout_s=120)
    say_addresses()
    for client in clients:
        say(f"client       {client.name} pid {client.pid} group {client.group}")
    say("Hurt a group, and watch: kill -9 PID of a client.")
    say(ALL_IS_UP)
    if airflow is None:
        run_the_stages(started, carried, given.every)
    else:
        airflow.unpause(DAG)  # begins a run at once
        trigger_the_stages(started, airflow, given.every)


def run_the_stages(started: Set, carried: Mapping[str, str], every_s: float) -> None:
    to = carried["REBALANCE_AUDIT_ALERT_TO"]
    while True:
        for verb in (["run", "-q"], ["alert", "--to", to])[: 2 if to else 1]:
            run_once(started, verb, carried)
        started.must_run()
        time.sleep(every_s)


def run_once(started: Set, verb: Sequence[str], carried: Mapping[str, str]) -> None:
    part = started.run(verb[0], [*CLI, *verb, "-w", WAREHOUSE], **carried)
    wait_until(f"{verb[0]} ends", lambda: not part.is_running(), timeout_s=600)
    started.parts.remove(part)
    say(f"{verb[0]:12} {part.last_output(1) or 'is done'}")


def trigger_the_stages(started: Set, airflow: Standalone, every_s: float) -> None:
    """Again and again; hourly, as the DAG says by itself, is too seldom to look at."""
    over_at, seen = time.monotonic(), 0
    while True:
        time.sleep(2)
        started.must_run()
        runs = airflow.runs(DAG)
        if any(run["state"] not in OVER for run in runs):
            over_at = time.monotonic()
            continue
        if len(runs) > seen:
            seen = len(runs)
            last = max(runs, key=lambda run: str(run["run_after"]))
            say(f"stages       {last['state']}, {last['start_date']} to {last['end_date']}")
            say(f"alert task   {airflow.tasks(DAG, last['dag_run_id'])['alert']['state']}")
        if time.monotonic() - over_at > every_s:
            airflow.trigger(DAG, {})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kafka", default=jars.DEFAULT_VERSION, choices=jars.versions())
    parser.add_argument("--engine", default="auto", choices=("auto", "spark", "local"), help="spark: news of any size")
    parser.add_argument("--every", type=float, default=30, metavar="S", help="rest between two runs of the stages")
    parser.add_argument("--no-airflow", action="store_true", help="and no PostgreSQL")
    given = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, unwind_once)
    try:
        with tempfile.TemporaryDirectory(prefix="up-") as folder, ExitStack() as stack:
            up(given, Path(folder), stack)
    except LabError as error:
        print(f"up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        say("Ended.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
