"""`demo`: recorded evidence of real clusters through the whole path, then the app; `--live`: a cluster started now."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.collect import collect_settings, land_folder, until_stopped
from rebalance_audit.commands.company import COMPANY, RECORDED, folder_of_demos
from rebalance_audit.commands.options import CommandError, UsageError
from rebalance_audit.commands.output import note
from rebalance_audit.commands.pipeline import Carried, print_outcome, run_stages
from rebalance_audit.commands.serve import LOOPBACK, free_port, require_streamlit, serve_app, start_app
from rebalance_audit.commands.watch import follow
from rebalance_audit.commands.whatif_fleet import weigh

CHECKOUT = Path(__file__).resolve().parents[2]
REPLAYING_S = 20.0
"""Seconds of CPU time at most; the company's groups take three."""
_LAB_IS_UP = "Ctrl-C ends it all."


def demo(
    warehouse: Annotated[
        str | None, typer.Option("-w", "--warehouse", metavar="W", help="The warehouse; a new folder by default.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Start a real cluster now, and watch its rebalances.")] = False,
    kafka: Annotated[str, typer.Option("--kafka", metavar="V", help="With --live: Kafka's version.")] = "4.3.0",
    port: Annotated[
        int, typer.Option("--port", metavar="P", min=0, max=65535, help="Port of the app; 0: any that is free.")
    ] = 8501,
    every: Annotated[
        bool, typer.Option("--all", help="All recorded evidence, each under its own name; a few clusters by default.")
    ] = False,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="End after the report.")] = False,
    quiet: options.Quiet = False,
) -> None:
    """Show everything on recorded evidence, or on a live cluster."""
    if live:
        _live(warehouse, kafka, port, quiet=quiet)
    else:
        clusters = recorded_clusters() if every else {n: RECORDED / place for n, place in COMPANY.items()}
        _recorded(clusters, warehouse, port, no_serve=no_serve, quiet=quiet)


def recorded_clusters() -> dict[str, Path]:
    """All recorded evidence by the name its cluster gets."""
    return {cluster_name(path.parent): path.parent for path in sorted(RECORDED.glob("*/*/meta.json"))}


def _recorded(clusters: Mapping[str, Path], warehouse: str | None, port: int, *, no_serve: bool, quiet: bool) -> None:
    from ingest.folders import open_folder
    from rebalance_audit.commands.report import print_report
    from rebalance_audit.warehouse.warehouse import Warehouse

    if not clusters or not all((capture / "meta.json").is_file() for capture in clusters.values()):
        raise CommandError(f"There is no recorded evidence at {RECORDED}; install the package again.")
    warehouse = warehouse or str(folder_of_demos() / _fingerprint(clusters))
    if not no_serve:
        require_streamlit("; --no-serve ends after the report")
        port = free_port(LOOPBACK, port)  # refused now, not when all is done
        note(f"The app will be at http://{LOOPBACK}:{port} within a minute.", quiet=quiet)
    started = time.monotonic()
    for name, capture in clusters.items():
        note(f"{name}: {_description(capture)}", quiet=quiet)
        land_folder(open_folder(capture, cluster_id=name), warehouse, quiet=quiet)
    opened = Warehouse.open(warehouse)
    outcome = run_stages(opened, quiet=quiet)
    print_outcome(outcome, time.monotonic() - started, quiet=quiet)
    note("Replaying each group under other settings.", quiet=quiet)
    weigh(opened, seconds=REPLAYING_S, days=30, carried=Carried(), quiet=quiet)
    print_report(opened)
    note(f"The warehouse is {opened.location}.", quiet=quiet)
    if not no_serve:
        serve_app(opened.location, port, quiet=quiet)


def cluster_name(capture: Path) -> str:
    """The id a capture's cluster gets with `--all`: `eager_join_leave_kill-4.3.0`."""
    return f"{capture.name}-{capture.parent.name}"


def _fingerprint(clusters: Mapping[str, Path]) -> str:
    """It differs for other captures, since the same cluster's name with other bytes would be a contradiction. It also
    differs for other columns, since the folder stays when the program is updated."""
    import hashlib

    from rebalance_audit.domain import tables

    digest = hashlib.sha256("".join(table.ddl() for table in tables.BY_NAME.values()).encode())
    for name, capture in clusters.items():
        digest.update(name.encode() + (capture / "meta.json").read_bytes())
    return digest.hexdigest()[:12]


def _description(capture: Path) -> str:
    try:
        description = json.loads((capture / "truth" / "scenario.json").read_text("utf-8"))["description"]
    except (OSError, ValueError, KeyError):
        return "recorded evidence"
    return " ".join(str(description).split())


# ---- live


@dataclass(slots=True)
class Lab:
    """A lab in a process of its own: its signals and its children stay with it."""

    process: subprocess.Popen[str]
    bootstrap: str = ""
    logs: str = ""
    clients: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def read_until_up(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if match := re.match(r"bootstrap\s+(\S+)", line):
                self.bootstrap = match[1]
            elif match := re.match(r"logs\s+(.+?)\s*$", line):
                self.logs = match[1]
            elif re.search(r"\bpid \d+  group ", line):
                self.clients.append(line.rstrip())
            elif _LAB_IS_UP in line:
                return
        raise CommandError(f"The lab did not start: {' '.join(self.said[-3:]) or 'see what it said above'}")

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def starting_lab(kafka: str, *, connect_workers: int = 1) -> Iterator[Lab]:
    """Returns at once: there is other work to do while it starts."""
    command = [
        sys.executable, "-m", "infra.lab", "up", "--load", "--kafka", kafka, "--connect", str(connect_workers)
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        start_new_session=True,  # Ctrl-C comes to us; we end the lab last and in order
    )  # fmt: skip
    lab = Lab(process)
    try:
        yield lab
    finally:
        lab.stop()


def _live(warehouse: str | None, kafka: str, port: int, *, quiet: bool) -> None:
    import tempfile

    from infra.lab import jars
    from rebalance_audit.warehouse.warehouse import Warehouse

    if kafka not in jars.versions():
        raise UsageError(f"The lab has no Kafka {kafka!r}; give one of {', '.join(jars.versions())} with --kafka.")
    note("Starting a real cluster with Maven's jars; the first time it fetches them.", quiet=quiet)

    with tempfile.TemporaryDirectory(prefix="rebalance-audit-live-") as scratch, starting_lab(kafka) as lab:
        lab.read_until_up()
        opened: Any = Warehouse.open(warehouse or f"{scratch}/warehouse", create=True)
        settings = collect_settings(lab.bootstrap, None, None, [lab.logs], None)
        app = start_app(opened.location, port)
        try:
            note(f"Kafka is at {lab.bootstrap}, its logs in {lab.logs}.")
            note(f"The app is at {app.address}. The first rebalances show within half a minute.")
            note("Now hurt a group, and watch: kill -9 PID of one of")
            for line in lab.clients:
                note(f"   {line}")
            note("Ctrl-C ends it all.")
            with until_stopped() as stopped:
                threading.Thread(target=_drain, args=(lab,), name="lab output", daemon=True).start()
                follow(opened, settings, stopped, every_s=None, alert_to=[], quiet=quiet)
        finally:
            app.stop()


def _drain(lab: Lab) -> None:
    """Goes on reading, so that later output of the lab does not fill its pipe."""
    assert lab.process.stdout is not None
    for line in lab.process.stdout:
        lab.said = [*lab.said[-20:], line.rstrip()]
