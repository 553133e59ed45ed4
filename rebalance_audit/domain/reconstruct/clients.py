"""Lines of the clients themselves, where they were collected: the best mark of when a client let go or began."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_audit.domain.model import LogEvent, LogKind

from .commits import Resource

_STOPS = frozenset({LogKind.CLIENT_REVOKED, LogKind.CLIENT_LOST})
_STARTS = frozenset({LogKind.CLIENT_ASSIGNED})


class ClientLines:
    """Revoked, lost and assigned lines by client id, in time order."""

    is_empty: bool

    def __init__(self, lines: Iterable[LogEvent]) -> None:
        self._stops: dict[str, list[LogEvent]] = {}
        self._starts: dict[str, list[LogEvent]] = {}
        told = [x for x in lines if (x.kind in _STOPS or x.kind in _STARTS) and x.at_ms is not None]
        for line in sorted(told, key=lambda x: x.at_ms or 0):
            client_id = line.fields.get("client_id")
            if client_id is not None:
                by_client = self._stops if line.kind in _STOPS else self._starts
                by_client.setdefault(client_id, []).append(line)
        self.is_empty = not self._stops and not self._starts

    def stop(self, client_id: str, resource: Resource, after_ms: int, before_ms: int) -> LogEvent | None:
        """The last line in that time by which the client let go of the partition."""
        return self._find(reversed(self._stops.get(client_id, [])), resource, after_ms, before_ms)

    def start(self, client_id: str, resource: Resource, after_ms: int, before_ms: int) -> LogEvent | None:
        """The first line in that time by which the client was given the partition."""
        return self._find(iter(self._starts.get(client_id, [])), resource, after_ms, before_ms)

    @staticmethod
    def _find(lines: Iterable[LogEvent], resource: Resource, after_ms: int, before_ms: int) -> LogEvent | None:
        name = f"{resource[0]}-{resource[1]}"
        for line in lines:
            if after_ms <= (line.at_ms or 0) <= before_ms and name in line.fields.get("partitions", ()):
                return line
        return None
