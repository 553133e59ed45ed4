"""What keeps tables small and forgets what must be forgotten; readers see the same rows, or those without."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, Schema
from deltalake.transaction import AddAction, RemoveAction

from rebalance_audit.warehouse.arrow_tables import in_types_of
from rebalance_audit.warehouse.changes import Changes
from rebalance_audit.warehouse.delta_commits import DeltaCommits
from rebalance_audit.warehouse.evidence_log import SAME_ROWS
from rebalance_audit.warehouse.kept_columns import let_go_below, rows_on_disk
from rebalance_audit.warehouse.publications import Publications
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.small_files import (
    LARGE_AT_ONCE,
    LARGE_ROWS,
    SMALL_FILES,
    Tier,
    joined,
    joined_in_tasks,
    portions_of,
    tiers_of,
)
from rebalance_audit.warehouse.storage import folder_of, relation


class Upkeep(Publications, Changes, DeltaCommits):
    """Joining, rewriting and deleting files."""

    def compact(self, name: str, keep_hours: int = 168) -> None:
        """Makes fewer, larger files, and deletes files that no version of the last `keep_hours` needs. Readers see the
        same rows as before, from fewer files.
        """
        if not self.exists(name):
            return
        self.join_small_files(name, at_least=2)
        self.publish_same_rows(name)  # before the history is cleaned up that says so
        table = self._delta_table(name)
        assert table is not None, name
        self._forget(name)  # its log is about to change
        table.create_checkpoint()
        table.cleanup_metadata()  # what is older than delta.logRetentionDuration; see `changes`
        table.vacuum(retention_hours=keep_hours, dry_run=False, enforce_retention_duration=False)
        self._delete_older(f"{folder_of(name)}/_keys", keep_hours)

    def join_small_files(self, name: str, at_least: int | None = None, written_rows: int = 0) -> bool:
        """Join files of few rows, once there are so many of them (None: SMALL_FILES): what commits of every second
        leave behind. No file is deleted, no row changes, and no large file is read, so the pause is short however large
        the table is. Large files of events are joined, too: at most so many rows as no cycle waits long for, or as
        were just written.

        False if there are few of them. What was published stays published, as with `compact`.
        """
        least = SMALL_FILES if at_least is None else at_least
        if self._small_files.get(name, least) < least and written_rows < LARGE_ROWS:
            return False  # what joins is added, so that runs are looked at when there are new ones
        table = self._open_table(name)
        if table is None:
            return False
        rows_of = {path: stored.row_count for path, stored in table.files.items()}
        large_at_once = max(LARGE_AT_ONCE, written_rows) if at_least is None else None
        tiers = tiers_of(name, rows_of, least, large_at_once)
        full = [tier for tier in tiers if tier.is_full]
        self._small_files[name] = max((len(tier.files) for tier in tiers if not tier.is_full), default=0)
        if not full:
            return False
        now_ms, before = int(time.time() * 1000), table.version
        sizes = {path: table.files[path].size for tier in full for path in tier.files}
        removes = [RemoveAction(path, False, now_ms, size, {}) for path, size in sizes.items()]
        with self.staging_folder() as folder:
            adds = self._joined(name, full, sum(sizes.values()), folder)
            self._commit(name, [*removes, *adds], {}, {})
        self._republish(name, before)
        return True

    def _joined(self, name: str, tiers: Sequence[Tier], byte_count: int, folder: str) -> list[AddAction]:
        """New files with the rows of these tiers' files. `folder`: where tasks may write them."""
        schema, named = self.schema(name), []
        for tier in tiers:
            kind = f"{tier.kind}-{uuid.uuid4().hex[:12]}" if tier.kind.startswith("run") else tier.kind
            named.append(replace(tier, kind=kind, files=tuple(self._file_uri(name, path) for path in tier.files)))
        if (spread := self.spread_of(byte_count)) is not None:
            files = joined_in_tasks(spread, name, named, schema, folder)
            return [self._taken_in(name, file, is_change=False) for file in files]
        return [
            self._put_file(name, tier.kind, rows, is_change=False)
            for tier in named
            for rows in joined(name, portions_of(name, tier.files, tier.joined_rows), schema, tier.joined_rows)
        ]

    def _republish(self, name: str, before: int) -> None:
        """Give readers the newest version, where they saw the rows of version `before`. It may be another version that
        is published: deleting unused files is a commit, too."""
        manifest, now = self.publication(), self.version(name)
        shown = manifest.get("versions", {}).get(name)
        if now is not None and shown is not None and self.changes(name, shown, before) == []:
            self.publish({**manifest["versions"], name: now}, manifest.get("consumed"))

    def remove(self, name: str) -> None:
        """Take a whole table away, as if nothing had ever been written to it: for one that cannot be read, and whose
        rows a stage can make again."""
        self._confirm_lease()
        self._files.delete_folder(folder_of(name))
        let_go_below(self._uri(name))
        self._forget(name)
        self._checked.discard(name)
        self._small_files.pop(name, None)
        for listed in [listed for listed in self._file_lists if listed[0] == name]:
            del self._file_lists[listed]

    def rewrite(self, name: str, goes: str, params: Sequence[Any] = ()) -> int:
        """Take rows for which the SQL `goes` is true out of the table's files, as no change of its data: stages that
        follow do not see it. How many. The files that held them stay until `delete_unused`; readers of the published
        version are given this one instead.

        For what the whole warehouse forgets at once: rows that follow from these must go from their tables as well.
        """
        table = self._open_table(name)
        if table is None:
            return 0
        schema, gone_count = self.schema(name), 0
        adds: list[AddAction] = []
        removes: list[RemoveAction] = []
        now_ms = int(time.time() * 1000)
        for path, stored in table.files.items():
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
            removes.append(RemoveAction(path, True, now_ms, stored.size, {}))  # rows go: the log of evidence sees that
            if rest.num_rows:
                file = f"part-{uuid.uuid4().hex}.parquet"
                self._put_parquet(name, file, rest)
                adds.append(self._add_action(name, file, is_change=False))
        if removes:
            before = table.version
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
        table = self._delta_table(name)
        if table is not None:
            table.vacuum(retention_hours=keep_hours, dry_run=False, enforce_retention_duration=False)
            self._forget(name)
        self._delete_older(f"{folder_of(name)}/_keys", keep_hours)  # a table without rows has some, too

    def forget_landed(self, noun: str, taken: Sequence[str], keep_hours: float = 168) -> int:
        """Delete those of these landing files, which bronze took in, that are this old. How many."""
        return self._delete_older(f"landing/{noun}", keep_hours, {file.rpartition("/")[2] for file in taken})

    def _delete_older(self, folder: str, keep_hours: float, only: Collection[str] | None = None) -> int:
        until_ns = time.time_ns() - int(keep_hours * 3_600_000_000_000)
        old = [n for n in self._files.older_than(folder, until_ns) if only is None or n in only]
        for name in old:
            self._files.delete(f"{folder}/{name}")
        return len(old)

    def extend(self, name: str, extended: Callable[[pa.Table], pa.Table]) -> None:
        """Rewrite every file of the table with all columns, in one commit that changes no data."""
        table, opened = self._delta_table(name), self._open_table(name)
        assert table is not None
        assert opened is not None
        adds = []
        for path in opened.files:
            file = f"part-{uuid.uuid4().hex}.parquet"
            self._put_parquet(name, file, extended(rows_on_disk(self._file_uri(name, path))))
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
