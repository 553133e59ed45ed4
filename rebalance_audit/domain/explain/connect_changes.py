"""Says what one team's change of a connector did to the connectors of the others on the same Connect cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rebalance_audit.domain.causes import MEMBERSHIP, Cause
from rebalance_audit.domain.kinds import STOOD_STILL, Outcome
from rebalance_audit.domain.model import Movement, Rebalance

_WORKERS_CHANGED = MEMBERSHIP | {Cause.CONNECT_DELAY_EXPIRED}
SAME_CHANGE_MS = 5_000
"""From the generation that knows of a connector to the one that knows its tasks: as long as taskConfigs() takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """One connector's share in a change."""

    connector: str
    resources: tuple[str, ...]
    """Its connector and tasks that stood still, by name."""
    longest_ms: int | None
    """None: not known."""
    seconds: float
    """Sum of what is known over its resources; an overlap counts 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorChange:
    """A rebalance that a change of connectors began, with the rounds that followed from it."""

    connectors: tuple[str, ...]
    """The connectors that were changed. More than one where changes came together."""
    generation_id: int | None
    at_ms: int | None
    rebalance_ids: tuple[str, ...]
    own: tuple[Touched, ...]
    others: tuple[Touched, ...]
    """Connectors nobody changed, whose work stood still all the same; the longest first."""
    is_mixed: bool
    """A worker came or went as well: not all of it is the change's doing."""

    @property
    def others_count(self) -> int:
        return sum(len(t.resources) for t in self.others)

    @property
    def others_seconds(self) -> float:
        return sum(t.seconds for t in self.others)

    @property
    def others_longest_ms(self) -> int | None:
        return max((t.longest_ms for t in self.others if t.longest_ms is not None), default=None)


def connector_changes(rebalances: Sequence[Rebalance]) -> tuple[ConnectorChange, ...]:
    """The changes of connectors, in their order. `rebalances`: those of one Connect group, measured, in order."""
    settled = [
        r for r in rebalances if r.protocol_type == "connect" and r.outcome in (Outcome.COMPLETED, Outcome.EMPTIED)
    ]
    found: list[ConnectorChange] = []
    place = 0
    while place < len(settled):
        rebalance = settled[place]
        if rebalance.trigger == Cause.CONNECT_CONFIG_CHANGED and rebalance.changed_connectors:
            chain = _rounds_of(settled, place)
            found.append(_change(rebalance.changed_connectors, chain))
            place += len(chain)
        else:
            place += 1
    return tuple(found)


def _rounds_of(settled: Sequence[Rebalance], place: int) -> list[Rebalance]:
    """A new connector costs two generations, one for itself and one for its tasks: both are one change."""
    chain = [settled[place]]
    for later in settled[place + 1 :]:
        is_same = (
            later.changed_connectors == chain[0].changed_connectors and later.trigger == Cause.CONNECT_CONFIG_CHANGED
        )
        is_soon = (_began_ms(later) or 0) - (chain[-1].assigned_at_ms or 0) <= SAME_CHANGE_MS
        if later.trigger != Cause.CONNECT_REVOCATION_FOLLOW_UP and not (is_same and is_soon):
            break
        chain.append(later)
    return chain


def followed_by(settled: Sequence[Rebalance], place: int) -> list[Rebalance]:
    """The rounds that hand on what was revoked in the one at `place`, and in those after it."""
    found: list[Rebalance] = []
    for rebalance in settled[place + 1 :]:
        if rebalance.trigger != Cause.CONNECT_REVOCATION_FOLLOW_UP:
            break
        found.append(rebalance)
    return found


def _change(connectors: tuple[str, ...], chain: Sequence[Rebalance]) -> ConnectorChange:
    first = chain[0]
    stopped = [m for r in chain for m in r.movements if m.kind in STOOD_STILL and m.connector is not None]
    return ConnectorChange(
        connectors=connectors,
        generation_id=first.generation_id,
        at_ms=_began_ms(first),
        rebalance_ids=tuple(r.rebalance_id for r in chain),
        own=_touched(m for m in stopped if m.connector in connectors),
        others=_touched(m for m in stopped if m.connector not in connectors),
        is_mixed=any(t.trigger in _WORKERS_CHANGED for r in chain for t in r.triggers),
    )


def _began_ms(rebalance: Rebalance) -> int | None:
    times = (rebalance.started_at_ms, rebalance.joined_at_ms, rebalance.assigned_at_ms)
    return next((t for t in times if t is not None), None)


def _touched(movements: Iterable[Movement]) -> tuple[Touched, ...]:
    by_connector: dict[str, list[Movement]] = {}
    for movement in movements:
        by_connector.setdefault(movement.connector or "", []).append(movement)
    found = [
        Touched(
            connector=connector,
            resources=tuple(sorted({m.resource for m in own})),
            longest_ms=max((m.pause_estimate_ms for m in own if m.pause_estimate_ms is not None), default=None),
            seconds=sum(max(m.pause_estimate_ms or 0, 0) for m in own) / 1000,
        )
        for connector, own in by_connector.items()
    ]
    return tuple(sorted(found, key=lambda t: (-(t.longest_ms or 0), t.connector)))
