"""`watch`: collecting, alerting and running the stages, until it is stopped; live, or in batches with `--every`."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence
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
from rebalance_audit.commands.output import note
from rebalance_audit.commands.outward import outward
from rebalance_audit.commands.pipeline import Carried, print_outcome, run_stages, stage_settings
from rebalance_audit.commands.report import alert_state, routes_of_teams, send
from rebalance_audit.domain.kinds import Severity

if TYPE_CHECKING:
    from ingest.collector import CollectSettings, Follower, Landed
    from rebalance_audit.alerts.outward import Outward, OutwardSender
    from rebalance_audit.alerts.routing import Routes
    from rebalance_audit.alerts.state import KeptState
    from rebalance_audit.domain.incidents import Incident
    from rebalance_audit.live.judge import Judge
    from rebalance_audit.live.memory import ClusterMemory
    from rebalance_audit.live.present import Present

RETRY_S = 10.0
GOOD_WHILE_S = 60.0
"""After collecting for this long, an outage is reported even if it is the same as the last one."""
LIVE_FLUSH_MS = 5_000
"""How often commits are landed if nothing else comes with them: consumers commit every 5 s, and nobody waits for
commits."""
AFTERWARDS_S = 8.0
"""How long after the last news the stages run once more: by then consumers have committed, which bounds their
pauses."""
UNHURRIED_S = (60.0, 900.0)
"""How often commits alone go into the tables."""
SHARE_OF_COMMITS = 1 / 300
"""The share of a core that the stages may use for commits in between."""
CATCHING_UP_S = 10.0
LOOK_AROUND_S = 1.0
"""The time between two looks for commits and metadata if nothing else comes with them."""
LOOK_S = 15.0
"""The longest time between two looks of the watchdog at the sources."""


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
    from rebalance_audit.warehouse.warehouse import Warehouse

    every_s = None if every is None else options.duration_ms(every) / 1000
    flush_ms = LIVE_FLUSH_MS if every_s is None else int(min(every_s, 2) * 1000)
    settings = collect_settings(
        bootstrap, command_config, overrides, logs, topics, cluster_id=cluster_id, flush_ms=flush_ms
    )
    followed = metadata_followed(metadata, settings.client_config, cluster_id)
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
    """What is followed, in one sentence."""
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
        followed.start(Landing(opened.location), stopped, quiet=quiet)
    sender = None if receivers is None else OutwardSender(opened.location, receivers, stopped, note)
    rounds = StageRuns(opened, carried or Carried(), alert_to, stopped, sender, quiet=quiet, routes=routes)
    is_live = every_s is None and collects(settings)
    if is_live:
        settings = replace(settings, is_live=True, is_urgent=_is_urgent)
    dog = SourceWatch(settings, opened.location, stopped, alert_to, stopped_after_ms, routes)
    try:
        while not stopped.is_set():
            live = LiveWatch(rounds, with_metadata=followed is not None) if is_live else None
            collector = _Collecting(settings, opened.location, stopped, live, rounds.outages, quiet=quiet)
            if followed is None or collects(settings):
                dog.looks_after(collector)
                collector.start()
            try:
                _until_failure(rounds, live, collector, followed, stopped, every_s)
            except _MemoryLost as lost:
                note(f"{lost} Beginning anew in {RETRY_S:.0f} s.", quiet=quiet)
                stopped.wait(RETRY_S)
            finally:
                collector.ended.set()
                if live is not None:
                    live.stop()
                if collector.ident is not None:
                    collector.join()
    finally:
        stopped.set()
        _end_spark()
        if followed is not None:
            followed.wait()


class _MemoryLost(Exception):
    """The judge failed at a store that was away or a full disk. The tables hold everything that it knew."""


def _until_failure(
    rounds: StageRuns,
    live: LiveWatch | None,
    collector: _Collecting,
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
            raise failure if (sentence := _passing(failure)) is None else _MemoryLost(sentence)


def _is_urgent(topic: str, key: bytes | None) -> bool:
    from rebalance_audit.live.memory import is_commit_key

    return not is_commit_key(key)


def _end_spark() -> None:
    """If some news were large enough to start it."""
    if "spark_jobs.session" in sys.modules:
        from spark_jobs.session import end_session

        end_session()


class _Stopped(Exception):
    """The stages end at a commit: the next run goes on there."""


class StageRuns:
    """The stages over what was landed, and alerts of what they found."""

    def __init__(
        self,
        opened: Any,
        carried: Carried,
        alert_to: list[str],
        stopped: threading.Event,
        sender: OutwardSender | None = None,
        *,
        quiet: bool,
        routes: Routes | None = None,
    ) -> None:
        from rebalance_audit.alerts.state import KeptState

        self.opened, self.carried, self.alert_to, self.stopped, self.quiet = opened, carried, alert_to, stopped, quiet
        self._sender, self.routes, self.outages = sender, routes, Outages()
        self.alert_state = KeptState(alert_state(opened))
        if sender is not None:
            sender.published()  # what one before this left unsent
            sender.start()
        self._seen: list[str] | None = None
        self._unsent_since: float | None = None
        """When what the tables say now, and not every target has heard, was begun to be worked out."""

    def run(self, newer: Callable[[float], set[str]] = lambda moment: set()) -> bool:
        """`newer`: incidents about which something was sent since a moment of the monotonic clock. False if somebody
        else writes, the store is away or the disk is full: try again; or if `stopped` is set."""
        return self._is_done(lambda: self._run(newer))

    def send(self) -> bool:
        """What the tables say, to the targets. False as `run`."""
        self._unsent_since = time.monotonic() if self._unsent_since is None else self._unsent_since
        return self._is_done(lambda: self._send(lambda moment: set()))

    def _run(self, newer: Callable[[float], set[str]]) -> None:
        started = time.monotonic()
        landed = [name for noun in ("record", "log_line", "source") for name in self.opened.landed(noun)]
        if landed != self._seen:
            outcome = run_stages(self.opened, None, self.carried, quiet=True, reached=self._go_on)
            self._seen = landed
            _give_memory_back()
            if outcome.ms_by_stage:
                print_outcome(outcome, time.monotonic() - started, quiet=self.quiet)
                self._unsent_since = started if self.alert_to else None
                if self._sender is not None:
                    self._sender.published()
        if self._unsent_since is not None:
            self._send(newer)

    def _go_on(self, point: str) -> None:
        """Rows of a busy cluster take minutes, and who stops a service does not wait so long."""
        if self.stopped.is_set():
            raise _Stopped

    def _send(self, newer: Callable[[float], set[str]]) -> None:
        assert self._unsent_since is not None
        send(
            self.opened, self.alert_to, Severity.WARNING, self.alert_state, quiet=self.quiet,
            except_ids=newer(self._unsent_since), routes=self.routes,
        )  # fmt: skip
        self._unsent_since = None

    def _is_done(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except _Stopped:
            return False
        except Exception as error:
            if (sentence := _passing(error)) is None:
                raise
            self.outages.say("stages", f"{sentence} Trying again every {RETRY_S:.0f} s.", quiet=self.quiet)
            self.stopped.wait(RETRY_S)
            return False
        self.outages.end("stages")
        return True


class Outages:
    """Reports what holds up the threads: once for all of them, and not again while it lasts."""

    def __init__(self) -> None:
        self._by_thread: dict[str, str] = {}
        self._lock = threading.Lock()

    def say(self, thread: str, sentence: str, *, quiet: bool) -> None:
        sentence = re.sub(r"\b\d+ms\b", "a while", sentence)  # otherwise the text differs each time
        with self._lock:
            is_known = sentence in self._by_thread.values()
            self._by_thread[thread] = sentence
        if not is_known:
            note(sentence, quiet=quiet)

    def end(self, thread: str) -> None:
        with self._lock:
            self._by_thread.pop(thread, None)


def _passing(error: Exception) -> str | None:
    """One sentence if somebody else writes, the store is away or the disk is full. Each of these passes."""
    from rebalance_audit.warehouse.storage import passing_fault
    from rebalance_audit.warehouse.warehouse import WarehouseError

    return str(error) if isinstance(error, WarehouseError) else passing_fault(error)


def _give_memory_back() -> None:
    """Gives the memory of the stages back to the system: there may be hours between two rounds."""
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)


class LiveWatch:
    """Alerts on arrival, and when the stages are to run. A Follower of the collector."""

    def __init__(self, rounds: StageRuns, *, with_metadata: bool) -> None:
        from rebalance_audit.live.judge import Judge

        self._with_metadata = with_metadata
        self._metadata: set[str] = set()

        self._rounds = rounds
        self._wake = threading.Event()
        self._caught_up = threading.Event()
        self._cluster_id: str | None = None
        self._has_begun = False
        self._has_commits = False
        self._news_at: float | None = None
        self._afterwards_at: float | None = None
        self._unhurried_at = time.monotonic() + UNHURRIED_S[1]
        self._judge: Judge = Judge(self._memory, self._send, show=self._show, on_news=self._on_news)
        self._judge.start()

    @property
    def failure(self) -> Exception | None:
        return self._judge.failure

    # ---- in the collector's thread

    def landed(self, landed: Landed) -> None:
        self._cluster_id = landed.cluster_id
        self._has_commits = True
        if not landed.is_history:
            self._judge.hear(landed)

    def caught_up(self) -> None:
        self._caught_up.set()
        self._wake.set()

    # ---- in the judge's thread

    def _memory(self) -> ClusterMemory:
        from rebalance_audit.domain.detect import DEFAULT_OF
        from rebalance_audit.live.memory import ClusterMemory
        from rebalance_audit.live.past import WarehousePast
        from rebalance_audit.warehouse.warehouse import Warehouse

        limits = self._rounds.carried.settings.get("limits") or DEFAULT_OF
        cluster_id = self._cluster_id or ""
        past = WarehousePast(Warehouse.open(self._rounds.opened.location), cluster_id, limits)
        return ClusterMemory(cluster_id, past, limits)

    def _send(self, incidents: Sequence[Incident]) -> bool:
        from rebalance_audit.alerts.sending import send_alerts
        from rebalance_audit.domain.detect.wording import counted
        from rebalance_audit.warehouse.responses import responses
        from rebalance_audit.warehouse.warehouse import Warehouse

        if not self._rounds.alert_to:
            return True
        try:
            opened = Warehouse.open(self._rounds.opened.location)  # the other is the main thread's
            sent = send_alerts(
                incidents, self._rounds.alert_to, self._rounds.alert_state, min_severity=Severity.WARNING, is_live=True,
                responses=responses(opened), now_ms=time.time_ns() // 1_000_000, routes=self._rounds.routes,
            )  # fmt: skip
        except Exception as error:  # the tables say it, when they can be written again
            if (sentence := _passing(error)) is None:
                raise
            note(f"Not sent on arrival: {sentence}", quiet=self._rounds.quiet)
            return False
        for failure in sent.failures:
            note(failure)
        if sent.delivered_count:
            note(f"{counted(sent.delivered_count, 'incident')} sent on arrival.", quiet=self._rounds.quiet)
        return not sent.failures

    def _show(self, present: Present) -> None:
        from rebalance_audit.live.present import keep
        from rebalance_audit.warehouse.warehouse import Warehouse

        try:
            keep(Warehouse.open(self._rounds.opened.location), present)
        except Exception as error:  # a full disk, a store that is away: the tables come all the same
            if not isinstance(error, OSError) and _passing(error) is None:
                raise

    def _on_news(self) -> None:
        self._news_at = time.monotonic()
        self._wake.set()

    # ---- in the main thread

    def round(self) -> None:
        """Wait until the stages have something to do, and let them."""
        self._wake.wait(self._patience())
        self._wake.clear()
        now = time.monotonic()
        if not self._has_begun:
            is_complete = self._caught_up.is_set()
            if self._rounds.run() and is_complete and self._has_sent_all():
                self._begin()
            return
        news_at, self._news_at = self._news_at, None
        is_due = self._afterwards_at is not None and now >= self._afterwards_at
        if news_at is not None:
            self._afterwards_at = now + AFTERWARDS_S
        elif is_due:
            self._afterwards_at = None
        elif self._has_metadata_news():
            pass
        elif not (self._has_commits and now >= self._unhurried_at):
            return
        self._has_commits = False
        began_s = time.process_time()
        if not self._rounds.run(self._judge.said_since):
            self._wake.set()
        least, most = UNHURRIED_S
        wait_s = min(max(least, (time.process_time() - began_s) / SHARE_OF_COMMITS), most)
        self._unhurried_at = time.monotonic() + wait_s

    def _has_sent_all(self) -> bool:
        """Each target has what the tables say, and is known from now on."""
        if self._rounds.alert_to and self._rounds.opened.published():
            return self._rounds.send()
        return self._send([])

    def _begin(self) -> None:
        self._has_begun = True
        self._judge.begin()
        note("Caught up; alerts come on arrival from now on.", quiet=self._rounds.quiet)

    def _has_metadata_news(self) -> bool:
        if not self._with_metadata:
            return False
        landed = {name for name in self._rounds.opened.landed("record") if "/metadata-" in name}
        before, self._metadata = self._metadata, landed
        return before != landed

    def _patience(self) -> float:
        if not self._has_begun:
            return CATCHING_UP_S
        due = self._afterwards_at
        if due is None:
            if not self._has_commits:  # nothing is due, however long ago the last run was
                return LOOK_AROUND_S
            due = self._unhurried_at
        return max(0.0, min(due - time.monotonic(), LOOK_AROUND_S))

    def stop(self) -> None:
        self._judge.stop()
        self._judge.join(5)


class SourceWatch(threading.Thread):
    """Says when a source gives no evidence any more, and when it does again."""

    def __init__(
        self,
        settings: CollectSettings,
        location: str,
        stopped: threading.Event,
        alert_to: list[str],
        limit_ms: int,
        routes: Routes | None = None,
    ) -> None:
        super().__init__(name="watchdog", daemon=True)
        self._settings, self._location, self._stopped = settings, location, stopped
        self._alert_to, self._limit_ms, self._routes = alert_to, limit_ms, routes
        self._collector: _Collecting | None = None

    def looks_after(self, collector: _Collecting) -> None:
        """The collector to look after, from now on."""
        self._collector = collector
        if self.ident is None:
            self.start()

    def run(self) -> None:
        from ingest.landing import Landing
        from ingest.probe import SourceProbe
        from rebalance_audit.alerts.state import KeptState, state_of
        from rebalance_audit.alerts.watchdog import STATE, Watchdog

        probe = SourceProbe(self._settings, Landing(self._location))
        state = KeptState(state_of(self._location, STATE))
        watchdog = Watchdog(self._limit_ms, time.time_ns() // 1_000_000)
        said: set[str] = set()
        sent: set[str] | None = None
        """Sources that are stopped, as it was said here, and to the targets."""
        wait_s = min(LOOK_S, self._limit_ms / 3000)
        while not self._stopped.wait(wait_s):
            held_up = None if self._collector is None else self._collector.held_up
            faults = {source: fault or held_up for source, fault in probe.faults().items()}
            stands = watchdog.look(probe.cluster_id or "unknown", faults, time.time_ns() // 1_000_000)
            stopped = {i.culprits[0] for i in stands if i.status == "open"}
            for each in stands:
                if each.culprits[0] in stopped ^ said:
                    note(f"{each.title}. {each.story}" if each.status == "open" else each.story)
            said = stopped
            if stopped != sent and self._is_sent(stands, state):
                sent = stopped

    def _is_sent(self, stands: Sequence[Incident], state: KeptState) -> bool:
        from rebalance_audit.alerts.sending import AlertError, send_alerts
        from rebalance_audit.warehouse.warehouse import WarehouseError

        if not self._alert_to:
            return True
        try:
            failures = send_alerts(stands, self._alert_to, state, is_live=True, routes=self._routes).failures
        except (AlertError, WarehouseError) as error:
            failures = (str(error),)
        for failure in failures:
            note(failure)
        return not failures


class _Collecting(threading.Thread):
    """Collects until stopped; a broker that is away is asked again."""

    def __init__(
        self,
        settings: CollectSettings,
        location: str,
        stopped: threading.Event,
        follower: Follower | None,
        outages: Outages,
        *,
        quiet: bool,
    ) -> None:
        super().__init__(name="collect", daemon=True)
        self._settings, self._location, self._stopped, self._quiet = settings, location, stopped, quiet
        self._follower, self._outages = follower, outages
        self.ended = threading.Event()
        self.held_up: str | None = None
        """Why nothing is collected just now."""
        self.failure: Exception | None = None

    def run(self) -> None:
        from ingest.collector import collect
        from ingest.errors import Retryable
        from ingest.landing import Landing

        def stop() -> bool:
            if self.held_up is not None and time.monotonic() - began > RETRY_S:
                self.held_up = None
            return self._stopped.is_set() or self.ended.is_set()

        while not self._stopped.is_set() and not self.ended.is_set():
            began = time.monotonic()
            try:
                collect(
                    self._settings, Landing(self._location), stop=stop,
                    report=lambda line: note(line, quiet=self._quiet), follower=self._follower,
                )  # fmt: skip
            except Retryable as error:
                if time.monotonic() - began > GOOD_WHILE_S:
                    self._outages.end("collect")
                self._outages.say("collect", f"{error} Trying again every {RETRY_S:.0f} s.", quiet=self._quiet)
                self.held_up = str(error)
                self._stopped.wait(RETRY_S)
            except Exception as error:  # the main thread says it
                self.failure = error
                return
