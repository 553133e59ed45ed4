"""`export`: any table, with the column names of domain.tables, for other programs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.options import UsageError
from rebalance_audit.commands.output import note, write_rows
from rebalance_audit.commands.rows import known_table, published, refuse_unknown_cluster, selection
from rebalance_audit.commands.stored import refuse_unknown


class Format(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


def export(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="gold.rebalance, or rebalance for short.")],
    warehouse: options.Warehouse,
    group: options.Group = None,
    cluster_id: options.ClusterId = None,
    from_: options.From = None,
    to: options.To = None,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="csv is for spreadsheets; the others lose nothing.")
    ] = (Format.JSONL),
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Print a table with its own column names."""
    from rebalance_audit.domain.detect.finding import numbers_of
    from rebalance_audit.domain.tables import UNPUBLISHED
    from rebalance_audit.domain.tables.incidents import GOLD_FINDING
    from rebalance_audit.warehouse.warehouse import Warehouse

    wanted = known_table(table)
    opened = Warehouse.open(warehouse)
    if wanted.layer == "gold" and wanted.name not in UNPUBLISHED:
        published(opened)
    if output is Format.PARQUET and sys.stdout.isatty():
        raise UsageError("Parquet is binary; send it to a file: rebalance-audit export … -o parquet > FILE.")
    now_ms = time.time_ns() // 1_000_000
    from_ms, to_ms = options.period_ms(from_, to, now_ms)
    sql, params = selection(wanted, group=group, cluster_id=cluster_id, from_ms=from_ms, to_ms=to_ms)
    found = opened.query(sql, params)
    if found.num_rows == 0 and opened.published():
        refuse_unknown_cluster(opened, cluster_id)
        if group is not None:
            refuse_unknown(opened, group)
    schema = opened.schema(wanted.name)
    if output is Format.PARQUET:
        import pyarrow.parquet as pq

        pq.write_table(found.cast(schema), sys.stdout.buffer, compression="zstd")
    else:
        rows = _rows(found)
        if output is Format.JSONL and wanted.name == GOLD_FINDING.name:
            rows = (row | {"numbers": numbers_of(row["numbers"])} for row in rows)
        write_rows(rows, schema.names, output.value)
    if found.num_rows == 0:
        note(f"No row of {wanted.name} fits.", quiet=quiet)


def _rows(found: Any) -> Iterator[dict[str, Any]]:
    for batch in found.to_batches(max_chunksize=2_000):
        yield from batch.to_pylist()
