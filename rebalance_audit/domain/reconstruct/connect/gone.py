"""The evidence for when a worker's work ended that is not in the group any more.

It stopped everything in good order and left, was put out while it worked on, or died. A dead worker's status goes on
saying RUNNING: that is no sign of life.
"""

from __future__ import annotations

from rebalance_audit.domain.causes import LEFT_IN_ORDER, Cause
from rebalance_audit.domain.kinds import ESTIMATE, LOWER, UPPER, Basis, Bound, EvidenceTier
from rebalance_audit.domain.model import LogKind, Mark
from rebalance_audit.domain.reconstruct.evidence.departures import HEARTBEAT_MS, Departure
from rebalance_audit.domain.reconstruct.evidence.marks import (
    COMMIT_SLACK_MS,
    EXPIRY_SLACK_MS,
    LINE_SLACK_MS,
    died_between,
)

from .bounds import about, not_after, not_before
from .departures import Departures
from .lines import WorkerLines
from .rounds import Round
from .runs import OwnershipRun

SHUTDOWN_MS = 15_000
"""A worker stops its tasks, then its connectors (5 s each by default: docs/measured.md#defaults-of-kafka), then its own
stores; then it leaves."""
ASSUMED_SESSION_MS = 10_000
"""session.timeout.ms of Connect workers by default (docs/measured.md#defaults-of-kafka)."""
FOUND_OUT_MS = 130
"""A worker that goes on looks for its coordinator first, and finds itself put out: 131 and 137 ms later
(docs/measured.md#connect-tasks)."""
_SILENT = (Cause.MEMBER_SESSION_EXPIRED, Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, Cause.UNKNOWN)


def gone_marks(run: OwnershipRun, ended: Round, departures: Departures, *, is_marked: bool) -> list[Mark]:
    """When the work of a worker that is missing in generation `ended` ended; `is_marked`: it wrote UNASSIGNED."""
    marks: list[Mark] = []
    successor = departures.successor_joined(run)
    if successor is not None:
        at_ms = (successor.at_ms or 0) + LINE_SLACK_MS
        marks.append(not_after(successor, "a new process at the same address joined", at_ms))
    stopping = departures.stopping(run)
    if stopping is not None:
        marks.append(not_before(stopping, "the worker began to shut down"))
        marks.append(about(stopping, "the worker began to shut down", rank=2, basis=Basis.WORKER_LINE))
    departure = departures.logged(run)
    trigger = departure.trigger if departure is not None else departures.inferred(run)
    if trigger in _SILENT and not is_marked and stopping is None:
        sign = departures.life_sign(run)
        if sign is not None:
            marks.append(not_before(sign, "the worker's last sign of life"))
            detail, basis = "the worker's last sign of life", Basis.MAY_LIVE_ON
            marks.append(about(sign, detail, rank=5, basis=basis, tier=EvidenceTier.INFERRED))
    session_ms = run.worker.metadata.session_timeout if run.worker.metadata is not None else None
    if departure is None or departure.at_ms is None:
        return _unseen(run, ended, session_ms, is_dead=trigger == Cause.MEMBER_SESSION_EXPIRED) + marks
    return marks + _seen(departure, session_ms)


def zombie_marks(run: OwnershipRun, earlier: OwnershipRun, lines: WorkerLines) -> list[Mark]:
    """When a worker that had been put out went on: between the group's missing it and its joining again."""
    ended, seen = earlier.ended, run.ended if run.is_left_over else run.seen
    assert ended is not None
    marks = [not_before(ended, "it was put out of the group", ended.joined_at_ms)]
    if seen is None:
        return marks  # evidence ends before its worker is back
    joined_ms = seen.joined_at_ms or seen.at_ms
    marks.append(not_after(seen, "it ran when its worker joined again", joined_ms + LINE_SLACK_MS))
    detail = f"half a heartbeat interval (assumed {HEARTBEAT_MS} ms) before its worker joined again"
    at_ms = joined_ms - HEARTBEAT_MS // 2
    marks.append(about(seen, detail, at_ms, rank=5, basis=Basis.GONE, tier=EvidenceTier.INFERRED))
    asked = [
        line
        for line in seen.attempt.during
        if line.kind is LogKind.MEMBER_JOINED and line.fields.get("member_id") == run.worker.member_id
    ]
    own = lines.between(run.worker.node, ended.at_ms, seen.at_ms) if run.worker.node is not None else []
    if run.is_left_over and own:
        detail, at_ms = "it found itself put out soon after it went on", (own[0].at_ms or 0) - FOUND_OUT_MS
        marks.append(about(own[0], detail, at_ms, rank=1, basis=Basis.REJOIN, tier=EvidenceTier.INFERRED))
    for line in [*asked[:1], *own[:1]]:
        marks.append(not_after(line, "its worker asked to join again", (line.at_ms or 0) + LINE_SLACK_MS))
        detail, basis = "its worker went on and found itself put out", Basis.REJOIN
        marks.append(about(line, detail, rank=2, basis=basis, tier=EvidenceTier.INFERRED))
    return marks


