"""What other settings would have saved: gold.whatif, which `whatif -w` fills (docs/whatif.md)."""

from __future__ import annotations

from dataclasses import dataclass

from app.queries.tables import AT, Tables, made
from rebalance_audit.domain import tables
from rebalance_audit.domain.model import Rebalance, from_row
from rebalance_audit.domain.replay.beside import Beside, beside
from rebalance_audit.domain.replay.fleet import FLEET_RUNS, LATEST_REBALANCES
from rebalance_audit.domain.replay.requests import RequestError
from rebalance_audit.domain.replay.situation import TooLittle


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
    cost_lower_seconds: float | None
    cost_upper_seconds: float | None
    measured_seconds: float | None
    rebalances: int | None
    rebalances_replayed: int
    from_ms: int | None
    until_ms: int | None
    fit_rebalances: float | None
    fit_causes: float | None
    beyond_pauses_seconds: float | None = None
    runs: int | None = None
    """Replays that each number is of; None in rows of an earlier release, as above."""
    in_force: tuple[str, ...] | None = None
    """What the settings were; None in rows of an earlier release."""
    client_libraries: tuple[str, ...] | None = None
    why: str


class WhatifQuestions(Tables):
    def changes(self, cluster_id: str | None = None, group_id: str | None = None) -> list[Change]:
        """The best change of each group, or all changes kept for one group. The largest saving first."""
        rows = self.rows(
            """
            SELECT * FROM gold.whatif
            WHERE (?::VARCHAR IS NULL OR cluster_id = ?) AND (?::VARCHAR IS NULL AND place = 1 OR group_id = ?)
            ORDER BY saved_seconds DESC NULLS LAST, cluster_id, group_id, place
            """,
            (cluster_id, cluster_id, group_id, group_id),
        )
        return [made(Change, row) for row in rows]

    def is_connect(self, cluster_id: str, group_id: str) -> bool:
        sql = "SELECT protocol_type FROM flat.group WHERE cluster_id = ? AND group_id = ?"
        return any(row["protocol_type"] == "connect" for row in self.rows(sql, (cluster_id, group_id)))

    def beside(self, change: Change) -> Beside | None:
        """The replay that the change's numbers come from, beside the history; None where that is no longer there."""
        return self.built(("beside", change), lambda: self._beside(change))

    def _beside(self, change: Change) -> Beside | None:
        if change.until_ms is None:
            return None
        columns = ", ".join(f'"{column.name}"' for column in tables.SILVER_MEASURED.columns)
        rows = self.rows(
            f"""
            SELECT {columns} FROM silver.measured_rebalance r
            WHERE r.cluster_id = ? AND r.group_id = ? AND ({AT} <= ? OR {AT} IS NULL)
            QUALIFY row_number() OVER (ORDER BY place DESC) <= ? ORDER BY place
            """,
            (change.cluster_id, change.group_id, change.until_ms, LATEST_REBALANCES + 1),
        )
        if not rows:
            return None
        try:
            history = [from_row(Rebalance, row) for row in rows]
            found = beside(history, change.until_ms, change.settings, change.runs or FLEET_RUNS)
        except (TooLittle, RequestError):
            return None
        return found if found.fit.refused is None and found.option.refused is None else None
