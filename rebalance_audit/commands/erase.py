"""`erase`: take a group out of a warehouse, and note that something was taken out."""

from __future__ import annotations

import getpass
import time
from typing import Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.options import UsageError
from rebalance_audit.commands.output import note, visible


def erase(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group's id, exactly.")],
    warehouse: options.Warehouse,
    cluster_id: options.ClusterId = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why, for the record.")] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Who asks; the user of this machine if left out.")
    ] = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Remove all that the warehouse holds about a group.

    Evidence, rows of every table, older versions, landing files.

    gold.erasure notes that and when something was erased, not what. What is collected afterwards is kept again.
    """
    from rebalance_audit.warehouse.warehouse import Warehouse
    from spark_jobs import erasing

    opened = Warehouse.open(warehouse)
    known = sorted(
        {
            row["cluster_id"]
            for table in ("silver.group_event", "silver.commit_mark", "gold.rebalance")
            for row in opened.read(table, ["cluster_id"], "group_id = ?", [group]).to_pylist()
        }
    )
    if cluster_id is not None:
        known = [cluster for cluster in known if cluster == cluster_id]
    if not known:
        at = opened.location if cluster_id is None else f"{opened.location}, cluster {cluster_id}"
        raise UsageError(f"There is no group {visible(group)!r} at {at}; `export group` lists those there are.")
    if len(known) > 1:
        raise UsageError(
            f"Group {visible(group)!r} is in the clusters {', '.join(known)}; choose one with --cluster-id."
        )
    with opened.lease("erase"):
        erasing.refuse_unfinished(opened)
        gone = erasing.erase(opened, known[0], group)
        at_ms = time.time_ns() // 1_000_000
        row = erasing.record(opened, known[0], group, gone, at_ms=at_ms, by=by or getpass.getuser(), reason=reason)
        opened.state_act("erase", erasure_id=row["erasure_id"], row_count=row["row_count"])
    note(
        f"{row['row_count']:,} rows of {len(gone)} tables are gone; gold.erasure has {row['erasure_id']} "
        "(when and by whom it was erased, not what).",
        quiet=quiet,
    )
