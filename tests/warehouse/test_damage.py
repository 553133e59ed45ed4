"""Tables that were destroyed in every way that a disk and a careless hand know are named, with what to do."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rebalance_audit import doctor
from rebalance_audit.cli import run
from rebalance_audit.warehouse.damage import damages
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    gold_rows.write(tmp_path / "w", many=0)
    return tmp_path / "w"


def first_file(table: Path) -> Path:
    return sorted(table.glob("*.parquet"))[0]


def without_a_column(table: Path) -> None:
    file = first_file(table)
    pq.write_table(pq.read_table(file).drop_columns(["trigger"]), file)


def with_a_broken_log(table: Path) -> None:
    for entry in (table / "_delta_log").glob("*.json"):
        entry.write_text("{")


def with_protocol(changed: dict[str, object]) -> Callable[[Path], None]:
    def change(table: Path) -> None:
        for entry in (table / "_delta_log").glob("*.json"):
            actions = [json.loads(line) for line in entry.read_text().splitlines()]
            for action in actions:
                if "protocol" in action:
                    action["protocol"] |= changed
            entry.write_text("".join(f"{json.dumps(action)}\n" for action in actions))

    return change


_LIBRARY = ("Kernel", "Json error", "Parquet magic", "Unsupported", "rror:")
DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file is gone": (lambda t: first_file(t).unlink(), "lacks a file"),
    "a file is empty": (lambda t: first_file(t).write_bytes(b""), "has a file that is damaged"),
    "a file is something else": (lambda t: first_file(t).write_bytes(b"x" * 500), "has a file that is damaged"),
    "a file is cut": (lambda t: first_file(t).write_bytes(first_file(t).read_bytes()[:-40]), "that is damaged"),
    "the folder is gone": (shutil.rmtree, "was there at the last publication and is not any more"),
    "the log is gone": (lambda t: shutil.rmtree(t / "_delta_log"), "was there at the last publication"),
    "the log is broken": (with_a_broken_log, "has a log that cannot be read"),
    "a newer reader is asked for": (with_protocol({"minReaderVersion": 99}), "is of a newer Delta format than"),
    "a feature is unknown": (
        with_protocol({"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"], "writerFeatures": ["x"]}),
        "nothing is lost: upgrade rebalance-audit",
    ),
    "a column is gone": (without_a_column, "has no column trigger: another release wrote it"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_doctor_finds_a_destroyed_table(filled: Path, what: str) -> None:
    destroy, said = DAMAGE[what]
    destroy(filled / "gold" / "rebalance")
    faults = {d.subject: d.detail for d in doctor.warehouse(str(filled)) if d.state is doctor.Health.FAULT}
    assert list(faults) == ["gold.rebalance"]
    assert said in faults["gold.rebalance"]
    assert not [word for word in ("SELECT", *_LIBRARY) if word in faults["gold.rebalance"]]


@pytest.mark.parametrize("what", ["the folder is gone", "the log is broken", "a file is cut"])
def test_no_verb_takes_a_destroyed_table_for_an_empty_one(
    filled: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    DAMAGE[what][0](filled / "gold" / "incident")
    for verb in (["explain"], ["report"], ["export", "incident"]):
        assert run([*verb, "-w", str(filled)]) == 1
        printed = capsys.readouterr()
        assert "gold.incident" in printed.err
        assert "restore it from a backup" in printed.err
        assert printed.out == ""


def test_rows_that_lack_a_column_are_a_sentence_about_the_table(
    filled: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = first_file(filled / "gold" / "coverage")
    pq.write_table(pq.read_table(file).drop_columns(["problem_code"]), file)
    assert run(["report", "-w", str(filled)]) == 1
    assert "gold.coverage has no column problem_code" in capsys.readouterr().err


def test_a_whole_warehouse_has_no_damage(filled: Path) -> None:
    assert damages(Warehouse.open(filled)) == {}


def test_a_warehouse_behind_a_link_is_whole(filled: Path, tmp_path: Path) -> None:
    """Delta names files by where they really are."""
    link = tmp_path / "link"
    link.symlink_to(filled)
    opened = Warehouse.open(link)
    assert damages(opened) == {}
    assert all(opened.has_file(uri) for uri in opened.files("gold.rebalance"))


def test_a_damaged_publication_is_one_sentence(filled: Path) -> None:
    (filled / "published.json").write_text("{")
    (found,) = doctor.warehouse(str(filled))
    assert found.state is doctor.Health.FAULT
    assert "published.json is damaged" in found.detail
    assert json.loads((filled / "warehouse.json").read_text())["schema_version"] == 1


def test_a_limit_of_a_files_size_is_said_in_one_sentence(tmp_path: Path) -> None:
    limited = 'ulimit -f 8; exec "$0" -m rebalance_audit.cli import "$1" -w "$2"'
    capture = Path(__file__).parent.parent / "golden/4.3.0/eager_join_leave_kill"
    command = ["bash", "-c", limited, sys.executable, str(capture), str(tmp_path / "w")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert "File too large; raise the limit of a file's size (`ulimit -f`), nothing stored" in done.stderr
