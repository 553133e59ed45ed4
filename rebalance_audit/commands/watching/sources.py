"""The sources of evidence: collected in a thread, and looked after by a watchdog."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rebalance_audit.commands.output import note
from rebalance_audit.commands.watching import outages
from rebalance_audit.commands.watching.outages import Outages

if TYPE_CHECKING:
    from ingest.collect_settings import CollectSettings
    from ingest.collector import Follower
    from rebalance_audit.alerts.routing import Routes
    from rebalance_audit.alerts.state import KeptState
    from rebalance_audit.domain.incidents import Incident

GOOD_WHILE_S = 60.0
"""After collecting for this long, an outage is reported even if it is the same as the last one."""
LOOK_S = 15.0
"""The longest time between two looks of the watchdog at the sources."""


class Collecting(threading.Thread):
    """Collects until it is stopped; a broker that is away is tried again."""

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
            if self.held_up is not None and time.monotonic() - began > outages.RETRY_S:
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
                self._outages.say("collect", f"{error} Trying again every {outages.RETRY_S:.0f} s.", quiet=self._quiet)
                self.held_up = str(error)
                self._stopped.wait(outages.RETRY_S)
            except Exception as error:  # the main thread says it
                self.failure = error
                return


class SourceWatch(threading.Thread):
    """Reports when a source's evidence stops, and when it is back."""

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
        self._collector: Collecting | None = None

    def looks_after(self, collector: Collecting) -> None:
        """Watch this collector from now on."""
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
        """Sources that are stopped, as printed here and sent to the targets."""
        wait_s = min(LOOK_S, self._limit_ms / 3000)
        while not self._stopped.wait(wait_s):
            held_up = None if self._collector is None else self._collector.held_up
            faults = probe.faults()
            stands = watchdog.look(probe.cluster_id or "unknown", faults, time.time_ns() // 1_000_000, held_up)
            stopped = {i.culprits[0] for i in stands if i.status == "open"}
            for each in stands:
                if each.culprits[0] in stopped ^ said:
                    note(f"{each.title}. {each.story}" if each.status == "open" else each.story)
            said = stopped
            if stopped != sent and self._is_sent(stands, state):
                sent = stopped

    def _is_sent(self, stands: Sequence[Incident], state: KeptState) -> bool:
        from rebalance_audit.alerts.news import AlertRound
        from rebalance_audit.alerts.sending import send_alerts
        from rebalance_audit.alerts.target import AlertError
        from rebalance_audit.warehouse.warehouse import WarehouseError

        if not self._alert_to:
            return True
        try:
            asked = AlertRound(stands, is_live=True, routes=self._routes)
            failures = send_alerts(asked, self._alert_to, state).failures
        except (AlertError, WarehouseError) as error:
            failures = (str(error),)
        for failure in failures:
            note(failure)
        return not failures
