"""The stages over what was landed, round after round."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.pipeline import Carried, print_outcome, run_stages
from rebalance_audit.commands.report import alert_state, send
from rebalance_audit.commands.watching import outages
from rebalance_audit.commands.watching.outages import Outages, passing_sentence
from rebalance_audit.domain.kinds import Severity

if TYPE_CHECKING:
    from rebalance_audit.alerts.outward import OutwardSender
    from rebalance_audit.alerts.routing import Routes

ANSWERS_S = 5.0
"""Chosen: who silenced something looks at the Alertmanager a few seconds later; to ask lists a folder."""


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
        self._seen: set[str] | None = None
        self.is_complete = True
        """Whether the last run left no commits to a later one."""
        self._unsent_since: float | None = None
        """When what the tables say now, and not every target has heard, was begun to be worked out."""
        self._answers: int | None = None
        """The version of gold.response that the targets heard of."""
        self._answers_at = 0.0

    def run(self, newer: Callable[[float], set[str]] = lambda moment: set(), *, may_wait: bool = False) -> bool:
        """`newer`: incidents about which something was sent since a moment of the monotonic clock. `may_wait`: as in
        `pipeline.run`. False if somebody else writes, the store is away or the disk is full: try again; or if `stopped`
        is set."""
        return self._is_done(lambda: self._run(newer, may_wait=may_wait))

    def send(self) -> bool:
        """Send news of the tables to the targets. False as for `run`."""
        self._unsent_since = time.monotonic() if self._unsent_since is None else self._unsent_since
        return self._is_done(lambda: self._send(lambda moment: set()))

    def hear_answers(self) -> bool:
        """Whether somebody acknowledged or silenced something since the last look; then the targets are brought up to
        date."""
        from rebalance_audit.warehouse.responses import TABLE

        now = time.monotonic()
        if not self.alert_to or now < self._answers_at:
            return False
        self._answers_at = now + ANSWERS_S
        try:
            answers = self.opened.version(TABLE)
        except Exception as error:
            if passing_sentence(error) is None:
                raise
            return False  # the round itself says so
        before, self._answers = self._answers, answers
        if answers == before or not self.opened.published():
            return False
        self._unsent_since = now if self._unsent_since is None else self._unsent_since
        return True

    def _run(self, newer: Callable[[float], set[str]], *, may_wait: bool) -> None:
        started = time.monotonic()
        self.hear_answers()
        landed = {name for noun in ("record", "log_line", "source") for name in self.opened.landed(noun)}
        has_waited = not self.is_complete and not may_wait
        if self._seen is None or not landed <= self._seen or has_waited:  # old ones go
            outcome = run_stages(
                self.opened, None, self.carried, quiet=True, reached=self._go_on, may_wait=may_wait
            )  # fmt: skip
            self._seen, self.is_complete = landed, outcome.is_complete
            give_memory_back()
            if outcome.ms_by_stage:
                print_outcome(outcome, time.monotonic() - started, quiet=self.quiet)
                self._unsent_since = started if self.alert_to else None
                if self._sender is not None:
                    self._sender.published()
        if self._unsent_since is not None:
            self._send(newer)

    def _go_on(self, point: str) -> None:
        """Called after each commit. A round may take minutes; who stops a service does not wait so long."""
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
            if (sentence := passing_sentence(error)) is None:
                raise
            self.outages.say("stages", f"{sentence} Trying again every {outages.RETRY_S:.0f} s.", quiet=self.quiet)
            self.stopped.wait(outages.RETRY_S)
            return False
        self.outages.end("stages")
        return True


def give_memory_back() -> None:
    """Gives the memory of the stages back to the system: there may be hours between two rounds."""
    import ctypes

    import pyarrow as pa

    pa.default_memory_pool().release_unused()
    with contextlib.suppress(AttributeError, OSError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)
