"""`rebalance-audit whatif`: its answers' form, and what it refuses."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rebalance_audit import cli
from rebalance_audit.commands.whatif import _asked_line
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Member, Movement, Rebalance, to_row
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.whatif import Option
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.signing import ENVIRONMENT_KEY, make_key
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.captures import gathered

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
    result = CliRunner().invoke(cli.app, ["whatif", *DEPLOY, "--set", "group.instance.id=auto", "-o", "json"])
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert set(answer["fit"]) >= FIT
    (option,) = answer["options"]
    assert set(option) >= OPTION
    assert option["settings"] == {"group.instance.id": "auto"}
    assert option["refused"] is None


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with the rolling deploy, as the pipeline publishes it."""
    place = tmp_path_factory.mktemp("whatif") / "w"
    fill(place, GOLDEN / "rolling_deploy")
    return place


def fill(place: Path, capture: Path) -> None:
    warehouse = Warehouse.open(place, create=True)
    groups = gathered(capture).groups
    rows = [measure(r) for g in groups for r in reconstruct(g).rebalances]
    keys = ("cluster_id", "rebalance_id", "group_id", "generation_id", "group_epoch")

    def named(rebalance: Rebalance, thing: Member | Movement) -> dict[str, Any]:
        return {k: getattr(rebalance, k) for k in keys} | to_row(thing)

    tables = {
        "gold.rebalance": [to_row(r) for r in rows],
        "gold.rebalance_member": [named(r, m) for r in rows for m in r.members],
        "gold.movement": [named(r, m) for r in rows for m in r.movements],
        "silver.commit_mark": [
            {"cluster_id": rows[0].cluster_id, "group_id": g.group_id} | asdict(m) for g in groups for m in g.marks
        ],
    }
    for name, content in tables.items():
        columns = set(warehouse.schema(name).names)
        kept = [{k: v for k, v in row.items() if k in columns} for row in content]
        warehouse.append(name, rows_to_table(name, kept))
    warehouse.publish({name: warehouse.version(name) or 0 for name in tables})


def test_a_warehouse_gives_the_same_answer_as_the_evidence(filled: Path) -> None:
    asked = ["--set", "group.instance.id=auto", "--set", "session.timeout.ms=45s", "-o", "json", "-q"]
    stored = json.loads(CliRunner().invoke(cli.app, ["whatif", "deploy-app", "-w", str(filled), *asked]).stdout)
    read = json.loads(CliRunner().invoke(cli.app, ["whatif", *DEPLOY, *asked]).stdout)
    assert stored["fit"]["measured_seconds"] == read["fit"]["measured_seconds"]
    assert stored["fit"]["causes"] == read["fit"]["causes"] == 1.0
    # The evidence's end is known a little better from the evidence itself.
    assert stored["options"][0]["saved_seconds"] == pytest.approx(read["options"][0]["saved_seconds"], abs=0.5)


def test_a_group_by_name_and_the_whole_fleet_have_one_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = ["-w", str(tmp_path / "w"), "-q"]
    for verb in (["import", str(GOLDEN / "connect_worker_lost")], ["run", "--engine", "local"]):
        assert cli.run([*verb, *place]) == 0
    assert cli.run(["whatif", *place, "--engine", "local"]) == 0
    capsys.readouterr()
    names = ("saved_seconds", "saved_lower_seconds", "saved_upper_seconds", "cost_seconds")
    assert cli.run(["whatif", "connect-lab", *place, "-o", "json"]) == 0
    by_name = {o["why"]: [o[n] for n in names] for o in json.loads(capsys.readouterr().out)["options"]}
    stored = Warehouse.open(tmp_path / "w").query("SELECT * FROM gold.whatif ORDER BY place").to_pylist()
    assert len(stored) == 3
    for row in stored:
        assert by_name[row["why"]] == [row[n] for n in names]


