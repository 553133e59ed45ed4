"""Data on stdout: tables for people, json, jsonl and csv for programs. What clients wrote is never let through raw."""

from __future__ import annotations

import csv
import itertools
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

from rebalance_audit.commands.options import Output
from rebalance_audit.domain.explain.layout import hanging
from rebalance_audit.domain.visible import visible

ENVIRONMENT_LOG_FORMAT = "REBALANCE_AUDIT_LOG_FORMAT"
_INVISIBLE_IN_JSON = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
DEFAULT_WIDTH = 110
_TABLE_CELL_WIDTH = 100
_LEAST_LAST = 20
_WIDEST_FOLDED = 14


def json_text(value: Any) -> str:
    """JSON that is safe to look at; bytes as hexadecimal."""
    text = json.dumps(value, ensure_ascii=False, default=_plain)
    return _INVISIBLE_IN_JSON.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def csv_cell(value: Any) -> Any:
    """The text as a spreadsheet may open it: no formula, no control character. Lossless forms are jsonl and parquet."""
    if isinstance(value, bool):
        return str(value).lower()
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else value.hex() if isinstance(value, bytes) else json_text(value)
    text = visible("'" + text if text.startswith(_FORMULA) else text)
    return text


def write_rows(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], output: Output | str) -> None:
    """Print these columns of the rows in this form."""
    out = sys.stdout
    if output == Output.JSONL:
        for row in rows:
            out.write(json_text(dict(row)) + "\n")
    elif output == Output.JSON:
        listed = [json_text(dict(row)) for row in rows]
        out.write("[" + ",\n ".join(listed) + "]\n")
    elif output == Output.CSV:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow([csv_cell(row.get(column)) for column in columns])
    else:
        _write_table(list(rows), columns, out)


def _write_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], out: TextIO) -> None:
    cells = [[column.upper() for column in columns]]
    last = len(columns) - 1
    cells += [[_table_cell(row.get(column), at == last) for at, column in enumerate(columns)] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    if has_width(out):  # nothing is cut: what does not fit continues below, in its column
        if sum(widths) + 2 * last > output_width():
            widths[:-1] = [min(width, _WIDEST_FOLDED) for width in widths[:-1]]
        widths[-1] = max(_LEAST_LAST, output_width() - sum(width + 2 for width in widths[:-1]))
    for number, line in enumerate(cells):
        parts = [
            textwrap.wrap(cell, width, break_on_hyphens=False) or [""] for cell, width in zip(line, widths, strict=True)
        ]
        for texts in itertools.zip_longest(*parts, fillvalue=""):
            text = "  ".join(t.ljust(width) for t, width in zip(texts, widths, strict=True)).rstrip()
            out.write((_in_style(text, is_head=number == 0) if is_styled(out) else text) + "\n")


def _in_style(line: str, *, is_head: bool) -> str:
    """The head in bold; a line that begins with a grave severity or state with that in colour."""
    if is_head:
        return f"\x1b[1m{line}\x1b[0m"
    severity = line.partition(" ")[0]
    return _in_colour(severity) + line[len(severity) :]


def _in_colour(word: str) -> str:
    return f"{_COLOURS[word]}{word}\x1b[0m" if word in _COLOURS else word


def graded(line: str) -> str:
    """The line with its first word in colour, where that is a grave severity or state; on a terminal only."""
    return _in_style(line, is_head=False) if is_styled() else line


def _table_cell(value: Any, is_last: bool) -> str:
    """The last column is text: it folds on a terminal, and elsewhere is as long as it is."""
    if value is None:
        return "-"
    text = visible(value if isinstance(value, str) else json_text(value))
    return text if is_last or len(text) <= _TABLE_CELL_WIDTH else text[: _TABLE_CELL_WIDTH - 1] + "…"


def has_width(out: TextIO) -> bool:
    """Lines fold at a terminal's edge; a pipe or a file gets them whole."""
    return out.isatty() or (out is sys.stdout and "COLUMNS" in os.environ)


def is_styled(stream: TextIO | None = None) -> bool:
    """Colour and bold are for a terminal whose owner has not switched them off (https://no-color.org)."""
    out = stream or sys.stdout
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


_GRAVE = re.compile(r"(?<![\w-])(critical|warning)(?=[ ,)])")
_COLOURS = {"critical": "\x1b[31m", "fault": "\x1b[31m", "warning": "\x1b[33m", "optional": "\x1b[33m"}


def styled(text: str) -> str:
    """The text with its answer (up to the first empty line) in bold, and grave findings in colour; on a terminal
    only."""
    if not is_styled():
        return text
    first, gap, rest = text.partition("\n\n")
    coloured = _GRAVE.sub(lambda m: _in_colour(m[1]), rest)
    return f"\x1b[1m{first}\x1b[0m{gap}{coloured}"


def output_width(stream: TextIO | None = None) -> int:
    """Columns of the terminal; of a file or a pipe, DEFAULT_WIDTH."""
    out = stream or sys.stdout
    if not has_width(out):
        return DEFAULT_WIDTH
    if out is not sys.stdout and "COLUMNS" not in os.environ:  # stdout itself may go elsewhere
        return os.get_terminal_size(out.fileno()).columns or DEFAULT_WIDTH
    return shutil.get_terminal_size((DEFAULT_WIDTH, 40)).columns


def folded(line: str, stream: TextIO | None = None) -> str:
    """The line broken at spaces, as a terminal needs it; whole for a file or a pipe."""
    out = stream or sys.stdout
    if not has_width(out):
        return line
    return "\n".join(hanging(line, output_width(out), len(line) - len(line.lstrip())))


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


def log_format() -> LogFormat:
    """The format of log lines that the command line or the environment asks for; text for any other value."""
    return LogFormat.JSON if os.environ.get(ENVIRONMENT_LOG_FORMAT) == LogFormat.JSON else LogFormat.TEXT


def note(text: str, *, quiet: bool = False) -> None:
    """Print one line for the operator on stderr."""
    if not quiet:
        _line(text, "info", visible(text))


def complain(text: str, line: str) -> None:
    """Print an error on stderr, quiet or not; `line` is the line as text."""
    _line(text, "error", line)


def _line(text: str, level: str, line: str) -> None:
    if log_format() is LogFormat.JSON:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json_text({"at": at, "level": level, "program": "rebalance-audit", "pid": os.getpid(), "message": text})
    else:
        line = folded(line, sys.stderr)
    print(line, file=sys.stderr, flush=True)
