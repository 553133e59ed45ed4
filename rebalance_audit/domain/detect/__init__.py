"""Finds what was wrong: pure rules over the measured rebalances of one group, in order.

A rule is a sentence, a function, a table of cases and a heading in docs/runbook.md, or it does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rebalance_audit.domain.detect.assignments import may_be_found_later
from rebalance_audit.domain.detect.eras import JudgedEra, era_of, judged_eras
from rebalance_audit.domain.detect.history import History
from rebalance_audit.domain.detect.limits import DEFAULT, DEFAULT_OF, Limits, LimitsError, LimitsOf, limits_for
from rebalance_audit.domain.detect.reassignments import REASSIGNMENT_RULES, detect_reassignments
from rebalance_audit.domain.detect.rules import GROUP_RULES, found_by_rules
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


def is_in_eras(rebalances: Sequence[Rebalance], tasks: Sequence[ConnectTask]) -> bool:
    """Whether a group with this whole history is judged in eras. Connect groups are not: their tasks' intervals have no
    seams."""
    is_long = bool(rebalances) and era_of(len(rebalances) - 1) > 0
    return is_long and not tasks and all(r.protocol_type != "connect" for r in rebalances)


def detect_group(
    rebalances: Sequence[Rebalance],
    tasks: Sequence[ConnectTask] = (),
    limits: Limits = DEFAULT,
    *,
    seen_until_ms: int | None = None,
) -> list[Finding]:
    """Every finding about one group, by first sight, then by rule.

    `rebalances`: all measured ones of the group, in order; with fewer, findings that began before them get another id.
    Many are judged in eras (`detect.eras`).
    `seen_until_ms`: the end of the cluster's evidence. Without it the group's own last event is taken for the end, and
    a group that became quiet never resolves what is open.
    """
    if not rebalances and not tasks:
        return []
    if is_in_eras(rebalances, tasks):
        eras = judged_eras(rebalances, limits, seen_until_ms=seen_until_ms)
        found = [finding for era in eras for finding in era.findings]
    else:
        history = History(with_libraries(rebalances), tasks, limits, seen_until_ms, as_written=rebalances)
        found = found_by_rules(history)
    return sorted(found, key=lambda f: (f.first_seen_at_ms, f.rule_id, f.finding_id))


def is_calm(rebalances: Sequence[Rebalance], tasks: Sequence[ConnectTask] = (), limits: Limits = DEFAULT) -> bool:
    """Whether time alone begins nothing new in this group: no state lasts in it that is a finding once it has lasted
    for a while. Arguments as for `detect_group`."""
    return not rebalances or not may_be_found_later(History(rebalances, tasks, limits))


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
    "JudgedEra",
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
    "era_of",
    "is_calm",
    "is_in_eras",
    "judged_eras",
    "limits_for",
    "source_of",
    "undecoded_findings",
]
