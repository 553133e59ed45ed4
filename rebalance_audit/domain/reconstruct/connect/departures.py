"""How and when a worker went: from lines, from its own statuses, or from its silence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.connect_topics import ConnectStatus
from rebalance_audit.domain.kinds import TaskState
from rebalance_audit.domain.model import ConnectRecord, LogEvent, LogKind
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.departures import Departure, logged_departure
from rebalance_audit.domain.records import MemberMetadata

from .lines import WorkerLines
from .rounds import Worker
from .runs import OwnershipRun

_REJOINING = (LogKind.WORKER_REBALANCE_STARTED, LogKind.CLIENT_JOINING)


class Departures:
    def __init__(
        self,
        attempts: Sequence[Attempt],
        lines: WorkerLines,
        statuses: Iterable[ConnectRecord],
        loads: Sequence[LogEvent] = (),
    ) -> None:
        """`loads`: the lines of coordinators that took the group over."""
        self._attempts, self._loads = attempts, loads
        self._lines = lines
        self._statuses: dict[str, list[ConnectRecord]] = {}
        for record in sorted(statuses, key=lambda r: (r.at_ms, r.ref)):
            status = record.record
            if isinstance(status, ConnectStatus) and status.worker_id is not None:
                self._statuses.setdefault(status.worker_id, []).append(record)

    def logged(self, run: OwnershipRun) -> Departure | None:
        """How the run's worker went, by lines; None if no line shows it."""
        if run.ended is None:
            return None
        member = run.worker.metadata or _named_only(run.worker)
        return logged_departure(member, self._attempts[run.last.index + 1 : run.ended.index + 1], loads=self._loads)

    def successor_joined(self, run: OwnershipRun) -> LogEvent | None:
        """The line by which a new process at the same address came while the old one was still a member."""
        if run.ended is None:
            return None
        new = next(
            (w for w in run.ended.workers if w.key == run.worker.key and w.member_id != run.worker.member_id), None
        )
        if new is None:
            return None
        lines = [line for a in self._attempts[run.last.index + 1 : run.ended.index + 1] for line in a.during]
        return next(
            (x for x in lines if x.kind is LogKind.MEMBER_JOINED and x.fields.get("member_id") == new.member_id), None
        )

    def stopping(self, run: OwnershipRun) -> LogEvent | None:
        """The worker's own line that it shuts down."""
        return next((x for x in self._own_lines(run) if x.kind is LogKind.WORKER_STOPPING), None)

    def life_sign(self, run: OwnershipRun) -> LogEvent | ConnectRecord | None:
        """The last sign of life of the run's worker before the group missed it."""
        if run.ended is None:
            return None
        signs: list[LogEvent | ConnectRecord] = [*self._own_lines(run)[-1:]]
        for record in reversed(self._statuses.get(run.worker.worker_id or "", [])):
            generation = record.record.generation
            is_own = generation is not None and generation < run.ended.number
            if is_own and run.seen.at_ms <= record.at_ms <= run.ended.at_ms:
                signs.append(record)
                break
        return max(signs, key=lambda s: s.at_ms or 0, default=None)

    def inferred(self, run: OwnershipRun) -> Cause:
        """How the worker went where no line shows it, by the status its work was left in."""
        if run.ended is None or not run.statuses:
            return Cause.UNKNOWN
        if run.statuses[-1].record.state == TaskState.UNASSIGNED:
            return Cause.MEMBER_LEFT
        # Compaction takes the older status first: where RUNNING is left, nothing followed it.
        return Cause.MEMBER_SESSION_EXPIRED if run.statuses[-1].record.state == TaskState.RUNNING else Cause.UNKNOWN

    def _own_lines(self, run: OwnershipRun) -> list[LogEvent]:
        """Lines of the run's process after the last generation it had part in; not those after its restart."""
        if run.worker.node is None or run.ended is None:
            return []
        joined = self._lines.joined_at(run.worker.node, run.last.number, run.last.at_ms)
        since_ms = (joined.at_ms or 0) if joined is not None else run.last.at_ms
        next_ms = self._lines.next_process_ms(run.worker.node, run.worker.member_id, since_ms)
        until_ms = run.ended.at_ms if next_ms is None else min(next_ms, run.ended.at_ms)
        found: list[LogEvent] = []
        for line in self._lines.between(run.worker.node, since_ms, until_ms):
            if line.kind in _REJOINING:
                break
            found.append(line)
        return found


def ended_by(run: OwnershipRun, departures: Departures) -> str | None:
    """The end of the run, in the words of gold.connect_task."""
    match run.how:
        case None:
            return None
        case "revoked" | "stopped_to_join":
            return "revoked"
        case "given_up":
            return "given_up"
    left = departures.logged(run)
    trigger = left.trigger if left is not None else departures.inferred(run)
    if any(r.record.state == TaskState.UNASSIGNED for r in run.statuses[-1:]) or departures.stopping(run) is not None:
        return "stopped"
    if trigger in (Cause.MEMBER_LEFT, Cause.MEMBER_REMOVED_BY_ADMIN):
        return "stopped"
    return "worker_gone" if trigger == Cause.UNKNOWN else "worker_lost"


def _named_only(worker: Worker) -> MemberMetadata:
    """A worker that only logs name: enough to find it in lines."""
    client_id = worker.joined.fields.get("client_id") if worker.joined is not None else None
    return MemberMetadata(
        member_id=worker.member_id,
        group_instance_id=None,
        client_id=client_id or worker.member_id,
        client_host="",
        rebalance_timeout=0,
        session_timeout=0,
        subscription=b"",
        assignment=b"",
    )
