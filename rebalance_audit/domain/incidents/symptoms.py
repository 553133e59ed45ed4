"""Which trouble a finding is a symptom of, and which findings are a trouble of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rebalance_audit.domain.incidents.model import ClusterRows
from rebalance_audit.domain.incidents.troubles import Trouble
from rebalance_audit.domain.model import Finding
from rebalance_audit.domain.tables import SEVERITIES

SYMPTOMS = frozenset({
    "RB001", "RB002", "RB005", "RB006", "RB007", "RB008", "RB009", "RB011", "RB012", "RB014", "RB016",
    "CN001", "CN002", "CN003", "CN005", "RA001", "RA003", "RA005", "RA006",
})  # fmt: skip
"""Rules about something that happened. The others tell of a state that would be there without it."""

OWN_KINDS = {
    "RB003": "configuration", "RB010": "assignment", "RB011": "stuck", "RB012": "stuck", "RB013": "assignment",
    "RB014": "coordinator", "RB015": "configuration", "RB016": "stuck", "CN003": "connect_worker",
    "CN004": "assignment", "CN006": "configuration", "CN007": "task_failed", "RA001": "reassignment",
    "RA002": "reassignment", "RA004": "reassignment", "RA005": "reassignment", "RA006": "reassignment",
}  # fmt: skip
"""Kind of the incident that a finding is by itself; what is about the evidence itself has the kind `evidence`."""


def attach(rows: ClusterRows, troubles: Sequence[Trouble]) -> list[tuple[str | None, Finding]]:
    """Give every symptom to its trouble. What is left: findings that are incidents of their own."""
    by_ref: dict[tuple[str, str], Trouble] = {}
    of_group: dict[str, list[Trouble]] = defaultdict(list)
    of_partition: dict[str, list[Trouble]] = defaultdict(list)
    for trouble in troubles:
        for episode, step in trouble.steps:
            for cause in step.rebalance.triggers:
                for ref in cause.evidence:
                    by_ref.setdefault((episode.group_id, ref), trouble)
        for group_id in {e.group_id for e in trouble.episodes}:
            of_group[group_id].append(trouble)
        for name in {r.name for r in trouble.reassignments}:
            of_partition[name].append(trouble)
    for trouble in troubles:  # a rebalance also cites the record before it: its causes come first
        for episode, step in trouble.steps:
            for ref in step.rebalance.evidence:
                by_ref.setdefault((episode.group_id, ref), trouble)
    left: list[tuple[str | None, Finding]] = []
    for group_id, finding in rows.findings:
        home: Trouble | None = None
        if finding.rule_id in SYMPTOMS and group_id is not None:
            home = next((t for ref in finding.evidence if (t := by_ref.get((group_id, ref)))), None)
            home = home or _meanwhile(of_group[group_id], finding)
        elif finding.rule_id in SYMPTOMS and finding.subject_type == "partition":
            home = _meanwhile(of_partition[finding.subject], finding)
        if home is not None:
            home.findings.append(finding)
        elif SEVERITIES.index(finding.severity) >= SEVERITIES.index("warning"):
            left.append((group_id, finding))
    return left


def _meanwhile(troubles: Sequence[Trouble], finding: Finding) -> Trouble | None:
    """The latest that had begun when the finding did."""
    begun = [t for t in troubles if begins_ms(t) <= finding.first_seen_at_ms]
    return max(begun, key=begins_ms, default=None)


def begins_ms(trouble: Trouble) -> int:
    starts = [e.first_at_ms for e in trouble.episodes]
    starts += [t for r in trouble.reassignments if (t := r.started_at_ms or r.ended_at_ms) is not None]
    return min(starts, default=0)
