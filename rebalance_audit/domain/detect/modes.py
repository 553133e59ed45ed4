"""RB002, RB003, CN006: groups that stop all their members although they need not, or did not before."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median

from rebalance_audit.domain.causes import SLOW_BY_DESIGN, Cause
from rebalance_audit.domain.detect.finding import Extent, numbers_of
from rebalance_audit.domain.detect.history import History, HistoryStep, Spell, identity, label, refs_of
from rebalance_audit.domain.detect.limits import Limits
from rebalance_audit.domain.detect.wording import clock, counted, duration, likely, listed, shown
from rebalance_audit.domain.kinds import MemberChange, Mode, Outcome, Severity
from rebalance_audit.domain.model import Finding, Member, Rebalance

_GENTLE = (Mode.COOPERATIVE, Mode.INCREMENTAL, Mode.SERVER)
_COOPERATIVE_ASSIGNORS = frozenset({"cooperative-sticky"})
_SIGMA_PER_MAD = 1.4826


def regression(history: History) -> list[Finding]:
    """The mode went from cooperative, incremental or server to eager, or the pause rose far above the group's own past.

    Silent for groups that were always eager, for one long pause that a vanished member explains, and with too few
    measured rebalances to know what is usual.
    """
    return _mode_regressions(history) + _pause_regressions(history)


def _mode_regressions(history: History) -> list[Finding]:
    before = history.carried("RB002", "mode_before")
    fallen: dict[str, HistoryStep | None] = {}
    """Each with the last gentle one before it; None: that was in an earlier era."""
    gentle: HistoryStep | None = None
    is_fallen = before is not None
    for step in history.attempts:
        if not step.is_settled:
            continue
        if step.rebalance.mode in _GENTLE:
            gentle, is_fallen = step, False
        elif step.rebalance.mode == Mode.EAGER:
            is_fallen = gentle is not None or before is not None
        if is_fallen:  # a round of unknown mode, or an emptied group, proves no return
            fallen[step.rebalance.rebalance_id] = gentle
    found: list[Finding] = []
    for spell in history.spells(fallen, before):
        gentle = fallen[spell.first.rebalance.rebalance_id]
        if gentle is not None:
            found += _mode_finding(history, spell, gentle)
        elif before is not None:
            found += _mode_finding_continued(history, spell, before)
    return found


def _mode_finding_continued(history: History, spell: Spell, before: Finding) -> list[Finding]:
    """The same finding with what came since."""
    numbers = numbers_of(before.numbers)
    lost = [s.rebalance.resource_seconds_estimate or 0.0 for s in spell.steps]
    numbers["eager_rebalance_count"] += len(spell.steps)
    numbers["resource_seconds_estimate"] = round(numbers["resource_seconds_estimate"] + sum(lost), 3)
    return history.finding(
        "RB002",
        spell.extent,
        severity=before.severity,
        title=before.title,
        detail=before.detail,
        numbers=numbers,
        advice=before.advice or "",
        evidence=refs_of((spell.first, spell.last)),
    )


def _mode_finding(history: History, spell: Spell, gentle: HistoryStep) -> list[Finding]:
    r, before = spell.first.rebalance, gentle.rebalance
    came = [label(m) for m in r.members if m.change in (MemberChange.JOINED, MemberChange.REPLACED)]
    suspects = f" It began when {listed(came)} joined." if came else ""
    lost = [s.rebalance.resource_seconds_estimate or 0.0 for s in spell.steps]
    return history.finding(
        "RB002",
        spell.extent,
        severity=Severity.WARNING,
        title=f"{history.group} fell back to stop-the-world rebalances at {clock(spell.first.at_ms)}: "
        f"{_how(r)} since {number(r)}, {_how(before)} before",
        detail=f"Every member gives up all it holds at each rebalance: {counted(r.resource_count or 0, 'resource')} "
        f"here."
        f"{suspects}",
        numbers={
            "mode": r.mode,
            "mode_before": before.mode,
            "assignor": r.assignor,
            "assignor_before": before.assignor,
            "eager_rebalance_count": len(spell.steps),
            "resource_count": r.resource_count,
            "resource_seconds_estimate": round(sum(lost), 3),
        },
        advice="Compare the newest member's partition.assignment.strategy (or group.protocol, connect.protocol) and "
        "client version with the others': one member that offers only an eager assignor makes the whole group eager.",
        evidence=refs_of((spell.first, gentle, spell.last)),
    )


def _pause_regressions(history: History) -> list[Finding]:
    limits = history.limits
    if len(history.attempts) <= limits.pause_baseline_count:  # as in most groups: none can have so many before it
        return []
    past: deque[float] = deque(maxlen=limits.pause_baseline_span)
    found: list[Finding] = []
    run: list[tuple[HistoryStep, float, float]] = []

    def close(is_open: bool) -> None:
        if run:
            found.extend(_pause_finding(history, run, len(past), is_open))
            run.clear()

    for step in history.attempts:
        usual = _usual_pause_ms(step.rebalance) if step.is_settled else None
        if usual is None:
            continue
        if _is_far_above(usual, past, limits):
            run.append((step, usual, median(past)))
            if len(run) >= limits.pause_baseline_span:
                normal = [pause for _, pause, _ in run]
                close(is_open=False)
                past.clear()
                past.extend(normal)
        else:  # what is far above the past must not become the past
            close(is_open=False)
            past.append(usual)
    close(is_open=True)
    return found


def _usual_pause_ms(rebalance: Rebalance) -> float | None:
    """The median pause over what changed hands between members that were there: a member's death is RB007's matter."""
    if rebalance.trigger in (Cause.GROUP_EMPTIED, Cause.CONNECT_DELAY_EXPIRED):
        return None
    gone = {m.member_id for m in rebalance.members if m.change == MemberChange.LEFT}
    pauses = [
        max(m.pause_estimate_ms, 0)
        for m in rebalance.movements
        if m.pause_estimate_ms is not None and m.from_member_id not in gone
    ]
    if pauses:
        return float(median(pauses))
    causes = {rebalance.trigger, *(t.trigger for t in rebalance.triggers)}
    if rebalance.movements or causes & SLOW_BY_DESIGN or rebalance.pause_estimate_ms is None:
        return None
    return float(max(rebalance.pause_estimate_ms, 0))


def _is_far_above(pause_ms: float, past: Sequence[float], limits: Limits) -> bool:
    """Whether all three limits are passed; false while too few rebalances are known."""
    if not past or len(past) < limits.pause_baseline_count:
        return False
    middle = median(past)
    if pause_ms <= max(middle * limits.pause_ratio, middle + limits.pause_min_rise_ms):
        return False
    sigma = _SIGMA_PER_MAD * median(abs(p - middle) for p in past)
    return pause_ms > middle + limits.pause_deviations * sigma


def _pause_finding(
    history: History, run: Sequence[tuple[HistoryStep, float, float]], past_count: int, is_open: bool
) -> list[Finding]:
    steps = [step for step, _, _ in run]
    worst, worst_ms, usual_ms = max(run, key=lambda item: item[1])
    r = worst.rebalance
    how_often = "" if len(run) == 1 else f", and so in {len(run)} rebalances in a row"
    return history.finding(
        "RB002",
        Extent(
            key=f"pause {steps[0].rebalance.rebalance_id}",
            is_open=is_open and history.now_ms - steps[-1].at_ms <= history.limits.quiet_ms,
            first_seen_at_ms=steps[0].first_at_ms,
            last_seen_at_ms=steps[-1].at_ms,
        ),
        severity=Severity.WARNING,
        title=f"{history.group} stood still for {duration(worst_ms)} at {number(r)}, "
        f"{duration(usual_ms)} is usual for it{how_often}",
        detail=f"Median over the partitions of members that stayed, against "
        f"{counted(past_count, 'earlier rebalance')} of "
        f"this group. Longest of all: {likely(r.pause_estimate_ms, r.pause_likely_lower_ms, r.pause_likely_upper_ms)}.",
        numbers={
            "pause_ms": round(worst_ms),
            "usual_pause_ms": round(usual_ms),
            "past_count": past_count,
            "rebalance_count": len(run),
            "mode": r.mode,
        },
        advice="See which member was last to re-join: it was busy, or its revoked callback took the time.",
        evidence=refs_of(steps),
    )


def eager_although_able(history: History) -> list[Finding]:
    """Every member is known to support a cooperative assignor, and an eager one is elected.

    Silent where any member's assignors are not known: group records hold only the elected one.
    """
    able = {
        s.rebalance.rebalance_id: True
        for s in history.attempts
        if s.rebalance.mode == Mode.EAGER and _all_able(_present(s.rebalance))
    }
    found: list[Finding] = []
    for spell in history.spells(able, history.carried("RB003")):
        r = spell.last.rebalance
        found += history.finding(
            "RB003",
            spell.extent,
            severity=Severity.INFO,
            title=f"{history.group} works eagerly ({shown(r.assignor or 'assignor not known')}) although all "
            f"{counted(len(_present(r)), 'member')} support cooperative-sticky",
            numbers={"member_count": len(_present(r)), "assignor": r.assignor, "rebalance_count": len(spell.steps)},
            advice="Finish the change with a second rolling restart that takes the eager assignors out of "
            "partition.assignment.strategy.",
            evidence=refs_of((spell.first, spell.last)),
        )
    return found


def eager_connect(history: History) -> list[Finding]:
    """A Connect cluster works with connect.protocol=eager, or one worker that offers nothing else makes it so.

    Silent for compatible and sessioned clusters, and for consumer groups.
    """
    eager = {
        s.rebalance.rebalance_id: True
        for s in history.attempts
        if s.rebalance.protocol_type == "connect"
        and s.rebalance.mode == Mode.EAGER
        and s.rebalance.outcome == Outcome.COMPLETED
    }
    found: list[Finding] = []
    for spell in history.spells(eager):
        r = spell.last.rebalance
        earlier = {identity(m) for s in history.attempts if s.index < spell.first.index for m in _present(s.rebalance)}
        newcomers = [label(m) for m in _present(spell.first.rebalance) if earlier and identity(m) not in earlier]
        since = f" It began with {listed(newcomers)}." if newcomers else ""
        found += history.finding(
            "CN006",
            spell.extent,
            severity=Severity.WARNING,
            title=f"Connect cluster {history.group} works eagerly: every change stops all "
            f"{counted(r.resource_count or 0, 'connector and task', 'connectors and tasks')}",
            detail=f"{counted(len(spell.steps), 'rebalance')} so far.{since}",
            numbers={"rebalance_count": len(spell.steps), "resource_count": r.resource_count},
            advice="Set connect.protocol=sessioned (the default since 2.4) on every worker: one with eager is enough "
            "to make the whole cluster eager.",
            evidence=refs_of((spell.first, spell.last)),
        )
    return found


def number(rebalance: Rebalance) -> str:
    """`generation 7`, `epoch 7`: as Kafka counts this group."""
    if rebalance.generation_id is not None:
        return f"generation {rebalance.generation_id}"
    return f"epoch {rebalance.group_epoch}" if rebalance.group_epoch is not None else "a generation of unknown number"


def _how(rebalance: Rebalance) -> str:
    return f"{rebalance.mode} ({shown(rebalance.assignor)})" if rebalance.assignor else rebalance.mode


def _present(rebalance: Rebalance) -> list[Member]:
    return [m for m in rebalance.members if m.change != MemberChange.LEFT]


def _all_able(members: Sequence[Member]) -> bool:
    return bool(members) and all(
        m.supported_assignors is not None and _COOPERATIVE_ASSIGNORS & set(m.supported_assignors) for m in members
    )
