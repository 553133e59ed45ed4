"""The real cost of a group's history, from its measured pauses, in the columns of a replay; and its own timings."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rebalance_audit.domain.causes import SESSION_EXPIRED, Cause
from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.model import Movement, Rebalance

from .heartbeats import FEWEST_MEASURED, SHORTEST_WAIT_MS, beats_of, family_of
from .standstill import Standstill, Stood, Why
from .timing import NEWCOMER_SYNC_MS, SERVER_PACES, ServerPace, Timing

DELIVERED_MS = 7
"""The assigned callback follows the group record by so much in the median."""
SERVER_HEARTBEATS_MS = (5_000, 3_000, 2_000, 1_000)
EARLIEST_BEAT_MS, LATE_BEAT_MS = 30, 600
"""A newcomer's heartbeat comes so much before or after its interval says: librdkafka's -20 to 24 ms, Java's 10 to 550
(on 4.3.0 and 4.4.0)."""
LATEST_OF_LIBRDKAFKA_MS = 8
"""The earliest of such heartbeats, before or after: librdkafka's -20 to 4 ms in 42 groups of the pairs and the golden
captures, Java's 10 to 216 in 40, which count from the heartbeat that says they have nothing yet."""
SESSION_STEPS_MS = (5_000, 1_000, 500, 100)
"""Sessions are taken for multiples of the first of these that the evidence allows; a choice."""
SILENCE_SLACK_MS = 200
"""A closing member stops so much before it says so, at most; a choice."""
COMMITS_MS = 5_000
"""auto.commit.interval.ms of clients that set nothing."""
DEFAULT_SESSION_MS = 45_000
"""group.consumer.session.timeout.ms of brokers that set nothing, which allow none that is shorter."""

LEAST_DELAY_MS = 100
"""A coordinator without a delay may need some tens of milliseconds; a choice."""
DEFAULT_DELAY_MS = 3_000
"""group.initial.rebalance.delay.ms of brokers that set nothing."""


_PUT_OUT = frozenset({Cause.MEMBER_POLL_TIMEOUT})
_SILENT = SESSION_EXPIRED | {Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT}


@dataclass(frozen=True, slots=True)
class Measured:
    cost: Standstill
    lower_seconds: float
    upper_seconds: float | None
    """None: a pause has no upper bound."""
    beyond_pauses_seconds: float = 0.0
    """The part of the cost that is no movement's pause: first waits, and what busy members had that were put out, from
    then until the next owner has it."""
    stood: tuple[Stood, ...] = ()
    """The parts of the cost, as far as their times are known."""


def measured_cost(rows: Sequence[Rebalance]) -> Measured:
    cost, lower, upper, is_bounded = Standstill(), 0.0, 0.0, True
    put_out_ms = 0.0
    stood: list[Stood] = []
    cold_since: int | None = None
    is_empty = True
    was_stopped = False
    """True if nothing was assigned since a row said that the group is empty."""
    for row in rows:
        if is_empty and row.outcome != "emptied":
            cold_since = row.started_at_ms or row.joined_at_ms or row.assigned_at_ms
        is_empty = row.outcome == "emptied"
        was_stopped = was_stopped or is_empty
        put_out, silent = _named_by(row, _PUT_OUT), _named_by(row, _SILENT)
        for movement in row.movements:
            if movement.kind == "assigned" or was_stopped:
                # Of what the group had before it was stopped altogether, only this wait counts: nobody ran meanwhile.
                # A connector's first wait begins with its configuration, which a replay does not count either.
                if movement.resource_type == "partition" and cold_since is not None and row.assigned_at_ms is not None:
                    wait_ms = row.assigned_at_ms + DELIVERED_MS - cold_since
                    cost.add(Why.FIRST_WAIT, wait_ms)
                    stood.append(Stood(movement.resource, cold_since, cold_since + wait_ms, Why.FIRST_WAIT))
                    lower, upper = lower + wait_ms / 1000, upper + wait_ms / 1000
                continue
            bounds = _bounds(movement, put_out, row)
            if bounds is None:
                continue
            least, likely, most = bounds
            put_out_ms += likely - max(0, movement.pause_estimate_ms or 0)
            idle_ms = _idle_ms(movement, row, silent, likely)
            cost.add(Why.OWNER_IDLE, idle_ms)
            cost.add(Why.BETWEEN_OWNERS, likely - idle_ms)
            stood += _stretches(movement, row, likely, idle_ms)
            lower += least / 1000
            if most is None:
                is_bounded = False
            else:
                upper += most / 1000
        if any(m.kind == "assigned" for m in row.movements) or (was_stopped and row.assigned_at_ms is not None):
            cold_since, was_stopped = None, False
    beyond_seconds = cost.first_wait_seconds + put_out_ms / 1000
    return Measured(cost, lower, upper if is_bounded else None, beyond_seconds, tuple(stood))


