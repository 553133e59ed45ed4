"""A thread that takes what was landed, folds the groups that it concerns, and sends what is new. The tables come later.

An alert never precedes its evidence: the judge only gets what is already landed.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.model import SourceRecord
from rebalance_audit.live.heard import AnyLanded, Heard
from rebalance_audit.live.memory import ClusterMemory
from rebalance_audit.live.present import Present
from rebalance_audit.live.recent_commits import RecentCommits
from rebalance_audit.live.showing import Showing
from rebalance_audit.warehouse.erased import EVERY_GROUP, digest_of
from spark_jobs.flat_rows import TeamOfGroup

OPEN_EVERY_S = 1.0
"""How often a group that rebalances is looked at without new evidence: passing time alone may change its state."""
FOLD_SHARE = 0.2
"""The share of a core that one group may use, so that a storm of one group delays no other."""
FORGET_S = 3_600.0
"""A group that was quiet for so long leaves the memory."""
MOST_GROUPS = 1_000
"""Each commit of a group in memory is decoded. Of more groups than these, those that were quiet longest leave, once the
tables hold all of their evidence."""
MOST_REBALANCES = 10_000
"""The same of all groups' rebalances together: with their evidence some 15 kB each. A group that lives for months comes
with 45."""
SENT_AT_LEAST = 1_000
"""What was sent is remembered of at least so many incidents, whether their groups are in memory or not."""


@dataclass(slots=True)
class _Pending:
    """A group that is to be folded."""

    since: float
    due: float


class Judge(threading.Thread):
    """Takes in what was landed, in the order of landing."""

    def __init__(
        self,
        memory: Callable[[], ClusterMemory],
        send: Callable[[Sequence[Incident]], bool],
        *,
        show: Callable[[Present], None] = lambda present: None,
        on_news: Callable[[], None] = lambda: None,
        erased: Callable[[], Mapping[str, str]] = dict,
        team: TeamOfGroup = None,
        clock: Callable[[], float] = time.monotonic,
        epoch_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`memory` makes the memory, once, when the tables hold all that was there before. `send` returns False if a
        target did not take what is new. `show` gets what goes on now and what came in last, whenever that changes.
        `erased` returns the digests of groups that were erased from the tables, by erasure. `on_news` is called after
        each look at groups, when their alerts are sent. `team` names the team of a group."""
        super().__init__(name="judge", daemon=True)
        self._make_memory, self._send, self._on_news, self._clock = memory, send, on_news, clock
        self._erased, self._known_erasures = erased, set[str]()
        self._to_erase: set[str] = set()
        """Digests of groups of which something that was landed before may still wait to be taken."""
        self._make_showing = partial(Showing, show=show, team=team, clock=clock, epoch_ms=epoch_ms)
        self._changed = threading.Condition()
        self._waiting: deque[Heard] = deque()
        self._is_ready = self._is_stopped = self._reads_tables = False
        self._memory: ClusterMemory | None = None
        self._showing: Showing | None = None
        self._recent = RecentCommits()
        self._pending: dict[str, _Pending] = {}
        self._next_fold: dict[str, float] = {}
        self._touched_at: dict[str, float] = {}
        self._stored_until: float | None = None
        self._sent: dict[str, tuple[Any, ...]] = {}
        """By incident: the state that was sent, so that targets hear of it again if it changes."""
        self._judged_at: dict[str, float] = {}
        """By incident: the moment at which its groups were folded last, and what is new was sent."""
        self._published_until: float | None = None
        self.failure: Exception | None = None
        self.folds = 0

    # ---- from other threads

    def hear(self, landed: AnyLanded) -> None:
        heard = Heard.of(landed)
        with self._changed:
            self._waiting.append(heard)
            self._changed.notify()

    def hear_metadata(self, cluster_id: str, runs: Sequence[Any]) -> None:
        """Take records of the metadata log, which were landed by themselves."""
        heard = Heard.of_metadata(cluster_id, runs)
        with self._changed:
            self._waiting.append(heard)
            self._changed.notify()

    def begin(self, *, reads_tables: bool = False) -> None:
        """Say that the tables hold all that was there before the first `hear`. `reads_tables`: read them now, so
        that the first alert does not wait; otherwise they are read when the first evidence arrives."""
        with self._changed:
            self._is_ready, self._reads_tables = True, reads_tables
            self._changed.notify()

    def stored(self, until: float) -> None:
        """Say that the tables hold all that was landed before this moment of the clock."""
        self._stored_until = until

    def published(self, until: float) -> None:
        """Say that the tables hold what was landed before this moment of the clock, except commits that no group waits
        for."""
        with self._changed:
            self._published_until = until
            self._changed.notify()

    def stop(self) -> None:
        with self._changed:
            self._is_stopped = True
            self._changed.notify()

    def reported_since(self, moment: float) -> set[str]:
        """Incidents about which something was sent after this moment of the clock."""
        return {incident_id for incident_id, at in list(self._judged_at.items()) if at >= moment}

    # ---- in this thread

    def run(self) -> None:
        try:
            while self._step():
                pass
        except Exception as error:  # the main thread says it
            self.failure = error

    def _step(self) -> bool:
        with self._changed:
            self._changed.wait_for(self._has_work, self._patience())
            if self._is_stopped:
                return False
            news = list(self._waiting) if self._is_ready else []
            if news:
                self._waiting.clear()
            published_until, self._published_until = self._published_until, None
        if not self._is_ready:
            return True
        memory = self._memory or self._begin()
        self.take(memory, news)
        self._erase(memory, self._to_erase)
        self._to_erase = set()
        if published_until is not None:
            self._shown(memory).published(published_until)
            memory.learn_moves(published_until)
        self.judge(memory)
        self._show(memory)
        return True

    def _show(self, memory: ClusterMemory) -> None:
        """Write the note, if it is time, without groups that were erased meanwhile."""
        showing = self._shown(memory)
        due = showing.due()
        if due is None or self._clock() < due:
            return
        self._look_for_erasures(memory)
        showing.show()
        if self._look_for_erasures(memory):  # before this writing or during it
            showing.show()

    def _look_for_erasures(self, memory: ClusterMemory) -> bool:
        found = self._erased()
        new = {digest for erasure_id, digest in found.items() if erasure_id not in self._known_erasures}
        self._known_erasures |= found.keys()
        if self._waiting:  # else all that was landed before is in memory, and what comes is kept again
            self._to_erase |= new
        self._erase(memory, new)
        return bool(new)

    def _erase(self, memory: ClusterMemory, digests: Collection[str]) -> None:
        if not digests:
            return
        showing = self._shown(memory)
        is_all = EVERY_GROUP in digests
        for group_id in [name for name in memory.names() if is_all or digest_of(name) in digests]:
            before = memory.known_incidents_of([group_id])
            memory.erase(group_id)
            for by_group in (self._pending, self._next_fold, self._touched_at):
                by_group.pop(group_id, None)
            showing.erase(group_id)
            others = {name for incident in before.values() for name in incident.group_ids} - {group_id}
            showing.judged(before, memory.incidents_of(others), self._clock())

    def _has_work(self) -> bool:
        is_to_read = self._reads_tables and self._memory is None
        has_news = bool(self._waiting) or is_to_read or self._published_until is not None
        return self._is_stopped or (self._is_ready and has_news)

    def _patience(self) -> float | None:
        """How long to sleep if nothing arrives."""
        if not self._is_ready:
            return None
        due = [p.due for p in self._pending.values()]
        if self._showing is not None and (show_due := self._showing.due()) is not None:
            due.append(show_due)
        return max(0.0, min(due) - self._clock()) if due else None

    def _begin(self) -> ClusterMemory:
        self._known_erasures |= self._erased().keys()  # before the tables are read
        self._memory = self._make_memory()
        return self._memory

    def _shown(self, memory: ClusterMemory) -> Showing:
        if self._showing is None or self._showing.memory is not memory:
            self._showing = self._make_showing(memory)
        return self._showing

    def take(self, memory: ClusterMemory, news: Sequence[Heard]) -> None:
        """Take in what was landed, and note which groups are to be folded."""
        showing = self._shown(memory)
        for heard in news:
            if heard.metadata:
                now = self._clock()
                for group_id in memory.take_metadata(heard.metadata, now):
                    self._want(group_id, now)
                continue
            before, seen_until_ms = set(memory.groups), memory.seen_until_ms
            records = list(self._wanted(memory, heard))
            touched = memory.take(records, heard.lines)
            if heard.until_ms is not None:
                memory.see(heard.until_ms)
            for group_id in memory.groups.keys() - before:
                memory.take(self._commits_of(memory, group_id), ())
            now = self._clock()
            for group_id in touched:
                self._touched_at[group_id] = now
                self._want(group_id, now)
                showing.news(group_id, seen_until_ms or memory.seen_until_ms, now)
            for group_id in memory.open_groups:
                if group_id not in self._pending:
                    self._want(group_id, max(now, self._next_fold.get(group_id, 0), now + OPEN_EVERY_S))
        for group_id, due in showing.committed().items():
            if group_id not in self._pending:
                self._want(group_id, due)
        self._drop_quiet(memory)

    def judge(self, memory: ClusterMemory) -> None:
        """Fold the groups whose turn it is, and send what is new about them."""
        now = self._clock()
        groups_due = {group_id for group_id, pending in self._pending.items() if pending.due <= now}
        if not groups_due:
            return
        showing, incidents_before = self._shown(memory), memory.known_incidents_of(groups_due)
        for group_id in groups_due:
            del self._pending[group_id]
            if group_id not in memory.groups:
                continue
            began, rebalances_before = self._clock(), memory.groups[group_id].rebalances
            memory.fold(group_id)
            showing.folded(group_id, rebalances_before, now)
            self.folds += 1
            took = self._clock() - began
            self._next_fold[group_id] = began + took / FOLD_SHARE
        memory.move_leaders(groups_due)
        concerned = memory.incidents_of(groups_due)
        new = [i for i in concerned if self._sent.get(i.incident_id) != _state(i)]
        showing.judged(incidents_before, concerned, now)
        self._show(memory)  # not after messages, which a receiver may hold up
        self._send_new(concerned, new)
        self._forget_sent(memory)
        self._on_news()

    def _send_new(self, concerned: Sequence[Incident], new: Sequence[Incident]) -> None:
        at = self._clock()
        for incident in concerned:
            self._judged_at[incident.incident_id] = at
        if new and self._send(new):
            self._sent |= {i.incident_id: _state(i) for i in new}

    def _forget_sent(self, memory: ClusterMemory) -> None:
        """Now and then, forget what was sent of incidents that left the memory."""
        known = memory.incident_ids()
        if len(self._judged_at) > 2 * len(known) + SENT_AT_LEAST:
            self._sent = {incident_id: state for incident_id, state in self._sent.items() if incident_id in known}
            self._judged_at = {incident_id: at for incident_id, at in self._judged_at.items() if incident_id in known}

    def _want(self, group_id: str, at: float) -> None:
        due = max(at, self._next_fold.get(group_id, 0.0))
        known = self._pending.get(group_id)
        if known is None or due < known.due:
            self._pending[group_id] = _Pending(at, due)

    def _drop_quiet(self, memory: ClusterMemory) -> None:
        """Forget groups that were quiet. If all were, memory is read again from the tables."""
        if self._stored_until is not None:
            self._drop_stored(memory, self._stored_until)
            self._stored_until = None
        until = self._clock() - FORGET_S
        if not self._touched_at or min(self._touched_at.values()) >= until:
            return
        quiet = [g for g, at in self._touched_at.items() if at < until and g not in self._pending]
        if len(quiet) == len(self._touched_at):
            memory.forget()
            self._sent.clear()
            self._judged_at.clear()
        for group_id in quiet:
            self._drop(memory, group_id)

    def _drop_stored(self, memory: ClusterMemory, until: float) -> None:
        """Forget the groups beyond MOST_GROUPS and MOST_REBALANCES, but none that goes on or that something came of
        since `until`."""
        too_many, rebalances = len(memory.groups) - MOST_GROUPS, memory.rebalance_count - MOST_REBALANCES
        if too_many <= 0 and rebalances <= 0:
            return
        busy = self._pending.keys() | memory.open_groups | memory.waiting
        stored = [g for g, at in self._touched_at.items() if at < until and g not in busy]
        for group_id in sorted(stored, key=self._touched_at.__getitem__):
            if too_many <= 0 and rebalances <= 0:
                break
            too_many -= 1
            rebalances -= len(memory.groups[group_id].rebalances) if group_id in memory.groups else 0
            self._drop(memory, group_id)

    def _drop(self, memory: ClusterMemory, group_id: str) -> None:
        if group_id in memory.groups:
            memory.drop(group_id)
        del self._touched_at[group_id]
        self._shown(memory).forget(group_id)
        self._next_fold.pop(group_id, None)

    # ---- commits

    def _wanted(self, memory: ClusterMemory, heard: Heard) -> Iterator[SourceRecord]:
        """All records except commits of groups that are not in memory."""
        self._recent.add(self._clock(), heard.offsets)
        chosen = memory.wanted(heard.offsets.rows["key"].to_pylist())
        yield from heard.offsets.records(heard.cluster_id, chosen)
        yield from heard.others.records(heard.cluster_id)

    def _commits_of(self, memory: ClusterMemory, group_id: str) -> Iterator[SourceRecord]:
        group = memory.groups[group_id]
        places, are_known = group.offsets_partitions, bool(group.boundaries)
        for found in self._recent.of_group(group_id, places, are_known=are_known):
            yield from found.records(memory.cluster_id)


def _state(incident: Incident) -> tuple[Any, ...]:
    return incident.status, incident.severity, incident.kind, len(incident.culprits), len(incident.group_ids)
