"""Runs: a worker, a connector or task, and the generations from which to which it ran there.

A run is one worker process and one resource: it begins with the generation that gives the resource to the worker and
ends with the one that takes it, or in which the worker is missing. Pauses lie between two runs of a resource.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from operator import itemgetter

from rebalance_audit.domain.connect_topics import ConnectStatus
from rebalance_audit.domain.kinds import Mode, TaskState
from rebalance_audit.domain.model import NO_END, ConnectRecord, LogKind

from .lines import STARTED, TASK_STARTS, TASK_STOPS, WorkerLines
from .rounds import Resource, Round, Rounds, Worker, order

LATE_STATUS_MS = 60_000
"""A status this long after its run ended may still be its own: workers send them one by one."""


@dataclass(slots=True, kw_only=True, eq=False)
class OwnershipRun:
    resource: Resource
    worker: Worker
    """The worker as it was in the first known generation of the run."""
    begun: Round | None
    """None: it ran before the evidence begins."""
    seen: Round
    """The first generation in evidence in which the worker has it."""
    last: Round
    """The last generation in evidence in which the worker has it."""
    ended: Round | None = None
    how: str | None = None
    """revoked, gone (the worker), stopped_to_join (eager), given_up (the worker let go by itself)."""
    statuses: list[ConnectRecord] = field(default_factory=list)
    """Its own, in the order they were written."""
    resumes: OwnershipRun | None = None
    """A zombie: the run of the same process which seemed to have ended when the group put its worker out."""
    revived: OwnershipRun | None = None
    """The zombie's run that went on from this one."""

    @property
    def is_left_over(self) -> bool:
        """Whether this is the run of a zombie of an eager group: it stopped before it joined again, and others had long
        been given its work."""
        return self.resumes is not None and self.seen is self.resumes.ended


