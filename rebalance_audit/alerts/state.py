"""The messages each target has had, in one small file: written whole or not at all, by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from rebalance_audit.alerts.target import AlertError
from rebalance_audit.warehouse.lease import lease
from rebalance_audit.warehouse.storage import Files, WarehouseError, files_at, passing_fault

STATE_VERSION = 2
"""1 remembered findings. Its targets get what is open once more, as incidents."""


_WAIT_S = 60
"""For another sender; it has a time limit for each of its targets."""


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state, as a file of a warehouse in an object store."""

    files: Files
    name: str = "notes/alerts.json"

    def __str__(self) -> str:
        return f"{self.files.uri}/{self.name}"


@dataclass(slots=True)
class KeptState:
    """A state that this process goes on knowing while its place is away or full: what goes out then goes out once, and
    is written down later."""

    place: Path | StoredState
    now: dict[str, Any] = field(default_factory=lambda: _fresh())
    written: dict[str, Any] = field(default_factory=lambda: _fresh())
    """The state that the place held when it was read last."""
    lock: threading.RLock = field(default_factory=threading.RLock)


Place: TypeAlias = Path | StoredState | KeptState


def _fresh() -> dict[str, Any]:
    return {"version": STATE_VERSION, "delivered": {}}


def state_of(location: str, note: str = "alerts") -> Path | StoredState:
    """The place where a warehouse remembers what was sent: a file, or an object of its store."""
    files = files_at(location)
    name = f"notes/{note}.json"
    return Path(location) / name if files.is_local else StoredState(files, name)


def read_state(path: Place) -> dict[str, Any]:
    if isinstance(path, KeptState):
        return _kept(path)
    try:
        text = _text(path)
    except OSError as error:
        raise AlertError(f"The alert state {path} cannot be read: {error.strerror}.") from None
    if text is None:
        return _fresh()
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


def _kept(state: KeptState) -> dict[str, Any]:
    """What the place says, and what this process did that it does not have yet."""
    try:
        stored = read_state(state.place)
    except Exception as error:
        if passing_fault(error) is None:
            raise
    else:
        state.now = _merged(stored, state.written, state.now) if state.now != state.written else stored
        state.written = stored
    return _copy(state.now)


def _merged(stored: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """`stored` with what became of `before` in `now`, down to each incident; what others did meanwhile stays."""
    found = dict(stored)
    for name in before.keys() | now.keys():
        was, is_, there = before.get(name), now.get(name), stored.get(name)
        if was == is_:
            continue
        if is_ is None:
            found.pop(name, None)
        elif isinstance(is_, dict) and isinstance(there, dict) and "status" not in is_:
            found[name] = _merged(there, was or {}, is_)
        else:
            found[name] = is_
    return found


def _copy(state: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(state)))


def sent_about(path: Path | StoredState, incident_id: str) -> list[dict[str, Any]]:
    """When which target got what about an incident, or did not take it: `at_ms`, `target`, `what` (`open`, `graver`,
    `another cause`, `wider`, `over`, `withdrawn`, `silenced`, `heard again`), `is_sent`; by time. AlertError where the
    state cannot be read."""
    notes = read_state(path).get("sent", {}).get(incident_id, [])
    return sorted(notes, key=lambda note: int(note["at_ms"]))


def _text(path: Path | StoredState) -> str | None:
    if isinstance(path, StoredState):
        content = path.files.read(path.name)
        return None if content is None else content.decode(errors="replace")
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def write_state(path: Place, state: dict[str, Any]) -> None:
    if isinstance(path, KeptState):
        path.now = _copy(state)
        with _unless_away():
            write_state(path.place, state)
            path.written = path.now
        return
    if isinstance(path, StoredState):
        path.files.write(path.name, json.dumps(state, ensure_ascii=True, sort_keys=True).encode())
        return
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
def locked(path: Place) -> Iterator[None]:
    """One sender at a time per state file; the lock goes with the process."""
    if isinstance(path, KeptState):
        with path.lock, contextlib.ExitStack() as held:
            with _unless_away():
                held.enter_context(locked(path.place))
            yield
            with _unless_away():
                held.close()
        return
    if isinstance(path, StoredState):
        with contextlib.ExitStack() as held:
            _take_turn(path, held)
            yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "a", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def _unless_away() -> Iterator[None]:
    """If the place cannot be written now, the state is kept."""
    try:
        yield
    except Exception as error:
        if passing_fault(error) is None:
            raise


def _take_turn(state: StoredState, held: contextlib.ExitStack) -> None:
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            held.enter_context(lease(state.files, "alert", state.name.replace(".json", ".lease.json")))
            return
        except WarehouseError:
            if time.monotonic() > until:
                raise
            time.sleep(0.5)