def _stretches(movement: Movement, row: Rebalance, likely_ms: float, idle_ms: float) -> Iterable[Stood]:
    """First with an owner that was gone, then between two; up to when it is known to go on."""
    ends = (movement.resumed_at_lower_ms, movement.resumed_at_upper_ms, row.assigned_at_ms)
    until_ms = next((end for end in ends if end is not None), None)
    if until_ms is None:
        return
    given_up_ms = until_ms - likely_ms + idle_ms
    if idle_ms > 0:
        yield Stood(movement.resource, until_ms - likely_ms, given_up_ms, Why.OWNER_IDLE)
    if given_up_ms < until_ms:
        yield Stood(movement.resource, given_up_ms, until_ms, Why.BETWEEN_OWNERS)


def _named_by(row: Rebalance, causes: frozenset[Cause]) -> frozenset[str]:
    """Members that these causes of it name."""
    return frozenset(m for t in row.triggers if t.trigger in causes for m in t.members)


def _bounds(movement: Movement, put_out: frozenset[str], row: Rebalance) -> tuple[float, float, float | None] | None:
    """(lower, estimate, upper) ms; for a member busy beyond its interval from the moment the group put it out."""
    if movement.from_member_id in put_out and row.started_at_ms is not None and row.assigned_at_ms is not None:
        wait_ms = row.assigned_at_ms + DELIVERED_MS - row.started_at_ms
        return wait_ms, wait_ms, wait_ms
    if movement.pause_estimate_ms is None:
        return None
    most = None if movement.pause_upper_ms is None else max(0, movement.pause_upper_ms)
    return max(0, movement.pause_lower_ms or 0), max(0, movement.pause_estimate_ms), most


def _idle_ms(movement: Movement, row: Rebalance, silent: frozenset[str], likely_ms: float) -> float:
    """The part of the pause in which the partition belonged to a process that was gone."""
    if row.kind == "static_rewrite":
        return likely_ms
    if movement.from_member_id not in silent or row.started_at_ms is None or row.assigned_at_ms is None:
        return 0.0
    return min(likely_ms, max(0.0, likely_ms - (row.assigned_at_ms + DELIVERED_MS - row.started_at_ms)))


def timing_of(rows: Sequence[Rebalance]) -> Timing:
    """This group's own timings where it shows at least three, the lab's elsewhere."""
    timing, measured = Timing(), []
    first, later = _synced_ms(rows)
    if first and len(later) >= FEWEST_MEASURED and min(first) > statistics.median(later):
        timing, measured = replace(timing, sync_ms=later, first_sync_ms=first), ["sync_ms"]
    elif len(first + later) >= FEWEST_MEASURED:
        timing, measured = replace(timing, sync_ms=tuple(sorted(first + later))), ["sync_ms"]
    beats = beats_of(rows)
    if beats is not None:
        timing, measured = replace(timing, heartbeat_ms=beats.interval_ms), [*measured, "heartbeat_ms"]
        if beats.drift_ms is not None:
            timing = replace(timing, drift_ms=(beats.drift_ms,), react_ms=beats.late_ms)
            measured += ["drift_ms", "react_ms"]
    synced = tuple(_newcomers_synced(rows))
    if synced:
        # Few follow-ups show less than all: the lab's count as much as one of them.
        lab = NEWCOMER_SYNC_MS.get(family, ()) if (family := family_of(rows)) is not None else ()
        timing = replace(timing, newcomer_sync_ms=lab + synced * max(1, len(lab)))
        measured.append("newcomer_sync_ms")
    starts = list(_cold_starts(rows))
    delay_ms, again = _initial_delay(starts)
    measured += ["initial_delay_ms"] if starts else []
    return replace(timing, initial_delay_ms=delay_ms, delays_again=again, is_measured=tuple(measured))


