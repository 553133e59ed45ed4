"""The rules about one group, by their ids, in the order of the runbook."""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
from rebalance_audit.domain.detect.modes import eager_although_able, eager_connect, regression
from rebalance_audit.domain.detect.progress import (
    coordinator_trouble,
    join_phase_failed,
    stuck,
    stuck_reconciliation,
    vanished_generations,
)
from rebalance_audit.domain.detect.storm import storm
from rebalance_audit.domain.model import Finding

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


def found_by_rules(history: History) -> list[Finding]:
    return [finding for rule in GROUP_RULES.values() for finding in rule(history)]