class Ownership:
    """The runs of every resource, in the order they began."""

    def __init__(self, rounds: Rounds, lines: WorkerLines) -> None:
        self.runs: dict[Resource, list[OwnershipRun]] = {}
        self._lines = lines
        self._open: dict[str, dict[Resource, OwnershipRun]] = {}
        """By member id."""
        self._workers: dict[str, Worker] = {}
        self._modes: dict[str, str] = {}
        """By member id: of the last generation it joined."""
        self._doubles: dict[str, list[OwnershipRun]] = {}
        """By member id: what it runs although the group has given it to others."""
        self.orphans: dict[int, list[Resource]] = {}
        """By index of the generation: resources known to have had an owner and without one after it."""
        for round_ in rounds.all:
            self._step(round_)
            held = {r for runs in self._open.values() for r in runs}
            self.orphans[round_.index] = [r for r in sorted(self.runs, key=order) if r not in held]
        self._before: dict[OwnershipRun, OwnershipRun] = {}
        self._after: dict[OwnershipRun, OwnershipRun] = {}
        self._begun: dict[int, list[OwnershipRun]] = {}
        self._ended: dict[int, list[OwnershipRun]] = {}
        self._last_ends: dict[Resource, list[int]] = {}
        """For each run of a resource, the latest end of it and of the runs before it; see `is_held_after`."""
        self._index()

    def before(self, run: OwnershipRun) -> OwnershipRun | None:
        """The run of the same resource that began before this one; it may not have ended when this one began."""
        return self._before.get(run)

    def after(self, run: OwnershipRun) -> OwnershipRun | None:
        """The next run of the same resource."""
        return self._after.get(run)

    def all(self) -> list[OwnershipRun]:
        return [run for resource in sorted(self.runs, key=order) for run in self.runs[resource]]

    def begun_in(self, round_: Round) -> list[OwnershipRun]:
        return self._begun.get(round_.index, [])

    def ended_in(self, round_: Round) -> list[OwnershipRun]:
        return self._ended.get(round_.index, [])

    def ended_by(self, resource: Resource, index: int) -> OwnershipRun | None:
        """The last run of the resource that ended in that generation or before it."""
        runs = self.runs[resource]
        until = bisect_right(runs, index, key=_seen_index)
        return next((r for r in reversed(runs[:until]) if r.ended is not None and r.ended.index <= index), None)

    def is_held_after(self, resource: Resource, index: int) -> bool:
        """Whether some worker was seen to run the resource after that generation, by then or earlier."""
        until = bisect_right(self.runs[resource], index, key=_seen_index)
        return until > 0 and self._last_ends[resource][until - 1] > index

    def _index(self) -> None:
        for run in self.all():
            if run.begun is not None:
                self._begun.setdefault(run.begun.index, []).append(run)
            if run.ended is not None:
                self._ended.setdefault(run.ended.index, []).append(run)
        for resource, runs in self.runs.items():
            for earlier, later in pairwise(r for r in runs if not r.is_left_over):
                self._before[later], self._after[earlier] = earlier, later
            ends = (NO_END if run.ended is None else run.ended.index for run in runs)
            self._last_ends[resource] = list(accumulate(ends, max))

    def _step(self, round_: Round) -> None:
        present = {w.member_id for w in round_.workers}
        for member_id in [m for m in self._open if m not in present]:
            if not round_.is_partial or self._is_gone(member_id, round_):
                for run in (*self._open.pop(member_id).values(), *self._doubles.pop(member_id, ())):
                    _end(run, round_, "gone")
        for worker in round_.workers:
            self._workers[worker.member_id] = worker
            self._settle(worker, round_)
            self._modes[worker.member_id] = round_.mode
        for worker in round_.workers:
            mine = self._open.setdefault(worker.member_id, {})
            if worker.running is None:
                continue
            for resource in [r for r in mine if r not in worker.running]:
                _end(mine.pop(resource), round_, "revoked")
        for worker in round_.workers:
            mine = self._open[worker.member_id]
            for resource in sorted(worker.running or (), key=order):
                if resource in mine:
                    mine[resource].last = round_
                else:
                    mine[resource] = self._begin(resource, worker, round_, round_)

    def _settle(self, worker: Worker, round_: Round) -> None:
        """Compares what the worker says it ran when it joined with what it was last given."""
        mine = self._open.setdefault(worker.member_id, {})
        joined_as = self._modes.get(worker.member_id, round_.mode)
        if joined_as == Mode.EAGER:
            # By the protocol of the generation before it stops all it was given before it joins.
            for resource in list(mine):
                _end(mine.pop(resource), round_, "stopped_to_join")
            if worker.member_id not in self._modes:
                self._add_left_over(worker, round_)
            return
        if round_.mode == Mode.EAGER:
            self._become_eager(worker)
            return
        # A worker's own line alone: what it was asked to give up it held, whoever else has it by now.
        held = worker.held if worker.held is not None else frozenset(mine) | worker.taken
        for resource in [r for r in mine if r not in held]:
            _end(mine.pop(resource), round_, "given_up")
        for resource in sorted(held.difference(mine), key=order):
            last = self.runs[resource][-1] if resource in self.runs else None
            is_same = last is not None and last.ended is not None and last.worker.key == worker.key
            if last is not None and is_same and not _stood_still(last):
                # Only the memory of the very process can hold it: it never heard of the generation that took it away,
                # or it lost its membership and went on.
                last.ended, last.how = None, None
                mine[resource] = last
            else:
                mine[resource] = self._begin(resource, worker, None, round_)
                self._link_zombie(mine[resource])

    def _become_eager(self, worker: Worker) -> None:
        """Seen on 4.3.0: a worker joins the first eager generation as it did the incremental ones, and stops nothing.
        What it is given again runs on; what others are given runs twice, as long as its process lives."""
        mine = self._open[worker.member_id]
        for resource in [r for r in mine if worker.running is not None and r not in worker.running]:
            self._doubles.setdefault(worker.member_id, []).append(mine.pop(resource))

    def _link_zombie(self, run: OwnershipRun) -> None:
        """Held without having been given: the same process as in a run that ended when the group missed its worker."""
        for earlier in reversed(self.runs[run.resource][:-1]):
            if earlier.worker.key == run.worker.key:
                if earlier.how == "gone":
                    earlier.revived, run.resumes = run, earlier
                return

    def _add_left_over(self, worker: Worker, round_: Round) -> None:
        """Its process was put out, went on, and stopped before it joined again as a new member. Its log shows it: what
        stops without a start is what the process had before."""
        for resource, runs in self.runs.items():
            earlier = next((r for r in reversed(runs) if r.worker.key == worker.key), None)
            if earlier is None or earlier.how != "gone" or earlier.ended is None or worker.node is None:
                continue
            window = earlier.ended.at_ms, round_.at_ms
            lines = self._lines.about(worker.node, resource, (*TASK_STARTS, *STARTED, *TASK_STOPS), *window)
            if lines and lines[0].kind in TASK_STOPS:
                missed = earlier.ended
                run = OwnershipRun(
                    resource=resource, worker=worker, begun=None, seen=missed, last=missed, resumes=earlier
                )
                _end(run, round_, "stopped_to_join")
                earlier.revived = run
                runs.append(run)

    def _begin(self, resource: Resource, worker: Worker, begun: Round | None, seen: Round) -> OwnershipRun:
        run = OwnershipRun(resource=resource, worker=worker, begun=begun, seen=seen, last=seen)
        self.runs.setdefault(resource, []).append(run)
        return run

    def _is_gone(self, member_id: str, round_: Round) -> bool:
        """A generation known from some workers' logs: one that is not there left, or its log was not collected."""
        worker = self._workers[member_id]
        for line in round_.attempt.during:
            ids = (*line.fields.get("member_ids", ()), line.fields.get("member_id"))
            if member_id in ids and line.kind in (
                LogKind.MEMBER_LEFT,
                LogKind.MEMBER_FAILED,
                LogKind.MEMBERS_NOT_REJOINED,
            ):
                return True
        if any(w.key == worker.key for w in round_.workers):
            return True
        if worker.node is None:
            return False
        last_ms = max((run.last.at_ms for run in self._open.get(member_id, {}).values()), default=round_.at_ms)
        lines = self._lines.between(worker.node, last_ms, round_.at_ms)
        if any(line.kind is LogKind.WORKER_STOPPING for line in lines):
            return True
        # Back as another member: it had been put out, or is a new process.
        later = self._lines.next_member_of(worker.node, round_.at_ms)
        return later not in (None, member_id) or self._lines.is_silent_after(worker.node, round_.at_ms)


