"""Says what the evidence did not show, and what would have spared rebalances: sentences, each with its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from rebalance_audit.domain.causes import PUT_OUT, SPARED_BY_STATIC, Cause
from rebalance_audit.domain.client_families import INSTANCE
from rebalance_audit.domain.detect.client_advice import WEIGH_STATIC, WEIGH_STICKY, families, setting, sticky
from rebalance_audit.domain.detect.history import Identity, identity, label
from rebalance_audit.domain.detect.wording import counted, duration, listed
from rebalance_audit.domain.kinds import (
    STOOD_STILL,
    FindingStatus,
    GroupType,
    MemberChange,
    Mode,
    MovementKind,
    Outcome,
    RebalanceKind,
)
from rebalance_audit.domain.model import Finding, Rebalance
from rebalance_audit.domain.numbers import unit_of

_RETURN_WINDOW_MS = 600_000
"""A member back within 10 min was restarted, not replaced: a session timeout of that length is still usable."""
_WORTH_SAYING_SECONDS = 1.0


def not_seen_in(rebalances: Sequence[Rebalance]) -> tuple[str, ...]:
    """Sentences about what the rows themselves show to be missing."""
    notes: list[str] = []
    unknown = sum(
        1 for r in rebalances if r.trigger == Cause.UNKNOWN and r.outcome not in (Outcome.MISSING, Outcome.EMPTIED)
    )
    if unknown:
        notes.append(
            f"the cause of {counted(unknown, 'rebalance')} (the coordinator's log of that time, given with --logs, "
            "names causes)"
        )
    unbounded = sum(
        1 for r in rebalances for m in r.movements if m.pause_estimate_ms is not None and m.pause_upper_ms is None
    )
    if unbounded:
        notes.append(f"when {counted(unbounded, 'resumption')} happened at the latest (nothing bounds those pauses)")
    unmeasured = sum(
        1 for r in rebalances for m in r.movements if m.kind in STOOD_STILL and m.pause_estimate_ms is None
    )
    if unmeasured:
        notes.append(f"the pause of {counted(unmeasured, 'hand-over')}")
    incomplete = sum(1 for r in rebalances if not r.is_complete_evidence and r.outcome != Outcome.MISSING)
    if incomplete:
        notes.append(f"parts of the evidence of {counted(incomplete, 'rebalance')}")
    return tuple(notes)


class HalfSeen(Protocol):
    """What shows which evidence of a rebalance is missing: a row of gold.rebalance, or some of its columns."""

    @property
    def outcome(self) -> str: ...
    @property
    def group_epoch(self) -> int | None: ...
    @property
    def protocol_type(self) -> str | None: ...
    @property
    def started_at_ms(self) -> int | None: ...


def missing_evidence(r: HalfSeen) -> tuple[str, ...]:
    """Which evidence of this rebalance is missing, in words. Only for one whose evidence is not complete."""
    if r.outcome == Outcome.MISSING:
        return ("every record and line of it",)
    if r.outcome == Outcome.OPEN:
        return ("its end",)
    if r.group_epoch is not None:
        return ("the group's record",)
    found = []
    if r.protocol_type is None:  # only a record names it
        found.append("the group's record")
    if r.started_at_ms is None:
        found.append("the coordinator's log lines")
    if found:
        return tuple(found)
    if r.protocol_type == "connect":
        return ("what some workers ran, or the generation before it",)
    return ("the generation before it",)


def would_have_helped(rebalances: Sequence[Rebalance], findings: Sequence[Finding]) -> tuple[str, ...]:
    """Savings that the evidence shows, the largest first; nothing where nothing would have changed."""
    if not rebalances:
        return ()
    hints = [*_static_membership(rebalances), *_cooperative(rebalances)]
    for finding in findings:
        if finding.status == FindingStatus.OPEN and finding.rule_id in ("RB006", "RB008") and finding.advice:
            hints.append(finding.advice)
    return tuple(dict.fromkeys(hints))


def _static_membership(rebalances: Sequence[Rebalance]) -> list[str]:
    """Members without an instance id that came back soon: their leaving and returning cost a rebalance each."""
    gone_at: dict[Identity, int] = {}
    returns: Counter[Identity] = Counter()
    names: dict[Identity, str] = {}
    apart_ms: list[int] = []
    spared: set[str] = set()
    left_in: dict[Identity, str] = {}
    attempts = [r for r in rebalances if r.kind == RebalanceKind.REBALANCE and r.outcome != Outcome.MISSING]
    for r in attempts:
        at_ms = r.assigned_at_ms if r.assigned_at_ms is not None else r.started_at_ms
        if at_ms is None or r.protocol_type == "connect" or r.group_type not in (GroupType.CLASSIC, GroupType.CONSUMER):
            continue
        since_ms = next((t for t in (r.started_at_ms, r.started_lower_ms) if t is not None), at_ms)
        put_out = {m for t in r.triggers if t.trigger in PUT_OUT for m in t.members}
        # who left comes first: a quick restart leaves and joins in one rebalance, in the order of its two random ids
        for member in sorted(r.members, key=lambda m: m.change != MemberChange.LEFT):
            who = identity(member)
            if member.group_instance_id is not None or member.member_id in put_out:
                continue
            if setting(INSTANCE, families((member,))) is None:
                continue  # its library knows no static members
            names[who] = label(member)
            if member.change == MemberChange.LEFT:
                gone_at[who], left_in[who] = since_ms, r.rebalance_id
            elif member.change == MemberChange.JOINED and who in gone_at:
                away_ms = at_ms - gone_at.pop(who)
                if away_ms <= _RETURN_WINDOW_MS:
                    returns[who] += 1
                    apart_ms.append(away_ms)
                    spared.add(left_in[who])
                    if r.trigger in SPARED_BY_STATIC:
                        spared.add(r.rebalance_id)
    if not returns:
        return []
    people = [names[who] for who, _ in returns.most_common()]
    times = sum(returns.values())
    return [
        f"{listed(people)} left and came back ({_times(times)} in all), away for at most {duration(max(apart_ms))}: a "
        f"group.instance.id with a longer session timeout would have spared up to {len(spared)} of "
        f"{counted(len(attempts), 'rebalance')}, {WEIGH_STATIC}."
    ]


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _cooperative_of(last: Rebalance) -> str | None:
    remedy = sticky(families(last.members))
    if remedy is None:
        return None
    return (
        "A cooperative assignor or group.protocol=consumer" if "group.protocol" in remedy else "A cooperative assignor"
    )


def _cooperative(rebalances: Sequence[Rebalance]) -> list[str]:
    """Partitions that only stopped to go back to their owner need not have stopped."""
    returned = [
        m.pause_estimate_ms
        for r in rebalances
        if r.mode == Mode.EAGER and r.kind == RebalanceKind.REBALANCE
        for m in r.movements
        if m.kind == MovementKind.RETURNED and m.pause_estimate_ms is not None
    ]
    seconds = sum(max(ms, 0) for ms in returned) / 1000
    if seconds < _WORTH_SAYING_SECONDS:
        return []
    last = rebalances[-1]
    remedy = "connect.protocol=sessioned" if last.protocol_type == "connect" else _cooperative_of(last)
    if remedy is None:
        return []
    noun = unit_of([last])
    return [
        f"{remedy} would have spared {seconds:,.1f} {noun}-seconds: {counted(len(returned), noun)} stopped only to go "
        f"back to the same owner, {WEIGH_STICKY}."
    ]
