"""Message templates: Kafka's fixed words around fields, matched in linear time whatever a client wrote into them.

A template is written as formats are quoted in our documents: `<name>` is free text, `<name:int>` and `<name:long>`
numbers that fit into these types of Java, `<name:word>` text without blanks, `<name:ids>` numbers with commas,
`<name:a|b>` one of the words; `{…}?` may be missing.
Fixed words and closed fields between two free texts form a *hinge*. Hinges are looked for from the right, the last
one that leaves room for the others is taken: so a group id may contain the template's own words, the tail may not.
Regular expressions with two free parts would take quadratic time on hostile lines; this does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_FIELD = re.compile(r"<(\w+)(?::([^<>]+))?>|\{([^{}]+)\}\?")
_NUMBER = re.compile(r"<(\w+):(int|long)>")
_CLOSED = {
    "int": r"-?[0-9]{1,10}",
    "long": r"-?[0-9]{1,19}",
    "word": r"\S{1,255}",
    "partition": r"__consumer_offsets-\d{1,6}",
    "ids": r"[\d, ]{0,1000}",
}
_LIMITS = {"int": 1 << 31, "long": 1 << 63}
_TAIL_WINDOW = 1200
_MAX_READINGS = 16


@dataclass(frozen=True, slots=True)
class _Hinge:
    lead: str
    """Fixed text the hinge begins with; what is searched for."""
    regex: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Template:
    """One message form. Build with `template`."""

    text: str
    first: re.Pattern[str]
    """From the beginning of the message up to the first free text."""
    free: tuple[str, ...]
    """Names of the free fields, left to right."""
    middle: tuple[_Hinge, ...]
    tail: re.Pattern[str] | None
    """From the last free text to the end of the message; None when the message ends in free text."""
    tail_literal: str
    """Fixed text inside the tail, for a cheap look before the search."""
    needle: str
    """Fixed text that every message of this form contains."""
    numbers: tuple[tuple[str, int], ...]
    """Names of the fields that are numbers, and the least number that is too large."""

    def readings(self, message: str) -> list[dict[str, str | None]]:
        """Every way to read the message by this template, the one with the rightmost hinges first; [] if none.

        More than one way means that free text contains the template's own words.
        """
        return [fields for fields in self._fitting(message) if self._could_be_printed(fields)]

    def _could_be_printed(self, fields: Mapping[str, str | None]) -> bool:
        """Whether its numbers are Java's: greater ones are a client's, and fit into no column."""
        for name, limit in self.numbers:
            text = fields[name]
            if text is not None and not -limit <= int(text) < limit:
                return False
        return True

    def _fitting(self, message: str) -> list[dict[str, str | None]]:
        start = self.first.match(message)
        if start is None:
            return []
        fields: dict[str, str | None] = start.groupdict()
        low, high = start.end(), len(message)
        if not self.free:
            return [fields]
        if self.tail is not None:
            end = self._tail(message, low, high)
            if end is None:
                return []
            fields.update(end.groupdict())
            high = end.start()
        if not self.middle:
            fields[self.free[0]] = message[low:high]
            return [fields]
        return [fields | found for found in self._split(message, low, high, len(self.middle), [_MAX_READINGS])]

    def _tail(self, message: str, low: int, high: int) -> re.Match[str] | None:
        at = max(low, high - _TAIL_WINDOW)
        if self.tail is None or (self.tail_literal and message.find(self.tail_literal, at) < 0):
            return None
        return self.tail.search(message, at)

    def _split(self, message: str, low: int, high: int, count: int, left: list[int]) -> Iterator[dict[str, str | None]]:
        """Readings of message[low:high] by the first `count` hinges, rightmost first; at most `left[0]` more. There is
        at least one hinge."""
        hinge = self.middle[count - 1]
        at = message.rfind(hinge.lead, low, high)
        while at >= 0 and left[0] > 0:
            found = hinge.regex.match(message, at, high)
            if found is not None:
                rest = {self.free[count]: message[found.end() : high], **found.groupdict()}
                if count == 1:
                    left[0] -= 1
                    yield {self.free[0]: message[low:at], **rest}
                else:
                    for before in self._split(message, low, at, count - 1, left):
                        yield before | rest
            at = message.rfind(hinge.lead, low, at + len(hinge.lead) - 1)


def template(text: str) -> Template:
    """Compile a template. The first word must be fixed, two free fields must have fixed text between them."""
    hinges: list[str] = [""]
    fixed: list[list[str]] = [[""]]  # per hinge, the runs of fixed text that are always there
    free: list[str] = []
    at = 0

    def literal(run: str) -> None:
        hinges[-1] += re.escape(run)
        fixed[-1][-1] += run

    for found in _FIELD.finditer(text):
        literal(text[at : found.start()])
        at = found.end()
        name, kind, optional = found.groups()
        if optional is not None:
            hinges[-1] += "(?:" + _closed_parts(optional) + ")?"
            fixed[-1].append("")
        elif kind is None:
            free.append(name)
            hinges.append("")
            fixed.append([""])
        else:
            hinges[-1] += _closed(name, kind)
            fixed[-1].append("")
    literal(text[at:])
    middle = tuple(
        _Hinge(lead=runs[0], regex=re.compile(hinge)) for hinge, runs in zip(hinges[1:-1], fixed[1:-1], strict=True)
    )
    if any(not hinge.lead for hinge in middle):
        raise ValueError(f"a field follows a free field without fixed text between: {text}")
    ends_free = bool(free) and hinges[-1] == ""
    tail = re.compile(hinges[-1] + r"\Z") if free and not ends_free else None
    return Template(
        text=text,
        first=re.compile(hinges[0] if free else hinges[0] + r"\Z"),
        free=tuple(free),
        middle=middle,
        tail=tail,
        tail_literal=max(fixed[-1], key=len) if tail is not None else "",
        needle=max((run for runs in fixed for run in runs), key=len),
        numbers=tuple((name, _LIMITS[kind]) for name, kind in _NUMBER.findall(text)),
    )


def _closed(name: str, kind: str) -> str:
    pattern = _CLOSED.get(kind) or "|".join(re.escape(word) for word in kind.split("|"))
    return f"(?P<{name}>{pattern})"


def _closed_parts(text: str) -> str:
    """The inside of `{…}?`: fixed text and closed fields only."""
    parts, at = "", 0
    for found in _FIELD.finditer(text):
        name, kind, _ = found.groups()
        parts += re.escape(text[at : found.start()]) + _closed(name, kind)
        at = found.end()
    return parts + re.escape(text[at:])
