"""Compares the log of evidence with what is there. Every difference is one sentence that names the place."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pyarrow as pa

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.evidence_log.heads_and_leaves import check_heads, check_leaves, clock_back, read_lines
from rebalance_audit.warehouse.evidence_log.leaves import (
    COMMIT_ID,
    RESPONSES,
    by_others,
    file_hash,
    moves_files,
    removes_rows,
)
from rebalance_audit.warehouse.evidence_log.log_files import HEAD, Act, read_acts, read_head, read_state
from rebalance_audit.warehouse.evidence_log.second_place import SecondPlace
from rebalance_audit.warehouse.evidence_log.stated import Fault, Leaves, all_leaves, of_others
from rebalance_audit.warehouse.evidence_log.verdict import Verdict
from rebalance_audit.warehouse.lease import lease
from rebalance_audit.warehouse.row_digests import RowDigest, digests_by_landing
from rebalance_audit.warehouse.signing import Head
from rebalance_audit.warehouse.storage import Files, WarehouseError, files_at, folder_of, passing_fault
from rebalance_audit.warehouse.warehouse import Warehouse

WAIT_S = 60.0
"""So long a verification waits for a writer to end: a run of small news takes seconds."""


def verify(location: str, heads: str | None = None, key: str | None = None) -> Verdict:
    """`heads`: the second place. `key`: the public key that must have signed, raw, hexadecimal.

    Raises WarehouseError where there is nothing to verify, and where a head was lost.
    """
    files = files_at(Warehouse.open(location).location)
    second = SecondPlace(heads) if heads else None
    witnessed = second.all() if second else []
    with ExitStack() as held:
        _wait_for_writers(files, held)
        head = read_head(files)
        if head is None and witnessed:
            raise WarehouseError(
                f"{files.uri} has no log of evidence, and {heads} knows a head of {witnessed[-1].size} leaves: the log "
                "was removed. Restore the warehouse's folder `audit` from a backup."
            )
        if head is None:
            raise WarehouseError(f"{files.uri} has no log of evidence yet; the next `rebalance-audit run` begins one.")
        lines = read_lines(files)
        published = files.read("published.json")
        opened = Warehouse.open(location)
        unreadable: dict[str, str] = {}
        stand = {table.name: _version(opened, table.name, unreadable) for table in tables.TABLES}
    verdict = Verdict(head, heads=len(witnessed))
    verdict.clock_back = clock_back(lines[: head.size])
    newest = max((w.size for w in witnessed if w.log == head.log), default=head.size)
    verdict.unwitnessed = max(0, head.size - newest)  # a warehouse that was set back is a fault of its own
    hashes = check_leaves(verdict, lines, head)
    check_heads(verdict, hashes, head, witnessed, key or (witnessed[0].key if witnessed else head.key), heads or "")
    leaves = all_leaves(lines[: head.size])
    verdict.faults += leaves.faults
    if not verdict.faults and (why := books_differ(files, opened, leaves.versions, leaves.publication)) is not None:
        verdict.faults.append(Fault(HEAD, f"{HEAD} is signed, and what it keeps beside the head was changed: {why}."))
    verdict.leaves, verdict.publications = min(head.size, len(lines)), leaves.publications
    _check_publication(verdict, leaves, published)
    for name in sorted(leaves.files):
        verdict.faults += _bent_commits(leaves, opened, name)
        if name in unreadable:
            verdict.faults.append(Fault(name, f"{name}: its Delta log cannot be read ({unreadable[name]})."))
            continue
        try:
            _check_table(verdict, leaves, opened, files, name, stand[name])
        except (KeyError, ValueError, TypeError, OverflowError):
            if not verdict.faults:
                raise
            verdict.faults.append(Fault(name, f"{name} cannot be held against leaves that were changed."))
    if (answered := stand[RESPONSES]) is not None and answered > leaves.versions.get(RESPONSES, -1):
        verdict.not_yet.append(RESPONSES)
    return verdict


def verify_log(files: Files, head: Head) -> Verdict:
    """The log alone: whether its leaves are those of the head, and whether that has a good signature if it has one.
    What the tables hold is not read."""
    verdict = Verdict(head)
    lines = read_lines(files)
    hashes = check_leaves(verdict, lines, head)
    check_heads(verdict, hashes, head, (), head.key, "")
    verdict.leaves = min(head.size, len(lines))
    return verdict


def _version(opened: Warehouse, name: str, unreadable: dict[str, str]) -> int | None:
    try:
        return opened.version(name)
    except WarehouseError:
        raise
    except Exception as error:  # deltalake has a kind of its own for each way in which a table's log can be broken
        unreadable[name] = str(error)
        return None


def _wait_for_writers(files: Files, held: ExitStack) -> None:
    """Until the warehouse stands still; a reader without the right to write goes on at once."""
    until = time.monotonic() + WAIT_S
    while True:
        try:
            held.enter_context(lease(files, "audit verify"))
            return
        except WarehouseError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        except Exception as error:  # a store that is away says so at the next reading
            if not isinstance(error, OSError) and passing_fault(error) is None:
                raise
            return


def _check_publication(verdict: Verdict, leaves: Leaves, published: bytes | None) -> None:
    if leaves.publication is None:
        if published is not None:
            verdict.faults.append(Fault("published.json", "published.json is there, and no publication is in the log."))
        return
    number = leaves.publication["number"]
    if published is None:
        verdict.faults.append(Fault("published.json", f"published.json is gone; publication {number} was the last."))
    elif hashlib.sha256(published).hexdigest() != leaves.publication["manifest"]:
        verdict.faults.append(
            Fault(
                "published.json",
                f"published.json is not what publication {number} wrote: "
                f"{_what_differs(leaves.publication['versions'], published)}.",
            )
        )


def _what_differs(logged: Mapping[str, int], published: bytes) -> str:
    try:
        here = dict(json.loads(published)["versions"])
    except (ValueError, KeyError, TypeError):
        return "it cannot be read"
    differing = [
        f"{name} is at {here.get(name, 'none')}, not {logged.get(name, 'none')}"
        for name in sorted({*here, *logged})
        if here.get(name) != logged.get(name)
    ]
    return ", ".join(differing) or "its other parts differ"


def _check_table(
    verdict: Verdict, leaves: Leaves, opened: Warehouse, files: Files, name: str, newest: int | None
) -> None:
    before = len(verdict.faults)
    expected, version = leaves.files[name], leaves.versions[name]
    bent = list(_bent_files(leaves, files, name, expected))
    verdict.faults += bent
    verdict.files += len(expected)
    if newest is None or newest < version:
        stands = "is gone" if newest is None else f"was set back to version {newest}"
        verdict.faults.append(Fault(name, f"{name} {stands}; the log ends with its version {version}."))
    else:
        verdict.faults += _listed_otherwise(opened, name, expected, version)
        if name in leaves.landings and newest > version:
            verdict.faults += _unrecorded(opened, name, version, newest, read_acts(files))
            verdict.not_yet.append(name)
        elif newest > version:
            verdict.faults += (
                of_others(name, each, "no publication has it yet") for each in by_others(opened, name, version, newest)
            )
    if len(verdict.faults) == before and name in leaves.landings:
        _check_rows(verdict, leaves, opened, name, version)


def _bent_commits(leaves: Leaves, opened: Warehouse, name: str) -> Iterator[Fault]:
    """Old commits are cleaned up; those that are there must be what was logged."""
    for version, (stated, leaf) in sorted(leaves.commits.get(name, {}).items()):
        text = opened.commit_text(name, version)
        if text is not None and hashlib.sha256(text).hexdigest() != stated:
            sentence = f"{name}: the commit of its version {version} was changed; leaf {leaf} has its hash."
            yield Fault(f"{name} version {version}", sentence)


def _bent_files(leaves: Leaves, files: Files, name: str, expected: Mapping[str, tuple[int, str]]) -> Iterator[Fault]:
    for path, stated in sorted(expected.items()):
        place = f"{folder_of(name)}/{path}"
        leaf = leaves.leaf_of[name, path]
        try:
            found = file_hash(files, place)
        except OSError:
            yield Fault(place, f"{place} is gone (leaf {leaf} has it).")
            continue
        if found != stated:
            how = f"{found[0]:,} bytes, not {stated[0]:,}" if found[0] != stated[0] else "other bytes"
            yield Fault(place, f"{place} was changed: it has {how}; leaf {leaf} has its hash.")


def _listed_otherwise(
    opened: Warehouse, name: str, expected: Mapping[str, tuple[int, str]], version: int
) -> Iterator[Fault]:
    try:
        prefix = f"{opened.location}/{folder_of(name)}/"
        listed = {uri.removeprefix(prefix) for uri in opened.files(name, version)}
    except Exception as error:  # deltalake has a kind of its own for each way in which a table's log can be broken
        yield Fault(name, f"{name}: its version {version} cannot be read ({type(error).__name__}: {error}).")
        return
    for path in sorted(listed - set(expected)):
        yield Fault(
            f"{folder_of(name)}/{path}", f"{folder_of(name)}/{path} is in {name}, and the log does not have it."
        )
    for path in sorted(set(expected) - listed):
        yield Fault(f"{folder_of(name)}/{path}", f"{folder_of(name)}/{path} was taken out of {name}; the log has it.")


def _unrecorded(opened: Warehouse, name: str, version: int, newest: int, begun: Sequence[Act]) -> Iterator[Fault]:
    """`begun`: verbs that said beforehand that they take rows away, and ended before the log had it."""
    verbs = " and ".join(sorted({f"`{act.verb}`" for act in begun}))
    for each in range(version + 1, newest + 1):
        actions = opened.actions(name, each) or []
        if not removes_rows(actions):
            continue
        why = "no verb of ours recorded it"
        if verbs and any(COMMIT_ID in action.get("commitInfo", {}) for action in actions):
            why = f"{verbs} began before it and did not end; the next verb that writes puts that into the log"
        yield Fault(name, f"{name}: version {each} removes rows, and {why}.")


def _check_rows(verdict: Verdict, leaves: Leaves, opened: Warehouse, name: str, version: int) -> None:
    schema, files = arrow_schema(tables.BY_NAME[name]), opened.files(name, version)
    expected = {landing: digest for landing, (digest, _) in leaves.landings[name].items() if digest.rows}
    found: dict[str, RowDigest] = {}
    of_columns: dict[tuple[str, ...], list[str]] = {}
    for landing, (_, columns) in leaves.landings[name].items():
        of_columns.setdefault(columns, []).append(landing)
    for columns, landings in of_columns.items():  # an older release had fewer
        covered = pa.schema([schema.field(column) for column in columns])
        digests = digests_by_landing(files, covered, tables.BY_NAME[name].key)
        found |= {each: digest for each, digest in digests.items() if each in set(landings) or each not in expected}
    for landing in sorted({*found, *expected}):
        here, stated = found.get(landing), expected.get(landing)
        leaf = leaves.leaf_of.get((name, f"landing {landing}"))
        if here == stated:
            continue
        if stated is None:
            sentence = f"{name}: {here.rows if here else 0:,} rows of landing file {landing} are in no leaf."
        elif here is None:
            sentence = f"{name}: the {stated.rows:,} rows of landing file {landing} are gone (leaf {leaf} has them)."
        else:
            sentence = (
                f"{name}: the rows of landing file {landing} were changed: {here.rows:,} are there, leaf {leaf} has "
                f"{stated.rows:,}."
            )
        verdict.faults.append(Fault(f"{name} landing {landing}", sentence))
    verdict.rows += sum(digest.rows for digest in found.values())


def books_differ(
    files: Files, opened: Warehouse, versions: Mapping[str, int], publication: Mapping[str, Any] | None
) -> str | None:
    """How what head.json keeps for the next leaf differs from what the leaves say; None if it does not.

    Tables' versions may be ahead of the leaves by commits that moved no file.
    """
    state = read_state(files)
    if state is None:
        return None
    if state.frontier.root.hex() != state.head.root:
        return "the hashes that the next leaf is added to are not those of the head"
    stated = (None, 0) if publication is None else (publication["manifest"], publication["number"])
    if (state.published, state.publications) != stated:
        return "it names another publication than the last leaf of one"
    for name in sorted(versions.keys() | state.logged.keys()):
        there, logged = versions.get(name, -1), state.logged.get(name, -1)
        is_known = name in tables.BY_NAME and logged >= there
        if logged != there and not (is_known and not moves_files(opened, name, there, logged)):
            return f"it says {name} is logged up to version {logged}, leaves say {there}"
    return None
