"""`maintain`: a warehouse that runs for months keeps few files, and the same rows."""

from __future__ import annotations

from typing import Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.meter import meter
from rebalance_audit.commands.options import CommandError, UsageError
from rebalance_audit.commands.output import note
from rebalance_audit.commands.turns import turn

HOUR_MS = 3_600_000
BRONZE, SILVER, GOLD = "7d", "30d", "400d"


def maintain(
    context: typer.Context,
    warehouse: options.Warehouse,
    keep: Annotated[
        str,
        typer.Option("--keep", metavar="TIME", help="Delete files that nothing newer than this needs; at least 1h."),
    ] = "7d",
    keep_bronze: Annotated[
        str, typer.Option("--keep-bronze", metavar="TIME", help="Evidence as it was: delete what is older.")
    ] = BRONZE,
    keep_silver: Annotated[
        str, typer.Option("--keep-silver", metavar="TIME", help="Events of settled history: delete what is older.")
    ] = SILVER,
    keep_gold: Annotated[
        str, typer.Option("--keep-gold", metavar="TIME", help="Rebalances, findings, incidents: delete what is older.")
    ] = GOLD,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Join small files, delete what is no longer kept.

    Files that nobody needs go, and rows that are older than their layer keeps. Ages count back from the end of each
    cluster's evidence; what is still needed stays, however old.
    """
    from rebalance_audit.domain import tables
    from rebalance_audit.warehouse.warehouse import Warehouse
    from spark_jobs import retention
    from spark_jobs.landed import LandedFiles

    kept = {"bronze": keep_bronze, "silver": keep_silver, "gold": keep_gold}
    ages = {f"{layer}_ms": options.duration_ms(age) for layer, age in kept.items()}
    if not HOUR_MS <= ages["bronze_ms"] <= ages["silver_ms"] <= ages["gold_ms"]:
        raise UsageError(
            f"--keep-bronze {keep_bronze}, --keep-silver {keep_silver}, --keep-gold {keep_gold}: each layer is made of "
            "the one before; keep none shorter than that, and bronze at least 1h."
        )
    keep_ms = options.duration_ms(keep)
    if keep_ms < HOUR_MS:
        raise UsageError(f"--keep {keep}: readers may hold a version for longer; give at least 1h.")
    opened = Warehouse.open(warehouse)
    kept_hours = keep_ms // HOUR_MS
    names = [table.name for table in tables.TABLES if opened.exists(table.name)]
    joined = 0
    with turn(opened, "maintain", quiet=quiet), meter("maintain", quiet=quiet, unit="tables") as progress:
        unsafe, deleted = retention.why_unsafe(opened), {}
        if unsafe is None:
            opened.state_act("retention", **ages)
            deleted = retention.delete_old(opened, **ages)
            counts = {table.replace(".", "_"): count for table, count in deleted.items()}
            opened.state_act("retention", **ages, **counts)
        for table, count in deleted.items():
            note(f"{table}: {count:,} rows were older than is kept", quiet=quiet)
        for at, name in enumerate(names):
            progress(at, len(names), name)
            before = len(opened.files(name))
            opened.compact(name, kept_hours)
            after = len(opened.files(name))
            joined += before - after
            if after < before:
                note(f"{name}: {before:,} files are {after:,} now", quiet=quiet)
        landed = sum(
            opened.forget_landed(noun, LandedFiles(opened, noun).taken, kept_hours)
            for noun in ("record", "log_line", "source")
        )
    note(
        f"{joined:,} files fewer in {len(names)} tables; {landed:,} landing files that bronze holds are gone.",
        quiet=quiet,
    )
    if unsafe is not None:
        sources = [context.get_parameter_source(f"keep_{layer}") for layer in kept]
        if any(source is not None and source.name == "COMMANDLINE" for source in sources):
            raise CommandError(unsafe)
        note(unsafe, quiet=quiet)
