"""`maintain`: a warehouse that runs for months keeps few files, and the same rows."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.meter import meter
from rebalance_audit.commands.options import UsageError
from rebalance_audit.commands.output import note

HOUR_MS = 3_600_000


def maintain(
    warehouse: options.Warehouse,
    keep: Annotated[
        str,
        typer.Option("--keep", metavar="TIME", help="Delete files that nothing newer than this needs; at least 1h."),
    ] = "7d",
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Join the small files of every table, and delete those that are no longer needed. Rows stay as they are."""
    from rebalance_audit.domain import tables
    from rebalance_audit.warehouse.warehouse import Warehouse
    from spark_jobs.pipeline import landing_application

    keep_ms = options.duration_ms(keep)
    if keep_ms < HOUR_MS:
        raise UsageError(f"--keep {keep}: readers may hold a version for longer; give at least 1h.")
    opened = Warehouse.open(warehouse)
    kept_hours = keep_ms // HOUR_MS
    names = [table.name for table in tables.TABLES if opened.exists(table.name)]
    joined = 0
    with opened.lease("maintain"), meter("maintain", quiet=quiet, unit="tables") as progress:
        for at, name in enumerate(names):
            progress(at, len(names), name)
            before = len(opened.files(name))
            opened.compact(name, kept_hours)
            after = len(opened.files(name))
            joined += before - after
            if after < before:
                note(f"{name}: {before:,} files are {after:,} now", quiet=quiet)
        landed = sum(
            opened.forget_landed(noun, partial(landing_application, noun), kept_hours)
            for noun in ("record", "log_line", "source")
        )
    note(
        f"{joined:,} files fewer in {len(names)} tables; {landed:,} landing files that bronze holds are gone.",
        quiet=quiet,
    )
