"""`run`: all stages over what is new. `watch`: collecting, running and alerting, until it is stopped."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
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
    quiet: options.Quiet = False,
) -> None:
    """Run the stages over everything new. In order: bronze, decode, reconstruct, measure, reassign, detect, publish."""
    from rebalance_audit.warehouse.warehouse import Warehouse
    from spark_jobs.plan import BY_NAME

    if unknown := [name for name in [*(stage or []), *(check or [])] if name not in BY_NAME]:
        raise UsageError(f"There is no stage {', '.join(unknown)}; stages are {', '.join(BY_NAME)}.")
    if stage and check:
        raise UsageError("Give either --stage or --check, not both.")
    opened = Warehouse.open(warehouse)
    if check:
        check_stages(opened, check, quiet=quiet)
        return
    started = time.monotonic()
    outcome = run_stages(opened, stage, is_checked=not no_check, quiet=quiet)
    tell_outcome(outcome, time.monotonic() - started, quiet=quiet)


def run_stages(
    opened: Any, names: list[str] | None = None, *, is_checked: bool = True, quiet: bool, spark: Any = None
) -> RunOutcome:
    from spark_jobs import pipeline
    from spark_jobs.plan import STAGES

    wanted = [s.name for s in STAGES if names is None or s.name in names]
    with stages(wanted, quiet=quiet) as progress:
        if is_checked or wanted == ["publish"]:
            return pipeline.run(opened, wanted, progress, spark=spark)
        before = [name for name in wanted if name != "publish"]
        outcome = pipeline.run(opened, before, progress, spark=spark, with_quality=False)
        if "publish" in wanted:
            published = pipeline.run(opened, ["publish"], progress, spark=spark)
            outcome.ms_by_stage |= published.ms_by_stage
            outcome.rows_written |= published.rows_written
        return outcome


def check_stages(opened: Any, names: list[str], *, quiet: bool) -> None:
    """The suites of every table these stages write, over all their rows. Raises QualityError naming the rows."""
    from spark_jobs.plan import BY_NAME
    from spark_jobs.quality import check
    from spark_jobs.session import open_session
    from spark_jobs.stages.stage import Run

    with opened.lease("check"):
        session = open_session()
        context = Run(warehouse=opened, open_spark=lambda: session)
        for name in names:
            for table in BY_NAME[name].writes:
                version = opened.version(table)
                if version is not None:
                    check(opened, table, context.scan(table), f"check:{table}@{version}")
                    note(f"{table}: holds", quiet=quiet)


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
    quiet: options.Quiet = False,
) -> None:
    """Collect, run and alert until Ctrl-C, over and over."""
    from rebalance_audit.warehouse.warehouse import Warehouse

    every_s = options.duration_ms(every) / 1000
    settings = collect_settings(
        bootstrap, command_config, overrides, logs, topics, cluster_id=cluster_id, flush_ms=int(min(every_s, 2) * 1000)
    )
    followed = metadata_followed(metadata, settings.client_config, cluster_id)
    opened = Warehouse.open(warehouse, create=True)
    session = start_spark()
    with until_stopped() as stopped:
        follow(opened, settings, session, stopped, every_s=every_s, alert_to=to or [], quiet=quiet, followed=followed)


def start_spark() -> Any:
    """A session for many runs. Before `until_stopped`: PySpark takes Ctrl-C for itself when it starts."""
    from spark_jobs.session import open_session

    return open_session()


def follow(
    opened: Any,
    settings: CollectSettings,
    session: Any,
    stopped: threading.Event,
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
                    outcome = run_stages(opened, quiet=True, spark=session)
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
        session.stop()
        if followed is not None:
            followed.wait()


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
