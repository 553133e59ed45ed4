"""Lines lost and lines twice when a log rotates fast and its reader is killed: ours beside rsyslog, on the same files.

    python -m bench.tail [--seconds 20]

One writer, 1,000 lines a second, rotates every two seconds, as log4j does (files are renamed, the numbers shift) or as
logrotate's copytruncate does (the file is copied and emptied, while no line is written). Both readers follow the same
folder, are killed with SIGKILL twice, and come back 2.5 s later. rsyslog is Debian's own; it is set up for rotation as
its manual asks, and to remember its place every 100 lines. Vector and Fluent Bit are in no registry this project uses.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

import pyarrow.dataset

LINES_PER_S = 1_000
ROTATE_EVERY_S = 2.0
DOWN_S = 2.5
KEPT = 20
CATCH_UP_S = 20
RSYSLOG = """
module(load="imfile")
global(workDirectory="{work}")
template(name="line" type="string" string="%rawmsg%\\n")
ruleset(name="keep") {{ action(type="omfile" file="{out}" template="line") }}
input(type="imfile" File="{logs}/server.log*" Tag="kafka" ruleset="keep"
      reopenOnTruncate="on" persistStateInterval="100")
"""


class TopicReader:
    def __init__(self, name: str, command: list[str], lines: Callable[[], Iterable[str]]) -> None:
        self.name, self._command, self.lines = name, command, lines
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        self._process.wait(30)


def shift(log: Path) -> None:
    for number in range(KEPT, 0, -1):
        older = log.with_name(f"server.log.{number}")
        if older.exists():
            older.rename(log.with_name(f"server.log.{number + 1}"))


def renamed(log: Path) -> None:
    shift(log)
    log.rename(log.with_name("server.log.1"))


def copied_and_emptied(log: Path) -> None:
    shift(log)
    shutil.copyfile(log, log.with_name("server.log.1"))
    with log.open("r+") as emptied:
        emptied.truncate()


def readers(place: Path, logs: Path) -> list[TopicReader]:
    warehouse = place / "warehouse"
    collect = [sys.executable, "-m", "rebalance_audit.cli", "collect", "-w", str(warehouse), "--cluster-id", "bench"]

    def landed() -> Iterable[str]:
        """Lines as bronze keeps them: a repeat of the same byte of the same file is one line."""
        rows = pyarrow.dataset.dataset(warehouse / "landing/log_line").to_table(columns=["file_id", "byte", "text"])
        return (text for _, _, text in set(zip(*(rows[name].to_pylist() for name in rows.column_names), strict=True)))

    ours = TopicReader("rebalance-audit", [*collect, "--logs", f"broker-1={logs}"], landed)
    if shutil.which("rsyslogd") is None:
        return [ours]
    out, work, settings = place / "rsyslog.txt", place / "work", place / "rsyslog.conf"
    work.mkdir()
    settings.write_text(RSYSLOG.format(work=work, out=out, logs=logs))
    rsyslogd = ["rsyslogd", "-n", "-i", str(place / "pid"), "-f", str(settings)]
    return [ours, TopicReader("rsyslog", rsyslogd, lambda: out.open())]


def measure(rotate: Callable[[Path], None], seconds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        logs = place / "logs"
        logs.mkdir()
        log = logs / "server.log"
        followers = readers(place, logs)
        kills = [(seconds * part, signal.SIGKILL) for part in (0.3, 0.6)]
        due = sorted([*kills, *((at + DOWN_S, None) for at, _ in kills)], key=lambda one: one[0])
        began = time.monotonic()
        written, rotate_at, stream = 0, ROTATE_EVERY_S, log.open("a")
        while (now := time.monotonic() - began) < seconds:
            while written < now * LINES_PER_S:
                stamp = datetime.now().isoformat(" ", "milliseconds").replace(".", ",")
                stream.write(f"[{stamp}] INFO [Bench] line {written:09d} {'x' * 80} (kafka.bench.Tail)\n")
                written += 1
            stream.flush()
            if now >= rotate_at:
                stream.close()
                rotate(log)
                rotate_at, stream = rotate_at + ROTATE_EVERY_S, log.open("a")
            if due and now >= due[0][0]:
                _, how = due.pop(0)
                for follower in followers:
                    follower.end(how) if how is not None else follower.start()
            time.sleep(0.005)
        stream.close()
        time.sleep(CATCH_UP_S)
        for follower in followers:
            follower.end(signal.SIGTERM)
        for follower in followers:
            seen = Counter(line.partition(" line ")[2][:9] for line in follower.lines() if " line " in line)
            expected = {f"{number:09d}" for number in range(written)}
            lost, twice = len(expected - seen.keys()), sum(seen.values()) - len(seen)
            print(f"| {rotate.__name__.replace('_', ' ')} | {follower.name} | {written:,} | {lost:,} | {twice:,} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="of writing, for each way to rotate")
    asked = parser.parse_args()
    if shutil.which("rsyslogd") is None:
        print("rsyslog is not here (Debian's package rsyslog): ours alone.", file=sys.stderr)
    print("| rotation | reader | lines written | lost | twice |\n|---|---|---:|---:|---:|")
    for rotate in (renamed, copied_and_emptied):
        measure(rotate, asked.seconds)


if __name__ == "__main__":
    main()
