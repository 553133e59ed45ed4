"""What people answered to incidents: read as it is now, and the one thing that the app writes."""

from __future__ import annotations

from typing import Any

from app.queries.tables import Tables
from rebalance_audit.domain.incidents.responses import Response, Standing, Subject, standing
from rebalance_audit.warehouse import responses


class ResponseQuestions(Tables):
    def newest(self) -> tuple[Any, ...]:
        return (*super().newest(), (responses.TABLE, self._warehouse.version(responses.TABLE)))

    def responses(self) -> list[Response]:
        """All there are, by time; not bound to a publication."""
        version = self._warehouse.version(responses.TABLE)
        key = ("responses", version)
        return self.built(key, lambda: responses.responses(self._warehouse))

    def standing(self, incident: Subject, now_ms: int) -> Standing:
        return standing(incident, self.responses(), now_ms)

    def respond(self, response: Response) -> list[Response]:
        """Keeps it; all there are. Raises WarehouseError where the warehouse cannot be written to."""
        return responses.respond(self._warehouse, response)
