"""The log of evidence: what came into bronze and what was published, as leaves of a Merkle tree with signed heads.

    <location>/audit/leaves/<n>.jsonl   256 leaves from the n-th on; a line is the leaf's hash, a blank, the leaf
    <location>/audit/head.json          the newest head, and what is needed to add leaves
    <second place>/heads.jsonl          every head; on an object store one object for each: heads/<size>.json

Leaves are JSON in one form (`signing.canonical`), each with its time:

    begin        the log's name and the schema version
    evidence     one table of bronze: files that came and went, and the digest of the rows of each landing file
    publication  the hash of published.json, the tables' versions, and files of gold that came and went
    responses    the same of gold.response, which people add to at any time

All have the hashes of the commits in the tables' Delta logs that say so.

Whoever holds the warehouse's lease adds leaves when it is given back, so that a run costs
what it changed. Decision 0021.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rebalance_audit.domain import tables
from rebalance_audit.domain.merkle import Frontier, leaf_hash
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.row_digests import NO_ROWS, RowDigest, digests_by_landing
from rebalance_audit.warehouse.signing import (
    ENVIRONMENT_HEADS,
    ENVIRONMENT_KEY,
    Head,
    canonical,
    head_of,
    private_key,
    signed,
)
from rebalance_audit.warehouse.storage import Files, WarehouseError, files_at

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from rebalance_audit.warehouse.warehouse import Warehouse

HEAD = "audit/head.json"
LEAVES = "audit/leaves"
CHUNK = 256
"""Leaves in a file: the last file is written again with each addition, so it stays small."""
SAME_ROWS = "sameRows"
"""The name, in the information of a commit that writes the same rows into other files, under which the reason stands.
The rows' digests show whether it is true."""
COMMIT_ID = "commitId"
"""The name, in the information of every commit of ours, under which its id stands: a writer knows its own commits by
it."""
RESPONSES = "gold.response"
BRONZE = tuple(table.name for table in tables.TABLES if table.layer == "bronze")


_WITHOUT_A_HEAD = (
    "restore it from a backup made after the last run. Without one, keep the folder `audit` elsewhere, as it is, and "
    "name a new second place: the next run begins a new log."
)


@dataclass(frozen=True, slots=True)
class Act:
    """A deed of ours that takes rows of bronze away on purpose."""

    verb: str
    detail: Mapping[str, Any]
    """Without anything secret or personal: the log is never erased."""


@dataclass(frozen=True, slots=True)
class _LogState:
    """What is in head.json."""

    head: Head
    frontier: Frontier
    logged: Mapping[str, int] = field(default_factory=dict)
    """The newest version of each table that leaves name."""
    published: str | None = None
    """The hash of the published.json that the newest publication names."""
    publications: int = 0


def add_news(opened: Warehouse, files: Files, acts: Sequence[Act] = ()) -> None:
    """Adds what changed since the last leaf; nothing new adds nothing. Only for the one who holds the lease.

    Raises WarehouseError where the log does not go on from what is there: then nothing is added, so that what was
    changed by others stays visible.
    """
    state = _read_state(files)
    logged = dict(state.logged) if state else {}
    leaves: list[dict[str, Any]] = [leaf for name in BRONZE for leaf in _evidence(opened, files, name, logged, acts)]
    published = files.read("published.json")
    manifest_hash = None if published is None else hashlib.sha256(published).hexdigest()
    publications = state.publications if state else 0
    if manifest_hash is not None and manifest_hash != (state.published if state else None):
        publications += 1
        leaves.append(_publication(opened, files, manifest_hash, publications, logged))
    leaves += _responses(opened, files, logged)
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
        _write_state(files, _LogState(Head(log=log, size=0, root=frontier.root.hex(), at_ms=now_ms), frontier))
    else:
        log, frontier = state.head.log, state.frontier
        _refuse_bent(files, state, second)
    if not frontier.size:
        leaves.insert(0, {"what": "begin", "log": log, "schema_version": tables.SCHEMA_VERSION})
    lines = [canonical({**leaf, "at_ms": now_ms}) for leaf in leaves]
    _write_leaves(files, frontier.size, lines)
    frontier = frontier.with_leaves(map(leaf_hash, lines))
    head = Head(log=log, size=frontier.size, root=frontier.root.hex(), at_ms=now_ms)
    if key is not None:
        head = signed(head, key)
    _write_state(
        files, _LogState(head, frontier, logged, manifest_hash or (state.published if state else None), publications)
    )
    if second:
        SecondPlace(second).add(head)


