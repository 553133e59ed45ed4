"""The way of the data through the tables: each stage, what it reads and what it writes. Readable without Spark.

landing ─ bronze ─ decode ─ reconstruct and measure ─ reassign ─ detect ─ publish ─ readers

The stages take their inputs and outputs from here, so that the plan cannot differ from what they do.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    name: str
    module: str
    reads: tuple[str, ...]
    """Tables whose new rows are its work: without any, it has nothing to do."""
    writes: tuple[str, ...]
    """In this order. The last one has every batch that is done; the others, those that changed them. Marks alone may be
    behind what decode has done (`spark_jobs.commits.waiting`)."""
    looks_up: tuple[str, ...] = ()
    """Tables that it reads as well, as they stand when it runs."""
    law: str


BRONZE = Stage(
    name="bronze",
    module="spark_jobs.stages.bronze",
    reads=(),  # landing files
    writes=("bronze.record", "bronze.log_line", "bronze.source"),
    law="repeats collapse only if key, value, timestamp and headers agree; if they differ both stay",
)
DECODE = Stage(
    name="decode",
    module="spark_jobs.stages.decode",
    reads=("bronze.record", "bronze.log_line"),
    writes=("silver.group_event", "silver.undecoded", "silver.decode_count", "silver.commit_mark"),
    law="rows in = events + commits + undecoded + skipped, per record type",
)
RECONSTRUCT = Stage(
    name="reconstruct",
    module="spark_jobs.stages.reconstruct",
    reads=("silver.group_event", "silver.commit_mark", "bronze.source"),
    looks_up=("bronze.record",),  # topics' names, in the metadata log
    writes=(
        "silver.measured_rebalance",
        "silver.connect_task",
        "silver.contradiction",
        "silver.reopening",
        "silver.checkpoint",  # last: it is what the next fold starts from
    ),
    law="any order of arrival and any cut into batches give the same rows; what cannot be known is null, never 0",
)
REASSIGN = Stage(
    name="reassign",
    module="spark_jobs.stages.reassign",
    reads=("bronze.record", "bronze.log_line", "silver.group_event", "bronze.source"),
    writes=(
        "silver.reassignment",
        "silver.reassignment_step",
        "silver.leader_election",
        "silver.partition",
        "silver.reassignment_finding",
    ),
    law="any cut, repeat and order of arrival give the same rows: a partition is folded from its first record on",
)
DETECT = Stage(
    name="detect",
    module="spark_jobs.stages.detect",
    reads=(
        "silver.measured_rebalance",
        "silver.connect_task",
        "silver.contradiction",
        "silver.undecoded",
        "silver.reassignment_finding",
        "silver.group_event",
        "bronze.record",
        "bronze.source",
    ),
    writes=("silver.judged_era", "silver.finding"),
    law="a finding names evidence; the same input gives the same finding id",
)
PUBLISH = Stage(
    name="publish",
    module="spark_jobs.stages.publish",
    reads=(
        "silver.measured_rebalance",
        "silver.connect_task",
        "silver.finding",
        "silver.reassignment",
        "silver.reassignment_step",
        "silver.leader_election",
        "silver.partition",
        "silver.group_event",
        "bronze.source",
    ),
    writes=(
        "gold.rebalance",
        "gold.rebalance_member",
        "gold.movement",
        "gold.standstill",
        "gold.connect_task",
        "gold.finding",
        "gold.group",
        "gold.coverage",
        "gold.reassignment",
        "gold.reassignment_step",
        "gold.leader_election",
        "gold.leader_move",
        "gold.incident",
        "gold.mark",
    ),
    law="publishing twice changes nothing",
)

STAGES = (BRONZE, DECODE, RECONSTRUCT, REASSIGN, DETECT, PUBLISH)
BY_NAME = {**{stage.name: stage for stage in STAGES}, "measure": RECONSTRUCT}
"""`measure` was a stage of its own until decision 0123, and whoever names it means the one that measures."""
UNLESS_UNCHANGED = frozenset(table for stage in STAGES if stage.reads for table in stage.writes[:-1]) - {
    "silver.decode_count"
}
"""Outputs that are committed only if a batch changes them. The counts of decode have each batch, as marks may not."""
