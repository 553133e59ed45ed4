"""Which landing files were taken in: one transaction for all of a collector, and none lost on the way."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import landed
from spark_jobs.landed import LandedFiles
from spark_jobs.quarantine import TABLE as QUARANTINE

READER = "collect-20261125T120000-0123abcd"
NOUN = "record"


class Bronze:
    """A warehouse to which files are landed and taken in, without their rows."""

    def __init__(self, place: Path) -> None:
        self.warehouse = Warehouse.open(place, create=True)
        self.folder = place / "landing" / NOUN
        self.folder.mkdir(parents=True)

    def land(self, *names: str | int) -> None:
        for name in names:
            (self.folder / f"{READER}-{name:06d}.parquet" if isinstance(name, int) else self.folder / name).touch()

    def found(self) -> LandedFiles:
        return LandedFiles(self.warehouse, NOUN)

    def take(self, found: LandedFiles, files: Sequence[str], later: Sequence[str] = ()) -> dict[str, int]:
        noted = found.transaction(files, later)
        self.warehouse.append(f"bronze.{NOUN}", rows_to_table(f"bronze.{NOUN}", []), noted)
        return {name.partition("/")[2]: version for name, version in noted.items()}

    def new(self) -> list[str]:
        return [os.path.basename(file) for file in self.found().new]


@pytest.fixture
def bronze(tmp_path: Path) -> Bronze:
    return Bronze(tmp_path / "w")


def named(*numbers: int) -> list[str]:
    return [f"{READER}-{number:06d}.parquet" for number in numbers]


def test_one_transaction_says_how_far_a_collector_was_taken_in(bronze: Bronze) -> None:
    bronze.land(0, 1, 3, "flush.parquet")  # a flush without records lands no file of them
    found = bronze.found()
    assert bronze.take(found, found.new) == {READER: 3, "flush.parquet": 1}
    assert bronze.new() == []
    bronze.land(4)
    assert bronze.new() == named(4)
    found = bronze.found()
    assert bronze.take(found, found.new) == {READER: 4}
    assert bronze.new() == []
    assert len(bronze.found().taken) == 5


def test_questions_to_the_table_do_not_grow_with_the_files(bronze: Bronze, monkeypatch: pytest.MonkeyPatch) -> None:
    bronze.land(*range(300))
    found = bronze.found()
    bronze.take(found, found.new)
    bronze.land(300)
    asked: list[str] = []
    answer = Warehouse.transaction_versions

    def counted(warehouse: Warehouse, name: str, app_ids: Sequence[str]) -> dict[str, int | None]:
        asked.extend(app_ids)
        return answer(warehouse, name, app_ids)

    monkeypatch.setattr(Warehouse, "transaction_versions", counted)
    assert bronze.new() == named(300)
    assert len(asked) == 2  # the collector's, and the new file's


def test_what_a_later_commit_takes_in_is_not_passed_over(bronze: Bronze) -> None:
    bronze.land(0, 1, 2, 3)
    found = bronze.found()
    alone, later = [found.files[n] for n in (0, 1, 3)], [found.files[2]]
    assert bronze.take(found, alone, later) == {READER: 1, named(3)[0]: 1}
    assert bronze.new() == named(2)  # as a crash would leave it
    assert bronze.take(found, later) == {READER: 2}
    assert bronze.new() == []


def test_a_file_in_quarantine_is_new_when_it_is_released(bronze: Bronze) -> None:
    bronze.land(0, 1, 2)
    held = {"batch": f"{READER}-000001", "table_name": f"bronze.{NOUN}", "status": "held", "held_at_ms": 1}
    columns = {c.name: None for c in tables.BY_NAME[QUARANTINE].columns}
    bronze.warehouse.append(QUARANTINE, rows_to_table(QUARANTINE, [columns | held | {"problem": "x", "examples": []}]))
    found = bronze.found()
    assert bronze.take(found, found.new) == {READER: 0, named(2)[0]: 1}
    assert bronze.new() == []
    bronze.warehouse.rewrite(QUARANTINE, "status = 'held'")
    assert bronze.new() == named(1)


def test_a_listing_that_misses_a_file_loses_none(bronze: Bronze, monkeypatch: pytest.MonkeyPatch) -> None:
    """readdir may give a file that was written while it ran, and not the one that was written before that."""
    bronze.land(0, 1, 2, 3)
    whole = bronze.warehouse.landed(NOUN)
    listings = [whole[:1], [whole[0], whole[1], whole[3]]]
    with monkeypatch.context() as patched:
        patched.setattr(Warehouse, "landed", lambda *_: listings.pop(0))
        found = bronze.found()
    assert bronze.take(found, found.new) == {READER: 0, named(1)[0]: 1, named(3)[0]: 1}
    assert bronze.new() == named(2)


@pytest.mark.parametrize("seed", range(20))
def test_each_file_is_taken_in_once_whatever_comes_between(bronze: Bronze, seed: int) -> None:
    random, taken, number = Random(seed), list[str](), 0
    for _ in range(30):
        for _ in range(random.randrange(4)):
            number += random.randint(1, 2)
            bronze.land(number)
        found = bronze.found()
        new = found.new
        alone = [file for file in new if random.random() < 0.6]
        later = [file for file in new if file not in alone]
        for files, rest in ((alone, later), (later, [])):
            if files and random.random() < 0.8:  # otherwise it crashed before
                bronze.take(found, files, rest)
                taken += files
            elif files:
                break
    while new := (found := bronze.found()).new:
        bronze.take(found, new)
        taken += new
    assert sorted(taken) == bronze.warehouse.landed(NOUN)


def test_old_files_go_once_there_are_many(bronze: Bronze, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landed, "MANY_FILES", 3)
    bronze.land(0, 1, 2)
    found = bronze.found()
    bronze.take(found, found.new)
    long_ago = time.time() - 3_600 * landed.KEPT_HOURS - 60
    for file in bronze.folder.iterdir():
        os.utime(file, (long_ago, long_ago))
    bronze.found().delete_old()
    assert len(bronze.found().files) == 3
    bronze.land(3, 4)
    os.utime(bronze.folder / named(4)[0], (long_ago, long_ago))
    bronze.found().delete_old()  # what was not taken in stays
    assert [os.path.basename(file) for file in bronze.found().files] == named(3, 4)
