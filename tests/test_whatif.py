"""`rebalance-audit whatif`: its answers' form, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rebalance_audit import cli

GOLDEN = Path(__file__).parent / "golden" / "4.3.0"
DEPLOY = ["deploy-app", "--evidence", str(GOLDEN / "rolling_deploy"), "-q"]
FIT = {"rebalances", "causes", "cost_seconds"}
OPTION = {
    "settings", "saved_seconds", "saved_lower_seconds", "saved_upper_seconds", "cost_seconds", "cost_lower_seconds",
    "cost_upper_seconds", "rebalances", "why", "refused",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REBALANCE_AUDIT_WAREHOUSE", "REBALANCE_AUDIT_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def test_json_has_the_promised_form() -> None:
    told = CliRunner().invoke(cli.app, ["whatif", *DEPLOY, "--set", "group.instance.id=auto", "-o", "json"])
    assert told.exit_code == 0
    answer = json.loads(told.stdout)
    assert set(answer["fit"]) >= FIT
    (option,) = answer["options"]
    assert set(option) >= OPTION
    assert option["settings"] == {"group.instance.id": "auto"}
    assert option["refused"] is None


def test_without_settings_what_could_help_is_ranked() -> None:
    told = CliRunner().invoke(cli.app, ["whatif", *DEPLOY, "-o", "json"])
    saved = [option["saved_seconds"] for option in json.loads(told.stdout)["options"]]
    assert len(saved) > 3
    assert saved == sorted(saved, reverse=True)


def test_the_text_says_the_fit_first_and_never_shows_control_characters() -> None:
    told = CliRunner().invoke(cli.app, ["whatif", *DEPLOY])
    assert "replayed as it was: 100% of the rebalances" in told.stdout
    assert told.stdout.isprintable() or set(told.stdout) - {"\n"} == {c for c in told.stdout if c.isprintable()}


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--set", "session.timeout.ms=1s"], 2),
        (["--set", "group.protocol=consumer", "--set", "session.timeout.ms=45s"], 2),
        (["-o", "csv"], 2),
        (["-w", "somewhere"], 2),
        (["--from", "2999-01-01"], 1),
    ],
)
def test_what_cannot_be_answered_is_one_sentence_without_a_number(
    arguments: list[str], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["whatif", *DEPLOY, *arguments]) == status
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1


def test_a_history_that_ends_with_its_last_record_comes_out_whole() -> None:
    told = CliRunner().invoke(
        cli.app, ["whatif", "orders-app", "--evidence", str(GOLDEN / "eager_join_leave_kill"), "-o", "json"]
    )
    assert json.loads(told.stdout)["fit"]["rebalances"] == 1.0


def test_a_share_group_is_outside_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["whatif", "share-app", "--evidence", str(GOLDEN / "share_group"), "-q"]) == 1
    assert "share group" in capsys.readouterr().err


def test_a_connect_cluster_is_asked_about_its_delay(capsys: pytest.CaptureFixture[str]) -> None:
    lost = ["whatif", "connect-lab", "--evidence", str(GOLDEN / "connect_worker_lost"), "-q"]
    assert cli.run([*lost, "--set", "scheduled.rebalance.max.delay.ms=0"]) == 0
    assert "saves" in capsys.readouterr().out
    assert cli.run([*lost, "--set", "group.instance.id=auto"]) == 2
    assert "workers have no such setting" in capsys.readouterr().err
