"""Alerts on arrival, and when the stages are to run."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.output import note
from rebalance_audit.commands.watching.outages import passing_sentence

if TYPE_CHECKING:
    from ingest.collector import Landed
    from rebalance_audit.commands.collect import FollowedMetadata
    from rebalance_audit.commands.watching.rounds import StageRuns
    from rebalance_audit.domain.incidents import Incident
    from rebalance_audit.live.judge import Judge
    from rebalance_audit.live.memory import ClusterMemory
    from rebalance_audit.live.present import Present

AFTERWARDS_S = 8.0
"""How long after the last news the stages run once more: by then consumers have committed, which bounds their
pauses."""
UNHURRIED_S = (60.0, 900.0)
"""How often commits alone go into the tables."""
SHARE_OF_COMMITS = 1 / 300
"""The share of a core that the stages may use for commits in between."""
SHARE_OF_OTHERS = 1 / 10
"""The share of a core that the stages may use for commits of groups that nobody waits for, and for the judgement of
groups in a long storm, while others rebalance."""
OTHERS_S = (10.0, 600.0)
"""How often these go into the tables. A storm of 20,000 rebalances takes 6 s, one of 80,000 half a minute."""
SHARE_OF_ALL = 0.9
"""The share of a core that all of `watch` may use once it has caught up. Beside a busy cluster there is always news:
without a rest the stages would run all the time, and with what collects and alerts take more than a core."""
LONG_ROUND_S = 20.0
"""After a round that took longer the stages do not rest: the tables are behind, and each rest would put more news into
the next round."""
BEHIND = (
    f"The tables are behind: a round of the stages took more than {LONG_ROUND_S:.0f} s. Alerts and what is just in do "
    "not wait for it."
)
CATCHING_UP_S = 10.0
HANDED_ON_S = 0.001
"""How soon Python's lock is handed on to a thread that waits for it. The stages let it go at each of the thousands of
calls to Arrow and DuckDB of a round, and wait for it behind what collects or alerts: with Python's own 5 ms small
files are read half as quickly, for the same CPU time."""
ENDING_S = 20.0
"""How long each thread is waited for at the end: one that is inside Arrow or DuckDB when the interpreter goes may crash
the process. Receivers and brokers that do not answer take 10 s at most; a service manager waits 60."""
LEAST_REST_S = 0.02
LOOK_AROUND_S = 1.0
"""The time between two looks for commits and metadata if nothing else comes with them."""


class LiveWatch:
    """Alerts on arrival, and when the stages are to run. A Follower of the collector."""

    def __init__(self, rounds: StageRuns, followed: FollowedMetadata | None = None) -> None:
        from rebalance_audit.live.judge import Judge

        self._followed = followed
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
        self._others_at = 0.0
        self._is_behind: bool | None = None
        """What was said of it last beside the tables."""
        self._judge: Judge = Judge(
            self._memory, self._send, show=self._show, on_news=self._on_news, erased=self._erased,
            team=rounds.carried.settings.get("team"),
        )  # fmt: skip
        self._handed_on_before_s = sys.getswitchinterval()
        sys.setswitchinterval(HANDED_ON_S)
        self._judge.start()
        if followed is not None:
            followed.heard = self._metadata_landed

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

    # ---- in the thread that follows the metadata log

    def _metadata_landed(self, cluster_id: str, runs: Sequence[Any]) -> None:
        self._cluster_id = cluster_id  # of a cluster without groups nothing else may have been landed
        self._judge.hear_metadata(cluster_id, runs)

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
        from rebalance_audit.alerts.news import AlertRound
        from rebalance_audit.alerts.sending import send_alerts
        from rebalance_audit.warehouse.advice import advised
        from rebalance_audit.warehouse.responses import responses
        from rebalance_audit.warehouse.warehouse import Warehouse

        if not self._rounds.alert_to:
            return True
        try:
            opened = Warehouse.open(self._rounds.opened.location)  # the other is the main thread's
            asked = AlertRound(
                incidents, is_live=True, responses=responses(opened), now_ms=time.time_ns() // 1_000_000,
                routes=self._rounds.routes, advised=partial(advised, opened=opened),
            )  # fmt: skip
            sent = send_alerts(asked, self._rounds.alert_to, self._rounds.alert_state)
        except Exception as error:  # the tables say it, when they can be written again
            if (sentence := passing_sentence(error)) is None:
                raise
            note(f"Not sent on arrival: {sentence}", quiet=self._rounds.quiet)
            return False
        for failure in sent.failures:
            note(failure)
        if sent.delivered_count:
            note(f"{sent.in_words()} on arrival.", quiet=self._rounds.quiet)
        return not sent.failures

    def _show(self, present: Present) -> None:
        from rebalance_audit.live.present import keep
        from rebalance_audit.warehouse.warehouse import Warehouse

        try:
            keep(Warehouse.open(self._rounds.opened.location), present)
        except Exception as error:  # a full disk, a store that is away: the tables come all the same
            if not isinstance(error, OSError) and passing_sentence(error) is None:
                raise

    def _erased(self) -> dict[str, str]:
        from rebalance_audit.warehouse.erased import erased_groups
        from rebalance_audit.warehouse.warehouse import Warehouse

        try:
            return erased_groups(Warehouse.open(self._rounds.opened.location), self._cluster_id or "")
        except Exception as error:  # as in `_show`: the next look finds it
            if not isinstance(error, OSError) and passing_sentence(error) is None:
                raise
            return {}

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
            is_complete = self._caught_up.is_set() and (self._followed is None or self._followed.caught_up.is_set())
            if self._rounds.run() and is_complete and self._has_sent_all():
                self._begin()
            return
        news_at, self._news_at = self._news_at, None
        is_due = news_at is None and self._afterwards_at is not None and now >= self._afterwards_at
        if news_at is not None:
            self._afterwards_at = now + AFTERWARDS_S
        elif is_due:
            self._afterwards_at = None
        elif self._has_metadata_news() or self._rounds.hear_answers():
            pass
        elif not (self._has_commits and now >= self._unhurried_at):
            return
        self._has_commits = False
        began_s = time.process_time()
        may_wait = news_at is not None and now < self._others_at
        is_done = self._rounds.run(self._judge.reported_since, may_wait=may_wait)
        if not is_done:
            self._wake.set()
        else:
            self._judge.published(now)
            if self._rounds.is_complete:
                self._judge.stored(now)
        used_s, ended_at = time.process_time() - began_s, time.monotonic()
        self._unhurried_at = ended_at + _between(used_s / SHARE_OF_COMMITS, UNHURRIED_S)
        if not may_wait:
            self._others_at = ended_at + _between(used_s / SHARE_OF_OTHERS, OTHERS_S)
        self._rest(began_s, now)

    def _rest(self, began_s: float, began_at: float) -> None:
        """Let the time go by that keeps `watch` below its share of a core, but no more than the round took. Where the
        tables are behind, say so instead."""
        took_s = time.monotonic() - began_at
        if took_s > LONG_ROUND_S:
            self._rounds.outages.say("tables", BEHIND, quiet=self._rounds.quiet)
            self._say_behind(took_s)
            return
        self._rounds.outages.end("tables")
        if self._is_behind is not False:
            self._say_behind(None)
        while True:
            until_s = min((time.process_time() - began_s) / SHARE_OF_ALL, 2 * took_s)
            rest_s = until_s - (time.monotonic() - began_at)
            if rest_s <= LEAST_REST_S or self._rounds.stopped.wait(rest_s):
                return

    def _say_behind(self, took_s: float | None) -> None:
        """Say beside the tables that they are behind after a round that took so long; None: they keep up."""
        from rebalance_audit.warehouse.behind import Behind, keep

        now_ms = time.time_ns() // 1_000_000
        round_ms = None if took_s is None else int(took_s * 1000)
        behind = Behind(now_ms, None if round_ms is None else now_ms - round_ms, round_ms)
        try:
            keep(self._rounds.opened, behind)
        except Exception as error:  # a full disk, a store that is away: the next round says it
            if not isinstance(error, OSError) and passing_sentence(error) is None:
                raise
        else:
            self._is_behind = took_s is not None

    def _has_sent_all(self) -> bool:
        """Each target has what the tables say, and is known from now on."""
        if self._rounds.alert_to and self._rounds.opened.published():
            return self._rounds.send()
        return self._send([])

    def _begin(self) -> None:
        self._has_begun = True
        self._others_at = time.monotonic() + OTHERS_S[0]
        self._judge.begin(reads_tables=self._cluster_id is not None)  # nothing was landed yet: whose would they be?
        note("Caught up; alerts come on arrival from now on.", quiet=self._rounds.quiet)

    def _has_metadata_news(self) -> bool:
        if self._followed is None:
            return False
        landed = {name for name in self._rounds.opened.landed("record") if "/metadata-" in name}
        before, self._metadata = self._metadata, landed
        return not landed <= before  # old ones go

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
        self._judge.join(ENDING_S)
        sys.setswitchinterval(self._handed_on_before_s)
        if self._is_behind is not None:
            from rebalance_audit.warehouse.behind import NOTE

            with contextlib.suppress(Exception):  # a store that is away: the next `watch` says it anew
                self._rounds.opened.forget(NOTE)


def _between(seconds: float, bounds: tuple[float, float]) -> float:
    return min(max(bounds[0], seconds), bounds[1])
