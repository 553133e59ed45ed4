"""A Delta table as it is open: its version, its files, and what was committed to it; and the text of a commit.

Whoever commits knows what the next version holds. `deltalake` reads it from the log instead, all commits since the last
checkpoint, once to commit and once to see it: up to 30 ms, where writing the file of the commit takes less than one. So
it opens tables and writes checkpoints, and commits only to tables that another program gave settings.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.transaction import AddAction, RemoveAction

_PLAIN_WRITER_VERSION = 2
"""A writer of this version need not know any feature."""
_PLAIN_PATH = re.compile(r"[\w.-]+", re.ASCII)
"""Other paths stand encoded in the log."""
_CHECKPOINT_EVERY, _OF_MANY_FILES = 20, 100
"""Versions between two checkpoints. One takes 5 ms and another 10 for a thousand files; a reader that opens the table
reads the commits since the last one, some 0.1 ms each."""
_MANY_FILES = 200


class StoredFile(NamedTuple):
    size: int
    row_count: int | None
    """None where the log does not say it."""


class OpenTable:
    """A table at one version."""

    def __init__(self, table: DeltaTable) -> None:
        self._base = table
        """The table as it was opened, this version or an earlier one."""
        self.version = int(table.version())
        self._files: dict[str, StoredFile] | None = None
        self._transactions: dict[str, int | None] = {}
        """Those that were asked for, or committed since."""

    @property
    def files(self) -> Mapping[str, StoredFile]:
        """By path, as the log names it."""
        if self._files is None:
            listed = pa.table(self._base.get_add_actions(flatten=True))
            columns = (listed[name].to_pylist() for name in ("path", "size_bytes", "num_records"))
            self._files = {path: StoredFile(int(size), rows) for path, size, rows in zip(*columns, strict=True)}
        return self._files

    @property
    def id(self) -> str:
        return str(self._base.metadata().id)

    @property
    def columns(self) -> pa.Schema:
        return pa.schema(self._base.schema().to_arrow())

    @property
    def has_deletion_vectors(self) -> bool:
        return "deletionVectors" in (self._base.protocol().reader_features or [])

    def transaction_version(self, app_id: str) -> int | None:
        if app_id not in self._transactions:
            self._transactions[app_id] = self._base.transaction_version(app_id)
        return self._transactions[app_id]

    def may_commit(self, actions: Sequence[AddAction | RemoveAction]) -> bool:
        """Whether such a commit needs nothing that only `deltalake` knows of."""
        is_plain = self._base.protocol().min_writer_version <= _PLAIN_WRITER_VERSION
        settings = self._base.metadata().configuration
        return is_plain and not settings and all(_PLAIN_PATH.fullmatch(action.path) for action in actions)

    def after(self, actions: Sequence[AddAction | RemoveAction], transactions: Mapping[str, int]) -> OpenTable:
        """The table after a commit of these."""
        found = OpenTable.__new__(OpenTable)
        found._base, found.version = self._base, self.version + 1
        found._transactions = {**self._transactions, **transactions}
        found._files = dict(self.files)
        for action in actions:
            if isinstance(action, RemoveAction):
                found._files.pop(action.path, None)
        for action in actions:
            if isinstance(action, AddAction):
                found._files[action.path] = StoredFile(action.size, json.loads(action.stats or "{}").get("numRecords"))
        return found

    @property
    def is_due_for_checkpoint(self) -> bool:
        return self.version % (_CHECKPOINT_EVERY if len(self.files) < _MANY_FILES else _OF_MANY_FILES) == 0


def commit_text(
    actions: Sequence[AddAction | RemoveAction], transactions: Mapping[str, int], metadata: Mapping[str, str]
) -> bytes:
    """A commit in Delta's own words, one action a line."""
    about = {
        "timestamp": time.time_ns() // 1_000_000,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "engineInfo": "rebalance-audit",
        **metadata,
    }
    lines = [{"commitInfo": about}, *map(_line, actions)]
    lines += [{"txn": {"appId": app_id, "version": version}} for app_id, version in transactions.items()]
    return b"\n".join(json.dumps(line, separators=(",", ":")).encode() for line in lines) + b"\n"


def _line(action: AddAction | RemoveAction) -> dict[str, dict[str, object]]:
    if isinstance(action, RemoveAction):
        return {
            "remove": {
                "path": action.path, "dataChange": action.data_change, "deletionTimestamp": action.deletion_timestamp,
                "extendedFileMetadata": True, "partitionValues": {}, "size": action.size,
            }
        }  # fmt: skip
    return {
        "add": {
            "path": action.path, "partitionValues": {}, "size": action.size,
            "modificationTime": action.modification_time, "dataChange": action.data_change, "stats": action.stats,
        }
    }  # fmt: skip
