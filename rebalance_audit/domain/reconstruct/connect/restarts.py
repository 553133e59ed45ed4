"""Connectors and tasks that stopped and started on the worker that has them: no assignment shows it.

Statuses show it; without them the worker's own lines. Only the restart of a task for its new configuration belongs to
a rebalance; connectors restart by themselves, and anything may be restarted by request.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_audit.domain.kinds import Basis, EvidenceTier, TaskState
from rebalance_audit.domain.model import NO_END, ConnectRecord, LogEvent, LogKind, Mark
from rebalance_audit.domain.reconstruct.evidence.marks import LINE_SLACK_MS

from .bounds import about, not_after, not_before
from .lines import STARTED, TASK_STARTS, TASK_STOPS, WorkerLines
from .marks import running_marks, unassigned_marks
from .rounds import Round, Rounds, resource_name
from .runs import Ownership, OwnershipRun

RECONFIGURED_MS = 2_000
"""From the worker's line that it restarts tasks to the line that it stops each of them."""
RESTART_MS = 60_000
"""A start this long after the generation that carries its number was asked for by somebody, not by the rebalance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRestart:
    run: OwnershipRun
    stopped: ConnectRecord | LogEvent | None
    """UNASSIGNED, or the line that its stop began; None where only a second RUNNING shows it."""
    began: LogEvent | None = None
    """The line that its start began, where lines show it."""
    started: ConnectRecord | LogEvent
    """RUNNING, or the line that it has started."""

    def stops(self) -> list[Mark]:
        if isinstance(self.stopped, LogEvent):
            marks = [
                not_before(self.stopped, "the worker began to stop it"),
                about(self.stopped, "the worker began to stop it", rank=2, basis=Basis.WORKER_LINE),
            ]
            return marks if self.began is None else [*marks, not_after(self.began, "the worker began to restart it")]
        return unassigned_marks(self.stopped, self.run) if self.stopped is not None else []

    def resumes(self) -> list[Mark]:
        if not isinstance(self.started, LogEvent):
            return running_marks(self.started, self.run)
        marks = [about(self.started, "the worker's log: it has started", rank=1, basis=Basis.OWN_LINE)]
        if self.started.kind is LogKind.WORKER_TASK_STARTED:
            # A connector's line says that it was created; its start() is called in a thread of its own.
            at_ms = (self.started.at_ms or 0) + LINE_SLACK_MS
            marks.append(not_after(self.started, "the worker's log: it has started", at_ms))
        return marks if self.began is None else [not_before(self.began, "the worker began to restart it"), *marks]


def restarts_by_lines(run: OwnershipRun, lines: WorkerLines) -> list[TaskRestart]:
    """Each stop with a start after it while the run lasted, in order."""
    if run.worker.node is None:
        return []
    until_ms = run.ended.at_ms if run.ended is not None else NO_END
    kinds = (*TASK_STOPS, *TASK_STARTS, *STARTED)
    found: list[TaskRestart] = []
    stopped: LogEvent | None = None
    began: LogEvent | None = None
    for line in lines.about(run.worker.node, run.resource, kinds, run.seen.at_ms, until_ms):
        if line.kind in TASK_STOPS:
            stopped, began = line, None
        elif line.kind in TASK_STARTS:
            began = began or line
        elif stopped is not None:
            found.append(TaskRestart(run=run, stopped=stopped, began=began, started=line))
            stopped = None
    return found


def restarts_by_rounds(ownership: Ownership, rounds: Rounds, lines: WorkerLines) -> dict[int, list[TaskRestart]]:
    """Tasks restarted for a new configuration, by the index of the generation they started in."""
    found: dict[int, list[TaskRestart]] = {}
    for run in ownership.all():
        if run.statuses:
            numbered = _by_statuses(run, rounds)
        else:
            numbered = [(_round_of(r, rounds), r) for r in restarts_by_lines(run, lines) if _is_for_config(r, lines)]
        for round_, restart in numbered:
            if round_ is not None:
                found.setdefault(round_.index, []).append(restart)
    return found


def _by_statuses(run: OwnershipRun, rounds: Rounds) -> list[tuple[Round | None, TaskRestart]]:
    """RUNNING once more on the same worker under a newer generation, ownership unchanged."""
    within = _rounds_of(run, rounds)
    found: list[tuple[Round | None, TaskRestart]] = []
    for before, after in zip(run.statuses, run.statuses[1:], strict=False):
        old, new = before.record, after.record
        if new.state != TaskState.RUNNING or old.state not in (TaskState.UNASSIGNED, TaskState.RUNNING):
            continue
        if old.generation is None or new.generation is None or not old.generation < new.generation:
            continue
        stopped = before if old.state == TaskState.UNASSIGNED else None
        of_number = within[bisect_left(within, new.generation, key=_number) :][:1]
        round_ = of_number[0] if of_number and of_number[0].number == new.generation else None
        found.append((round_, TaskRestart(run=run, stopped=stopped, started=after)))
    return found


def _round_of(restart: TaskRestart, rounds: Rounds) -> Round | None:
    """The generation a worker had just joined when it restarted the task."""
    at_ms = (restart.began or restart.started).at_ms or 0
    within = _rounds_of(restart.run, rounds)
    before = within[: bisect_right(within, at_ms + LINE_SLACK_MS, key=_at_ms)][-1:]
    return before[0] if before and before[0].at_ms >= at_ms - RESTART_MS else None


def _rounds_of(run: OwnershipRun, rounds: Rounds) -> Sequence[Round]:
    """The rounds after the one that gave it, while the run lasted."""
    return rounds.between(run.seen.index + 1, run.ended.index if run.ended is not None else NO_END)


def _number(round_: Round) -> int:
    return round_.number


def _at_ms(round_: Round) -> int:
    return round_.at_ms


def _is_for_config(restart: TaskRestart, lines: WorkerLines) -> bool:
    run, stopped = restart.run, restart.stopped
    if run.resource[1] is None or run.worker.node is None or not isinstance(stopped, LogEvent):
        return False
    at_ms = stopped.at_ms or 0
    return bool(reconfigured_lines(run, lines, at_ms - RECONFIGURED_MS, at_ms + 1))


def reconfigured_lines(run: OwnershipRun, lines: WorkerLines, after_ms: int, before_ms: int) -> Sequence[LogEvent]:
    """The worker's lines that it stops this task, to start it with its new configuration."""
    if run.worker.node is None:
        return []
    name = resource_name(run.resource)
    return [
        line
        for line in lines.between(run.worker.node, after_ms, before_ms)
        if line.kind is LogKind.WORKER_TASKS_RECONFIGURED and name in (line.fields.get("tasks") or ())
    ]


def joins_after_stop(round_: Round) -> list[Mark]:
    """The marks of a restarted task of which nothing shows when it had stopped."""
    joined_ms = round_.joined_at_ms or round_.at_ms
    detail = "it stops before its worker joins"
    return [
        not_after(round_, detail, joined_ms + LINE_SLACK_MS),
        about(round_, detail, joined_ms, rank=5, basis=Basis.GONE, tier=EvidenceTier.INFERRED),
    ]
