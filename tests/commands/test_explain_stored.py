"""`explain GROUP -w W` says what `explain GROUP --evidence DIR` says of the same evidence."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit import cli
from rebalance_audit.commands.stored import _in_order
from rebalance_audit.domain.kinds import Outcome
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.live.present import Present, keep
from rebalance_audit.warehouse.just_in import NOTHING, JustInRows
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.captures import GOLDEN

CASES = {
    "eager_join_leave_kill": "orders-app",
    "connect_worker_lost": "connect-lab",
    "kip848_join_leave": "clicks-app",
    "frozen_briefly": "pausing-app",
}


@pytest.fixture(scope="module", params=list(CASES))
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, str]:
    capture, warehouse = GOLDEN / "4.3.0" / request.param, str(tmp_path_factory.mktemp(request.param) / "w")
    for verb in (["import", str(capture)], ["run", "--engine", "local"]):
        assert cli.run([*verb, "-q", "-w", warehouse]) == 0
    return CASES[request.param], capture, warehouse


def said(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> Any:
    capfd.readouterr()
    assert cli.run(["explain", *arguments, "-q", "-o", "json"]) == 0
    return json.loads(capfd.readouterr().out)


def test_tables_and_evidence_give_one_answer(both: tuple[str, Path, str], capfd: pytest.CaptureFixture[str]) -> None:
    group, capture, warehouse = both
    of_evidence = said([group, "--evidence", str(capture)], capfd)
    of_tables = said([group, "-w", warehouse], capfd)
    for name in ("rebalances", "incidents", "standstills"):
        assert of_tables[name] == of_evidence[name], name
    ids = [sorted(f["finding_id"] for f in answer["findings"]) for answer in (of_evidence, of_tables)]
    assert ids[0] == ids[1]


def test_a_time_without_a_rebalance_is_not_called_right(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The capture's evidence ends three seconds after the last rebalance."""
    warehouse = str(tmp_path / "w")
    for verb in (["import", str(GOLDEN / "4.3.0" / "storm")], ["run", "--engine", "local"]):
        assert cli.run([*verb, "-q", "-w", warehouse]) == 0
    capfd.readouterr()
    assert cli.run(["explain", "stormy-app", "-w", warehouse, "-q", "--last", "1s"]) == 1
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "has no rebalance in that last part of the evidence" in shown.err


def test_without_a_group_both_list_the_same_ones(
    both: tuple[str, Path, str], capfd: pytest.CaptureFixture[str]
) -> None:
    _, capture, warehouse = both
    of_evidence, of_tables = said(["--evidence", str(capture)], capfd), said(["-w", warehouse], capfd)
    assert of_tables == of_evidence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nope"], "There is no group 'nope' at"),
        (["--reassignment", "orders-1"], "-w explains groups"),
        (["--cluster-id", "nowhere"], "There is no cluster 'nowhere' at"),
        (["orders-app", "--evidence", "."], "-w and --evidence are 2 places to look at; give one of -w W"),
        (["orders-app", "--cluster-id", "other"], "There is no cluster 'other' at"),
    ],
)
def test_what_cannot_be_answered(
    both: tuple[str, Path, str], arguments: list[str], sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["explain", *arguments, "-w", both[2]]) == 2
    assert sentence in capfd.readouterr().err


@pytest.mark.parametrize("verb", ["explain", "whatif"])
def test_an_unknown_group_of_a_named_cluster_is_a_wrong_command_line(
    both: tuple[str, Path, str], verb: str, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = Warehouse.open(both[2]).query("SELECT DISTINCT cluster_id AS id FROM gold.rebalance")["id"][0].as_py()
    assert cli.run([verb, "nope", "-w", both[2], "--cluster-id", cluster]) == 2
    assert f"There is no group 'nope' in cluster {cluster} of" in capfd.readouterr().err


def test_of_news_that_only_watch_knows_a_note_says_so(
    both: tuple[str, Path, str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group, _, warehouse = both
    monkeypatch.setattr("rebalance_audit.live.present.FRESH_MS", 600_000)
    opened = Warehouse.open(warehouse)
    rows = opened.read("gold.rebalance")
    note = Present(
        cluster_id=rows["cluster_id"][0].as_py(), written_at_ms=int(time.time() * 1000), running_count=0, running=()
    )
    for news, is_said in ((NOTHING, False), (JustInRows(rows={"gold.rebalance": rows}), True)):
        keep(opened, replace(note, just_in=news))
        capfd.readouterr()
        assert cli.run(["explain", group, "-w", warehouse]) == 0
        assert ("news of this group that the tables do not hold yet" in capfd.readouterr().err) is is_said


def test_a_misspelt_group_gets_the_name_that_is_near(
    both: tuple[str, Path, str], capfd: pytest.CaptureFixture[str]
) -> None:
    group, _, warehouse = both
    assert cli.run(["explain", group[:-1], "-w", warehouse]) == 2
    assert f"did you mean {group}?" in capfd.readouterr().err


def test_a_group_that_was_created_anew_stays_in_the_order_of_time() -> None:
    """Numbers 7 to 9 with 8 missing, then 1 again: by number alone 1 would come first."""

    def row(number: int, at_ms: int | None, outcome: Outcome = Outcome.COMPLETED) -> Rebalance:
        id_ = f"{number}@{at_ms}"
        return Rebalance(
            cluster_id="c", rebalance_id=id_, group_id="g", generation_id=number, ended_at_ms=at_ms, outcome=outcome
        )

    rows = [row(1, 9_000), row(7, 1_000), row(8, None, Outcome.MISSING), row(9, 3_000)]
    assert [r.generation_id for r in _in_order(rows)] == [7, 8, 9, 1]
