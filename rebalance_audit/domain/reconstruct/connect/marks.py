"""The evidence for when a connector or task stopped and when it ran again.

How statuses and group records lie beside the tasks' own start() and stop() was measured on one clock:
docs/measured.md#connect-tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_audit.domain.kinds import Basis, Bound, EvidenceTier, TaskState
from rebalance_audit.domain.model import NO_END, ConnectRecord, LogEvent, LogKind, Mark, changed
from rebalance_audit.domain.reconstruct.evidence.marks import LINE_SLACK_MS

from .bounds import about, not_after, not_before, within
from .configs import Configs
from .departures import Departures
from .gone import gone_marks, zombie_marks
from .lines import STARTED, TASK_STARTS, TASK_STOPS, WorkerLines
from .rounds import Round, Rounds
from .runs import LATE_STATUS_MS, OwnershipRun

RUNNING_AFTER_START_MS = 2
"""The median time from the return of start() to the RUNNING status."""
START_AFTER_RUNNING_MS = 200
"""Workers up to 2.6 write RUNNING before they call a task's start(), and no record says how old a worker is: chosen,
for a start() that waits for nobody; the lab's took 17 ms (docs/kafka_writes.md#connect-statuses)."""
UNASSIGNED_AFTER_STOP_MS = 9
"""The median time from the return of stop() to the UNASSIGNED status."""
START_AFTER_RECORD_MS = 40
"""From the group record to the return of start(): tens of ms, on a loaded worker some hundred."""
STOP_AFTER_RECORD_MS = 50
"""From the group record to the call of stop(): tens of ms, on a loaded worker some hundred."""
STATUS_ORDER_MS = 50
"""Statuses of a partition are not in the order of their times, by some tens of ms."""
OLD_START_MS = 100
"""How far a task's start() lies from its RUNNING on a worker that may be of 2.3 to 2.6: chosen, half of what bounds
allow; the lab's lay from 105 ms before to 52 ms after (docs/measured.md#likely-ranges)."""
OLD_POLL_MS = 500
"""How long a source task's poll() may go on after its stop() on a worker up to 2.6: chosen, the lab's went on for 310
to 393 ms (docs/measured.md#likely-ranges)."""
GRACEFUL_STOP_MS = 5_000
"""task.shutdown.graceful.timeout.ms by default (docs/measured.md#defaults-of-kafka). A worker goes on after it, whether
or not the task has stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The evidence that marks are made of."""

    rounds: Rounds
    lines: WorkerLines
    departures: Departures
    configs: Configs
    starts: dict[OwnershipRun, tuple[Mark, ...]] = field(default_factory=dict)
    """Found once: a movement and two intervals ask for them."""
    stops: dict[OwnershipRun, tuple[Mark, ...]] = field(default_factory=dict)

    def has_new_config(self, round_: Round) -> bool:
        """Whether it is based on more of the config topic than the round before, so far as is known."""
        before = self.rounds.before(round_.index)
        if before is None or before.config_offset is None or round_.config_offset is None:
            return True
        return round_.config_offset > before.config_offset

    def changes(self, round_: Round) -> list[ConnectRecord]:
        """The config records it knows and the round before did not."""
        before = self.rounds.before(round_.index)
        if before is None or before.config_offset is None or round_.config_offset is None:
            return []
        return [record for _, record in self.configs.changes(before.config_offset, round_.config_offset)]


def start_marks(run: OwnershipRun, sources: Sources) -> tuple[Mark, ...]:
    """When the resource's start() returned on the run's worker."""
    if run not in sources.starts:
        sources.starts[run] = tuple(_start_marks(run, sources))
    return sources.starts[run]


def stop_marks(run: OwnershipRun, sources: Sources) -> tuple[Mark, ...]:
    """When the resource's stop() was called on the run's worker, or the worker died."""
    if run not in sources.stops:
        sources.stops[run] = tuple(_stop_marks(run, sources))
    return sources.stops[run]


def _start_marks(run: OwnershipRun, sources: Sources) -> list[Mark]:
    if run.resumes is not None:
        return zombie_marks(run, run.resumes, sources.lines)
    marks: list[Mark] = []
    begun = run.begun
    running = next((r for r in run.statuses if r.record.state == TaskState.RUNNING), None)
    if begun is not None:
        marks.append(not_before(begun, "the assignment was delivered"))
        marks += _start_lines(run, begun, running, sources.lines)
    if running is not None:
        is_first = begun is None or running.record.generation == begun.number
        marks += running_marks(running, run, is_first=is_first, rounds=sources.rounds)
    elif begun is None:
        marks.append(not_after(run.seen, "it ran already when evidence begins", run.seen.joined_at_ms))
    if begun is not None:
        detail = f"tasks start about {START_AFTER_RECORD_MS} ms after the group record"
        at_ms = begun.at_ms + START_AFTER_RECORD_MS
        marks.append(about(begun, detail, at_ms, rank=3, basis=Basis.CONNECT_ROUND, tier=EvidenceTier.INFERRED))
    return marks


