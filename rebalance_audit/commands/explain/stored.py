"""`explain [GROUP] -w W`: from the published tables of a warehouse, which outlive the evidence."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from rebalance_audit.commands.options import CommandError
from rebalance_audit.commands.stored import evidence_ends, group_rows, stored_evidence, stored_rebalances

if TYPE_CHECKING:
    from rebalance_audit.commands.explain.group import GroupAnswer
    from rebalance_audit.commands.explain.places import Shown
    from rebalance_audit.domain.publish.leader_moves import LeaderMove

_GAPS = """
SELECT source, problem_code, problem FROM gold.coverage WHERE cluster_id = ? AND is_gap
ORDER BY source, from_position, problem_code
"""
_FINDINGS = "SELECT * FROM gold.finding WHERE cluster_id = ? AND list_contains(?, finding_id) ORDER BY finding_id"


def stored_answer(location: str, group: str, cluster_id: str | None) -> tuple[GroupAnswer, list[LeaderMove]]:
    """The rows about a group of a warehouse. Raises UsageError and CommandError."""
    from rebalance_audit.commands.explain.group import WITHOUT_LOGS, GroupAnswer
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
    seen = stored_evidence(opened, cluster_id)
    moves = [from_row(LeaderMove, row) for row in group_rows(opened, "gold.leader_move", group, cluster_id)]
    findings = [from_row(Finding, row) for row in rows]
    not_seen = [*([] if seen["log_count"] else [WITHOUT_LOGS]), *_gaps(opened, cluster_id)]
    return GroupAnswer(rebalances, findings, not_seen, seen["from_ms"], seen["to_ms"], incidents), moves


def is_just_in(location: str, group: str, cluster_id: str) -> bool:
    """Whether a `watch` that runs has rebalances of the group that no publication holds as they are now."""
    import time

    from rebalance_audit.live.present import all_kept
    from rebalance_audit.warehouse.warehouse import Warehouse

    now_ms = int(time.time() * 1000)
    rows = [
        row
        for kept in all_kept(Warehouse.open(location))
        if kept.is_fresh(now_ms) and (found := kept.just_in.rows.get("gold.rebalance")) is not None
        for row in found.select(["cluster_id", "group_id"]).to_pylist()
    ]
    return {"cluster_id": cluster_id, "group_id": group} in rows


def explain_stored_groups(location: str, cluster_id: str | None, shown: Shown) -> None:
    """Print the groups of a warehouse that are worth explaining. Raises UsageError, CommandError and WarehouseError."""
    from rebalance_audit.commands.explain.groups import write_groups
    from rebalance_audit.commands.rows import published, refuse_unknown_cluster
    from rebalance_audit.domain import numbers
    from rebalance_audit.domain.explain.standstills import standstill_stories
    from rebalance_audit.domain.incidents import incident_of
    from rebalance_audit.domain.model import MemberStandstill, Rebalance, from_row
    from rebalance_audit.warehouse.warehouse import Warehouse

    opened = published(Warehouse.open(location))
    refuse_unknown_cluster(opened, cluster_id)
    since_ms = None
    if shown.last_ms is not None:
        (end,) = _rows(opened, f"SELECT max({numbers.HAPPENED_AT}) AS ms FROM gold.rebalance", [])
        since_ms = None if end["ms"] is None else end["ms"] - shown.last_ms
    rows = _rows(
        opened,
        f"""
        SELECT cluster_id, group_id, {numbers.COUNT} AS rebalance_count, any_value({numbers.UNIT}) AS unit,
               {numbers.COST} AS cost_seconds,
               {numbers.COST_LOWER} AS cost_lower_seconds, {numbers.COST_UPPER} AS cost_upper_seconds
        FROM gold.rebalance
        WHERE (?::VARCHAR IS NULL OR cluster_id = ?) AND (?::BIGINT IS NULL OR {numbers.HAPPENED_AT} >= ?) GROUP BY ALL
        """,
        [cluster_id, cluster_id, since_ms, since_ms],
    )
    if not rows:
        where = opened.location if cluster_id is None else f"cluster {cluster_id} of {opened.location}"
        when = "" if shown.last_ms is None else " in that time; give a longer --last"
        raise CommandError(
            f"There is no rebalance in {where}{when or '; `rebalance-audit report` says what was seen'}."
        )
    wanted = (
        "SELECT * FROM gold.incident WHERE (?::VARCHAR IS NULL OR cluster_id = ?)"
        " AND (?::BIGINT IS NULL OR last_at_ms >= ?) ORDER BY first_at_ms, incident_id"
    )
    incidents = [incident_of(row) for row in _rows(opened, wanted, [cluster_id, cluster_id, since_ms, since_ms])]
    children: dict[tuple[str, str, str], list[MemberStandstill]] = {}
    still = (
        "SELECT * FROM gold.standstill WHERE (?::VARCHAR IS NULL OR cluster_id = ?)"
        " AND (?::BIGINT IS NULL OR from_ms >= ?)"
    )
    for row in _rows(opened, still, [cluster_id, cluster_id, since_ms, since_ms]):
        key = (row["cluster_id"], row["group_id"], row["rebalance_id"])
        children.setdefault(key, []).append(from_row(MemberStandstill, row))
    stories = standstill_stories(
        Rebalance(cluster_id=cluster, group_id=group, rebalance_id=id_, standstills=tuple(found))
        for (cluster, group, id_), found in sorted(children.items())
    )
    counts = Counter((cluster, group) for (cluster, group, _), found in children.items() for _ in found)
    rows = [{**row, "standstill_count": counts[row["cluster_id"], row["group_id"]]} for row in rows]
    write_groups(rows, incidents, stories, shown, evidence_ends(opened))


def _rows(opened: Any, sql: str, params: list[Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = opened.query(sql, params).to_pylist()
    return found


def _gaps(opened: Any, cluster_id: str) -> list[str]:
    """Gaps of the cluster's sources, as sentences without their full stop."""
    from rebalance_audit.domain.detect.wording import shown

    gaps = opened.query(_GAPS, [cluster_id]).to_pylist()
    said = [f"{shown(gap['source'], 120)}: {shown(gap['problem'] or gap['problem_code'], 300)}" for gap in gaps]
    return list(dict.fromkeys(sentence.rstrip(".") for sentence in said))
