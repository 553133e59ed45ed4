"""The messages each target has had, in one small file: written whole or not at all, by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rebalance_audit.alerts.target import AlertError

STATE_VERSION = 2
"""1 remembered findings. Its targets get what is open once more, as incidents."""


def read_state(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {"version": STATE_VERSION, "delivered": {}}
    except OSError as error:
        raise AlertError(f"The alert state {path} cannot be read: {error.strerror}.") from None
    try:
        state = json.loads(text)
        entries = [entry for delivered in state["delivered"].values() for entry in delivered.values()]
        is_known = state["version"] in (1, STATE_VERSION) and all(
            {"status", "severity"} <= entry.keys() for entry in entries
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        is_known = False
    if not is_known:
        raise AlertError(
            f"The alert state {path} is not one this version wrote: move it away, and every incident that is open is "
            "sent once more."
        )
    return dict(state) if state["version"] == STATE_VERSION else {"version": STATE_VERSION, "delivered": {}}


def write_state(path: Path, state: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(state, file, ensure_ascii=True, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One sender at a time per state file; the lock goes with the process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
