from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.readings import SourceReading
from ingest.tail import LIVE_QUIET_MS, QUIET_MS, SETTLE_MS, LogTail
from tests.tools import as_nobody


def event(n: int) -> str:
    return f"[2024-05-01 12:{n // 60 % 60:02d}:{n % 60:02d},123] INFO event {n} {'.' * 80} (kafka.server.KafkaServer)\n"


class Watcher:
    """A collector's use of the tail: it polls, keeps what comes, and may be killed and restarted at any time."""

    def __init__(self, folder: Path, pattern: str, *, restarts: bool = False) -> None:
        self.patterns = [("broker-1", str(folder / pattern))]
        self.restarts = restarts
        self.now_ms = 1_000_000
        self.tail = LogTail(self.patterns)
        self.got: list[tuple[str, int, str]] = []
        self.readings: list[SourceReading] = []

    def poll(self, after_ms: int = 1_000) -> None:
        self.now_ms += after_ms
        if self.restarts:
            self.tail = LogTail(self.patterns, json.loads(json.dumps(self.tail.positions())))
        for reading, lines in self.tail.poll(self.now_ms):
            self.readings.append(reading)
            self.got += [(line.file_id, line.byte, line.text) for line in lines]

    def settle(self) -> None:
        """Long enough for everything that is whole to be given out. Restarting forgets how long a file was quiet."""
        self.restarts = False
        for wait_ms in (SETTLE_MS, QUIET_MS, QUIET_MS):
            self.poll(wait_ms)

    @property
    def texts(self) -> list[str]:
        return [text for _, _, text in self.got]

    @property
    def problems(self) -> list[str]:
        return [problem.sentence for reading in self.readings for problem in reading.problems]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def lines(*numbers: int) -> list[str]:
    return [event(n).rstrip() for n in numbers]


def rename(log: Path) -> None:
    log.rename(log.with_name("server.log.2024-05-01-12"))


def copy_and_truncate(log: Path) -> None:
    shutil.copyfile(log, log.with_name("server.log.1"))
    os.truncate(log, 0)


def rename_and_pack(log: Path) -> None:
    log.with_name("server.log.1.gz").write_bytes(gzip.compress(log.read_bytes()))
    log.unlink()


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "restart before every poll"])
@pytest.mark.parametrize("pattern", ["server.log", "server.log*"])
@pytest.mark.parametrize("rotate", [rename, copy_and_truncate, rename_and_pack])
def test_no_event_is_lost_or_doubled_over_rotation(
    tmp_path: Path, rotate: Callable[[Path], None], pattern: str, restarts: bool
) -> None:
    log, watcher = tmp_path / "server.log", Watcher(tmp_path, pattern, restarts=restarts)
    for n in range(40):
        append(log, event(n))
        if n % 3 == 0:
            watcher.poll()
        if n in (14, 15 + 14):  # events 13 and 14 were not read yet
            if n > 20:
                for old in tmp_path.glob("server.log.*"):
                    old.rename(old.with_name("server.log.2" + (".gz" if old.suffix == ".gz" else "")))
            rotate(log)
    watcher.settle()
    assert sorted(watcher.texts) == sorted(lines(*range(40)))
    assert watcher.problems == []


