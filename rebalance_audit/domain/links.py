"""Addresses of other tools with names in braces: `https://grafana.example/d/x?var-group={group}&from={from_ms}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter
from urllib.parse import quote

NAMES = ("cluster", "group", "incident", "topic", "partition", "from_ms", "to_ms")
"""What may stand in braces; a page says those that it is about, and the time that it shows."""
_FIXED_START = re.compile(r"https?://[^/?#{}@\s\\]+(?:[/?#]|\Z)")


def fault_of(template: str) -> str | None:
    """The fault of a template; None if it has none. Scheme and host must be fixed: no client's name chooses them."""
    if not _FIXED_START.match(template):
        return "it must begin with http:// or https:// and a host, without user and without {names} in them"
    if any(c.isspace() or not c.isprintable() for c in template):
        return "it holds a space or a character that cannot be seen; write it as %20"
    try:
        parts = list(Formatter().parse(template))
    except ValueError:
        return "a brace has no partner; write {{ and }} for braces themselves"
    for _, name, spec, conversion in parts:
        if name is not None and (name not in NAMES or spec or conversion):
            return f"there is no {{{name}}}; these are: {', '.join(NAMES)}"
    return None


def filled(template: str, values: Mapping[str, str | int | None]) -> str | None:
    """The template with every value encoded for an address; None where it names something that `values` lacks. The
    template must be valid."""
    parts = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            value = values.get(name)
            if value is None:
                return None
            parts.append(quote(str(value), safe="", errors="replace"))
    return "".join(parts)