def _seen(departure: Departure, session_ms: int | None) -> list[Mark]:
    """A line of the coordinator says how it went."""
    at_ms, ref = departure.at_ms or 0, departure.ref

    def mark(
        bound: Bound,
        at_ms: int,
        detail: str,
        *,
        rank: int = 0,
        tier: EvidenceTier = EvidenceTier.LOGGED,
        basis: Basis | None = None,
    ) -> Mark:
        return Mark(bound=bound, at_ms=at_ms, tier=tier, rank=rank, detail=detail, ref=ref, basis=basis)

    if departure.trigger == Cause.MEMBER_POLL_TIMEOUT:
        # The heartbeat thread leaves while the tasks work on, until the worker's own thread comes back.
        came_ms = departure.rejoined_at_ms or at_ms
        return [
            mark(LOWER, at_ms - COMMIT_SLACK_MS, "its LeaveGroup, sent while its tasks worked on"),
            mark(
                ESTIMATE,
                came_ms,
                "it gave its work up before it joined again",
                rank=4,
                tier=EvidenceTier.INFERRED,
                basis=Basis.REJOIN,
            ),
        ]
    if departure.trigger in LEFT_IN_ORDER:
        return [
            mark(LOWER, at_ms - SHUTDOWN_MS, "a worker stops its work before it leaves"),
            mark(UPPER, at_ms + LINE_SLACK_MS, "it left the group"),
            mark(ESTIMATE, at_ms, "it left the group", rank=4, basis=Basis.LEAVE),
        ]
    marks = [mark(UPPER, at_ms + LINE_SLACK_MS, "it was put out of the group")]
    if departure.trigger != Cause.MEMBER_SESSION_EXPIRED:
        detail, basis = "it was put out of the group", Basis.GONE
        return [*marks, mark(ESTIMATE, at_ms, detail, rank=5, tier=EvidenceTier.INFERRED, basis=basis)]
    assumed = "" if session_ms is not None else " (assumed)"
    if departure.renewed is not None:
        at_ms, ref = departure.renewed.at_ms or at_ms, departure.renewed.ref
        detail, basis = "a coordinator took the group over, and never heard of it", Basis.MAY_LIVE_ON
        # Its own last sign may be days old.
        return [*marks, mark(ESTIMATE, at_ms, detail, rank=4, tier=EvidenceTier.INFERRED, basis=basis)]
    if session_ms is not None:
        detail = f"it sent a heartbeat {session_ms} ms before its session expired"
        marks.append(mark(LOWER, at_ms - session_ms - EXPIRY_SLACK_MS, detail))
    sign_ms = at_ms - (session_ms or ASSUMED_SESSION_MS)
    window = sign_ms, sign_ms + HEARTBEAT_MS
    detail = (
        f"expiry less the session timeout of {session_ms or ASSUMED_SESSION_MS} ms{assumed}, plus half a heartbeat "
        f"interval (assumed {HEARTBEAT_MS} ms)"
    )
    tier = EvidenceTier.LOGGED if session_ms is not None else EvidenceTier.INFERRED
    return [*marks, died_between(window, sum(window) // 2, detail, ref, rank=4, tier=tier)]


def _unseen(run: OwnershipRun, ended: Round, session_ms: int | None, *, is_dead: bool) -> list[Mark]:
    """No line names it: it is missing when the join phase ends."""
    joined_ms = ended.joined_at_ms or ended.at_ms
    marks = [not_after(ended, "it was not in the group any more", joined_ms + LINE_SLACK_MS)]
    metadata = run.worker.metadata
    if session_ms is not None and metadata is not None:
        join_phase_ms = max(metadata.rebalance_timeout, session_ms)
        detail = "session timeout and join phase at their longest"
        earliest_ms = joined_ms - join_phase_ms - session_ms - SHUTDOWN_MS
        marks.append(not_before(ended, detail, earliest_ms, tier=EvidenceTier.INFERRED))
    assumed = "" if session_ms is not None else " (assumed)"
    lasts_ms = session_ms or ASSUMED_SESSION_MS
    detail = f"the join phase's end less the session timeout of {lasts_ms} ms{assumed}"
    if is_dead:
        # Those that stay take up to a heartbeat to join, and it died up to one after its last.
        window = joined_ms - lasts_ms - HEARTBEAT_MS, joined_ms - lasts_ms + HEARTBEAT_MS
        died_ms = joined_ms - lasts_ms
        return [*marks, died_between(window, died_ms, detail, ended.ref, rank=5, tier=EvidenceTier.INFERRED)]
    detail, at_ms = (
        "nothing says how it went: half a session timeout before the join phase's end",
        joined_ms - lasts_ms // 2,
    )
    return [*marks, about(ended, detail, at_ms, rank=5, basis=Basis.GONE, tier=EvidenceTier.INFERRED)]
