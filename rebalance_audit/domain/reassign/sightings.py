"""Puts what single lines of KRaft's logs say of a partition together into its states.

Every controller and every broker prints the same change, each in part, and again when it restarts. What they share is
the partition epoch; the first line of an epoch is nearest to when it was written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rebalance_audit.domain.log_lines import ControllerKind as K
from rebalance_audit.domain.reassign.lines import PARTITION_SEEN, PartitionLine
from rebalance_audit.domain.reassign.model import PartitionState

T = TypeVar("T")
_NOT_SHOWN = -2
_SAME_CHANGE_MS = 2_000
"""Brokers print a change some ms after the controller, under load some hundred: within this time it is the same
(docs/measured.md#reassignments)."""
_DELETED_MS = 30_000
"""A broker gives up a replica within this time after the change that took it away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """The state of a partition as one line shows it; None: the line does not show the field."""

    at_ms: int
    ref: str
    epoch: int | None = None
    """Partition epoch; assignment lines before 4.3 do not show it."""
    replicas: tuple[int, ...] | None = None
    isr: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    leader: int = _NOT_SHOWN
    """-1: none."""
    leader_epoch: int | None = None
    replicas_before: tuple[int, ...] | None = None
    isr_before: tuple[int, ...] | None = None
    is_replay: bool = False
    """Written by a controller that was not the active one: its time may be that of its start."""


def sighting(line: PartitionLine, *, is_live: bool) -> Sighting | None:
    """The sighting of a line about one partition; None if it does not show the partition's state."""
    fields, epoch = line.fields, line.fields.get("partition_epoch")
    found = Sighting(at_ms=line.at_ms, ref=line.event.ref, epoch=epoch, leader_epoch=fields.get("leader_epoch"))
    match line.kind:
        case K.ASSIGNMENT_REPLAYED:
            record = fields["record"]
            return replace(
                found,
                replicas=fields.get("replicas", _ids_in(record, "replicas")),
                isr=fields.get("isr", _ids_in(record, "isr")),
                adding=_ids_in(record, "addingReplicas"),
                removing=_ids_in(record, "removingReplicas"),
                leader=record.get("leader", _NOT_SHOWN),
                replicas_before=fields.get("from_replicas"),
                isr_before=fields.get("from_isr"),
                is_replay=not is_live,
            )
        case K.ALTER_PARTITION_DONE if is_live and epoch is not None:
            return replace(
                found,
                replicas=fields["replicas"],
                isr=fields["isr"],
                leader=_NOT_SHOWN if fields["is_completed"] else fields["broker_id"],  # only a leader asks for it
                replicas_before=fields["from_replicas"],
                isr_before=fields["from_isr"],
            )
        case K.LEADER_STARTED if epoch is not None and line.event.logged_by is not None:
            return replace(
                found,
                isr=fields["isr"],
                adding=fields["adding"],
                removing=fields["removing"],
                leader=line.event.logged_by,
            )
        case K.FOLLOWER_STARTED if epoch is not None and fields.get("leader") is not None:
            return replace(found, leader=fields["leader"])
        case K.ISR_CHANGED if "version" in fields:
            return replace(found, epoch=fields["version"], isr=fields["isr"])
        case K.PARTITION_CREATED if fields.get("novelty") != "existing" and fields["replicas"]:
            replicas = fields["replicas"]
            new = {"replicas": replicas, "isr": replicas, "leader": replicas[0], "epoch": 0}
            return replace(found, is_replay=not is_live, **new | fields.get("registration", {}))
        case _ if line.kind == PARTITION_SEEN:
            return replace(found, **fields["registration"])
    return None


class Story:
    """One life of a partition, from its creation, or from where the logs begin, to the end of its topic."""

    def __init__(self, topic_id: str | None) -> None:
        self.topic_id = topic_id
        self.sightings: list[Sighting] = []
        self.given_up: list[tuple[int, int]] = []
        """(at_ms, broker that deleted its replica)."""
        self.starts: list[tuple[int, int]] = []
        """(at_ms, broker that began to follow)."""
        self.removed: tuple[int, str] | None = None

    @property
    def shows_growth(self) -> bool:
        """Whether lines show anything beyond requests and ends: before 4.3 controllers alone do not."""
        return any(s.epoch for s in self.sightings)

    def states(self) -> Iterator[tuple[PartitionState, bool]]:
        """The partition's states in the order of epochs, each with whether its time may be that of a replay. The first
        may have no time."""
        before: PartitionState | None = None
        for seen in self._changes():
            earliest = min(seen, key=lambda s: (s.is_replay, s.at_ms))
            if before is None or _differs(before, seen):
                shown = _before(seen)
                if shown is not None and (before is None or before.replicas == shown.replicas):
                    at_ms = None if before is None else earliest.at_ms
                    shown = replace(shown, at_ms=at_ms, ref=earliest.ref if before is not None else "")
                    before = shown if before is None else replace(before, isr=shown.isr, at_ms=at_ms, ref=shown.ref)
                    yield before, False
            after = self._merged(before, seen, earliest)
            yield after, all(s.is_replay for s in seen)
            before = after

    def _changes(self) -> list[list[Sighting]]:
        """Sightings of the same change together, in order."""
        by_epoch: dict[int, list[Sighting]] = defaultdict(list)
        for each in self.sightings:
            if each.epoch is not None:
                by_epoch[each.epoch].append(each)
        loose: list[list[Sighting]] = []
        for each in (s for s in self.sightings if s.epoch is None):
            epoch = next((e for e in sorted(by_epoch) if any(_agree(each, other) for other in by_epoch[e])), None)
            if epoch is not None:
                by_epoch[epoch].append(each)
            elif not (each.is_replay and any(_same(each, other[0]) for other in loose)):
                loose.append([each])
        shown = [by_epoch[epoch] for epoch in sorted(by_epoch)]
        for group in loose:
            at_ms = group[0].at_ms
            place = next((i for i, other in enumerate(shown) if min(s.at_ms for s in other) > at_ms), len(shown))
            shown.insert(place, group)
        return shown

    def _merged(self, before: PartitionState | None, seen: Sequence[Sighting], earliest: Sighting) -> PartitionState:
        adding, removing = _first(s.adding for s in seen), _first(s.removing for s in seen)
        isr = _first(s.isr for s in seen)
        replicas = _first(s.replicas for s in seen)
        leader = next((s.leader for s in seen if s.leader != _NOT_SHOWN), _NOT_SHOWN)
        base = before or PartitionState(replicas=replicas or isr or (), isr=isr or (), leader=None)
        if replicas is None:
            replicas = base.replicas
            if base.is_moving and adding == removing == ():
                replicas = base.target if set(isr or ()) <= set(base.target) else _without(base.replicas, base.adding)
            elif adding:
                replicas = (*replicas, *_without(adding, replicas))
            elif not base.is_moving:  # fewer replicas leave no line but those of the brokers that give theirs up
                gone = {b for at_ms, b in self.given_up if 0 <= at_ms - earliest.at_ms + 1_000 <= _DELETED_MS}
                replicas = tuple(r for r in replicas if r not in gone or r in (isr or ()))
        return PartitionState(
            replicas=replicas,
            isr=base.isr if isr is None else isr,
            leader=base.leader if leader == _NOT_SHOWN else None if leader == -1 else leader,
            adding=base.adding if adding is None else adding,
            removing=base.removing if removing is None else removing,
            leader_epoch=_first(s.leader_epoch for s in seen),
            partition_epoch=_first(s.epoch for s in seen),
            at_ms=earliest.at_ms,
            ref=earliest.ref,
        )


def _ids_in(record: Mapping[str, Any], name: str) -> tuple[int, ...] | None:
    """A line can be forged: anything may stand where a list should."""
    value = record.get(name)
    return value if isinstance(value, tuple) else None


def _before(seen: Sequence[Sighting]) -> PartitionState | None:
    """The state before, where the line of a change shows it."""
    replicas, isr = _first(s.replicas_before for s in seen), _first(s.isr_before for s in seen)
    return None if replicas is None or isr is None else PartitionState(replicas=replicas, isr=isr, leader=None)


def _differs(before: PartitionState, seen: Sequence[Sighting]) -> bool:
    """ISR changes of which no line was found: the next line shows the state before it."""
    isr = _first(s.isr_before for s in seen)
    return isr is not None and set(isr) != set(before.isr)


def _agree(assignment: Sighting, other: Sighting) -> bool:
    if other.adding is None or not -200 <= other.at_ms - assignment.at_ms <= _SAME_CHANGE_MS:
        return False
    pairs = ((getattr(assignment, name), getattr(other, name)) for name in ("replicas", "adding", "removing"))
    return all(a == b for a, b in pairs if a is not None and b is not None) and (
        assignment.isr is None or other.isr is None or set(assignment.isr) == set(other.isr)
    )


def _same(one: Sighting, other: Sighting) -> bool:
    names = ("replicas", "isr", "adding", "removing", "leader")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


def _without(replicas: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(r for r in replicas if r not in others)