def test_settings_that_were_asked_for_can_be_pasted_also_if_they_cost_more() -> None:
    said = CliRunner().invoke(cli.app, ["whatif", *DEPLOY, "--set", "group.instance.id=auto"]).stdout
    assert "would have cost deploy-app" in said
    assert "java         group.instance.id=" in said
    assert "as measured, from 2026-11-21 16:31:51 UTC to 2026-11-21 16:33:09 UTC" in " ".join(said.split())


def test_a_warehouse_shows_how_long_full_polls_took_as_the_evidence_does(tmp_path: Path) -> None:
    """d2 takes 21 ms for a record in the lab's story, and polls as many as it may."""
    capture = Path(__file__).parent / "pairs" / "s43-1"
    fill(tmp_path / "w", capture)
    asked = ["slow.range.java.1", "--set", "max.poll.records=100", "-o", "json", "-q"]
    stored = json.loads(CliRunner().invoke(cli.app, ["whatif", "-w", str(tmp_path / "w"), *asked]).stdout)
    read = json.loads(CliRunner().invoke(cli.app, ["whatif", "--evidence", str(capture), *asked]).stdout)
    (from_warehouse,), (from_evidence,) = stored["options"], read["options"]
    assert "a poll of 500 records took 21.2 ms for each" in from_warehouse["why"]
    assert from_warehouse["saved_seconds"] == pytest.approx(from_evidence["saved_seconds"], abs=0.5)
    assert from_warehouse["cost_seconds"] == pytest.approx(from_evidence["cost_seconds"], abs=0.5)


def test_a_group_that_is_not_in_the_warehouse_is_said(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["whatif", "nobody", "-w", str(filled), "-q"]) == 2
    assert "There is no group 'nobody'" in capsys.readouterr().err