def _stood_still(run: OwnershipRun) -> bool:
    """Whether a line says that its worker was put out because it was not heard of for its session. Heartbeats have a
    thread of their own: the process stood still, or had lost the network."""
    if run.how != "gone" or run.ended is None:
        return False
    return any(
        line.kind is LogKind.MEMBER_FAILED and line.fields.get("member_id") == run.worker.member_id
        for line in run.ended.attempt.during
    )


def _end(run: OwnershipRun, round_: Round, how: str) -> None:
    run.ended, run.how = round_, how


def attach_statuses(ownership: Ownership, statuses: Iterable[ConnectRecord]) -> dict[Resource, list[ConnectRecord]]:
    """Give each status to the run it is about; returns the tombstones of each resource.

    A status carries the generation in which its worker started or stopped the item, so it belongs to the run of that
    worker which that generation lies in, wherever its record stands. Statuses of workers that no generation
    knows (another cluster's, or from before the evidence) belong to none.
    """
    tombstones: dict[Resource, list[ConnectRecord]] = {}
    listed: dict[tuple[Resource, str | None], list[OwnershipRun]] = {}
    for run in ownership.all():
        listed.setdefault((run.resource, run.worker.worker_id), []).append(run)
    of_worker = {place: _RunsOfWorker(runs) for place, runs in listed.items()}
    for record in sorted(statuses, key=lambda r: (r.topic, r.partition, r.offset)):
        status = record.record
        if not isinstance(status, ConnectStatus) or status.kind == "topic":
            continue
        resource = (status.connector, status.task)
        if status.state is None:
            tombstones.setdefault(resource, []).append(record)
            continue
        if status.worker_id is not None:
            known = of_worker.get((resource, status.worker_id))
            own = _run_of(known, status, record.at_ms) if known is not None else None
            if own is not None:
                own.statuses.append(record)
    return tombstones


