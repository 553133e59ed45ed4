"""Finds what was wrong: pure rules over the measured rebalances of one group, in order.

A rule is a sentence, a function, a table of cases and a heading in docs/runbook.md, or it does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rebalance_audit.domain.detect.assignments import (
    avoidable_movement,
    no_owner,
    subscriptions_differ,
    unbalanced,
    worker_imbalance,
)
from rebalance_audit.domain.detect.clients import broken_subscription, handler_exits, stands_still
from rebalance_audit.domain.detect.connect import failing_rounds, revocation_rounds, tasks_waiting
from rebalance_audit.domain.detect.connect_rewrites import rewritten_configs
from rebalance_audit.domain.detect.connect_tasks import task_failed, zombie_status
from rebalance_audit.domain.detect.departures import dropped_member, poll_timeout, session_expiry, static_membership
from rebalance_audit.domain.detect.flapping import flapping
from rebalance_audit.domain.detect.history import History
from rebalance_audit.domain.detect.limits import DEFAULT, DEFAULT_OF, Limits, LimitsError, LimitsOf, limits_for
from rebalance_audit.domain.detect.modes import eager_although_able, eager_connect, regression
from rebalance_audit.domain.detect.progress import (
    coordinator_trouble,
    join_phase_failed,
    stuck,
    stuck_reconciliation,
    vanished_generations,
)
from rebalance_audit.domain.detect.reassignments import REASSIGNMENT_RULES, detect_reassignments
from rebalance_audit.domain.detect.storm import storm
from rebalance_audit.domain.detect.trust import (
    ClockReading,
    ClockStep,
    ContradictionCount,
    CopyConflict,
    CoverageGap,
    UndecodedCount,
    clock_findings,
    clock_step_findings,
    contradiction_findings,
    copy_conflict_findings,
    coverage_findings,
    source_of,
    undecoded_findings,
)
from rebalance_audit.domain.gather.clocks import CLOCK_APART_MS
from rebalance_audit.domain.libraries import with_libraries
from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance

GROUP_RULES: Mapping[str, Callable[[History], list[Finding]]] = {
    "RB001": storm,
    "RB002": regression,
    "RB003": eager_although_able,
    "RB004": avoidable_movement,
    "RB005": flapping,
    "RB006": poll_timeout,
    "RB007": session_expiry,
    "RB008": dropped_member,
    "RB009": static_membership,
    "RB010": unbalanced,
    "RB011": stuck,
    "RB012": stuck_reconciliation,
    "RB013": no_owner,
    "RB014": coordinator_trouble,
    "RB015": subscriptions_differ,
    "RB016": vanished_generations,
    "RB017": broken_subscription,
    "RB018": handler_exits,
    "RB019": stands_still,
    "RB020": join_phase_failed,
    "CN001": tasks_waiting,
    "CN002": revocation_rounds,
    "CN003": zombie_status,
    "CN004": worker_imbalance,
    "CN005": failing_rounds,
    "CN006": eager_connect,
    "CN007": task_failed,
    "CN008": rewritten_configs,
}
ASKED_OF_MOVEMENTS = frozenset({
    "resource_type", "resource", "connector", "task", "kind", "from_member_id", "to_member_id", "is_avoidable",
    "pause_lower_ms", "pause_estimate_ms", "pause_upper_ms", "pause_likely_lower_ms", "pause_likely_upper_ms",
    "overlap_ms",
})  # fmt: skip
"""The fields of movements that a rule of a group looks at: what was measured is enough, without what it came from. All
others are nine tenths of a measured rebalance."""
ASKED_OF_MEMBERS = frozenset({
    "member_id", "group_instance_id", "client_id", "client_host", "worker_url", "change", "member_epoch",
    "session_timeout_ms", "rebalance_timeout_ms", "subscribed_topics", "supported_assignors", "owned_before",
    "assigned", "client_libraries", "undecoded",
})  # fmt: skip
"""The same of members. Without their evidence, members are alike from one rebalance to the next."""
TABLE_RULES: Mapping[str, Callable[..., list[Finding]]] = {
    "TR001": coverage_findings,
    "TR002": undecoded_findings,
    "TR003": clock_findings,
    "TR004": contradiction_findings,
    "TR005": copy_conflict_findings,
}


def detect_group(
    rebalances: Sequence[Rebalance],
    tasks: Sequence[ConnectTask] = (),
    limits: Limits = DEFAULT,
    *,
    seen_until_ms: int | None = None,
) -> list[Finding]:
    """Every finding about one group, by first sight, then by rule.

    `rebalances`: all measured ones of the group, in order; with fewer, findings that began before them get another id.
    `seen_until_ms`: the end of the cluster's evidence. Without it the group's own last event is taken for the end, and
    a group that became quiet never resolves what is open.
    """
    if not rebalances and not tasks:
        return []
    history = History(with_libraries(rebalances), tasks, limits, seen_until_ms)
    found = [finding for rule in GROUP_RULES.values() for finding in rule(history)]
    return sorted(found, key=lambda f: (f.first_seen_at_ms, f.rule_id, f.finding_id))


__all__ = [
    "ASKED_OF_MEMBERS",
    "ASKED_OF_MOVEMENTS",
    "CLOCK_APART_MS",
    "DEFAULT",
    "DEFAULT_OF",
    "GROUP_RULES",
    "REASSIGNMENT_RULES",
    "TABLE_RULES",
    "ClockReading",
    "ClockStep",
    "ContradictionCount",
    "CopyConflict",
    "CoverageGap",
    "Limits",
    "LimitsError",
    "LimitsOf",
    "UndecodedCount",
    "clock_findings",
    "clock_step_findings",
    "contradiction_findings",
    "copy_conflict_findings",
    "coverage_findings",
    "detect_group",
    "detect_reassignments",
    "limits_for",
    "source_of",
    "undecoded_findings",
]
