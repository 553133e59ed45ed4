"""Reads a period's numbers from the gold tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from rebalance_audit.domain import numbers
from rebalance_audit.domain.incidents.responses import response_of, standing, standing_words
from rebalance_audit.domain.incidents.words import is_old
from rebalance_audit.domain.kinds import FindingStatus, Mode, RebalanceKind
from rebalance_audit.domain.numbers import HAPPENED_AT
from rebalance_audit.domain.publish.verdicts import last_verdicts
from rebalance_audit.domain.reassign.model import Reassignment, reassignment_of
from rebalance_audit.reports.asked import Asked, Queries
from rebalance_audit.reports.costs import COST, REACH, by_group, by_unit, cost_of, with_likely
from rebalance_audit.reports.period import Bucket, CauseRow, GroupRow, RebalanceRow, Report
from rebalance_audit.warehouse.advice import advise

GROUPS_SHOWN = 50
REBALANCES_SHOWN = 25
"""Per group: the costliest and the latest are mostly among the newest; `explain` shows all."""
PAST_FINDINGS_SHOWN = 100
REASSIGNMENTS_SHOWN = 50
GAPS_SHOWN = 50
INCIDENTS_SHOWN = 50
CHANGES_SHOWN = 10
_BUCKET_SIZES_MS = (60_000, 300_000, 900_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000)
_BUCKETS = 96


def read_report(
    warehouse: Queries,
    *,
    group_id: str | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    now_ms: int = 0,
) -> Report:
    """The report of what happened from `from_ms` (included) to `to_ms` (excluded), of one group or all. `now_ms`: the
    clock that silences end by."""
    asked = Asked(warehouse, group_id, from_ms, to_ms)
    total, moved = _total(asked), _reassigned(asked)
    open_findings, past_findings, past_count = _findings(asked)
    bucket_ms, buckets = _buckets(asked, total["from_ms"], total["to_ms"])
    incidents, incident_count, longer_count = _incidents(asked, from_ms, to_ms, now_ms)
    groups = _groups(asked)
    reassignments, reassignment_counts = _reassignments(asked)
    gaps = _gaps(asked)
    return Report(
        from_ms=from_ms if from_ms is not None else _known(min, total["from_ms"], moved["from_ms"]),
        to_ms=to_ms if to_ms is not None else _known(max, total["to_ms"], moved["to_ms"]),
        cluster_ids=_cluster_ids(asked),
        group_count=total["group_count"],
        rebalance_count=total["rebalance_count"],
        expected_count=total["expected_count"],
        cost=with_likely(cost_of(total), by_group(asked)),
        costs=by_unit(asked),
        incidents=incidents,
        incident_count=incident_count,
        longer_incident_count=longer_count,
        open_findings=open_findings,
        past_findings=past_findings,
        past_finding_count=past_count,
        groups=groups,
        rebalances=_rebalances(asked, groups),
        causes=_causes(asked),
        bucket_ms=bucket_ms,
        buckets=buckets,
        reassignments=reassignments,
        reassignment_counts=reassignment_counts,
        changes=tuple(worth_most(warehouse, group_id)),
        gaps=tuple(gaps[:GAPS_SHOWN]),
        gap_count=len(gaps),
        undecoded=_undecoded(asked),
        failed_checks=_failed_checks(asked),
        unknown_cause_count=total["unknown_cause_count"],
        unknown_cost_count=total["unknown_cost_count"],
        incomplete_count=total["incomplete_count"],
    )


def _total(asked: Asked) -> dict[str, Any]:
    return asked.rows(
        f"SELECT min({HAPPENED_AT}) AS from_ms, max({HAPPENED_AT}) AS to_ms, "
        "count(DISTINCT (cluster_id, group_id)) AS group_count, "
        f"{numbers.COUNT} AS rebalance_count, {numbers.EXPECTED_COUNT} AS expected_count, "
        "count(*) FILTER (trigger = 'unknown' AND outcome NOT IN ('missing', 'emptied')) AS unknown_cause_count, "
        f"{numbers.UNKNOWN_COST_COUNT} AS unknown_cost_count, "
        f"count(*) FILTER (NOT is_complete_evidence) AS incomplete_count, {COST} FROM gold.rebalance WHERE "
        "{rebalances}"
    )[0]


def _reassigned(asked: Asked) -> dict[str, Any]:
    """From when to when there were reassignments."""
    return asked.rows(
        "SELECT min(started_at_ms) AS from_ms, max(coalesce(ended_at_ms, started_at_ms)) AS to_ms "
        "FROM gold.reassignment WHERE {reassignments}"
    )[0]


def _cluster_ids(asked: Asked) -> tuple[str, ...]:
    rows = asked.rows(
        "SELECT cluster_id FROM gold.rebalance WHERE {rebalances} "
        "UNION SELECT cluster_id FROM gold.reassignment WHERE {reassignments} ORDER BY 1"
    )
    return tuple(row["cluster_id"] for row in rows)


def _gaps(asked: Asked) -> list[dict[str, Any]]:
    return asked.rows(
        "SELECT cluster_id, source, problem_code, problem, from_position, to_position, from_at_ms, to_at_ms "
        "FROM gold.coverage WHERE is_gap AND problem_code <> 'none' ORDER BY cluster_id, source, from_position"
    )


def _undecoded(asked: Asked) -> tuple[dict[str, Any], ...]:
    return tuple(
        asked.rows(
            "SELECT cluster_id, reason, count(*) AS count, min(ref) AS example FROM silver.undecoded "
            "GROUP BY ALL ORDER BY count DESC, reason, cluster_id"
        )
    )


def _failed_checks(asked: Asked) -> tuple[dict[str, Any], ...]:
    verdicts = last_verdicts(asked.rows("SELECT * FROM gold.check"))
    return tuple(dict(row) for row in verdicts if not row["success"])


def worth_most(warehouse: Queries, group_id: str | None = None) -> list[dict[str, Any]]:
    """Rows of gold.whatif: the best change of each group, the largest saving first. Only savings that are larger than
    the spread of their own replays."""
    rows: list[dict[str, Any]] = warehouse.query(
        "SELECT * FROM gold.whatif WHERE place = 1 AND saved_lower_seconds > 0 "
        "AND (?::VARCHAR IS NULL OR group_id = ?) ORDER BY saved_seconds DESC, cluster_id, group_id LIMIT ?",
        [group_id, group_id, CHANGES_SHOWN],
    ).to_pylist()
    return rows


def _incidents(
    asked: Asked, from_ms: int | None, to_ms: int | None, now_ms: int
) -> tuple[tuple[dict[str, Any], ...], int, int]:
    """Those to show, the number of all, and of those with a cost that began before the period or ended after it."""
    rows = asked.rows(
        "SELECT cluster_id, incident_id, kind, root_cause, culprits, group_ids, first_at_ms, last_at_ms, status, "
        "still, expected, severity, unit, cost_seconds, cost_lower_seconds, cost_upper_seconds, "
        "cost_likely_lower_seconds, cost_likely_upper_seconds, title, story, advice, "
        "len(rebalance_ids) AS rebalance_count, evidence_ended_at_ms FROM gold.incident LEFT JOIN (SELECT cluster_id, "
        "max(to_at_ms) AS evidence_ended_at_ms FROM gold.coverage GROUP BY 1) USING (cluster_id) WHERE {incidents} "
        "ORDER BY expected, status <> 'open', CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, "
        "cost_seconds DESC NULLS LAST, "
        "first_at_ms, incident_id"
    )
    answers = [response_of(row) for row in asked.rows("SELECT * FROM gold.response")]
    found = rows[:INCIDENTS_SHOWN]
    advise(found, asked.rows)
    for row in found:
        ended_ms = row.pop("evidence_ended_at_ms")
        is_unknown = row["status"] == "open" and ended_ms is not None and is_old(ended_ms, now_ms)
        row["unknown_since_ms"] = ended_ms if is_unknown else None
        row["answers"] = list(standing_words(standing(SimpleNamespace(**row), answers, now_ms)))
    longer_count = sum(
        (row["cost_seconds"] or 0) > 0
        and (
            (from_ms is not None and row["first_at_ms"] < from_ms) or (to_ms is not None and row["last_at_ms"] >= to_ms)
        )
        for row in rows
    )
    return tuple(found), len(rows), longer_count


def _findings(asked: Asked) -> tuple[tuple[dict[str, Any], ...], tuple[dict[str, Any], ...], int]:
    columns = (
        "cluster_id, finding_id, rule_id, severity, subject_type, subject, status, first_seen_at_ms, last_seen_at_ms, "
        "title, detail, numbers, advice, evidence"
    )
    rank = "CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END"
    rows = asked.rows(
        f"SELECT {columns} FROM gold.finding WHERE {{findings}} ORDER BY {rank}, last_seen_at_ms DESC, finding_id"
    )
    advise(rows, asked.rows)
    opened = [row for row in rows if row["status"] == FindingStatus.OPEN]
    past = [row for row in rows if row["status"] != FindingStatus.OPEN]
    return tuple(opened), tuple(past[:PAST_FINDINGS_SHOWN]), len(past)


def _groups(asked: Asked) -> tuple[GroupRow, ...]:
    rows = asked.rows(
        f"WITH r AS (SELECT r.*, {numbers.CAUSE} AS cause FROM gold.rebalance r LEFT JOIN {numbers.booked()} b "
        "USING (cluster_id, rebalance_id) WHERE {rebalances}), "
        "counted AS (SELECT cluster_id, group_id, max(group_type) AS group_type, max(protocol_type) AS protocol_type, "
        f"max({numbers.UNIT}) AS unit, "
        f"{numbers.COUNT} AS rebalance_count, {numbers.EXPECTED_COUNT} AS expected_count, "
        "count(*) FILTER (kind = 'static_rewrite') AS static_return_count, max(pause_estimate_ms) AS worst_pause_ms, "
        "max(broker_window_ms) AS longest_window_ms, "
        f"{COST}, {REACH} FROM r GROUP BY cluster_id, group_id), "
        f"causes AS (SELECT cluster_id, group_id, cause, {numbers.COUNT} AS n, {numbers.COST} AS cost FROM r "
        f"GROUP BY ALL HAVING {numbers.COUNT} > 0), "
        "top AS (SELECT cluster_id, group_id, arg_max(cause, (coalesce(cost, -1), n, cause)) AS top_trigger "
        "FROM causes GROUP BY ALL), "
        "opened AS (SELECT cluster_id, subject, count(*) AS open_finding_count FROM gold.finding "
        "WHERE status = 'open' AND subject_type = 'group' GROUP BY ALL) "
        "SELECT c.*, coalesce(o.open_finding_count, 0) AS open_finding_count, g.mode, g.assignor, g.state, "
        "g.member_count, g.standstill_seconds_estimate, t.top_trigger "
        "FROM counted c LEFT JOIN gold.group g USING (cluster_id, group_id) "
        "LEFT JOIN top t USING (cluster_id, group_id) "
        "LEFT JOIN opened o ON o.cluster_id = c.cluster_id AND o.subject = c.group_id "
        "ORDER BY c.estimate DESC NULLS LAST, c.rebalance_count DESC, c.cluster_id, c.group_id "
        f"LIMIT {GROUPS_SHOWN}"
    )
    return tuple(
        GroupRow(
            cost=with_likely(cost_of(row), [row]),
            mode=row["mode"] or Mode.UNKNOWN,
            state=row["state"] or "not known",
            **{
                name: row[name]
                for name in (
                    "cluster_id", "group_id", "group_type", "protocol_type", "assignor", "member_count", "unit",
                    "rebalance_count",
                    "expected_count", "static_return_count", "worst_pause_ms", "longest_window_ms", "top_trigger",
                    "open_finding_count", "standstill_seconds_estimate",
                )
            },
        )
        for row in rows
    )  # fmt: skip


def _rebalances(asked: Asked, groups: Sequence[GroupRow]) -> tuple[RebalanceRow, ...]:
    """The newest of each group that is shown."""
    rows = asked.rows(
        f"SELECT *, {HAPPENED_AT} AS at_ms, resource_seconds_lower AS lower, "
        "resource_seconds_estimate AS estimate, "
        "resource_seconds_upper AS upper, resource_seconds_likely_lower AS likely_lower, "
        "resource_seconds_likely_upper AS likely_upper FROM gold.rebalance WHERE {rebalances} AND outcome <> 'missing' "
        f"QUALIFY row_number() OVER (PARTITION BY cluster_id, group_id ORDER BY at_ms DESC NULLS LAST, "
        f"coalesce(generation_id, group_epoch) DESC, rewrite_seq DESC) <= {REBALANCES_SHOWN} "
        "ORDER BY cluster_id, group_id, at_ms DESC NULLS LAST, coalesce(generation_id, group_epoch) DESC, rewrite_seq "
        "DESC"
    )
    wanted = {(g.cluster_id, g.group_id) for g in groups}
    return tuple(
        RebalanceRow(
            number=_number(row),
            cost=cost_of(row),
            evidence=tuple(row["evidence"] or ())[:3],
            **{
                name: row[name]
                for name in (
                    "cluster_id", "group_id", "rebalance_id", "at_ms", "outcome", "trigger", "trigger_tier",
                    "trigger_detail", "expected", "moved_count", "pause_lower_ms", "pause_estimate_ms",
                    "pause_upper_ms", "pause_likely_lower_ms", "pause_likely_upper_ms",
                    "broker_window_ms", "is_complete_evidence",
                )
            },
        )
        for row in rows
        if (row["cluster_id"], row["group_id"]) in wanted
    )  # fmt: skip


def _causes(asked: Asked) -> tuple[CauseRow, ...]:
    rows = asked.rows(
        # A static member's return is no rebalance and has a cost all the same: the causes add up to the headline.
        f"SELECT {numbers.CAUSE} AS trigger, {numbers.COUNT} AS rebalance_count, "
        f"{numbers.EXPECTED_COUNT} AS expected_count, {COST} "
        f"FROM gold.rebalance r LEFT JOIN {numbers.booked()} b USING (cluster_id, rebalance_id) "
        f"WHERE {{rebalances}} AND outcome <> 'missing' GROUP BY {numbers.CAUSE} ORDER BY rebalance_count DESC, 1"
    )
    of_groups = by_group(asked)
    return tuple(
        CauseRow(
            trigger=row["trigger"],
            rebalance_count=row["rebalance_count"],
            expected_count=row["expected_count"],
            cost=with_likely(cost_of(row), [g for g in of_groups if g["trigger"] == row["trigger"]]),
        )
        for row in rows
    )


def _reassignments(asked: Asked) -> tuple[tuple[Reassignment, ...], dict[str, int]]:
    outcome = "CASE WHEN stalled_since_ms IS NOT NULL THEN 'stalled' ELSE outcome END"
    counted = asked.rows(
        f"SELECT {outcome} AS outcome, count(*) AS count FROM gold.reassignment WHERE {{reassignments}} GROUP BY 1 "
        "ORDER BY count DESC, outcome"
    )
    rows = asked.rows(
        "SELECT * FROM gold.reassignment WHERE {reassignments} "
        "ORDER BY stalled_since_ms NULLS LAST, outcome <> 'open', "
        "ended_at_ms - started_at_ms DESC NULLS LAST, started_at_ms, cluster_id, topic, partition "
        f"LIMIT {REASSIGNMENTS_SHOWN}"
    )
    return tuple(map(reassignment_of, rows)), {row["outcome"]: row["count"] for row in counted}


def _buckets(asked: Asked, from_ms: int | None, to_ms: int | None) -> tuple[int, tuple[Bucket, ...]]:
    if from_ms is None or to_ms is None:
        return _BUCKET_SIZES_MS[0], ()
    size = next((s for s in _BUCKET_SIZES_MS if (to_ms - from_ms) // s < _BUCKETS), _BUCKET_SIZES_MS[-1])
    rows = asked.rows(
        f"SELECT ({HAPPENED_AT} // {size}) * {size} AS from_ms, count(*) AS rebalance_count, "
        f"count(*) FILTER (expected) AS expected_count FROM gold.rebalance WHERE {{rebalances}} "
        f"AND {numbers.IS_COUNTED} AND {HAPPENED_AT} IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    return size, tuple(Bucket(**row) for row in rows)


def _known(pick: Callable[[list[int]], int], *instants: int | None) -> int | None:
    known = [instant for instant in instants if instant is not None]
    return pick(known) if known else None


def _number(row: Mapping[str, Any]) -> str:
    if row["generation_id"] is not None:
        again = f" again ({row['rewrite_seq']})" if row["kind"] == RebalanceKind.STATIC_REWRITE else ""
        return f"generation {row['generation_id']}{again}"
    return "number not known" if row["group_epoch"] is None else f"epoch {row['group_epoch']}"
