"""The incidents that gold.incident has now: those that are open, and the begin of those that a moment lies in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from rebalance_audit.domain.incidents.around import MARGIN_MS, begin_of
from rebalance_audit.warehouse.warehouse import Warehouse

_STORED = [
    "cluster_id", "incident_id", "first_at_ms", "last_at_ms", "status", "rebalance_ids", "reassignment_ids",
    "finding_ids", "group_ids",
]  # fmt: skip
MOMENT_OF_CLUSTER = "list_extract(?::BIGINT[], list_position(?::VARCHAR[], cluster_id))"
"""SQL for the moment of the row's cluster, by two parameters (`moment_params`); null for other clusters."""


class KnownIncidents:
    """The present rows of gold.incident that are open or end after some moment."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self.open = self._read("status = 'open'")

    def since(self, from_ms: Mapping[str, int]) -> list[dict[str, Any]]:
        """The open ones of these clusters, and those that end at or after the moment that is given for their cluster:
        one question for all clusters."""
        later = self._read(f"status <> 'open' AND last_at_ms >= {MOMENT_OF_CLUSTER}", *moment_params(from_ms))
        return [row for row in self.open if row["cluster_id"] in from_ms] + later

    def open_since(self, cluster_id: str, at_ms: int) -> int:
        """The begin of the earliest that is open, less the margin; `at_ms` if none is."""
        begins = [
            row["first_at_ms"] - MARGIN_MS
            for row in self.open
            if row["cluster_id"] == cluster_id and (row["rebalance_ids"] or row["reassignment_ids"])
        ]
        return min([at_ms, *begins])

    def open_before(self, cluster_id: str, at_ms: int) -> dict[str, int]:
        """The groups of incidents that are open and began before that, each with the begin of its earliest."""
        found: dict[str, int] = {}
        for row in self.open:
            if row["cluster_id"] == cluster_id and row["rebalance_ids"] and row["first_at_ms"] < at_ms:
                for group_id in row["group_ids"]:
                    found[group_id] = min(found.get(group_id, at_ms), row["first_at_ms"])
        return found

    def reaching_back(self, from_ms: Mapping[str, int]) -> dict[str, int]:
        """For each cluster the begin of the earliest that reaches beyond its moment, or into one that does; else that
        moment."""
        found = dict(from_ms)
        asked = found
        while asked:
            spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
            for row in self.since(asked):
                if row["rebalance_ids"] or row["reassignment_ids"]:
                    spans[row["cluster_id"]].append((row["first_at_ms"], row["last_at_ms"]))
            begins = {cluster_id: begin_of(spans[cluster_id], at_ms) for cluster_id, at_ms in asked.items()}
            asked = {cluster_id: at_ms for cluster_id, at_ms in begins.items() if at_ms != asked[cluster_id]}
            found |= asked
        return found

    def still_shown(self, cluster_id: str) -> list[str]:
        """Findings of open incidents: what is over by now has a last moment long ago."""
        opened = (row for row in self.open if row["cluster_id"] == cluster_id)
        return sorted({finding_id for row in opened for finding_id in row["finding_ids"]})

    def _read(self, where: str, *params: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._warehouse.read("gold.incident", _STORED, where, params).to_pylist()
        return rows


def moment_params(moments: Mapping[str, int]) -> list[list[Any]]:
    """The parameters of MOMENT_OF_CLUSTER for these moments by cluster."""
    return [list(moments.values()), list(moments)]
