"""The files of the log: leaves, and the head with what the next leaf needs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rebalance_audit.domain.merkle import Frontier, leaf_hash
from rebalance_audit.warehouse.signing import Head, head_of
from rebalance_audit.warehouse.storage import Files, WarehouseError

HEAD = "audit/head.json"
LEAVES = "audit/leaves"
ACTS = "audit/acts.json"
CHUNK = 256
"""Leaves in a file: the last file is written again with each addition, so it stays small."""
_WITHOUT_A_HEAD = (
    "restore it from a backup made after the last run. Without one, keep the folder `audit` elsewhere, as it is, and "
    "name a new second place: the next run begins a new log."
)


@dataclass(frozen=True, slots=True)
class Act:
    """An action of ours that takes rows of bronze away on purpose."""

    verb: str
    detail: Mapping[str, Any]
    """Without anything secret or personal: the log is never erased."""


@dataclass(frozen=True, slots=True)
class LogState:
    """The content of head.json."""

    head: Head
    frontier: Frontier
    logged: Mapping[str, int] = field(default_factory=dict)
    """The newest version of each table that leaves name."""
    published: str | None = None
    """The hash of the published.json that the newest publication names."""
    publications: int = 0


def chunk_name(start: int) -> str:
    return f"{LEAVES}/{start:020d}.jsonl"


def write_leaves(files: Files, size: int, lines: Sequence[bytes]) -> None:
    """The leaves after the first `size`. What a killed writer left behind these is written over."""
    start = size - size % CHUNK
    kept = (files.read(chunk_name(start)) or b"").splitlines(keepends=True)[: size - start]
    if len(kept) < size - start:
        raise WarehouseError(f"{files.path(chunk_name(start))} lacks leaves; restore it, nothing is added to the log.")
    rows = kept + [leaf_hash(line).hex().encode() + b" " + line + b"\n" for line in lines]
    for at in range(0, len(rows), CHUNK):
        files.write(chunk_name(start + at), b"".join(rows[at : at + CHUNK]))


def read_head(files: Files) -> Head | None:
    """The newest head in the warehouse; None if no log was begun. Raises WarehouseError if it was lost."""
    state = read_state(files)
    return state.head if state else None


def read_state(files: Files) -> LogState | None:
    text = files.read(HEAD)
    place = f"{files.uri}/{HEAD}"
    if text is None:
        if files.names(LEAVES):
            raise WarehouseError(f"The signed head {place} is lost, and leaves are there; {_WITHOUT_A_HEAD}")
        return None
    try:
        stated = json.loads(text)
        frontier = Frontier(int(stated["head"]["size"]), tuple(bytes.fromhex(each) for each in stated["frontier"]))
        return LogState(
            head_of(json.dumps(stated["head"]).encode(), place), frontier,
            {str(k): int(v) for k, v in stated["logged"].items()}, stated["published"], int(stated["publications"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WarehouseError(f"The signed head {place} is damaged; {_WITHOUT_A_HEAD}") from None


def write_state(files: Files, state: LogState) -> None:
    content = {
        "head": asdict(state.head), "frontier": [each.hex() for each in state.frontier.hashes],
        "logged": state.logged, "published": state.published, "publications": state.publications,
    }  # fmt: skip
    files.write(HEAD, json.dumps(content, indent=1, sort_keys=True).encode())


def read_acts(files: Files) -> list[Act]:
    """The acts that began and are in no leaf yet. Where the file is damaged there are none: rows that went are then
    said to have gone for no reason that is known."""
    try:
        return [Act(str(each["verb"]), dict(each["detail"])) for each in json.loads(files.read(ACTS) or b"[]")]
    except (ValueError, KeyError, TypeError):
        return []


def write_acts(files: Files, acts: Sequence[Act]) -> None:
    """Keep acts from before their first row goes until a leaf has them. Without any the file goes."""
    if acts:
        files.write(ACTS, json.dumps([asdict(act) for act in acts], sort_keys=True).encode())
    else:
        files.delete(ACTS)
