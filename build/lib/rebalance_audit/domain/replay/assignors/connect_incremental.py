"""Connect's incremental cooperative assignor: what its leader remembers, its delays and its revocations (KIP-415).

Source: IncrementalCooperativeAssignor of Kafka 4.3.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from .java_order import hash_order, text_hash, text_key

T = TypeVar("T")
Task = tuple[str, int]
Resource = str | Task
"""A connector by its name, or one of its tasks."""


def _task_key(task: Task) -> tuple[bytes, int]:
    return text_key(task[0]), task[1]


@dataclass(slots=True)
class Work:
    """Connectors and tasks, each kind in the order in which it came."""

    connectors: dict[str, None] = field(default_factory=dict)
    tasks: dict[Task, None] = field(default_factory=dict)

    @classmethod
    def of(cls, connectors: Iterable[str] = (), tasks: Iterable[Task] = ()) -> Work:
        return cls(dict.fromkeys(connectors), dict.fromkeys(tasks))

    def __bool__(self) -> bool:
        return bool(self.connectors or self.tasks)

    def __iter__(self) -> Iterator[Resource]:
        yield from self.connectors
        yield from self.tasks

    def add(self, other: Work) -> None:
        self.connectors |= other.connectors
        self.tasks |= other.tasks

    def remove(self, other: Work) -> None:
        for name in other.connectors:
            self.connectors.pop(name, None)
        for task in other.tasks:
            self.tasks.pop(task, None)

    def without(self, *others: Work) -> Work:
        left = self.copy()
        for other in others:
            left.remove(other)
        return left

    def by_name(self) -> Work:
        return Work.of(sorted(self.connectors, key=text_key), sorted(self.tasks, key=_task_key))

    def only(self, other: Work) -> Work:
        return Work.of(
            (n for n in self.connectors if n in other.connectors), (t for t in self.tasks if t in other.tasks)
        )

    def copy(self) -> Work:
        return Work(dict(self.connectors), dict(self.tasks))


@dataclass(frozen=True, slots=True)
class ConnectRound:
    """One rebalance's orders to each worker: start these, stop these, and come back after the delay."""

    added: dict[str, Work]
    revoked: dict[str, Work]
    delay_ms: int


class IncrementalAssignor:
    """The memory of one leader. A new leader begins without: it hands out everything lost at once."""

    def __init__(self, max_delay_ms: int) -> None:
        self.max_delay_ms = max_delay_ms
        self.delay_ms = 0
        self._scheduled_at_ms = 0
        self._previous = Work()
        self._revoked_before = Work()
        self._has_revoked = False
        self._revoking_rounds = 0
        self._empty_workers: dict[str, None] = {}
        self._generation = -1
        self._members: set[str] = set()

    def assign(
        self,
        connectors: Mapping[str, int],
        running: Mapping[str, Work],
        *,
        generation: int,
        last_completed_generation: int,
        now_ms: int,
    ) -> ConnectRound:
        """`connectors` says how many tasks each has; `running` what each worker says it runs."""
        if self._generation != last_completed_generation:
            self._previous = Work()
        before = {worker: running[worker] for worker in hash_order(running, text_hash)}
        configured = Work.of(connectors, [(name, n) for name, count in connectors.items() for n in range(count)])
        active = Work()
        for work in before.values():
            active.add(work)
        if self._revoked_before:
            if self._revoked_before.only(active):
                self._previous = active
            self._revoked_before = Work()
        deleted = self._previous.without(configured)
        lost = self._previous.without(active, deleted).by_name()
        created = configured.without(self._previous, active).by_name()
        to_stop = _doubled(before)
        to_stop.add(deleted)
        revoked = {worker: work.only(to_stop) for worker, work in before.items()}
        after = {worker: work.copy() for worker, work in before.items()}
        for worker, work in after.items():
            work.remove(revoked[worker])
        to_assign = created
        to_assign.add(self._lost_to_assign(lost, after, now_ms))
        self._balance(configured, after, revoked, now_ms)
        _hand_out(after, to_assign)
        added = {worker: after[worker].without(before[worker].without(deleted)) for worker in before}
        self._previous = Work()
        for work in after.values():
            self._previous.add(work)
        for work in revoked.values():
            self._previous.remove(work)
            self._revoked_before.add(work)
        self._previous.add(lost)
        self._generation, self._members = generation, set(before)
        return ConnectRound(added, revoked, self.delay_ms)

    def _lost_to_assign(self, lost: Work, after: dict[str, Work], now_ms: int) -> Work:
        """Lost connectors and tasks to hand out now; those for workers that came empty are given at once."""
        if not lost and not self._has_revoked:
            self._reset_delay()
            return Work()
        if self._scheduled_at_ms <= 0 and self._members <= set(after):
            return lost
        if self.max_delay_ms == 0:
            return lost
        if not 0 < self._scheduled_at_ms <= now_ms:
            empty = [worker for worker, work in after.items() if not work]
            self._empty_workers |= dict.fromkeys(hash_order(empty, text_hash))
            if now_ms < self._scheduled_at_ms:
                self.delay_ms = min(self._scheduled_at_ms - now_ms, self.max_delay_ms)
            else:
                self.delay_ms = self.max_delay_ms
            self._scheduled_at_ms = now_ms + self.delay_ms
            return Work()
        takers = [worker for worker in self._empty_workers if worker in after]
        if takers:
            for turn, name in enumerate(lost.connectors):
                after[takers[turn % len(takers)]].connectors[name] = None
            for turn, task in enumerate(lost.tasks):
                after[takers[turn % len(takers)]].tasks[task] = None
        self._reset_delay()
        self._has_revoked = False
        return Work() if takers else lost

    def _reset_delay(self) -> None:
        self._empty_workers.clear()
        self._scheduled_at_ms = 0
        self.delay_ms = 0

    def _balance(self, configured: Work, after: dict[str, Work], revoked: dict[str, Work], now_ms: int) -> None:
        """Take from workers that have too much; after two such rounds in a row, wait before the next."""
        if self.delay_ms:
            self._has_revoked = False
            return
        surplus = _surplus(configured, after)
        if not surplus:
            if self._has_revoked:
                self._has_revoked = False
                self._revoking_rounds = 0
            return
        if self._has_revoked:
            self._revoking_rounds += 1
            self.delay_ms = self._backoff_ms()
            if self.delay_ms:
                self._scheduled_at_ms = now_ms + self.delay_ms
                return
        else:
            self._has_revoked = True
        for worker, work in surplus.items():
            revoked[worker].add(work)
            after[worker].remove(work)

    def _backoff_ms(self) -> int:
        """1 ms times 40 to the number of rounds, up to the scheduled delay."""
        if self.max_delay_ms <= 1:
            return self.max_delay_ms
        most = math.log(self.max_delay_ms) / math.log(40)
        return min(int(math.pow(40, min(self._revoking_rounds, most))), self.max_delay_ms)


