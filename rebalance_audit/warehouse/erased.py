"""What tells a process with a group in its memory that the group was erased: a note of digests, beside the tables."""

from __future__ import annotations

import hashlib

from rebalance_audit.warehouse.warehouse import Warehouse

NOTE = "erased"
EVERY_GROUP = "*"
"""In place of a digest, where the whole cluster was erased."""
MOST = 1_000
"""The newest: whoever looks does so several times a second."""


def digest_of(group_id: str) -> str:
    """What is kept of the name of an erased group."""
    return hashlib.sha256(group_id.encode("utf-8", "surrogatepass")).hexdigest()


def say_erased(warehouse: Warehouse, cluster_id: str, digest: str, erasure_id: str) -> None:
    """For the one who holds the lease, before the first row goes. `digest`: of the group, or `EVERY_GROUP`."""
    said = [each for each in warehouse.recall(NOTE).get("erased", []) if each[0] != erasure_id]
    said.append([erasure_id, cluster_id, digest])
    warehouse.remember(NOTE, {"erased": said[-MOST:]})


def erased_groups(warehouse: Warehouse, cluster_id: str) -> dict[str, str]:
    """Of this cluster the digests of erased groups, by the erasure's id."""
    said = warehouse.recall(NOTE).get("erased", [])
    return {erasure_id: digest for erasure_id, of_cluster, digest in said if of_cluster == cluster_id}
