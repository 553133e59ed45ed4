"""Lines that fit a terminal: hanging indents, and a remark at the right edge where there is room."""

from __future__ import annotations

import re
import unicodedata

_NUMBER = re.compile(r"\(?\d[\d.,]* ")
_UNIT = re.compile(r"(?:ms|s|min|h|d)\b")


def cells(text: str) -> int:
    """Columns the text takes: East Asian wide characters take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in ("W", "F") else 1 for c in text
    )


def hanging(text: str, width: int, indent: int) -> list[str]:
    """The text broken at spaces, not between a number and its unit of time; lines after the first are indented. Runs of
    spaces inside a line stay."""
    lines: list[str] = []
    line = ""
    for word in _words(text):
        if line.strip() and cells(line) + cells(word.rstrip()) > width:
            lines.append(line.rstrip())
            line = " " * indent + word.lstrip()
        else:
            line += word
    lines.append(line.rstrip())
    return lines


def aside(text: str, remark: str, width: int, hang: int = 3) -> list[str]:
    """The text with the remark at the right edge of its first line, or after it where that has no room."""
    if not remark:
        return hanging(text, width, hang)
    space = width - cells(text) - cells(remark)
    if space >= 2:
        return [text + " " * space + remark]
    return hanging(f"{text}  ({remark})", width, hang)


def _words(text: str) -> list[str]:
    """Words each with the spaces after them, the first with those before it."""
    words: list[str] = []
    start = 0
    while start < len(text):
        at = start
        while at < len(text) and text[at] == " ":
            at += 1
        while at < len(text) and text[at] != " ":
            at += 1
        while at < len(text) and text[at] == " ":
            at += 1
        word = text[start:at]
        if words and _NUMBER.fullmatch(words[-1]) and _UNIT.match(word):
            words[-1] += word
        else:
            words.append(word)
        start = at
    return words