class _RunsOfWorker:
    """The runs of one resource on one worker, in the order of their rounds."""

    def __init__(self, runs: Sequence[OwnershipRun]) -> None:
        self.all = runs

    def near(self, at_ms: int) -> list[OwnershipRun]:
        """Those that a late status of this moment may be of. Times need not rise with the rounds."""
        spans, latest_ends = self._spans
        at = bisect_right(spans, at_ms + LATE_STATUS_MS, key=itemgetter(0))
        found = []
        while at and latest_ends[at - 1] >= at_ms - LATE_STATUS_MS:
            at -= 1
            _, last_ms, place = spans[at]
            if last_ms >= at_ms - LATE_STATUS_MS:
                found.append(place)
        return [self.all[place] for place in sorted(found)]

    @cached_property
    def _spans(self) -> tuple[list[tuple[int, int, int]], list[int]]:
        """First and last moment and place of each run, by the first; of each the latest end up to it."""
        spans = sorted(
            (
                run.begun.at_ms if run.begun is not None else 0,
                run.ended.at_ms if run.ended is not None else NO_END,
                place,
            )
            for place, run in enumerate(self.all)
        )
        return spans, list(accumulate((last_ms for _, last_ms, _ in spans), max))


def _run_of(known: _RunsOfWorker, status: ConnectStatus, at_ms: int) -> OwnershipRun | None:
    runs = known.all
    found: list[OwnershipRun] = []
    if status.generation is not None and runs:
        # Numbers rise with time, except where the group was made again: then there is more than one such place.
        incarnations = {runs[0].seen.attempt.incarnation, runs[-1].seen.attempt.incarnation}
        near = runs
        if len(incarnations) == 1:
            place = bisect_right(runs, status.generation, key=_seen_number)
            near = runs[max(place - 1, 0) : place + 1]
        found = [_alive(run, at_ms) for run in near if _covers(run, status.generation)]
    if not found and status.state in (TaskState.UNASSIGNED, TaskState.FAILED):
        found = known.near(at_ms)
    return min(found, key=lambda run: (_distance(run, at_ms), -run.seen.index), default=None)


def _seen_index(run: OwnershipRun) -> int:
    return run.seen.index


def _seen_number(run: OwnershipRun) -> int:
    return run.seen.number


def _first_number(run: OwnershipRun) -> int:
    return run.begun.number if run.begun is not None else -1


def _alive(run: OwnershipRun, at_ms: int) -> OwnershipRun:
    """A process that was put out goes on writing the generation it knows."""
    if run.revived is not None and run.ended is not None and at_ms > run.ended.at_ms:
        return run.revived
    return run


def _covers(run: OwnershipRun, generation: int) -> bool:
    first = _first_number(run)
    if run.resumes is not None:
        return False
    if run.ended is not None and run.ended.attempt.incarnation == run.seen.attempt.incarnation:
        return first <= generation < run.ended.number
    return first <= generation


def _distance(run: OwnershipRun, at_ms: int) -> int:
    """0 inside the run."""
    first = run.begun.at_ms if run.begun is not None else 0
    last = run.ended.at_ms if run.ended is not None else at_ms
    return max(first - at_ms, at_ms - last, 0)
