"""RB011, RB012, RB014, RB016, RB020: rebalances that do not end, or end in nothing."""

from __future__ import annotations

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect.finding import Extent
from rebalance_audit.domain.detect.history import History, HistoryStep, bursts, label, most_at_once, refs_of
from rebalance_audit.domain.detect.modes import number
from rebalance_audit.domain.detect.wording import clock, counted, duration, listed
from rebalance_audit.domain.kinds import GroupType, MemberChange, Outcome, Severity
from rebalance_audit.domain.model import Finding, Member, Rebalance


def stuck(history: History) -> list[Finding]:
    """A rebalance is, or was, preparing or completing for longer than its own timeout.

    Silent for one that is only as slow as its timeout allows (RB008 names who made it so), and for one whose beginning
    nothing shows it.
    """
    found: list[Finding] = []
    for step in history.attempts:
        r = step.rebalance
        if r.group_type != GroupType.CLASSIC or r.started_at_ms is None or Cause.JOIN_PHASE_FAILED in _causes(r):
            continue  # RB020 shows a failed join phase
        timeout_ms = _timeout_ms(history, step)
        limit_ms = timeout_ms + history.limits.stuck_slack_ms
        if r.outcome == Outcome.OPEN:
            since_ms, phase = (r.started_at_ms, "waiting for members to join")
            if r.joined_at_ms is not None:
                since_ms, phase = r.joined_at_ms, "waiting for its leader's assignment"
            lasted_ms, end_ms = history.now_ms - since_ms, history.now_ms
        elif r.joined_at_ms is not None and r.joined_at_ms - r.started_at_ms > limit_ms:
            phase, lasted_ms = "waiting for members to join", r.joined_at_ms - r.started_at_ms
            since_ms, end_ms = r.started_at_ms, r.joined_at_ms
        elif r.joined_at_ms is not None and r.assigned_at_ms is not None:
            phase, lasted_ms = "waiting for its leader's assignment", r.assigned_at_ms - r.joined_at_ms
            since_ms, end_ms = r.joined_at_ms, r.assigned_at_ms
        else:
            continue
        if lasted_ms <= limit_ms:
            continue
        is_open = r.outcome == Outcome.OPEN
        found += history.finding(
            "RB011",
            Extent(
                key=r.rebalance_id,
                is_open=is_open,
                first_seen_at_ms=since_ms,
                last_seen_at_ms=max(end_ms, since_ms),
            ),
            severity=Severity.CRITICAL if is_open else Severity.WARNING,
            title=f"{history.group}{'' if is_open else ' was'} stuck at {number(r)}: {phase} for "
            f"{duration(lasted_ms)}, its own timeout is {duration(timeout_ms)}",
            numbers={"duration_ms": lasted_ms, "timeout_ms": timeout_ms},
            advice=_to_look_at(history, step),
            evidence=refs_of((step,)),
        )
    return found


def _to_look_at(history: History, step: HistoryStep) -> str:
    """Classic logs name who joins anew, and nobody who joins again: those that were there before are all that is known
    of those that are waited for."""
    r = step.rebalance
    if r.joined_at_ms is not None and r.outcome == Outcome.OPEN:
        leader = "" if r.leader_member_id is None else f", {label(history.member(r.leader_member_id))}"
        return (
            f"Look at the group's leader{leader}: all have joined, and it has not sent their assignment. If it does "
            "not answer, restart it."
        )
    newcomers = _newcomers(history, step)
    began = f", at {listed(newcomers)}, whose joining began it," if newcomers else ""
    known = [label(m) for m in _members_before(history, step) if m.change != MemberChange.LEFT]
    there = f" ({listed(known)} {'was' if len(known) == 1 else 'were'} there before)" if known else ""
    return (
        f"Look at the coordinator's log for this group{began} and at the members that have not joined{there}; if none "
        "of them answers, restart the member that has been in the group longest."
    )


