"""Epochs of consumer, share and streams groups that only log lines show: no record was readable, or it is gone.

Lines name epochs, members and causes. What members were given only 3.7 and 3.8 print, and 4.1 on of streams groups
(`steps`): other rows from here have no movements. `completed` means that the assignment was computed and no later epoch
replaced it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalance_audit.domain.causes import DEPARTURES, EXPECTED, Cause
from rebalance_audit.domain.kinds import EvidenceTier, GroupType, Mode, MovementKind, Outcome, RebalanceKind
from rebalance_audit.domain.log_lines.reasons import classify_fence, classify_leave
from rebalance_audit.domain.model import GroupEvidence, LogEvent, LogKind, Rebalance, Trigger, changed
from rebalance_audit.domain.reconstruct.attempts.by_lines import line_order
from rebalance_audit.domain.reconstruct.attempts.frame import rebalance_id
from rebalance_audit.domain.reconstruct.attempts.triggers import STATIC_RETURN
from rebalance_audit.domain.reconstruct.reconstruction import Contradiction, of_line

from .share import assignor_name
from .steps import ByLines, steps_of_lines

_CAUSES = frozenset(
    {
        LogKind.MODERN_MEMBER_JOINED,
        LogKind.MODERN_MEMBER_LEFT,
        LogKind.MEMBER_LEFT,
        LogKind.MEMBER_FENCED,
        LogKind.SUBSCRIPTION_UPDATED,
        LogKind.GROUP_CONVERTED,
        LogKind.STREAMS_TOPOLOGY_SET,
    }
)
_EPOCH_LINES = frozenset({LogKind.EPOCH_BUMPED, LogKind.TARGET_COMPUTED})
_LINE_TO_RECORD_MS = 10_000
"""Between a line and the record of the same epoch, clocks and load included (docs/measured.md#epochs)."""
_ONE_OPERATION_MS = 1_000
"""Lines of one operation of the coordinator are no further apart, load included
(docs/measured.md#lines-and-records)."""
_FOR_A_WHILE = "temporarily"
_DEPARTURE_LINES = frozenset({LogKind.MODERN_MEMBER_LEFT, LogKind.MEMBER_LEFT, LogKind.MEMBER_FENCED})


@dataclass(slots=True, kw_only=True)
class LoggedEpoch:
    """One epoch by its lines."""

    number: int
    first: LogEvent
    """Its `Bumped` line. In 3.7 and 3.8 a departure has none: the target is the first that names the epoch, and of the
    last member's departure `Computed new subscription metadata: {}.` is all there is."""
    causes: list[LogEvent] = field(default_factory=list)
    target: LogEvent | None = None
    rewrite_seq: int = 0
    """Counts the returns of static members, which begin no epoch."""
    is_conversion: bool = False
    """The classic group became this epoch; no line names it."""
    member_ids: frozenset[str] | None = None
    """The group's members; None until somebody was seen to join an empty group."""

    @property
    def is_emptied(self) -> bool:
        return self.member_ids is not None and not self.member_ids


def epochs_of_lines(
    evidence: GroupEvidence, recorded: Sequence[Rebalance]
) -> tuple[list[Rebalance], list[Contradiction]]:
    """Rows of the epochs that lines show and `recorded`, the rows from records, lacks; and the lines that contradict
    those."""
    if not any(line.kind in _EPOCH_LINES for line in evidence.lines):
        return [], []
    known = frozenset(r.group_epoch for r in recorded)
    contradictions = _without_room(evidence.lines, recorded, known)
    forged = {ref for each in contradictions for ref in each.evidence}
    epochs = _epochs([x for x in evidence.lines if x.ref not in forged])
    ways = _ways(evidence.lines)
    highest = max((n for n in known if n is not None), default=0)
    emptied = {e.first.ref: e.number for e in epochs if e.is_emptied}
    steps = steps_of_lines((x for x in evidence.lines if x.ref not in forged), emptied)
    rows = []
    for index, epoch in enumerate(epochs):
        if epoch.number not in known:
            row = _row(evidence, epochs, index, ways, highest)
            rows.append(_with_steps(row, steps.get((epoch.number, epoch.rewrite_seq))))
    return rows, contradictions


def _with_steps(row: Rebalance, steps: ByLines | None) -> Rebalance:
    """The same row with what its members' steps show."""
    if steps is None:
        return row
    movements = tuple(steps.movements[resource] for resource in sorted(steps.movements))
    kept_count = steps.resource_count - sum(m.kind != MovementKind.REVOKED for m in movements)
    return changed(row, movements=movements, resource_count=steps.resource_count, kept_count=kept_count)


def _without_room(
    lines: Iterable[LogEvent], recorded: Sequence[Rebalance], known: frozenset[int | None]
) -> list[Contradiction]:
    """Lines of epochs that the records had left behind then, or not reached: epochs only count up."""
    spine = [(r.started_at_ms, r.group_epoch) for r in recorded if r.started_at_ms is not None and not r.rewrite_seq]
    times, found = [at_ms for at_ms, _ in spine], []
    for line in lines if spine else ():
        number = line.fields.get("group_epoch")
        if line.kind not in _EPOCH_LINES or not isinstance(number, int) or number in known or line.at_ms is None:
            continue
        before = bisect_right(times, line.at_ms - _LINE_TO_RECORD_MS)
        after = bisect_left(times, line.at_ms + _LINE_TO_RECORD_MS)
        lower = spine[before - 1][1] or 0 if before else 0
        upper = spine[after][1] or 0 if after < len(spine) else None
        if upper is not None and upper < lower:
            continue  # the group was deleted between them, or cut: nothing can be said
        if number < lower or (upper is not None and number > upper):
            detail = "left behind then" if number < lower else "not reached then"
            found.append(of_line(line, f"it names epoch {number}, which the records had {detail}"))
    return found


def _epochs(lines: Sequence[LogEvent]) -> list[LoggedEpoch]:
    """A line that forges an epoch out of order is left out: epochs only count up."""
    epochs: list[LoggedEpoch] = []
    waiting: list[LogEvent] = []
    members: set[str] = set()
    is_membership_known = False
    for line in sorted((x for x in lines if x.at_ms is not None), key=line_order):
        number = line.fields.get("group_epoch")
        if line.fields.get(_FOR_A_WHILE):
            continue
        if line.kind is LogKind.STATIC_MEMBER_REPLACED and epochs and "group_type" in line.fields:
            last = epochs[-1]
            seq = last.rewrite_seq + 1
            epochs.append(LoggedEpoch(number=last.number, first=line, causes=[line], rewrite_seq=seq))
            members -= {line.fields.get("member_id")}
            members |= {str(line.fields.get("new_member_id"))}
            epochs[-1].member_ids = frozenset(members) if is_membership_known else None
        elif line.kind in _CAUSES:
            if line.kind is LogKind.GROUP_CONVERTED:
                waiting = []  # what the classic group went through is its own
                if line.fields.get("was_empty"):
                    continue  # its first member is the cause, and numbers start again
            waiting.append(line)
            member_id = line.fields.get("member_id")
            if line.kind is LogKind.MODERN_MEMBER_JOINED and member_id:
                members.add(member_id)
            elif line.kind in _DEPARTURE_LINES and member_id:
                members.discard(member_id)
        elif _is_of_nobody(line) and epochs and is_membership_known and not members and waiting:
            epochs.append(LoggedEpoch(number=epochs[-1].number + 1, first=line, causes=waiting))
            epochs[-1].member_ids, waiting = frozenset(), []
        elif line.kind in _EPOCH_LINES and isinstance(number, int):
            known = next((e for e in reversed(epochs) if e.number == number and not e.rewrite_seq), None)
            if known is None and (not epochs or number > epochs[-1].number):
                is_membership_known = is_membership_known or number <= 2
                converted = [x for x in waiting if x.kind is LogKind.GROUP_CONVERTED]
                if converted and number > 1:
                    epochs.append(
                        LoggedEpoch(number=number - 1, first=converted[0], causes=converted, is_conversion=True)
                    )
                    waiting = [x for x in waiting if x.kind is not LogKind.GROUP_CONVERTED]
                known = LoggedEpoch(number=number, first=line, causes=[x for x in waiting if not _is_back(x, line)])
                known.member_ids = frozenset(members) if is_membership_known else None
                epochs.append(known)
                waiting = []
            if known is not None and line.kind is LogKind.TARGET_COMPUTED and known.target is None:
                known.target = line
    return epochs


def _is_back(joined: LogEvent, bumped: LogEvent) -> bool:
    """Whether a member joined only to hear what it has to do, as one of the classic protocol does for each target. Who
    is new bumps the epoch by it."""
    if joined.kind is not LogKind.MODERN_MEMBER_JOINED or joined.fields.get("protocol") != "classic":
        return False
    return (bumped.at_ms or 0) - (joined.at_ms or 0) > _ONE_OPERATION_MS


def _is_of_nobody(line: LogEvent) -> bool:
    """The topics that all members of the group subscribe to are none."""
    return line.kind is LogKind.TOPIC_METADATA_COMPUTED and line.fields.get("metadata") == "{}"


def _row(evidence: GroupEvidence, epochs: Sequence[LoggedEpoch], index: int, ways: _Ways, highest: int) -> Rebalance:
    epoch = epochs[index]
    following = epochs[index + 1] if index + 1 < len(epochs) else None
    is_followed = following is not None or epoch.number < highest
    if epoch.is_emptied:
        outcome = Outcome.EMPTIED
    elif following is not None and _was_left_behind(following):
        outcome = Outcome.SUPERSEDED
    elif epoch.target is not None or epoch.is_conversion or epoch.rewrite_seq:
        outcome = Outcome.COMPLETED
    else:
        outcome = Outcome.SUPERSEDED if is_followed else Outcome.OPEN
    before = epochs[index - 1] if index else None
    triggers = _triggers(epoch, ways) or _without_cause(epoch, before)
    first = triggers[0] if triggers else Trigger(trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN)
    started_at_ms = min((x.at_ms for x in (epoch.first, *epoch.causes) if x.at_ms is not None), default=None)
    target_at_ms = epoch.target.at_ms if epoch.target is not None else None
    lines = (epoch.first, *epoch.causes, *([epoch.target] if epoch.target else []))
    group_type = next(
        (GroupType(x.fields["group_type"]) for e in epochs for x in (e.first, *e.causes) if "group_type" in x.fields),
        GroupType.CONSUMER,
    )
    return Rebalance(
        cluster_id=evidence.cluster_id,
        rebalance_id=rebalance_id(
            evidence.cluster_id, evidence.group_id, epoch.number, rewrite_seq=epoch.rewrite_seq, epoch=True
        ),
        group_id=evidence.group_id,
        group_epoch=epoch.number,
        group_type=group_type,
        protocol_type=group_type,
        kind=RebalanceKind.STATIC_REWRITE if epoch.rewrite_seq else RebalanceKind.REBALANCE,
        rewrite_seq=epoch.rewrite_seq,
        outcome=outcome,
        mode=Mode.SERVER,
        assignor=assignor_name(epoch.target.fields.get("assignor")) if epoch.target is not None else None,
        coordinator_broker_id=epoch.first.coordinator_broker_id,
        member_count=None if epoch.member_ids is None else len(epoch.member_ids),
        started_at_ms=started_at_ms,
        started_tier=EvidenceTier.LOGGED,
        joined_at_ms=target_at_ms,
        ended_at_ms=target_at_ms if target_at_ms is not None else started_at_ms,
        trigger=first.trigger,
        trigger_tier=first.tier,
        trigger_detail=first.detail or None,
        triggers=tuple(triggers),
        expected=bool(epoch.rewrite_seq) or first.trigger in EXPECTED,
        expected_reason=STATIC_RETURN if epoch.rewrite_seq else EXPECTED.get(first.trigger),
        is_complete_evidence=False,
        is_final=is_followed,
        evidence=tuple(dict.fromkeys(line.ref for line in lines)),
    )


class _Ways(NamedTuple):
    """Members by the lines of the whole group."""

    joined_at_ms: Mapping[str, int]
    """When each joined last."""
    static: frozenset[str]


def _ways(lines: Iterable[LogEvent]) -> _Ways:
    joined: dict[str, int] = {}
    static: set[str] = set()
    for line in lines:
        named = [line.fields.get("member_id"), line.fields.get("new_member_id")]
        if line.kind is LogKind.MODERN_MEMBER_JOINED and named[0] is not None:
            joined[named[0]] = max(joined.get(named[0], 0), line.at_ms or 0)
        if line.fields.get("group_instance_id") is not None:
            static.update(m for m in named if m is not None)
    return _Ways(joined, frozenset(static))


def _was_left_behind(following: LoggedEpoch) -> bool:
    """Whether a member was put out because it did not reach the epoch before."""
    fenced = (x for x in following.causes if x.kind is LogKind.MEMBER_FENCED)
    return any("failed to transition" in str(x.fields.get("reason")) for x in fenced)


def _triggers(epoch: LoggedEpoch, ways: _Ways) -> list[Trigger]:
    found: list[Trigger] = []
    for line in epoch.causes:
        trigger, detail = _cause(line)
        gone = line.fields.get("member_id")
        if trigger == Cause.MEMBER_SESSION_EXPIRED and gone in ways.static:
            trigger = Cause.STATIC_MEMBER_EXPIRED
        if line.kind is LogKind.MODERN_MEMBER_LEFT and ways.joined_at_ms.get(gone or "", 0) > (line.at_ms or 0):
            trigger, detail = Cause.UNKNOWN, "it left and came back under the same id: not polling, or unsubscribed"
        member_id = line.fields.get("new_member_id") or line.fields.get("member_id")
        found.append(
            Trigger(
                trigger=trigger,
                tier=EvidenceTier.UNKNOWN if trigger == Cause.UNKNOWN else EvidenceTier.LOGGED,
                members=(member_id,) if member_id else (),
                detail=detail,
                evidence=(line.ref,),
            )
        )
    # As with records: a conversion first, then departures, then arrivals, then changes of members that stayed.
    order = {
        Cause.GROUP_CONVERTED: 0,
        Cause.MEMBER_JOINED: 2,
        Cause.SUBSCRIPTION_CHANGED: 3,
        Cause.STREAMS_TOPOLOGY_CHANGED: 4,
    }
    found.sort(key=lambda t: 1 if t.trigger in DEPARTURES else order.get(t.trigger, 2))
    return found


def _without_cause(epoch: LoggedEpoch, before: LoggedEpoch | None) -> list[Trigger]:
    """Nobody came or went: the topics changed if their hash did; a share group initialises its partitions' state."""
    new, old = epoch.first.fields.get("metadata_hash"), before.first.fields.get("metadata_hash") if before else None
    if new is None or old is None:
        return []
    if new != old:
        trigger, detail = Cause.TOPIC_METADATA_CHANGED, "no member changed: the hash of the topics' metadata did"
    elif before is not None and _is_share(before, epoch):
        trigger, detail = Cause.SHARE_STATE_INITIALIZED, "no member and no topic changed"
    else:
        return []
    return [Trigger(trigger=trigger, tier=EvidenceTier.INFERRED, detail=detail, evidence=(epoch.first.ref,))]


def _is_share(*epochs: LoggedEpoch) -> bool:
    return any(line.fields.get("group_type") == GroupType.SHARE for epoch in epochs for line in epoch.causes)


def _cause(line: LogEvent) -> tuple[Cause, str]:
    match line.kind:
        case LogKind.MODERN_MEMBER_JOINED:
            return Cause.MEMBER_JOINED, "joined the group"
        case LogKind.STATIC_MEMBER_REPLACED:
            return Cause.STATIC_MEMBER_REPLACED, "a static member came back; the epoch did not change"
        case LogKind.MEMBER_FENCED:
            reason = str(line.fields.get("reason") or "")
            return classify_fence(reason).trigger, reason
        case LogKind.SUBSCRIPTION_UPDATED:
            return Cause.SUBSCRIPTION_CHANGED, "its subscription changed"
        case LogKind.GROUP_CONVERTED:
            return Cause.GROUP_CONVERTED, f"from {line.fields.get('from_type')} to {line.fields.get('to_type')}"
        case LogKind.STREAMS_TOPOLOGY_SET:
            return Cause.STREAMS_TOPOLOGY_CHANGED, "the topology changed"
        case _:
            left = classify_leave(line.fields.get("client_reason"))
            return left.trigger, left.detail or "left the group"
