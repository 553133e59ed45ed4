"""`ack` and `silence` on a warehouse: kept at once, both of two, seen by the report and honoured by alerts."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from rebalance_audit import cli
from rebalance_audit.domain.incidents import Incident, incident_row
from rebalance_audit.domain.incidents.responses import acknowledgement, standing
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.responses import respond, responses
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.alerts.incidents import an_incident


@pytest.fixture
def filled(tmp_path: Path) -> Warehouse:
    """Three incidents: two open, of orders and of billing, and one that is over."""
    opened = Warehouse.open(tmp_path / "w", create=True)
    found: list[Incident] = [
        an_incident(1),
        an_incident(2, group_ids=("billing",)),
        an_incident(3, status="over"),
    ]
    opened.append("gold.incident", rows_to_table("gold.incident", [incident_row(i) for i in found]))
    opened.publish({"gold.incident": opened.version("gold.incident") or 0})
    return opened


def run(*arguments: str) -> int:
    return cli.run(list(arguments))


def test_an_acknowledgement_is_kept_and_the_second_reads_who_was_first(
    filled: Warehouse, capfd: pytest.CaptureFixture[str]
) -> None:
    asked = ["ack", "in:0000000000000001", "-w", filled.location, "--by"]
    assert run(*asked, "anna", "--reason", "rolling back") == 0
    assert "in:0000000000000001 is acknowledged by anna at" in capfd.readouterr().err
    assert run(*asked, "ben") == 0
    assert "Kept beside the first: acknowledged by anna at" in capfd.readouterr().err
    assert [(r.by, r.reason) for r in responses(filled)] == [("anna", "rolling back"), ("ben", None)]
    assert run("report", "-w", filled.location, "-o", "json") == 0
    (first, *_) = json.loads(capfd.readouterr().out)["incidents"]
    assert first["answers"][0].endswith("rolling back; also by ben")


def test_two_at_once_are_both_kept(filled: Warehouse) -> None:
    """Each thread a process of its own would be: it opens the warehouse again."""
    names = [f"n{i}" for i in range(6)]
    start = threading.Barrier(len(names))

    def answer(name: str) -> None:
        opened = Warehouse.open(filled.location)
        start.wait()
        respond(opened, acknowledgement(an_incident(1), name, 1_763_733_791_000, None))

    threads = [threading.Thread(target=answer, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stands = standing(an_incident(1), responses(filled), 1_763_733_791_000)
    assert stands.acknowledged is not None
    assert sorted([stands.acknowledged.by, *(r.by for r in stands.also)]) == names


def test_it_is_kept_while_a_run_holds_the_lease(filled: Warehouse) -> None:
    with filled.lease("run"):
        assert run("ack", "in:0000000000000002", "-w", filled.location, "--by", "anna") == 0
    assert len(responses(filled)) == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["ack", "in:0000000000000009"], "There is no incident 'in:0000000000000009'"),
        (["ack", "in:00000000000000"], "is the beginning of 3 incidents; give the whole id."),
        (["ack", "in:0000000000000001", "--by", " "], "The name is empty"),
        (["silence", "orders*", "--reason", "planned"], "A silence needs an end"),
        (["silence", "orders*", "--until", "2h"], "A silence needs a reason"),
        (["silence", "orders*", "--until", "yesterday", "--reason", "x"], "epoch milliseconds, or 2h."),
        (["silence", "orders*", "--until", "2026-13-45T99:00", "--reason", "x"], "is no time"),
        (["silence", "orders*", "--until", "2001-01-01", "--reason", "x"], "which is past"),
        (["silence", "orders*", "--until", "99999999999999999999", "--reason", "x"], "no calendar has this time"),
        (["silence", "orders*", "--until", "999999w", "--reason", "x"], "within a year"),
        (["silence", "*", "--until", "1h", "--reason", "x", "--to", "slack://a/b/c"], "is no Alertmanager"),
    ],
)
def test_what_is_odd_is_refused_in_one_sentence(
    filled: Warehouse, capfd: pytest.CaptureFixture[str], arguments: list[str], why: str
) -> None:
    assert run(*arguments, "-w", filled.location) in (1, 2)
    said = capfd.readouterr().err
    assert why in said
    assert said.count("\n") == 1
    assert "Traceback" not in said


def dry(filled: Warehouse, capfd: pytest.CaptureFixture[str]) -> str:
    capfd.readouterr()
    assert run("alert", "-w", filled.location, "--to", "json://localhost", "--dry-run") == 0
    return capfd.readouterr().out


def test_a_silence_that_fits_nothing_is_kept_and_says_so(filled: Warehouse, capfd: pytest.CaptureFixture[str]) -> None:
    groups = [
        {
            "cluster_id": "c", "group_id": "quiet-app", "group_type": "classic", "state": "Stable", "mode": "eager",
            "rebalance_count": 0, "rebalance_count_1h": 0, "rebalance_count_24h": 0, "open_finding_count": 0,
        }
    ]  # fmt: skip
    filled.append("gold.group", rows_to_table("gold.group", groups))
    filled.publish({**filled.published(), "gold.group": filled.version("gold.group") or 0})
    asked = ["silence", "-w", filled.location, "--by", "anna", "--reason", "planned", "--until", "2h"]
    assert run(*asked, "Orders*") == 0
    assert "fits no group and no open incident known today" in capfd.readouterr().err
    assert run(*asked, "quiet-*") == 0
    assert "No alerts about quiet-* until" in capfd.readouterr().err
    assert run(*asked, "billing") == 0  # of an open incident
    assert "1 open incident now." in capfd.readouterr().err
    assert [r.pattern for r in responses(filled)] == ["Orders*", "quiet-*", "billing"]


def test_alerts_heed_a_silence_until_it_is_lifted(filled: Warehouse, capfd: pytest.CaptureFixture[str]) -> None:
    assert dry(filled, capfd).count("[WARNING]") == 2
    asked = ["silence", "orders*", "-w", filled.location, "--by", "anna", "--reason", "planned"]
    assert run(*asked, "--until", "2h") == 0
    assert "; 1 open incident now." in capfd.readouterr().err
    assert dry(filled, capfd).count("[WARNING]") == 1
    assert run(*asked, "--until", "now") == 0
    assert dry(filled, capfd).count("[WARNING]") == 2


def test_an_alert_names_who_acknowledged(filled: Warehouse, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("ack", "in:0000000000000001", "-w", filled.location, "--by", "anna") == 0
    assert "acknowledged by anna at" in dry(filled, capfd)
