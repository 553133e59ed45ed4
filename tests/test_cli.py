"""The command line as its users meet it: output, exit status, and one sentence for every fault."""

from __future__ import annotations

import csv
import gzip
import importlib
import io
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rebalance_audit import __version__, cli
from rebalance_audit.commands import options
from rebalance_audit.commands.demo import COMPANY, RECORDED, cluster_name
from rebalance_audit.commands.output import csv_cell, visible
from rebalance_audit.commands.rows import known_table, selection
from rebalance_audit.commands.serve import start_app
from rebalance_audit.domain import tables
from rebalance_audit.domain.publish.leader_moves import offsets_partition
from rebalance_audit.settings.model import Settings
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.domain.reassign.stories import MetadataStory
from tests.ingest.test_metadata import a_story, batches, folder, log_name
from tests.tools import as_nobody

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden"
EAGER = GOLDEN / "4.3.0" / "eager_join_leave_kill"
VERBS = (
    "explain", "whatif", "import", "collect", "stream", "run", "watch", "report", "export", "mark", "ack", "silence",
    "maintain", "erase", "check", "alert",
    "serve", "ui", "demo", "doctor", "lab", "config", "audit",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REBALANCE_AUDIT_WAREHOUSE", "REBALANCE_AUDIT_DEBUG", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published warehouse with hostile text in it."""
    place = tmp_path_factory.mktemp("filled") / "w"
    gold_rows.write(place, many=5)
    return place


class Result:
    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err


@pytest.fixture
def call(capfd: pytest.CaptureFixture[str]) -> Any:
    def one(*arguments: str | Path) -> Result:
        capfd.readouterr()
        status = cli.run([str(a) for a in arguments])
        out, err = capfd.readouterr()
        return Result(status, out, err)

    return one


def assert_one_sentence(result: Result, status: int = 1, *, is_foreseen: bool = True) -> None:
    """The fault on stderr in a line, nothing on stdout, no traceback."""
    assert result.status == status, result.err
    assert result.out == ""
    assert result.err.count("\n") == 1, result.err
    assert result.err.startswith("rebalance-audit: ")
    assert "Traceback" not in result.err
    assert ("unexpected" in result.err) is not is_foreseen


# ---- the command itself


def test_help_names_every_verb(call: Any) -> None:
    result = call("--help")
    assert result.status == 0
    assert [
        line.split()[0] for line in result.out.splitlines() if line.startswith("  ") and line.split()[0] in VERBS
    ] == list(VERBS)
    assert "..." not in result.out.partition("Commands:")[2]  # each verb's first sentence fits into a line


@pytest.mark.parametrize("words", [["--help"], ["watch", "--help"], ["audit", "verify", "-h"]])
def test_help_is_quick(words: list[str], tmp_path: Path) -> None:
    """CPU time of compiled modules, as pip leaves them; the best of five. Python alone takes 0.02 s: where the machine
    is so busy that it takes more, all else may, too."""
    compiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}

    def once(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True, capture_output=True, env=compiled)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    program = ("-m", "rebalance_audit.cli", *words)
    once(*program)
    took, alone = (min(each) for each in zip(*((once(*program), once("-c", "")) for _ in range(5)), strict=True))
    assert took <= max(0.15, 7 * alone)


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "lab"])
def test_every_verb_explains_itself(call: Any, verb: str) -> None:
    result = call(verb, "--help")
    assert result.status == 0
    assert f"rebalance-audit {verb}" in result.out
    assert result.err == ""


def test_version_is_shown(call: Any) -> None:
    assert call("--version").out == f"rebalance-audit {__version__}\n"


def test_explain_without_a_group_names_those_that_are_worth_it(call: Any) -> None:
    """Clients' truth: c3 was killed, and its six partitions waited for its session to end."""
    result = call("explain", "--evidence", str(EAGER))
    assert result.status == 0
    assert result.out.startswith("c3 of orders-app vanished without leaving; 1 rebalance, ")
    (row,) = json.loads(call("explain", "--evidence", str(EAGER), "-o", "json").out)
    assert (row["group_id"], row["rebalance_count"], row["status"]) == ("orders-app", 8, "open")
    assert row["cost_lower_seconds"] <= row["cost_seconds"] <= row["cost_upper_seconds"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["explode"],
        ["explain"],
        ["explain", "g"],
        ["explain", "g", "--reassignment", "orders-0", "--evidence", str(EAGER)],
        ["explain", "g", "--metadata", str(EAGER), "-b", "localhost:1"],
        ["explain", "--reassignment", "orders-0", "--plan", "p.json", "-b", "localhost:1"],
        ["explain", "--reassignment", "orders-0", "--metadata", str(EAGER)],
        ["explain", "g", "-b", "localhost:1", "--evidence", "."],
        ["explain", "g", "--evidence", str(EAGER), "--last", "soon"],
        ["explain", "g", "--data-dir", str(EAGER)],
        ["export", "rebalance"],
        ["run", "-w", ".", "--stage", "guess"],
        ["check", "-w", ".", "--fail-on", "annoying"],
    ],
)
def test_a_wrong_command_line_ends_with_status_2(call: Any, arguments: list[str]) -> None:
    result = call(*arguments)
    assert result.status == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    assert result.err