def test_only_the_asked_time_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    # The deploy begins 24 s after the first join: what is left are its six rebalances.
    assert cli.run(["whatif", *DEPLOY, "--from", "2026-11-21T16:32:10", "-o", "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["fit"]["causes"] >= 0.9
    assert answer["fit"]["measured_seconds"] < 17.4


def test_without_settings_what_could_help_is_ranked() -> None:
    result = CliRunner().invoke(cli.app, ["whatif", *DEPLOY, "-o", "json"])
    saved = [option["saved_seconds"] for option in json.loads(result.stdout)["options"]]
    assert len(saved) > 3
    assert saved == sorted(saved, reverse=True)


def test_the_text_says_the_fit_first_and_never_shows_control_characters() -> None:
    result = CliRunner().invoke(cli.app, ["whatif", *DEPLOY])
    printed = " ".join(result.stdout.split())
    assert (
        "How sure: replayed with the settings that it had, 100% of its rebalances and 100% of their causes" in printed
    )
    assert result.stdout.isprintable() or set(result.stdout) - {"\n"} == {c for c in result.stdout if c.isprintable()}


def test_the_first_line_answers_what_was_asked_and_says_what_the_setting_does() -> None:
    asked = ["--set", "group.instance.id=auto", "--set", "session.timeout.ms=45s"]
    printed = " ".join(CliRunner().invoke(cli.app, ["whatif", *DEPLOY, *asked]).stdout.split())
    # Measured on 4.3.0: 19 to 28 partition-seconds became 63 to 72.
    assert printed.startswith("group.instance.id=auto and session.timeout.ms=45s would have cost deploy-app 4")
    assert "each process has a name that outlives it" in printed


def test_what_a_group_had_already_is_called_so() -> None:
    printed = CliRunner().invoke(cli.app, ["whatif", *DEPLOY, "--set", "heartbeat.interval.ms=3s"]).stdout
    assert printed.startswith("heartbeat.interval.ms=3s is what deploy-app had: nothing would have been different.")
    assert "heartbeat.interval.ms=3s (was 3000)" in printed


def test_all_groups_are_weighed_over_days_and_no_other_time(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["whatif", "-w", str(filled), "--from", "2026-11-21", "-q"]) == 2
    assert "--from and --to are for one GROUP" in capsys.readouterr().err


def test_the_answer_for_a_fleet_is_in_bold_on_a_terminal(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(filled, tmp_path / "w")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert cli.run(["whatif", "-w", str(tmp_path / "w"), "--seconds", "1", "--engine", "local", "-q"]) == 0
    answer = capsys.readouterr().out
    assert answer.startswith("\x1b[1mReplayed ")
    assert answer.endswith("\x1b[0m\n")


def test_what_the_answers_for_a_fleet_add_to_the_log_is_signed_with_the_key_of_the_settings(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ENVIRONMENT_KEY, "")  # so that it is put back as it was: settings set it
    monkeypatch.delenv(ENVIRONMENT_KEY)
    shutil.copytree(filled, tmp_path / "w")
    make_key(tmp_path / "audit.pem")
    settings = tmp_path / "s.yaml"
    settings.write_text(f"warehouse: {tmp_path}/another\nevidence_log: {{key_file: {tmp_path}/audit.pem}}\n")
    weighed = ["whatif", "-w", str(tmp_path / "w"), "--config", str(settings), "--seconds", "1", "--engine", "local"]
    assert cli.run([*weighed, "-q"]) == 0
    capsys.readouterr()
    assert cli.run(["audit", "verify", "-w", str(tmp_path / "w")]) == 0
    assert "not signed" not in capsys.readouterr().err
    # The warehouse of the settings is no second place to look at.
    assert cli.run(["whatif", *DEPLOY, "--config", str(settings), "--set", "session.timeout.ms=45s"]) == 0


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--set", "session.timeout.ms=1s"], 2),
        (["--set", "group.protocol=consumer", "--set", "session.timeout.ms=45s"], 2),
        (["-o", "csv"], 2),
        (["-w", "somewhere"], 2),
        (["--days", "3"], 2),
        (["--seconds", "60"], 2),
        (["--from", "2999-01-01"], 2),
        (["--from", "2026-11-25"], 1),
    ],
)
def test_what_cannot_be_answered_is_one_sentence_without_a_number(
    arguments: list[str], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["whatif", *DEPLOY, *arguments]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1


def test_a_history_that_ends_with_its_last_record_comes_out_whole() -> None:
    result = CliRunner().invoke(
        cli.app, ["whatif", "orders-app", "--evidence", str(GOLDEN / "eager_join_leave_kill"), "-o", "json"]
    )
    assert json.loads(result.stdout)["fit"]["rebalances"] == 1.0


def test_a_share_group_is_outside_the_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["whatif", "share-app", "--evidence", str(GOLDEN / "share_group"), "-q"]) == 1
    assert "share group" in capsys.readouterr().err


def test_a_connect_cluster_is_asked_about_its_delay(capsys: pytest.CaptureFixture[str]) -> None:
    lost = ["whatif", "connect-lab", "--evidence", str(GOLDEN / "connect_worker_lost"), "-q"]
    assert cli.run([*lost, "--set", "scheduled.rebalance.max.delay.ms=0"]) == 0
    assert "saves" in capsys.readouterr().out
    assert cli.run([*lost, "--set", "group.instance.id=auto"]) == 2
    assert "workers have no such setting" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        (
            (28.3, -4.0, 61.5),
            "may have helped orders, but that is not sure: 28.3 partition-seconds less in the middle of its replays, "
            "likely 61.5 less to 4.0 more.",
        ),
        (
            (-9.0, -20.0, 0.5),
            "may have harmed orders, but that is not sure: 9.0 partition-seconds more in the middle of its replays, "
            "likely 0.5 less to 20.0 more.",
        ),
        (
            (0.0, -0.9, 0.9),
            "would have made no difference to orders beyond the spread of its replays: likely 0.9 partition-seconds "
            "less to 0.9 more.",
        ),
    ],
)
def test_a_difference_that_may_be_chance_is_said_with_its_range(saved: tuple[float, float, float], said: str) -> None:
    """In the words of the app."""
    middle, lower, upper = saved
    option = Option(
        settings={"session.timeout.ms": "30000"},
        saved_seconds=middle,
        saved_lower_seconds=lower,
        saved_upper_seconds=upper,
    )
    assert _asked_line("orders", "partition", option) == f"session.timeout.ms=30000 {said}"
