"""Takes a whole cluster out of a warehouse: rows of every table, and what is kept beside them.

gold.erasure and the note of erasures keep the cluster's id: that it was there and went is what they are for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.erased import EVERY_GROUP, NOTE, digest_of, say_erased
from rebalance_audit.warehouse.just_in import NOTES as JUST_IN
from rebalance_audit.warehouse.known_footers import NOTES as FOOTERS
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.belonging import NOTES
from spark_jobs.decoding.log_files import NOTE as LOG_FILE_ENDS
from spark_jobs.erasing import RECORD, SENT, UNDER_WAY, begun_in, erase_subject, forget_messages, is_named, naming
from spark_jobs.kept_votes import NOTE as CLOCK_VOTES

_BY_CLUSTER = ("reconstruct", "reassign", "detect", "publish")
"""Notes of stages whose parts are tables by cluster, or lists of (cluster, group, when). Without them a stage would
work everything out again."""

_NAMES_ALL = ("bronze.source", "gold.coverage", "gold.rebalance", "gold.reassignment")
"""Every cluster that anything was read of is in one of these."""


def is_there(warehouse: Warehouse, cluster_id: str) -> bool:
    """Whether anything of the cluster is in a table, or an erasure of it was interrupted."""
    return bool(begun_in(warehouse, "cluster", digest_of(cluster_id))) or any(
        warehouse.read(table, ["cluster_id"], "cluster_id = ?", [cluster_id]).num_rows for table in _NAMES_ALL
    )


def erase_cluster(warehouse: Warehouse, cluster_id: str, *, at_ms: int, by: str, reason: str | None) -> dict[str, Any]:
    """Remove the cluster; the row of gold.erasure that notes it. For the one who holds the lease."""
    return erase_subject(
        warehouse, ("cluster", cluster_id, digest_of(cluster_id)), {"at_ms": at_ms, "by": by, "reason": reason},
        say=lambda erasure_id: say_erased(warehouse, cluster_id, EVERY_GROUP, erasure_id),
        take_out=lambda is_gone: _take_out(warehouse, cluster_id, is_gone),
        forget_beside=lambda: _forget_beside(warehouse, cluster_id),
    )  # fmt: skip


def _tables_of_clusters() -> list[tables.Table]:
    return [t for t in tables.TABLES if t.name != RECORD and "cluster_id" in {column.name for column in t.columns}]


def _take_out(warehouse: Warehouse, cluster_id: str, is_gone: Callable[[str, int], None]) -> None:
    for table in _tables_of_clusters():
        is_gone(table.name, warehouse.rewrite(table.name, "cluster_id = ?", [cluster_id]))
    examples = "regexp_matches(array_to_string(examples, chr(10)), ?)"
    is_gone("gold.check", warehouse.rewrite("gold.check", examples, [naming(cluster_id)]))


def _forget_beside(warehouse: Warehouse, cluster_id: str) -> None:
    forget_messages(warehouse, cluster_id, None)
    for name in warehouse.notes():
        if name in (*SENT, NOTE) or name.startswith(UNDER_WAY):
            continue
        note = warehouse.recall(name)
        if name in _BY_CLUSTER and note:
            warehouse.remember(name, {part: _without(cluster_id, value) for part, value in note.items()})
        elif name == "floors" and note:
            warehouse.remember(name, note | {"groups": _without(cluster_id, note["groups"])})
        elif (
            not note
            or name in (*NOTES, *FOOTERS, LOG_FILE_ENDS)
            or name.startswith((JUST_IN, CLOCK_VOTES))
            or is_named(cluster_id, note)
        ):
            warehouse.forget(name)  # what a stage remembers costs only work when it is lost


def _without(cluster_id: str, part: Any) -> Any:
    if isinstance(part, dict):
        return {key: value for key, value in part.items() if key != cluster_id}
    if isinstance(part, list):
        return [each for each in part if not (isinstance(each, list) and each and each[0] == cluster_id)]
    return part
