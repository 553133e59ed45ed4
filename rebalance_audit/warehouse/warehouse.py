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
import re
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from deltalake.transaction import AddAction, RemoveAction

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import in_types_of, no_rows
from rebalance_audit.warehouse.changes import TableChange
from rebalance_audit.warehouse.delta_commits import Transactions
from rebalance_audit.warehouse.delta_tables import known_name
from rebalance_audit.warehouse.evidence_log import Act, add_news, read_acts, read_head, write_acts
from rebalance_audit.warehouse.file_sizes import in_order, row_group_rows
from rebalance_audit.warehouse.footers import row_count_in
from rebalance_audit.warehouse.kept_columns import let_go, put_rows, stage_rows
from rebalance_audit.warehouse.lease import lease
from rebalance_audit.warehouse.notes import content_of, sealed
from rebalance_audit.warehouse.queries import database
from rebalance_audit.warehouse.replacing import differing
from rebalance_audit.warehouse.spreading import in_this_process
from rebalance_audit.warehouse.storage import Files, TableGoneError, WarehouseError, folder_of, relation
from rebalance_audit.warehouse.upgrading import fingerprint, lacking, upgrade
from rebalance_audit.warehouse.upkeep import Upkeep

__all__ = ["TableChange", "Transactions", "Warehouse", "WarehouseError"]

_OF_A_PUBLICATION = [
    name
    for name in tables.BY_NAME
    if name.startswith("gold.") and name not in tables.UNPUBLISHED and name != "gold.whatif"
]
"""Tables that every publication has, if they have rows."""
_QUALIFIED = re.compile(r"\b(bronze|silver|gold)\.([a-z_]+)\b")


