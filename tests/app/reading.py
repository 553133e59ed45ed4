"""What a page shows, as a reader sees it: its words, cells, labels and the texts of its pictures, and the numbers in
them. A number is read back with the room its rounding leaves, so that it can be held to a value of the tables."""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app import page as app_page
from app.charts import TimeLine
from tests.app.opening import long_tables

_N = r"\d[\d,]*(?:\.\d+)?"
_UNITS_MS = {"ms": 1.0, "s": 1_000.0, "min": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
_DURATION = re.compile(rf"(?<![\w.:/-])({_N}) (ms|s|min|h|d)\b(?: (\d+) (h|min|s)\b)?")
_DAMAGE = re.compile(rf"(under )?(?<![\w.:/-])({_N}) (?:partition- or task|partition|task)-seconds")
_COUNT = re.compile(rf"(?<![\w.:/#@…-])(?:[\u2212+])?({_N})(?![\w:/…-]|\.\d)")
_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d(?: \d\d:\d\d(?::\d\d(?:\.\d{3})?)?(?: UTC)?)?|\b\d\d:\d\d(?::\d\d(?:\.\d{3})?)?(?: UTC)?"
)
_BELOW_ZERO = re.compile(r"(?:^|[(\s…])[-\u2212]\d[\d.,]* ?(?:ms|s|min|h)\b")


class Number(NamedTuple):
    """`low` to `high`, both included, is what rounds to what is shown. Milliseconds, resource-seconds, or a count."""

    low: float
    high: float
    said: str

    def is_near(self, value: float) -> bool:
        return self.low - 1e-6 <= value <= self.high + 1e-6


def _rounded(text: str, unit: float = 1.0) -> tuple[float, float]:
    value = float(text.replace(",", ""))
    half = 0.5 * 10 ** -len(text.partition(".")[2])
    return (value - half) * unit, (value + half) * unit


def _with_units(text: str) -> str:
    """`9.2 to 11.9 s` as `9.2 s to 11.9 s`, `1 s less to 2 more` likewise, and `12.3 s (10.0 … 13.4)` with its unit
    three times."""
    unit = r"((?:partition- or task|partition|task)-seconds|ms|s|min|h)"
    text = re.sub(rf"(?<![\w.])({_N}) (to|…) (?=(?:{_N}) {unit}\b)", r"\1 \3 \2 ", text)
    text = re.sub(rf"{unit} less to ({_N}) more", r"\1 less to \2 \1 more", text)
    text = re.sub(
        rf"{unit}(,? \(?likely) ((?:under )?{_N}) to ({_N})(?! ?(?:ms|s|min|h)\b)", r"\1\2 \3 \1 to \4 \1", text
    )
    return re.sub(rf"{unit} \((no lower bound|(?:under )?{_N}) … (no upper bound|{_N})\)", r"\1 (\2 \1 … \3 \1)", text)


def durations(text: str) -> Iterator[Number]:
    for found in _DURATION.finditer(_with_units(text)):
        value, unit, rest, smaller = found.groups()
        if rest is None and unit in ("ms", "s"):
            yield Number(*_rounded(value, _UNITS_MS[unit]), found[0])
            continue
        low = float(value.replace(",", "")) * _UNITS_MS[unit] + float(rest or 0) * _UNITS_MS[smaller or "s"]
        step = _UNITS_MS[smaller or {"min": "s", "h": "min", "d": "h"}[unit]]
        yield Number(low - 500, low + max(step, 1_000), found[0])


def damages(text: str) -> Iterator[Number]:
    for under, value in _DAMAGE.findall(_with_units(text)):
        yield Number(*((0.0, 0.01) if under else _rounded(value)), f"{value} resource-seconds")


def counts(text: str) -> Iterator[Number]:
    """What is left when durations, damage and times are taken out."""
    rest = _STAMP.sub(" ", _DAMAGE.sub(" ", _DURATION.sub(" ", _with_units(text))))
    for found in _COUNT.finditer(rest):
        yield Number(*_rounded(found[1]), found[0])


def below_zero(text: str) -> str | None:
    """A duration below zero, which no page shows."""
    found = _BELOW_ZERO.search(text)
    return found[0] if found else None


