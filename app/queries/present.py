"""What `watch` says of this very moment: read again at each look, not bound to a publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow.compute as pc

from app.queries.tables import Tables
from rebalance_audit.live.present import Present, all_kept
from rebalance_audit.warehouse.just_in import NOTHING, JustInRows, together


class PresentQuestions(Tables):
    _present: Sequence[Present] = ()
    """The notes that were fresh at the last look."""

    def _just_in_at(self, now_ms: int) -> JustInRows:
        self._present = [note for note in all_kept(self._warehouse) if note.is_fresh(now_ms)]
        return together(note.just_in for note in self._present)

    def present(self, cluster_ids: Sequence[str]) -> list[Present]:
        """The notes of these clusters that say that something goes on, or was left out of what is just in."""
        found = [self._narrowed(note) for note in self._present if note.cluster_id in cluster_ids]
        return [note for note in found if note.running or note.just_in.left_out]

    def _narrowed(self, note: Present) -> Present:
        """The note, reduced to groups that may be seen. Rows that are just in are narrowed as those of tables are."""
        if self.sight is None:
            return note
        theirs = set(self.sight.of((r.cluster_id, r.group_id) for r in note.running))
        running = tuple(r for r in note.running if (r.cluster_id, r.group_id) in theirs)
        return replace(note, running=running, running_count=len(running), just_in=NOTHING)

    def just_in_of(self, cluster_id: str, group_id: str) -> list[dict[str, Any]]:
        """The group's rebalances that no publication holds as they are now."""
        rows = self.just_in.rows.get("gold.rebalance")
        found = [] if rows is None else rows.to_pylist()
        return [row for row in found if (row["cluster_id"], row["group_id"]) == (cluster_id, group_id)]

    def just_in_row(self, cluster_id: str, incident_or_rebalance_id: str) -> list[dict[str, Any]]:
        """The incident or rebalance as it is now, where no publication holds it so."""
        found = []
        for name, key in (("gold.incident", "incident_id"), ("gold.rebalance", "rebalance_id")):
            if (rows := self.just_in.rows.get(name)) is not None:
                wanted = (pc.field("cluster_id") == cluster_id) & (pc.field(key) == incident_or_rebalance_id)
                found += rows.filter(wanted).to_pylist()
        return found

    def is_just_in(self, cluster_id: str, incident_or_rebalance_id: str) -> bool:
        """Whether no publication holds this one as it is now."""
        return (cluster_id, incident_or_rebalance_id) in self.built(
            ("just in",), lambda: self.just_in.ids("gold.incident") | self.just_in.ids("gold.rebalance")
        )  # fmt: skip