class Warehouse(Upkeep):
    """Tables of `domain.tables` at one location. Open it with `Warehouse.open`."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._acts: list[Act] = []
        self._lacking: list[str] = []
        """Tables of an older release, which the next writer extends."""
        self._unknown: list[str] = []
        """Tables that the publication of an older release may not name: it means nothing that they are missing
        there."""

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
        known_name(name)
        if self._is_committed(name, transaction):
            return False
        adds: list[AddAction] = []
        removes: list[RemoveAction] = []
        metadata: dict[str, Any] = {}
        fresh: Sequence[pa.Table | str] = [data] if isinstance(data, pa.Table) else data
        table = self._open_table(name)
        if table is not None and table.files:
            if keys is None:
                touched = list(table.files)
            else:
                files = {self._file_uri(name, path): path for path in table.files}
                own = tables.BY_NAME[name].key
                found = differing(name, self._uri(name), self.schema(name), list(files), data, keys, since, own)
                touched = [files[uri] for uri in found.touched]
                adds += [self._add_action(name, file) for file in (*found.kept, *found.mixed)]
                fresh, keys = found.fresh, found.keys
                metadata["keptFiles"] = json.dumps(found.kept)
            now_ms = int(time.time() * 1000)
            removes = [RemoveAction(path, True, now_ms, table.files[path].size, {}) for path in touched]
        if table is not None:
            fresh = [rows for rows in fresh if not isinstance(rows, str) or row_count_in(rows)]
        is_changed = bool(adds or removes) or any(isinstance(rows, str) or rows.num_rows for rows in fresh)
        if only_if_changed and table is not None and not is_changed:
            return False
        if keys is not None and keys.num_rows:
            keys_file = f"_keys/{uuid.uuid4().hex}.parquet"
            self._files.make_folder_of(f"{folder_of(name)}/{keys_file}")
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
            return no_rows(schema)
        if where is None and self._are_few(files):
            return self._few_rows(name, files, schema)
        return self._rows(name, files, schema, where, params)

    def read_files(
        self, name: str, files: Sequence[str], columns: Sequence[str], where: str, *, distinct: bool = False
    ) -> pa.Table:
        """Rows of some of the table's files, read like `read`. `distinct`: rows that are alike come once."""
        schema = pa.schema([self.schema(name).field(c) for c in columns])
        return self._rows(name, files, schema, where, distinct=distinct) if files else no_rows(schema)

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
                    db.register("unpublished", no_rows(self.schema(name)))
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

    # ---- landing files, staged files and notes --------------------------------------------------------------

    def landed(self, noun: str) -> list[str]:
        """Landing files of `record`, `log_line` or `source`, absolute, sorted by name."""
        names = self._files.names(f"landing/{noun}")
        return [f"{self.location}/landing/{noun}/{n}" for n in names if n.endswith(".parquet")]

    @contextlib.contextmanager
    def staging_file(self, name: str, data: pa.Table) -> Iterator[str]:
        """The rows as a Parquet file that belongs to no table yet; for `replace` and `adopt`."""
        file = f"staging/{uuid.uuid4().hex}.parquet"
        rows = in_types_of(data, self.schema(name))
        rows = in_order(name, rows) if rows.num_rows > row_group_rows(name) else rows
        stage_rows(name, f"{self.location}/{file}", rows)
        try:
            yield f"{self.location}/{file}"
        finally:
            self._files.delete(file)
            let_go([f"{self.location}/{file}"])

    def clear_staging(self) -> None:
        """Remove what a killed writer left behind. Only for the one who holds the lease."""
        self._files.delete_folder("staging")

    def recall(self, note: str) -> dict[str, Any]:
        """The content that `remember` kept last under this name; empty if there is none, or it is damaged."""
        text = self._files.read(f"notes/{note}.json")
        return {} if text is None else content_of(note, text)

    def remember(self, note: str, content: Mapping[str, Any]) -> None:
        """Keep a small fact that a stage needs next time and that no table holds. If it is lost, that must only cost
        work."""
        self._files.write(f"notes/{note}.json", sealed(note, content))

    def notes(self) -> list[str]:
        """The names under which something is remembered."""
        names = [name.removesuffix(".json") for name in self._files.names("notes") if name.endswith(".json")]
        return [name for name in names if not name.endswith(".lease")]

    def forget(self, note: str) -> None:
        self._files.delete(f"notes/{note}.json")

    # ---- the one writer, and the log of evidence ------------------------------------------------------------

    @contextlib.contextmanager
    def lease(self, what: str = "run") -> Iterator[None]:
        """Be the one writer. WarehouseError names the other one; a dead one's lease is taken over.

        What was written meanwhile goes into the log of evidence before the lease is given back.
        """
        with lease(self._files, what) as self._lease:
            self._acts = read_acts(self._files)
            try:
                self._upgrade()
                if self._acts:  # a verb was killed: its doing is what went until now, and nothing after
                    self.log_acts()
                yield
            except BaseException:
                self.spread_of = in_this_process  # the engine may be what failed
                with contextlib.suppress(WarehouseError, OSError):  # the first fault is the one to show
                    self._add_news()
                raise
            else:
                self._add_news()
            finally:
                self._lease = None
                self._checked.clear()
                self._absent.clear()
                if self._unknown:
                    self._unknown = self._not_there_yet(json.loads(self._files.read("warehouse.json") or b"{}"))

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

    def state_act(self, verb: str, **detail: Any) -> None:
        """Rows of bronze are about to go on purpose: `verb` and `detail` stand in the log of evidence for ever. What it
        says is durable at once, so that a verb that is killed is named all the same. Said again, it says more of the
        same act. Inside a lease."""
        if all(act.verb != verb for act in self._acts):
            self.log_acts()  # whatever went before is none of this act's doing
        self._acts = [*(act for act in self._acts if act.verb != verb), Act(verb, detail)]
        write_acts(self._files, self._acts)

    def log_acts(self) -> None:
        """Put what was done so far into the log of evidence: before files are deleted that show whose rows are gone."""
        with contextlib.suppress(WarehouseError):  # of a log that was changed; the end of the lease says it
            self._add_news()

    def _add_news(self) -> None:
        add_news(self, self._files, self._acts)
        if self._acts:
            self._acts = []
            write_acts(self._files, [])


def _names_in(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def _why_no_warehouse(files: Files) -> str:
    if files.is_local and not os.path.exists(files.root):
        return f"There is no warehouse at {files.uri}; make one with `rebalance-audit import` or `collect`."
    return f"{files.uri} is not a warehouse (no warehouse.json in it); give the folder that `import` or `collect` made."