def _newcomers(history: History, step: HistoryStep) -> list[str]:
    joined = [m for t in step.rebalance.triggers if t.trigger == Cause.MEMBER_JOINED for m in t.members]
    return list(dict.fromkeys(label(history.member(m)) for m in joined))


def join_phase_failed(history: History) -> list[Finding]:
    """The coordinator failed as it ended a join phase: it does not try again, and the members wait for ever. The
    finding comes at once, however long the group's timeout is. Silent without the coordinator's log.
    """
    found: list[Finding] = []
    for step in history.attempts:
        r = step.rebalance
        failures = [t for t in r.triggers if t.trigger == Cause.JOIN_PHASE_FAILED]
        if not failures:
            continue
        is_open = r.outcome == Outcome.OPEN
        names = _newcomers(history, step)
        began = f" since {clock(r.started_at_ms)}" if is_open and r.started_at_ms is not None else ""
        by = f"; it began when {listed(names)} joined" if names else ""
        found += history.finding(
            "RB020",
            Extent(
                key=r.rebalance_id,
                is_open=is_open,
                first_seen_at_ms=step.first_at_ms,
                last_seen_at_ms=max(history.now_ms if is_open else step.at_ms, step.first_at_ms),
            ),
            severity=Severity.CRITICAL if is_open else Severity.WARNING,
            title=f"{history.group}{'' if is_open else ' was'} stuck at {number(r)}{began}: its coordinator failed as "
            f"it ended the join phase{by}",
            detail=failures[0].detail,
            numbers={"error": failures[0].detail, "joined": names[:20]},
            advice="The coordinator does not try again by itself. Find the member that joined last, whose subscription "
            "it cannot read, stop it, and keep that client out of the group; if the others still hang, restart them.",
            evidence=refs_of((step,), Cause.JOIN_PHASE_FAILED),
        )
    return found


def stuck_reconciliation(history: History) -> list[Finding]:
    """A member of a KIP-848 or Streams-protocol group has not reached its target epoch within its rebalance timeout.

    Silent for classic groups (RB011) and for epochs that a newer one replaced.
    """
    found: list[Finding] = []
    for step in history.attempts:
        r = step.rebalance
        if r.group_type == GroupType.CLASSIC or r.outcome != Outcome.OPEN:
            continue
        timeout_ms = _timeout_ms(history, step)
        lasted_ms = history.now_ms - step.first_at_ms
        if lasted_ms <= timeout_ms + history.limits.stuck_slack_ms:
            continue
        behind = [
            label(m)
            for m in r.members
            if m.change != MemberChange.LEFT and r.group_epoch is not None and (m.member_epoch or 0) < r.group_epoch
        ]
        found += history.finding(
            "RB012",
            Extent(
                key=r.rebalance_id,
                is_open=True,
                first_seen_at_ms=step.first_at_ms,
                last_seen_at_ms=history.now_ms,
            ),
            severity=Severity.CRITICAL,
            title=f"{history.group} has not reached epoch {r.group_epoch} after {duration(lasted_ms)}: "
            f"{listed(behind) or 'members'} {'lag' if len(behind) != 1 else 'lags'} behind",
            numbers={"duration_ms": lasted_ms, "timeout_ms": timeout_ms, "behind": behind[:20]},
            advice="That member has not given up what it was asked to: look whether its poll loop still runs.",
            evidence=refs_of((step,)),
        )
    return found


