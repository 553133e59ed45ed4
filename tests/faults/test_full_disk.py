"""A disk that is really full: a mount of some hundred kilobytes, in the middle of import and of run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rebalance_audit.warehouse.footers import opened
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.captures import GOLDEN

CAPTURE = GOLDEN / "4.3.0" / "connect_worker_lost"
TABLES = ("gold.rebalance", "gold.movement", "gold.connect_task", "gold.finding", "gold.incident", "silver.commit_mark")
SENTENCE = "rebalance-audit: The disk: No space left on device; free some space, nothing stored before is harmed.\n"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.xfail("this user may not mount a small disk")
    yield folder
    opened.cache_clear()  # a process keeps files open that it reads, and no disk goes while one is
    subprocess.run(["umount", str(folder)], check=True)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("rebalance-audit")
    return subprocess.run([str(program), *arguments], capture_output=True, text=True)


def rows(location: Path) -> dict[str, list[str]]:
    warehouse = Warehouse.open(location)
    return {table: sorted(map(str, warehouse.read(table).to_pylist())) for table in TABLES}


def test_a_full_disk_is_one_sentence_and_the_next_run_goes_on(disk: Path, tmp_path: Path) -> None:
    location = disk / "w"

    def resized(kilobytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", str(disk)], check=True)

    brought = command("import", str(CAPTURE), "-w", str(location))
    assert (brought.returncode, brought.stderr[-len(SENTENCE) :]) == (1, SENTENCE)
    resized(100)
    assert command("import", str(CAPTURE), "-w", str(location)).returncode == 0
    # In decode, in a middle stage, and while it is published.
    for kilobytes in (110, 220, 700):
        resized(kilobytes)
        ended = command("run", "-w", str(location))
        said = [line for line in ended.stderr.splitlines(keepends=True) if ": nothing new" not in line]
        assert (ended.returncode, said[-1]) == (1, SENTENCE)
        assert "Traceback" not in ended.stderr
    resized(20_000)
    assert command("run", "-w", str(location)).returncode == 0
    assert command("audit", "verify", "-w", str(location)).returncode == 0
    elsewhere = tmp_path / "w"
    for verb in (("import", str(CAPTURE)), ("run",)):
        assert command(*verb, "-w", str(elsewhere)).returncode == 0
    assert rows(location) == rows(elsewhere)
