"""What commits did to a table, so that a stage reads what changed and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import distinct, no_rows
from rebalance_audit.warehouse.delta_tables import DeltaTables
from rebalance_audit.warehouse.storage import folder_of


@dataclass(frozen=True, slots=True)
class TableChange:
    """The effect of one commit: the files it added, and the keys it replaced (None: it only appended)."""

    version: int
    added: tuple[str, ...]
    keys_file: str | None
    kept: tuple[str, ...] | None = None
    """The added files that hold only rows which were there before. None: not known, and rows that changed are not named
    one by one."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The changes of single rows of a table since a version."""

    keys: pa.Table
    """The asked columns of every row that came, went or changed."""
    files: list[str]
    """Files that hold all rows which came or changed, among other rows."""


class Changes(DeltaTables):
    """Reads the changes of tables since a version."""

    def changes(self, name: str, since: int | None, until: int | None = None) -> list[TableChange] | None:
        """The effect of each commit after version `since`, oldest first; compaction is no change. None if part of the
        history was cleaned up: then everything may have changed."""
        newest = self.version(name)
        if newest is None:
            return []
        last = newest if until is None else min(until, newest)
        found = []
        for version in range(0 if since is None or since < 0 else since + 1, last + 1):
            actions = self.actions(name, version)
            if actions is None:
                return None
            added = tuple(
                self._file_uri(name, a["add"]["path"]) for a in actions if "add" in a and a["add"]["dataChange"]
            )
            info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
            keys_file = info.get("replacedKeys")
            if keys_file and not self._files.is_there(f"{folder_of(name)}/{keys_file}"):
                return None
            if added or keys_file:
                kept = info.get("keptFiles") or ("[]" if _only_adds(actions) else None)
                named = None if kept is None else tuple(self._file_uri(name, path) for path in json.loads(kept))
                found.append(TableChange(version, added, keys_file, named))
        return found

    def appended(self, name: str, since: int, until: int, *, or_replaced: bool = False) -> list[str] | None:
        """The files of rows that came after version `since`; None if a row may have gone, or that is not known.
        `or_replaced`: a row may have gone for others with its key."""
        found: list[str] = []
        for version in range(since + 1, until + 1):
            actions = self.actions(name, version)
            if actions is None:
                return None
            is_replacing = or_replaced and any("replacedKeys" in a.get("commitInfo", ()) for a in actions)
            if not is_replacing and any("remove" in a and a["remove"]["dataChange"] for a in actions):
                return None
            found += (self._file_uri(name, a["add"]["path"]) for a in actions if "add" in a and a["add"]["dataChange"])
        return found if since <= until else None

    def added(self, name: str, since: int, until: int) -> list[str] | None:
        """The files that came after version `since` with rows of their own or of others; None if rows were taken out of
        the table for good, or that is not known."""
        found = self.appended(name, since, until, or_replaced=True)
        return found if found is not None and all(map(self.has_file, found)) else None

    def row_changes(
        self, name: str, columns: Sequence[str], since: int | None, until: int | None = None
    ) -> RowChanges | None:
        """The rows that changed after version `since`, by these columns, the table's key among them. None where that
        is not known row by row: then see `changed_keys`."""
        changes = self.changes(name, since, until)
        if changes is None or any(change.kept is None for change in changes):
            return None
        schema = pa.schema([self.schema(name).field(c) for c in columns])
        current = self.files(name, until)
        known = set(current)
        fresh = [file for change in changes for file in change.added if file not in set(change.kept or ())]
        # Rows that a later commit or a compaction joined with others are in another file by now.
        files = fresh if known.issuperset(fresh) else current
        sources = [[f"{self._uri(name)}/{c.keys_file}"] if c.keys_file else list(c.added) for c in changes]
        found = [self._few_rows(name, source, schema) for source in sources if source]
        keys = distinct(pa.concat_tables([no_rows(schema), *found]), columns).cast(schema)
        return RowChanges(keys, files)

    def changed_keys(
        self,
        name: str,
        columns: Sequence[str],
        since: int | None,
        until: int | None = None,
        where: str | None = None,
    ) -> pa.Table:
        """The distinct keys whose rows were added or replaced after version `since`. No row order.

        `where` may name any column of a table that is only appended to, else columns of the replaced keys.
        """
        schema = pa.schema([self.schema(name).field(c) for c in columns])
        changes = self.changes(name, since, until)
        if changes is None:
            groups = [self.files(name, until)]
        else:
            groups = [[f"{self._uri(name)}/{c.keys_file}"] for c in changes if c.keys_file]
            groups += [list(c.added) for c in changes if not c.keys_file and c.added]
        read = self._few_rows if where is None else partial(self._rows, where=where, distinct=True)
        found = [read(name, files, schema) for files in groups if files]
        return distinct(pa.concat_tables([no_rows(schema), *found]), columns).cast(schema)


def _only_adds(actions: Sequence[Mapping[str, Any]]) -> bool:
    info: Mapping[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    return "replacedKeys" not in info and not any("remove" in a and a["remove"]["dataChange"] for a in actions)
