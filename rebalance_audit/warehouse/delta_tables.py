"""Delta tables at one location as they are read: versions, files, transactions and rows."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema, in_types_of, no_rows, whole
from rebalance_audit.warehouse.delta_log import OpenTable
from rebalance_audit.warehouse.evidence_log import actions_in
from rebalance_audit.warehouse.footers import row_count_in, row_group_bytes
from rebalance_audit.warehouse.kept_columns import let_go_below, row_group, rows_on_disk
from rebalance_audit.warehouse.lease import Lease
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.spreading import SpreadOf, in_this_process
from rebalance_audit.warehouse.storage import WarehouseError, files_at, folder_of, relation
from rebalance_audit.warehouse.upgrading import extended

_FEW_FILES, _FEW_ROWS = 32, 5_000
"""Read by Arrow, in a fraction of the millisecond that a question takes."""


class DeltaTables:
    """The tables at one location. What was opened is kept until somebody commits."""

    def __init__(self, location: str) -> None:
        self._files = files_at(location)
        self.location = self._files.uri
        self._options = _delta_options(self.location)
        self._lease: Lease | None = None
        self._file_lists: dict[tuple[str, int], list[str]] = {}
        self._file_names: dict[str, dict[str, str]] = {}
        """By table, the absolute names by the paths in its log: a version has most files of the one before."""
        self._newest: dict[str, OpenTable] = {}
        self._checked: set[str] = set()
        """The open tables that only this process can have changed since; for the one writer."""
        self._absent: set[str] = set()
        """Likewise, tables nobody has written to yet."""
        self._small_files: dict[str, int] = {}
        """The most small files that each table may have by now, for tables that were looked at before."""
        self.spread_of: SpreadOf = in_this_process
        """A writer with an engine lends it here."""

    def schema(self, name: str) -> pa.Schema:
        return arrow_schema(known_name(name))

    def exists(self, name: str) -> bool:
        return self.version(name) is not None

    def version(self, name: str) -> int | None:
        """The table's newest version; None if nothing was ever written to it."""
        table = self._open_table(name)
        return None if table is None else table.version

    def files(self, name: str, version: int | None = None) -> list[str]:
        """Absolute names of the Parquet files that make up the table."""
        if version is not None and version < 0:
            return []  # before the first commit
        known = None if version is None else self._file_lists.get((name, version))
        if known is not None:
            return known
        table = self._open_table(name, version)
        if table is None:
            return []
        if (known := self._file_lists.get((name, table.version))) is not None:
            return known
        if table.has_deletion_vectors:
            raise WarehouseError(
                f"{self.location}: another program switched deletion vectors on for {name}; purge them and switch "
                "delta.enableDeletionVectors off."
            )
        known_names = self._file_names.get(name, {})
        names = {path: known_names.get(path) or self._file_uri(name, unquote(path)) for path in table.files}
        self._file_names[name] = names
        found = list(names.values())
        self._file_lists[name, table.version] = found
        return found

    def stored_among(self, files: Sequence[str]) -> list[str]:
        """Those of these files, named as `files` names them, that tables have now."""
        found = []
        for file in files:
            layer, _, rest = file.removeprefix(f"{self.location}/").partition("/")
            noun, _, path = rest.partition("/")
            if f"{layer}.{noun}" in tables.BY_NAME:
                table = self._open_table(f"{layer}.{noun}")
                if table is not None and path in table.files:
                    found.append(file)
        return found

    def transaction_version(self, name: str, app_id: str) -> int | None:
        """The last version this application committed to the table."""
        return self.transaction_versions(name, [app_id])[app_id]

    def transaction_versions(self, name: str, app_ids: Sequence[str]) -> dict[str, int | None]:
        table = self._open_table(name)
        return {app: None if table is None else table.transaction_version(app) for app in app_ids}

    def table_id(self, name: str) -> str | None:
        """The table's own id: a table that was removed and made again has another one."""
        table = self._open_table(name)
        return None if table is None else table.id

    @property
    def is_writing(self) -> bool:
        """Whether this process holds the lease."""
        return self._lease is not None

    def actions(self, name: str, version: int) -> list[dict[str, Any]] | None:
        """The actions in the commit of this version, as Delta has them; None if it was cleaned up."""
        text = self.commit_text(name, version)
        return None if text is None else actions_in(text)

    def commit_text(self, name: str, version: int) -> bytes | None:
        """The file of the commit of this version; None if it was cleaned up."""
        return self._files.read(self._commit_file(name, version))

    @staticmethod
    def _commit_file(name: str, version: int) -> str:
        return f"{folder_of(name)}/_delta_log/{version:020d}.json"

    def has_file(self, uri: str) -> bool:
        """Whether a Parquet file, named as `files` names it, is still there."""
        return self._files.is_there(uri.removeprefix(self.location).strip("/"))

    def file_schema(self, file: str) -> pa.Schema:
        """The schema of one of `files`, from its footer. Raises OSError and ArrowException."""
        inside = file.removeprefix(self.location).removeprefix(self._files.root)
        return pq.read_schema(self._files.root + inside, filesystem=self._files.fs)

    @contextlib.contextmanager
    def staging_folder(self) -> Iterator[str]:
        """A folder where tasks may write files that belong to no table yet. It is gone afterwards; files that a commit
        linked stay."""
        name = f"staging/{uuid.uuid4().hex}"
        try:
            yield f"{self.location}/{name}"
        finally:
            self._files.delete_folder(name)
            let_go_below(f"{self.location}/{name}")

    def _confirm_lease(self) -> None:
        if self._lease is not None:
            self._lease.confirm()

    def stored_columns(self, name: str, version: int | None) -> pa.Schema | None:
        """The columns that the table was written with; None if it is empty or not there. `version` None: the newest."""
        table = self._open_table(name, version)
        return None if table is None or not table.files else table.columns

    def _uri(self, name: str) -> str:
        return f"{self.location}/{folder_of(name)}"

    def _file_uri(self, name: str, path: str) -> str:
        return path if path.startswith("/") or "://" in path else f"{self._uri(name)}/{path}"

    def _open_table(self, name: str, version: int | None = None) -> OpenTable | None:
        known_name(name)
        known = self._newest.get(name)
        if version is not None:
            return known if known is not None and known.version == version else self._opened(name, version)
        if name in self._absent or (known is not None and self._is_newest(name, known.version)):
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
        log = f"{folder_of(name)}/_delta_log"
        is_newest = not self._files.is_there(f"{log}/{version + 1:020d}.json") and (
            not self._files.is_local or self._files.is_there(f"{log}/{version:020d}.json")
        )
        if is_newest and self._lease is not None:
            self._checked.add(name)
        return is_newest

    def _opened(self, name: str, version: int | None = None) -> OpenTable | None:
        table = self._delta_table(name, version)
        return None if table is None else OpenTable(table)

    def _delta_table(self, name: str, version: int | None = None) -> DeltaTable | None:
        if self._files.is_local and not self._files.is_there(f"{folder_of(name)}/_delta_log"):
            return None  # DeltaTable() would say so more slowly
        try:
            return DeltaTable(self._uri(name), version=version, storage_options=self._options)
        except TableNotFoundError:
            return None

    def _forget(self, name: str) -> None:
        self._newest.pop(name, None)
        self._checked.discard(name)
        self._absent.discard(name)

    @staticmethod
    def _are_few(files: Sequence[str]) -> bool:
        return len(files) <= _FEW_FILES and sum(row_count_in(file) for file in files) <= _FEW_ROWS

    def _few_rows(self, name: str, files: Sequence[str], schema: pa.Schema) -> pa.Table:
        """These columns of all rows of the files; without a question to DuckDB where they are few. Where they are many,
        rows that are alike come once."""
        if not self._are_few(files):
            return self._rows(name, files, schema, distinct=True)
        groups = [(file, number) for file in files for number in range(len(row_group_bytes(file)))]
        return pa.concat_tables(
            [no_rows(schema), *(whole(row_group(*group, schema.names), schema) for group in groups)]
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
                db.register("extended", pa.concat_tables([extended(name, rows_on_disk(file)) for file in files]))
                found = db.execute(f"SELECT {listed} FROM extended{condition}", list(params)).to_arrow_table()
        return in_types_of(found, schema)


def known_name(name: str) -> str:
    if name not in tables.BY_NAME and name not in tables.RETIRED:
        raise WarehouseError(f"There is no table {name!r}; tables are {', '.join(sorted(tables.BY_NAME))}.")
    return name


def _delta_options(location: str) -> dict[str, str] | None:
    if "://" not in location:
        return None
    from rebalance_audit.warehouse.object_store import delta_options

    return delta_options(location)
