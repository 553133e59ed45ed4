"""The one reader and writer of tables: Delta through deltalake, queries through DuckDB; no JVM.

    <location>/warehouse.json         schema version and tables; what makes a folder a warehouse
    <location>/landing/…              what collectors landed; see ingest.landing
    <location>/<layer>/<noun>/        one Delta table
    <location>/published.json         the table versions readers see, replaced atomically at the end of publish
    <location>/audit/                 the log of evidence; see evidence_log
    <location>/lease.json             who writes; removed afterwards

A location is a folder, or an object-store URL that deltalake and Arrow both know (`s3://…`, `gs://…`).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema, in_types_of, whole
from rebalance_audit.warehouse.evidence_log import COMMIT_ID, SAME_ROWS, Act, actions_in, add_news, read_head
from rebalance_audit.warehouse.file_sizes import in_order, most_rows, soon_replaced
from rebalance_audit.warehouse.kept_columns import linked, put_rows, row_group
from rebalance_audit.warehouse.lease import Lease, lease
from rebalance_audit.warehouse.queries import cursor, database
from rebalance_audit.warehouse.replacing import differing
from rebalance_audit.warehouse.row_groups import SOON_REPLACED, footer
from rebalance_audit.warehouse.small_files import SMALL_FILES, joined, tiers_of
from rebalance_audit.warehouse.storage import Files, TableGoneError, WarehouseError, files_at, located, relation
from rebalance_audit.warehouse.upgrading import extended, fingerprint, lacking, upgrade

__all__ = ["TableChange", "Transactions", "Warehouse", "WarehouseError"]

Transactions = tuple[str, int] | Mapping[str, int] | None
"""What a commit consumes: (application id, version) or several of them. A commit whose ids are all there is skipped."""

_APPEND_TRIES = 50
"""Chosen: more processes than add to one table within a second."""
_FEW_FILES, _FEW_ROWS = 32, 5_000
"""Read by Arrow, in a fraction of the millisecond that a question takes."""
_OF_A_PUBLICATION = [
    name
    for name in tables.BY_NAME
    if name.startswith("gold.") and name not in tables.UNPUBLISHED and name != "gold.whatif"
]
"""Tables that every publication has, if they have rows."""
_QUALIFIED = re.compile(r"\b(bronze|silver|gold)\.([a-z_]+)\b")


@dataclass(frozen=True, slots=True)
class TableChange:
    """What one commit did: the files it added, and the keys it replaced (None: it only appended)."""

    version: int
    added: tuple[str, ...]
    keys_file: str | None
    kept: tuple[str, ...] | None = None
    """The added files that hold only rows which were there before. None: not known, and rows that changed are not named
    one by one."""


@dataclass(frozen=True, slots=True)
class RowChanges:
    """What happened to single rows of a table."""

    keys: pa.Table
    """The asked columns of every row that came, went or changed."""
    files: list[str]
    """Files that hold all rows which came or changed, among other rows."""


class Warehouse:
    """Tables of `domain.tables` at one location. Open it with `Warehouse.open`."""

    def __init__(self, location: str) -> None:
        self._files = files_at(location)
        self.location = self._files.uri
        self._options = _delta_options(self.location)
        self._lease: Lease | None = None
        self._file_lists: dict[tuple[str, int], list[str]] = {}
        self._newest: dict[str, DeltaTable] = {}
        self._acts: list[Act] = []
        self._lacking: list[str] = []
        """Tables of an older release, which the next writer extends."""
        self._unknown: list[str] = []
        """Tables that the publication of an older release may not name: it means nothing that they are missing
        there."""
        self._checked: set[str] = set()
        """The open tables that only this process can have changed since; for the one writer."""
        self._absent: set[str] = set()
        """Likewise, tables nobody has written to yet."""
        self._transactions: dict[tuple[str, int, str], int | None] = {}
        """By table, version and application. A run asks for them dozens of times, at 1 to 2 ms each."""
        self._small_files: dict[str, int] = {}
        """The most small files that each table may have by now, for tables that were looked at before."""

    @classmethod
    def open(cls, location: str | os.PathLike[str], create: bool = False) -> Warehouse:
        """The warehouse there. Opening writes nothing, unless `create` and there is none yet."""
        self = cls(os.fspath(location))
        stated = self._files.read("warehouse.json")
        if stated is None:
            if not create:
                raise WarehouseError(_why_no_warehouse(self._files))
            if self._files.is_local and os.path.exists(self.location) and not os.path.isdir(self.location):
                raise WarehouseError(f"{self.location} is a file; give a folder for the warehouse.")
            if self._files.is_local and set(_names_in(self.location)) - {"landing", "positions", "lease.lock"}:
                raise WarehouseError(
                    f"{self.location} is not empty and not a warehouse (no warehouse.json); give another folder."
                )
            self._state_schema()
            return self
        try:
            stated = json.loads(stated)
            version = int(stated["schema_version"])
        except (ValueError, KeyError, TypeError):
            raise WarehouseError(
                f"{self.location}/warehouse.json is damaged; restore it, or give another folder."
            ) from None
        if version > tables.SCHEMA_VERSION:
            raise WarehouseError(
                f"The warehouse at {self.location} was written by a newer version (schema {version}, this one knows "
                f"{tables.SCHEMA_VERSION}); upgrade rebalance-audit to read it."
            )
        if stated.get("tables") != fingerprint():
            self._lacking = lacking(self)
        self._unknown = self._not_there_yet(stated)
        return self

    def _not_there_yet(self, stated: Mapping[str, Any]) -> list[str]:
        """Tables of a publication that the older release which made it did not know, as warehouse.json shows."""
        is_ours = stated.get("tables") == fingerprint()
        if is_ours and "unknown" not in stated:
            return []
        stands = self.publication()
        if "unknown" in stated and stated["published_before"] == stands.get("consumed"):
            return list(stated["unknown"])
        if is_ours or not stands:
            return []
        known = {*stated.get("names", ()), *stands["versions"]}
        return [name for name in _OF_A_PUBLICATION if name not in known]

    def _state_schema(self, unknown: Sequence[str] = ()) -> None:
        """`unknown`: tables that the publication does not know; until the next one."""
        stated = {"schema_version": tables.SCHEMA_VERSION, "tables": fingerprint(), "names": sorted(tables.BY_NAME)}
        if unknown:
            stated |= {"unknown": list(unknown), "published_before": self.publication().get("consumed")}
        self._files.write("warehouse.json", json.dumps(stated).encode())

    # ---- tables: what is there -------------------------------------------------------------------------------

    def schema(self, name: str) -> pa.Schema:
        return arrow_schema(_known(name))

    def exists(self, name: str) -> bool:
        return self.version(name) is not None

    def version(self, name: str) -> int | None:
        """The table's newest version; None if nothing was ever written to it."""
        table = self._delta(name)
        return None if table is None else int(table.version())

    def files(self, name: str, version: int | None = None) -> list[str]:
        """Absolute names of the Parquet files that make up the table."""
        if version is not None and version < 0:
            return []  # before the first commit
        known = None if version is None else self._file_lists.get((name, version))
        if known is not None:
            return known
        table = self._delta(name, version)
        if table is None:
            return []
        if "deletionVectors" in (table.protocol().reader_features or []):
            raise WarehouseError(
                f"{self.location}: another program switched deletion vectors on for {name}; purge them and switch "
                "delta.enableDeletionVectors off."
            )
        found = [str(uri) for uri in table.file_uris()]
        self._file_lists[name, int(table.version())] = found
        return found

    def transaction_version(self, name: str, app_id: str) -> int | None:
        """The last version this application committed to the table."""
        return self.transaction_versions(name, [app_id])[app_id]

    def transaction_versions(self, name: str, app_ids: Sequence[str]) -> dict[str, int | None]:
        table = self._delta(name)
        return {app: None if table is None else self._transaction(name, table, app) for app in app_ids}

    def _transaction(self, name: str, table: DeltaTable, app_id: str) -> int | None:
        place = name, int(table.version()), app_id
        if place not in self._transactions:
            self._transactions[place] = table.transaction_version(app_id)
        return self._transactions[place]

    def changes(self, name: str, since: int | None, until: int | None = None) -> list[TableChange] | None:
        """What each commit after version `since` did, oldest first; compaction is no change.

        None if part of the history was cleaned up: then everything may have changed.
        """
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
            if keys_file and not self._files.is_there(f"{_folder(name)}/{keys_file}"):
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

    def table_id(self, name: str) -> str | None:
        """The table's own id: a table that was removed and made again has another one."""
        table = self._delta(name)
        return None if table is None else str(table.metadata().id)

    @property
    def is_writing(self) -> bool:
        """This process holds the lease."""
        return self._lease is not None

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
        keys = pa.concat_tables([schema.empty_table(), *found]).group_by(list(columns)).aggregate([]).cast(schema)
        return RowChanges(keys, files)

    def actions(self, name: str, version: int) -> list[dict[str, Any]] | None:
        """What the commit of this version says, in Delta's own words; None if it was cleaned up."""
        text = self.commit_text(name, version)
        return None if text is None else actions_in(text)

    def commit_text(self, name: str, version: int) -> bytes | None:
        """The file of the commit of this version; None if it was cleaned up."""
        return self._files.read(f"{_folder(name)}/_delta_log/{version:020d}.json")

    def has_file(self, uri: str) -> bool:
        """Whether a Parquet file, named as `files` names it, is still there."""
        return self._files.is_there(uri.removeprefix(self.location).strip("/"))

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
        return pa.concat_tables([schema.empty_table(), *found]).group_by(list(columns)).aggregate([]).cast(schema)

    # ---- writing ---------------------------------------------------------------------------------------------

    def append(
        self, name: str, data: pa.Table, transaction: Transactions = None, *, only_if_changed: bool = False
    ) -> bool:
        """Add rows in one commit. False if this transaction was committed before (or there is nothing to say).
        `only_if_changed`: without rows the transaction is nothing to say, unless nobody wrote to the table yet."""
        return self._write(name, data, transaction, only_if_changed=only_if_changed)

    def replace(
        self,
        name: str,
        data: pa.Table | Sequence[str],
        keys: pa.Table | None,
        transaction: Transactions = None,
        *,
        since: str | None = None,
        only_if_changed: bool = False,
    ) -> bool:
        """Delete every row that agrees with a row of `keys` in its columns, and add `data`, in one commit.

        `since` names a column of `keys` in which a row that goes has this value or a greater one; where the value in
        `keys` is null, all go.
        Rows that are there already stay where they are, so that a commit costs what it changes; keys under which
        nothing changed are not named in it.
        `data` may be Parquet files that are already written; they are linked into the table.
        `keys` None replaces the whole table. Null agrees with null. `only_if_changed`: as in `append`. False: this
        transaction was committed before, or nothing is to be said.
        """
        _known(name)
        if self._is_committed(name, transaction):
            return False
        adds: list[AddAction] = []
        removes: list[RemoveAction] = []
        metadata: dict[str, Any] = {}
        fresh: Sequence[pa.Table | str] = [data] if isinstance(data, pa.Table) else data
        table = self._delta(name)
        if table is not None and table.file_uris():
            sizes = {str(p): int(s) for p, s in _paths_and_sizes(table)}
            if keys is None:
                touched = list(sizes)
            else:
                files = {self._file_uri(name, path): path for path in sizes}
                own = tables.BY_NAME[name].key
                found = differing(name, self._uri(name), self.schema(name), list(files), data, keys, since, own)
                touched = [files[uri] for uri in found.touched]
                adds += [self._add_action(name, file) for file in (*found.kept, *found.mixed)]
                fresh, keys = found.fresh, found.keys
                metadata["keptFiles"] = json.dumps(found.kept)
            now_ms = int(time.time() * 1000)
            removes = [RemoveAction(path, True, now_ms, sizes[path], {}) for path in touched]
        is_changed = bool(adds or removes) or any(isinstance(rows, str) or rows.num_rows for rows in fresh)
        if only_if_changed and table is not None and not is_changed:
            return False
        if keys is not None and keys.num_rows:
            keys_file = f"_keys/{uuid.uuid4().hex}.parquet"
            self._files.make_folder_of(f"{_folder(name)}/{keys_file}")
            put_rows(name, f"{self._uri(name)}/{keys_file}", keys)  # kept, since the next stage asks what changed
            metadata["replacedKeys"] = keys_file
        for rows in fresh:
            if isinstance(rows, str):
                adds.append(self._taken_in(name, rows))
            else:
                adds += self._put_rows(name, rows)
        return self._write(name, None, transaction, adds, removes, metadata, only_if_changed=only_if_changed)

    def adopt(
        self, name: str, files: Sequence[str], transaction: Transactions = None, *, only_if_changed: bool = False
    ) -> bool:
        """Commit Parquet files that are already written, as they are. Those outside the table are linked into it.
        `only_if_changed`: as in `append`."""
        if self._is_committed(name, transaction):
            return False
        adds = [self._taken_in(name, file) for file in files]
        return self._write(name, None, transaction, adds, only_if_changed=only_if_changed)

    def compact(self, name: str, keep_hours: int = 168) -> None:
        """Makes fewer, larger files, and deletes files that no version of the last `keep_hours` needs. Readers see the
        same rows as before, from fewer files.
        """
        table = self._delta(name)
        if table is None:
            return
        self.join_small_files(name, at_least=2)
        table = self._opened(name)
        assert table is not None, name
        self._forget(name)  # its log is about to change
        table.create_checkpoint()
        table.cleanup_metadata()  # what is older than delta.logRetentionDuration; see `changes`
        table.vacuum(retention_hours=keep_hours, dry_run=False, enforce_retention_duration=False)
        self._delete_older(f"{_folder(name)}/_keys", keep_hours)

    def join_small_files(self, name: str, at_least: int | None = None) -> bool:
        """Join files of few rows, once there are so many of them (None: SMALL_FILES): what commits of every second
        leave behind. No file is deleted, no row changes, and no large file is read, so the pause is short however large
        the table is.

        False if there are few of them. What was published stays published, as with `compact`.
        """
        least = SMALL_FILES if at_least is None else at_least
        if self._small_files.get(name, least) < least:
            return False  # what joins is added, so that runs are looked at when there are new ones
        table = self._delta(name)
        if table is None:
            return False
        listed = pa.table(table.get_add_actions(flatten=True))
        rows_of = dict(zip(*(listed[column].to_pylist() for column in ("path", "num_records")), strict=True))
        sizes = dict(zip(*(listed[column].to_pylist() for column in ("path", "size_bytes")), strict=True))
        tiers = tiers_of(name, rows_of, least)
        full = [tier for tier in tiers if tier.is_full]
        self._small_files[name] = max((len(tier.files) for tier in tiers if not tier.is_full), default=0)
        if not full:
            return False
        now_ms, before = int(time.time() * 1000), int(table.version())
        adds: list[AddAction] = []
        for tier in full:
            files = [self._file_uri(name, path) for path in tier.files]
            kind = f"{tier.kind}-{uuid.uuid4().hex[:12]}" if tier.kind.startswith("run") else tier.kind
            for part in joined(name, files, self.schema(name), tier.joined_rows):
                adds.append(self._put_file(name, kind, part, is_change=False))
        removes = [RemoveAction(path, False, now_ms, sizes[path], {}) for tier in full for path in tier.files]
        self._commit(name, [*removes, *adds], {}, {})
        self._republish(name, before)
        return True

    def _republish(self, name: str, before: int) -> None:
        manifest = self.publication()
        now = self.version(name)
        if now is not None and manifest.get("versions", {}).get(name) == before:
            self.publish({**manifest["versions"], name: now}, manifest.get("consumed"))

    def rewrite(self, name: str, goes: str, params: Sequence[Any] = ()) -> int:
        """Take rows for which the SQL `goes` is true out of the table's files, as no change of its data: stages that
        follow do not see it. How many. The files that held them stay until `delete_unused`; readers of the published
        version are given this one instead.

        For what the whole warehouse forgets at once: rows that follow from these must go from their tables as well.
        """
        table = self._delta(name)
        if table is None:
            return 0
        schema, gone_count = self.schema(name), 0
        adds: list[AddAction] = []
        removes: list[RemoveAction] = []
        now_ms = int(time.time() * 1000)
        for path, size in _paths_and_sizes(table):
            uri = self._file_uri(name, path)
            with cursor() as db:
                source = relation([uri])
                found = db.execute(f"SELECT count(*) FROM {source} WHERE {goes}", list(params)).fetchone()
                if found is None or not found[0]:
                    continue
                gone_count += int(found[0])
                listed = ", ".join(f'"{column}"' for column in schema.names)
                kept = db.execute(f"SELECT {listed} FROM {source} WHERE ({goes}) IS NOT true", list(params))
                rest = in_types_of(kept.to_arrow_table(), schema)
            removes.append(RemoveAction(path, True, now_ms, size, {}))  # rows go: the log of evidence sees that
            if rest.num_rows:
                file = f"part-{uuid.uuid4().hex}.parquet"
                self._put_parquet(name, file, rest)
                adds.append(self._add_action(name, file, is_change=False))
        if removes:
            before = int(table.version())
            self._write(name, None, None, adds, removes)
            self._republish(name, before)
        return gone_count

    def put_back(self, name: str, rows: pa.Table) -> None:
        """Add rows that `rewrite` took out, otherwise now, as no change of the table's data."""
        before = self.version(name)
        file = f"part-{uuid.uuid4().hex}.parquet"
        self._put_parquet(name, file, in_types_of(rows, self.schema(name)))
        self._write(name, None, None, [self._add_action(name, file, is_change=False)])
        if before is not None:
            self._republish(name, before)

    def delete_unused(self, name: str, keep_hours: int) -> None:
        """Delete files that no version of the last `keep_hours` needs."""
        table = self._delta(name)
        if table is not None:
            table.vacuum(retention_hours=keep_hours, dry_run=False, enforce_retention_duration=False)
            self._forget(name)
        self._delete_older(f"{_folder(name)}/_keys", keep_hours)  # a table without rows has some, too

    def forget_landed(self, noun: str, taken: Sequence[str], keep_hours: float = 168) -> int:
        """Delete those of these landing files, which bronze took in, that are this old. How many."""
        return self._delete_older(f"landing/{noun}", keep_hours, {file.rpartition("/")[2] for file in taken})

    def _delete_older(self, folder: str, keep_hours: float, only: Collection[str] | None = None) -> int:
        until_ns = time.time_ns() - int(keep_hours * 3_600_000_000_000)
        old = [n for n in self._files.older_than(folder, until_ns) if only is None or n in only]
        for name in old:
            self._files.delete(f"{folder}/{name}")
        return len(old)

    # ---- reading ---------------------------------------------------------------------------------------------

    def read(
        self,
        name: str,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Sequence[Any] = (),
        version: int | None = None,
    ) -> pa.Table:
        """Rows of the newest (or the given) version, in the table's own types. `where` is DuckDB SQL with `?`."""
        schema = self.schema(name)
        self._refuse_lacking([name])
        if columns is not None:
            schema = pa.schema([schema.field(c) for c in columns])
        files = self.files(name, version)
        if not files:
            return schema.empty_table()
        return self._rows(name, files, schema, where, params)

    def read_files(
        self, name: str, files: Sequence[str], columns: Sequence[str], where: str, *, distinct: bool = False
    ) -> pa.Table:
        """Like `read`, from some of the table's files. `distinct`: rows that are alike come once."""
        schema = pa.schema([self.schema(name).field(c) for c in columns])
        return self._rows(name, files, schema, where, distinct=distinct) if files else schema.empty_table()

    def file_schema(self, file: str) -> pa.Schema:
        """The schema of one of `files`, from its footer. Raises OSError and ArrowException."""
        inside = file.removeprefix(self.location).removeprefix(self._files.root)
        return pq.read_schema(self._files.root + inside, filesystem=self._files.fs)

    def mentioned(self, sql: str) -> set[str]:
        """The tables that the SQL names."""
        return {f"{layer}.{noun}" for layer, noun in _QUALIFIED.findall(sql)} & set(tables.BY_NAME)

    def query(self, sql: str, params: Sequence[Any] = (), without: Collection[str] = ()) -> pa.Table:
        """DuckDB SQL over `gold.rebalance`, `silver.undecoded` and so on.

        Tables that were published are seen at their published versions, all of one publication; others as they are.
        A table nobody wrote yet is empty, and so is one of `without`: the caller says that it could not be read.
        Raises TableGoneError: it was there at the last publication.
        """
        with database() as db:  # a catalog of its own: the views are those of this publication
            seen = self.seen_files(self.mentioned(sql), without)
            for layer in sorted({name.partition(".")[0] for name in seen}):
                db.execute(f"CREATE SCHEMA {layer}")
            for name, files in sorted(seen.items()):
                if files:
                    db.execute(f"CREATE VIEW {name} AS SELECT * FROM {relation(files)}")
                else:
                    db.register("unpublished", self.schema(name).empty_table())
                    db.execute(f"CREATE TABLE {name} AS SELECT * FROM unpublished")
                    db.unregister("unpublished")
            return db.execute(sql, list(params)).to_arrow_table()

    def seen_files(
        self, names: Collection[str], without: Collection[str] = (), published: Mapping[str, int] | None = None
    ) -> dict[str, list[str]]:
        """The files of these tables as `query` sees them; of `published` where it is given, else of the newest."""
        self._refuse_lacking(names)
        versions = self.published() if published is None else published
        found: dict[str, list[str]] = {}
        for name in names:
            if name in without:
                found[name] = []
            elif name in versions:
                found[name] = self.files(name, versions[name])
            elif name.startswith("gold.") and name not in tables.UNPUBLISHED:
                found[name] = []  # written, but by a publication that has not ended
            else:
                found[name] = self.files(name)
            if not found[name] and name not in without and self.is_gone(name):
                raise TableGoneError(
                    f"{self.location}: {name} was there at the last publication and is not any more; restore it from a "
                    "backup, or read the evidence into a new warehouse with `import` and `run`."
                )
        return found

    def is_gone(self, name: str) -> bool:
        """Whether the last publication knew rows of the table, and it is not there: then it is no empty one.

        Version 0 makes a table and holds no row; publications of old name it for a gold.whatif that nobody had made.
        """
        manifest = self.publication()
        known = {**manifest.get("consumed", {}), **manifest.get("versions", {})}
        return int(known.get(name, -1)) > 0 and not self.exists(name)

    def _refuse_lacking(self, names: Iterable[str]) -> None:
        if old := sorted({*names} & {*self._lacking}):
            raise WarehouseError(
                f"{self.location} was written by an older release: {', '.join(old)} lacks columns of this one. Run "
                f"`rebalance-audit run -w {self.location}` once, which adds them."
            )
        if not self.is_writing and (unknown := sorted({*names} & {*self._unknown})):
            raise WarehouseError(
                f"{self.location} was published by an older release: {', '.join(unknown)} is not there yet. Run "
                f"`rebalance-audit run -w {self.location}` once, which works it out."
            )

    # ---- publication -----------------------------------------------------------------------------------------

    def published(self) -> dict[str, int]:
        """The table versions readers see."""
        return {str(k): int(v) for k, v in self.publication().get("versions", {}).items()}

    def publication(self) -> dict[str, Any]:
        """The manifest: `versions` of gold tables, `consumed` versions of silver tables."""
        return self._manifest(self._files.read("published.json"))

    def _manifest(self, text: bytes | None) -> dict[str, Any]:
        try:
            return {} if text is None else dict(json.loads(text))
        except ValueError:
            raise WarehouseError(
                f"{self.location}/published.json is damaged; remove it, and `rebalance-audit run -w {self.location}` "
                "publishes again."
            ) from None

    def publish(self, versions: Mapping[str, int], consumed: Mapping[str, Any] | None = None) -> bool:
        """Let readers see these table versions, all at once. False if they see them already."""
        manifest = {"versions": dict(sorted(versions.items())), "consumed": dict(sorted((consumed or {}).items()))}
        stored = self._files.read_tagged("published.json")
        if stored is not None and self._manifest(stored.content) == manifest:
            return False
        self._confirm_lease()
        text = json.dumps(manifest, indent=1).encode()
        if self._files.write_if("published.json", text, None if stored is None else stored.tag) is None:
            raise WarehouseError(
                f"{self.location} was published to by another process at the same moment; run it again."
            )
        return True

    def landed(self, noun: str) -> list[str]:
        """Landing files of `record`, `log_line` or `source`, absolute, sorted by name."""
        names = self._files.names(f"landing/{noun}")
        return [f"{self.location}/landing/{noun}/{n}" for n in names if n.endswith(".parquet")]

    def parquet_files(self, folder: str) -> list[str]:
        """Absolute names of the Parquet files right in a folder of the warehouse."""
        inside = folder.removeprefix(self.location).strip("/")
        return [f"{self.location}/{inside}/{n}" for n in self._files.names(inside) if n.endswith(".parquet")]

    @contextlib.contextmanager
    def staging_file(self, name: str, data: pa.Table) -> Iterator[str]:
        """The rows as a Parquet file that belongs to no table yet; for `replace` and `adopt`."""
        file = f"staging/{uuid.uuid4().hex}.parquet"
        self._files.make_folder_of(file)
        put_rows(name, f"{self.location}/{file}", in_types_of(data, self.schema(name)))
        try:
            yield f"{self.location}/{file}"
        finally:
            self._files.delete(file)

    def clear_staging(self) -> None:
        """Remove what a killed writer left behind. Only for the one who holds the lease."""
        self._files.delete_folder("staging")

    @contextlib.contextmanager
    def staging_folder(self) -> Iterator[str]:
        """Where tasks may write files that belong to no table yet. Gone afterwards, unless a commit linked them."""
        name = f"staging/{uuid.uuid4().hex}"
        try:
            yield f"{self.location}/{name}"
        finally:
            self._files.delete_folder(name)

    def recall(self, note: str) -> dict[str, Any]:
        """What `remember` kept last under this name; empty if nothing."""
        text = self._files.read(f"notes/{note}.json")
        return {} if text is None else dict(json.loads(text))

    def remember(self, note: str, content: Mapping[str, Any]) -> None:
        """Keeps a small fact that a stage needs next time and that no table holds. If it is lost, that must only cost
        work."""
        self._files.write(f"notes/{note}.json", json.dumps(content, indent=1, sort_keys=True).encode())

    def notes(self) -> list[str]:
        """The names under which something is remembered."""
        return [name.removesuffix(".json") for name in self._files.names("notes") if name.endswith(".json")]

    def forget(self, note: str) -> None:
        self._files.delete(f"notes/{note}.json")

    @contextlib.contextmanager
    def lease(self, what: str = "run") -> Iterator[None]:
        """Be the one writer. WarehouseError names the other one; a dead one's lease is taken over.

        What was written meanwhile goes into the log of evidence before the lease is given back.
        """
        with lease(self._files, what) as self._lease:
            self._acts.clear()
            try:
                self._upgrade()
                yield
            except BaseException:
                with contextlib.suppress(WarehouseError, OSError):  # the first fault is the one to show
                    add_news(self, self._files, self._acts)
                raise
            else:
                add_news(self, self._files, self._acts)
            finally:
                self._lease = None
                self._checked.clear()
                self._absent.clear()
                if self._unknown:
                    self._unknown = self._not_there_yet(json.loads(self._files.read("warehouse.json") or b"{}"))

    def _confirm_lease(self) -> None:
        if self._lease is not None:
            self._lease.confirm()

    def evidence_log_size(self) -> int | None:
        """Leaves of the log of evidence; None if there is none yet. Raises WarehouseError if its head is lost."""
        head = read_head(self._files)
        return None if head is None else head.size

    def _upgrade(self) -> None:
        stated = json.loads(self._files.read("warehouse.json") or b"{}")
        if stated.get("tables") != fingerprint():
            unknown = self._not_there_yet(stated)
            upgrade(self, lacking(self))
            self._state_schema(unknown)
            self._lacking = []

    def stored_columns(self, name: str, version: int | None) -> pa.Schema | None:
        """The columns that the table was written with; None if it is empty or not there. `version` None: the newest."""
        table = self._delta(name, version)
        if table is None or not table.file_uris():
            return None
        return pa.schema(table.schema().to_arrow())

    def extend(self, name: str, extended: Callable[[pa.Table], pa.Table]) -> None:
        """Rewrite every file of the table with all columns, in one commit that changes no data."""
        table = self._delta(name)
        assert table is not None
        adds = []
        for path, _ in _paths_and_sizes(table):
            file = f"part-{uuid.uuid4().hex}.parquet"
            self._put_parquet(name, file, extended(_read_parquet(self._file_uri(name, path))))
            add = self._add_action(name, file)
            adds.append(AddAction(file, add.size, {}, add.modification_time, False, add.stats))
        self._forget(name)
        self._confirm_lease()
        table.create_write_transaction(  # `overwrite` takes the old files out, and sets the schema
            adds, mode="overwrite", schema=Schema.from_arrow(self.schema(name)),
            commit_properties=CommitProperties(custom_metadata={SAME_ROWS: "extended"}),
        )  # fmt: skip

    def publish_same_rows(self, name: str) -> bool:
        """Publish the table's newest version, if its rows are those of the published one. False: nothing to do."""
        manifest, now = self.publication(), self.version(name)
        before = manifest.get("versions", {}).get(name)
        if now is None or before is None or before == now or self.changes(name, before, now) != []:
            return False
        return self.publish({**manifest["versions"], name: now}, manifest.get("consumed"))

    def state_act(self, verb: str, **detail: Any) -> None:
        """Rows of bronze go on purpose: `verb` and `detail` stand in the log of evidence for ever. Inside a lease."""
        self._acts.append(Act(verb, detail))

    # ---- the rest is how ---------------------------------------------------------------------------------------

    def _uri(self, name: str) -> str:
        return f"{self.location}/{_folder(name)}"

    def _file_uri(self, name: str, path: str) -> str:
        return path if path.startswith("/") or "://" in path else f"{self._uri(name)}/{path}"

    def _delta(self, name: str, version: int | None = None) -> DeltaTable | None:
        _known(name)
        known = self._newest.get(name)
        if version is not None:
            return known if known is not None and known.version() == version else self._opened(name, version)
        if name in self._absent or (known is not None and self._is_newest(name, int(known.version()))):
            return known
        opened = self._opened(name)
        if opened is not None:
            self._newest[name] = opened
        if self._lease is not None:
            (self._checked if opened is not None else self._absent).add(name)
        return opened

    def _is_newest(self, name: str, version: int) -> bool:
        """Opening a table reads its log, 10 ms and in a store a request per commit; a stage asks for the same one
        dozens of times."""
        if name in self._checked:
            return True  # the one writer is this process
        log = f"{_folder(name)}/_delta_log"
        is_newest = not self._files.is_there(f"{log}/{version + 1:020d}.json") and (
            not self._files.is_local or self._files.is_there(f"{log}/{version:020d}.json")
        )
        if is_newest and self._lease is not None:
            self._checked.add(name)
        return is_newest

    def _opened(self, name: str, version: int | None = None) -> DeltaTable | None:
        if self._files.is_local and not self._files.is_there(f"{_folder(name)}/_delta_log"):
            return None  # DeltaTable() would say so more slowly
        try:
            return DeltaTable(self._uri(name), version=version, storage_options=self._options)
        except TableNotFoundError:
            return None

    def _is_committed(self, name: str, transaction: Transactions) -> bool:
        wanted = _as_mapping(transaction)
        if not wanted:
            return False
        done = self.transaction_versions(name, list(wanted))
        return all((seen := done[app]) is not None and seen >= version for app, version in wanted.items())

    def _write(
        self,
        name: str,
        data: pa.Table | None,
        transaction: Transactions,
        adds: Sequence[AddAction] = (),
        removes: Sequence[RemoveAction] = (),
        metadata: Mapping[str, Any] | None = None,
        *,
        only_if_changed: bool = False,
    ) -> bool:
        if self._is_committed(name, transaction):
            return False
        actions: list[AddAction | RemoveAction] = [*removes, *adds]
        if data is not None and data.num_rows:
            actions += self._put_rows(name, data)
        if not actions and (not _as_mapping(transaction) or (only_if_changed and self.exists(name))):
            return False
        if not self.exists(name):
            DeltaTable.create(
                self._uri(name), self.schema(name), mode="ignore", name=name, storage_options=self._options
            )
        self._commit(name, actions, _as_mapping(transaction), metadata or {})
        return True

    def _commit(
        self,
        name: str,
        actions: Sequence[AddAction | RemoveAction],
        transactions: Mapping[str, int],
        metadata: Mapping[str, Any],
    ) -> None:
        """Commit the version after the newest, or nothing: what is removed and kept was worked out from the newest.

        A commit that only adds may follow what somebody else added meanwhile.
        """
        self._confirm_lease()
        only_adds = not any(isinstance(action, RemoveAction) for action in actions)
        for tries_left in reversed(range(_APPEND_TRIES if only_adds else 1)):
            if self._try_commit(name, actions, transactions, metadata):
                return
            if only_adds and transactions and self._is_committed(name, transactions):
                return
            if tries_left:
                time.sleep(random.uniform(0.005, 0.05))
        raise WarehouseError(
            f"{self.location} was changed by another process at the same moment; nothing of this was committed, run "
            "it again."
        )

    def _try_commit(
        self,
        name: str,
        actions: Sequence[AddAction | RemoveAction],
        transactions: Mapping[str, int],
        metadata: Mapping[str, Any],
    ) -> bool:
        """False if somebody else's commit took the place."""
        table = self._newest.get(name) if name in self._checked else self._opened(name)
        self._forget(name)  # a commit changes it, and what it is after one that failed nobody knows
        assert table is not None, name
        next_version, commit_id = int(table.version()) + 1, uuid.uuid4().hex
        try:
            table.create_write_transaction(
                actions,
                mode="append",
                schema=table.schema(),
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(app, version) for app, version in transactions.items()],
                    custom_metadata={**metadata, COMMIT_ID: commit_id},
                    max_commit_retries=0,
                ),
            )
        except (DeltaError, OSError):
            # The answer may have been lost, and the commit be there.
            log = self._files.read(f"{_folder(name)}/_delta_log/{next_version:020d}.json")
            if log is None:
                raise
            return commit_id.encode() in log
        table.update_incremental()
        self._newest[name] = table
        if name in self._small_files:
            self._small_files[name] += sum(isinstance(action, AddAction) for action in actions)
        self._forget_before(name, int(table.version()))
        if self._lease is not None:
            self._checked.add(name)
        return True

    def _forget_before(self, name: str, version: int) -> None:
        for place in [place for place in self._transactions if place[0] == name and place[1] < version]:
            del self._transactions[place]
        for listed in [listed for listed in self._file_lists if listed[0] == name and listed[1] < version - 8]:
            del self._file_lists[listed]

    def _forget(self, name: str) -> None:
        self._newest.pop(name, None)
        self._checked.discard(name)
        self._absent.discard(name)

    def _put_parquet(self, name: str, file: str, data: pa.Table) -> None:
        path = self._files.path(f"{_folder(name)}/{file}")
        self._files.make_folder_of(f"{_folder(name)}/{file}")
        pq.write_table(data, path, filesystem=self._files.fs, compression="zstd")

    def _put_rows(self, name: str, rows: pa.Table) -> list[AddAction]:
        """New files of the table, which no commit names yet. What is replaced before long has files of its own."""
        schema = self.schema(name)
        rows = in_types_of(rows.select(schema.names), schema)
        is_soon = soon_replaced(name, rows)
        adds = []
        for kind, of_kind in (("part", pc.invert(is_soon)), (SOON_REPLACED, is_soon)):
            chosen, most = rows.filter(of_kind), most_rows(name, is_soon_replaced=kind == SOON_REPLACED)
            if chosen.num_rows > most:
                chosen = in_order(name, chosen)
            adds += [self._put_file(name, kind, chosen.slice(at, most)) for at in range(0, chosen.num_rows, most)]
        return adds

    def _put_file(self, name: str, kind: str, rows: pa.Table, *, is_change: bool = True) -> AddAction:
        file = f"{kind}-{uuid.uuid4().hex}.parquet"
        self._files.make_folder_of(f"{_folder(name)}/{file}")
        put_rows(name, self._file_uri(name, file), rows)
        return self._add_action(name, file, is_change=is_change)

    def _add_action(self, name: str, file: str, *, is_change: bool = True) -> AddAction:
        path = self._files.path(f"{_folder(name)}/{file}")
        rows = footer(self._file_uri(name, file)).num_rows
        info = self._files.fs.get_file_info(path)
        now_ms = int(time.time() * 1000)
        return AddAction(file, info.size, {}, now_ms, is_change, json.dumps({"numRecords": rows}))

    def _taken_in(self, name: str, file: str) -> AddAction:
        inside = os.path.basename(file)
        if not self._files.is_there(f"{_folder(name)}/{inside}"):
            self._files.take(file, f"{_folder(name)}/{inside}")
            linked(file, self._file_uri(name, inside))
        return self._add_action(name, inside)

    def _few_rows(self, name: str, files: Sequence[str], schema: pa.Schema) -> pa.Table:
        """These columns of all rows of the files; without a question to DuckDB where they are few. Where they are many,
        rows that are alike come once."""
        if len(files) > _FEW_FILES or sum(footer(file).num_rows for file in files) > _FEW_ROWS:
            return self._rows(name, files, schema, distinct=True)
        groups = [(file, number) for file in files for number in range(footer(file).num_row_groups)]
        return pa.concat_tables(
            [schema.empty_table(), *(whole(row_group(*group, schema.names), schema) for group in groups)]
        )

    def _rows(
        self,
        name: str,
        files: Sequence[str],
        schema: pa.Schema,
        where: str | None = None,
        params: Sequence[Any] = (),
        *,
        distinct: bool = False,
    ) -> pa.Table:
        listed = ("DISTINCT " if distinct else "") + ", ".join(f'"{c}"' for c in schema.names)
        condition = f" WHERE {where}" if where else ""
        with cursor() as db:
            try:
                found = db.execute(f"SELECT {listed} FROM {relation(files)}{condition}", list(params)).to_arrow_table()
            except (duckdb.BinderException, duckdb.InvalidInputException):
                # Files of an older version of the table, which lacked a column.
                db.register("extended", pa.concat_tables([extended(name, _read_parquet(file)) for file in files]))
                found = db.execute(f"SELECT {listed} FROM extended{condition}", list(params)).to_arrow_table()
        return in_types_of(found, schema)


