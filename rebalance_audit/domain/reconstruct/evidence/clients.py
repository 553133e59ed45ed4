"""Lines of the clients' own logs, where they were collected: the best evidence of when a client let go or began."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

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
        ends = [x for x in lines if (x.kind in _STOPS or x.kind in _STARTS) and x.at_ms is not None]
        for line in sorted(ends, key=_at_ms):
            client_id = line.fields.get("client_id")
            if client_id is not None:
                by_client = self._stops if line.kind in _STOPS else self._starts
                by_client.setdefault(client_id, []).append(line)
        self.is_empty = not self._stops and not self._starts

    def stop(self, client_id: str, resource: Resource, after_ms: int, before_ms: int) -> LogEvent | None:
        """The last line in that time by which the client let go of the partition."""
        lines = _within(self._stops.get(client_id, []), after_ms, before_ms)
        return _naming(reversed(lines), resource)

    def start(self, client_id: str, resource: Resource, after_ms: int, before_ms: int) -> LogEvent | None:
        """The first line in that time by which the client was given the partition."""
        return _naming(_within(self._starts.get(client_id, []), after_ms, before_ms), resource)


def _at_ms(line: LogEvent) -> int:
    return line.at_ms or 0


def _within(lines: Sequence[LogEvent], after_ms: int, before_ms: int) -> Sequence[LogEvent]:
    return lines[bisect_left(lines, after_ms, key=_at_ms) : bisect_right(lines, before_ms, key=_at_ms)]


def _naming(lines: Iterable[LogEvent], resource: Resource) -> LogEvent | None:
    name = f"{resource[0]}-{resource[1]}"
    return next((line for line in lines if name in line.fields.get("partitions", ())), None)
