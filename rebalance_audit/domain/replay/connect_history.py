"""The script of a Connect cluster: its workers' lives, and what became of its connectors."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.kinds import MovementKind
from rebalance_audit.domain.model import Member, Rebalance

from .assignors import Partition
from .connect import CONNECTOR_ITSELF, EAGER, resources_in
from .heartbeats import FEWEST_MEASURED
from .history import ScriptReader, script_from
from .life import Grown, Life, Moment, Script
from .measured import timing_of
from .timing import Timing

LONGEST_STOP_MS = 5_000
"""task.shutdown.graceful.timeout.ms of workers that set nothing."""
STOP_MS = (144, 255, 270, 314, 329, 350)
"""How long the lab's tasks need to stop; they sleep for half a second between two polls (golden captures of eager
workers on 4.3.0 and of a connector's life on 2.7.2)."""
LATE_STOP_MS = 1_000
"""A worker that stops so much after the join phase began did not read the change by itself; a choice. The lab's tasks
stop within 0.6 s."""
REACT_MS = (4, 6, 8, 12, 15, 20, 40)
"""From when a worker hears that the group rebalances to when it stops its tasks, where the history shows nothing."""
REACTING_SHARE = 0.3
"""The part of the time from a heartbeat to a worker's request to join in which the worker reacts; in the rest its tasks
stop. A choice."""
CONFIGURED = frozenset({Cause.CONNECT_CONFIG_CHANGED})


@dataclass(slots=True)
class ConnectReader(ScriptReader):
    resources: dict[str, Partition] = field(default_factory=dict)
    """The connector or task each resource's text names; a connector may have a name that reads like another's task."""
    is_there_from_the_beginning: bool = False
    stops: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By worker, when connectors and tasks of its stopped that ran elsewhere or again later; epoch ms."""
    gone: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By rebalance id, the connectors and tasks that its new configuration deleted."""

    def sees_partitions(self, row: Rebalance, start: Moment, is_first: bool) -> None:
        """Only a change of configuration adds or removes resources: one that waits for its worker is not gone."""
        for movement in row.movements:
            if movement.connector is not None:
                task = CONNECTOR_ITSELF if movement.task is None else movement.task
                self.resources[movement.resource] = (movement.connector, task)
        there = {self.meaning(text) for m in row.members for text in m.assigned or ()}
        if row.trigger in CONFIGURED:
            gone = {self.meaning(text) for text in self.gone.get(row.rebalance_id, ())}
            self.partitions = _counts_of(there | set(resources_in(self.partitions)).difference(gone))
            late = _heard_by_heartbeat(row) if row.assignor == EAGER else frozenset()
            self.grown.append(Grown(at_ms=start.at_ms, partitions=dict(self.partitions), heard_by_heartbeat=late))
        elif is_first or not self.partitions:
            self.partitions = _counts_of(there)

    def meaning(self, text: str) -> Partition:
        """The meaning a movement gives it; else a number at the end is a task's."""
        name, _, number = text.rpartition("-")
        is_task = bool(name) and number.isascii() and number.isdigit()
        return self.resources.get(text) or ((name, int(number)) if is_task else (text, CONNECTOR_ITSELF))

    def closed_at(self, member_id: str, leaves: Moment) -> Moment:
        """It stops what it runs, which takes a while, and leaves then."""
        stopping_ms = _stopping_ms(self.stops.get(member_id, ()), leaves.at_ms)
        if stopping_ms is None:
            return ScriptReader.closed_at(self, member_id, leaves)
        return Moment.known(leaves.at_ms - stopping_ms)

    def weighs_cause(self, row: Rebalance, start: Moment) -> None:
        if row.outcome == "missing" or (row.trigger == Cause.UNKNOWN):
            self.unexplained.append(f"generation {row.generation_id}: {row.trigger}")

    def life_of(self, member: Member, started: Moment | None) -> Life:
        member = replace(member, client_id=member.worker_url or member.client_id, client_libraries=(ClientFamily.JAVA,))
        return ScriptReader.life_of(self, member, started)

    def with_owned(self, life: Life, member: Member) -> Life:
        return replace(life, owned_at_first=tuple(map(self.meaning, member.owned_before or ())))


def connect_script_of(rows: Sequence[Rebalance], until_ms: int) -> Script:
    """`rows` in the order they happened, measured; those of one Connect cluster."""
    stops, gone = _stops_of(rows), _gone_in(rows)
    return script_from(rows, until_ms, lambda **given: ConnectReader(**given, stops=stops, gone=gone))