def _sign_late(files: Files, state: _LogState, key: Ed25519PrivateKey | None, second: str | None) -> None:
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
        _write_state(files, replace(state, head=head))
    if second and not (newest is not None and newest.size >= head.size and newest.key == head.key):
        SecondPlace(second).add(head)


def _refuse_bent(files: Files, state: _LogState, second: str | None) -> None:
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


# ---- leaves ----------------------------------------------------------------------------------------------------------


def _evidence(
    opened: Warehouse, files: Files, name: str, logged: dict[str, int], acts: Sequence[Act]
) -> Iterator[dict[str, Any]]:
    since, now = logged.get(name, -1), opened.version(name)
    if now is None and since < 0:
        return
    if now is None or now < since:
        raise WarehouseError(
            f"{name} was set back: it stands at version {now}, the log of evidence at {since}. Nothing is added to "
            f"it; run `rebalance-audit audit verify -w {files.uri}`."
        )
    if now == since:
        return
    logged[name] = now
    moved = _moved(opened, name, since, now)
    if not (moved.added or moved.removed):
        return
    schema = arrow_schema(tables.BY_NAME[name])
    leaf = {
        "what": "evidence", "table": name, "version": now, "cause": "collected",
        "added": {path: _stated(files, name, path) for path in moved.added}, "removed": sorted(moved.removed),
        "columns": schema.names, "landings": {}, "commits": moved.commits,
    }  # fmt: skip
    if moved.loses_rows and acts:
        digests = _after_act(opened, name, moved)
        leaf |= {"cause": "act", "acts": [asdict(act) for act in acts]}
    elif moved.loses_rows:
        digests = {}
        leaf["cause"] = "unknown"
    else:
        digests = _digests(name, [_uri(opened, name, path) for path in moved.brought])
        if not digests:
            leaf["cause"] = "joined"
    leaf["landings"] = {landing: [d.rows, d.sha256] for landing, d in sorted(digests.items())}
    yield leaf


def _publication(
    opened: Warehouse, files: Files, manifest_hash: str, number: int, logged: dict[str, int]
) -> dict[str, Any]:
    versions = opened.published()
    added: dict[str, Any] = {}
    removed: dict[str, Any] = {}
    others: dict[str, Any] = {}
    commits: dict[str, dict[str, str]] = {}
    for name, version in versions.items():
        since = logged.get(name, -1)
        if version == since:
            continue
        moved = _moved(opened, name, since, version)
        logged[name] = version
        if moved.commits:
            commits[name] = moved.commits
        if moved.added:
            added[name] = {path: _stated(files, name, path) for path in moved.added}
        if moved.removed:
            removed[name] = sorted(moved.removed)
        if since >= 0 and (foreign := by_others(opened, name, since, version)):
            others[name] = foreign
    leaf = {
        "what": "publication", "number": number, "manifest": manifest_hash, "versions": versions,
        "added": added, "removed": removed, "commits": commits,
    }  # fmt: skip
    return leaf | {"by_others": others} if others else leaf


def _responses(opened: Warehouse, files: Files, logged: dict[str, int]) -> Iterator[dict[str, Any]]:
    since, now = logged.get(RESPONSES, -1), opened.version(RESPONSES)
    if now is None or now <= since:  # `verify` says that it was set back
        return
    logged[RESPONSES] = now
    moved = _moved(opened, RESPONSES, since, now)
    if moved.added or moved.removed:
        yield {
            "what": "responses", "table": RESPONSES, "version": now,
            "added": {path: _stated(files, RESPONSES, path) for path in moved.added}, "removed": sorted(moved.removed),
            "commits": moved.commits, "by_others": by_others(opened, RESPONSES, since, now),
        }  # fmt: skip


