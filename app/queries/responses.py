"""What people answered to incidents: read as it is now, and the one thing that the app writes."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from app.answers.rows import AlertNote
from app.queries.tables import Tables
from rebalance_audit.alerts.state import sent_about, state_of
from rebalance_audit.alerts.target import AlertError
from rebalance_audit.domain.incidents.responses import Response, ResponseRefused, Standing, Subject, standing
from rebalance_audit.warehouse import responses
from rebalance_audit.warehouse.storage import WarehouseError


class ResponseQuestions(Tables):
    def newest(self) -> tuple[Any, ...]:
        return (*super().newest(), (responses.TABLE, self._warehouse.version(responses.TABLE)))

    def responses(self) -> list[Response]:
        """All responses, by time, as they are now: they do not wait for a publication."""
        version = self._warehouse.version(responses.TABLE)
        key = ("responses", version)
        return self.built(key, lambda: self._seen(responses.responses(self._warehouse)))

    def _seen(self, given: list[Response]) -> list[Response]:
        """Answers to incidents, and silences of groups, that may be seen."""
        if self.sight is None:
            return given
        incidents = self._incidents_seen()
        groups = {
            (row["cluster_id"], row["group_id"]) for row in self.rows("SELECT cluster_id, group_id FROM flat.group")
        }
        ids = {incident_id for _, incident_id in incidents}

        def is_seen(each: Response) -> bool:
            if each.incident_id is not None:
                return (each.cluster_id, each.incident_id) in incidents
            pattern = each.pattern or ""
            return pattern in ids or any(
                fnmatchcase(group, pattern) for cluster, group in groups if each.cluster_id in (None, cluster)
            )

        return [each for each in given if is_seen(each)]

    def _incidents_seen(self) -> set[tuple[str, str]]:
        rows = self.rows("SELECT cluster_id, incident_id FROM gold.incident")
        return {(row["cluster_id"], row["incident_id"]) for row in rows}

    def alerts_about(self, incident_id: str) -> list[AlertNote] | None:
        """The alerts that were sent about this incident, by time; None if that cannot be read."""
        try:
            notes = sent_about(state_of(self.location), incident_id)
            return [AlertNote(**note) for note in notes]
        except (AlertError, WarehouseError, TypeError, KeyError, ValueError):
            return None

    def standing(self, incident: Subject, now_ms: int) -> Standing:
        return standing(incident, self.responses(), now_ms)

    def respond(self, response: Response) -> list[Response]:
        """Keeps it; all there are. Raises WarehouseError where the warehouse cannot be written to, and ResponseRefused
        where this reader may not answer, or not about that."""
        if not self.may_answer:
            raise ResponseRefused("An auditor sees everything and changes nothing; ask somebody of the team.")
        about = (response.cluster_id or "", response.incident_id or response.pattern or "")
        if self.sight is not None and about not in self._incidents_seen():
            raise ResponseRefused("That concerns more than your team's groups; `rebalance-audit silence` can do it.")
        return self._seen(responses.respond(self._warehouse, response))