def test_a_poll_between_every_two_steps_changes_nothing(tmp_path: Path) -> None:
    log, watcher = tmp_path / "server.log", Watcher(tmp_path, "server.log*", restarts=True)
    for n in range(60):
        text = event(n)
        append(log, text[:30])
        watcher.poll()
        append(log, text[30:])
        watcher.poll()
        if n % 20 == 19:
            copy = tmp_path / f"server.log.{n}"
            data = log.read_bytes()
            copy.write_bytes(data[: len(data) // 2])  # the copy is half done
            watcher.poll()
            copy.write_bytes(data)
            watcher.poll()
            os.truncate(log, 0)
            watcher.poll()
    watcher.settle()
    assert sorted(watcher.texts) == sorted(lines(*range(60)))


def test_bytes_and_ids_lead_back_to_the_text(tmp_path: Path) -> None:
    log, watcher = tmp_path / "server.log", Watcher(tmp_path, "*.log*")
    append(log, "".join(map(event, range(30))))
    watcher.settle()
    text = log.read_text()
    assert [text[byte : byte + len(got)] for _, byte, got in watcher.got] == watcher.texts
    assert len({file_id for file_id, _, _ in watcher.got}) == 1


def test_an_event_waits_for_what_continues_it(tmp_path: Path) -> None:
    log, watcher = tmp_path / "server.log", Watcher(tmp_path, "*.log")
    append(log, "".join(map(event, range(20))))
    append(log, "java.lang.RuntimeException: no\n")
    watcher.poll()
    assert watcher.texts == lines(*range(19))
    append(log, "\tat Here.there(Here.java:1)\n" + event(20))
    watcher.poll()
    assert watcher.texts[-1] == event(19) + "java.lang.RuntimeException: no\n\tat Here.there(Here.java:1)"


def test_a_line_without_its_end_is_not_given_out_however_quiet(tmp_path: Path) -> None:
    log, watcher = tmp_path / "server.log", Watcher(tmp_path, "*.log")
    append(log, "".join(map(event, range(20))) + event(20)[:-10])
    watcher.settle()
    assert watcher.texts == lines(*range(20))
    append(log, event(20)[-10:])
    watcher.settle()
    assert watcher.texts == lines(*range(21))


def test_a_short_file_keeps_its_id_when_it_grows(tmp_path: Path) -> None:
    log, watcher = tmp_path / "server.log", Watcher(tmp_path, "*.log", restarts=True)
    append(log, event(0))
    watcher.poll()
    assert watcher.got == []  # too short to be distinguished, and too young
    watcher.settle()
    assert watcher.texts == lines(0)
    append(log, "".join(map(event, range(1, 40))))
    watcher.settle()
    assert watcher.texts == lines(*range(40))
    assert len({file_id for file_id, _, _ in watcher.got}) == 1


def test_a_file_that_went_before_it_was_read_is_a_gap(tmp_path: Path) -> None:
    log, watcher = tmp_path / "server.log", Watcher(tmp_path, "*.log")
    append(log, "".join(map(event, range(20))))
    watcher.poll()
    append(log, event(20))
    log.unlink()
    watcher.poll()
    assert [p.code for r in watcher.readings for p in r.problems] == ["rotated"]
    assert "is gone (rotated away, truncated or deleted)" in watcher.problems[0]
    watcher.settle()
    assert len(watcher.problems) == 1


def test_an_old_finished_file_may_go(tmp_path: Path) -> None:
    log, watcher = tmp_path / "server.log.2024-05-01-12", Watcher(tmp_path, "*.log*")
    append(log, "".join(map(event, range(20))))
    watcher.settle()
    watcher.poll(2 * 3_600_000)
    log.unlink()
    watcher.poll()
    assert watcher.problems == []


def test_a_file_in_no_known_layout_is_shown_once_and_does_not_stop_the_others(tmp_path: Path) -> None:
    append(tmp_path / "gc.log", "[0.005s][info][gc] Using G1\n" * 2000)
    append(tmp_path / "server.log", "".join(map(event, range(20))))
    watcher = Watcher(tmp_path, "*.log")
    watcher.settle()
    append(tmp_path / "gc.log", "[9.005s][info][gc] Pause\n")
    watcher.settle()
    assert watcher.texts == lines(*range(20))
    assert [p.code for r in watcher.readings for p in r.problems] == ["skipped"]


def test_a_large_backlog_comes_in_pieces(tmp_path: Path) -> None:
    append(tmp_path / "server.log", "".join(map(event, range(50_000))))
    watcher = Watcher(tmp_path, "*.log")
    watcher.settle()
    assert len(watcher.texts) == 50_000
    assert len(watcher.readings) >= 3
    edges = [(reading.from_position, reading.to_position) for reading in watcher.readings]
    assert [end for _, end in edges[:-1]] == [start for start, _ in edges[1:]]


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_in_whatever_order_every_event_comes_once(tmp_path: Path, seed: int) -> None:
    """Writing, half written lines, half done copies, three kinds of rotation, packing, polls, restarts, at random."""
    chance = random.Random(seed)
    log = tmp_path / "server.log"
    watcher = Watcher(tmp_path, chance.choice(["server.log", "server.log*", "*.log*"]))
    written = rotated = 0

    def maybe_poll() -> None:
        if chance.random() < 0.5:
            watcher.poll()

    def write_slowly(path: Path, data: bytes) -> None:
        path.write_bytes(data[: chance.randrange(len(data))])
        maybe_poll()
        path.write_bytes(data)
        maybe_poll()

    for _ in range(chance.randint(20, 120)):
        step = chance.choice(["write"] * 7 + ["poll"] * 4 + ["rename", "copy", "pack", "pack old", "restart", "halves"])
        if step == "write":
            count = chance.randint(1, 6)
            append(log, "".join(map(event, range(written, written + count))))
            written += count
        elif step == "halves":
            append(log, event(written)[:20])
            maybe_poll()
            append(log, event(written)[20:])
            written += 1
        elif step == "poll":
            watcher.poll(chance.choice([100, 1_000, QUIET_MS, SETTLE_MS]))
        elif step == "restart":
            watcher.tail = LogTail(watcher.patterns, json.loads(json.dumps(watcher.tail.positions())))
        elif step == "pack old":
            for old in sorted(tmp_path.glob("server.log.?"))[:1]:
                write_slowly(old.with_name(old.name + ".gz"), gzip.compress(old.read_bytes()))
                old.unlink()
        elif log.exists() and log.stat().st_size > 1500:
            rotated += 1
            target = log.with_name(f"server.log.{rotated}")
            if step == "rename":
                log.rename(target)
            elif step == "copy":
                write_slowly(target, log.read_bytes())
                os.truncate(log, 0)
            else:
                write_slowly(target.with_name(target.name + ".gz"), gzip.compress(log.read_bytes()))
                log.unlink()
    watcher.poll()
    watcher.settle()
    assert sorted(watcher.texts) == sorted(lines(*range(written)))
    assert watcher.problems == []


def test_a_glance_sees_whatever_a_poll_would_act_on(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    tail = LogTail([("broker-1", str(tmp_path / "*.log*"))])
    seen = [tail.glance()]
    append(log, event(1))
    seen.append(tail.glance())
    append(log, event(2))
    seen.append(tail.glance())
    log.rename(tmp_path / "server.log.1")
    seen.append(tail.glance())
    assert len(set(seen)) == 4
    assert tail.glance() == seen[-1]


def test_a_glance_at_a_folder_that_is_not_there_is_one_that_may_come(tmp_path: Path) -> None:
    tail = LogTail([("broker-1", str(tmp_path / "logs" / "*.log*"))])
    before = tail.glance()
    (tmp_path / "logs").mkdir()
    append(tmp_path / "logs" / "server.log", event(1))
    assert tail.glance() != before


def test_a_tail_in_a_hurry_gives_the_last_event_after_a_moment(tmp_path: Path) -> None:
    """An event of several pieces that follow each other at once is still one."""
    log = tmp_path / "server.log"
    append(log, "".join(map(event, range(20))))
    tail = LogTail([("broker-1", str(log))], quiet_ms=LIVE_QUIET_MS)
    list(tail.poll(1_000_000))
    append(log, event(20))
    list(tail.poll(1_001_000))
    append(log, "\tat a.b.C\n")
    assert [text for _, lines in tail.poll(1_001_050) for text in lines] == []
    assert tail.is_behind
    given = [line.text for _, lines in tail.poll(1_001_050 + LIVE_QUIET_MS) for line in lines]
    assert given == [event(20) + "\tat a.b.C"]
    assert not tail.is_behind


@pytest.mark.parametrize("text", ["", event(1)[:40], event(1) + event(2)[:40]])
def test_a_file_that_time_alone_adds_nothing_to_holds_nothing_back(tmp_path: Path, text: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(text)
    watcher = Watcher(tmp_path, "server.log")
    watcher.poll()
    watcher.settle()
    assert not watcher.tail.is_behind
    append(log, "".join(map(event, (1, 2)))[len(text) :])
    watcher.settle()
    assert watcher.texts == lines(1, 2)
    assert not watcher.tail.is_behind


def test_a_short_file_is_held_back_until_it_has_a_name_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(event(1))
    watcher = Watcher(tmp_path, "server.log")
    watcher.poll()
    assert watcher.tail.is_behind
    watcher.settle()
    assert watcher.texts == lines(1)
    assert not watcher.tail.is_behind


def test_a_file_that_may_not_be_read_is_not_tried_at_every_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(map(event, range(20))))
    log.chmod(0)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)  # the folders above it are closed to nobody, too
    watcher = Watcher(Path(), "server.log")
    with as_nobody():
        watcher.settle()
    assert len(watcher.problems) == 1
    assert not watcher.tail.is_behind
    log.chmod(0o644)
    watcher.settle()
    assert watcher.texts == lines(*range(20))


def test_a_file_beside_one_that_went_holds_nothing_back(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(map(event, range(20))))
    watcher = Watcher(tmp_path, "server.log")
    watcher.tail = LogTail([("broker-1", str(tmp_path / "server.l[o]g"))])  # a pattern that the neighbour is not in
    watcher.settle()
    (tmp_path / "server.other").write_text("".join(map(event, range(30, 50))))
    log.unlink()
    watcher.settle()
    assert watcher.texts == lines(*range(20))
    assert not watcher.tail.is_behind


def test_a_folder_that_may_not_be_listed_is_said_each_time_it_closes(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    append(tmp_path / "logs" / "server.log", event(1))
    watcher = Watcher(tmp_path / "logs", "*.log*")
    (tmp_path / "logs").chmod(0)
    with as_nobody():
        watcher.poll()
        watcher.poll()
    assert watcher.problems == [f"The folder {tmp_path}/logs of broker-1 cannot be read: Permission denied."]
    assert [reading.source for reading in watcher.readings] == ["log:broker-1/"]
    (tmp_path / "logs").chmod(0o755)
    watcher.poll()
    watcher.settle()
    assert watcher.texts == lines(1)
    (tmp_path / "logs").chmod(0)
    with as_nobody():
        watcher.poll()
    (tmp_path / "logs").chmod(0o755)
    assert watcher.problems[1:] == [watcher.problems[0], "server.log of broker-1 cannot be read: Permission denied."]
    append(tmp_path / "logs" / "server.log", event(2))
    watcher.poll()
    watcher.settle()
    assert watcher.texts == lines(1, 2)
    assert len(watcher.problems) == 3  # the file was there all the time
