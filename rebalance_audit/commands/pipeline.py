"""`run`: all stages over what is new."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.meter import stages
from rebalance_audit.commands.options import UsageError
from rebalance_audit.commands.output import note
from rebalance_audit.commands.outward import outward
from rebalance_audit.cycles import seldom_cycle_search

if TYPE_CHECKING:
    from spark_jobs.pipeline import RunOutcome

_ASKED_FOR = ("rebalance", "incident", "finding", "reassignment")
"""What people look for after a run, by its table in gold."""


@seldom_cycle_search()  # the imports, too, make hardly a cycle: a twentieth of a short run
def run(
    warehouse: options.Warehouse,
    stage: Annotated[list[str] | None, typer.Option("--stage", metavar="STAGE", help="Only this stage.")] = None,
    check: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="STAGE", help="Run nothing; check what this stage has written."),
    ] = None,
    no_check: Annotated[
        bool,
        typer.Option(
            "--no-check", help="Leave the checks to a later `run --check`; bronze and publish are always checked."
        ),
    ] = False,
    again: Annotated[
        bool,
        typer.Option("--again", help="Work out all that the tables say once more, as after an upgrade."),
    ] = False,
    engine: options.EngineChoice = options.EngineName.AUTO,
    spark_from: options.SparkFrom = options.SPARK_FROM,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Run the stages over everything new. In order: bronze, decode, reconstruct (which measures), reassign, detect,
    publish."""
    from rebalance_audit.warehouse.warehouse import Warehouse
    from rebalance_audit.warehouse.worked_out import by_another_release
    from spark_jobs.plan import BY_NAME

    if unknown := [name for name in [*(stage or []), *(check or [])] if name not in BY_NAME]:
        raise UsageError(f"There is no stage {', '.join(unknown)}; stages are {', '.join(BY_NAME)}.")
    if stage and check:
        raise UsageError("Give either --stage or --check, not both.")
    if again and (stage or check):
        raise UsageError("--again is for all stages: give it without --stage and --check.")
    carried = Carried(engine.value, options.size_bytes(spark_from), stage_settings(config))
    receivers = outward(config) if stage is None or "publish" in stage else None
    opened = Warehouse.open(warehouse)
    if check:
        check_stages(opened, check, quiet=quiet)
        return
    started = time.monotonic()
    note(carried.sentence, quiet=quiet)
    if not again and (sentence := by_another_release(opened)):
        note(sentence, quiet=quiet)
    outcome = run_stages(opened, stage, carried, is_checked=not no_check, quiet=quiet, again=again)
    print_outcome(outcome, time.monotonic() - started, quiet=quiet)
    for sentence in receivers.send(opened) if receivers is not None else ():
        note(sentence)


ALWAYS_CHECKED = ("bronze", "publish")
"""Stages that are checked always: no later check could take back what bronze took in or what people have read."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The engine that runs the stages, and its settings."""

    engine: str = options.EngineName.AUTO.value
    spark_from_bytes: int = options.size_bytes(options.SPARK_FROM)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Limits and teams, as `spark_jobs.pipeline.run` takes them."""

    @property
    def sentence(self) -> str:
        if self.engine == options.EngineName.AUTO.value:
            return f"News of less than {self.spark_from_bytes:,} bytes runs in this process, more in Spark."
        return "Everything runs in this process." if self.engine == "local" else "Everything runs in Spark."


def stage_settings(config: str | None) -> dict[str, Any]:
    """The settings file's part for the stages. Raises SettingsError."""
    if config is None:
        return {}
    from rebalance_audit.settings.choices import for_pipeline

    return for_pipeline(options.settings(config))


def run_stages(
    opened: Any,
    names: list[str] | None = None,
    carried: Carried | None = None,
    *,
    is_checked: bool = True,
    quiet: bool,
    reached: Callable[[str], None] | None = None,
    may_wait: bool = False,
    again: bool = False,
) -> RunOutcome:
    """Run the stages under the lease. `reached`: called after every commit; what it raises ends the run there, as a
    crash would. `may_wait`, `again`: as in `pipeline.run`."""
    from spark_jobs import pipeline
    from spark_jobs.plan import STAGES

    wanted = [s.name for s in STAGES if names is None or s.name in names]
    carried = carried or Carried()
    how: dict[str, Any] = {
        "engine": carried.engine, "spark_from_bytes": carried.spark_from_bytes, "settings": carried.settings,
        "reached": reached, "may_wait": may_wait, "again": again,
    }  # fmt: skip
    with stages(wanted, quiet=quiet) as progress:
        if is_checked:
            return pipeline.run(opened, wanted, progress, **how)
        outcome = pipeline.RunOutcome()
        for checked, some in groupby(wanted, key=ALWAYS_CHECKED.__contains__):
            of_these = pipeline.run(opened, list(some), progress, with_quality=checked, **how)
            outcome.ms_by_stage |= of_these.ms_by_stage
            outcome.rows_written |= of_these.rows_written
            outcome.put_aside += of_these.put_aside
        return outcome


def check_stages(opened: Any, names: list[str], *, quiet: bool) -> None:
    """Run the suites of every table that these stages write, over all their rows. Raises QualityError with the rows."""
    from spark_jobs.checks import Books, refuse_broken
    from spark_jobs.plan import BY_NAME
    from spark_jobs.quality import whole_table_verdicts

    with opened.lease("check"):
        books = Books(opened)
        try:
            for name in names:
                for table in BY_NAME[name].writes:
                    version = opened.version(table)
                    if version is not None:
                        verdicts = whole_table_verdicts(table, opened.files(table), f"check:{table}@{version}")
                        books.note(verdicts)
                        refuse_broken(table, verdicts)
                        note(f"{table}: holds", quiet=quiet)
                        books.note([
                            {"batch_id": f"check:{table}@{version}", **found}
                            for found in usual_verdicts(opened) if found["table_name"] == table
                        ])  # fmt: skip
        finally:
            books.write()


def usual_verdicts(opened: Any) -> list[dict[str, Any]]:
    """Whether as much comes into the tables, and as often, as in the days before."""
    from rebalance_audit.domain.publish.volumes import verdicts
    from spark_jobs.pipeline import VOLUMES

    return verdicts(opened.recall(VOLUMES), time.time_ns() // 1_000_000)


def print_outcome(outcome: RunOutcome, took_s: float, *, quiet: bool) -> None:
    for sentence in outcome.put_aside:
        note(sentence)
    if not outcome.ms_by_stage:
        note("Nothing new; the tables are as they were.", quiet=quiet)
        return
    note(f"Done in {took_s:.1f} s: {_written(outcome.rows_written)}.", quiet=quiet)


def _written(rows: Mapping[str, int]) -> str:
    """How many rows the tables that people ask for got, and how many tables more got some."""
    from rebalance_audit.domain.detect.wording import counted

    changed = {name: count for name, count in rows.items() if count}
    named = [f"{counted(changed.pop(f'gold.{name}'), name)}" for name in _ASKED_FOR if changed.get(f"gold.{name}")]
    more = "more " if named else ""
    others = f"rows in {counted(len(changed), f'{more}table')}"
    return " and ".join(filter(None, (", ".join(named), others if changed else ""))) or "no rows changed"
