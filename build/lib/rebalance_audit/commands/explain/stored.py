"""`explain GROUP -w W`: from the published tables of a warehouse, which outlive the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.stored import group_rows, stored_rebalances

if TYPE_CHECKING:
    from rebalance_audit.commands.explain.group import Answer
    from rebalance_audit.domain.publish.leader_moves import LeaderMove

_SEEN = """
SELECT min(from_at_ms) AS from_ms, max(to_at_ms) AS to_ms, count(*) FILTER (kind = 'log' AND NOT is_gap) AS log_count
FROM gold.coverage WHERE cluster_id = ?
"""
_GAPS = """
SELECT source, problem_code, problem FROM gold.coverage WHERE cluster_id = ? AND is_gap
ORDER BY source, from_position, problem_code
"""
_FINDINGS = "SELECT * FROM gold.finding WHERE cluster_id = ? AND list_contains(?, finding_id) ORDER BY finding_id"


def stored_answer(location: str, group: str, cluster_id: str | None) -> tuple[Answer, list[LeaderMove]]:
    """Raises UsageError and CommandError."""
    from rebalance_audit.commands.explain.group import WITHOUT_LOGS, Answer
    from rebalance_audit.domain.incidents import incident_of
    from rebalance_audit.domain.model import Finding, from_row
    from rebalance_audit.domain.publish.leader_moves import LeaderMove
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = Warehouse.open(location)
    rebalances = stored_rebalances(opened, group, cluster_id)
    cluster_id = rebalances[0].cluster_id
    incidents = [incident_of(row) for row in group_rows(opened, "gold.incident", group, cluster_id)]
    incidents.sort(key=lambda i: (i.first_at_ms, i.incident_id))
    rows = group_rows(opened, "gold.finding", group, cluster_id)
    known = {row["finding_id"] for row in rows}
    others = sorted({id_ for i in incidents for id_ in i.finding_ids} - known)  # of its connectors and tasks
    rows += opened.query(_FINDINGS, [cluster_id, others]).to_pylist()
    (seen,) = opened.query(_SEEN, [cluster_id]).to_pylist()
    moves = [from_row(LeaderMove, row) for row in group_rows(opened, "gold.leader_move", group, cluster_id)]
    findings = [from_row(Finding, row) for row in rows]
    not_seen = [*([] if seen["log_count"] else [WITHOUT_LOGS]), *_gaps(opened, cluster_id)]
    return Answer(rebalances, findings, not_seen, seen["from_ms"], seen["to_ms"], incidents), moves


def _gaps(opened: Any, cluster_id: str) -> list[str]:
    """Gaps of the cluster's sources, as sentences without their full stop."""
    from rebalance_audit.domain.detect.wording import shown

    gaps = opened.query(_GAPS, [cluster_id]).to_pylist()
    said = [f"{shown(gap['source'], 120)}: {shown(gap['problem'] or gap['problem_code'], 300)}" for gap in gaps]
    return list(dict.fromkeys(sentence.rstrip(".") for sentence in said))
