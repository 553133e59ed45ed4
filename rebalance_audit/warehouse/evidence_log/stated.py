"""All leaves together: what must be there."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rebalance_audit.warehouse.row_digests import RowDigest


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is not as the log says."""

    place: str
    sentence: str


@dataclass(slots=True)
class Leaves:
    """All leaves together: what must be there."""

    files: dict[str, dict[str, tuple[int, str]]] = field(default_factory=dict)
    """(bytes, SHA-256) by table and file."""
    landings: dict[str, dict[str, tuple[RowDigest, tuple[str, ...]]]] = field(default_factory=dict)
    """The digest of a landing file's rows, and the columns that it covers, by table."""
    versions: dict[str, int] = field(default_factory=dict)
    """The newest version of each table that a leaf speaks of."""
    leaf_of: dict[tuple[str, str], int] = field(default_factory=dict)
    """The leaf that speaks of a table's file or landing file."""
    commits: dict[str, dict[int, tuple[str, int]]] = field(default_factory=dict)
    """SHA-256 and leaf of the commits of each table's Delta log. Leaves from before 2026-11-24 lack them."""
    publication: Mapping[str, Any] | None = None
    publications: int = 0
    faults: list[Fault] = field(default_factory=list)


def all_leaves(lines: Sequence[tuple[str, bytes]]) -> Leaves:
    leaves = Leaves()
    for at, (_, content) in enumerate(lines):
        try:
            leaf = json.loads(content)
            if leaf["what"] == "evidence":
                _take_evidence(leaves, at, leaf)
            elif leaf["what"] == "responses":
                _take_files(leaves, at, leaf["table"], leaf["added"], leaf["removed"])
                _take_commits(leaves, at, leaf["table"], leaf["commits"])
                leaves.versions[leaf["table"]] = int(leaf["version"])
                leaves.faults += (of_others(leaf["table"], each, f"leaf {at}") for each in leaf["by_others"])
            elif leaf["what"] == "publication":
                leaves.publication, leaves.publications = leaf, leaves.publications + 1
                for name, commits in leaf.get("commits", {}).items():
                    _take_commits(leaves, at, name, commits)
                for name, version in leaf["versions"].items():
                    leaves.versions[name] = int(version)
                    _take_files(leaves, at, name, leaf["added"].get(name, {}), leaf["removed"].get(name, []))
                for name, versions in leaf.get("by_others", {}).items():
                    leaves.faults += (of_others(name, version, f"leaf {at}") for version in versions)
        except (ValueError, KeyError, TypeError, AttributeError):
            leaves.faults.append(Fault(f"leaf {at}", f"Leaf {at} of the log cannot be read."))
    return leaves


def _take_files(leaves: Leaves, at: int, name: str, added: Mapping[str, Any], removed: Sequence[str]) -> None:
    known = leaves.files.setdefault(name, {})
    for path in removed:
        known.pop(path, None)
    for path, (size, sha256) in added.items():
        known[path] = (int(size), str(sha256))
        leaves.leaf_of[name, path] = at


def _take_commits(leaves: Leaves, at: int, name: str, commits: Mapping[str, str]) -> None:
    leaves.commits.setdefault(name, {}).update({int(version): (each, at) for version, each in commits.items()})


def _take_evidence(leaves: Leaves, at: int, leaf: Mapping[str, Any]) -> None:
    name = leaf["table"]
    _take_commits(leaves, at, name, leaf.get("commits", {}))
    _take_files(leaves, at, name, leaf["added"], leaf["removed"])
    leaves.versions[name] = int(leaf["version"])
    leaves.landings.setdefault(name, {})
    if leaf["cause"] == "unknown":
        leaves.faults.append(
            Fault(
                name,
                f"{name}: rows were removed up to version {leaf['version']}, and no verb of ours did it (leaf {at}).",
            )
        )
    for landing, (rows, sha256) in leaf["landings"].items():
        leaves.landings.setdefault(name, {})[landing] = RowDigest(int(rows), str(sha256)), tuple(leaf["columns"])
        leaves.leaf_of[name, f"landing {landing}"] = at


def of_others(name: str, version: int, where: str) -> Fault:
    return Fault(name, f"{name}: version {version} removes rows, and another program wrote it ({where}).")
