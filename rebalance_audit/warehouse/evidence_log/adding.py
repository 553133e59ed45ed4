"""Adds leaves, signs the head, and refuses where the log does not go on from what is there."""

from __future__ import annotations

import hashlib
import os
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rebalance_audit.domain import tables
from rebalance_audit.domain.merkle import Frontier, leaf_hash
from rebalance_audit.warehouse.evidence_log.leaves import (
    BRONZE,
    evidence_leaves,
    publication_leaf,
    response_leaves,
)
from rebalance_audit.warehouse.evidence_log.log_files import HEAD, Act, LogState, read_state, write_leaves, write_state
from rebalance_audit.warehouse.evidence_log.second_place import SecondPlace
from rebalance_audit.warehouse.signing import (
    ENVIRONMENT_HEADS,
    ENVIRONMENT_KEY,
    Head,
    canonical,
    private_key,
    signed,
)
from rebalance_audit.warehouse.storage import Files, WarehouseError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from rebalance_audit.warehouse.warehouse import Warehouse


def add_news(opened: Warehouse, files: Files, acts: Sequence[Act] = ()) -> None:
    """Adds what changed since the last leaf; nothing new adds nothing. Only for the one who holds the lease.

    Raises WarehouseError where the log does not go on from what is there: then nothing is added, so that what was
    changed by others stays visible.
    """
    state = read_state(files)
    logged = dict(state.logged) if state else {}
    leaves: list[dict[str, Any]] = [
        leaf for name in BRONZE for leaf in evidence_leaves(opened, files, name, logged, acts)
    ]
    published = files.read("published.json")
    manifest_hash = None if published is None else hashlib.sha256(published).hexdigest()
    publications = state.publications if state else 0
    if manifest_hash is not None and manifest_hash != (state.published if state else None):
        publications += 1
        leaves.append(publication_leaf(opened, files, manifest_hash, publications, logged))
    leaves += response_leaves(opened, files, logged)
    key_file, second = os.environ.get(ENVIRONMENT_KEY), os.environ.get(ENVIRONMENT_HEADS)
    if not leaves and (state is None or not (key_file or second)):
        return
    key = private_key(key_file) if key_file else None
    now_ms = time.time_ns() // 1_000_000
    if not leaves and state is not None:
        _sign_late(files, state, key, second)
        return
    if state is None:
        _refuse_to_begin_anew(files, second)
        log, frontier = uuid.uuid4().hex, Frontier()
        # The head of an empty log is written first: leaves without any head mean that a head was lost.
        write_state(files, LogState(Head(log=log, size=0, root=frontier.root.hex(), at_ms=now_ms), frontier))
    else:
        log, frontier = state.head.log, state.frontier
        _refuse_bent(files, state, second)
    if not frontier.size:
        leaves.insert(0, {"what": "begin", "log": log, "schema_version": tables.SCHEMA_VERSION})
    lines = [canonical({**leaf, "at_ms": now_ms}) for leaf in leaves]
    write_leaves(files, frontier.size, lines)
    frontier = frontier.with_leaves(map(leaf_hash, lines))
    head = Head(log=log, size=frontier.size, root=frontier.root.hex(), at_ms=now_ms)
    if key is not None:
        head = signed(head, key)
    write_state(
        files, LogState(head, frontier, logged, manifest_hash or (state.published if state else None), publications)
    )
    if second:
        SecondPlace(second).add(head)


def _sign_late(files: Files, state: LogState, key: Ed25519PrivateKey | None, second: str | None) -> None:
    """A key or a second place that came after the last leaf has the head of what is there already."""
    newest = SecondPlace(second).newest() if second else None
    is_known = second is None or (
        newest is not None and newest.log == state.head.log and newest.size >= state.head.size
    )
    if is_known and (key is None or state.head.key is not None):
        return
    _refuse_bent(files, state, second)
    head = signed(state.head, key) if key is not None and state.head.key is None else state.head
    if head is not state.head:
        write_state(files, replace(state, head=head))
    if second and not (newest is not None and newest.size >= head.size and newest.key == head.key):
        SecondPlace(second).add(head)


def _refuse_bent(files: Files, state: LogState, second: str | None) -> None:
    verify = f"run `rebalance-audit audit verify -w {files.uri}`"
    if state.frontier.root.hex() != state.head.root or (state.head.key and not state.head.is_signature_good):
        raise WarehouseError(f"{files.uri}/{HEAD} is not what was signed, so nothing is added to the log; {verify}.")
    newest = SecondPlace(second).newest() if second else None
    if newest is not None and newest.log != state.head.log:
        raise WarehouseError(
            f"{second} ends with a head of another log of evidence than {files.uri} has. Nothing is added to it; "
            f"{verify} --heads {second}, or name a second place of its own."
        )
    if newest is not None and newest.size > state.head.size:
        raise WarehouseError(
            f"{files.uri} was set back: its log of evidence has {state.head.size} leaves, {second} knows a head of "
            f"{newest.size}. Nothing is added to it; {verify} --heads {second}."
        )


def _refuse_to_begin_anew(files: Files, second: str | None) -> None:
    """Refuses if the second place already has heads: it has seen a log before, and a new one would hide that somebody
    removed it."""
    newest = SecondPlace(second).newest() if second else None
    if newest is not None:
        raise WarehouseError(
            f"{files.uri} has no log of evidence, and {second} knows a head of {newest.size} leaves: the log was "
            "removed, or this is another warehouse's second place. No new one is begun there: restore the folder "
            "`audit` from a backup, or name a new second place."
        )
