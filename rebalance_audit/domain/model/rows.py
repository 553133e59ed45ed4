"""The same as rows of tables, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple, TypeVar

from rebalance_audit.domain.causes import cause_of
from rebalance_audit.domain.kinds import (
    Basis,
    Bound,
    EvidenceTier,
    FindingStatus,
    GroupType,
    MemberChange,
    Mode,
    MovementKind,
    Outcome,
    RebalanceKind,
    ResourceType,
    Severity,
)
from rebalance_audit.domain.model.rebalances import (
    ConnectTask,
    Finding,
    Mark,
    Member,
    MemberStandstill,
    Movement,
    Rebalance,
    Trigger,
)

T = TypeVar("T")

_NESTED: dict[str, dict[str, type]] = {
    "Rebalance": {"triggers": Trigger, "members": Member, "movements": Movement, "standstills": MemberStandstill},
    "Movement": {"stop_marks": Mark, "resume_marks": Mark},
}


def _basis_of(stored: str | None) -> Basis | None:
    return None if stored is None else Basis(stored)


_CLOSED: dict[str, dict[str, Callable[[Any], Any]]] = {
    "Rebalance": {
        "group_type": GroupType,
        "kind": RebalanceKind,
        "outcome": Outcome,
        "mode": Mode,
        "trigger": cause_of,
        "trigger_tier": EvidenceTier,
    },
    "Trigger": {"trigger": cause_of},
    "Member": {"change": MemberChange},
    "MemberStandstill": {"tier": EvidenceTier},
    "Movement": {"resource_type": ResourceType, "kind": MovementKind},
    "Mark": {"bound": Bound, "basis": _basis_of},
    "ConnectTask": {"resource_type": ResourceType},
    "Finding": {"severity": Severity, "status": FindingStatus},
}
"""What columns hold values of a closed set, and how a stored text becomes one."""


def to_row(thing: Rebalance | Movement | Member | ConnectTask | Finding) -> dict[str, Any]:
    """The thing as a table row: plain dicts, tuples and texts."""
    return _row(thing)


def _row(thing: Any) -> dict[str, Any]:
    # dataclasses.asdict copies every value by recursion; here only the few nested columns hold dataclasses.
    kind = type(thing)
    row = {name: getattr(thing, name) for name in kind.__dataclass_fields__}
    for name in _NESTED.get(kind.__name__, ()):
        row[name] = tuple(_row(item) for item in row[name])
    return row


class StoredColumn(NamedTuple):
    """How one field of a dataclass is read back from a table's row."""

    name: str
    made: Callable[[Any], Any] | None
    """What makes the value of the stored one, where that is more than a list."""
    nested: type | None
    """The type of the stored rows in it."""


@cache
def stored_columns(kind: Any) -> tuple[StoredColumn, ...]:
    """How each field of a dataclass of this module is read back."""
    nested, closed = _NESTED.get(kind.__name__, {}), _CLOSED.get(kind.__name__, {})
    return tuple(StoredColumn(f.name, closed.get(f.name), nested.get(f.name)) for f in fields(kind))


def from_row(kind: type[T], row: Mapping[str, Any]) -> T:
    """The thing of a table row; columns it does not have are left out, lists become tuples."""
    values: dict[str, Any] = {}
    whole: Any = kind
    for name, made, nested in stored_columns(whole):
        if name not in row:
            continue
        value = row[name]
        if nested is not None:
            value = tuple(from_row(nested, inner) for inner in value or ())
        elif made is not None:
            value = made(value)
        elif isinstance(value, list):
            value = tuple(value)
        values[name] = value
    return kind(**values)
