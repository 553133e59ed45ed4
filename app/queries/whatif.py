"""What other settings would have saved: gold.whatif, which `whatif -w` fills (docs/whatif.md)."""

from __future__ import annotations

from dataclasses import dataclass

from app.queries.tables import Tables, made


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One set of settings for one group; numbers are None where nothing is predicted. Seconds of standing still."""

    cluster_id: str
    group_id: str
    place: int
    settings: tuple[str, ...]
    saved_seconds: float | None
    saved_lower_seconds: float | None
    saved_upper_seconds: float | None
    cost_seconds: float | None
    measured_seconds: float | None
    rebalances: int | None
    rebalances_replayed: int
    from_ms: int | None
    until_ms: int | None
    fit_rebalances: float | None
    fit_causes: float | None
    why: str


class WhatifQuestions(Tables):
    def changes(self, cluster_id: str | None = None, group_id: str | None = None) -> list[Change]:
        """Of each group its best change; of one group all that were kept. The largest saving first."""
        rows = self.rows(
            """
            SELECT * FROM gold.whatif
            WHERE (?::VARCHAR IS NULL OR cluster_id = ?) AND (?::VARCHAR IS NULL AND place = 1 OR group_id = ?)
            ORDER BY saved_seconds DESC NULLS LAST, cluster_id, group_id, place
            """,
            (cluster_id, cluster_id, group_id, group_id),
        )
        return [made(Change, row) for row in rows]
