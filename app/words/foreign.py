"""Text from clients, made visible, cut in the middle, and escaped for where it is going."""

from __future__ import annotations

import html
import re
from string import Formatter

from rebalance_audit.domain.visible import visible

LONGEST_NAME = 60
"""Characters of a client's text that fit on a line of a phone twice; longer is cut in the middle."""

_JAVA_OBJECT = re.compile(r"(?:[\w$]+\.)+([\w$]+)@[0-9a-f]{1,8}")
_LENGTH = re.compile(
    r"(?<![\w.])\d[\d.,]* "
    r"(?:(?:ms|s|min|h|d)\b(?: \d+ (?:s|min|h)\b)?|(?=(?:partition|task|partition- or task)-seconds\b))"
)
_NOT_OURS = re.compile(r"(<code\b.*?</code>|<[^>]*>)", re.DOTALL)
_MARKDOWN_SIGNS = frozenset("\\`*_{}[]()#+-.!|~$<>&\"'=^%@/,;:?")


class Html(str):
    """Text that is HTML already; `fill` leaves it as it is."""

    __slots__ = ()


class _Filler(Formatter):
    def format_field(self, value: object, format_spec: str) -> str:
        if isinstance(value, Html):
            return str(value)
        return html.escape(str(format(value, format_spec)))


def fill(template: str, /, **parts: object) -> Html:
    """Our template with foreign parts put in, each escaped unless it is `Html`."""
    return Html(_Filler().format(template, **parts))


def join(parts: list[Html], between: str = "") -> Html:
    return Html(between.join(parts))


def unbroken(markup: Html) -> Html:
    """The same with spaces inside durations and before the unit of a cost that no line ends at. Clients' text that is
    set apart stays as it is."""
    parts = _NOT_OURS.split(markup)
    return Html(
        "".join(p if at % 2 else _LENGTH.sub(lambda m: m[0].replace(" ", "\u00a0"), p) for at, p in enumerate(parts))
    )


def plain(text: str | Html) -> str:
    """A page's words without their markup."""
    return html.unescape(re.sub(r"<[^>]*>", "", text)) if isinstance(text, Html) else text


def cell(text: str) -> str:
    """Text as a spreadsheet may open it: what it would take for a formula has a quote before it."""
    return visible(f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else text)


def cut(text: str, most: int = LONGEST_NAME) -> str:
    """At most so many characters, the middle left out: what differs is mostly at the ends."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}\u2026{text[len(text) - tail :]}"


def whole_sentences(text: str, most: int) -> str:
    """As much of the text as ends with a sentence, or a part of one, within so many characters."""
    if len(text) <= most:
        return text
    ends = [m.start() for m in re.finditer(r"[.;]\s", text[:most])]
    return f"{text[: ends[-1]]}." if ends else cut(text, most)


def name(text: str | None, most: int = LONGEST_NAME) -> str:
    """A client's text as plain text: visible and cut. Not escaped yet."""
    if text is None:
        return "not known"
    return cut(visible(text), most) if text else "\u2039empty\u203a"


def code(text: str | None, most: int = LONGEST_NAME) -> Html:
    """A client's text for a page, set apart; the whole of it in its tooltip when it was cut."""
    if text is None:
        return Html('<span class="ra-unknown">not known</span>')
    shown = name(text, most)
    whole = visible(text)
    title = fill(' title="{whole}"', whole=whole[:500]) if shown != whole else Html("")
    return fill("<code{title}>{shown}</code>", title=title, shown=shown)


def with_code(text: str) -> Html:
    """A sentence of ours for a page: what stands between two backticks, such as a command, is set apart."""
    parts = [visible(part) for part in re.split(r"`([^`]+)`", text)]
    return join([fill("<code>{x}</code>" if at % 2 else "{x}", x=part) for at, part in enumerate(parts)])


def markdown(text: str) -> str:
    """Plain text for a label that Streamlit reads as markdown: no link, picture, formula or emoji comes of it."""
    return "".join(f"\\{c}" if c in _MARKDOWN_SIGNS else c for c in text)


def assignor(text: str | None) -> str | None:
    """An assignor's name. A share group's is written as Java prints an object, `package.SimpleAssignor@1734b7b1`: of
    that, the class is meant."""
    found = None if text is None else _JAVA_OBJECT.fullmatch(text)
    return found[1] if found else text


def resources(names: tuple[str, ...] | list[str] | None, most: int = 6) -> str:
    """`orders-0 … orders-3` for runs of partitions; the rest counted."""
    if names is None:
        return "not known"
    if not names:
        return "nothing"
    runs = [pair for run in _runs(sorted(names, key=natural)) for pair in _unless_two(run)]
    shown = [name(first) if first == last else f"{name(first)} \u2026 {name(last)}" for first, last in runs[:most]]
    left_out = len(runs) - len(shown)
    return ", ".join(shown) + (f" and {left_out} more" if left_out else "")


def _unless_two(run: tuple[str, str]) -> list[tuple[str, str]]:
    first, last = run
    is_pair = natural(last)[1] == natural(first)[1] + 1
    return [(first, first), (last, last)] if is_pair else [run]


def natural(text: str) -> tuple[str, int]:
    head, _, tail = text.rpartition("-")
    return (head, int(tail)) if head and tail.isascii() and tail.isdigit() and len(tail) < 10 else (text, -1)


def _runs(ordered: list[str]) -> list[tuple[str, str]]:
    runs: list[tuple[str, str]] = []
    for text in ordered:
        head, number = natural(text)
        if runs and number >= 0:
            last_head, last_number = natural(runs[-1][1])
            if last_head == head and last_number == number - 1:
                runs[-1] = (runs[-1][0], text)
                continue
        runs.append((text, text))
    return runs
