"""Whether the log of evidence itself is whole: its leaves are those of its head, and its heads are what was signed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from rebalance_audit.domain.merkle import leaf_hash, roots
from rebalance_audit.warehouse.evidence_log.log_files import LEAVES
from rebalance_audit.warehouse.evidence_log.stated import Fault
from rebalance_audit.warehouse.evidence_log.verdict import Verdict
from rebalance_audit.warehouse.signing import Head
from rebalance_audit.warehouse.storage import Files


def read_lines(files: Files) -> list[tuple[str, bytes]]:
    """(hash as stated, leaf) of every line."""
    found = []
    for name in files.names(LEAVES):
        for line in (files.read(f"{LEAVES}/{name}") or b"").splitlines():
            stated, _, content = line.partition(b" ")
            found.append((stated.decode("ascii", "replace"), content))
    return found


def check_leaves(verdict: Verdict, lines: Sequence[tuple[str, bytes]], head: Head) -> list[bytes]:
    """The hashes of the leaves up to the head. A leaf that was changed becomes a fault of the verdict."""
    hashes = []
    for at, (stated, content) in enumerate(lines[: head.size]):
        hashes.append(leaf_hash(content))
        if hashes[-1].hex() != stated:
            verdict.faults.append(
                Fault(f"leaf {at}", f"Leaf {at} of the log was changed: its hash is not the one beside it.")
            )
    return hashes


def check_heads(
    verdict: Verdict, hashes: list[bytes], head: Head, witnessed: Sequence[Head], key: str | None, second: str
) -> None:
    """Whether the leaves are those of the head, the heads are what was signed, and no head of the second place knows
    another log, or more leaves. What is not so becomes a fault of the verdict.

    `witnessed`: the heads of the second place. `key`: the public key that must have signed. `second`: the second
    place's name, for sentences.
    """
    found = roots(hashes, {head.size, *(each.size for each in witnessed)})
    faults = verdict.faults
    if head.size > len(hashes):
        faults.append(Fault("log", f"The log lacks leaves: it has {len(hashes)}, its head says {head.size}."))
    elif found[head.size].hex() != head.root:
        faults.append(
            Fault(
                "log",
                f"The {head.size} leaves are not those of the head: leaves were changed{_since(found, witnessed)}.",
            )
        )
    if head.key is None and key is not None:
        faults.append(Fault("head", "The head in the warehouse is not signed, and should be."))
    for each, place in [(head, "the warehouse"), *((w, second) for w in witnessed)]:
        if each.key is not None and each.key != key:
            faults.append(
                Fault(
                    "head", f"The head of {each.size} leaves in {place} is signed with another key ({each.key[:16]}…)."
                )
            )
        elif each.key is not None and not each.is_signature_good:
            faults.append(Fault("head", f"The head of {each.size} leaves in {place} is not what was signed."))
    own = [w for w in witnessed if w.log == head.log]
    others = {w.log: w for w in witnessed if w.log != head.log}
    for log, last in others.items():
        faults.append(
            Fault("log", f"The log was replaced: {second} knows log {log} with {last.size} leaves until "
                  f"{datetime.fromtimestamp(last.at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC, here is {head.log}.")
        )  # fmt: skip
    if own and (newest := max(own, key=lambda w: w.size)).size > head.size:
        faults.append(
            Fault("log", f"The warehouse was set back: {second} knows {newest.size} leaves, here are {head.size}; "
                  f"{newest.size - head.size} are missing.")
        )  # fmt: skip
    elif own and head.size in found and found[head.size].hex() == head.root:
        bent = [w for w in own if w.size in found and found[w.size].hex() != w.root]
        if bent:
            faults.append(
                Fault(
                    "log",
                    f"The log was rewritten: its first {bent[0].size} leaves are not those of a head in {second}.",
                )
            )


def _since(found: Mapping[int, bytes], witnessed: Sequence[Head]) -> str:
    """Between which heads, where the second place shows it."""
    last_good, first_bad = 0, None
    for each in sorted(witnessed, key=lambda w: w.size):
        if each.size in found:
            if found[each.size].hex() == each.root:
                last_good = each.size
            elif first_bad is None:
                first_bad = each.size
    return f", one of leaves {last_good} to {first_bad - 1}" if first_bad is not None else ""


def clock_back(lines: Sequence[tuple[str, bytes]]) -> list[str]:
    """Where a leaf says an earlier time than the one before it: a clock was set back. It proves no change."""
    found, times = [], [_time_of(content) for _, content in lines]
    for at, (before_ms, at_ms) in enumerate(pairwise(times), 1):
        if before_ms is not None and at_ms is not None and at_ms < before_ms:
            said, before = (f"{datetime.fromtimestamp(t / 1000, UTC):%Y-%m-%d %H:%M:%S}" for t in (at_ms, before_ms))
            found.append(f"Leaf {at} says {said} UTC, the one before it {before}: the writer's clock was set back.")
    return found


def _time_of(leaf: bytes) -> int | None:
    try:
        return int(json.loads(leaf)["at_ms"])
    except (ValueError, KeyError, TypeError):
        return None
