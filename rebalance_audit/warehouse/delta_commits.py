"""Commits to Delta tables: new files, and a version that is whole or not there."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from rebalance_audit.warehouse import unwritten
from rebalance_audit.warehouse.arrow_tables import in_types_of, rows_where
from rebalance_audit.warehouse.delta_log import commit_text
from rebalance_audit.warehouse.delta_tables import DeltaTables
from rebalance_audit.warehouse.evidence_log import COMMIT_ID
from rebalance_audit.warehouse.file_sizes import in_order, most_rows, soon_replaced
from rebalance_audit.warehouse.footers import row_count_in
from rebalance_audit.warehouse.kept_columns import let_go, linked, put_rows
from rebalance_audit.warehouse.row_groups import SOON_REPLACED
from rebalance_audit.warehouse.storage import WarehouseError, folder_of

Transactions = tuple[str, int] | Mapping[str, int] | None
"""What a commit consumes: (application id, version) or several of them. A commit whose ids are all there is skipped."""
_APPEND_TRIES = 50
"""Chosen: more processes than add to one table within a second."""


class DeltaCommits(DeltaTables):
    """Makes files of a table and commits them."""

    def _is_committed(self, name: str, transaction: Transactions) -> bool:
        wanted = as_mapping(transaction)
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
        if not actions and (not as_mapping(transaction) or (only_if_changed and self.exists(name))):
            return False
        if not self.exists(name):
            DeltaTable.create(
                self._uri(name), self.schema(name), mode="ignore", name=name, storage_options=self._options
            )
        self._commit(name, actions, as_mapping(transaction), metadata or {})
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
        commit_id, is_plain = uuid.uuid4().hex, table.may_commit(actions)
        try:
            if is_plain:
                text = commit_text(actions, transactions, {**metadata, COMMIT_ID: commit_id})
                if not self._files.write_new(self._commit_file(name, table.version + 1), text):
                    return False
            else:
                self._commit_by_library(name, table.version, actions, transactions, {**metadata, COMMIT_ID: commit_id})
        except Exception:
            # The answer may have been lost, and the commit be there.
            log = self.commit_text(name, table.version + 1)
            if log is None:
                raise
            return commit_id.encode() in log
        table = table.after(actions, transactions) if is_plain else self._opened(name)
        assert table is not None, name
        self._newest[name] = table
        let_go(self._file_uri(name, action.path) for action in actions if isinstance(action, RemoveAction))
        if table.is_due_for_checkpoint:
            self._write_checkpoint(name)
        if name in self._small_files:
            self._small_files[name] += sum(isinstance(action, AddAction) for action in actions)
        for listed in [listed for listed in self._file_lists if listed[0] == name and listed[1] < table.version - 8]:
            del self._file_lists[listed]
        if self._lease is not None:
            self._checked.add(name)
        return True

    def _commit_by_library(
        self,
        name: str,
        version: int,
        actions: Sequence[AddAction | RemoveAction],
        transactions: Mapping[str, int],
        metadata: Mapping[str, Any],
    ) -> None:
        table = self._delta_table(name, version)
        assert table is not None, name
        table.create_write_transaction(
            actions,
            mode="append",
            schema=table.schema(),
            commit_properties=CommitProperties(
                app_transactions=[Transaction(app, version) for app, version in transactions.items()],
                custom_metadata=dict(metadata),
                max_commit_retries=0,
            ),
        )

    def _write_checkpoint(self, name: str) -> None:
        """So that whoever opens the table reads few commits. If it fails, the next one has all of it."""
        with contextlib.suppress(DeltaError, OSError):
            table = self._delta_table(name)
            if table is not None:
                table.create_checkpoint()
                table.cleanup_metadata()  # what is older than delta.logRetentionDuration; see `changes`

    def _put_parquet(self, name: str, file: str, data: pa.Table) -> None:
        path = self._files.path(f"{folder_of(name)}/{file}")
        self._files.make_folder_of(f"{folder_of(name)}/{file}")
        pq.write_table(data, path, filesystem=self._files.fs, compression="zstd")

    def _put_rows(self, name: str, rows: pa.Table) -> list[AddAction]:
        """New files of the table, which no commit names yet. What is replaced before long has files of its own."""
        schema = self.schema(name)
        rows = in_types_of(rows.select(schema.names), schema)
        is_soon = soon_replaced(name, rows)
        adds = []
        for kind, of_kind in (("part", pc.invert(is_soon)), (SOON_REPLACED, is_soon)):
            chosen, most = rows_where(rows, of_kind), most_rows(name, is_soon_replaced=kind == SOON_REPLACED)
            if chosen.num_rows > most:
                chosen = in_order(name, chosen)
            adds += [self._put_file(name, kind, chosen.slice(at, most)) for at in range(0, chosen.num_rows, most)]
        return adds

    def _put_file(self, name: str, kind: str, rows: pa.Table, *, is_change: bool = True) -> AddAction:
        file = f"{kind}-{uuid.uuid4().hex}.parquet"
        self._files.make_folder_of(f"{folder_of(name)}/{file}")
        put_rows(name, self._file_uri(name, file), rows)
        return self._add_action(name, file, is_change=is_change)

    def _add_action(self, name: str, file: str, rows: int | None = None, *, is_change: bool = True) -> AddAction:
        """`rows`: how many it has, where that is known."""
        path = self._files.path(f"{folder_of(name)}/{file}")
        rows = row_count_in(self._file_uri(name, file)) if rows is None else rows
        info = self._files.fs.get_file_info(path)
        now_ms = int(time.time() * 1000)
        return AddAction(file, info.size, {}, now_ms, is_change, json.dumps({"numRecords": rows}))

    def _taken_in(self, name: str, file: str, *, is_change: bool = True) -> AddAction:
        inside, rows = os.path.basename(file), None
        if not self._files.is_there(f"{folder_of(name)}/{inside}"):
            rows = row_count_in(file)
            unwritten.write([file])
            self._files.take(file, f"{folder_of(name)}/{inside}")
            linked(file, self._file_uri(name, inside))
        return self._add_action(name, inside, rows, is_change=is_change)


def as_mapping(transaction: Transactions) -> dict[str, int]:
    if transaction is None:
        return {}
    return dict([transaction]) if isinstance(transaction, tuple) else dict(transaction)
