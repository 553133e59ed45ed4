"""Who writes a warehouse: one process at a time, named in `lease.json`.

The lease changes hands by writes that fail if another was quicker: under a lock of the file system in a folder, by
conditional puts in an object store. So two hosts never hold it both.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from rebalance_audit.warehouse.storage import BeingWrittenError, Files, WarehouseError

LEASE_RENEW_MS = 60_000
"""How often a living writer renews its lease."""
LEASE_STALE_MS = 600_000
"""A lease of another host is stale after this long without renewal: ten renewals missed."""
_SURE_FOR_S = 5.0
"""After a renewal nobody asks again whether the lease is still held."""
LEASE = "lease.json"
_of_this_process: set[str] = set()
"""Tokens of leases it holds. One that it could not give back, because the store was away, is no longer among them."""


class Lease:
    """Held by this process, until it says otherwise or was away for so long that another took it."""

    def __init__(self, files: Files, what: str, name: str) -> None:
        self._files = files
        self._name = name
        self._what = what
        self._token = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._tag: str | None = None
        self._renewed_at_s = 0.0

    def take(self) -> None:
        """BeingWrittenError names the one who holds it."""
        for _ in range(10):
            stored = self._files.read_tagged(self._name)
            held = _parsed(None if stored is None else stored.content)
            if stored is not None and held and not _is_stale(held, self._files, self._name):
                raise BeingWrittenError(
                    f"{self._files.uri} is being written by process {held.get('pid')} on {held.get('host')} "
                    f"({held.get('what')}); wait for it to end."
                )
            self._put(None if stored is None else stored.tag)
            if self._tag is not None:
                return
        raise WarehouseError(f"{self._files.uri}: too many processes ask for its lease at once; try again.")

    def renew(self) -> None:
        """WarehouseError if another process has it."""
        with self._lock:
            if self._tag is not None:
                self._put(self._tag)
            if self._tag is None:
                raise WarehouseError(
                    f"{self._files.uri}: this process was away for so long that another one writes now; what it was "
                    "about to commit was not committed, run it again."
                )

    def confirm(self) -> None:
        """Call before each commit: what a process that lost its lease meanwhile writes must not be seen."""
        if _now_s() - self._renewed_at_s > _SURE_FOR_S:
            self.renew()

    def give_back(self) -> None:
        _of_this_process.discard(self._token)
        with self._lock:
            if self._tag is not None:
                self._files.release(self._name, self._tag)
                self._tag = None

    def _put(self, tag: str | None) -> None:
        content = {
            "pid": os.getpid(),
            "process_started": _process_start(os.getpid()),
            "host": socket.gethostname(),
            "renewed_at_ms": int(time.time() * 1000),
            "what": self._what,
            "token": self._token,
        }
        started_s = _now_s()
        _of_this_process.add(self._token)
        self._tag = self._files.write_if(self._name, json.dumps(content).encode(), tag)
        self._renewed_at_s = started_s


@contextlib.contextmanager
def lease(files: Files, what: str, name: str = LEASE) -> Iterator[Lease]:
    """Be the one writer. WarehouseError names the other one; a dead one's lease is taken over."""
    held = Lease(files, what, name)
    held.take()
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(LEASE_RENEW_MS / 1000):
            # Lost, or the store is away: whoever commits next finds out, and says so.
            with contextlib.suppress(Exception):
                held.renew()

    renewer = threading.Thread(target=renew, name="lease", daemon=True)
    renewer.start()
    try:
        yield held
    finally:
        ended.set()
        renewer.join()
        held.give_back()


def _now_s() -> float:
    """Seconds of a clock that goes on while the machine sleeps, if there is one."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _parsed(text: bytes | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        return dict(json.loads(text))
    except ValueError:
        return None  # not whole: nobody holds it


def _is_stale(held: Mapping[str, Any], files: Files, name: str) -> bool:
    if held.get("host") != socket.gethostname():
        age_ms = files.age_ms(name)
        if age_ms is None:
            age_ms = int(time.time() * 1000) - int(held.get("renewed_at_ms", 0))
        return age_ms > LEASE_STALE_MS
    pid = int(held.get("pid", 0))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    started = _process_start(pid)
    if pid == os.getpid() and started == held.get("process_started"):
        return held.get("token") not in _of_this_process
    return started is not None and started != held.get("process_started")  # the pid was given to another process


def _process_start(pid: int) -> str | None:
    """When the process began, in the kernel's ticks; None where the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