def _heard_by_heartbeat(row: Rebalance) -> frozenset[str]:
    """Client ids of those that stopped what they ran long after another worker had joined."""
    latest: dict[str, int] = {}
    for movement in row.movements:
        if movement.from_member_id is not None and movement.stopped_at_lower_ms is not None:
            stopped_ms = max(movement.stopped_at_lower_ms, latest.get(movement.from_member_id, 0))
            latest[movement.from_member_id] = stopped_ms
    from_ms = (row.started_at_ms or 0) + LATE_STOP_MS
    late = [m for m in row.members if row.started_at_ms is not None and latest.get(m.member_id, 0) > from_ms]
    return frozenset(client for m in late if (client := m.worker_url or m.client_id) is not None)


def _counts_of(resources: Iterable[Partition]) -> dict[str, int]:
    """Tasks by connector."""
    counts: dict[str, int] = {}
    for name, task in sorted(resources):
        counts[name] = max(counts.get(name, 0), task + 1)
    return counts


def _gone_in(rows: Sequence[Rebalance]) -> dict[str, set[str]]:
    """By rebalance id, what a new configuration took from a worker that stayed, and that nobody was given later; or
    only as something new, where it was made again."""
    found: dict[str, set[str]] = {}
    next_kind: dict[str, str] = {}
    for row in reversed(rows):
        if row.trigger in CONFIGURED:
            has = {text for m in row.members for text in m.assigned or ()}
            had = {text for m in row.members if m.change != "left" for text in m.owned_before or ()}
            is_new = MovementKind.ASSIGNED
            found[row.rebalance_id] = {text for text in had - has if next_kind.get(text, is_new) == is_new}
        next_kind |= {m.resource: m.kind for m in row.movements if m.to_member_id is not None}
    return found


def worker_timing_of(rows: Sequence[Rebalance]) -> Timing:
    """The timing with the time that connectors and tasks need to stop before their worker joins or leaves: as the
    history shows, else as in the lab. It is the mean over them, since some are stopped while others still work."""
    timing = timing_of(rows)
    is_measured = "react_ms" in timing.is_measured
    react_ms = tuple(ms * REACTING_SHARE for ms in timing.react_ms) if is_measured else REACT_MS
    timing = replace(timing, react_ms=react_ms, revoke_ms=STOP_MS)
    if any(row.connect_delay_ms for row in rows):
        timing = replace(timing, is_measured=(*timing.is_measured, "connect_delay_ms"))
    joins = [ms for row in rows if row.trigger in CONFIGURED for ms in _stopped_before_join_ms(row)]
    if len(joins) >= FEWEST_MEASURED:
        timing = replace(timing, revoke_ms=tuple(joins), is_measured=(*timing.is_measured, "revoke_ms"))
    stops = _stops_of(rows)
    found = [
        _stopping_ms(stops.get(member_id, ()), row.started_at_ms)
        for row in rows
        if row.trigger == Cause.CONNECT_WORKER_LEFT and row.started_at_ms is not None
        for member_id in (row.triggers[0].members if row.triggers else ())
    ]
    shown = tuple(float(ms) for ms in found if ms is not None)
    return replace(timing, leave_ms=shown, is_measured=(*timing.is_measured, "leave_ms")) if shown else timing


def _stopped_before_join_ms(row: Rebalance) -> Iterator[float]:
    """For a round that every worker joined at once and by itself: the mean time from a stop to the join phase's end."""
    stops = [
        (m.stopped_at_lower_ms + m.stopped_at_upper_ms) / 2
        for m in row.movements
        if m.stopped_at_lower_ms is not None and m.stopped_at_upper_ms is not None
    ]
    if stops and row.joined_at_ms is not None and 0 <= row.joined_at_ms - min(stops) <= LONGEST_STOP_MS:
        yield max(0.0, row.joined_at_ms - statistics.mean(stops))


def _stops_of(rows: Sequence[Rebalance]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for row in rows:
        for movement in row.movements:
            lower_ms, upper_ms = movement.stopped_at_lower_ms, movement.stopped_at_upper_ms
            if movement.from_member_id and lower_ms is not None and upper_ms is not None:
                found.setdefault(movement.from_member_id, []).append((lower_ms + upper_ms) // 2)
    return found


def _stopping_ms(stops: Sequence[int], leaves_ms: int) -> int | None:
    """The mean; None where nothing of this worker stopped soon before it left."""
    soon = [leaves_ms - at_ms for at_ms in stops if 0 <= leaves_ms - at_ms <= LONGEST_STOP_MS]
    return round(statistics.mean(soon)) if soon else None


def connect_delay_of(rows: Sequence[Rebalance]) -> int:
    """scheduled.rebalance.max.delay.ms as the longest delay shows it; Connect's default where none was announced."""
    return max((r.connect_delay_ms or 0 for r in rows), default=0) or 300_000
