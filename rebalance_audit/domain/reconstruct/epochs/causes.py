"""Why a group epoch was bumped: what changed in the records since the epoch before, and what lines say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import EvidenceTier, GroupType
from rebalance_audit.domain.log_lines.reasons import classify_fence, classify_leave
from rebalance_audit.domain.model import NO_END, GroupRecord, LogEvent, LogKind, Trigger
from rebalance_audit.domain.reconstruct.evidence.departures import AS_IT_LEFT_MS, REGULARLY
from rebalance_audit.domain.reconstruct.evidence.marks import RECENT_COMMIT_MS

if TYPE_CHECKING:
    from rebalance_audit.domain.reconstruct.evidence.commits import Commits, Resource

    from .epoch import Epoch, LiveMember

_NEAR_MS = 5_000
"""Between a line and the record of one event, clocks and load included."""
_ALIVE_MS = 5_000
"""Session timeouts are longer, at least 6 s by default (docs/measured.md#defaults-of-kafka): a member that committed
this recently was not fenced for its silence."""
_LEFT_FOR_A_WHILE = -2
"""The member epoch of a static member that is closed."""
_SILENT_MS = 9_000
"""Nearly two intervals of auto-commit (docs/measured.md#defaults-of-kafka)."""


ComesBack = Callable[[str, int], GroupRecord | None]
"""The record with which the member joins again under the same id after this offset."""


def epoch_triggers(
    epoch: Epoch,
    before: GroupRecord | None,
    lines: Iterable[LogEvent],
    commits: Commits,
    group_type: GroupType,
    comes_back: ComesBack,
) -> list[Trigger]:
    """All causes, a conversion first, then departures, then arrivals, then changes of members that stayed.

    `before`: the record of the epoch before.
    """
    if epoch.returned is not None:
        return [_static_return(epoch.returned, epoch.record)]
    written = _written(epoch, group_type)
    departures = [_departure_trigger(m, ref, lines, commits, epoch, comes_back) for m, ref in written.gone.items()]
    instances = {getattr(m.metadata, "instance_id", None) for m in epoch.before.values()} - {None, ""}
    arrivals = [_arrival(epoch, member_id, ref, instances) for member_id, ref in written.arrived.items()]
    found = written.converted + departures + arrivals + written.changes
    if written.converted and not epoch.record_is_conversion:
        # An empty classic group gave way: its first member is the cause.
        found = departures + arrivals + written.changes + written.converted
    if not found and written.is_topology_new:
        found.append(
            Trigger(
                trigger=Cause.STREAMS_TOPOLOGY_CHANGED, tier=EvidenceTier.RECORDED, detail="the topology record changed"
            )
        )
    if not found:
        found += _without_member_change(epoch, before, group_type, written.topics)
    return found


@dataclass(slots=True)
class _Written:
    """What an epoch's records changed, sorted by what they are about."""

    converted: list[Trigger] = field(default_factory=list)
    gone: dict[str, str] = field(default_factory=dict)
    """Members, with the record that removed each."""
    arrived: dict[str, str] = field(default_factory=dict)
    changes: list[Trigger] = field(default_factory=list)
    """Of members that stayed."""
    topics: list[str] = field(default_factory=list)
    """Records of topics' partitions."""
    is_topology_new: bool = False


def _written(epoch: Epoch, group_type: GroupType) -> _Written:
    found = _Written()
    for record in epoch.changes:
        name, value, key = record.record.name, record.record.value, record.record.key
        if name == "GroupMetadata" and value is None:
            found.converted.append(
                Trigger(
                    trigger=Cause.GROUP_CONVERTED,
                    tier=EvidenceTier.RECORDED,
                    detail=f"the classic group became a {group_type} group",
                    evidence=(record.ref,),
                )
            )
        elif name.endswith("MemberMetadata"):
            member_id = key.member_id
            if value is None:
                found.gone[member_id] = record.ref
            elif member_id in epoch.before:
                found.changes += _changes(member_id, epoch.before[member_id].metadata, record)
            else:
                found.arrived[member_id] = record.ref
        elif name.endswith("Topology"):
            found.is_topology_new = True
        elif name.endswith(("PartitionMetadata", "RegularExpression")) and value is not None:
            found.topics.append(record.ref)
    return found


def _arrival(epoch: Epoch, member_id: str, ref: str, instances: Set[str | None]) -> Trigger:
    """`instances`: the ids of the static members that there were."""
    member = epoch.members.get(member_id)
    is_replaced = member is not None and getattr(member.metadata, "instance_id", None) in instances
    return Trigger(
        trigger=Cause.STATIC_MEMBER_REPLACED if is_replaced else Cause.MEMBER_JOINED,
        tier=EvidenceTier.RECORDED,
        members=(member_id,),
        detail=f"{member.metadata.client_id} is new" if member and member.metadata else "",
        evidence=(ref,),
    )


def _departure_trigger(
    member_id: str, ref: str, lines: Iterable[LogEvent], commits: Commits, epoch: Epoch, comes_back: ComesBack
) -> Trigger:
    cause, tier, detail, of_line = _departure(member_id, lines, commits, epoch, comes_back)
    return Trigger(trigger=cause, tier=tier, members=(member_id,), detail=detail, evidence=(ref, *of_line))


def _static_return(member_id: str, record: GroupRecord | None) -> Trigger:
    return Trigger(
        trigger=Cause.STATIC_MEMBER_REPLACED,
        tier=EvidenceTier.RECORDED,
        members=(member_id,),
        detail="a static member came back with a new member id; the epoch did not change",
        evidence=(record.ref,) if record is not None else (),
    )


def is_static_return(metadata: Any, gone: Iterable[LiveMember]) -> bool:
    """Whether this new member takes the place of a static one that has just gone."""
    instance = getattr(metadata, "instance_id", None)
    return instance is not None and any(getattr(m.metadata, "instance_id", None) == instance for m in gone)


def stopped_polling(
    member: LiveMember, at_ms: int, offset: int, commits: Commits, others: Iterable[LiveMember], *, comes_back: bool
) -> bool | None:
    """Whether a consumer had not committed for its max.poll.interval.ms when it left; None if its commits do not say.

    It commits on a timer while it polls and once more when it is closed, so a long silence is no close: if its commits
    come that often at all, and if it was not idle alone. The line of its leave is the same for both.
    """
    held = _resources(member)
    timeout_ms: int | None = getattr(member.metadata, "rebalance_timeout_ms", None)
    since = member.current.offset if member.current is not None else -1
    interval_ms, last = commits.interval_between(held, since, offset), commits.last_between(held, since, offset)
    if last is not None and at_ms - last[0] <= AS_IT_LEFT_MS:
        return False
    if timeout_ms is None or interval_ms is None or last is None or interval_ms * REGULARLY > timeout_ms:
        return None
    if at_ms - last[0] < timeout_ms:
        return None
    return True if comes_back or _speaks(member, others, at_ms, offset, commits) else None


def _speaks(member: LiveMember, others: Iterable[LiveMember], at_ms: int, offset: int, commits: Commits) -> bool:
    """Whether a member that did not commit was not idle alone: another one committed until then, and whoever had its
    partitions next read some. franz-go and librdkafka commit nothing on a topic that falls silent, and no record of
    this protocol names the library (docs/clients.md#poll-timeout)."""
    if commits.got_nothing(_resources(member), offset):
        return False
    last = [commits.last_between(_resources(other), -1, offset) for other in others]
    return any(one is not None and at_ms - one[0] < RECENT_COMMIT_MS for one in last)


def _resources(member: LiveMember) -> list[Resource]:
    return [(h.topic, h.partition) for h in member.held.values() if h.topic is not None and h.partition is not None]


def _changes(member_id: str, before: Any, record: GroupRecord) -> list[Trigger]:
    """The change in a member's new metadata that makes an epoch: not its rack, its owned partitions, its address."""
    trigger = _change(before, record.record.value)
    if trigger is None:
        return []
    detail = "its metadata record was rewritten"
    return [
        Trigger(
            trigger=trigger, tier=EvidenceTier.RECORDED, members=(member_id,), detail=detail, evidence=(record.ref,)
        )
    ]


def _change(before: Any, after: Any) -> Cause | None:
    wanted = ("subscribed_topic_names", "subscribed_topic_regex", "topology_epoch")
    if before is None or any(getattr(before, name, None) != getattr(after, name, None) for name in wanted):
        return Cause.SUBSCRIPTION_CHANGED
    if getattr(before, "server_assignor", None) != getattr(after, "server_assignor", None):
        return Cause.ASSIGNOR_CHANGED
    return None


def _departure(
    member_id: str, lines: Iterable[LogEvent], commits: Commits, epoch: Epoch, comes_back: ComesBack
) -> tuple[Cause, EvidenceTier, str, tuple[str, ...]]:
    trigger, tier, detail, refs = _how_it_went(member_id, lines, commits, epoch, comes_back)
    member = epoch.before.get(member_id)
    is_static = member is not None and getattr(member.metadata, "instance_id", None) is not None
    if is_static and member is not None and member.member_epoch == _LEFT_FOR_A_WHILE and trigger == Cause.UNKNOWN:
        refs = (member.current.ref,) if member.current is not None else ()
        detail = "it had left for a while, and did not come back within its session timeout"
        return Cause.STATIC_MEMBER_EXPIRED, EvidenceTier.INFERRED, detail, refs
    return (
        Cause.STATIC_MEMBER_EXPIRED if is_static and trigger == Cause.MEMBER_SESSION_EXPIRED else trigger,
        tier,
        detail,
        refs,
    )


def _how_it_went(
    member_id: str, lines: Iterable[LogEvent], commits: Commits, epoch: Epoch, comes_back: ComesBack
) -> tuple[Cause, EvidenceTier, str, tuple[str, ...]]:
    at_ms = epoch.record.at_ms if epoch.record else 0
    member = epoch.before.get(member_id)
    offset = epoch.record.offset if epoch.record else NO_END
    for line in lines:
        if line.fields.get("member_id") != member_id or abs((line.at_ms or 0) - at_ms) > _NEAR_MS:
            continue
        if line.kind is LogKind.MEMBER_FENCED:
            reason = str(line.fields.get("reason") or "")
            return classify_fence(reason).trigger, EvidenceTier.LOGGED, reason, (line.ref,)
        if line.kind is LogKind.MODERN_MEMBER_LEFT and not line.fields.get("temporarily"):
            is_back = comes_back(member_id, offset) is not None
            idle = None
            if member is not None:
                idle = stopped_polling(member, at_ms, offset, commits, _others(epoch, member), comes_back=is_back)
            if idle:
                detail = "it left, and had not committed for its max.poll.interval.ms"
                return Cause.MEMBER_POLL_TIMEOUT, EvidenceTier.INFERRED, detail, (line.ref,)
            if idle is None and is_back:
                detail = "it left and came back under the same id: it was not polling, or had unsubscribed"
                return Cause.UNKNOWN, EvidenceTier.UNKNOWN, detail, (line.ref,)
            return Cause.MEMBER_LEFT, EvidenceTier.LOGGED, "left the group", (line.ref,)
        if line.kind is LogKind.MEMBER_LEFT:
            left = classify_leave(line.fields.get("client_reason"))
            return left.trigger, EvidenceTier.LOGGED, left.detail or "left the group", (line.ref,)
    who = member.metadata.client_id if member and member.metadata else member_id
    # A tombstone looks the same for a leave and for a fenced member: its commits distinguish the two.
    last = commits.last_between(_resources(member), -1, offset) if member is not None and epoch.record else None
    if member is not None and last is not None:
        silence_ms = at_ms - last[0]
        if silence_ms < _ALIVE_MS:
            detail = f"{who} is gone, and committed {silence_ms} ms before"
            return Cause.MEMBER_LEFT, EvidenceTier.INFERRED, detail, (last[1],)
        timeout_ms = getattr(member.metadata, "rebalance_timeout_ms", None) or 0
        speaks = _speaks(member, _others(epoch, member), at_ms, offset, commits)
        if speaks and _SILENT_MS < silence_ms < timeout_ms:
            detail = f"{who} is gone, and had not committed for {silence_ms} ms"
            return Cause.MEMBER_SESSION_EXPIRED, EvidenceTier.INFERRED, detail, (last[1],)
    return Cause.UNKNOWN, EvidenceTier.UNKNOWN, f"{who} is gone; records do not say whether it left or was fenced", ()


def _others(epoch: Epoch, member: LiveMember) -> list[LiveMember]:
    return [other for other in epoch.before.values() if other.member_id != member.member_id]


def _without_member_change(
    epoch: Epoch, before: GroupRecord | None, group_type: GroupType, topics_changed: list[str]
) -> list[Trigger]:
    """Topics changed where a record says so or their hash does (from 4.1 on it stands in the epoch's own record)."""
    if not epoch.before:
        return []
    refs = tuple(topics_changed) or ((epoch.record.ref,) if epoch.record else ())
    hashes = [getattr(r.record.value, "metadata_hash", None) if r is not None else None for r in (before, epoch.record)]
    if epoch.without_topics is not None and hashes[0] is None and hashes[1] is not None:
        trigger, detail = (
            Cause.COORDINATOR_UPGRADED,
            "no member changed: a hash of its topics took their record's place",
        )
        refs = *refs, epoch.without_topics.ref
        return [Trigger(trigger=trigger, tier=EvidenceTier.RECORDED, detail=detail, evidence=refs)]
    is_same = None not in hashes and hashes[0] == hashes[1] and not topics_changed
    is_other = None not in hashes and hashes[0] != hashes[1]
    if group_type == GroupType.SHARE and not topics_changed and not is_other:
        trigger, detail = Cause.SHARE_STATE_INITIALIZED, "state of newly subscribed partitions was initialized"
    elif is_same:
        return []
    else:
        trigger, detail = Cause.TOPIC_METADATA_CHANGED, "topics or their partitions did"
    detail = f"no member changed: {detail}"
    return [Trigger(trigger=trigger, tier=EvidenceTier.INFERRED, detail=detail, evidence=refs)]


def departure_line(lines: Iterable[LogEvent], member_id: str, at_ms: int) -> LogEvent | None:
    """The coordinator's line about why a member went, near the time of its tombstone."""
    kinds = (LogKind.MEMBER_FENCED, LogKind.MODERN_MEMBER_LEFT, LogKind.MEMBER_LEFT)
    near = [
        x
        for x in lines
        if x.kind in kinds and x.fields.get("member_id") == member_id and abs((x.at_ms or 0) - at_ms) < 5_000
    ]
    return min(near, key=lambda x: abs((x.at_ms or 0) - at_ms), default=None)
