"""A run of the stages over what is new. Imported without Spark, which starts when a stage has something to do."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.plan import BY_NAME, STAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def landing_application(noun: str, file: str) -> str:
    """The transaction id by which bronze remembers that it took in a landing file."""
    return f"landing:{noun}/{file.rpartition('/')[2]}"


@dataclass(slots=True)
class RunOutcome:
    """What a run did. A stage with nothing new did nothing, and says so by absence."""

    ms_by_stage: dict[str, int] = field(default_factory=dict)
    rows_written: dict[str, int] = field(default_factory=dict)


def run(
    warehouse: Warehouse | str,
    stages: Sequence[str] | None = None,
    progress: Callable[[str, str], None] | None = None,
    *,
    spark: SparkSession | None = None,
    settings: Mapping[str, Any] | None = None,
    with_quality: bool = True,
    reached: Callable[[str], None] | None = None,
) -> RunOutcome:
    """Run the stages (default: all, in order) over what is new, as the warehouse's one writer.

    `progress(stage, "started" | "ended" | "nothing new")`. Spark starts only if a stage has something to do.
    `reached(point)` is called after every commit.
    Raises WarehouseError if another process writes, QualityError if a fatal law does not hold: nothing of the stage
    that broke it is committed, and readers keep what they had.
    """
    wanted = [stage.name for stage in STAGES] if stages is None else list(stages)
    unknown = [name for name in wanted if name not in BY_NAME]
    if unknown:
        raise ValueError(f"There is no stage {', '.join(unknown)}; stages are {', '.join(BY_NAME)}.")
    opened = warehouse if isinstance(warehouse, Warehouse) else Warehouse.open(warehouse)
    tell = progress or (lambda stage, what: None)
    outcome = RunOutcome()
    with opened.lease("run"):
        opened.clear_staging()
        from spark_jobs.stages.stage import Run, open_gate

        context = Run(
            warehouse=opened,
            open_spark=_spark_opener(spark),
            settings=settings or {},
            reached=reached or (lambda point: None),
            rows_written=outcome.rows_written,
        )
        context.gate = _quality_gate(context) if with_quality else open_gate
        for stage in STAGES:
            if stage.name not in wanted:
                continue
            module = importlib.import_module(stage.module)
            started = time.monotonic()
            tell(stage.name, "started")
            did = bool(module.run(context))
            tell(stage.name, "ended" if did else "nothing new")
            if did:
                outcome.ms_by_stage[stage.name] = int((time.monotonic() - started) * 1000)
    return outcome


def _spark_opener(spark: SparkSession | None) -> Callable[[], SparkSession]:
    def opener() -> SparkSession:
        nonlocal spark
        if spark is None:
            from spark_jobs.session import open_session

            spark = open_session()
        return spark

    return opener


def _quality_gate(context: Any) -> Any:
    def gate(table: str, data: Any, batch_id: str) -> None:
        from spark_jobs.quality import check  # Great Expectations takes seconds to import

        check(context.warehouse, table, data, batch_id)

    return gate
