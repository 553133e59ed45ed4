"""Decoded values, leaf by leaf, and where each stands in the bytes or the text it was read from. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app import words

_LONGEST_RAW = 64 * 1024
"""Bytes of one key or value shown; a group of thousands of members has records of megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One decoded value, and where its bytes are, if that is certain."""

    path: str
    text: str
    part: str | None = None
    """`key` or `value`."""
    start: int | None = None
    end: int | None = None


def flat(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """The leaves of what was decoded, in its order: `members[0].client_id`."""
    if isinstance(value, Mapping):
        return [leaf for k, v in value.items() for leaf in flat(v, f"{path}.{k}" if path else str(k))]
    if isinstance(value, list | tuple) and value and all(_is_partition(v) for v in value):
        return [(path, words.resources([f"{topic}-{partition}" for topic, partition in value], 40))]
    if isinstance(value, list | tuple) and value and not all(isinstance(v, int | str) for v in value):
        return [leaf for i, v in enumerate(value) for leaf in flat(v, f"{path}[{i}]")]
    return [(path, value)]


def _is_partition(value: Any) -> bool:
    return (
        isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str) and isinstance(value[1], int)
    )


def _said(value: Any) -> str:
    if value is None:
        return "null"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def located_in_bytes(leaves: list[tuple[str, Any]], key: bytes | None, value: bytes | None) -> tuple[Field, ...]:
    """Each text of a record with the place of its bytes; texts stand in a record in the order of decoding."""
    at = {"key": 0, "value": 0}
    found = []
    for path, leaf in leaves:
        place: tuple[str, int, int] | None = None
        if isinstance(leaf, str) and leaf:
            wanted = leaf.encode("utf-8", "surrogatepass")
            for part, raw in (("key", key), ("value", value)):
                start = -1 if raw is None else raw.find(wanted, at[part])
                if start >= 0:
                    place = (part, start, start + len(wanted))
                    at[part] = start + len(wanted)
                    break
        part_, start_, end_ = place or (None, None, None)
        found.append(Field(path=path, text=_said(leaf), part=part_, start=start_, end=end_))
    return tuple(found)


def located_in_text(leaves: list[tuple[str, Any]], text: str) -> tuple[Field, ...]:
    """Each field of a log line with its place in the text, the first that no other field took."""
    taken: list[tuple[int, int]] = []
    found = []
    for path, leaf in leaves:
        said = _said(leaf)
        place = _first_free(text, said, taken) if leaf not in (None, "", [], True, False) else None
        if place is not None:
            taken.append(place)
        found.append(Field(path=path, text=said, start=place[0] if place else None, end=place[1] if place else None))
    return tuple(found)


def _first_free(text: str, wanted: str, taken: list[tuple[int, int]]) -> tuple[int, int] | None:
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        is_whole = not (wanted.isdigit() and (text[at - 1 : at].isdigit() or text[end : end + 1].isdigit()))
        if is_whole and all(end <= a or b <= at for a, b in taken):
            return at, end
        at = text.find(wanted, at + 1)
    return None


@dataclass(frozen=True, slots=True)
class HexRow:
    """Sixteen bytes: where they start, and each with the number of the field it belongs to."""

    start: int
    cells: tuple[tuple[int, int | None], ...]


def hex_rows(raw: bytes, part: str, fields: tuple[Field, ...]) -> tuple[list[HexRow], int]:
    """Rows of a dump, and how many bytes were left out."""
    owner: dict[int, int] = {}
    for i, f in enumerate(fields):
        if f.part == part and f.start is not None and f.end is not None:
            owner.update(dict.fromkeys(range(f.start, min(f.end, _LONGEST_RAW)), i))
    shown = raw[:_LONGEST_RAW]
    rows = [
        HexRow(start, tuple((shown[i], owner.get(i)) for i in range(start, min(start + 16, len(shown)))))
        for start in range(0, len(shown), 16)
    ]
    return rows, len(raw) - len(shown)
