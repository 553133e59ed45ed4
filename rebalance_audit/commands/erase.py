"""`erase`: take a group or a cluster out of a warehouse, and note that something was taken out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.options import UsageError
from rebalance_audit.commands.output import note
from rebalance_audit.commands.turns import turn
from rebalance_audit.domain.visible import visible

if TYPE_CHECKING:
    from rebalance_audit.warehouse.warehouse import Warehouse


def erase(
    warehouse: options.Warehouse,
    group: Annotated[str | None, typer.Argument(metavar="GROUP", help="The group's id, exactly.")] = None,
    cluster_id: options.ClusterId = None,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ID", help="Instead of a group: this whole cluster.")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Who asks; the user of this machine if left out.")
    ] = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Remove all that the warehouse holds about a group, or about a whole cluster.

    Evidence, rows of every table, older versions, landing files; of a cluster also how far it was read.

    gold.erasure notes that and when something was erased: of a group not which, of a cluster its id. What is collected
    afterwards is kept again: stop the cluster's `watch` first.

    If it is interrupted, the same command finishes it.
    """
    from rebalance_audit.warehouse.warehouse import Warehouse

    texts = {"GROUP": group, "--cluster-id": cluster_id, "--cluster": cluster, "--reason": reason, "--by": by}
    for name, value in texts.items():
        options.refuse_no_text(name, value or "")
    if (group is None) == (cluster is None):
        raise UsageError("Name either a group, or a whole cluster with --cluster.")
    opened = Warehouse.open(warehouse)
    asked: dict[str, Any] = {
        "at_ms": time.time_ns() // 1_000_000,
        "by": by or options.this_user(),
        "reason": reason,
    }
    if group is not None:
        row = _group(opened, group, cluster_id, asked, quiet=quiet)
    elif cluster_id is not None:
        raise UsageError("--cluster-id is the cluster of a group; --cluster alone names a whole cluster.")
    else:
        row = _cluster(opened, str(cluster), asked, quiet=quiet)
    what = "when and by whom it was erased" + (", not what" if group is not None else "")
    note(
        f"{row['row_count']:,} rows of {len(row['tables'])} tables are gone; gold.erasure has {row['erasure_id']} "
        f"({what}).",
        quiet=quiet,
    )


def _group(
    opened: Warehouse, group: str, cluster_id: str | None, asked: dict[str, Any], *, quiet: bool
) -> dict[str, Any]:
    from spark_jobs import erasing

    if erasing.is_named(group, asked["reason"]):
        raise UsageError("--reason names the group, which gold.erasure must not; write a reason without it.")
    known = erasing.clusters_of(opened, group)
    if cluster_id is not None:
        known = [cluster for cluster in known if cluster == cluster_id]
    if not known:
        at = opened.location if cluster_id is None else f"{opened.location}, cluster {cluster_id}"
        raise UsageError(f"There is no group {visible(group)!r} at {at}; `export group` lists those there are.")
    if len(known) > 1:
        raise UsageError(
            f"Group {visible(group)!r} is in the clusters {', '.join(known)}; choose one with --cluster-id."
        )
    with turn(opened, "erase", quiet=quiet):
        erasing.refuse_unfinished(opened)
        return erasing.erase(opened, known[0], group, **asked)


def _cluster(opened: Warehouse, cluster_id: str, asked: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    from ingest.landing import Landing
    from spark_jobs import erasing, erasing_clusters

    if not erasing_clusters.is_there(opened, cluster_id):
        raise UsageError(f"There is no cluster {visible(cluster_id)!r} at {opened.location}.")
    with turn(opened, "erase", quiet=quiet):
        erasing.refuse_unfinished(opened)
        row = erasing_clusters.erase_cluster(opened, cluster_id, **asked)
        Landing(opened.location).forget_positions(cluster_id)
    return row
