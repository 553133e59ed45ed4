"""The time line of every connector and task: in which state, where, from when to when, and what ended it.

Assignments say whose it is, statuses what it does there. The status topic alone lies: nobody writes UNASSIGNED for a
dead worker, and UNASSIGNED carries an older generation than the RUNNING it may follow.
Source: docs/kafka_writes.md#connect-statuses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rebalance_audit.domain.kinds import TaskState
from rebalance_audit.domain.model import NO_END, ConnectRecord, ConnectTask, GroupEvidence
from rebalance_audit.domain.reconstruct.evidence.marks import LINE_SLACK_MS

from .departures import ended_by
from .existence import Existence
from .marks import Sources, start_marks, stop_marks, unassigned_marks
from .rounds import Resource, Round, order, resource_type
from .runs import Ownership, OwnershipRun
from .stretches import BoundedInstant, StateInterval, cut_overdue, settle
from .worker_stretches import add_pauses, add_restarts, with_failures

_ENDS: dict[str, str] = {
    TaskState.PAUSED: "paused",
    TaskState.FAILED: "failed",
    TaskState.RESTARTING: "restarted",
    TaskState.STOPPED: "stopped",
    TaskState.UNASSIGNED: "stopped",
}
"""The end of the interval before, by the state that follows it on the same worker."""
_WHY = {
    "worker_lost": "its worker is dead, and nobody has noticed yet",
    "worker_gone": "its worker is not in the group any more, and nothing says how it went",
}


class TaskHistory:
    def __init__(self, evidence: GroupEvidence, ownership: Ownership, existence: Existence, sources: Sources) -> None:
        self._evidence = evidence
        self._ownership = ownership
        self._existence = existence
        self._sources = sources

    def rows(self) -> list[ConnectTask]:
        """The intervals in order of connector, task and time."""
        never = self._never_owned()
        found: list[ConnectTask] = []
        for resource in sorted({*self._ownership.runs, *never}, key=order):
            stretches = self._of(resource) if resource in self._ownership.runs else [never[resource]]
            found += self._rows(resource, stretches)
        return found

    def _rows(self, resource: Resource, stretches: Sequence[StateInterval]) -> list[ConnectTask]:
        rows: list[ConnectTask] = []
        taken: set[tuple[int, str]] = set()
        for stretch in sorted(stretches, key=lambda s: (s.start.at, s.end.at if s.end else NO_END)):
            is_empty = stretch.end is not None and stretch.end.at <= stretch.start.at
            if is_empty and stretch.state != TaskState.FAILED:
                continue
            row = self._row(resource, stretch)
            while (row.from_ms, row.state) in taken:
                # Two owners at once from the very same millisecond.
                moved = stretch.start.no_earlier_than(row.from_ms + 1)
                row = replace(row, from_ms=moved.at, from_upper_ms=moved.upper)
            taken.add((row.from_ms, row.state))
            rows.append(row)
        return rows

    def _row(self, resource: Resource, stretch: StateInterval) -> ConnectTask:
        start, run = stretch.start, stretch.run
        end = stretch.end.no_earlier_than(start.at) if stretch.end is not None else None
        return ConnectTask(
            cluster_id=self._evidence.cluster_id,
            group_id=self._evidence.group_id,
            resource_type=resource_type(resource),
            connector=resource[0],
            task=resource[1],
            worker_url=run.worker.url if run is not None else None,
            worker_id=run.worker.worker_id if run is not None else None,
            state=stretch.state,
            generation_id=stretch.generation_id,
            from_ms=start.at,
            from_lower_ms=start.lower,
            from_upper_ms=start.upper,
            to_ms=end.at if end is not None else None,
            to_lower_ms=end.lower if end is not None else None,
            to_upper_ms=end.upper if end is not None else None,
            ended_by=stretch.ended_by,
            expected=stretch.expected,
            detail=stretch.detail,
            evidence=tuple(dict.fromkeys(ref for ref in stretch.evidence if ref is not None)),
        )

    def _of(self, resource: Resource) -> list[StateInterval]:
        runs = self._ownership.runs[resource]
        found: list[StateInterval] = []
        for run in runs:
            within = self._within(run)
            found += within
            if run.ended is not None and within and within[-1].end is not None and not run.is_left_over:
                found += self._between(run, within[-1].end, self._ownership.after(run))
        return found

    def _within(self, run: OwnershipRun) -> list[StateInterval]:
        """The states of one run, from its statuses; RUNNING throughout where there are none."""
        marks = start_marks(run, self._sources)
        start = settle(marks, run.seen.at_ms)
        number = run.begun.number if run.begun is not None else None
        refs = (run.seen.ref, *(m.ref for m in marks))
        found = [StateInterval(state=TaskState.RUNNING, start=start, run=run, generation_id=number, evidence=refs)]
        statuses = list(run.statuses)
        if run.ended is not None and statuses and statuses[-1].record.state == TaskState.UNASSIGNED:
            statuses.pop()  # the run's own end
        is_first = True
        for record in statuses:
            status = record.record
            current = found[-1]
            if is_first and status.state not in (TaskState.UNASSIGNED, TaskState.RESTARTING):
                is_first = False
                current.state, current.generation_id = status.state, status.generation
                current.detail = _first_line(status.trace) if status.state == TaskState.FAILED else None
                current.evidence = (record.ref, *current.evidence)
                if status.state != TaskState.RUNNING:
                    current.start = _by_status(record, run)
                continue
            is_first = False
            is_newer = current.generation_id is not None and (status.generation or 0) > current.generation_id
            is_restart = status.state == TaskState.RUNNING and is_newer
            if status.state == current.state and not is_restart:
                continue
            at = _by_status(record, run)
            if status.state == TaskState.UNASSIGNED:
                at = settle(unassigned_marks(record, run), record.at_ms)
            at = at.no_earlier_than(current.start.at)
            has_more = record is not run.statuses[-1]
            current.end, current.ended_by = at, _ends(current.state, status.state, has_more=has_more)
            found.append(
                StateInterval(
                    state=status.state,
                    start=at,
                    run=run,
                    generation_id=status.generation,
                    expected=status.state
                    in (TaskState.UNASSIGNED, TaskState.RESTARTING, TaskState.PAUSED, TaskState.STOPPED),
                    detail=_first_line(status.trace) if status.state == TaskState.FAILED else None,
                    evidence=(record.ref,),
                )
            )
        if not run.statuses:
            add_restarts(found, run, self._sources.lines)
            add_pauses(found, run, self._sources.lines)
        if run.ended is not None:
            stops = stop_marks(run, self._sources)
            last = found[-1]
            last.end = settle(stops, run.ended.at_ms)
            last.ended_by = "deleted" if self._deleted(run) is run.ended else ended_by(run, self._sources.departures)
            last.evidence = (*last.evidence, *(m.ref for m in stops))
        return found if run.statuses else with_failures(found, run, self._sources.lines)

    def _between(self, run: OwnershipRun, end: BoundedInstant, following: OwnershipRun | None) -> list[StateInterval]:
        """The resource's states from the end of one run to the next, or to the end of evidence."""
        ended = run.ended
        assert ended is not None
        start = settle(start_marks(following, self._sources), following.seen.at_ms) if following is not None else None
        deleted = self._deleted(run)
        if deleted is ended or (start is not None and start.at <= end.at):
            return []
        until = following.seen.index if following is not None else NO_END
        if deleted is not None:
            start, until = BoundedInstant.exactly(deleted.at_ms), deleted.index
        how = ended_by(run, self._sources.departures)
        dead = run if how == "worker_lost" else None
        why = _WHY.get(how or "") if run.revived is None else "its worker was out of reach, and came back later"
        first = StateInterval(
            state=TaskState.LOST if dead is not None else TaskState.UNASSIGNED,
            start=end,
            run=dead,
            generation_id=ended.number,
            expected=why is None,
            detail=_joined(why, _stale(dead)),
            evidence=(ended.ref, *(r.ref for r in run.statuses[-1:])),
        )
        found = [first]
        for round_ in self._sources.rounds.between(ended.index, until):
            if round_.is_failed:
                continue
            if round_ is ended and run.how != "gone":
                continue  # the worker that gave it up joins again for it to be handed on
            self._after(round_, found, dead, start)
        last_stretch = found[-1]
        last_stretch.end = start
        if deleted is not None:
            last_stretch.ended_by = "deleted"
        elif following is not None:
            last_stretch.ended_by = "assigned"
            last_stretch.evidence = (*last_stretch.evidence, following.seen.ref)
        return cut_overdue(found)

    def _after(
        self, round_: Round, found: list[StateInterval], dead: OwnershipRun | None, until: BoundedInstant | None
    ) -> None:
        """The resource has no owner after this generation: inside the announced delay it waits, else it is lost."""
        current = found[-1]
        at_ms = max(round_.at_ms, current.start.at)
        if until is not None and at_ms >= until.at:
            return
        due_ms = None
        if round_.delay_ms:
            due_ms = round_.at_ms + round_.delay_ms
            detail = f"scheduled delay of {round_.delay_ms} ms announced in generation {round_.number}"
            state, expected = TaskState.WAITING, True
        else:
            detail, state, expected = f"generation {round_.number} gave it to nobody", TaskState.LOST, False
        if current.state == state:
            # The rest of the delay is announced again in each generation.
            current.due_ms = due_ms
            current.evidence = (*current.evidence, round_.ref)
            return
        current.end, current.ended_by = BoundedInstant.exactly(at_ms), "noticed"
        found.append(
            StateInterval(
                state=state,
                start=BoundedInstant.exactly(at_ms),
                generation_id=round_.number,
                expected=expected,
                run=dead,
                detail=_joined(detail, _stale(dead)),
                due_ms=due_ms,
                evidence=(round_.ref,),
            )
        )

    def _deleted(self, run: OwnershipRun) -> Round | None:
        return self._existence.deleted_in(run)

    def _never_owned(self) -> dict[Resource, StateInterval]:
        """Configured, and in no generation given to anybody."""
        found: dict[Resource, StateInterval] = {}
        for round_ in self._sources.rounds.all:
            if round_.is_failed:
                continue
            missing = set(self._existence.unassigned(round_)) - self._ownership.runs.keys()
            for resource in [r for r in found if r not in missing and found[r].end is None]:
                found[resource].end, found[resource].ended_by = BoundedInstant.exactly(round_.at_ms), "deleted"
            for resource in missing - found.keys():
                found[resource] = StateInterval(
                    state=TaskState.LOST,
                    start=BoundedInstant.exactly(round_.at_ms),
                    generation_id=round_.number,
                    detail=f"configured, and generation {round_.number} gave it to nobody",
                    evidence=(round_.ref,),
                )
        return found


