"""The script of a group from its reconstructed rebalances: causes apart from what the protocol made of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rebalance_audit.domain.causes import SESSION_EXPIRED, Cause
from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.frozen import changed
from rebalance_audit.domain.model import Member, Rebalance

from .assignors import Partition
from .life import End, Grown, Life, Moment, Script, Stall
from .polls import FullPoll
from .process import WAKES_MS
from .timing import LEAVE_MS

BEAT_SLACK_MS = 60
"""Heartbeats come so much later than their interval says, after some of them."""
LATEST_JOIN_MS = 300
"""A member that heard of a rebalance has joined by then."""
MARK_MS = 30
"""A commit or a log line marks a stop so closely."""
SILENT_ENDS = SESSION_EXPIRED | {Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, Cause.MEMBER_SYNC_TIMEOUT}
REACTIONS = frozenset(
    {Cause.COOPERATIVE_FOLLOW_UP, Cause.CONNECT_REVOCATION_FOLLOW_UP, Cause.CONNECT_DELAY_EXPIRED, Cause.GROUP_EMPTIED}
)
"""Causes that the protocol makes by itself: the replay has to find these again, and cannot begin with one."""
ARRIVALS = frozenset({Cause.MEMBER_JOINED, Cause.CONNECT_WORKER_JOINED})
REQUESTS = frozenset(
    {Cause.CLIENT_REQUESTED, Cause.LEADER_REJOINED, Cause.TOPIC_METADATA_CHANGED, Cause.SUBSCRIPTION_CHANGED}
)
HEARTBEATS_UNKNOWN_MS = 3_000
"""heartbeat.interval.ms of clients that set nothing: a killed member died so much after its last heartbeat at most."""


@dataclass(slots=True)
class ScriptReader:
    from_ms: int
    lives: list[Life] = field(default_factory=list)
    open: dict[str, Life] = field(default_factory=dict)
    stalled: dict[tuple[str | None, str | None], Life] = field(default_factory=dict)
    partitions: dict[str, int] = field(default_factory=dict)
    grown: list[Grown] = field(default_factory=list)
    requested: list[int] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    previous_ms: int = 0
    joined_ms: int | None = None
    """End of the latest join phase, from which the members' heartbeats are counted."""
    session_ms: int | None = None
    heartbeat_ms: int = HEARTBEATS_UNKNOWN_MS
    full_polls: Mapping[str, FullPoll] = field(default_factory=dict)
    """By member id."""
    is_there_from_the_beginning: bool = True
    """A topic is, unless it was seen to grow."""

    def read(self, row: Rebalance, is_first: bool, leave_later: Collection[str] = ()) -> None:
        """`leave_later`: members that the row shows as gone, and whose going a later one is about."""
        start = _start_of(row, self.previous_ms)
        for member in row.members:
            match member.change:
                case "joined":
                    self.joins(member, _joined_at(row, member, start))
                case "replaced":
                    self.replaces(row, member)
                case "left" if member.member_id not in leave_later:
                    self.leaves(row, member, start)
                case _ if member.member_id not in self.open:
                    self.was_there(member, None if is_first else start)
        self.sees_partitions(row, start, is_first)
        if row.kind == "rebalance":
            self.weighs_cause(row, start)
        ended_ms = row.ended_at_ms or row.assigned_at_ms or row.joined_at_ms or start.at_ms
        self.previous_ms = max(self.previous_ms, ended_ms)
        self.joined_ms = row.joined_at_ms or self.joined_ms

    def weighs_cause(self, row: Rebalance, start: Moment) -> None:
        members = {m.change for m in row.members} & {"joined", "left"}
        if row.outcome == "missing":
            self.unexplained.append(f"generation {row.generation_id or row.group_epoch} left no trace of its cause")
        elif row.trigger in REQUESTS and not (self.grown and self.grown[-1].at_ms == start.at_ms):
            self.requested.append(start.at_ms)
        elif (
            row.trigger in (Cause.UNKNOWN, Cause.COORDINATOR_FAILOVER, Cause.APPEND_FAILED, Cause.GROUP_CONVERTED)
            and not members
        ):
            number = row.generation_id if row.generation_id is not None else row.group_epoch
            self.unexplained.append(f"generation {number}: {row.trigger.replace('_', ' ')}")

    def joins(self, member: Member, at: Moment) -> None:
        who = (member.client_id, member.client_host)
        life = self.stalled.pop(who, None)
        if life is not None and life.stalls and life.stalls[-1].until_ms is None:
            stall = replace(life.stalls[-1], until_ms=at.at_ms)
            self.open[member.member_id] = replace(life, stalls=(*life.stalls[:-1], stall))
            return
        self.open[member.member_id] = self.life_of(member, at)

    def was_there(self, member: Member, since: Moment | None) -> None:
        """A member without a beginning: it ran before the history does, or its arrival left no trace."""
        life = self.life_of(member, since)
        if since is None:
            life = self.with_owned(life, member)
        self.open[member.member_id] = life

    def with_owned(self, life: Life, member: Member) -> Life:
        return replace(life, owned_at_first=tuple(map(partition_of, member.owned_before or ())))

    def life_of(self, member: Member, started: Moment | None) -> Life:
        return Life(
            slot="",  # in_slots names it, when all lives are known
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            instance_id=member.group_instance_id,
            topics=member.subscribed_topics or (),
            session_timeout_ms=member.session_timeout_ms,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            started=started,
            libraries=member.client_libraries,
        )

    def replaces(self, row: Rebalance, member: Member) -> None:
        """A static member came back: the process before it had been closed some time earlier."""
        back_ms = row.assigned_at_ms or row.ended_at_ms or self.previous_ms
        before = next(
            (m for m, life in self.open.items() if life.instance_id == member.group_instance_id is not None), None
        )
        if before is not None:
            stopped = _stop_of(row, before) or Moment.between(self.previous_ms, back_ms)
            self.ends(before, Moment.between(stopped.lower_ms, min(stopped.upper_ms, back_ms)), End.CLOSED)
        self.open[member.member_id] = self.life_of(member, Moment.between(back_ms - 30, back_ms - 10))

    def leaves(self, row: Rebalance, member: Member, start: Moment) -> None:
        life = self.open.get(member.member_id)
        if life is None:
            self.was_there(member, None if not self.lives else start)
            life = self.open[member.member_id]
        trigger = _trigger_of(row, member)
        stopped = _stop_of(row, member.member_id)
        if trigger == Cause.MEMBER_POLL_TIMEOUT:
            polled_ms = start.at_ms - (life.rebalance_timeout_ms or 300_000)
            # librdkafka notices it when it wakes; any other library at once.
            woke_ms = WAKES_MS if life.family is ClientFamily.LIBRDKAFKA else 0
            since = Moment.between(polled_ms - woke_ms, polled_ms)
            stall = Stall(since=since, until_ms=None, full_poll=self.full_polls.get(member.member_id))
            self.open.pop(member.member_id)
            self.stalled[life.client_id, life.client_host] = replace(life, stalls=(*life.stalls, stall))
        elif trigger in SILENT_ENDS:
            expired = start if trigger == row.trigger else self.expired_while_prepared(row, start)
            if trigger != Cause.STATIC_MEMBER_EXPIRED:
                stopped = _stop_of(row, member.member_id, by_marks=False)
            self.ends(member.member_id, self.died_at(life, trigger, expired, stopped), End.CRASHED)
        elif trigger == Cause.MEMBER_REMOVED_BY_ADMIN:
            self.ends(member.member_id, start, End.REMOVED)
        elif row.triggers and trigger == row.trigger:
            self.ends(member.member_id, self.closed_at(member.member_id, start), End.CLOSED)
        else:
            self.ends(member.member_id, stopped or _while_prepared(row, start), End.CLOSED)

    def ends(self, member_id: str, at: Moment, how: End) -> None:
        life = changed(self.open.pop(member_id), ended=at, end=how)
        if life.started is not None and at.at_ms < life.started.at_ms:
            life = changed(life, ended=life.started)
        self.lives.append(life)

    def closed_at(self, member_id: str, leaves: Moment) -> Moment:
        life = self.open.get(member_id)
        leave_ms = LEAVE_MS[(life.family if life is not None else None) or ClientFamily.JAVA]
        return Moment.between(leaves.lower_ms - round(max(leave_ms)), leaves.upper_ms - round(min(leave_ms)))

    def died_at(self, life: Life, trigger: str, expired: Moment, stopped: Moment | None) -> Moment:
        """Its last heartbeat came one session timeout before the expiry, and it died before the next was due."""
        session_ms = life.session_timeout_ms or self.session_ms
        if trigger not in SESSION_EXPIRED or session_ms is None:
            return stopped or expired
        lower_ms, last_ms = self.last_beat(expired.lower_ms - session_ms, expired.upper_ms - session_ms)
        upper_ms = min(last_ms + self.heartbeat_ms, expired.upper_ms)
        if stopped is not None and lower_ms - 100 <= stopped.upper_ms and stopped.lower_ms <= upper_ms:
            lower_ms, upper_ms = max(lower_ms, stopped.lower_ms), max(lower_ms, min(upper_ms, stopped.upper_ms))
        return Moment.between(lower_ms, upper_ms)

    def expired_while_prepared(self, row: Rebalance, start: Moment) -> Moment:
        """An expiry that did not begin the join phase. It ended it, where the phase went on after the others had heard
        of it at their next heartbeat."""
        found = _while_prepared(row, start)
        if self.joined_ms is None or self.joined_ms > start.at_ms:
            return found
        beats = (start.at_ms - self.joined_ms) // self.heartbeat_ms + 1
        heard_ms = self.joined_ms + beats * self.heartbeat_ms
        return Moment.known(found.upper_ms) if found.upper_ms > heard_ms + LATEST_JOIN_MS else found

    def last_beat(self, lower_ms: int, upper_ms: int) -> tuple[int, int]:
        """The bounds, closer where few heartbeats fall between them."""
        if self.joined_ms is None or upper_ms - lower_ms <= BEAT_SLACK_MS or self.joined_ms > lower_ms:
            return lower_ms, upper_ms
        first = -(-(lower_ms - BEAT_SLACK_MS - self.joined_ms) // self.heartbeat_ms)
        last = (upper_ms - self.joined_ms) // self.heartbeat_ms
        if last < first:
            return lower_ms, upper_ms
        beats = [self.joined_ms + number * self.heartbeat_ms for number in (first, last)]
        return max(lower_ms, beats[0]), min(upper_ms, beats[1] + BEAT_SLACK_MS)

    def sees_partitions(self, row: Rebalance, start: Moment, is_first: bool) -> None:
        counts = dict(self.partitions)
        for member in row.members:
            for text in (*(member.owned_before or ()), *(member.assigned or ())):
                topic, number = partition_of(text)
                counts[topic] = max(counts.get(topic, 0), number + 1)
        if counts == self.partitions:
            return
        is_known = set(counts) <= set(self.partitions)
        if self.partitions and not is_first and (is_known or row.trigger in REQUESTS):
            self.grown.append(Grown(at_ms=start.at_ms, partitions=counts))
        self.partitions = counts


def partition_of(text: str) -> Partition:
    topic, _, number = text.rpartition("-")
    return topic, int(number)


def _start_of(row: Rebalance, previous_ms: int) -> Moment:
    if row.started_at_ms is not None:
        return Moment.known(row.started_at_ms)
    upper_ms = row.joined_at_ms or row.assigned_at_ms or row.ended_at_ms or previous_ms
    lower_ms = row.started_lower_ms if row.started_lower_ms is not None else previous_ms
    return Moment.between(min(lower_ms, upper_ms), upper_ms)


def _joined_at(row: Rebalance, member: Member, start: Moment) -> Moment:
    first = row.triggers[0] if row.triggers else None
    is_cause = first is not None and first.trigger in ARRIVALS and member.member_id in first.members
    return start if is_cause else _while_prepared(row, start)


def _while_prepared(row: Rebalance, start: Moment) -> Moment:
    """Something that happened in the join phase, and did not begin it."""
    return Moment.between(start.lower_ms, max(start.lower_ms, row.joined_at_ms or row.assigned_at_ms or start.upper_ms))


def _trigger_of(row: Rebalance, member: Member) -> str:
    for trigger in row.triggers:
        if member.member_id in trigger.members:
            return trigger.trigger
    return Cause.MEMBER_LEFT


def _stop_of(row: Rebalance, member_id: str, *, by_marks: bool = True) -> Moment | None:
    """When the member let go, by the pauses of what it had: closely where a commit or a log line marks it. Of one that
    was killed the last commit is some seconds old, and marks nothing: `by_marks` is False."""
    lower, upper = [], []
    for movement in row.movements:
        if movement.from_member_id != member_id:
            continue
        if movement.stopped_at_lower_ms is not None and movement.stopped_at_upper_ms is not None:
            lower.append(movement.stopped_at_lower_ms)
            upper.append(movement.stopped_at_upper_ms)
        is_marked = movement.pause_estimate_ms is not None and "half a heartbeat" not in (movement.pause_detail or "")
        if by_marks and is_marked and movement.stopped_at_lower_ms is not None:
            return Moment.between(movement.stopped_at_lower_ms + MARK_MS, movement.stopped_at_lower_ms + 2 * MARK_MS)
    return Moment.between(max(lower), min(upper)) if lower else None


def script_of(
    rows: Sequence[Rebalance],
    until_ms: int,
    *,
    session_ms: int | None = None,
    heartbeat_ms: int = HEARTBEATS_UNKNOWN_MS,
    full_polls: Mapping[str, FullPoll] | None = None,
) -> Script:
    """`rows` in the order they happened, measured; those of one group. ValueError if there are none.

    `session_ms`: the brokers' session timeout, where members have none of their own (KIP-848).
    """
    return script_from(
        rows,
        until_ms,
        lambda **given: ScriptReader(
            **given, session_ms=session_ms, heartbeat_ms=heartbeat_ms, full_polls=full_polls or {}
        ),
    )


def script_from(rows: Sequence[Rebalance], until_ms: int, reading: Callable[..., ScriptReader]) -> Script:
    succeeded = [r for r in rows if r.outcome != "failed"]
    if not succeeded:
        raise ValueError("no rebalances")
    first = succeeded[0]
    from_ms = (first.started_at_ms or first.joined_at_ms or first.assigned_at_ms or first.ended_at_ms or 0) - 1
    reader = reading(from_ms=from_ms, previous_ms=from_ms)
    initial: dict[str, int] = {}
    for at, (row, leave_later) in enumerate(zip(succeeded, _leaving_later(succeeded), strict=True)):
        reader.read(row, at == 0, leave_later)
        if at == 0 or reader.is_there_from_the_beginning:
            for topic, count in reader.partitions.items():
                initial.setdefault(topic, count)
    latest = succeeded[-1]
    return Script(
        group_id=first.group_id,
        group_type=latest.group_type,
        protocol_type=latest.protocol_type or "consumer",
        assignor=next((r.assignor for r in reversed(succeeded) if r.assignor), "unknown"),
        is_cooperative=latest.mode == "cooperative",
        from_ms=from_ms,
        until_ms=max(until_ms, reader.previous_ms + 1),
        lives=tuple(in_slots([*reader.lives, *reader.open.values(), *reader.stalled.values()])),
        partitions=initial,
        is_new=first.generation_id is not None and first.generation_id <= 1,
        grown=tuple(reader.grown),
        requested_ms=tuple(reader.requested),
        unexplained=tuple(reader.unexplained),
    )


def _leaving_later(rows: Sequence[Rebalance]) -> list[set[str]]:
    """By row, the members that it shows as gone and that a later one shows as gone, too. Rebalances of KIP-848 overlap:
    one that a newcomer began may end after a dead member was put out."""
    found: list[set[str]] = []
    gone: set[str] = set()
    for row in reversed(rows):
        found.append({m.member_id for m in row.members if m.change == "left" and m.member_id in gone})
        gone |= {m.member_id for m in row.members if m.change == "left"}
        gone -= {m.member_id for m in row.members if m.change in ("joined", "replaced")}
    return found[::-1]


def in_slots(lives: Sequence[Life]) -> list[Life]:
    """The lives in the order of their starts, each with the place in the group that it fills: that of a process that
    ended before and has no successor yet, by instance id, else by client id and host, else by client id."""
    found: list[Life] = []
    free: list[Life] = []
    taken: set[str] = set()
    for life in sorted(lives, key=_beginning):
        before = _place_before(life, free)
        if before is not None:
            free.remove(before)
            slot = before.slot
        else:
            wanted = slot = life.instance_id or life.client_id or life.member_id
            number = 1
            while slot in taken:
                number += 1
                slot = f"{wanted}-{number}"
            taken.add(slot)
        found.append(changed(life, slot=slot))
        if life.ended is not None:
            free.append(found[-1])
    return found


def _place_before(life: Life, free: Sequence[Life]) -> Life | None:
    if life.started is None:
        return None
    ended = [other for other in free if other.ended is not None and other.ended.at_ms <= life.started.at_ms]
    alike: tuple[Callable[[Life], object], ...] = (
        lambda other: other.instance_id,
        lambda other: (other.client_id, other.client_host),
        lambda other: other.client_id,
    )
    for trait in alike:
        for other in ended:
            if trait(other) is not None and trait(other) == trait(life):
                return other
    return None


def _beginning(life: Life) -> tuple[int, str]:
    return (life.started.at_ms if life.started is not None else -1), life.member_id