def _synced_ms(rows: Sequence[Rebalance]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """From the end of the join phase to the assignment, in order: of rounds whose members are all new, and of the
    others. The first are slower where their leader has just started; else they say as much of the others."""
    found: dict[bool, list[float]] = {True: [], False: []}
    for row in rows:
        if row.assigned_at_ms and row.joined_at_ms and row.assigned_at_ms >= row.joined_at_ms:
            are_new = bool(row.members) and all(m.change == "joined" for m in row.members)
            found[are_new].append(row.assigned_at_ms - row.joined_at_ms)
    return tuple(sorted(found[True])), tuple(sorted(found[False]))


def _newcomers_synced(rows: Sequence[Rebalance]) -> Iterable[float]:
    """How long after the join phase a newcomer asked for its assignment, where a follow-up shows it: 0 if the follow-up
    waited for the newcomer's heartbeat."""
    for before, row in pairwise(rows):
        is_new = any(m.change == "joined" for m in before.members)
        if row.trigger != Cause.COOPERATIVE_FOLLOW_UP or not is_new or before.joined_at_ms is None:
            continue
        if row.started_at_ms is not None and row.joined_at_ms is not None:
            waited = row.joined_at_ms - row.started_at_ms > SHORTEST_WAIT_MS
            yield 0 if waited else row.joined_at_ms - before.joined_at_ms


def server_timing_of(rows: Sequence[Rebalance]) -> Timing:
    """KIP-848: the brokers' heartbeat interval and session timeout as this group shows them, or their defaults.

    A newcomer gets what others had to give up at one of its own heartbeats; a static member that closed is put out one
    session after it said so, a killed one a session after its last heartbeat.
    """
    waits = [
        r.assigned_at_ms - r.started_at_ms
        for r in rows
        if r.trigger == Cause.MEMBER_JOINED and r.started_at_ms and r.assigned_at_ms
        and any(m.kind == "moved" for m in r.movements)
    ]  # fmt: skip
    heartbeat_ms = next((ms for ms in SERVER_HEARTBEATS_MS if waits and _falls_on(waits, ms)), 5_000)
    session_ms = _server_session(rows, heartbeat_ms)
    measured = (["heartbeat_ms"] if waits else []) + (["session_ms"] if session_ms is not None else [])
    return Timing(
        heartbeat_ms=heartbeat_ms,
        session_ms=session_ms or DEFAULT_SESSION_MS,
        server_pace=_server_pace(waits, heartbeat_ms),
        is_measured=tuple(measured),
    )


def _server_pace(waits: Sequence[int], heartbeat_ms: int) -> ServerPace | None:
    """No record of KIP-848 says which library a member uses; when a newcomer's heartbeat comes does. None where no
    wait shows it."""
    if not waits or not _falls_on(waits, heartbeat_ms):
        return None
    is_early = min(_late_ms(waits, heartbeat_ms)) < LATEST_OF_LIBRDKAFKA_MS
    return SERVER_PACES[ClientFamily.LIBRDKAFKA if is_early else ClientFamily.JAVA]


def _server_session(rows: Sequence[Rebalance], beat_ms: int) -> int | None:
    """The roundest time that no silence contradicts; None without an expiry.

    A killed member's last commit may be older than its last heartbeat, by a commit's interval at most, or newer, by one
    of heartbeats: under KIP-848 a commit does not restart the session (OffsetMetadataManager.validateOffsetCommit).
    """
    silences, closed = [], []
    for row in rows:
        if row.started_at_ms is None:
            continue
        expired = _named_by(row, SESSION_EXPIRED)
        for movement in row.movements:
            # What a living member gives up in the same rebalance says nothing.
            lower_ms, upper_ms = movement.stopped_at_lower_ms, movement.stopped_at_upper_ms
            if lower_ms is None or movement.kind != "moved" or movement.from_member_id not in expired:
                continue
            silences.append(row.started_at_ms - lower_ms)
            is_static = row.trigger == Cause.STATIC_MEMBER_EXPIRED
            if is_static and upper_ms is not None and upper_ms - lower_ms <= SILENCE_SLACK_MS:
                # It committed when it was closed, and its session restarted then.
                closed.append(silences[-1])
    if not silences:
        return None
    shortest_ms, longest_ms = min(silences), max(silences)
    at_most_ms, at_least_ms = shortest_ms + SILENCE_SLACK_MS, min(closed, default=0) - SILENCE_SLACK_MS
    likely_ms = _roundest(max(at_least_ms, 1), at_most_ms) or max(1, shortest_ms)
    if closed:
        return likely_ms
    committed_ms = longest_ms - COMMITS_MS - SILENCE_SLACK_MS
    if committed_ms <= DEFAULT_SESSION_MS <= shortest_ms + beat_ms:
        return DEFAULT_SESSION_MS
    if likely_ms < committed_ms:
        # Another member would have been silent for longer than its commits are apart.
        return _roundest(committed_ms, shortest_ms + beat_ms, SESSION_STEPS_MS[:1]) or likely_ms
    return likely_ms


def _roundest(least_ms: int, most_ms: int, steps_ms: Sequence[int] = SESSION_STEPS_MS) -> int | None:
    return next((most_ms // step * step for step in steps_ms if most_ms // step * step >= least_ms), None)


def _falls_on(waits: Sequence[int], interval_ms: int) -> bool:
    """One interval or more, most times."""
    late_ms = statistics.median(_late_ms(waits, interval_ms))
    return statistics.median(waits) > interval_ms - EARLIEST_BEAT_MS and late_ms < LATE_BEAT_MS


def _late_ms(waits: Sequence[int], interval_ms: int) -> list[int]:
    return [(ms + EARLIEST_BEAT_MS) % interval_ms - EARLIEST_BEAT_MS for ms in waits]


@dataclass(frozen=True, slots=True)
class ColdStart:
    """The first join phase of a group that had no members."""

    wait_ms: int
    member_count: int
    is_new: bool
    """True for the group's first start; False if the group was emptied before."""


def _cold_starts(rows: Sequence[Rebalance]) -> Iterable[ColdStart]:
    is_empty = bool(rows) and rows[0].generation_id == 1
    for row in rows:
        joined = sum(m.change == "joined" for m in row.members)
        is_timed = row.started_at_ms is not None and row.joined_at_ms is not None and row.outcome == "completed"
        if is_empty and is_timed and joined == len(row.members):
            yield ColdStart((row.joined_at_ms or 0) - (row.started_at_ms or 0), joined, row.generation_id == 1)
        is_empty = row.outcome == "emptied"


def _initial_delay(starts: Sequence[ColdStart]) -> tuple[int, bool | None]:
    """How long a group without members waits for more of them, and whether one that was emptied waits once more for
    those that come meanwhile (None: no start shows it); below 100 ms there is no delay.

    A start with several members may have waited several delays, at most one for each of them: it is taken for as many
    of the default as that allows, else for one.
    """
    shortest_ms = min((_one_delay(start) for start in starts), default=0)
    if shortest_ms < LEAST_DELAY_MS:
        return 0, None
    delay_ms = round(shortest_ms / 100) * 100
    shown = [start.wait_ms > 1.5 * delay_ms for start in starts if start.member_count > 1 and not start.is_new]
    return delay_ms, any(shown) if shown else None


def _one_delay(start: ColdStart) -> float:
    for count in range(start.member_count, 1, -1):
        if abs(start.wait_ms - count * DEFAULT_DELAY_MS) < LEAST_DELAY_MS:
            return start.wait_ms / count
    return start.wait_ms
