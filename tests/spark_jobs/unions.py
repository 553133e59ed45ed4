"""The law of unions: a group's rows are the same whatever else is in the warehouse, and `explain` says the same.

    python -m tests.spark_jobs.unions [CAPTURE…]     all golden captures together: three orders, several numbers of cores
                                                     and sizes of buckets (`make unions`)

What a group gets alone is told without Spark and without a warehouse, from its own capture: as `explain` does it.
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
from rebalance_audit.arrow_tables import rows_to_table
from rebalance_audit.commands.demo import cluster_name
from rebalance_audit.commands.explain_reassignment import history_of
from rebalance_audit.domain import tables
from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.evidence import gather
from rebalance_audit.domain.measure import measure
from rebalance_audit.domain.model import to_row
from rebalance_audit.domain.reassign import reassignment_row
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.warehouse import Warehouse
from spark_jobs import parcels, pipeline
from tests.captures import CAPTURES
from tests.spark_jobs.arrivals import deliver, landed

REBALANCES, TASKS, REASSIGNMENTS = "silver.measured_rebalance", "silver.connect_task", "silver.reassignment"
FINDINGS = "silver.finding"
Told = dict[str, set[str]]
"""By table its rows as text."""
Unions = Sequence[Sequence[Path]]
"""Captures in the order in which they come; those of one part come together."""


def alone(capture: Path) -> Told:
    """The rows of one capture's groups and partitions by themselves."""
    (folder,) = as_clusters([capture])
    evidence = read_evidence(folder)
    nodes = sorted({node for node, _ in folder.log_files})
    zones = dict.fromkeys(nodes, folder.log_time_zone) if folder.log_time_zone else {}
    gathered = gather(evidence.records(), evidence.lines(), zones)
    rows: dict[str, list[dict[str, Any]]] = {REBALANCES: [], TASKS: [], FINDINGS: []}
    until_ms = _until_ms(capture)
    for group in gathered.groups:
        found = reconstruct(group)
        measured = [measure(rebalance) for rebalance in found.rebalances]
        rows[REBALANCES] += [to_row(rebalance) | {"place": place} for place, rebalance in enumerate(measured)]
        rows[TASKS] += map(to_row, found.connect_tasks)
        findings = detect_group(measured, found.connect_tasks, seen_until_ms=until_ms)
        rows[FINDINGS] += [to_row(finding) | {"group_id": group.group_id} for finding in findings]
    rows[REASSIGNMENTS] = [reassignment_row(r) for r in history_of(folder, lambda *_: None).reassignments]
    return {table: set(_texts(table, rows_to_table(table, of_table))) for table, of_table in rows.items()}


def _until_ms(capture: Path) -> int | None:
    """The end of the capture's evidence, as a warehouse with nothing else in it knows it."""
    with tempfile.TemporaryDirectory(prefix="rebalance-audit-union-") as scratch:
        source = landed(as_clusters([capture]), Path(scratch))
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


def as_clusters(captures: Iterable[Path]) -> list[EvidenceFolder]:
    """Each a cluster of its own as in the demo: some captures share a cluster's id."""
    return [open_folder(capture, cluster_id=cluster_name(capture)) for capture in captures]


def together(parts: Unions, folder: Path, spark: Any = None) -> Told:
    """The rows of these captures from one warehouse, which sees one part after the other."""
    warehouse = Warehouse.open(folder / "warehouse", create=True)
    for at, part in enumerate(parts):
        deliver(warehouse, f"part-{at}", landed(as_clusters(part), folder / f"landing-{at}"))
        pipeline.run(warehouse, spark=spark, with_quality=False)
    found = {}
    for table in (REBALANCES, TASKS, REASSIGNMENTS, FINDINGS):
        rows = warehouse.read(table)
        if table == FINDINGS:  # those about the evidence itself, and about partitions, are not explain's of a group
            rows = rows.filter(pc.is_valid(rows["group_id"]))
        found[table] = set(_texts(table, rows))
    return found


def _texts(table: str, rows: pa.Table) -> list[str]:
    columns = [column.name for column in tables.BY_NAME[table].columns]
    return [json.dumps(row, sort_keys=True, default=repr) for row in rows.select(columns).to_pylist()]


def differences(captures: Sequence[Path], found: Told, expected: dict[Path, Told]) -> list[str]:
    """One line per table and cluster whose rows are not those it gets alone."""
    told = []
    for table, rows in found.items():
        wanted = set().union(*(expected[capture].get(table, set()) for capture in captures))
        for text in sorted(wanted ^ rows):
            row = json.loads(text)
            what = row.get("rebalance_id") or row.get("finding_id") or row.get("reassignment_id") or row["connector"]
            told.append(f"{table} {row['cluster_id']} {what}: {'only alone' if text in wanted else 'only together'}")
    return told


def orders(captures: Sequence[Path]) -> dict[str, Unions]:
    """Three ways for the same evidence to come."""
    third = -(-len(captures) // 3)
    parts = [captures[at : at + third] for at in range(0, len(captures), third)]
    return {"all at once": [captures], "in three parts": parts, "in three parts, the last first": parts[::-1]}


# ---- the command


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    arguments.add_argument("captures", nargs="*", type=Path, help="default: all golden ones")
    arguments.add_argument("--cores", type=int, help=argparse.SUPPRESS)
    asked = arguments.parse_args()
    captures = asked.captures or CAPTURES
    if asked.cores is None:  # a session's cores cannot be changed: a process for each number
        again = [sys.executable, "-m", "tests.spark_jobs.unions", *map(str, captures)]
        return max(
            subprocess.run(
                [*again, "--cores", str(cores)], check=False, env=os.environ | {"SPARK_MASTER": f"local[{cores}]"}
            ).returncode
            for cores in (2, 1, 4)
        )
    expected = {capture: alone(capture) for capture in captures}
    wrong = 0
    for (order, parts), bucket_bytes in zip(
        orders(captures).items(), (parcels.BUCKET_BYTES, 32 << 10, 1 << 20), strict=True
    ):
        parcels.BUCKET_BYTES = bucket_bytes  # small ones cut groups, too
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rebalance-audit-union-") as scratch:
            told = differences(captures, together(parts, Path(scratch)), expected)
        wrong += len(told)
        took_s = time.monotonic() - started
        print(f"{len(captures)} captures {order}, {asked.cores} cores, buckets of {bucket_bytes >> 10} KiB: ", end="")
        print(f"{len(told)} differences, {took_s:.0f} s", *told[:40], sep="\n   ", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