def coordinator_trouble(history: History) -> list[Finding]:
    """Rebalances were caused by a failover, a load or an append failure of the offsets topic.

    Silent for failovers that cost no generation.
    """
    troubled = [s for s in history.attempts if _causes(s.rebalance) & {Cause.COORDINATOR_FAILOVER, Cause.APPEND_FAILED}]
    found: list[Finding] = []
    for part in bursts(troubled, history.limits.quiet_ms):
        failed = sum(1 for s in part if Cause.APPEND_FAILED in _causes(s.rebalance))
        cause = Cause.APPEND_FAILED if failed else Cause.COORDINATOR_FAILOVER
        brokers = sorted({b for s in part if (b := s.rebalance.coordinator_broker_id) is not None})
        where = f" (broker {', '.join(str(b) for b in brokers)})" if brokers else ""
        found += history.finding(
            "RB014",
            history.extent(part),
            severity=Severity.WARNING if failed or len(part) > 2 else Severity.INFO,
            title=f"{counted(len(part), 'rebalance')} of {history.group} came from its coordinator{where}: "
            f"{cause.facts.phrase}",
            numbers={"rebalance_count": len(part), "append_failed_count": failed, "coordinator_broker_ids": brokers},
            advice="Look at the leaders and in-sync replicas of __consumer_offsets at that time: its members did "
            "nothing.",
            evidence=refs_of(part, Cause.APPEND_FAILED, Cause.COORDINATOR_FAILOVER),
        )
    return found


def vanished_generations(history: History) -> list[Finding]:
    """Numbers are skipped or abandoned again and again: assignments that never arrive.

    Silent for the one or two a joiner makes, and where the numbers may have been lost to compaction over a long time.
    """
    limits = history.limits
    lost: list[HistoryStep] = []
    delivered_at_ms: list[int] = []
    run: list[HistoryStep] = []
    before_ms: int | None = None
    for step in history.attempts:
        if step.rebalance.outcome == Outcome.MISSING:
            run.append(step)
            continue
        if before_ms is not None and step.first_at_ms - before_ms <= limits.storm_short_window_ms:
            lost += run
        run, before_ms = [], step.at_ms
        if step.rebalance.outcome == Outcome.COMPLETED:
            delivered_at_ms.append(step.at_ms)
        elif step.rebalance.outcome in (Outcome.SUPERSEDED, Outcome.FAILED):
            lost.append(step)
    found: list[Finding] = []
    for part in bursts(lost, limits.quiet_ms):
        most = most_at_once(part, limits.storm_short_window_ms)
        delivered = sum(1 for at in delivered_at_ms if part[0].at_ms <= at <= part[-1].at_ms)
        if most < limits.vanished_min_count or delivered >= len(part):
            continue
        span_ms = part[-1].at_ms - part[0].first_at_ms
        found += history.finding(
            "RB016",
            history.extent(part),
            severity=Severity.WARNING,
            title=f"{counted(len(part), 'generation')} of {history.group} never reached its members in "
            f"{duration(span_ms)}; "
            f"{f'{delivered:,}' if delivered else 'none'} did",
            detail=f"First {number(part[0].rebalance)} at {clock(part[0].at_ms)}, last {number(part[-1].rebalance)} at "
            f"{clock(part[-1].at_ms)}.",
            numbers={"vanished_count": len(part), "delivered_count": delivered, "span_ms": span_ms},
            advice="Members come or go before the leader's assignment arrives: look at how long the leader takes to "
            "assign. Where a deploy stops all members first, raise group.initial.rebalance.delay.ms on the brokers: a "
            "group that starts from empty waits so long for more of them.",
            evidence=refs_of(part) or refs_of(history.attempts[:1]),
        )
    return found


def _causes(rebalance: Rebalance) -> set[str]:
    return {rebalance.trigger, *(t.trigger for t in rebalance.triggers)}


def _timeout_ms(history: History, step: HistoryStep) -> int:
    """The longest rebalance timeout of its members, else of those before it, else Kafka's default."""
    for members in (step.rebalance.members, _members_before(history, step)):
        timeouts = [m.rebalance_timeout_ms for m in members if m.rebalance_timeout_ms is not None]
        if timeouts:
            return max(timeouts)
    if step.rebalance.protocol_type == "connect":
        return history.limits.worker_rebalance_timeout_default_ms
    return history.limits.rebalance_timeout_default_ms


def _members_before(history: History, step: HistoryStep) -> tuple[Member, ...]:
    """Of the last rebalance before it that has any."""
    before = step.index - 1
    while before >= 0 and not history.steps[before].rebalance.members:
        before -= 1
    return history.steps[before].rebalance.members if before >= 0 else ()
