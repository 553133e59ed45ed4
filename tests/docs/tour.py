"""The tour of the docs, typed in a clean clone of what is committed: `python -m tests.docs.tour`, or `make tour`.

The clone makes its own environment, as the page says. What must be there in the end: two clusters, three teams, an
alert for each incident, a run by Airflow, and a log of evidence that verifies.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from rebalance_audit.warehouse.warehouse import Warehouse
from tests.docs.pages import ROOT, run, typed
from tests.webhook import Webhook

TEAMS = {("shop", "orders-app"): "orders", ("shop", "payments-app"): "payments", ("platform", "billing-app"): "billing"}


def clone(folder: Path, *, has_environment: bool) -> Path:
    """`has_environment`: with the environment of this checkout in place of one of its own."""
    subprocess.run(["git", "clone", "-q", "--shared", str(ROOT), str(folder)], check=True)
    if has_environment:
        # No link to the folder: its tools would find this checkout's packages through it just as well, but `make`
        # would write its stamp there.
        (folder / ".venv" / "bin").mkdir(parents=True)
        for tool in ("python", "rebalance-audit", "airflow"):
            (folder / ".venv" / "bin" / tool).symlink_to(Path(sys.executable).with_name(tool))
        (folder / ".venv" / ".installed").touch()
    return folder


def check(folder: Path) -> None:
    """Type the page there. Raises AssertionError where something is missing in the end."""
    webhook, of_orders = Webhook(), Webhook()
    try:
        said = run(typed("tour", {"ALERTS": webhook.url, "OF_ORDERS": of_orders.url}), folder, timeout_s=1_500)
    finally:
        webhook.close()
        of_orders.close()
    opened = Warehouse.open(folder / "audit" / "warehouse")
    rows = opened.query("SELECT cluster_id, group_id, team FROM gold.group").to_pylist()
    assert {(row["cluster_id"], row["group_id"]): row["team"] for row in rows}.items() >= TEAMS.items(), rows
    alerted = set(webhook.labels("incident_id"))
    grave = "SELECT incident_id FROM gold.incident WHERE severity <> 'info' AND cluster_id = 'shop'"
    assert alerted == {row["incident_id"] for row in opened.query(grave).to_pylist()}
    assert alerted
    theirs = f"{grave} AND list_has_any(group_ids, (SELECT list(group_id) FROM gold.group WHERE team = 'orders'))"
    assert set(of_orders.labels("incident_id")) == {row["incident_id"] for row in opened.query(theirs).to_pylist()}
    assert of_orders.alerts
    assert "\nIntact: " in said.stdout, said.stdout[-2_000:]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        check(clone(Path(scratch) / "clone", has_environment=False))
    print("The tour ends where it says.")