def _doubled(running: Mapping[str, Work]) -> Work:
    """Connectors and tasks that more than one worker runs."""
    once, twice = Work(), Work()
    for work in running.values():
        twice.add(work.only(once))
        once.add(work)
    return twice


def _surplus(configured: Work, after: Mapping[str, Work]) -> dict[str, Work]:
    """By worker, what it runs above its share; empty where the shares are even."""
    if not any(after.values()) or not configured:
        return {}
    connectors = _above_share(len(configured.connectors), {w: list(work.connectors) for w, work in after.items()})
    tasks = _above_share(len(configured.tasks), {w: list(work.tasks) for w, work in after.items()})
    return {
        worker: Work.of(connectors.get(worker, []), tasks.get(worker, []))
        for worker in after
        if worker in connectors or worker in tasks
    }


def _above_share(total: int, held: Mapping[str, list[T]]) -> dict[str, list[T]]:
    share, larger = divmod(total, len(held))
    sizes = [len(mine) for mine in held.values()]
    if sizes.count(share + 1) == larger and sizes.count(share) + larger == len(held):
        return {}
    found: dict[str, list[T]] = {}
    larger_now = 0
    for worker, mine in held.items():
        if len(mine) <= share:
            continue
        most = share + (larger_now < larger)
        larger_now += most > share
        if len(mine) > most:
            found[worker] = mine[: len(mine) - most]
    return found


def _hand_out(after: Mapping[str, Work], work: Work) -> None:
    """One each to the workers with the least, until all are level; connectors and tasks by themselves."""
    for name, worker in zip(work.connectors, _turns({w: len(a.connectors) for w, a in after.items()}), strict=False):
        after[worker].connectors[name] = None
    for task, worker in zip(work.tasks, _turns({w: len(a.tasks) for w, a in after.items()}), strict=False):
        after[worker].tasks[task] = None


def _turns(loads: dict[str, int]) -> Iterator[str]:
    order = sorted(loads, key=lambda worker: (loads[worker], text_key(worker)))
    while True:
        least = loads[order[0]]
        # Those level with the first, up to the first that has more.
        level = next((at for at, worker in enumerate(order) if loads[worker] > least), len(order))
        for worker in order[:level]:
            loads[worker] += 1
            yield worker
