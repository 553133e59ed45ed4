"""A run of the stages over what is new. Imported without Spark, which starts when a stage has something to do."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rebalance_audit.cycles import seldom_cycle_search
from rebalance_audit.domain.publish.volumes import FOLLOWED, noted
from rebalance_audit.warehouse.spreading import in_this_process
from rebalance_audit.warehouse.warehouse import Warehouse
from rebalance_audit.warehouse.worked_out import note_this_release
from spark_jobs import kept_folds, kept_footers
from spark_jobs.engine import SPARK_FROM_BYTES, LocalEngine
from spark_jobs.plan import BRONZE, BY_NAME, DECODE, PUBLISH, STAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_jobs.checks import Books
    from spark_jobs.stages.stage import Gate, Run

VOLUMES = "volumes"
"""The note with how much came into each table by day (`domain.publish.volumes`)."""


@dataclass(slots=True)
class RunOutcome:
    """The work of a run. A stage with nothing new is absent."""

    ms_by_stage: dict[str, int] = field(default_factory=dict)
    rows_written: dict[str, int] = field(default_factory=dict)
    put_aside: list[str] = field(default_factory=list)
    """Sentences about landing files that went to the quarantine."""
    is_complete: bool = True
    """Whether nothing was left to a later run."""


def run(
    warehouse: Warehouse | str,
    stages: Sequence[str] | None = None,
    progress: Callable[[str, str], None] | None = None,
    *,
    spark: SparkSession | None = None,
    settings: Mapping[str, Any] | None = None,
    with_quality: bool = True,
    reached: Callable[[str], None] | None = None,
    engine: str = "auto",
    spark_from_bytes: int = SPARK_FROM_BYTES,
    may_wait: bool = False,
    again: bool = False,
) -> RunOutcome:
    """Run the stages (default: all, in order) over what is new, as the warehouse's one writer.

    `progress(stage, "started" | "ended" | "nothing new")`. `engine`: one of ENGINES; with `auto` each stage runs in
    this process, unless its news has `spark_from_bytes` or more. Spark starts when a stage asks for it; `spark` is its
    session, if there is one.
    `reached(point)` is called after every commit. `may_wait`: commits of groups that nobody waits for may be left to a
    later run, and what rules and incidents say of groups in a long storm. `again`: each stage from `reconstruct` on
    works on all that its inputs hold, once it has worked on what is new.
    Raises WarehouseError if another process writes, QualityError if a fatal law does not hold: nothing of the stage
    that broke it is committed, and readers keep what they had. A landing file that breaks one is put aside instead.
    """
    unknown = [name for name in stages or () if name not in BY_NAME]
    if unknown:
        raise ValueError(f"There is no stage {', '.join(unknown)}; stages are {', '.join(BY_NAME)}.")
    wanted = STAGES if stages is None else [BY_NAME[name] for name in stages]
    opened = warehouse if isinstance(warehouse, Warehouse) else Warehouse.open(warehouse)
    report = progress or (lambda stage, what: None)
    outcome = RunOutcome()
    with writing_run(
        opened,
        spark=spark,
        settings=settings,
        with_quality=with_quality,
        reached=reached,
        engine=engine,
        spark_from_bytes=spark_from_bytes,
    ) as context:
        context.may_wait = may_wait
        if opened.version("silver.measured_rebalance") is None:
            note_this_release(opened)
        outcome.rows_written, outcome.put_aside = context.rows_written, context.put_aside
        for stage in STAGES:
            if stage not in wanted:
                continue
            module = importlib.import_module(stage.module)
            started = time.monotonic()
            report(stage.name, "started")
            context.repeats = False
            did = bool(module.run(context))
            if context.repeats:
                did |= bool(module.run(context))
            if again and stage not in (BRONZE, DECODE):
                context.again = True
                did |= bool(module.run(context))
                context.again = False
            report(stage.name, "ended" if did else "nothing new")
            if did:
                outcome.ms_by_stage[stage.name] = int((time.monotonic() - started) * 1000)
        outcome.is_complete = context.awaited is None and not context.has_left
        if again and PUBLISH in wanted:
            note_this_release(opened)
        for table, row_count in sorted(context.rows_written.items()):
            if opened.join_small_files(table, written_rows=row_count):
                context.reached(f"{table}:joined")
        if outcome.ms_by_stage:
            ended_at_ms = time.time_ns() // 1_000_000
            opened.remember("last_run", {**asdict(outcome), "ended_at_ms": ended_at_ms})
            if not FOLLOWED.isdisjoint(outcome.rows_written):
                opened.remember(VOLUMES, noted(opened.recall(VOLUMES), outcome.rows_written, ended_at_ms))
            kept_footers.keep(opened)
            kept_folds.keep(opened)
    return outcome


@contextmanager
def writing_run(
    warehouse: Warehouse,
    *,
    spark: SparkSession | None = None,
    settings: Mapping[str, Any] | None = None,
    with_quality: bool = True,
    reached: Callable[[str], None] | None = None,
    engine: str = "auto",
    spark_from_bytes: int = SPARK_FROM_BYTES,
    lease: AbstractContextManager[None] | None = None,
) -> Iterator[Run]:
    """Be the warehouse's one writer; what is committed is checked, and the verdicts are kept. `lease`: who may have to
    wait brings it along."""
    try:
        with lease or warehouse.lease("run"), seldom_cycle_search():
            warehouse.clear_staging()
            kept_footers.recall(warehouse)
            from spark_jobs.checks import Books
            from spark_jobs.stages.stage import Run, open_gate

            context = Run(
                warehouse=warehouse,
                open_spark=_spark_opener(spark),
                settings=settings or {},
                reached=reached or (lambda point: None),
                engine=engine,
                spark_from_bytes=spark_from_bytes,
            )
            warehouse.spread_of = context.spread_of
            books = Books(warehouse)
            context.gate = _quality_gate(context, books) if with_quality else open_gate
            try:
                yield context
            finally:
                books.write()
    finally:
        warehouse.spread_of = in_this_process


def _spark_opener(spark: SparkSession | None) -> Callable[[], SparkSession]:
    def opener() -> SparkSession:
        nonlocal spark
        if spark is None:
            from spark_jobs.session import open_session

            spark = open_session()
        return spark

    return opener


def _quality_gate(context: Run, books: Books) -> Gate:
    """Laws as one query; of what is large as one in each task. Of few rows each commit would otherwise take a job of
    Spark."""

    def gate(table: str, rows: pa.Table | Sequence[str], batch_id: str) -> None:
        from spark_jobs.alike import verdicts_in_tasks, verdicts_in_this_process
        from spark_jobs.checks import refuse_broken
        from spark_jobs.stages.stage import size_of

        is_small = isinstance(rows, pa.Table) or sum(map(size_of, rows)) < context.spark_from_bytes
        if is_small or isinstance(engine := context.engine_for(rows), LocalEngine):
            verdicts = verdicts_in_this_process(table, rows, batch_id)
        else:
            verdicts = verdicts_in_tasks(engine, table, rows, batch_id)
        books.note(verdicts)
        refuse_broken(table, verdicts)

    return gate