def by_others(opened: Warehouse, name: str, since: int, until: int) -> list[int]:
    """The versions in which another program than this took rows out of a table; `restore` does that, for one."""
    found = []
    for version in range(since + 1, until + 1):
        actions = opened.actions(name, version) or []
        if removes_rows(actions) and not any(COMMIT_ID in action.get("commitInfo", {}) for action in actions):
            found.append(version)
    return found


@dataclass(frozen=True, slots=True)
class _Moved:
    """What some commits of a table did together."""

    added: list[str]
    """Files that are there now and were not before."""
    removed: set[str]
    """Files that were there before and are not now."""
    brought: list[str]
    """Files whose rows are new. Even if they were joined with others meanwhile, they are not deleted within an hour."""
    loses_rows: bool
    commits: dict[str, str]
    """The SHA-256 of each commit's file, by version."""


def _moved(opened: Warehouse, name: str, since: int, until: int) -> _Moved:
    added: dict[str, None] = {}
    removed: set[str] = set()
    brought: dict[str, None] = {}
    loses_rows = False
    commits: dict[str, str] = {}
    for version in range(since + 1, until + 1):
        text = opened.commit_text(name, version)
        if text is None:  # part of the table's history was cleaned up before the log saw it
            here = [path.removeprefix(f"{opened.location}/{folder_of(name)}/") for path in opened.files(name, until)]
            return _Moved(here, set(), here, loses_rows=False, commits={})
        commits[str(version)] = hashlib.sha256(text).hexdigest()
        actions = actions_in(text)
        takes_away = removes_rows(actions)
        loses_rows |= takes_away
        for action in actions:
            if "remove" in action:
                path = action["remove"]["path"]
                if takes_away:
                    brought.pop(path, None)
                if path in added:
                    del added[path]
                else:
                    removed.add(path)
            elif "add" in action:
                path = action["add"]["path"]
                added[path] = None
                removed.discard(path)
                if action["add"]["dataChange"]:
                    brought[path] = None
    if since < 0:  # a warehouse older than its log: files that were joined since may be deleted by now
        brought = dict(added)
    return _Moved(list(added), removed, list(brought), loses_rows, commits)


def actions_in(commit: bytes) -> list[dict[str, Any]]:
    """Delta's actions in the file of a commit."""
    return [json.loads(line) for line in commit.splitlines() if line.strip()]


