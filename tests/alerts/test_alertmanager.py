"""A real Alertmanager (Debian's): what `alert` sends it holds, and what is silenced it suppresses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.lab.processes import free_ports
from rebalance_audit import cli
from rebalance_audit.alerts.state import sent_about, state_of
from rebalance_audit.domain.incidents import incident_row
from rebalance_audit.domain.incidents.responses import silence
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.responses import respond, responses
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.alerts.incidents import an_incident

PROGRAM = "prometheus-alertmanager"
NAMES = ("orders-app", "orders.eu", "billing", "a+b (c)|d[1]*")
"""The last one has what both shell patterns and regular expressions obey."""


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address."""
    if shutil.which(PROGRAM) is None:
        reason = f"{PROGRAM} is not installed (Debian package of this name): silences were not tried"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("alertmanager")
    (folder / "am.yml").write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    (port,) = free_ports(1)
    command = [
        PROGRAM, f"--config.file={folder}/am.yml", f"--storage.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    ]  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    with (folder / "said.txt").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        give_up_at = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{address}/-/ready", timeout=2):
                    break
            except OSError:
                assert time.monotonic() < give_up_at, (folder / "said.txt").read_text()
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """One open incident of each group."""
    opened = Warehouse.open(tmp_path / "w", create=True)
    found = [an_incident(n, group_ids=(name,)) for n, name in enumerate(NAMES, 1)]
    opened.append("gold.incident", rows_to_table("gold.incident", [incident_row(i) for i in found]))
    opened.publish({"gold.incident": opened.version("gold.incident") or 0})
    return opened


def states(address: str) -> dict[str, str]:
    with urllib.request.urlopen(f"{address}/api/v2/alerts", timeout=10) as answer:
        held: list[dict[str, Any]] = json.load(answer)
    return {alert["labels"]["subject"]: alert["status"]["state"] for alert in held}


def suppressed(address: str, *names: str) -> None:
    """Comes to suppress these and no others: Alertmanager works states out when it looks, not at once."""
    give_up_at = time.monotonic() + 30
    while True:
        found = states(address)
        if {name for name, state in found.items() if state == "suppressed"} == set(names):
            return
        assert time.monotonic() < give_up_at, found
        time.sleep(0.2)


def test_a_silence_is_heeded_there_and_here(
    alertmanager: str, warehouse: Warehouse, capfd: pytest.CaptureFixture[str]
) -> None:
    target = f"{alertmanager}/api/v2/alerts"
    assert cli.run(["alert", "-w", warehouse.location, "--to", target]) == 0
    assert set(states(alertmanager)) == set(NAMES)
    planned = [
        "-w",
        warehouse.location,
        "--until",
        "1h",
        "--reason",
        'planned "migration"',
        "--by",
        "anna",
        "--to",
        target,
    ]
    assert cli.run(["silence", "orders-*", *planned]) == 0
    suppressed(alertmanager, "orders-app")  # and not orders.eu: a dash is no dot
    assert cli.run(["silence", "a+b (c)|d[[]1[]][*]", *planned]) == 0
    suppressed(alertmanager, "orders-app", NAMES[3])
    assert cli.run(["silence", "in:0000000000000003", *planned]) == 0
    suppressed(alertmanager, "orders-app", "billing", NAMES[3])
    capfd.readouterr()
    assert cli.run(["alert", "-w", warehouse.location, "--to", "json://localhost", "--dry-run"]) == 0
    assert capfd.readouterr().out.count("[WARNING]") == 1


def test_a_silence_that_was_set_elsewhere_reaches_it_with_the_next_alerts(
    alertmanager: str, warehouse: Warehouse, tmp_path: Path
) -> None:
    """In the app, say: whoever sends alerts knows the target."""
    target = f"{alertmanager}/api/v2/alerts"
    found = [an_incident(n, group_ids=groups) for n, groups in enumerate((("tea",), ("tea", "coffee")), 11)]
    warehouse.append("gold.incident", rows_to_table("gold.incident", [incident_row(i) for i in found]))
    warehouse.publish({"gold.incident": warehouse.version("gold.incident") or 0})

    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    def alerted() -> set[str]:
        """The incidents that it suppresses after the next alerts."""
        assert cli.run(["alert", "-w", warehouse.location, "--to", target, "-q"]) == 0
        time.sleep(0.2)
        with urllib.request.urlopen(f"{alertmanager}/api/v2/alerts", timeout=10) as answer:
            held: list[dict[str, Any]] = json.load(answer)
        return {a["labels"]["incident_id"] for a in held if a["status"]["state"] == "suppressed"} & {
            i.incident_id for i in found
        }

    assert alerted() == set()
    respond(warehouse, silence("te*", "anna", now_ms(), now_ms() + 3_600_000, "planned"))
    assert alerted() == {found[0].incident_id}  # the other reaches further than the silence
    respond(warehouse, silence("*", "anna", now_ms(), now_ms() + 7_200_000, "all of it"))
    assert alerted() == {i.incident_id for i in found}
    assert [n["what"] for n in sent_about(state_of(warehouse.location), found[0].incident_id)] == [
        "open", "silenced", "silenced",
    ]  # fmt: skip
    respond(warehouse, silence("*", "ben", now_ms(), now_ms(), "done early"))
    assert alerted() == {found[0].incident_id}  # the first silence still holds
    respond(warehouse, silence("te*", "ben", now_ms(), now_ms(), "done early"))
    assert alerted() == set()
    assert alerted() == set()  # nothing is lifted twice


def test_an_address_that_takes_no_silence_is_refused_before_anything_is_kept(
    alertmanager: str, warehouse: Warehouse, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "silence",
        "orders*",
        "-w",
        warehouse.location,
        "--until",
        "1h",
        "--reason",
        "planned",
        "--to",
        alertmanager,
    ]
    assert cli.run(asked) == 2
    assert "give the URL that ends in /api/v2/alerts" in capfd.readouterr().err
    assert responses(warehouse) == []