def _ran_nothing(run: OwnershipRun, rounds: Rounds) -> bool:
    """Whether its worker ran nothing before the run began, so far as is known."""
    before = rounds.before(run.begun.index) if run.begun is not None else None
    worker = before.worker(run.worker.member_id) if before is not None else None
    return run.begun is not None and (worker is None or not worker.running)


def running_marks(
    status: ConnectRecord, run: OwnershipRun, *, is_first: bool = True, rounds: Rounds | None = None
) -> list[Mark]:
    """A RUNNING status marks the start() before it. One that is not the first bounds the first all the same. `rounds`:
    where it may be the first that its worker wrote."""
    detail = "its status says RUNNING"
    marks = [not_after(status, detail, status.at_ms + START_AFTER_RUNNING_MS)]
    if is_first:
        is_new_worker = rounds is not None and _ran_nothing(run, rounds)
        basis = Basis.STATUS_OF_NEW_WORKER if is_new_worker else Basis.STATUS
        started = about(status, detail, status.at_ms - RUNNING_AFTER_START_MS, rank=1, basis=basis)
        if _may_be_old(run):
            around = status.at_ms - OLD_START_MS, status.at_ms + OLD_START_MS
            started = within(changed(started, basis=Basis.STATUS_OF_OLD_START), around)
        marks.append(started)
    return marks


def _may_be_old(run: OwnershipRun) -> bool:
    """A task whose worker may be of 2.3 to 2.6. Connectors are started and stopped as by later ones."""
    return run.resource[1] is not None and not run.worker.is_of_3_7


def _start_lines(run: OwnershipRun, begun: Round, running: ConnectRecord | None, lines: WorkerLines) -> list[Mark]:
    worker = run.worker
    marks = [not_before(worker.joined, "the worker learnt of it")] if worker.joined is not None else []
    if worker.node is None:
        return marks
    until_ms = run.ended.at_ms if run.ended is not None else NO_END
    for line in lines.about(worker.node, run.resource, TASK_STARTS, begun.at_ms, until_ms)[:1]:
        marks.append(not_before(line, "the worker began to start it"))
    for line in lines.about(worker.node, run.resource, (LogKind.WORKER_TASK_STARTED,), begun.at_ms, until_ms)[:1]:
        marks.append(not_after(line, "the worker's log: it has started", (line.at_ms or 0) + LINE_SLACK_MS))
        marks.append(about(line, "the worker's log: it has started", rank=1, basis=Basis.OWN_LINE))
    for line in lines.about(worker.node, run.resource, (LogKind.WORKER_CONNECTOR_STARTED,), begun.at_ms, until_ms)[:1]:
        # Its start() is called then, in a thread of its own; its status follows.
        created_ms = line.at_ms or 0
        if running is not None and running.at_ms >= created_ms:
            between_ms = (created_ms + running.at_ms) // 2
            detail = "between its creation in the worker's log and its status"
            marks.append(about(line, detail, between_ms, rank=0, basis=Basis.CREATION))
        else:
            marks.append(about(line, "the worker's log: it was created", rank=1, basis=Basis.CREATION))
    return marks


def _stop_marks(run: OwnershipRun, sources: Sources) -> list[Mark]:
    ended = run.ended
    if ended is None:
        return []
    marks = [_given(run)]
    alive = [r for r in run.statuses if r.record.state in (TaskState.RUNNING, TaskState.PAUSED, TaskState.RESTARTING)]
    for status in alive[-1:]:
        marks.append(not_before(status, f"its status said {status.record.state}", status.at_ms - STATUS_ORDER_MS))
    unassigned = [r for r in run.statuses[-1:] if r.record.state == TaskState.UNASSIGNED]
    for status in unassigned:
        marks += unassigned_marks(status, run)
    marks += _stop_lines(run, ended, sources.lines)
    match run.how:
        case "revoked":
            marks += _revoked(run, ended, sources, is_marked=bool(unassigned))
        case "stopped_to_join":
            marks += _stopped_to_join(run, ended, sources, is_marked=bool(unassigned))
        case "given_up":
            marks += _given_up(run, ended, sources)
        case _:
            marks += gone_marks(run, ended, sources.departures, is_marked=bool(unassigned))
            if run.revived is not None:
                # Frozen or cut off? A worker that was only cut off worked all the time.
                marks = [m for m in marks if m.bound != Bound.UPPER]
                marks += [m for m in stop_marks(run.revived, sources) if m.bound == Bound.UPPER]
    return marks


