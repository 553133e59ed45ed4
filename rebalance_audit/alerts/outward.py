"""Sends incidents and marks to the receivers that the settings name, after each publication: each one once; one that
failed is sent later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

DAYS_BACK = 7
"""What ended more days before the end of evidence is not sent automatically."""
RETRY_S = 60.0
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Outward:
    """The receivers, with their secrets. None: there is no such receiver."""

    traces_url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    grafana_url: str | None = None
    grafana_token: str = field(default="", repr=False)

    def send(self, opened: Any) -> list[str]:
        """Send each receiver what is new. Returns one sentence for each that did not take it; it gets that the next
        time."""
        from rebalance_audit.alerts.annotations import annotate
        from rebalance_audit.alerts.target import AlertError
        from rebalance_audit.alerts.traces import send_traces

        since_ms = from_ms(opened, DAYS_BACK * _DAY_MS)
        failures = []
        try:
            if self.traces_url is not None:
                send_traces(opened, self.traces_url, headers=self.headers, from_ms=since_ms)
        except AlertError as error:
            failures.append(str(error))
        try:
            if self.grafana_url is not None:
                annotate(opened, self.grafana_url, self.grafana_token, from_ms=since_ms)
        except AlertError as error:
            failures.append(str(error))
        return failures


def from_ms(opened: Any, back_ms: int) -> int:
    """The instant so long before the end of the evidence: counted from now, an old warehouse would send nothing."""
    end = opened.query("SELECT max(to_at_ms) AS t FROM gold.coverage").column(0).to_pylist()[0]
    return int(end if end is not None else time.time_ns() // 1_000_000) - back_ms


class OutwardSender(threading.Thread):
    """Sends beside the rounds of `watch`, so that a slow receiver holds up no round; one that is away is tried
    again."""

    def __init__(
        self, location: str, receivers: Outward, stopped: threading.Event, say: Callable[[str], object]
    ) -> None:
        super().__init__(name="outward", daemon=True)
        self._location, self._receivers, self._stopped, self._say = location, receivers, stopped, say
        self._news = threading.Event()

    def published(self) -> None:
        self._news.set()

    def run(self) -> None:
        said: list[str] = []
        while not self._stopped.is_set():
            if not self._news.wait(1.0):
                continue
            self._news.clear()
            failures = self._sent()
            for sentence in failures:
                if sentence not in said:
                    self._say(sentence)
            said = failures
            if failures:
                self._news.set()
                self._stopped.wait(RETRY_S)

    def _sent(self) -> list[str]:
        from rebalance_audit.warehouse.storage import passing_fault
        from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError

        try:
            opened = Warehouse.open(self._location)  # the other is the main thread's
            return self._receivers.send(opened) if opened.published() else []
        except Exception as error:  # a store that is away, a disk that is full, a lock that somebody holds: each ends
            sentence = str(error) if isinstance(error, WarehouseError) else passing_fault(error)
            if sentence is None:
                raise
            return [sentence]
