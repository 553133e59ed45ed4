"""Marks of classic groups: when a resource stopped and resumed, and how well that is known.

`measure` turns marks into numbers.

Measured against clients on the same clock: docs/measured.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from rebalance_audit.domain.frozen import maker
from rebalance_audit.domain.kinds import ESTIMATE, LOWER, UPPER, Basis, Bound, EvidenceTier
from rebalance_audit.domain.model import LogEvent, Mark
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.records import GroupMetadataValue

COMMIT_SLACK_MS = 50
"""librdkafka commits up to 11 ms after its revoked callback, Java some ms before it, a loaded machine adds
(docs/measured.md#commit-and-revoked-callback)."""
COMMIT_SLACK_AFTER_FETCHES_MS = 550
"""sarama commits when the fetches on their way are back: up to 500 ms (Consumer.MaxWaitTime) after its handlers ended
(docs/clients.md#letting-go-one-by-one)."""
AFTER_MESSAGES = 1.3
"""At most this many times the time from one message to the next, in 76 of 79 cases (docs/measured.md#sarama)."""
COMMITTED_BEFORE_MS = 7
"""Or before they ended by so much (docs/clients.md#letting-go-one-by-one)."""
COMMIT_SLACK_ONE_BY_ONE_MS = 1_050
"""sarama's handlers end one by one. Where another one works on, the last position of one that ended is committed at
the next interval, of 1 s by default (docs/clients.md#letting-go-one-by-one)."""
MAX_WAIT_MS = 5_000
"""kafkajs's maxWaitTimeInMs by default: so long a fetch waits for a message."""
REJOIN_MS = 20, 0
"""kafkajs's only survivor let go so long before the end of the join phase, from and to
(docs/measured.md#kafkajs)."""
FIRST_COMMIT_AFTER_FETCHES_MS = 1_200
"""sarama's first commit of a partition that it took beside others came 0.2 to 1.2 s after it had begun
(docs/measured.md#sarama)."""
FIRST_COMMIT_AFTER_INTERVAL_MS = 200
"""So much longer than its commit interval, if that is longer than a second."""
LATE_BEGIN_MS = 5_000
"""So late it began with one where messages were few (docs/measured.md#sarama)."""
COMMIT_SLACK_OF_TASKS_MS = 500
"""Kafka Streams commits inside its revoked callback, when its tasks' producers are flushed: 65 ms after its begin were
seen with nothing to flush (docs/measured.md#kafka-streams)."""
LINE_SLACK_MS = 10
"""Between an event and the time of its line (docs/measured.md#lines-and-records)."""
OWN_CALLBACK_MS = 100
"""Between a client's line and its callback on a loaded machine."""
LAST_SIGN_MS = 500
"""A session that expires so close to its timeout after a commit had that commit as its last sign of life."""
EXPIRY_SLACK_MS = 1_500
"""How late a broker under load may notice an expired session (docs/measured.md#departures-and-returns)."""
ASSIGNED_CALLBACK_MS = 8
"""The assigned callback follows the group record by 7 ms in the median, 90 % within 40 ms
(docs/measured.md#group-record-and-assigned-callback)."""
ASSIGNED_CALLBACK_AFTER_MS = {
    Basis.DELIVERY: ASSIGNED_CALLBACK_MS,
    Basis.DELIVERY_TO_NEW: ASSIGNED_CALLBACK_MS,
    Basis.DELIVERY_SOON: 5,
    Basis.DELIVERY_AT_ONCE: 2,
}
"""The same by kind of member: the medians (docs/measured.md#likely-ranges)."""
TASKS_CALLBACK_MS = 60
"""Kafka Streams makes its tasks before the callback returns: the median (docs/measured.md#kafka-streams)."""
REVOKED_CALLBACK_MS = 10
"""A cooperative member revokes this soon after the assignment that takes a partition away: 6 ms in the median
(docs/measured.md#how-it-was-measured)."""
AUTO_COMMIT_MS = 5_000
"""auto.commit.interval.ms by default (docs/measured.md#defaults-of-kafka)."""
COMMIT_TIMEOUT_MS = 5_000
"""offsets.commit.timeout.ms of brokers by default: so long a commit waits for replicas. Then it is in the log, and its
client is asked to send it again (docs/measured.md#commits-that-wait)."""
RECENT_COMMIT_MS = 5_500
"""auto.commit.interval.ms is 5 s by default (docs/measured.md#defaults-of-kafka): an older commit is no sign of a
member that commits when it lets go."""

_RECORDED, _LOGGED, _INFERRED = EvidenceTier.RECORDED, EvidenceTier.LOGGED, EvidenceTier.INFERRED
"""Looked up once: in Python 3.11 a member of an enum takes longer to find than a mark's field to fill."""
_make_mark = maker(Mark)


def is_of_streams(value: object) -> bool:
    """Whether a classic group's record names Kafka Streams' assignor."""
    return isinstance(value, GroupMetadataValue) and value.protocol == "stream"


def recorded(
    bound: Bound, at_ms: int, detail: str, ref: str | None, *, rank: int = 0, basis: Basis | None = None
) -> Mark:
    return _make_mark(bound=bound, at_ms=at_ms, tier=_RECORDED, rank=rank, detail=detail, ref=ref, basis=basis)


def logged(
    bound: Bound, at_ms: int, detail: str, ref: str | None, *, rank: int = 0, basis: Basis | None = None
) -> Mark:
    return _make_mark(bound=bound, at_ms=at_ms, tier=_LOGGED, rank=rank, detail=detail, ref=ref, basis=basis)


def inferred(
    bound: Bound, at_ms: int, detail: str, ref: str | None, *, rank: int = 0, basis: Basis | None = None
) -> Mark:
    return _make_mark(bound=bound, at_ms=at_ms, tier=_INFERRED, rank=rank, detail=detail, ref=ref, basis=basis)


def died_between(
    window: tuple[int, int],
    at_ms: int,
    detail: str,
    ref: str | None,
    *,
    rank: int,
    tier: EvidenceTier,
    basis: Basis = Basis.SIGNS_OF_LIFE,
) -> Mark:
    """The estimate of an owner's death between its last sign of life and the next, which did not come."""
    return _make_mark(
        bound=ESTIMATE, at_ms=at_ms, tier=tier, rank=rank, detail=detail, ref=ref, basis=basis,
        window_from_ms=window[0], window_to_ms=window[1],
    )  # fmt: skip


def after_fetches(at_ms: int, message_gap_ms: float | None, detail: str, ref: str) -> Mark:
    """The estimate that a member which may be sarama's let go at its last commit: the fetch that was on its way came
    back with the next message, so it may have let go so long before."""
    longest_ms = COMMIT_SLACK_AFTER_FETCHES_MS
    early_ms = longest_ms if message_gap_ms is None else min(longest_ms, ceil(AFTER_MESSAGES * message_gap_ms))
    return _make_mark(
        bound=ESTIMATE, at_ms=at_ms, tier=_RECORDED, rank=2, detail=detail, ref=ref, basis=Basis.COMMIT_AFTER_FETCHES,
        window_from_ms=at_ms - early_ms, window_to_ms=at_ms + COMMITTED_BEFORE_MS,
    )  # fmt: skip


def taken_after_fetches(since_ms: int, at_ms: int, detail: str, ref: str | None) -> Mark:
    """The estimate of when a member that may be sarama's let go of a partition that was taken away: when its fetch was
    back. The commit comes then, or an interval later."""
    return _make_mark(
        bound=ESTIMATE, at_ms=at_ms, tier=_RECORDED, rank=3, detail=detail, ref=ref,
        basis=Basis.TAKEN_AWAY_AFTER_FETCHES,
        window_from_ms=since_ms, window_to_ms=since_ms + COMMIT_SLACK_AFTER_FETCHES_MS,
    )  # fmt: skip


def in_the_quiet(window: tuple[int, int], at_ms: int, detail: str, ref: str | None) -> Mark:
    """The estimate that a kafkajs member let go at or after its last commit, before its next fetch was back."""
    return _make_mark(
        bound=ESTIMATE, at_ms=at_ms, tier=_RECORDED, rank=2, detail=detail, ref=ref, basis=Basis.COMMIT_BEFORE_QUIET,
        window_from_ms=window[0], window_to_ms=max(window),
    )  # fmt: skip


def began_between(window: tuple[int, int], at_ms: int, detail: str, ref: str | None) -> Mark:
    """The estimate of when a member that may be sarama's began with one partition beside others."""
    return _make_mark(
        bound=ESTIMATE, at_ms=at_ms, tier=_RECORDED, rank=3, detail=detail, ref=ref,
        basis=Basis.DELIVERY_AFTER_FETCHES, window_from_ms=window[0], window_to_ms=window[1],
    )  # fmt: skip


def own_stop_marks(line: LogEvent) -> list[Mark]:
    """A client writes its line on entry of the callback (KIP-848: when it begins to revoke, before the callback)."""
    assert line.at_ms is not None
    detail = "the client's own log"
    marks = [logged(ESTIMATE, line.at_ms, detail, line.ref, rank=1, basis=Basis.OWN_LINE)]
    marks.append(logged(LOWER, line.at_ms - LINE_SLACK_MS, detail, line.ref))
    if line.fields.get("stage") != "begin":
        marks.append(logged(UPPER, line.at_ms + OWN_CALLBACK_MS, detail, line.ref))
    return marks


def own_start_marks(line: LogEvent) -> list[Mark]:
    """A client writes its line as it enters the callback; how long the callback takes depends on the user's code."""
    assert line.at_ms is not None
    detail = "the client's own log"
    return [
        logged(ESTIMATE, line.at_ms, detail, line.ref, rank=1, basis=Basis.OWN_LINE),
        logged(LOWER, line.at_ms - LINE_SLACK_MS, detail, line.ref),
    ]


def joined(attempts: Sequence[Attempt]) -> tuple[int | None, str | None]:
    """The end of the first join phase that is known, and its evidence ref."""
    for attempt in attempts:
        value = attempt.value
        if (
            isinstance(value, GroupMetadataValue)  # not of a consumer group that was converted
            and not attempt.rewrite_seq
            and value.current_state_timestamp is not None
            and attempt.record is not None
        ):
            return value.current_state_timestamp, attempt.record.ref
        if attempt.stabilized is not None and attempt.stabilized.at_ms is not None:
            return attempt.stabilized.at_ms, attempt.stabilized.ref
        refused = attempt.refused
        if refused is not None and attempt.undelivered is not None and refused.current_state_timestamp is not None:
            return refused.current_state_timestamp, attempt.undelivered.ref
    return None, None
