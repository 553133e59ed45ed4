"""Kafka's own classes of several releases in one JVM, asked through a pipe."""

from __future__ import annotations

import json
import struct
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from queue import Queue
from types import TracebackType
from typing import Any, NamedTuple

from infra.lab.jars import BUILD, libs

SOURCE = Path(__file__).parent / "java" / "Oracle.java"
RELEASES = ("4.3.0", "4.1.1", "3.9.1")
"""Newest first, in the order of the answers."""


class Kind(IntEnum):
    """What the bytes are meant to be; the numbers are those of Oracle.java."""

    RECORD = 0
    CONSUMER_SUBSCRIPTION = 1
    CONSUMER_ASSIGNMENT = 2
    EAGER_WORKER_STATE = 3
    EAGER_ASSIGNMENT = 4
    COOPERATIVE_WORKER_STATE = 5
    COOPERATIVE_ASSIGNMENT = 6
    STICKY_USER_DATA = 7
    METADATA = 8
    STREAMS_SUBSCRIPTION = 9
    STREAMS_ASSIGNMENT = 10


class Case(NamedTuple):
    kind: Kind
    key: bytes | None
    """Of a record; None for anything else."""
    value: bytes | None


Answer = dict[str, Any] | str
"""What Kafka read; a text where it refused."""


class OracleError(Exception):
    """The JVM went away, or one of Kafka's classes did something that is neither reading nor refusing."""


def compiled() -> Path:
    folder = BUILD / "differential"
    done = folder / "Oracle.class"
    if not done.exists() or done.stat().st_mtime < SOURCE.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["javac", "-nowarn", "-proc:none", "-d", str(folder), str(SOURCE)], check=True)
    return folder


class Oracle:
    def __init__(self, releases: Sequence[str] = RELEASES) -> None:
        arguments = [f"{release}={libs(release)}" for release in releases]
        command = ["java", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4", "-cp", str(compiled()), "Oracle"]
        self._process = subprocess.Popen([*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, cases: Sequence[Case]) -> list[list[Answer]]:
        return next(self.ask_all([cases]))[1]

    def ask_all(self, batches: Iterable[Sequence[Case]]) -> Iterator[tuple[Sequence[Case], list[list[Answer]]]]:
        """Each batch with its answers, one per release; meanwhile the JVM is at the next batch."""
        sent: Queue[Sequence[Case] | BaseException | None] = Queue(maxsize=2)

        def send() -> None:
            assert self._process.stdin is not None
            try:
                for batch in batches:
                    sent.put(batch)
                    self._process.stdin.write(_frame(batch))
                    self._process.stdin.flush()
            except BaseException as error:
                sent.put(error)
            else:
                sent.put(None)

        threading.Thread(target=send, daemon=True).start()
        while (batch := sent.get()) is not None:
            if isinstance(batch, BaseException):
                raise OracleError("cases could not be made or sent") from batch
            yield batch, self._answers(len(batch))

    def _answers(self, count: int) -> list[list[Answer]]:
        assert self._process.stdout is not None
        header = self._process.stdout.read(4)
        if len(header) < 4:
            raise OracleError(f"the JVM ended with {self._process.wait()}")
        text = self._process.stdout.read(int.from_bytes(header, "big"))
        lines = text.split(b"\n")[:-1]
        if len(lines) != count:
            raise OracleError(f"{len(lines)} answers to {count} cases")
        return [self._set_apart(json.loads(line)) for line in lines]

    def _set_apart(self, answers: list[Answer]) -> list[Answer]:
        for at, answer in enumerate(answers):
            if answer == "=":
                answers[at] = answers[at - 1]
            elif isinstance(answer, str) and answer.startswith("broken: "):
                raise OracleError(answer)
        return answers


def _frame(cases: Sequence[Case]) -> bytes:
    parts = [struct.pack(">i", len(cases))]
    for kind, key, value in cases:
        parts.append(struct.pack(">b", kind))
        for content in (key, value):
            parts.append(struct.pack(">i", -1 if content is None else len(content)))
            parts.append(content or b"")
    return b"".join(parts)
