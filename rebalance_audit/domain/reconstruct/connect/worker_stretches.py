"""The states of one run where no status is left: from the worker's own lines."""

from __future__ import annotations

from dataclasses import replace

from rebalance_audit.domain.kinds import TaskState
from rebalance_audit.domain.model import NO_END, LogKind
from rebalance_audit.domain.reconstruct.evidence.marks import LINE_SLACK_MS

from .lines import WorkerLines
from .restarts import restarts_by_lines
from .runs import OwnershipRun
from .stretches import BoundedInstant, StateInterval, settle


def add_restarts(found: list[StateInterval], run: OwnershipRun, lines: WorkerLines) -> None:
    """Each stop and start while the run lasted ends one interval and begins another."""
    for restart in restarts_by_lines(run, lines):
        stops, starts = restart.stops(), restart.resumes()
        end = settle(stops, found[-1].start.at).no_earlier_than(found[-1].start.at)
        start = settle(starts, end.at).no_earlier_than(end.at)
        found[-1].end, found[-1].ended_by = end, "restarted"
        found[-1].evidence = (*found[-1].evidence, *(m.ref for m in stops))
        refs = tuple(m.ref for m in starts)
        found.append(StateInterval(state=TaskState.RUNNING, start=start, run=run, evidence=refs))


_ASKED = {"PAUSED": TaskState.PAUSED, "STOPPED": TaskState.STOPPED}
"""States that somebody asks for in which a connector does not run."""


def add_pauses(found: list[StateInterval], run: OwnershipRun, lines: WorkerLines) -> None:
    """What somebody asked of the connector while the run lasted. Its tasks are paused with it; when it is stopped a
    rebalance takes them."""
    connector, task = run.resource
    if run.worker.node is None:
        return
    until_ms, kinds = run.ended.at_ms if run.ended is not None else NO_END, (LogKind.WORKER_TARGET_STATE,)
    for line in lines.about(run.worker.node, (connector, None), kinds, run.seen.at_ms, until_ms):
        asked, at_ms = _ASKED.get(str(line.fields["state"]), TaskState.RUNNING), line.at_ms or 0
        current = next((s for s in reversed(found) if s.start.at <= at_ms), None)
        if current is None or current.state == asked or (asked == TaskState.STOPPED and task is not None):
            continue
        if current.end is not None and current.end.at <= at_ms:
            continue
        at = BoundedInstant(at_ms, at_ms, at_ms + LINE_SLACK_MS)
        is_running = asked == TaskState.RUNNING
        following = replace(current, state=asked, start=at, expected=not is_running, evidence=(line.ref,))
        how = "paused" if asked == TaskState.PAUSED else "stopped"
        if is_running:
            how = "resumed" if current.state == TaskState.PAUSED else "restarted"
        current.end, current.ended_by = at, how
        current.evidence = (*current.evidence, line.ref)
        found.insert(found.index(current) + 1, following)


def with_failures(found: list[StateInterval], run: OwnershipRun, lines: WorkerLines) -> list[StateInterval]:
    """FAILED from the line that the task threw, to whatever ends that interval."""
    if run.worker.node is None:
        return found
    until_ms = run.ended.at_ms if run.ended is not None else NO_END
    result: list[StateInterval] = []
    for stretch in found:
        result.append(stretch)
        before_ms = stretch.end.at if stretch.end is not None else until_ms
        kinds = (LogKind.WORKER_TASK_FAILED,)
        for line in lines.about(run.worker.node, run.resource, kinds, stretch.start.at, before_ms)[:1]:
            at_ms = line.at_ms or 0
            at = BoundedInstant(stretch.start.lower, at_ms, at_ms + LINE_SLACK_MS)
            failed = replace(stretch, state=TaskState.FAILED, start=at, evidence=(line.ref,))
            stretch.end, stretch.ended_by = at, "failed"
            result.append(failed)
    return result