@dataclass(kw_only=True)
class Shown:
    """One page."""

    at: AppTest
    pictures: list[TimeLine] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        """Everything that is read, a text per element or cell, but what the reader may choose."""
        left_out = ("<style", '<div class="ra-switch"')
        found = [words_of(h.value) for h in self.at.html if not h.value.startswith(left_out)]
        found += [str(m.value) for m in self.at.markdown]
        found += [e.label for e in self.at.expander]
        for frame in self.frames:
            found += [str(v) for column in frame.columns for v in frame[column] if isinstance(v, str)]
        for line in self.lines:
            found += [line["cause"], line["cost"], line["age"], *(text for _, text in line["facts"])]
        for picture in self.pictures:
            found += [*picture.texts, *picture.lanes]
        return found

    @property
    def words(self) -> str:
        return " ".join(words_of(h.value) for h in self.at.html if not h.value.startswith("<style"))

    @property
    def frames(self) -> list[pd.DataFrame]:
        return long_tables(self.at)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines that open in place, of all lists."""
        found = [e.proto for e in self.at.get("bidi_component")]
        return [
            row
            for proto in found
            if proto.component_name == "rebalance_audit_lines"
            for row in json.loads(proto.json)["rows"]
        ]

    def facts(self) -> dict[str, str]:
        """Names and values of the page's lists of facts."""
        markup = "\n".join(h.value for h in self.at.html)
        return {words_of(k): words_of(v) for k, v in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", markup, re.S)}

    def tables(self) -> list[list[dict[str, str]]]:
        """Small tables: a row is its cells by the column's head."""
        found = []
        for h in self.at.html:
            for table in re.findall(r"<tbody>(.*?)</tbody>", h.value, re.S):
                found.append(
                    [
                        {
                            html.unescape(k): words_of(v)
                            for k, v in re.findall(r'<td data-head="(.*?)">(.*?)</td>', row, re.S)
                        }
                        for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)
                    ]
                )
        return found

    def bars(self) -> list[tuple[str, ...]]:
        """Rows of bars: label and what is said; pairs: label and the two counts."""
        markup = "\n".join(h.value for h in self.at.html)
        rows = re.findall(r'<div class="ra-row-label">(.*?)</div>.*?<div class="ra-row-said">(.*?)</div>', markup, re.S)
        pairs = re.findall(
            r'<div class="ra-pair-label">([^<]*(?:<span.*?</span>[^<]*)?)</div><div class="ra-row-track">.*?'
            r'<div class="ra-pair-n">(.*?)</div>.*?<div class="ra-pair-n">(.*?)</div>',
            markup,
            re.S,
        )
        return [tuple(words_of(part) for part in each) for each in (*rows, *pairs)]


def words_of(markup: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", markup))).strip()


def recorded(monkeypatch: pytest.MonkeyPatch) -> list[TimeLine]:
    """Every picture that a page draws from now on."""
    drawn: list[TimeLine] = []
    draw = app_page.time_line

    def time_line(picture: TimeLine, alt: str, key: str) -> Any:
        drawn.append(picture)
        return draw(picture, alt, key=key)

    monkeypatch.setattr(app_page, "time_line", time_line)
    return drawn


class Known:
    """The values that a page may show: of rows of the tables, and sums that the test made of them."""

    def __init__(self, *rows: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        self.ms: set[float] = set()
        self.seconds: set[float] = set()
        self.counts: set[float] = {0.0, 1.0}
        self.names: set[str] = set()
        for each in rows:
            self.add(each)

    def add(self, value: Any, name: str = "") -> Known:
        if isinstance(value, str):
            self.names.update((value, *value.splitlines()))
        elif isinstance(value, Mapping):
            for key, inner in value.items():
                self.add(inner, key)
            if "story" in value:  # below its title a page shows the rest, with a capital letter
                self.names.add(rest := value["story"].removeprefix(value["title"])[3:])
                self.names.add(re.sub(r" and cost [^:]*-seconds: ", ": ", rest))  # where the cost stands beside it
        elif isinstance(value, list | tuple):
            self.counts.add(len(value))
            for inner in value:
                self.add(inner, name)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self.number(name, value)
        return self

    def number(self, name: str, value: float) -> None:
        if name.endswith("_ms"):
            self.ms.add(abs(value))
        elif "seconds" in name:
            self.seconds.add(abs(value))
        else:
            self.counts.add(abs(value))

    def between(self, *moments: int | None) -> Known:
        """The lengths between any two of these moments."""
        known = [m for m in moments if m is not None]
        self.ms.update(abs(a - b) for a, b in itertools.combinations(known, 2))
        return self

    def unaccounted(self, texts: Iterable[str]) -> list[str]:
        """Numbers of these texts that are no value known. Names and sentences of the tables themselves are left out."""
        names = sorted((n for n in self.names if any(c.isdigit() for c in n)), key=len, reverse=True)
        found = []
        for text in texts:
            if not any(c.isdigit() for c in text):
                continue
            left = text
            for name in names:
                if name in left:
                    left = left.replace(name, " _ ")
            for numbers, values in (
                (durations(left), self.ms),
                (damages(left), self.seconds),
                (counts(left), self.counts),
            ):
                found += [f"{n.said!r} of {text[:200]!r}" for n in numbers if not any(n.is_near(v) for v in values)]
        return found
