"""CN003, CN007: single connectors and tasks that failed, or are not where the status topic says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rebalance_audit.domain.detect.finding import Extent, capped
from rebalance_audit.domain.detect.history import History
from rebalance_audit.domain.detect.wording import counted, duration, folded, shown
from rebalance_audit.domain.kinds import Severity, TaskState
from rebalance_audit.domain.model import ConnectTask, Finding


@dataclass(frozen=True, slots=True)
class _Overlap:
    earlier: ConnectTask
    later: ConnectTask
    overlap_ms: int


def zombie_status(history: History) -> list[Finding]:
    """The status topic says RUNNING at a worker that is not in the group, or at two workers at once.

    Silent for the moment of a hand-over, whose status records come late and out of order.
    """
    found: list[Finding] = []
    by_name: dict[tuple[str, int | None], list[ConnectTask]] = {}
    for task in history.tasks:
        by_name.setdefault((task.connector, task.task), []).append(task)
    dead: list[tuple[ConnectTask, int]] = []
    twice: dict[tuple[str, ...], list[_Overlap]] = {}
    for (connector, _), intervals in by_name.items():
        limits = history.limits.of(connector)
        intervals.sort(key=lambda t: t.from_ms)
        running = [t for t in intervals if t.state == TaskState.RUNNING]
        for earlier, later in pairwise(running):
            until_ms = earlier.to_ms if earlier.to_ms is not None else history.now_ms
            overlap_ms = min(until_ms, later.to_ms if later.to_ms is not None else history.now_ms) - later.from_ms
            if _worker(earlier) != _worker(later) and overlap_ms > limits.zombie_overlap_ms:
                pair = tuple(sorted((_worker(earlier), _worker(later))))
                twice.setdefault(pair, []).append(_Overlap(earlier, later, overlap_ms))
        for task in intervals:
            if task.state == TaskState.LOST:
                lasted_ms = (task.to_ms if task.to_ms is not None else history.now_ms) - task.from_ms
                if lasted_ms > limits.zombie_min_ms:
                    dead.append((task, lasted_ms))
    for _, overlaps in sorted(twice.items()):
        # A worker that does not know it was put out goes on with all its tasks: that is one finding, however many there
        # are.
        overlaps.sort(key=lambda o: o.later.from_ms)
        while overlaps:
            end_ms = overlaps[0].later.from_ms + history.limits.quiet_ms
            found += _two_workers(history, [o for o in overlaps if o.later.from_ms <= end_ms])
            overlaps = [o for o in overlaps if o.later.from_ms > end_ms]
    for worker in sorted({_worker(t) for t, _ in dead}):
        mine = [(t, ms) for t, ms in dead if _worker(t) == worker]
        for part in _apart(mine, history.limits.quiet_ms):
            found += _dead_worker(history, worker, part)
    return found


def _two_workers(history: History, overlaps: Sequence[_Overlap]) -> list[Finding]:
    """`overlaps`: of one pair of workers, of about one time."""
    first = overlaps[0]
    longest_ms = max(o.overlap_ms for o in overlaps)
    is_open = any(o.earlier.to_ms is None and o.later.to_ms is None for o in overlaps)
    names = [_name(o.later) for o in overlaps]
    what = shown(names[0]) if len(names) == 1 else counted(len(names), "task or connector", "tasks and connectors")
    return history.finding(
        "CN003",
        Extent(
            key=f"{_name(first.earlier)} {first.earlier.from_ms} {first.later.from_ms}",
            is_open=is_open,
            first_seen_at_ms=min(o.later.from_ms for o in overlaps),
            last_seen_at_ms=max(o.later.from_ms + o.overlap_ms for o in overlaps),
        ),
        severity=Severity.CRITICAL if is_open else Severity.WARNING,
        title=f"{what} of {history.group} {'was' if len(names) == 1 else 'were'} RUNNING on two workers at once for "
        f"{duration(longest_ms)}: {shown(_worker(first.earlier))} and {shown(_worker(first.later))}",
        detail=f"Concerned: {folded(names)}" if len(names) > 1 else None,
        numbers={
            "count": len(names),
            "overlap_ms": longest_ms,
            "workers": [_worker(first.earlier), _worker(first.later)],
        },
        advice="Look for records written twice, and restart the worker that had it first.",
        connectors=[o.later.connector for o in overlaps],
        evidence=capped(ref for o in overlaps for ref in (*o.earlier.evidence[:2], *o.later.evidence[:2])),
    )


def _dead_worker(history: History, worker: str, part: list[tuple[ConnectTask, int]]) -> list[Finding]:
    longest_ms = max(ms for _, ms in part)
    is_open = any(t.to_ms is None for t, _ in part)
    is_long = any(ms > history.limits.of(t.connector).zombie_warning_ms for t, ms in part)
    start_ms = min(t.from_ms for t, _ in part)
    return history.finding(
        "CN003",
        Extent(
            key=f"{worker} {start_ms}",
            is_open=is_open,
            first_seen_at_ms=start_ms,
            last_seen_at_ms=max(t.from_ms + ms for t, ms in part),
        ),
        severity=Severity.WARNING if is_long else Severity.INFO,
        title=f"The status topic {'says' if is_open else 'said'} RUNNING for {duration(longest_ms)} about "
        f"{counted(len(part), 'task or connector', 'tasks and connectors')} of {history.group} at {shown(worker)}, "
        "which was not in the group",
        detail=f"Concerned: {folded(_name(t) for t, _ in part)}",
        numbers={"count": len(part), "longest_ms": longest_ms, "worker": worker},
        advice="Do not trust REST or a dashboard about a killed worker: nobody writes UNASSIGNED for it. Watch the "
        "group.",
        connectors=[t.connector for t, _ in part],
        evidence=capped(ref for t, _ in part for ref in t.evidence[:2]),
    )


def task_failed(history: History) -> list[Finding]:
    """A connector or task is, or was, FAILED; the first line of its trace says why.

    Silent for paused, stopped, unassigned and restarting ones.
    """
    found: list[Finding] = []
    by_name: dict[tuple[str, int | None], list[ConnectTask]] = {}
    for task in history.tasks:
        if task.state == TaskState.FAILED:
            by_name.setdefault((task.connector, task.task), []).append(task)
    for intervals in by_name.values():
        for part in _apart([(t, 0) for t in sorted(intervals, key=lambda t: t.from_ms)], history.limits.quiet_ms):
            first, last = part[0][0], part[-1][0]
            is_open = last.to_ms is None
            end_ms = history.now_ms if last.to_ms is None else last.to_ms
            why = next((t.detail for t, _ in reversed(part) if t.detail), None)
            times = "" if len(part) == 1 else f" {len(part)} times"
            found += history.finding(
                "CN007",
                Extent(
                    key=f"{_name(first)} {first.resource_type} {first.from_ms}",
                    is_open=is_open,
                    first_seen_at_ms=first.from_ms,
                    last_seen_at_ms=max(end_ms, first.from_ms),
                ),
                severity=Severity.CRITICAL if is_open else Severity.WARNING,
                title=f"{first.resource_type.capitalize()} {shown(_name(first))} of {history.group} failed{times} at "
                f"{shown(_worker(last))}: {shown(why, 120) if why else 'no trace was written'}",
                numbers={"times": len(part), "failed_for_ms": end_ms - first.from_ms, "worker": _worker(last)},
                advice="Repair what the trace names, then restart it: POST /connectors/<name>/tasks/<task>/restart. "
                "Connect "
                "does not restart a failed task by itself.",
                connectors=[first.connector],
                evidence=[ref for t, _ in part for ref in t.evidence[:2]],
            )
    return found


def _apart(intervals: list[tuple[ConnectTask, int]], quiet_ms: int) -> list[list[tuple[ConnectTask, int]]]:
    parts: list[list[tuple[ConnectTask, int]]] = []
    end_ms: int | None = None
    for task, lasted_ms in sorted(intervals, key=lambda item: item[0].from_ms):
        if parts and (end_ms is None or task.from_ms - end_ms <= quiet_ms):
            parts[-1].append((task, lasted_ms))
        else:
            parts.append([(task, lasted_ms)])
        end_ms = task.to_ms
    return parts


def _name(task: ConnectTask) -> str:
    return task.connector if task.task is None else f"{task.connector}-{task.task}"


def _worker(task: ConnectTask) -> str:
    return task.worker_id or task.worker_url or "a worker not known"