def unassigned_marks(status: ConnectRecord, run: OwnershipRun) -> list[Mark]:
    """An UNASSIGNED status marks the stop() before it. Tasks that took longer to stop write none."""
    detail = "its status says UNASSIGNED, written when it has stopped"
    stopped = about(status, detail, status.at_ms - UNASSIGNED_AFTER_STOP_MS, rank=1, basis=Basis.STATUS_OF_STOP)
    if _may_be_old(run):
        stopped = within(changed(stopped, basis=Basis.STATUS_OF_OLD_STOP), (status.at_ms - OLD_POLL_MS, status.at_ms))
    return [
        not_before(status, detail, status.at_ms - 2 * GRACEFUL_STOP_MS),
        not_after(status, detail, status.at_ms + LINE_SLACK_MS),
        stopped,
    ]


def _given(run: OwnershipRun) -> Mark:
    if run.begun is not None:
        return not_before(run.begun, "the worker was given it then")
    at_ms = run.seen.joined_at_ms or run.seen.at_ms
    if run.ended is run.seen:
        # All that is known is that it ran when its worker joined.
        at_ms = min(at_ms, run.seen.heard_at_ms or at_ms) - 2 * GRACEFUL_STOP_MS
    return not_before(run.seen, "the worker had it then", at_ms)


def _stop_lines(run: OwnershipRun, ended: Round, lines: WorkerLines) -> list[Mark]:
    node = run.worker.node
    if node is None:
        return []
    # It may have been stopped and started in between; and what a zombie writes later is its own.
    started = lines.about(node, run.resource, STARTED, run.last.at_ms, ended.at_ms)
    after_ms = max(run.last.at_ms, started[-1].at_ms or 0) if started else run.last.at_ms
    # What was stopped to join had stopped by then: a later line is of what it was given then.
    until_ms = ended.at_ms if run.how == "stopped_to_join" else _own_until_ms(run, ended, lines)
    window = (after_ms, until_ms)
    marks: list[Mark] = []
    for line in lines.about(node, run.resource, TASK_STOPS, *window)[:1]:
        marks.append(not_before(line, "the worker began to stop it"))
        marks.append(about(line, "the worker began to stop it", rank=2, basis=Basis.WORKER_LINE))
    stopped = lines.about(node, run.resource, (LogKind.WORKER_TASK_STOPPED, LogKind.WORKER_CONNECTOR_STOPPED), *window)
    for line in [x for x in stopped if x.fields.get("is_graceful", True)][:1]:
        marks.append(not_after(line, "the worker's log: it has stopped", (line.at_ms or 0) + LINE_SLACK_MS))
    return marks


def _own_until_ms(run: OwnershipRun, ended: Round, lines: WorkerLines) -> int:
    """Until when its node's lines may be about this run: not those of a zombie, nor of the process that came after."""
    until_ms = ended.at_ms + (LATE_STATUS_MS if run.revived is None else 0)
    if run.worker.node is None or run.revived is not None or run.how != "gone":
        return until_ms
    next_ms = lines.next_process_ms(run.worker.node, run.worker.member_id, run.last.at_ms)
    return until_ms if next_ms is None else min(until_ms, next_ms)


