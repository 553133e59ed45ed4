"""What a leaf says of the commits since the leaf before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.evidence_log.log_files import Act
from rebalance_audit.warehouse.row_digests import NO_ROWS, RowDigest, digests_by_landing
from rebalance_audit.warehouse.storage import Files, WarehouseError, folder_of

if TYPE_CHECKING:
    from rebalance_audit.warehouse.warehouse import Warehouse


SAME_ROWS = "sameRows"
"""The name, in the information of a commit that writes the same rows into other files, under which the reason stands.
The rows' digests show whether it is true."""
COMMIT_ID = "commitId"
"""The name, in the information of every commit of ours, under which its id stands: a writer knows its own commits by
it."""
RESPONSES = "gold.response"
BRONZE = tuple(table.name for table in tables.TABLES if table.layer == "bronze")


def evidence_leaves(
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
    if moved.loses_rows and acts and not by_others(opened, name, since, now):
        digests = _after_act(opened, name, moved)
        leaf |= {"cause": "act", "acts": [asdict(act) for act in acts]}
    elif moved.loses_rows:
        digests = {}
        leaf["cause"] = "unknown"
    else:
        digests = _digests(opened, name, [_uri(opened, name, path) for path in moved.brought])
        if not digests:
            leaf["cause"] = "joined"
    leaf["landings"] = {landing: [d.rows, d.sha256] for landing, d in sorted(digests.items())}
    yield leaf


def publication_leaf(
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


def response_leaves(opened: Warehouse, files: Files, logged: dict[str, int]) -> Iterator[dict[str, Any]]:
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
    # A warehouse older than its log: files that were joined since may be deleted by now. Others are read as they came:
    # joined, rows of one landing file lie in many, and all of them must be sorted at once.
    if since < 0 and not all(opened.has_file(_uri(opened, name, path)) for path in brought):
        brought = dict(added)
    return _Moved(list(added), removed, list(brought), loses_rows, commits)


def moves_files(opened: Warehouse, name: str, since: int, until: int) -> bool:
    now = opened.version(name)
    if now is None or until > now:
        return True
    moved = _moved(opened, name, since, until)
    return bool(moved.added or moved.removed)


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
        touched = sorted(_digests(opened, name, [*gone, *(_uri(opened, name, path) for path in moved.brought)]))
    left = _digests(opened, name, opened.files(name), touched)
    return {**dict.fromkeys(touched or [], NO_ROWS), **left}


def _digests(
    opened: Warehouse, name: str, uris: Sequence[str], landings: Sequence[str] | None = None
) -> dict[str, RowDigest]:
    table = tables.BY_NAME[name]
    return digests_by_landing(uris, arrow_schema(table), table.key, landings, opened.spread_of)


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


def _uri(opened: Warehouse, name: str, path: str) -> str:
    return f"{opened.location}/{folder_of(name)}/{path}"
