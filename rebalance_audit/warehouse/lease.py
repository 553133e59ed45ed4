"""Who writes a warehouse: one process at a time, named in `lease.json`."""

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

from rebalance_audit.warehouse.storage import Files, WarehouseError

LEASE_RENEW_MS = 60_000
"""How often a living writer renews its lease."""
LEASE_STALE_MS = 600_000
"""A lease of another host is stale after this long without renewal: ten renewals missed."""


@contextlib.contextmanager
def lease(files: Files, what: str) -> Iterator[None]:
    """Be the one writer. WarehouseError names the other one; a dead one's lease is taken over."""
    token = uuid.uuid4().hex
    with _guard(files):
        held = _parsed(files.read("lease.json"))
        if held is not None and not _is_stale(held):
            raise WarehouseError(
                f"{files.uri} is being written by process {held.get('pid')} on {held.get('host')} "
                f"({held.get('what')}); wait for it to end."
            )
        _write(files, token, what)
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(LEASE_RENEW_MS / 1000):
            with _guard(files):
                if (_parsed(files.read("lease.json")) or {}).get("token") == token:
                    _write(files, token, what)

    renewer = threading.Thread(target=renew, name="lease", daemon=True)
    renewer.start()
    try:
        yield
    finally:
        ended.set()
        renewer.join()
        with _guard(files):
            if (_parsed(files.read("lease.json")) or {}).get("token") == token:
                files.delete("lease.json")


@contextlib.contextmanager
def _guard(files: Files) -> Iterator[None]:
    """Nobody else on this host takes or gives back the lease meanwhile. On an object store there is no such lock;
    Delta's own commit order still keeps the tables whole."""
    if not files.is_local:
        yield
        return
    import fcntl  # here, since Windows lacks it and may still read

    with open(files.path("lease.lock"), "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(files: Files, token: str, what: str) -> None:
    content = {
        "pid": os.getpid(),
        "process_started": _process_start(os.getpid()),
        "host": socket.gethostname(),
        "renewed_at_ms": int(time.time() * 1000),
        "what": what,
        "token": token,
    }
    files.write("lease.json", json.dumps(content).encode())


def _parsed(text: bytes | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        return dict(json.loads(text))
    except ValueError:
        return None  # not whole: nobody holds it


def _is_stale(held: Mapping[str, Any]) -> bool:
    if held.get("host") != socket.gethostname():
        return int(time.time() * 1000) - int(held.get("renewed_at_ms", 0)) > LEASE_STALE_MS
    pid = int(held.get("pid", 0))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    started = _process_start(pid)
    return started is not None and started != held.get("process_started")  # the pid was given to another process


def _process_start(pid: int) -> str | None:
    """When the process began, in the kernel's ticks; None where the system does not say."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
