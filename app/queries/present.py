"""What `watch` says of this very moment: read again at each look, not bound to a publication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.queries.incidents import IncidentQuestions
from rebalance_audit.live.present import FRESH_MS, JustIn, Present, kept


class PresentQuestions(IncidentQuestions):
    def present(self, cluster_ids: Sequence[str], now_ms: int) -> list[Present]:
        """The note of each cluster that has one: without incidents that the tables hold by now, and without the notes
        of a `watch` that stopped."""
        found = []
        for cluster_id in cluster_ids:
            note = kept(self._warehouse, cluster_id)
            if note is not None and now_ms - note.written_at_ms <= FRESH_MS:
                new = tuple(i for i in note.just_in if not self._is_held(cluster_id, i))
                found.append(self._narrowed(replace(note, just_in=new)))
        return [note for note in found if note.running or note.just_in]

    def _narrowed(self, note: Present) -> Present:
        """The note, reduced to groups that may be seen. An incident that no table holds yet names its groups nowhere,
        so it waits."""
        if self.sight is None:
            return note
        theirs = set(self.sight.of((r.cluster_id, r.group_id) for r in note.running))
        running = tuple(r for r in note.running if (r.cluster_id, r.group_id) in theirs)
        return replace(note, running=running, running_count=len(running), just_in=())

    def _is_held(self, cluster_id: str, incident: JustIn) -> bool:
        held = self.incident(cluster_id, incident.incident_id)
        return held is not None and (held.status, held.severity) == (incident.status, incident.severity)