def removes_rows(actions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a commit takes rows away, by its own words."""
    return any("remove" in action and action["remove"]["dataChange"] for action in actions) and not any(
        SAME_ROWS in action.get("commitInfo", {}) for action in actions
    )


def _after_act(opened: Warehouse, name: str, moved: _Moved) -> dict[str, RowDigest]:
    """What is left of every landing file that a removed file had rows of."""
    gone = [uri for path in moved.removed if opened.has_file(uri := _uri(opened, name, path))]
    touched = None
    if len(gone) == len(moved.removed):
        touched = sorted(_digests(name, [*gone, *(_uri(opened, name, path) for path in moved.brought)]))
    left = _digests(name, opened.files(name), touched)
    return {**dict.fromkeys(touched or [], NO_ROWS), **left}


def _digests(name: str, uris: Sequence[str], landings: Sequence[str] | None = None) -> dict[str, RowDigest]:
    table = tables.BY_NAME[name]
    return digests_by_landing(uris, arrow_schema(table), table.key, landings)


def _stated(files: Files, name: str, path: str) -> list[Any]:
    """[bytes, SHA-256] of a table's file."""
    return list(file_hash(files, f"{folder_of(name)}/{path}"))


def file_hash(files: Files, name: str) -> tuple[int, str]:
    """(bytes, SHA-256). Raises OSError."""
    running = hashlib.sha256()
    size = 0
    with files.fs.open_input_stream(files.path(name)) as stream:
        while block := stream.read(1 << 20):
            running.update(block)
            size += len(block)
    return size, running.hexdigest()


def folder_of(name: str) -> str:
    return name.replace(".", "/")


def _uri(opened: Warehouse, name: str, path: str) -> str:
    return f"{opened.location}/{folder_of(name)}/{path}"


# ---- files of the log ------------------------------------------------------------------------------------------------


def chunk_name(start: int) -> str:
    return f"{LEAVES}/{start:020d}.jsonl"


def _write_leaves(files: Files, size: int, lines: Sequence[bytes]) -> None:
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
    state = _read_state(files)
    return state.head if state else None


def books_differ(
    files: Files, opened: Warehouse, versions: Mapping[str, int], publication: Mapping[str, Any] | None
) -> str | None:
    """How what head.json keeps for the next leaf differs from what the leaves say; None if it does not.

    Tables' versions may be ahead of the leaves by commits that moved no file.
    """
    state = _read_state(files)
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
        if logged != there and not (is_known and not _moves_files(opened, name, there, logged)):
            return f"it says {name} is logged up to version {logged}, leaves say {there}"
    return None


def _moves_files(opened: Warehouse, name: str, since: int, until: int) -> bool:
    now = opened.version(name)
    if now is None or until > now:
        return True
    moved = _moved(opened, name, since, until)
    return bool(moved.added or moved.removed)


def _read_state(files: Files) -> _LogState | None:
    text = files.read(HEAD)
    place = f"{files.uri}/{HEAD}"
    if text is None:
        if files.names(LEAVES):
            raise WarehouseError(f"The signed head {place} is lost, and leaves are there; {_WITHOUT_A_HEAD}")
        return None
    try:
        stated = json.loads(text)
        frontier = Frontier(int(stated["head"]["size"]), tuple(bytes.fromhex(each) for each in stated["frontier"]))
        return _LogState(
            head_of(json.dumps(stated["head"]).encode(), place), frontier,
            {str(k): int(v) for k, v in stated["logged"].items()}, stated["published"], int(stated["publications"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError):
        raise WarehouseError(f"The signed head {place} is damaged; {_WITHOUT_A_HEAD}") from None


def _write_state(files: Files, state: _LogState) -> None:
    content = {
        "head": asdict(state.head), "frontier": [each.hex() for each in state.frontier.hashes],
        "logged": state.logged, "published": state.published, "publications": state.publications,
    }  # fmt: skip
    files.write(HEAD, json.dumps(content, indent=1, sort_keys=True).encode())


class SecondPlace:
    """Where heads are written as well, so that a warehouse that is set back as a whole is noticed."""

    def __init__(self, location: str) -> None:
        self._files = files_at(location)
        self.location = location

    def add(self, head: Head) -> None:
        """Raises WarehouseError."""
        try:
            if not self._files.is_local:
                self._files.write(f"heads/{head.size:020d}.json", head.line)
                return
            os.makedirs(self._files.root, exist_ok=True)
            with open(self._files.path("heads.jsonl"), "ab") as file:
                file.write(head.line)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise WarehouseError(
                f"The signed head cannot be written to {self.location} ({error.strerror or error}); the log in the "
                "warehouse has it. Check the place and your rights."
            ) from None

    def newest(self) -> Head | None:
        """The last that was written here; None if there is none yet."""
        if not self._files.is_local:
            names = self._files.names("heads")
            text = self._files.read(f"heads/{names[-1]}") if names else None
            return None if text is None else head_of(text, self.location)
        try:
            with open(self._files.path("heads.jsonl"), "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - 64 * 1024))
                lines = file.read().splitlines()
        except FileNotFoundError:
            return None
        return head_of(lines[-1], f"{self.location}/heads.jsonl") if lines else None

    def all(self) -> list[Head]:
        """In the order in which they were written. Raises WarehouseError if there is none, or one is damaged."""
        if self._files.is_local:
            lines = (self._files.read("heads.jsonl") or b"").splitlines()
        else:
            lines = [self._files.read(f"heads/{name}") or b"" for name in self._files.names("heads")]
        if not lines:
            raise WarehouseError(
                f"{self.location} has no signed head: they are lost, or this is not their second place."
            )
        return [head_of(line, f"{self.location}, head {at}") for at, line in enumerate(lines, 1)]
