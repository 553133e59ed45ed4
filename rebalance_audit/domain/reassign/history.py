"""Records and logs of one cluster as one history: records decide, logs add what records do not hold."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rebalance_audit.domain.log_lines import ControllerKind as K
from rebalance_audit.domain.metadata import MetadataReader, SourceMetadata
from rebalance_audit.domain.model import node_of_log
from rebalance_audit.domain.reassign.kraft_history import kraft_history
from rebalance_audit.domain.reassign.kraft_logs import kraft_logs_history, refused_requests
from rebalance_audit.domain.reassign.lines import PREFERRED_RUN, PartitionLine, surroundings_in
from rebalance_audit.domain.reassign.model import LeaderElection, Reassignment, ReassignmentHistory
from rebalance_audit.domain.reassign.stall import STALL_LIMIT_MS
from rebalance_audit.domain.reassign.zookeeper import zookeeper_history

NO_ZONE = "No zone of"
"""How the doubt begins in the detail of a reassignment whose times may be off by hours."""
_PREFERRED_RUN_MS = 1_000
"""The line of an automatic run follows its records by milliseconds, under load by some hundred
(docs/measured.md#reassignments)."""
_KRAFT_KINDS = frozenset({K.ASSIGNMENT_REPLAYED, K.REASSIGNMENTS_ALTERED, K.CONTROLLER_KNOWN, PREFERRED_RUN})


def reassignment_history(
    records: Iterable[SourceMetadata],
    lines: Sequence[PartitionLine] = (),
    *,
    cluster_id: str,
    stall_limit_ms: int = STALL_LIMIT_MS,
    reader: MetadataReader | None = None,
) -> ReassignmentHistory:
    """Everything known about the reassignments of one cluster. `lines` in order of time, of all nodes.

    With a metadata log, lines only add causes of elections, refused requests, when new replicas began to fetch and how
    far they came, failed disks, and when no controller was to be reached.
    """
    reader = reader or MetadataReader()
    around = surroundings_in(lines, cluster_id, stall_limit_ms)
    history = kraft_history(records, cluster_id=cluster_id, around=around, reader=reader)
    if reader.next_offset is not None:
        return _with_lines(history, lines)
    if any(_is_kraft(line) for line in lines):
        history = kraft_logs_history(lines, cluster_id=cluster_id, stall_limit_ms=stall_limit_ms)
        history = replace(history, elections=tuple(_with_causes(history.elections, lines)))
    else:
        history = zookeeper_history(lines, cluster_id=cluster_id, stall_limit_ms=stall_limit_ms)
    return _with_doubted_zones(history, lines)


def _with_doubted_zones(history: ReassignmentHistory, lines: Sequence[PartitionLine]) -> ReassignmentHistory:
    """Marks each reassignment whose times may be off by hours: no zone of the logs it was made from is known."""
    nodes = {line.event.node for line in lines if not line.zone_is_known}
    if not nodes:
        return history

    def doubted(r: Reassignment) -> Reassignment:
        own = sorted(nodes & {node_of_log(ref) for ref in r.evidence})
        if not own:
            return r
        doubt = f"{NO_ZONE} {', '.join(own)}'s log times is known: they were read as UTC."
        return replace(r, detail=f"{r.detail} {doubt}" if r.detail else doubt)

    found = tuple(map(doubted, history.reassignments))
    return replace(history, reassignments=found, unzoned_nodes=tuple(sorted(nodes)))


def _is_kraft(line: PartitionLine) -> bool:
    return line.kind in _KRAFT_KINDS or (line.kind == K.CONTROLLER_ELECTED and "controller_id" not in line.fields)


def _with_lines(history: ReassignmentHistory, lines: Sequence[PartitionLine]) -> ReassignmentHistory:
    if not lines:
        return history
    refused = refused_requests(lines, history.cluster_id)
    starts: dict[tuple[str, int, int], list[int]] = {}
    for line in lines:
        if line.kind == K.FOLLOWER_STARTED and line.event.topic is not None and line.event.logged_by is not None:
            place = (line.event.topic, line.event.partition or 0, line.event.logged_by)
            starts.setdefault(place, []).append(line.at_ms)
    found = [_with_starts(r, starts) for r in history.reassignments]
    return replace(
        history,
        reassignments=tuple(sorted((*found, *refused), key=lambda r: (r.started_at_ms or 0, r.topic, r.partition))),
        elections=tuple(_with_causes(history.elections, lines)),
    )


def _with_starts(r: Reassignment, starts: dict[tuple[str, int, int], list[int]]) -> Reassignment:
    if r.started_at_ms is None or not r.progress:
        return r
    progress = []
    for each in r.progress:
        times = starts.get((r.topic, r.partition, each.broker_id), [])
        # A log line may be a little older than the record's batch looks, never by more than clocks differ.
        at = bisect_left(times, r.started_at_ms - 1_000)
        is_in_time = at < len(times) and (r.ended_at_ms is None or times[at] <= r.ended_at_ms)
        progress.append(replace(each, started_at_ms=times[at]) if is_in_time else each)
    fetching = all(each.started_at_ms is not None for each in progress)
    phase = "catching_up" if r.phase == "accepted" and fetching and r.outcome == "open" else r.phase
    return replace(r, progress=tuple(progress), phase=phase)


def _with_causes(elections: Sequence[LeaderElection], lines: Sequence[PartitionLine]) -> list[LeaderElection]:
    """A preferred election with a line of the periodic task is automatic; with the task's controller's log at hand and
    no such line, somebody asked for it."""
    runs = sorted(line.at_ms for line in lines if line.kind == PREFERRED_RUN)
    active = [line.at_ms for line in lines if line.kind == K.CONTROLLER_ELECTED]
    found = []
    for election in elections:
        if election.cause != "preferred":
            found.append(election)
            continue
        at = bisect_left(runs, election.at_ms - _PREFERRED_RUN_MS)
        if at < len(runs) and runs[at] <= election.at_ms + _PREFERRED_RUN_MS:
            found.append(replace(election, cause="automatic"))
        elif active and active[0] <= election.at_ms <= lines[-1].at_ms:
            found.append(replace(election, cause="tool"))
        else:
            found.append(election)
    return found
