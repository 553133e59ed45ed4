"""RA001 to RA006: reassignments that are stalled, put data at risk, or leave something behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rebalance_audit.domain.detect.finding import Extent, capped, make_finding
from rebalance_audit.domain.detect.limits import DEFAULT_REASSIGNMENT, ReassignmentLimits
from rebalance_audit.domain.detect.wording import clock, counted, duration, folded
from rebalance_audit.domain.kinds import Severity
from rebalance_audit.domain.model import Finding
from rebalance_audit.domain.reassign.advice import blocked, cancel_command, execute_command, is_legal_topic, next_steps
from rebalance_audit.domain.reassign.model import Reassignment, ReassignmentHistory, Throttle

_ENDINGS = {
    "cancelled": "it was cancelled", "superseded": "another request replaced it", "deleted": "its topic was deleted",
}  # fmt: skip
"""How a standstill ended where the attempt did not go on, by its outcome."""


def stalled(history: ReassignmentHistory, limits: ReassignmentLimits) -> list[Finding]:
    """RA001. A running reassignment makes no progress for the limit, or one that has ended once did not.

    Silent while new replicas join the in-sync ones, and for those that can never complete (RA006).
    """
    found: list[Finding] = []
    for r in history.reassignments:
        stood_ms, is_open = r.longest_standstill_ms, r.stalled_since_ms is not None
        if r.blocked_by in (None, "adding_and_removing_overlap") or stood_ms is None or stood_ms <= limits.stall_ms:
            continue  # without a reason it was still within what its size takes
        from_ms = r.stalled_since_ms if r.stalled_since_ms is not None else r.standstill_from_ms or 0
        severity = Severity.CRITICAL if is_open and stood_ms > limits.stall_critical_ms else Severity.WARNING
        verb = "has made" if is_open else "made"
        found += _finding(
            history,
            "RA001",
            r,
            severity=severity if is_open else Severity.INFO,
            is_open=is_open,
            first_seen_at_ms=from_ms,
            last_seen_at_ms=from_ms + stood_ms,
            title=f"The reassignment of {r.name} {verb} no progress for {duration(stood_ms)}: {blocked(r)}",
            numbers={
                "standstill_ms": stood_ms,
                "blocked_by": r.blocked_by,
                "blocked_replicas": list(r.blocked_replicas),
            },
            advice=" ".join(next_steps(r)[:1]) if is_open else f"Nothing: {_ENDINGS.get(r.outcome, 'it went on')}.",
        )
    return found


def throttle_left(history: ReassignmentHistory, limits: ReassignmentLimits) -> list[Finding]:
    """RA002. A replication throttle is set although nothing is being reassigned.

    Silent while any reassignment runs, for the grace time after, and once the throttle is gone.
    """
    now_ms = history.seen_until_ms
    if now_ms is None or any(r.outcome == "open" for r in history.reassignments):
        return []
    left = [t for t in history.throttles if t.removed_at_ms is None and "alter.log.dirs" not in t.name]
    if not left:
        return []
    since_ms = removable_since(history, left)
    if since_ms is None or now_ms - since_ms <= limits.throttle_grace_ms:
        return []
    rates = sorted({t.resource or "all" for t in left if t.resource_type == "broker"})
    topics = sorted({t.resource for t in left if t.resource_type == "topic"})
    what = " and ".join(
        part
        for part in (
            f"{'brokers' if len(rates) > 1 else 'broker'} {', '.join(rates[:8])}" if rates else "",
            f"{'topics' if len(topics) > 1 else 'topic'} {folded(topics)}" if topics else "",
        )
        if part
    )
    evidence = capped(ref for t in left for ref in t.evidence)
    first = min(left, key=lambda t: (t.set_at_ms or 0, t.resource, t.name))
    return [
        make_finding(
            history.cluster_id,
            "RA002",
            "cluster",
            history.cluster_id,
            _open_since(since_ms, now_ms, first.evidence),
            severity=Severity.WARNING,
            title=f"A replication throttle is still set on {what}, and nothing has been moving since {clock(since_ms)}",
            detail="It slows replicas that catch up after the next restart.",
            numbers={"setting_count": len(left), "brokers": rates[:50], "topics": topics[:50], "since_ms": since_ms},
            advice="Run kafka-reassign-partitions --bootstrap-server HOST:PORT --reassignment-json-file PLAN --verify "
            f"with the plan's file, which removes them; without it: {_delete_command(left)}",
            evidence=evidence,
        )
    ]


def _delete_command(left: Sequence[Throttle]) -> str:
    """For the first resource; the others are alike."""
    first = min(left, key=lambda t: (t.resource_type, t.resource))
    names = sorted(t.name for t in left if (t.resource_type, t.resource) == (first.resource_type, first.resource))
    entity = f"--entity-type {first.resource_type}s "
    entity += f"--entity-name {first.resource}" if first.resource else "--entity-default"
    if first.resource_type == "topic" and not is_legal_topic(first.resource):
        entity = "--entity-type topics --entity-name TOPIC"  # a forged log line must not end in a shell
    more = len({(t.resource_type, t.resource) for t in left}) - 1
    rest = f", and so for {counted(more, 'other resource')}" if more else ""
    return f"kafka-configs --bootstrap-server HOST:PORT --alter {entity} --delete-config {','.join(names)}{rest}."


def removable_since(history: ReassignmentHistory, throttles: Sequence[Throttle]) -> int | None:
    """Since when these throttles serve nothing: the end of the last reassignment, or their setting if that is later."""
    if any(r.outcome == "open" for r in history.reassignments):
        return None
    ends = [r.ended_at_ms for r in history.reassignments if r.ended_at_ms is not None]
    set_at = [t.set_at_ms for t in throttles if t.set_at_ms is not None]
    return max([*ends, *set_at], default=None)


def not_reached(history: ReassignmentHistory, limits: ReassignmentLimits) -> list[Finding]:
    """RA003. A reassignment was cancelled, or replaced by another request, before it reached its target.

    Silent for those that completed, were refused, or went with their topic. Info only.
    """
    found: list[Finding] = []
    last_ms: dict[tuple[str, int], int] = {}
    for r in history.reassignments:
        if r.outcome != "refused":
            last_ms[r.topic, r.partition] = max(last_ms.get((r.topic, r.partition), 0), r.started_at_ms or 0)
    for r in history.reassignments:
        if r.outcome not in ("cancelled", "superseded"):
            continue
        is_last = (r.started_at_ms or 0) >= last_ms[r.topic, r.partition]
        ended_ms = r.ended_at_ms or r.started_at_ms or 0
        what = "was cancelled" if r.outcome == "cancelled" else "was replaced by another request"
        found += _finding(
            history,
            "RA003",
            r,
            severity=Severity.INFO,
            is_open=False,
            first_seen_at_ms=r.started_at_ms if r.started_at_ms is not None else ended_ms,
            last_seen_at_ms=ended_ms,
            title=f"The reassignment of {r.name} to {_ids(r.target_replicas)} {what} before it was there",
            numbers={"outcome": r.outcome, "target_replicas": list(r.target_replicas or ())},
            advice=_advice_not_reached(r, is_last=is_last),
        )
    return found


def _advice_not_reached(r: Reassignment, *, is_last: bool) -> str:
    explained = f"rebalance-audit explain --reassignment {_shell_name(r)}"
    if r.outcome == "superseded":
        return f"See the request that replaced it: {explained}"
    # Its order now is that of the later request.
    return _after_cancel(r) if is_last else f"It was asked to move again later, see: {explained}"


def _after_cancel(r: Reassignment) -> str:
    if r.original_replicas is None:
        return "Look whether the preferred leader is still the one you want: a cancellation keeps no order."
    return (
        "A cancellation restores the set of replicas, not their order, whose first leads: for the old order "
        f"{execute_command(replace(r, target_replicas=r.original_replicas))}"
    )


def _shell_name(r: Reassignment) -> str:
    return r.name if is_legal_topic(r.topic) else "TOPIC-PARTITION"


def leader_not_preferred(history: ReassignmentHistory, limits: ReassignmentLimits) -> list[Finding]:
    """RA004. A broker leads far fewer partitions than it is the preferred leader of.

    Silent up to Kafka's own limit of 10 %, and while reassignments run.
    """
    now_ms = history.seen_until_ms
    if now_ms is None or any(r.outcome == "open" for r in history.reassignments):
        return []
    found = []
    for each in history.imbalances:
        ratio = each.led_elsewhere_count / each.preferred_count
        if each.led_elsewhere_count < limits.imbalance_min_count or ratio <= limits.imbalance_ratio:
            continue
        found.append(
            make_finding(
                history.cluster_id,
                "RA004",
                "broker",
                f"broker {each.broker_id}",
                _open_since(now_ms, now_ms, each.evidence),
                severity=Severity.INFO,
                title=f"Broker {each.broker_id} does not lead {each.led_elsewhere_count} of the "
                f"{counted(each.preferred_count, 'partition')} it is preferred for",
                detail=f"For example {folded(each.examples)}.",
                numbers={"led_elsewhere_count": each.led_elsewhere_count, "ratio": round(ratio, 4)},
                advice="If the broker is well: kafka-leader-election --bootstrap-server HOST:PORT "
                "--election-type preferred --all-topic-partitions",
                evidence=capped(each.evidence),
            )
        )
    return found


def at_risk(history: ReassignmentHistory, limits: ReassignmentLimits) -> list[Finding]:
    """RA005. While it moved, a partition had no leader, fewer in-sync replicas than min.insync.replicas, or fewer than
    before.

    Silent for moments as short as a change of leader, or for lost copies that a restart explains.
    """
    found: list[Finding] = []
    for r in history.reassignments:
        if r.without_leader_ms > limits.under_min_isr_ms:
            severity, lasted_ms, what = Severity.CRITICAL, r.without_leader_ms, "had no leader"
        elif r.under_min_isr_ms > limits.under_min_isr_ms:
            severity, lasted_ms = Severity.CRITICAL, r.under_min_isr_ms
            what = f"had fewer than min.insync.replicas={r.min_insync_replicas} in sync"
        elif r.under_replicated_ms > limits.under_replicated_ms:
            severity, lasted_ms, what = (
                Severity.WARNING,
                r.under_replicated_ms,
                "had fewer replicas in sync than before",
            )
        else:
            continue
        start_ms = r.started_at_ms if r.started_at_ms is not None else r.ended_at_ms or history.seen_until_ms or 0
        end_ms = r.ended_at_ms if r.ended_at_ms is not None else history.seen_until_ms
        found += _finding(
            history,
            "RA005",
            r,
            severity=severity if r.outcome == "open" else Severity.WARNING,
            is_open=r.outcome == "open",
            first_seen_at_ms=start_ms,
            last_seen_at_ms=max(start_ms, end_ms or start_ms),
            title=f"{r.name} {what} for {duration(lasted_ms)} while it was reassigned",
            numbers={
                "without_leader_ms": r.without_leader_ms,
                "under_min_isr_ms": r.under_min_isr_ms,
                "under_replicated_ms": r.under_replicated_ms,
            },
            advice=f"Bring its brokers back, or stop the move: {cancel_command(r)}"
            if r.outcome == "open"
            else "Next time move fewer partitions at once, and only while all brokers are up.",
        )
    return found


def cannot_complete(history: ReassignmentHistory, limits: ReassignmentLimits) -> list[Finding]:
    """RA006. A broker is added and removed at once, after one request replaced another: from 4.3 on that never ends.

    Silent for replacements whose target keeps all the brokers the first request was adding, for software before 4.3,
    and in ZooKeeper mode.
    """
    found: list[Finding] = []
    for r in history.reassignments:
        if r.blocked_by != "adding_and_removing_overlap":
            continue
        is_open = r.outcome == "open"
        start_ms = r.started_at_ms if r.started_at_ms is not None else r.ended_at_ms or history.seen_until_ms or 0
        end_ms = (history.seen_until_ms if is_open else r.ended_at_ms) or start_ms
        brokers = ", ".join(str(b) for b in r.blocked_replicas)
        found += _finding(
            history,
            "RA006",
            r,
            severity=Severity.CRITICAL if is_open else Severity.INFO,
            is_open=is_open,
            first_seen_at_ms=start_ms,
            last_seen_at_ms=max(start_ms, end_ms),
            title=f"The reassignment of {r.name} {'cannot' if is_open else 'could not'} complete: {blocked(r)}",
            numbers={"brokers": list(r.blocked_replicas), "lasted_ms": max(0, end_ms - start_ms)},
            advice=" ".join(next_steps(r)[:1])
            if is_open
            else f"Nothing: it was ended. Cancel before asking for a list without broker {brokers}.",
        )
    return found


OF_PARTITIONS, OF_CLUSTERS = ("RA001", "RA003", "RA005", "RA006"), ("RA002", "RA004")
"""Rules about one attempt each, and those that need to know of all of them and of every partition."""
REASSIGNMENT_RULES: Mapping[str, Callable[[ReassignmentHistory, ReassignmentLimits], list[Finding]]] = {
    "RA001": stalled,
    "RA002": throttle_left,
    "RA003": not_reached,
    "RA004": leader_not_preferred,
    "RA005": at_risk,
    "RA006": cannot_complete,
}


def detect_reassignments(
    history: ReassignmentHistory,
    limits: ReassignmentLimits = DEFAULT_REASSIGNMENT,
    rules: Sequence[str] = (*OF_PARTITIONS, *OF_CLUSTERS),
) -> list[Finding]:
    """Every finding of these rules about one cluster's reassignments, by first sight, then by rule."""
    found = [finding for rule_id in rules for finding in REASSIGNMENT_RULES[rule_id](history, limits)]
    return sorted(found, key=lambda f: (f.first_seen_at_ms, f.rule_id, f.subject, f.finding_id))


def _finding(
    history: ReassignmentHistory,
    rule_id: str,
    r: Reassignment,
    *,
    severity: Severity,
    is_open: bool,
    first_seen_at_ms: int,
    last_seen_at_ms: int,
    title: str,
    numbers: Mapping[str, Any],
    advice: str,
) -> list[Finding]:
    extent = Extent(
        key=r.reassignment_id, is_open=is_open, first_seen_at_ms=first_seen_at_ms, last_seen_at_ms=last_seen_at_ms
    )
    return [
        make_finding(
            history.cluster_id,
            rule_id,
            "partition",
            r.name,
            extent,
            severity=severity,
            title=title,
            numbers={"reassignment_id": r.reassignment_id, **numbers},
            advice=advice,
            evidence=capped(r.evidence),
        )
    ]


def _open_since(since_ms: int, now_ms: int, evidence: Sequence[str]) -> Extent:
    return Extent(key="|".join(evidence[:1]), is_open=True, first_seen_at_ms=since_ms, last_seen_at_ms=now_ms)


def _ids(replicas: tuple[int, ...] | None) -> str:
    return "an unknown target" if replicas is None else f"[{','.join(str(b) for b in replicas)}]"