def _revoked(run: OwnershipRun, ended: Round, sources: Sources, *, is_marked: bool) -> list[Mark]:
    """The assignment asks for it, the worker stops it at once; then it joins again."""
    marks: list[Mark] = []
    heard_at_ms = ended.delivered_at_ms
    if sources.has_new_config(ended):
        # A worker stops tasks whose configuration changed before it joins, whether or not it will be given them again.
        changes = sources.changes(ended)
        heard_at_ms = min((record.at_ms for record in changes), default=None)
        marks += [not_before(r, "the configuration changed") for r in changes if r.at_ms == heard_at_ms][:1]
    elif heard_at_ms is not None:
        marks.append(not_before(ended, "the assignment that took it away", heard_at_ms))
    detail, record_ms = "soon after the assignment that took it away", ended.delivered_at_ms
    at_ms = ended.at_ms if record_ms is None else record_ms + STOP_AFTER_RECORD_MS
    marks.append(about(ended, detail, at_ms, rank=3, basis=Basis.CONNECT_ROUND, tier=EvidenceTier.INFERRED))
    if heard_at_ms is None:
        heard_at_ms = _began_to_stop_ms(run, ended, sources.lines)
    if is_marked or heard_at_ms is None:
        return marks
    worker = ended.worker(run.worker.member_id)
    if worker is not None and worker.joined is not None:
        joined_ms = worker.joined.at_ms or 0
        if joined_ms - heard_at_ms < GRACEFUL_STOP_MS:
            marks.append(not_after(worker.joined, "the worker had stopped it and went on", joined_ms + LINE_SLACK_MS))
    following = sources.rounds.after(ended.index)
    if following is None or following.worker(run.worker.member_id) is None:
        return marks
    rejoined_ms = following.joined_at_ms
    if rejoined_ms is not None and rejoined_ms - heard_at_ms < GRACEFUL_STOP_MS:
        marks.append(not_after(following, "the worker had joined again", rejoined_ms + LINE_SLACK_MS))
    return marks


def _began_to_stop_ms(run: OwnershipRun, ended: Round, lines: WorkerLines) -> int | None:
    if run.worker.node is None:
        return None
    until_ms = _own_until_ms(run, ended, lines)
    found = lines.about(run.worker.node, run.resource, TASK_STOPS, run.last.at_ms, until_ms)
    return found[0].at_ms if found else None


def _stopped_to_join(run: OwnershipRun, ended: Round, sources: Sources, *, is_marked: bool) -> list[Mark]:
    """Eager: everything stops before the worker joins."""
    marks: list[Mark] = []
    preparing, heard_ms = ended.attempt.preparing, ended.heard_at_ms
    if sources.has_new_config(ended):
        # Every worker reads the config topic by itself, and stops its work before the group hears of it.
        marks += [not_before(r, "the configuration changed") for r in sources.changes(ended)[:1]]
    elif preparing is not None and heard_ms is not None:
        if run.worker.member_id not in str(preparing.fields.get("reason", "")):
            marks.append(not_before(preparing, "nobody knew before the rebalance began", heard_ms - LINE_SLACK_MS))
    for line in _lines_of(run, ended, sources.lines, (LogKind.WORKER_REBALANCE_STARTED,))[-1:]:
        marks.append(not_before(line, "the worker's log: rebalance started"))
        marks.append(about(line, "the worker's log: rebalance started", rank=2, basis=Basis.WORKER_LINE))
    joined_ms = ended.joined_at_ms
    if joined_ms is None:
        return marks
    if not is_marked and (heard_ms is None or joined_ms - heard_ms < GRACEFUL_STOP_MS):
        marks.append(not_after(ended, "the worker had stopped it and joined", joined_ms + LINE_SLACK_MS))
    at_ms = joined_ms if heard_ms is None else (heard_ms + joined_ms) // 2
    detail = "between the rebalance's start and the end of the join phase"
    return [*marks, about(ended, detail, at_ms, rank=5, basis=Basis.JOIN_PHASE, tier=EvidenceTier.INFERRED)]


def _given_up(run: OwnershipRun, ended: Round, sources: Sources) -> list[Mark]:
    """The worker stopped everything by itself: it could not reach the coordinator, or could not catch up."""
    marks: list[Mark] = []
    kinds = (LogKind.WORKER_COORDINATOR_LOST, LogKind.WORKER_ASSIGNMENT_REVOKED)
    for line in _lines_of(run, ended, sources.lines, kinds)[:1]:
        marks.append(not_before(line, "the worker gave all its work up"))
        marks.append(about(line, "the worker gave all its work up", rank=2, basis=Basis.WORKER_LINE))
    joined_ms = ended.joined_at_ms or ended.at_ms
    marks.append(not_after(ended, "the worker joined without it", joined_ms + LINE_SLACK_MS))
    detail = "the worker joined without it"
    return [*marks, about(ended, detail, joined_ms, rank=5, basis=Basis.GONE, tier=EvidenceTier.INFERRED)]


def _lines_of(run: OwnershipRun, ended: Round, lines: WorkerLines, kinds: tuple[LogKind, ...]) -> list[LogEvent]:
    if run.worker.node is None:
        return []
    return [x for x in lines.between(run.worker.node, run.last.at_ms, ended.at_ms) if x.kind in kinds]
