"""The law of unions: a group's rows are the same whatever else is in the warehouse, and `explain` says the same.

    python -m tests.spark_jobs.unions [--order N] [CAPTURE…]     all captures there are together: three orders, several
                                                                 numbers of cores and sizes of buckets (`make unions`)

What a group gets alone is shown without Spark and without a warehouse, from its own capture: as `explain` does it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.evidence import read_evidence
from ingest.folders import EvidenceFolder, open_folder
from rebalance_audit.commands.demo import cluster_name
from rebalance_audit.commands.explain.reassignment import history_of
from rebalance_audit.domain import tables
from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.gather.groups import gather
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import to_row
from rebalance_audit.domain.reassign import reassignment_row, step_rows
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import parcel_plan, pipeline
from tests.captures import kept
from tests.spark_jobs.arrivals import deliver, landed

REBALANCES, TASKS, REASSIGNMENTS = "silver.measured_rebalance", "silver.connect_task", "gold.reassignment"
FINDINGS, STEPS = "silver.finding", "gold.reassignment_step"
RowsByTable = dict[str, set[str]]
"""By table its rows as text."""
Parts = Sequence[Sequence[EvidenceFolder]]
"""Evidence in the order in which it comes; that of one part comes together."""
COPIES = 3
"""Of each capture, under ids of their own. So many groups that a library shows in which order it returns them: the
captures alone are too few."""


def as_clusters(captures: Iterable[Path], copies: int) -> list[EvidenceFolder]:
    """Each capture as so many clusters, named as in the demo: some captures share their cluster's own id."""
    return [
        open_folder(capture, cluster_id=f"{cluster_name(capture)}~{copy}")
        for copy in range(copies)
        for capture in captures
    ]


def alone(folder: EvidenceFolder) -> RowsByTable:
    """The rows of one cluster's groups and partitions by themselves."""
    evidence = read_evidence(folder)
    nodes = sorted({node for node, _ in folder.log_files})
    zones = dict.fromkeys(nodes, folder.log_time_zone) if folder.log_time_zone else {}
    gathered = gather(evidence.records(), evidence.lines(), zones)
    rows: dict[str, list[dict[str, Any]]] = {REBALANCES: [], TASKS: [], FINDINGS: []}
    until_ms = _until_ms(folder)
    for group in gathered.groups:
        found = reconstruct(group)
        measured = [measure(rebalance) for rebalance in found.rebalances]
        rows[REBALANCES] += [to_row(rebalance) | {"place": place} for place, rebalance in enumerate(measured)]
        rows[TASKS] += map(to_row, found.connect_tasks)
        findings = detect_group(measured, found.connect_tasks, seen_until_ms=until_ms)
        rows[FINDINGS] += [to_row(finding) | {"group_id": group.group_id} for finding in findings]
    moves = history_of(folder, lambda *_: None).reassignments
    rows[REASSIGNMENTS], rows[STEPS] = list(map(reassignment_row, moves)), [row for r in moves for row in step_rows(r)]
    return {table: set(_texts(table, rows_to_table(table, of_table))) for table, of_table in rows.items()}


def _until_ms(folder: EvidenceFolder) -> int | None:
    """The end of the cluster's evidence, as a warehouse with nothing else in it knows it."""
    with tempfile.TemporaryDirectory(prefix="rebalance-audit-union-") as scratch:
        source = landed([folder], Path(scratch))
        times = [t for t in source["source"].column("to_at_ms").to_pylist() if t is not None]
        times += [
            t
            for t, topic in zip(
                source["record"].column("timestamp_ms").to_pylist(),
                source["record"].column("topic").to_pylist(),
                strict=True,
            )
            if topic == "__consumer_offsets"
        ]
    return max(times, default=None)


def together(parts: Parts, folder: Path, spark: Any = None) -> RowsByTable:
    """The rows of these captures from one warehouse, which sees one part after the other."""
    warehouse = Warehouse.open(folder / "warehouse", create=True)
    for at, part in enumerate(parts):
        deliver(warehouse, f"part-{at}", landed(part, folder / f"landing-{at}"))
        pipeline.run(warehouse, spark=spark, with_quality=False)
    found = {}
    for table in (REBALANCES, TASKS, REASSIGNMENTS, STEPS, FINDINGS):
        rows = warehouse.read(table)
        if table == FINDINGS:  # those about the evidence itself, and about partitions, are not explain's of a group
            rows = rows.filter(pc.is_valid(rows["group_id"]))
        found[table] = set(_texts(table, rows))
    return found


def _texts(table: str, rows: pa.Table) -> list[str]:
    columns = [column.name for column in tables.BY_NAME[table].columns]
    return [json.dumps(row, sort_keys=True, default=repr) for row in rows.select(columns).to_pylist()]


def differences(found: RowsByTable, expected: Iterable[RowsByTable]) -> list[str]:
    """One line per row that is not one that its cluster gets alone, and per row of these that is missing."""
    each = list(expected)
    lines = []
    for table, rows in found.items():
        wanted: set[str] = set().union(*(of_one[table] for of_one in each))
        for text in sorted(wanted ^ rows):
            row = json.loads(text)
            what = row.get("rebalance_id") or row.get("finding_id") or row.get("reassignment_id") or row["connector"]
            lines.append(f"{table} {row['cluster_id']} {what}: {'only alone' if text in wanted else 'only together'}")
    return lines


def orders(folders: Sequence[EvidenceFolder]) -> dict[str, Parts]:
    """Three ways for the same evidence to come."""
    third = -(-len(folders) // 3)
    parts = [folders[at : at + third] for at in range(0, len(folders), third)]
    return {"all at once": [folders], "in three parts": parts, "in three parts, the last first": parts[::-1]}


# ---- the command


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("captures", nargs="*", type=Path, help="default: golden, in not_yet and below captures/")
    arguments.add_argument("--order", type=int, choices=(1, 2, 3), help="all at once, in parts, or these last first")
    arguments.add_argument("--cores", type=int, help="only this number of cores (default: 2, 1 and 4)")
    arguments.add_argument("--copies", type=int, default=COPIES, help="of each capture (default: %(default)s)")
    asked = arguments.parse_args()
    captures = asked.captures or kept()
    if asked.cores is None:  # a session's cores cannot be changed: a process for each number
        again = [sys.executable, "-m", "tests.spark_jobs.unions", *map(str, captures), "--copies", str(asked.copies)]
        again += ["--order", str(asked.order)] if asked.order else []
        return max(
            subprocess.run(
                [*again, "--cores", str(cores)], check=False, env=os.environ | {"SPARK_MASTER": f"local[{cores}]"}
            ).returncode
            for cores in (2, 1, 4)
        )
    os.environ.setdefault("SPARK_MASTER", f"local[{asked.cores}]")
    folders = as_clusters(captures, asked.copies)
    expected = [alone(folder) for folder in folders]
    wrong = 0
    ways = list(zip(orders(folders).items(), (parcel_plan.BUCKET_BYTES, 32 << 10, 1 << 20), strict=True))
    for (order, parts), bucket_bytes in ways if asked.order is None else ways[asked.order - 1 : asked.order]:
        parcel_plan.BUCKET_BYTES = bucket_bytes  # small ones cut groups, too
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rebalance-audit-union-") as scratch:
            found = differences(together(parts, Path(scratch)), expected)
        wrong += len(found)
        took_s = time.monotonic() - started
        print(f"{len(folders)} clusters {order}, {asked.cores} cores, buckets of {bucket_bytes >> 10} KiB: ", end="")
        print(f"{len(found)} differences, {took_s:.0f} s", *found[:40], sep="\n   ", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
