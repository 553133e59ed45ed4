"""Partitions of share groups, which may have several owners at once: the sets show what an epoch changed.

Nothing is given up before it is taken over, so there is no pause. Source: KIP-932.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from rebalance_audit.domain.kinds import MovementKind, ResourceType
from rebalance_audit.domain.model import Movement

from .epoch import Epoch, Held, LiveMember

_JAVA_OBJECT = re.compile(r"[\w.]*\b(\w+)Assignor@[0-9a-f]+", re.ASCII)


def assignor_name(logged: str | None) -> str | None:
    """The name the assignor gives itself: lines about share groups print the Java object in place of its name."""
    written = _JAVA_OBJECT.fullmatch(logged or "")
    return logged if written is None else written[1].lower()


def share_movements(epoch: Epoch) -> tuple[Movement, ...]:
    """One row per partition none of whose earlier owners owns it now; with several owners before or after, the row
    names none."""
    before, after = _owners(epoch.before), _owners(epoch.members)
    found = []
    for resource in sorted(before.keys() | after.keys()):
        old, new = before.get(resource, {}), after.get(resource, {})
        if old.keys() & new.keys():
            continue
        held = next(m.held[resource] for m in (*old.values(), *new.values()))
        found.append(
            _movement(
                held,
                _only(old),
                _only(new),
                MovementKind.MOVED if old and new else MovementKind.ASSIGNED if new else MovementKind.REVOKED,
            )
        )
    return tuple(found)


def _owners(members: Mapping[str, LiveMember]) -> dict[str, dict[str, LiveMember]]:
    owners: dict[str, dict[str, LiveMember]] = defaultdict(dict)
    for member_id, member in members.items():
        for resource in member.held:
            owners[resource][member_id] = member
    return owners


def _only(owners: Mapping[str, LiveMember]) -> LiveMember | None:
    return next(iter(owners.values())) if len(owners) == 1 else None


def _movement(held: Held, old: LiveMember | None, new: LiveMember | None, kind: MovementKind) -> Movement:
    shown = [m.current.ref for m in (old, new) if m is not None and m.current is not None]
    return Movement(
        resource_type=ResourceType.PARTITION,
        resource=held.resource,
        topic=held.topic,
        partition=held.partition,
        kind=kind,
        from_member_id=old.member_id if old else None,
        to_member_id=new.member_id if new else None,
        from_client_id=getattr(old.metadata, "client_id", None) if old else None,
        to_client_id=getattr(new.metadata, "client_id", None) if new else None,
        evidence=tuple(shown),
    )
