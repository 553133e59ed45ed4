"""Findings are symptoms of a trouble, or a trouble of their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from rebalance_audit.domain.incidents.model import ClusterRows
from rebalance_audit.domain.incidents.troubles import Trouble
from rebalance_audit.domain.model import Finding
from rebalance_audit.domain.tables import SEVERITIES

SYMPTOMS = frozenset({
    "RB001", "RB002", "RB005", "RB006", "RB007", "RB008", "RB009", "RB011", "RB012", "RB014", "RB016",
    "RB018", "RB020", "CN001", "CN002", "CN003", "CN005", "CN008", "RA001", "RA003", "RA005", "RA006",
})  # fmt: skip
"""Rules about something that happened. The others show a state that would be there without it."""

OWN_KINDS = {
    "RB003": "configuration", "RB010": "assignment", "RB011": "stuck", "RB012": "stuck", "RB013": "assignment",
    "RB014": "coordinator", "RB015": "configuration", "RB016": "stuck", "RB017": "configuration",
    "RB018": "member_fault", "RB019": "member_fault", "RB020": "stuck", "CN003": "connect_worker",
    "CN004": "assignment",
    "CN006": "configuration", "CN007": "task_failed", "CN008": "configuration", "RA001": "reassignment",
    "RA002": "reassignment", "RA004": "reassignment", "RA005": "reassignment", "RA006": "reassignment",
}  # fmt: skip
"""Kind of the incident that a finding is by itself; what is about the evidence itself has the kind `evidence`."""


def attach(rows: ClusterRows, troubles: Sequence[Trouble]) -> list[tuple[str | None, Finding]]:
    """Give every symptom to its trouble. What is left: findings that are incidents of their own."""
    homes = _Homes(troubles, {(group_id, ref) for group_id, finding in rows.findings for ref in finding.evidence})
    left: list[tuple[str | None, Finding]] = []
    for group_id, finding in rows.findings:
        home = homes.of(group_id, finding) if finding.rule_id in SYMPTOMS else None
        if home is not None:
            home.findings.append(finding)
        elif SEVERITIES.index(finding.severity) >= SEVERITIES.index("warning"):
            left.append((group_id, finding))
    return left


class _Homes:
    """The troubles that a symptom may belong to."""

    def __init__(self, troubles: Sequence[Trouble], asked: Collection[tuple[str | None, str]]) -> None:
        """`asked`: the refs of findings, each with the finding's group. A long storm has thousands of times as many."""
        self._asked = asked
        self._of_before = {i: t for t in troubles if t.before is not None for i in t.before.finding_ids}
        self._by_ref: dict[tuple[str, str], Trouble] = {}
        self._of_group: dict[str, list[Trouble]] = defaultdict(list)
        self._of_partition: dict[str, list[Trouble]] = defaultdict(list)
        for trouble in troubles:
            for group_id in {e.group_id for e in trouble.episodes}:
                self._of_group[group_id].append(trouble)
            for name in {r.name for r in trouble.reassignments}:
                self._of_partition[name].append(trouble)
            for episode, step in trouble.steps:
                for cause in step.rebalance.triggers:
                    self._cited(episode.group_id, cause.evidence, trouble)
        for trouble in troubles:  # a rebalance may also cite the record before it: causes come first
            for episode, step in trouble.steps:
                self._cited(episode.group_id, step.rebalance.evidence, trouble)

    def of(self, group_id: str | None, finding: Finding) -> Trouble | None:
        if finding.finding_id in self._of_before:
            return self._of_before[finding.finding_id]
        if group_id is None:
            is_about_a_move = finding.subject_type == "partition"
            return _meanwhile(self._of_partition[finding.subject], finding) if is_about_a_move else None
        cited = [t for ref in finding.evidence if (t := self._by_ref.get((group_id, ref))) is not None]
        storm = next((t for t in cited if t.kind == "storm"), None)  # all that its group went through meanwhile
        return storm or next(iter(cited), None) or _meanwhile(self._of_group[group_id], finding)

    def _cited(self, group_id: str, refs: Iterable[str], trouble: Trouble) -> None:
        for ref in refs:
            if (group_id, ref) in self._asked:
                self._by_ref.setdefault((group_id, ref), trouble)


def _meanwhile(troubles: Sequence[Trouble], finding: Finding) -> Trouble | None:
    """The latest that had begun when the finding did."""
    begun = [t for t in troubles if begins_ms(t) <= finding.first_seen_at_ms]
    return max(begun, key=begins_ms, default=None)


def begins_ms(trouble: Trouble) -> int:
    starts = [e.first_at_ms for e in trouble.episodes]
    starts += [trouble.before.first_at_ms] if trouble.before is not None else []
    starts += [t for r in trouble.reassignments if (t := r.started_at_ms or r.ended_at_ms) is not None]
    return min(starts, default=0)