def _stale(dead: OwnershipRun | None) -> str | None:
    """The state that the status topic still shows of work whose worker is dead."""
    if dead is None or not dead.statuses:
        return None
    status = dead.statuses[-1].record
    return f"the status topic goes on saying {status.state} at {status.worker_id}"


def _joined(*parts: str | None) -> str | None:
    return "; ".join(part for part in parts if part) or None


def _by_status(record: ConnectRecord, run: OwnershipRun) -> BoundedInstant:
    lower = run.begun.at_ms if run.begun is not None else None
    return BoundedInstant(lower, record.at_ms, record.at_ms + LINE_SLACK_MS)


def _ends(before: str, after: str, *, has_more: bool) -> str:
    if before in (TaskState.UNASSIGNED, TaskState.RESTARTING) or (
        before == TaskState.RUNNING and after == TaskState.RUNNING
    ):
        return "restarted"
    if after == TaskState.UNASSIGNED and has_more:
        return "restarted"
    if after == TaskState.RUNNING:
        return "resumed" if before == TaskState.PAUSED else "restarted"
    return _ends_by_state(after)


def _ends_by_state(state: str) -> str:
    return _ENDS.get(state, "stopped")


def _first_line(trace: str | None) -> str | None:
    lines = (trace or "").strip().splitlines()
    return lines[0] if lines else None
