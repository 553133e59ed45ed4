"""Findings."""

from __future__ import annotations

from collections.abc import Sequence

from app.answers.rows import FindingFilter, FindingRow, FindingSums
from app.queries.tables import Tables, finding_of, made

MOST_SUBJECTS = 1_000
"""To choose from."""
MOST_ON_A_PAGE = 20
_TEAMS = "(SELECT cluster_id, group_id, any_value(team) AS team FROM flat.group WHERE team IS NOT NULL GROUP BY ALL) g"
"""Most fleets have none: then there is nothing to join."""
_WITH_TEAM = f"gold.finding f LEFT JOIN {_TEAMS} ON g.cluster_id = f.cluster_id AND g.group_id = f.group_id"
_ORDER = (
    "f.status, CASE f.severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END, "
    "f.last_seen_at_ms DESC, f.finding_id"
)


class FindingQuestions(Tables):
    def findings(self, asked: FindingFilter, *, most: int | None = None, after: int = 0) -> list[FindingRow]:
        """Open before resolved, worst first, newest first; `most` of them after so many."""
        where, params = _condition(asked)
        limit = "" if most is None else f" LIMIT {most:d} OFFSET {after:d}"
        chosen = f"SELECT f.* FROM {_source(asked)} WHERE {where} ORDER BY {_ORDER}{limit}"
        rows = self.advised(
            f"SELECT f.*, g.team FROM {_WITH_TEAM.replace('gold.finding', f'({chosen})')} ORDER BY {_ORDER}", params
        )
        return [finding_of(row) for row in rows]

    def finding_count(self, asked: FindingFilter) -> int:
        where, params = _condition(asked)
        found: int = self.rows(f"SELECT count(*) AS n FROM {_source(asked)} WHERE {where}", params)[0]["n"]
        return found

    def finding_sums(self, asked: FindingFilter) -> FindingSums:
        where, params = _condition(asked)
        row = self.rows(
            f"""
            WITH f AS (SELECT f.status, f.rule_id, f.subject, f.cluster_id, g.team FROM {_WITH_TEAM} WHERE {where})
            SELECT count(*) FILTER (status = 'open') AS open_count, count(*) AS all_count,
                   list_sort(list(DISTINCT rule_id)) AS rule_ids, list_sort(list(DISTINCT cluster_id)) AS cluster_ids,
                   list_sort(list(DISTINCT team) FILTER (team IS NOT NULL)) AS teams,
                   (SELECT list(subject ORDER BY subject) FROM (
                      SELECT DISTINCT subject FROM f ORDER BY subject LIMIT {MOST_SUBJECTS})) AS subjects
            FROM f
            """,
            params,
        )[0]
        return made(FindingSums, row)

    def doubts(self) -> tuple[int, str | None]:
        """How many open findings limit what is known (rules TR…), and the title of the first."""
        rows = self.rows(
            "SELECT f.title, count(*) OVER () AS n FROM gold.finding f WHERE f.status = 'open'"
            f" AND starts_with(f.rule_id, 'TR') ORDER BY {_ORDER} LIMIT 1"
        )
        return (rows[0]["n"], rows[0]["title"]) if rows else (0, None)

    def findings_by_id(self, cluster_id: str, finding_ids: Sequence[str]) -> list[FindingRow]:
        """In this order, as far as they are there."""
        asked = "SELECT * FROM gold.finding WHERE cluster_id = ? AND list_contains(?::VARCHAR[], finding_id)"
        rows = self.advised(asked, (cluster_id, list(finding_ids)))
        by_id = {f.finding_id: f for f in map(finding_of, rows)}
        return [by_id[f] for f in finding_ids if f in by_id]

    def finding(self, cluster_id: str, finding_id: str) -> FindingRow | None:
        rows = self.advised(
            "SELECT * FROM gold.finding WHERE cluster_id = ? AND finding_id = ?", (cluster_id, finding_id)
        )
        return finding_of(rows[0]) if rows else None


def _source(asked: FindingFilter) -> str:
    return "gold.finding f" if asked.team is None else _WITH_TEAM


def _condition(asked: FindingFilter) -> tuple[str, tuple[str | int, ...]]:
    """As SQL, with its parameters."""
    columns = {
        "f.status": asked.status,
        "f.severity": asked.severity,
        "f.rule_id": asked.rule_id,
        "f.subject": asked.subject,
        "f.cluster_id": asked.cluster_id,
        "f.group_id": asked.group_id,
        "g.team": asked.team,
    }
    parts = [f"{column} = ?" for column, value in columns.items() if value is not None]
    params: list[str | int] = [value for value in columns.values() if value is not None]
    if asked.span is not None:
        parts.append("f.first_seen_at_ms <= ? AND (f.status = 'open' OR f.last_seen_at_ms >= ?)")
        params += [asked.span.to_ms, asked.span.from_ms]
    return " AND ".join(parts) or "TRUE", tuple(params)