@pytest.mark.parametrize(("module", "name"), cli._KNOWN_ERRORS)
def test_every_error_with_a_sentence_is_where_the_command_line_looks_for_it(module: str, name: str) -> None:
    kind = getattr(importlib.import_module(module), name)
    assert kind.__module__ == module
    assert cli.sentence_for(kind("what, where, what to do")) == "what, where, what to do"


def test_what_programs_say_of_themselves_can_be_json(tmp_path: Path) -> None:
    def said(*arguments: str, **environment: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [sys.executable, "-m", "rebalance_audit.cli", *arguments], cwd=ROOT, capture_output=True, text=True,
            env=os.environ | environment, check=False,
        )  # fmt: skip
        return [json.loads(line) for line in done.stderr.splitlines()]

    (refused,) = said("--log-format", "json", "run", "-w", str(tmp_path / "no\nwhere"))
    assert refused["level"] == "error"
    assert "There is no warehouse" in refused["message"]
    assert datetime.fromisoformat(refused["at"]).tzinfo is not None
    (misused,) = said("run", "--nonsense", REBALANCE_AUDIT_LOG_FORMAT="json")
    assert "see `rebalance-audit run --help`" in misused["message"]
    Warehouse.open(tmp_path / "w", create=True)
    lines = said("--log-format", "json", "run", "-w", str(tmp_path / "w"))
    assert {line["level"] for line in lines} <= {"info"}
    assert said("--log-format", "json", "run", "-q", "-w", str(tmp_path / "w")) == []


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(28, "No space left on device", "/w/x"), "/w/x: No space left on device; free some space"),
        # What deltalake 1.6 raised on a full tmpfs, on 2026-11-23.
        (OSError("Generic LocalFileSystem error\n ↳ No space left on device (os error 28)"), "The disk: No space left"),
        (OSError(30, "Read-only file system", "/w/lease.lock"), "/w/lease.lock: Read-only file system; mount it"),
        (FileNotFoundError(2, "No usable temporary directory found in ['/tmp']"), "There is no temporary folder that"),
    ],
)
def test_a_disk_that_takes_nothing_more_is_one_sentence(error: OSError, sentence: str) -> None:
    said = cli.sentence_for(error)
    assert said is not None
    assert said.startswith(sentence)
    assert "\n" not in said


