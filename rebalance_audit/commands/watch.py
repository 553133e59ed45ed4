"""`watch`: collecting, alerting and running the stages, until it is stopped; live, or in batches with `--every`."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_audit.commands import options
from rebalance_audit.commands.allocating import use_the_systems_malloc
from rebalance_audit.commands.collect import (
    FollowedMetadata,
    Metadata,
    NewClusterId,
    collect_settings,
    collects,
    metadata_followed,
    refuse_nothing,
    until_stopped,
)
from rebalance_audit.commands.output import note
from rebalance_audit.commands.outward import outward
from rebalance_audit.commands.pipeline import Carried, stage_settings
from rebalance_audit.commands.report import routes_of_teams
from rebalance_audit.commands.watching import outages
from rebalance_audit.commands.watching.live import CATCHING_UP_S, ENDING_S, LiveWatch
from rebalance_audit.commands.watching.outages import passing_sentence
from rebalance_audit.commands.watching.rounds import StageRuns
from rebalance_audit.commands.watching.sources import Collecting, SourceWatch

if TYPE_CHECKING:
    from ingest.collect_settings import CollectSettings
    from rebalance_audit.alerts.outward import Outward
    from rebalance_audit.alerts.routing import Routes

LIVE_FLUSH_MS = 5_000
"""How often commits are landed if nothing else comes with them: consumers commit every 5 s, and nobody waits for
commits."""


def watch(
    warehouse: options.Warehouse,
    bootstrap: options.Bootstrap = None,
    command_config: options.CommandConfig = None,
    overrides: options.Overrides = None,
    logs: options.Logs = None,
    metadata: Metadata = None,
    topics: options.ConnectTopics = None,
    cluster_id: NewClusterId = None,
    every: Annotated[
        str | None,
        typer.Option("--every", metavar="TIME", help="Run the stages in batches, this often, instead of on arrival."),
    ] = None,
    to: Annotated[list[str] | None, typer.Option("--to", metavar="URL", help="Alert there; repeatable.")] = None,
    stopped_after: Annotated[
        str,
        typer.Option("--stopped-after", metavar="TIME", help="Alert when a source gives no evidence for so long."),
    ] = "5m",
    engine: options.EngineChoice = options.EngineName.AUTO,
    spark_from: options.SparkFrom = options.SPARK_FROM,
    quiet: options.Quiet = False,
    config: options.Config = None,
    cluster: options.Cluster = None,
) -> None:
    """Collect, alert and run the stages on arrival. Until Ctrl-C; with --every in batches."""
    use_the_systems_malloc()
    from rebalance_audit.warehouse.warehouse import Warehouse

    for option, given in (("--every", every), ("--stopped-after", stopped_after)):
        if given is not None and options.duration_ms(given) == 0:
            raise options.UsageError(f"{option} {given} is no time at all; write it as 90s, 30m, 1h or 2d.")
    every_s = None if every is None else options.duration_ms(every) / 1000
    flush_ms = LIVE_FLUSH_MS if every_s is None else int(min(every_s, 2) * 1000)
    settings = collect_settings(
        bootstrap, command_config, overrides, logs, topics, cluster_id=cluster_id, flush_ms=flush_ms
    )
    followed = metadata_followed(metadata, settings.client_config, cluster_id)
    refuse_nothing(settings, followed)
    if to:
        from rebalance_audit.alerts.target import refuse_no_target

        refuse_no_target(to)  # else it would end at its first alert
    carried = Carried(engine.value, options.size_bytes(spark_from), stage_settings(config))
    receivers, by_team = outward(config), routes_of_teams(config)
    opened = Warehouse.open(warehouse, create=True)
    note(following(settings, followed, every), quiet=quiet)
    note(carried.sentence, quiet=quiet)
    with until_stopped() as stopped:
        follow(
            opened, settings, stopped, carried, every_s=every_s, alert_to=to or [], quiet=quiet, followed=followed,
            receivers=receivers, stopped_after_ms=options.duration_ms(stopped_after), routes=by_team,
        )  # fmt: skip


def following(settings: CollectSettings, followed: FollowedMetadata | None, every: str | None) -> str:
    """The sources that are followed, in one sentence."""
    address = settings.client_config.get("bootstrap.servers")
    parts = [f"the brokers at {address}"] if address else []
    parts += [f"{pattern} of {node}" for node, pattern in settings.logs]
    parts += [f"{folder} of {node}" for node, folder in (followed.folders.items() if followed else ())]
    how = "live: alerts on arrival, tables right after" if every is None else f"in batches, every {every}"
    return f"Following {', '.join(parts)}; {how}."


def follow(
    opened: Any,
    settings: CollectSettings,
    stopped: threading.Event,
    carried: Carried | None = None,
    *,
    every_s: float | None,
    alert_to: list[str],
    quiet: bool,
    followed: FollowedMetadata | None = None,
    receivers: Outward | None = None,
    stopped_after_ms: int = 300_000,
    routes: Routes | None = None,
) -> None:
    """One thread collects, one alerts (live), one sends to `receivers`, this one runs the stages. Raises errors that
    neither time nor another try mends; ends the session. `every_s` None: live."""
    from ingest.landing import Landing
    from rebalance_audit.alerts.outward import OutwardSender

    if followed is not None:
        settings = replace(settings, cluster_id=followed.cluster_id)
        followed.start(Landing(opened.location), stopped, is_live=every_s is None, quiet=quiet)
    sender = None if receivers is None else OutwardSender(opened.location, receivers, stopped, note)
    rounds = StageRuns(opened, carried or Carried(), alert_to, stopped, sender, quiet=quiet, routes=routes)
    is_live = every_s is None and collects(settings)
    if is_live:
        settings = replace(settings, is_live=True, is_urgent=_is_urgent)
    dog = SourceWatch(settings, opened.location, stopped, alert_to, stopped_after_ms, routes)
    try:
        while not stopped.is_set():
            live = LiveWatch(rounds, followed) if is_live else None
            collector = Collecting(settings, opened.location, stopped, live, rounds.outages, quiet=quiet)
            if followed is None or collects(settings):
                dog.looks_after(collector)
                collector.start()
            try:
                _until_failure(rounds, live, collector, followed, stopped, every_s)
            except _MemoryLost as lost:
                note(f"{lost} Trying again in {outages.RETRY_S:.0f} s.", quiet=quiet)
                stopped.wait(outages.RETRY_S)
            finally:
                collector.ended.set()
                if live is not None:
                    live.stop()
                if collector.ident is not None:
                    collector.join()
    finally:
        stopped.set()
        _end_spark()
        for thread in (dog, sender):
            if thread is not None and thread.ident is not None:
                thread.join(ENDING_S)
        if followed is not None:
            followed.wait()


class _MemoryLost(Exception):
    """The judge failed at a store that was away or a full disk. The tables hold everything that it knew."""


def _until_failure(
    rounds: StageRuns,
    live: LiveWatch | None,
    collector: Collecting,
    followed: FollowedMetadata | None,
    stopped: threading.Event,
    every_s: float | None,
) -> None:
    while not stopped.is_set():
        if live is not None:
            live.round()
        else:
            next_at = time.monotonic() + (every_s or CATCHING_UP_S)
            rounds.run()
            stopped.wait(max(0.0, next_at - time.monotonic()))
        for failure in (collector.failure, followed.failure if followed else None):
            if failure:
                raise failure
        if live is not None and (failure := live.failure) is not None:
            raise failure if (sentence := passing_sentence(failure)) is None else _MemoryLost(sentence)


def _is_urgent(topic: str, key: bytes | None) -> bool:
    from rebalance_audit.domain.records.commit_keys import is_commit_key

    return not is_commit_key(key)


def _end_spark() -> None:
    """If some news were large enough to start it."""
    if "spark_jobs.session" in sys.modules:
        from spark_jobs.session import end_session

        end_session()
