"""`run`: all stages over what is new. `watch`: collecting, running and alerting, until it is stopped."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.collect import (
    FollowedMetadata,
    Metadata,
    NewClusterId,
    collect_settings,
    collects,
    metadata_followed,
    until_stopped,
)
from rebalance_audit.commands.meter import stages
from rebalance_audit.commands.options import UsageError
from rebalance_audit.commands.output import note
from rebalance_audit.commands.report import send
from rebalance_audit.domain.kinds import Severity

if TYPE_CHECKING:
    from ingest.collector import CollectSettings
    from spark_jobs.pipeline import RunOutcome

RETRY_S = 10.0


def run(
    warehouse: options.Warehouse,
    stage: Annotated[list[str] | None, typer.Option("--stage", metavar="STAGE", help="Only this stage.")] = None,
    check: Annotated[
        list[str] | None,
        typer.Option("--check", metavar="STAGE", help="Run nothing; check what this stage has written."),
    ] = None,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Leave the checks to a later `run --check`; publish is always checked.")
    ] = False,
    engine: options.EngineChoice = options.EngineName.AUTO,
    spark_from: options.SparkFrom = options.SPARK_FROM,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Run the stages over everything new. In order: bronze, decode, reconstruct, measure, reassign, detect, publish."""
    from rebalance_audit.warehouse.warehouse import Warehouse
    from spark_jobs.plan import BY_NAME

    if unknown := [name for name in [*(stage or []), *(check or [])] if name not in BY_NAME]:
        raise UsageError(f"There is no stage {', '.join(unknown)}; stages are {', '.join(BY_NAME)}.")
    if stage and check:
        raise UsageError("Give either --stage or --check, not both.")
    carried = Carried(engine.value, options.size_bytes(spark_from), stage_settings(config))
    opened = Warehouse.open(warehouse)
    if check:
        check_stages(opened, check, quiet=quiet)
        return
    started = time.monotonic()
    note(carried.sentence, quiet=quiet)
    outcome = run_stages(opened, stage, carried, is_checked=not no_check, quiet=quiet)
    tell_outcome(outcome, time.monotonic() - started, quiet=quiet)


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
) -> RunOutcome:
    from spark_jobs import pipeline
    from spark_jobs.plan import STAGES

    wanted = [s.name for s in STAGES if names is None or s.name in names]
    carried = carried or Carried()
    how: dict[str, Any] = {
        "engine": carried.engine, "spark_from_bytes": carried.spark_from_bytes, "settings": carried.settings
    }  # fmt: skip
    with stages(wanted, quiet=quiet) as progress:
        if is_checked or wanted == ["publish"]:
            return pipeline.run(opened, wanted, progress, **how)
        before = [name for name in wanted if name != "publish"]
        outcome = pipeline.run(opened, before, progress, with_quality=False, **how)
        if "publish" in wanted:
            published = pipeline.run(opened, ["publish"], progress, **how)
            outcome.ms_by_stage |= published.ms_by_stage
            outcome.rows_written |= published.rows_written
        return outcome


def check_stages(opened: Any, names: list[str], *, quiet: bool) -> None:
    """The suites of every table these stages write, over all their rows. Raises QualityError naming the rows."""
    from spark_jobs.checks import Books, refuse_broken
    from spark_jobs.plan import BY_NAME
    from spark_jobs.quality import suite_verdicts
    from spark_jobs.session import open_session

    with opened.lease("check"):
        session, books = open_session(), Books(opened)
        try:
            for name in names:
                for table in BY_NAME[name].writes:
                    version = opened.version(table)
                    if version is not None:
                        verdicts = suite_verdicts(session, table, opened.files(table), f"check:{table}@{version}")
                        books.note(verdicts)
                        refuse_broken(table, verdicts)
                        note(f"{table}: holds", quiet=quiet)
        finally:
            books.write()


def tell_outcome(outcome: RunOutcome, took_s: float, *, quiet: bool) -> None:
    if not outcome.ms_by_stage:
        note("Nothing new; the tables are as they were.", quiet=quiet)
        return
    written = ", ".join(f"{count:,} {name}" for name, count in outcome.rows_written.items() if count)
    note(f"Done in {took_s:.1f} s: {written or 'no rows changed'}.", quiet=quiet)