def test_an_unforeseen_error_is_a_sentence_too(call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("boom\x1b[2J")

    monkeypatch.setattr(Warehouse, "open", broken)
    result = call("check", "-w", tmp_path)
    assert_one_sentence(result, is_foreseen=False)
    assert "--debug" in result.err
    assert "\x1b" not in result.err
    with pytest.raises(ZeroDivisionError):
        cli.run(["--debug", "check", "-w", str(tmp_path)])
    del os.environ["REBALANCE_AUDIT_DEBUG"]  # the flag set it for the whole process


def test_the_settings_file_gives_the_warehouse_and_a_flag_wins(call: Any, filled: Path, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"warehouse: {filled}\n")
    assert call("export", "rebalance", "--config", file).out == call("export", "rebalance", "-w", filled).out != ""
    assert_one_sentence(call("export", "rebalance", "-w", tmp_path / "none", "--config", file))


def test_the_settings_file_may_come_from_the_environment(
    call: Any, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"warehouse: {filled}\n")
    monkeypatch.setenv("REBALANCE_AUDIT_CONFIG", str(file))
    assert call("check", "--fail-on", "critical").status in (0, 3)
    monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", str(tmp_path / "none"))
    assert_one_sentence(call("check"))


def test_config_check_names_every_fault_on_a_line_of_its_own(call: Any, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text('colour: red\nlimits:\n  - strom_count: 3\n"evil\\nrebalance-audit: fine": 1\n')
    result = call("config", "check", "--config", file)
    assert result.status == 1
    assert result.err.splitlines() == [
        f"rebalance-audit: {file}:1: colour: there is no such setting; there are {', '.join(Settings.model_fields)}.",
        f"rebalance-audit: {file}:3: limits[1]: there is no limit 'strom_count'.",
        f"rebalance-audit: {file}:4: evil\\nrebalance-audit: fine: there is no such setting; "
        f"there are {', '.join(Settings.model_fields)}.",
    ]
    file.write_text("limits:\n  - storm_short_count: 3\n")
    assert call("config", "check", "--config", file).status == 0


def test_config_show_shows_where_a_secret_is_and_never_itself(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_URL", "slack://hunter2")
    file = tmp_path / "s.yaml"
    file.write_text("alerts:\n  - {name: chat, url: {env: CHAT_URL}}\n")
    result = call("config", "show", "--config", file)
    assert (result.status, "hunter2" in result.out, "env: CHAT_URL" in result.out) == (0, False, True)


def test_a_reader_that_goes_away_ends_it_quietly(filled: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m rebalance_audit.cli export rebalance -w {filled} | head -1",
        shell=True, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)


# ---- explain


def test_explain_shows_every_rebalance_of_a_recorded_group(call: Any) -> None:
    result = call("explain", "orders-app", "--evidence", EAGER, "-q")
    assert result.status == 0
    assert result.err == ""
    truth = json.loads((EAGER / "truth" / "scenario.json").read_text())["groups"]["orders-app"]["rebalances"]
    for row in truth:
        assert f" {row['number']}   " in result.out
    assert "c3 (/127.0.0.1) sent no heartbeat for its session timeout of 10 s" in result.out
    assert "record:__consumer_offsets-1@73" in result.out
    assert "no logs were given" not in result.out


def test_explain_without_logs_says_what_it_lacks(call: Any, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(EAGER / "data")
    result = call("explain", "orders-app", "--evidence", tmp_path)
    assert result.status == 0
    assert "no logs were given" in " ".join(result.out.split())


def test_explain_reads_a_data_directory_in_place_with_its_logs(call: Any) -> None:
    result = call(
        "explain", "orders-app", "--data-dir", EAGER / "data" / "broker-1", "--node", "broker-1", "--logs",
        EAGER / "logs" / "broker-1",
    )  # fmt: skip
    whole = call("explain", "orders-app", "--evidence", EAGER)
    assert result.status == 0
    assert result.out == whole.out


def test_explain_as_json_holds_the_same_rebalances(call: Any) -> None:
    result = call("explain", "orders-app", "--evidence", EAGER, "-o", "json")
    found = json.loads(result.out)
    assert found["group_id"] == "orders-app"
    assert len(found["rebalances"]) == 8


def test_explain_as_rows_has_the_columns_of_gold_rebalance(call: Any) -> None:
    rows = [
        json.loads(line) for line in call("explain", "orders-app", "--evidence", EAGER, "-o", "jsonl").out.splitlines()
    ]
    assert [row["generation_id"] for row in rows] == list(range(1, 9))
    assert list(rows[0]) == [column.name for column in tables.GOLD_REBALANCE.columns]


def test_explain_can_be_asked_for_the_latest_only(call: Any) -> None:
    # The last three rebalances of the capture lie within 20 s of its end.
    result = call("explain", "orders-app", "--evidence", EAGER, "--last", "20s", "-o", "jsonl")
    assert [json.loads(line)["generation_id"] for line in result.out.splitlines()] == [6, 7, 8]
    assert "6 older rebalances left out" in call("explain", "orders-app", "--evidence", EAGER, "--latest", "2").out


def test_explain_finds_a_connect_group_and_its_tasks(call: Any) -> None:
    result = call("explain", "connect-lab", "--evidence", GOLDEN / "4.3.0" / "connect_worker_lost")
    assert result.status == 0
    assert "Connect's scheduled delay ended" in result.out


@pytest.fixture
def moved(tmp_path: Path) -> Path:
    """Evidence of one reassignment: the metadata log of one controller."""
    return folder(tmp_path / "moved", "controller-100", {log_name(0): batches(a_story().sources)})


def test_explain_shows_what_became_of_a_reassignment(call: Any, moved: Path) -> None:
    result = call("explain", "--reassignment", "orders-0", "--evidence", moved, "-q")
    assert result.status == 0, result.err
    assert result.out.startswith("orders-0 [1,0,2] → [2,3,5] completed")
    assert call("explain", "--reassignment", "orders", "--evidence", moved, "-q").out == result.out
    (found,) = json.loads(
        call("explain", "--reassignment", "orders", "--evidence", moved, "-o", "json").out
    )["reassignments"]  # fmt: skip
    assert (found["outcome"], found["started_at_ms"], found["ended_at_ms"]) == ("completed", 10_000, 20_000)
    assert found["steps"][0]["phase"] == "before"


def test_explain_shows_what_became_of_a_plan(call: Any, moved: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    lines = [{"topic": "orders", "partition": p, "replicas": [2, 3, 5]} for p in (0, 1)]
    file.write_text(json.dumps({"version": 1, "partitions": lines}))
    result = call("explain", "--plan", file, "--evidence", moved, "-q")
    assert result.status == 0, result.err
    assert result.out.splitlines()[0] == "1 done: orders-0"
    found = json.loads(call("explain", "--plan", file, "--evidence", moved, "-o", "json").out)
    assert [line["status"] for line in found["partitions"]] == ["done", "never_asked"]
    assert (found["throttle_removable_since_ms"], found["remaining"]["partitions"]) == (20_000, [])
    rows = list(csv.DictReader(io.StringIO(call("explain", "--plan", file, "--evidence", moved, "-o", "csv").out)))
    assert [(row["status"], row["ended_at_ms"]) for row in rows] == [("done", "20000"), ("never_asked", "")]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "is not JSON"),
        (b"\xff\x00", "is not JSON"),
        (b'{"partitions": [{"topic": "elsewhere", "partition": 0, "replicas": [1]}]}', "the same cluster"),
    ],
)
def test_a_plan_that_cannot_be_compared_gets_one_sentence(
    call: Any, moved: Path, tmp_path: Path, content: bytes, fault: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    result = call("explain", "--plan", file, "--evidence", moved)
    assert_one_sentence(result)
    assert fault in result.err


def test_an_unknown_reassignment_is_answered_with_the_ones_that_are_there(call: Any, moved: Path) -> None:
    result = call("explain", "--reassignment", "order-0", "--evidence", moved)
    assert_one_sentence(result)
    assert "Did you mean: orders-0?" in result.err
    result = call("explain", "--reassignment", "orders", "--evidence", EAGER)
    assert_one_sentence(result)
    assert "nor of any other partition" in result.err


def test_explain_shows_a_group_of_leaders_that_moved_beside_it(call: Any, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(EAGER, copy)
    first = json.loads(call("explain", "orders-app", "--evidence", EAGER, "-o", "jsonl").out.splitlines()[1])
    at_ms = first["started_at_ms"] - 2_000
    story = MetadataStory(node="broker-1").at(at_ms - 60_000).topic("__consumer_offsets", (1, 2))
    story.at(at_ms).change(0, leader=2)
    folder(copy, "broker-1", {log_name(0): batches(story.sources)})
    result = call("explain", "orders-app", "--evidence", copy, "-q")
    assert result.status == 0, result.err
    lines = result.out[result.out.index("Leaders that moved beside it:") :].splitlines()
    assert "the coordinator moved: __consumer_offsets-0, broker 2 leads it now, broker 1 did" in lines[1]
    assert lines[1].endswith("a rebalance began 2 s later")
    assert lines[2].split() == ["evidence", "metadata:broker-1@2"]
    (move,) = json.loads(call("explain", "orders-app", "--evidence", copy, "-o", "json").out)["leader_moves"]
    assert (move["rebalance_id"], move["after_ms"]) == (first["rebalance_id"], 2_000)


def test_an_unknown_group_is_answered_with_the_ones_that_are_there(call: Any) -> None:
    result = call("explain", "order-app", "--evidence", EAGER)
    assert_one_sentence(result)
    assert "Did you mean: orders-app?" in result.err


def test_what_is_no_evidence_folder_is_said(call: Any, tmp_path: Path) -> None:
    result = call("explain", "g", "--evidence", tmp_path)
    assert_one_sentence(result)
    assert "data/" in result.err


def test_a_folder_without_logs_is_said(call: Any, tmp_path: Path) -> None:
    result = call("explain", "g", "--evidence", EAGER, "--logs", tmp_path)
    assert_one_sentence(result, status=2)
    assert "no *.log file" in result.err


def test_a_broker_that_is_not_there_is_said(call: Any) -> None:
    result = call("explain", "g", "-b", "127.0.0.1:1", "-X", "socket.connection.setup.timeout.ms=1000")
    assert_one_sentence(result)
    assert "127.0.0.1:1" in result.err


# By hand from String.hashCode's definition: "a" is 97, "ä" 228, "Aa" and "BB" share 2112. "polygenelubricants" is the
# well-known text whose hash code is Integer.MIN_VALUE, which Kafka's Utils.abs takes for 0.
@pytest.mark.parametrize(
    ("group", "partition"), [("", 0), ("a", 47), ("Aa", 12), ("BB", 12), ("polygenelubricants", 0), ("ä", 28)]
)
def test_the_partition_of_a_group_is_the_one_kafka_chooses(group: str, partition: int) -> None:
    assert offsets_partition(group, 50) == partition


@pytest.mark.parametrize(
    "capture", sorted(GOLDEN.glob("*/*/meta.json")), ids=lambda p: f"{p.parent.parent.name}-{p.parent.name}"
)
def test_the_partition_of_a_group_is_the_one_real_brokers_chose(capture: Path) -> None:
    from ingest.evidence import read_evidence
    from rebalance_audit.domain.gather.groups import GroupRecord, decode_source

    scenario = json.loads((capture.parent / "truth" / "scenario.json").read_text())
    seen = {
        (event.record.key.group_id, record.partition)
        for record in read_evidence(capture.parent).records()
        if record.topic == "__consumer_offsets" and not record.is_control
        and isinstance(event := decode_source(record), GroupRecord)
    }  # fmt: skip
    # The lab's brokers have so many partitions.
    counts = [n for n in range(1, 101) if all(offsets_partition(group, n) == partition for group, partition in seen)]
    assert scenario["groups"].keys() <= {group for group, _ in seen}
    assert 4 in counts


# ---- export


def test_export_has_every_table_with_its_own_columns(call: Any, filled: Path) -> None:
    for table in tables.TABLES:
        result = call("export", table.name, "-w", filled, "-o", "csv")
        assert result.status == 0, result.err
        assert result.out.splitlines()[0].split(",") == [column.name for column in table.columns]


def test_export_picks_group_and_time(call: Any, filled: Path) -> None:
    rows = [json.loads(line) for line in call("export", "rebalance", "-w", filled, "-g", "orders").out.splitlines()]
    assert rows
    assert {row["group_id"] for row in rows} == {"orders"}
    last = max(row["started_at_ms"] or row["assigned_at_ms"] for row in rows)
    later = call("export", "rebalance", "-w", filled, "-g", "orders", "--from", str(last)).out.splitlines()
    assert len(later) == 1
    before = call("export", "rebalance", "-w", filled, "-g", "orders", "--to", str(last)).out.splitlines()
    assert len(before) == len(rows) - 1


def test_export_of_movements_takes_the_time_of_their_rebalance(call: Any, filled: Path) -> None:
    rows = [json.loads(line) for line in call("export", "movement", "-w", filled, "-g", "orders").out.splitlines()]
    assert rows
    none = call("export", "movement", "-w", filled, "-g", "orders", "--to", "2026-01-01")
    assert none.out == ""
    assert "No row" in none.err


def test_export_to_parquet_keeps_types_and_every_character(filled: Path, tmp_path: Path) -> None:
    target = tmp_path / "groups.parquet"
    with target.open("wb") as file:
        subprocess.run(
            [sys.executable, "-m", "rebalance_audit.cli", "export", "group", "-w", str(filled), "-o", "parquet"],
            cwd=ROOT, stdout=file, check=True,
        )  # fmt: skip
    found = pq.read_table(target)
    assert found.schema.equals(Warehouse.open(filled).schema("gold.group"))
    assert gold_rows.HOSTILE_GROUP in found.column("group_id").to_pylist()


def test_hostile_text_stays_on_its_line_in_jsonl_and_csv(call: Any, filled: Path) -> None:
    lines = call("export", "group", "-w", filled).out.splitlines()
    assert gold_rows.HOSTILE_GROUP in [json.loads(line)["group_id"] for line in lines]
    printed = call("export", "group", "-w", filled, "-o", "csv").out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert len(rows) == len(lines) == len(printed.splitlines()) - 1


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\\t=1"),
        ("\r=1", "'\\r=1"),
        ("a=1", "a=1"),
        (-1, -1),
        (-0.5, -0.5),
        (None, None),
        (True, "true"),
        ("a\nb\x1b[2J\u202e", "a\\nb\\u001b[2J\\u202e"),
        (["-x"], '["-x"]'),
        (b"\x00\xff", "00ff"),
    ],
)
def test_no_cell_is_a_formula_or_a_control_character(value: Any, cell: Any) -> None:
    assert csv_cell(value) == cell


def test_a_terminal_obeys_nothing_that_is_printed() -> None:
    assert visible("a\x1b]0;x\x07\x9b2J\u202eb") == "a\\u001b]0;x\\u0007\\u009b2J\\u202eb"


def test_a_table_that_is_not_there_is_a_usage_error_that_names_the_others(call: Any, filled: Path) -> None:
    result = call("export", "rebalances", "-w", filled)
    assert_one_sentence(result, status=2)
    assert "gold.rebalance" in result.err


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda t: t.name)
def test_every_selection_a_table_allows_is_valid_sql(table: tables.Table, filled: Path) -> None:
    opened = Warehouse.open(filled)
    # A mark of all groups is one of any group.
    of_group = {"group": "x"} if table.name != "gold.mark" else {"group": "x", "cluster_id": "x"}
    for wishes in (of_group, {"cluster_id": "x"}, {"from_ms": 1, "to_ms": 2}):
        try:
            sql, params = selection(table, **wishes)  # type: ignore[arg-type]
        except options.UsageError:
            continue
        assert opened.query(sql, params).num_rows == 0


def test_short_names_mean_gold_first() -> None:
    assert known_table("rebalance").name == "gold.rebalance"
    assert known_table("undecoded").name == "silver.undecoded"
    assert known_table("record").name == "bronze.record"


# ---- check, report, alert


def test_check_ends_with_3_when_a_finding_is_grave_enough(call: Any, filled: Path) -> None:
    result = call("check", "-w", filled, "--fail-on", "critical", "-o", "jsonl")
    assert result.status == 3
    found = [json.loads(line) for line in result.out.splitlines()]
    assert {row["severity"] for row in found} == {"critical"}
    assert {row["status"] for row in found} == {"open"}
    more = call("check", "-w", filled, "--fail-on", "info", "-o", "jsonl")
    assert len(more.out.splitlines()) > len(found)


def test_check_ends_with_0_when_there_is_none(call: Any, filled: Path) -> None:
    result = call("check", "-w", filled, "-g", "nobody", "-o", "json")
    assert (result.status, json.loads(result.out)) == (0, [])


@pytest.mark.parametrize("verb", ["check", "report", "export"])
def test_nothing_published_and_nothing_found_look_different(call: Any, tmp_path: Path, verb: str) -> None:
    Warehouse.open(tmp_path / "w", create=True)
    result = call(verb, *(["rebalance"] if verb == "export" else []), "-w", tmp_path / "w")
    assert_one_sentence(result)
    assert "rebalance-audit run" in result.err


@pytest.mark.parametrize("verb", ["check", "report", "export", "run", "serve", "ui", "alert"])
def test_a_warehouse_that_is_not_there_is_said_and_not_made(call: Any, tmp_path: Path, verb: str) -> None:
    extra = {"export": ["rebalance"], "alert": ["--to", "json://localhost"]}.get(verb, [])
    result = call(verb, *extra, "-w", tmp_path / "nothing")
    assert_one_sentence(result)
    assert "There is no warehouse" in result.err
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("verb", ["check", "run", "import"])
def test_a_warehouse_of_a_newer_version_is_left_alone(call: Any, tmp_path: Path, verb: str) -> None:
    stated = json.dumps({"schema_version": tables.SCHEMA_VERSION + 1})
    (tmp_path / "warehouse.json").write_text(stated)
    result = call(verb, *([EAGER] if verb == "import" else []), "-w", tmp_path)
    assert_one_sentence(result)
    assert "newer version" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["warehouse.json"]
    assert (tmp_path / "warehouse.json").read_text() == stated


def test_a_report_is_text_json_or_one_html_file(call: Any, filled: Path) -> None:
    assert re.search(
        r"partition-seconds.* and .* task-seconds.* lost", " ".join(call("report", "-w", filled).out.split())
    )
    assert json.loads(call("report", "-w", filled, "-o", "json").out)["group_count"] > 1
    page = call("report", "-w", filled, "-o", "html").out
    assert page.startswith("<!doctype html>")
    assert "<script" not in page


def test_a_dry_run_shows_alerts_and_remembers_nothing(call: Any, filled: Path) -> None:
    for _ in range(2):
        result = call("alert", "-w", filled, "--to", "https://127.0.0.1:1/hook?token=secret", "--dry-run")
        assert result.status == 0
        assert "checkout rebalanced 31 times" in result.out
        assert "secret" not in result.out + result.err
    assert not (filled / "notes" / "alerts.json").exists()


def test_a_target_that_does_not_answer_is_an_error_and_tried_again(call: Any, filled: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    for _ in range(2):
        result = call("alert", "-w", filled, "--to", "http://127.0.0.1:1/hook", "--state", state)
        assert result.status == 1
        assert "kept for the next time" in result.err


# ---- import


def test_importing_twice_lands_nothing_new(call: Any, tmp_path: Path) -> None:
    first = call("import", EAGER, "-w", tmp_path / "w")
    assert first.status == 0
    assert first.out == ""
    assert "Landed 281 records" in first.err  # as batch headers count: 103 of groups, 178 of metadata
    landed = Warehouse.open(tmp_path / "w").landed("record")
    again = call("import", EAGER, "-w", tmp_path / "w")
    assert again.status == 0
    assert "Landed 0 records" in again.err
    assert Warehouse.open(tmp_path / "w").landed("record") == landed


def test_a_folder_that_is_not_empty_is_not_made_a_warehouse(call: Any, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    result = call("import", EAGER, "-w", tmp_path)
    assert_one_sentence(result)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_nothing_to_collect_from_is_said(call: Any, tmp_path: Path) -> None:
    assert_one_sentence(call("collect", "-w", tmp_path / "w"))


# ---- serve, ui


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


@pytest.mark.parametrize("verb", ["serve", "ui"])
def test_a_port_that_is_taken_is_said(call: Any, filled: Path, taken_port: int, verb: str) -> None:
    result = call(verb, "-w", filled, "--port", str(taken_port))
    assert_one_sentence(result)
    assert str(taken_port) in result.err
    assert "--port" in result.err


def test_the_app_answers_on_loopback_and_ends_with_us(filled: Path) -> None:
    app = start_app(str(filled), 0)
    try:
        assert app.address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(app.address, timeout=10) as answer:
            assert answer.status == 200
    finally:
        app.stop()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(app.address, timeout=2)


# ---- values


@pytest.mark.parametrize(
    ("text", "ms"), [("90s", 90_000), ("1h", 3_600_000), ("1.5d", 129_600_000), ("250ms", 250), ("2w", 1_209_600_000)]
)
def test_durations_are_read(text: str, ms: int) -> None:
    assert options.duration_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-21T14:00", 1_795_269_600_000),
        ("2026-11-21T14:00:00Z", 1_795_269_600_000),
        ("2026-11-21T15:00:00.250+01:00", 1_795_269_600_250),
        ("1795269600000", 1_795_269_600_000),
        ("-1h", 1_795_266_000_000),
    ],
)
def test_instants_are_read_as_utc(text: str, ms: int) -> None:
    assert options.instant_ms(text, now_ms=1_795_269_600_000) == ms


def test_log_folders_are_a_nodes_own_or_one_per_node(tmp_path: Path) -> None:
    for node in ("broker-1", "broker-2"):
        (tmp_path / node).mkdir()
        (tmp_path / node / "server.log").write_text("")
    (tmp_path / "unrelated").mkdir()
    assert options.log_folders([str(tmp_path)]) == [(n, tmp_path / n) for n in ("broker-1", "broker-2")]
    assert options.log_folders([str(tmp_path / "broker-1")]) == [("broker-1", tmp_path / "broker-1")]
    assert options.log_folders([f"kafka-7={tmp_path / 'broker-2'}"]) == [("kafka-7", tmp_path / "broker-2")]


def test_a_log_folder_that_may_not_be_listed_is_no_empty_one(capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        (Path(place) / "closed").mkdir(mode=0)
        with as_nobody():
            status = cli.run(["explain", "-b", "127.0.0.1:1", "--logs", f"broker-1={place}/closed"])
    assert status == 1
    assert capsys.readouterr().err == (
        f"rebalance-audit: {place}/closed: Permission denied; check the path and your rights.\n"
    )


def test_connect_topics_are_named_with_their_kind() -> None:
    assert options.connect_topics(["a=config", "connect-status"]) == {"a": "config", "connect-status": "status"}
    assert options.connect_topics(None) is None
    with pytest.raises(options.UsageError, match="say which it is"):
        options.connect_topics(["things"])


def test_a_recorded_cluster_has_a_readable_name() -> None:
    assert cluster_name(EAGER) == "eager_join_leave_kill-4.3.0"


def test_the_company_of_the_demo_is_recorded_and_shows_each_kind_of_trouble() -> None:
    kinds = {place.partition("/")[2].partition("_")[0] for place in COMPANY.values()}
    assert all((RECORDED / place / "origin.json").is_file() for place in COMPANY.values())
    assert kinds >= {"storm", "eager", "poll", "rolling", "kip848", "connect", "reassign"}


@pytest.mark.spark
def test_the_demo_shows_every_recorded_cluster(tmp_path: Path) -> None:
    """With `--all`, and without the app at its end."""
    done = subprocess.run(
        [sys.executable, "-m", "rebalance_audit.cli", "demo", "--all", "--no-serve", "-w", str(tmp_path / "w")],
        cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Worst groups" in done.stdout
    captures = sorted(path.parent for path in GOLDEN.glob("*/*/meta.json"))
    opened = Warehouse.open(tmp_path / "w")
    found = opened.query(
        "SELECT cluster_id FROM gold.rebalance UNION SELECT cluster_id FROM gold.reassignment ORDER BY 1"
    )
    assert found.column(0).to_pylist() == sorted(cluster_name(capture) for capture in captures)
    for capture in captures:
        for group, story in json.loads((capture / "truth" / "scenario.json").read_text())["groups"].items():
            rows = opened.query(
                "SELECT coalesce(generation_id, group_epoch) AS number, kind, outcome FROM gold.rebalance "
                "WHERE cluster_id = ? AND group_id = ? ORDER BY number, rewrite_seq",
                [cluster_name(capture), group],
            ).to_pylist()
            expected = [{name: row[name] for name in ("number", "kind", "outcome")} for row in story["rebalances"]]
            assert rows == expected, f"{capture.name} {group}"


@pytest.mark.spark
def test_watch_follows_logs_publishes_and_ends_in_order(tmp_path: Path) -> None:
    """Without a broker: logs alone show rebalances, too."""
    logs, place = tmp_path / "broker-1", tmp_path / "w"
    logs.mkdir()
    (logs / "server.log").write_bytes(gzip.decompress((EAGER / "logs" / "broker-1" / "server.log.gz").read_bytes()))
    watching = subprocess.Popen(
        [sys.executable, "-m", "rebalance_audit.cli", "watch", "-w", str(place), "--logs", str(logs), "--cluster-id",
         "recorded", "--every", "1s"],
        cwd=ROOT, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        give_up_at = time.monotonic() + 300
        found: list[Any] = []
        while not found and time.monotonic() < give_up_at and watching.poll() is None:
            time.sleep(1)
            if (place / "warehouse.json").exists():
                sql = "SELECT generation_id, trigger FROM gold.rebalance WHERE group_id = 'orders-app' ORDER BY 1"
                found = Warehouse.open(place).query(sql).to_pylist()
    finally:
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate(timeout=120)
    truth = json.loads((EAGER / "truth" / "scenario.json").read_text())["groups"]["orders-app"]["rebalances"]
    assert [(r["generation_id"], r["trigger"]) for r in found] == [(t["number"], t["trigger"]) for t in truth], said
    assert watching.returncode == 0, said
    assert "Traceback" not in said
    assert not (place / "lease.json").exists()


def test_rows_written_for_tests_have_all_columns() -> None:
    """`rows_to_table` fills what a row lacks, so the warehouse above is of the real schema."""
    assert rows_to_table("gold.group", [{}]).schema.names == [c.name for c in tables.GOLD_GROUP.columns]


# ---- maintain


def test_maintenance_leaves_the_rows_and_fewer_files(call: Any, filled: Path) -> None:
    before = call("export", "rebalance", "-w", filled).out
    result = call("maintain", "-w", filled)
    assert result.status == 0, result.err
    assert "landing files that bronze holds are gone" in result.err
    assert call("export", "rebalance", "-w", filled).out == before
    result = call("maintain", "-w", filled, "--keep", "10m")
    assert result.status == 2
    assert "at least 1h" in result.err


# ---- the metadata log of a node on this machine


def test_a_metadata_log_is_collected_and_explained_in_place(call: Any, moved: Path, tmp_path: Path) -> None:
    node = moved / "data" / "controller-100"
    result = call("collect", "-w", tmp_path / "w", "--metadata", node, "--until-end")
    assert_one_sentence(result)
    assert "--cluster-id" in result.err
    (node / "meta.properties").write_text("cluster.id=theirs\nnode.id=100\n")
    result = call("collect", "-w", tmp_path / "w", "--metadata", node, "--until-end")
    assert (result.status, "Landed 4 records of cluster theirs." in result.err) == (0, True), result.err
    result = call("collect", "-w", tmp_path / "w", "--metadata", node, "--until-end", "--cluster-id", "ours")
    assert_one_sentence(result)
    assert "node-100 is of cluster theirs, not ours" in result.err
    explained = call("explain", "--reassignment", "orders-0", "--metadata", f"c1={node}", "-q")
    assert explained.status == 0, explained.err
    assert "metadata:c1@2" in explained.out


def test_a_folder_of_logs_is_no_pattern(call: Any, tmp_path: Path) -> None:
    folder = tmp_path / "broker [1]*"
    folder.mkdir()
    text = gzip.decompress((GOLDEN / "4.3.0/eager_join_leave_kill/logs/broker-1/server.log.gz").read_bytes())
    (folder / "server.log").write_bytes(text)
    call("collect", "-w", tmp_path / "w", "--logs", folder, "--cluster-id", "ours", "--until-end")
    assert Warehouse.open(tmp_path / "w").landed("log_line")
