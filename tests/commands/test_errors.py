"""Every fault is one sentence on stderr with its own exit status, as text or as JSON."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rebalance_audit import cli
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.commands.saying import EAGER, ROOT, assert_one_sentence


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
        ["demo", "--port", "99999"],
    ],
    ids=lambda words: " ".join(Path(word).name for word in words),
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


def test_a_query_that_is_too_large_is_no_broken_table() -> None:
    limits = {"memory_limit": "1MB", "temp_directory": ""}
    with duckdb.connect(config=limits) as db, pytest.raises(duckdb.OutOfMemoryException) as raised:
        db.execute("SELECT DISTINCT range FROM range(1_000_000)").fetchall()
    said = cli.sentence_for(raised.value)
    assert said is not None
    assert said.startswith("A query over the tables needs more memory than it may have; no table was harmed.")
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


def test_a_reader_that_goes_away_ends_it_quietly(filled: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m rebalance_audit.cli export rebalance -w {filled} | head -1",
        shell=True, cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "The following arguments are required: VERB; see `rebalance-audit lab --help`."),
        (["up", "--kafka", "1.0"], "see `rebalance-audit lab up --help`."),
    ],
)
def test_the_lab_refuses_a_wrong_command_line_as_every_verb_does(call: Any, words: list[str], said: str) -> None:
    result = call("lab", *words)
    assert_one_sentence(result, status=2)
    assert result.err.endswith(said + "\n")
