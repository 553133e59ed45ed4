"""Processes and ports that the lab owns. Only a process started here is ever signalled, by its own id."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

PORTS = range(20_000, 32_000)
"""Below Linux's ephemeral range, so that no client connection takes the port of a broker that is down for a while."""


class LabError(Exception):
    """The lab cannot go on; the message is one sentence for the person who started it."""


class Process:
    """One child process with its output in a file; it may be started again after it ended."""

    def __init__(self, name: str, command: Sequence[str], *, folder: Path, output: Path) -> None:
        self.name = name
        self.command = list(command)
        self._folder = folder
        self._output = output
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child is not None and self._child.poll() is None else None

    def is_running(self) -> bool:
        return self.pid is not None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        if self.is_running():
            raise LabError(f"{self.name} is running already.")
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with self._output.open("ab") as output:
            self._child = subprocess.Popen(
                self.command,
                cwd=self._folder,
                env=dict(environment) if environment is not None else None,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C in the terminal is for the driver, which then ends its children in order.
                start_new_session=True,
            )

    def send(self, command: str) -> None:
        """Write one command line to the process's standard input."""
        if self._child is None or self._child.stdin is None or not self.is_running():
            raise LabError(f"{self.name} is not running, so it cannot be asked to {command!r}.")
        self._child.stdin.write(f"{command}\n".encode())
        self._child.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        if self._child is not None and self.is_running():
            self._child.send_signal(number)

    def wait(self, timeout_s: float) -> bool:
        """True if the process has ended within the time."""
        if self._child is None:
            return True
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self._close_stdin()
        return True

    def stop(self, timeout_s: float = 30) -> None:
        """SIGTERM, and SIGKILL when that was not enough."""
        self.signal(signal.SIGTERM)
        if not self.wait(timeout_s):
            self.kill()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait(10)

    def last_output(self, lines: int = 15) -> str:
        if not self._output.exists():
            return "(no output)"
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-lines:])

    def _close_stdin(self) -> None:
        if self._child is not None and self._child.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._child.stdin.close()


def free_ports(count: int, *, choose: random.Random | None = None) -> list[int]:
    """Ports on localhost nobody listens on; all are held while the others are looked for, so none comes twice."""
    candidates = (choose or random.Random()).sample(PORTS, len(PORTS))
    held: list[socket.socket] = []
    try:
        for port in candidates:
            if len(held) == count:
                break
            probe = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                probe.close()
                continue
            held.append(probe)
        if len(held) < count:
            raise LabError(f"There are no {count} free ports between {PORTS.start} and {PORTS.stop}.")
        return [probe.getsockname()[1] for probe in held]
    finally:
        for probe in held:
            probe.close()


def wait_until(what: str, is_so: Callable[[], bool], *, timeout_s: float, every_s: float = 0.2) -> None:
    """Return once `is_so()`; otherwise fail with `what` was waited for."""
    end = time.monotonic() + timeout_s
    while not is_so():
        if time.monotonic() > end:
            raise LabError(f"Waited {timeout_s:.0f} s in vain: {what}.")
        time.sleep(every_s)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def unwind_once(number: int, frame: FrameType | None) -> None:
    """SIGTERM unwinds like Ctrl-C does, and a second signal cannot break the stopping: no JVM outlives the driver."""
    for ignored in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    raise KeyboardInterrupt