def watch(
    warehouse: options.Warehouse,
    bootstrap: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    overrides: options.Overrides = None,
    logs: options.Logs = None,
    metadata: Metadata = None,
    topics: options.ConnectTopics = None,
    cluster_id: NewClusterId = None,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Run the stages this often.")] = "10s",
    to: Annotated[list[str] | None, typer.Option("--to", metavar="URL", help="Alert there; repeatable.")] = None,
    engine: options.EngineChoice = options.EngineName.AUTO,
    spark_from: options.SparkFrom = options.SPARK_FROM,
    quiet: options.Quiet = False,
    config: options.Config = None,
    cluster: options.Cluster = None,
) -> None:
    """Collect, run and alert until Ctrl-C, over and over."""
    from rebalance_audit.warehouse.warehouse import Warehouse

    every_s = options.duration_ms(every) / 1000
    settings = collect_settings(
        bootstrap, command_config, overrides, logs, topics, cluster_id=cluster_id, flush_ms=int(min(every_s, 2) * 1000)
    )
    followed = metadata_followed(metadata, settings.client_config, cluster_id)
    carried = Carried(engine.value, options.size_bytes(spark_from), stage_settings(config))
    opened = Warehouse.open(warehouse, create=True)
    note(carried.sentence, quiet=quiet)
    with until_stopped() as stopped:
        follow(
            opened, settings, stopped, carried, every_s=every_s, alert_to=to or [], quiet=quiet, followed=followed
        )  # fmt: skip


def follow(
    opened: Any,
    settings: CollectSettings,
    stopped: threading.Event,
    carried: Carried | None = None,
    *,
    every_s: float,
    alert_to: list[str],
    quiet: bool,
    followed: FollowedMetadata | None = None,
) -> None:
    """One thread collects, this one runs the stages. Raises what the collector cannot mend; ends the session."""
    from ingest.landing import Landing
    from rebalance_audit.warehouse.warehouse import WarehouseError

    if followed is not None:
        settings = replace(settings, cluster_id=followed.cluster_id)
        followed.start(Landing(opened.location), stopped, quiet=quiet)
    collector = _Collecting(settings, opened.location, stopped, quiet=quiet)
    if followed is None or collects(settings):
        collector.start()
    try:
        seen: list[str] | None = None
        while not stopped.is_set():
            next_at = time.monotonic() + every_s
            landed = [name for noun in ("record", "log_line", "source") for name in opened.landed(noun)]
            if landed != seen:
                started = time.monotonic()
                try:
                    outcome = run_stages(opened, None, carried, quiet=True)
                except WarehouseError as error:  # somebody else writes; they will end
                    note(f"{error} Trying again in {every_s:.0f} s.", quiet=quiet)
                    stopped.wait(every_s)
                    continue
                seen = landed
                if outcome.ms_by_stage:
                    tell_outcome(outcome, time.monotonic() - started, quiet=quiet)
                    if alert_to:
                        send(opened, alert_to, Severity.WARNING, quiet=quiet)
            for failure in (collector.failure, followed and followed.failure):
                if failure:
                    raise failure
            stopped.wait(max(0.0, next_at - time.monotonic()))
    finally:
        stopped.set()
        if collector.ident is not None:
            collector.join()
        _end_spark()
        if followed is not None:
            followed.wait()


def _end_spark() -> None:
    """If some news were large enough to start it."""
    if "spark_jobs.session" in sys.modules:
        from spark_jobs.session import end_session

        end_session()


class _Collecting(threading.Thread):
    """Collects until stopped; a broker that is away is asked again."""

    def __init__(self, settings: CollectSettings, location: str, stopped: threading.Event, *, quiet: bool) -> None:
        super().__init__(name="collect", daemon=True)
        self._settings, self._location, self._stopped, self._quiet = settings, location, stopped, quiet
        self.failure: Exception | None = None

    def run(self) -> None:
        from ingest.collector import collect
        from ingest.errors import Retryable
        from ingest.landing import Landing

        while not self._stopped.is_set():
            try:
                collect(
                    self._settings, Landing(self._location), stop=self._stopped.is_set,
                    report=lambda line: note(line, quiet=self._quiet),
                )  # fmt: skip
            except Retryable as error:
                note(f"{error} Trying again in {RETRY_S:.0f} s.", quiet=self._quiet)
                self._stopped.wait(RETRY_S)
            except Exception as error:  # the main thread says it
                self.failure = error
                return
