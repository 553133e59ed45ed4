"""`erase`: take a group out of a warehouse, and note that something was taken out."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.options import UsageError
from rebalance_audit.commands.output import note, visible
from rebalance_audit.commands.turns import turn


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

    If it is interrupted, the same command finishes it.
    """
    from rebalance_audit.warehouse.warehouse import Warehouse
    from spark_jobs import erasing

    for name, value in (("GROUP", group), ("--reason", reason or ""), ("--by", by or "")):
        options.refuse_no_text(name, value)
    if erasing.is_named(group, reason):
        raise UsageError("--reason names the group, which gold.erasure must not; write a reason without it.")
    opened = Warehouse.open(warehouse)
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
        at_ms = time.time_ns() // 1_000_000
        row = erasing.erase(opened, known[0], group, at_ms=at_ms, by=by or options.this_user(), reason=reason)
    note(
        f"{row['row_count']:,} rows of {len(row['tables'])} tables are gone; gold.erasure has {row['erasure_id']} "
        "(when and by whom it was erased, not what).",
        quiet=quiet,
    )
