"""Our records in the words of Kafka's dump tool."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


def as_dumped(thing: Any) -> Any:
    if is_dataclass(thing):
        return {camel(f.name): as_dumped(getattr(thing, f.name)) for f in fields(thing) if f.name != "unknown_tags"}
    return [as_dumped(item) for item in thing] if isinstance(thing, tuple) else thing


def holds(ours: Any, theirs: Any) -> bool:
    """Every field the tool shows has the same value; what it leaves out is at its default."""
    if isinstance(theirs, dict):
        return all(name in ours and holds(ours[name], value) for name, value in theirs.items())
    if isinstance(theirs, list) and theirs and isinstance(theirs[0], dict):
        return len(ours) == len(theirs) and all(map(holds, ours, theirs))
    return bool(ours == theirs)