def _read_parquet(file: str) -> pa.Table:
    fs, path = located(file)
    return pq.read_table(path, filesystem=fs)


def _known(name: str) -> str:
    if name not in tables.BY_NAME:
        raise WarehouseError(f"There is no table {name!r}; tables are {', '.join(sorted(tables.BY_NAME))}.")
    return name


def _delta_options(location: str) -> dict[str, str] | None:
    if "://" not in location:
        return None
    from rebalance_audit.warehouse.object_store import delta_options

    return delta_options(location)


def _only_adds(actions: Sequence[Mapping[str, Any]]) -> bool:
    info: Mapping[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    return "replacedKeys" not in info and not any("remove" in a and a["remove"]["dataChange"] for a in actions)


def _folder(name: str) -> str:
    return name.replace(".", "/")


def _as_mapping(transaction: Transactions) -> dict[str, int]:
    if transaction is None:
        return {}
    return dict([transaction]) if isinstance(transaction, tuple) else dict(transaction)


def _paths_and_sizes(table: DeltaTable) -> list[tuple[str, int]]:
    actions = pa.table(table.get_add_actions(flatten=True))
    return list(zip(actions.column("path").to_pylist(), actions.column("size_bytes").to_pylist(), strict=True))


def _names_in(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def _why_no_warehouse(files: Files) -> str:
    if files.is_local and not os.path.exists(files.root):
        return f"There is no warehouse at {files.uri}; make one with `rebalance-audit import` or `collect`."
    return f"{files.uri} is not a warehouse (no warehouse.json in it); give the folder that `import` or `collect` made."
