"""The head of a log event: when, how loud, which logger. Everything around the message, nothing inside it.

A layout is a setting of whoever runs Kafka, so the head is read apart from the message. Known layouts:

    [2026-11-21 14:00:00,123] INFO message (logger)              Kafka's own; Connect adds (logger:line) and a context
    2026-11-21 14:00:00,123 INFO message (logger) [thread]       operators
    2026-11-21T14:00:00.123+02:00 [thread] INFO logger - message applications
    2026-11-21T14:00:00.123+02:00  INFO 1 --- [thread] logger : message
    {"@timestamp": …, "level": …, "message": …}                  JSON, one object per line

each of them also behind what a container runtime puts in front of a line, or inside Docker's own JSON.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

from rebalance_audit.domain.frozen import maker, quick
from rebalance_audit.domain.protocols.json_object import without_lone_surrogates

QUARTER_HOUR_MS = 900_000
_YEAR_10_000_MS = 253_402_300_800_000
"""By `date -u -d 10000-01-01 +%s`; what is later is no time, and may fit into no column."""

_LEVEL = r"(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)"
_DATE_TIME = r"(\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[,.](\d{1,9}))?"
_ZONE = r" ?(Z|UTC|GMT|[+-]\d\d:?\d\d)?"

# What comes before the line proper. Anchored, of fixed form: a looser one would find heads inside clients' text.
_OUTER = re.compile(
    r"(?:\[pod/[^\]\s]{1,300}\] )?"
    r"(?:(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))(?: (?:stdout|stderr) [FP])? "
    r"|(?P<epoch>\d{10}(?:\d{3}|\.\d{1,9})?) "
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,255} [^\s\[:]{1,100}(?:\[\d+\])?: "
    r"|[\w.-]{1,100} +\| )?"
)
_HEAD = re.compile(
    rf"(?:\[{_DATE_TIME}{_ZONE}\]|{_DATE_TIME}{_ZONE})[ \t]+"
    rf"(?:\[(?P<thread_before>[^\]\n]{{1,200}})\][ \t]+)?"
    rf"(?P<open>\[)?(?P<level>{_LEVEL})(?(open)\])[ \t]+"
)
# The common case, tried before the general one.
_KAFKA_HEAD = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [A-Z]{4,5} ")
_KAFKA_PARTS = re.compile(rf"\[(\d{{4}}-\d\d-\d\d) (\d\d):(\d\d):(\d\d),(\d{{3}})\] ({_LEVEL})[ \t]+")
_SPRING = re.compile(r"\d+ --- (?:\[[^\]\n]{0,100}\] )?\[ *([^\]\n]{1,100})\] +([\w.$\[\]/-]{1,255}) +: ")
_LOGBACK = re.compile(r"(?:\[([^\]\n]{1,200})\] )?([\w.$]{1,255}) +- ")
_LOGGER_TAIL = re.compile(
    r"[ \n]\((?P<logger>[A-Za-z_][\w$-]*(?:\.[\w$-]+)+)(?::(?:\d+|\?))?\)(?: \[(?P<thread>[^\]\n]{1,200})\])?[ \t\r]*\Z"
)
_TAIL_WINDOW = 600
_TAIL_ENDS = (")", "]", " ", "\t", "\r")
_INNER_LOGGER = re.compile(r"[ \n]\([A-Za-z_][\w$-]{0,100}(?:\.[\w$-]{1,100}){1,20}(?::(?:\d+|\?))?\)")
_MAX_INNER_LOGGERS = 8
_CONTEXT = re.compile(r"\[([^\n]{1,300}?\|(?:worker|task-\d+)(?:\|offsets)?)\] ")
_THREAD = re.compile(
    r"\[(?!GroupCoordinator |GroupMetadataManager |Worker clientId=|Consumer |Controller |QuorumController |Partition "
    r"|Broker |ReplicaFetcher|ReplicaManager|GroupId|Group |Producer |AdminClient |KafkaServer |LocalLog |UnifiedLog "
    r"|Log )"
    r"([\w.:#@|/ -]{1,120})\] (?=[\[(A-Z])"
)
_MESSAGE_PREFIXES = ("[GroupCoordinator ", "[GroupMetadataManager ", "[Worker clientId=", "[Consumer ")

_TIME_KEYS = ("@timestamp", "timestamp", "time", "ts", "timeMillis", "instant", "asctime", "date", "epoch")
_LEVEL_KEYS = ("level", "log.level", "severity", "loglevel")
_LOGGER_KEYS = ("logger", "loggerName", "logger_name", "log.logger", "class", "category")
_THREAD_KEYS = ("thread", "threadName", "thread_name", "process.thread.name")
_MESSAGE_KEYS = ("message", "msg", "log.message", "rendered_message")
_CONTEXT_KEYS = ("contextMap", "mdc", "context")


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """One log event taken apart."""

    local_at_ms: int
    """The written time read as if it were UTC."""
    at_ms: int | None = None
    """UTC, where the line itself says its zone or a container runtime wrote the instant beside it."""
    level: str | None = None
    logger: str | None = None
    thread: str | None = None
    context: str | None = None
    """Connect's connector context without brackets, e.g. `my-connector|task-0`."""
    message: str
    """Without head, context and logger; continuation lines included, stack trace left out."""
    has_logger_tail: bool = False
    """The logger stood behind the message: a message cut short is seen by its absence."""
    trailing: str = ""
    """Lines after the logger: a stack trace, or what is left of a text that was broken in two."""


_make_head = maker(LogHead)


def starts_event(line: str) -> bool:
    """Whether this physical line begins a log event; otherwise it continues the one before.

    Text chosen by a client can contain such a line: that cannot be seen here, see `log_lines.parse_lines`.
    """
    if _KAFKA_HEAD.match(line):
        return True
    first = line[:1]
    if first == "{":
        return _json_starts_event(line)
    if not (first.isalnum() or first == "["):
        return False
    if _HEAD.match(line):
        return True
    outer = _OUTER.match(line)
    return outer is not None and outer.end() > 0 and _HEAD.match(line, outer.end()) is not None


def read_head(text: str) -> LogHead | None:
    """The event taken apart; None if it starts with no known head. Never raises."""
    try:
        return _read_json(text) if text.startswith("{") else _read_text(text, None)
    except (ValueError, OverflowError, RecursionError):
        return None


def _read_text(text: str, outer_at_ms: int | None) -> LogHead | None:
    if outer_at_ms is None and (kafka := _KAFKA_PARTS.match(text)) is not None:
        day, hour, minute, second, millis, level = kafka.groups()
        local_at_ms = _day_ms(day) + (int(hour) * 3600 + int(minute) * 60 + int(second)) * 1000 + int(millis)
        return _finish(text[kafka.end() :], local_at_ms, None, level, None)
    at = 0
    match = _HEAD.match(text)
    if match is None or text[:1] != "[":
        outer = _OUTER.match(text)
        if outer is not None and outer.end() > 0:
            inner = _HEAD.match(text, outer.end())
            if inner is not None:
                match, at = inner, outer.end()
                outer_at_ms = _outer_instant(outer, outer_at_ms)
                text = _without_outer(text, outer)
                match = _HEAD.match(text, 0) if at else match
        if match is None:
            return None
    groups = match.groups()
    day, hour, minute, second, fraction, zone = groups[0:6] if groups[0] is not None else groups[6:12]
    local_at_ms = _day_ms(day) + (int(hour) * 3600 + int(minute) * 60 + int(second)) * 1000 + _millis(fraction)
    at_ms: int | None = None
    if zone:
        at_ms = local_at_ms - _zone_ms(zone)
    elif outer_at_ms is not None:
        at_ms = _instant_beside(local_at_ms, outer_at_ms)
    return _finish(text[match.end() :], local_at_ms, at_ms, match["level"], match["thread_before"])


def _finish(rest: str, local_at_ms: int, at_ms: int | None, level: str, thread: str | None) -> LogHead:
    """Message, logger, thread and context out of what follows the level."""
    logger: str | None = None
    first = rest[:1]
    if first.isdigit() and (spring := _SPRING.match(rest)):
        thread, logger, rest = spring[1], spring[2], rest[spring.end() :]
    elif not rest.startswith(_MESSAGE_PREFIXES) and (logback := _LOGBACK.match(rest)) and "." in logback[2]:
        thread, logger, rest = logback[1] or thread, logback[2], rest[logback.end() :]
    has_tail, trailing = False, ""
    if logger is None:
        rest, tail, trailing = _split_tail(rest)
        if tail is not None:
            has_tail, logger, thread = True, tail["logger"], tail["thread"] or thread
    else:
        rest = rest.rstrip("\r\n")
    context: str | None = None
    if rest[:1] == "[" and not rest.startswith(_MESSAGE_PREFIXES):
        if found := _CONTEXT.match(rest):
            context, rest = found[1], rest[found.end() :]
        elif found := _THREAD.match(rest):
            thread, rest = thread or found[1], rest[found.end() :]
            if found := _CONTEXT.match(rest):
                context, rest = found[1], rest[found.end() :]
    return _make_head(
        local_at_ms=local_at_ms,
        at_ms=at_ms,
        level="WARN" if level == "WARNING" else level,
        logger=logger,
        thread=thread,
        context=context,
        message=rest,
        has_logger_tail=has_tail,
        trailing=trailing,
    )


def inner_logger_starts(message: str) -> list[int]:
    """The first few places in a message that look like the end of a line."""
    found: list[int] = []
    at = message.find("(", 1)
    if message.find(".", at) < 0:  # as most are; a logger's name has a dot
        return found
    while at >= 0 and len(found) < _MAX_INNER_LOGGERS:
        inner = _INNER_LOGGER.match(message, at - 1)
        if inner is not None:
            found.append(at - 1)
        at = message.find("(", at + 1 if inner is None else inner.end())
    return found


def _split_tail(text: str) -> tuple[str, re.Match[str] | None, str]:
    """(message, logger tail, lines after it). The last line that ends in a logger closes the message."""
    text = text.rstrip("\r\n")
    end = len(text)
    while True:
        if text[end - 1 : end] in _TAIL_ENDS:
            tail = _logger_tail(text, max(0, end - _TAIL_WINDOW), end)
            if tail is not None:
                return text[: tail.start()], tail, text[end + 1 :]
        end = text.rfind("\n", 0, end)
        if end < 0:
            return text, None, ""


def _logger_tail(text: str, low: int, end: int) -> re.Match[str] | None:
    """The leftmost; looked for at each bracket, since few characters are one: a search tries every blank."""
    if text[end - 1] == ")":  # no thread behind it, so no other bracket opens the tail
        at = text.rfind("(", low + 1, end)
        return _LOGGER_TAIL.match(text, at - 1, end) if at >= 0 else None
    at = text.find("(", low + 1, end)
    while at >= 0:
        if (tail := _LOGGER_TAIL.match(text, at - 1, end)) is not None:
            return tail
        at = text.find("(", at + 1, end)
    return None


@lru_cache(maxsize=4096)
def _day_ms(day: str) -> int:
    return (date(int(day[:4]), int(day[5:7]), int(day[8:10])).toordinal() - 719_163) * 86_400_000


def _millis(fraction: str | None) -> int:
    return int(fraction[:3].ljust(3, "0")) if fraction else 0


def _zone_ms(zone: str) -> int:
    if zone[0] not in "+-":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[-2:])
    return (-minutes if zone[0] == "-" else minutes) * 60_000


def _instant_beside(local_at_ms: int, outer_at_ms: int) -> int | None:
    """The event's own instant, from the runtime's instant of reading the line.

    Only the zone is taken from the runtime: it stamps when it reads, the event says when it was. Zones are whole
    quarters of an hour between -12:00 and +14:00; anything else is a delay, not a zone.
    """
    offset_ms = round((local_at_ms - outer_at_ms) / QUARTER_HOUR_MS) * QUARTER_HOUR_MS
    return local_at_ms - offset_ms if -43_200_000 <= offset_ms <= 50_400_000 else None


def _outer_instant(outer: re.Match[str], known_at_ms: int | None) -> int | None:
    if outer["iso"]:
        return _iso_ms(outer["iso"])
    if outer["epoch"]:
        return _epoch_ms(outer["epoch"])
    return known_at_ms


def _without_outer(text: str, outer: re.Match[str]) -> str:
    """The event without the runtime's prefix, on its continuation lines too."""
    first, newline, rest = text[outer.end() :].partition("\n")
    if not newline:
        return first
    lines = [first]
    for line in rest.split("\n"):
        again = _OUTER.match(line)
        lines.append(line[again.end() :] if again is not None else line)
    return "\n".join(lines)


def _iso_ms(text: str) -> int | None:
    """Epoch milliseconds of an ISO date with a zone; None without one."""
    match = re.match(_DATE_TIME + _ZONE, text)
    if match is None:
        return None
    day, hour, minute, second, fraction, zone = match.groups()
    local = _day_ms(day) + (int(hour) * 3600 + int(minute) * 60 + int(second)) * 1000 + _millis(fraction)
    return local - _zone_ms(zone) if zone else None


def _epoch_ms(text: str) -> int:
    whole, _, fraction = text.partition(".")
    return int(whole) if len(whole) >= 13 else int(whole) * 1000 + _millis(fraction)


def _json_starts_event(line: str) -> bool:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(value, dict):
        return False
    if "log" in value and "stream" in value:
        return isinstance(value["log"], str) and starts_event(value["log"])
    return _json_message(value) is not None and _json_time(value) is not None


def _read_json(text: str) -> LogHead | None:
    first, _, rest = text.rstrip("\r\n").partition("\n")
    value = json.loads(first)
    if not isinstance(value, dict):
        return None
    if "log" in value and "stream" in value:
        inner = "".join([str(value["log"]), *(_docker_line(line) for line in rest.split("\n") if line)])
        return _read_text(without_lone_surrogates(inner), _iso_ms(str(value.get("time", ""))))
    message, times = _json_message(value), _json_time(value)
    if message is None or times is None:
        return None
    logger, thread, level = (_json_text(value, keys) for keys in (_LOGGER_KEYS, _THREAD_KEYS, _LEVEL_KEYS))
    head = _finish(message, times[0], times[1], level or "INFO", thread)
    context = head.context or _json_context(value)
    return LogHead(
        local_at_ms=times[0],
        at_ms=times[1],
        level=(level or "").upper() or None,
        logger=logger or head.logger,
        thread=thread or head.thread,
        context=context,
        message=head.message,
        has_logger_tail=head.has_logger_tail,
        trailing=head.trailing,
    )


def _docker_line(line: str) -> str:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line
    return str(value.get("log", "")) if isinstance(value, dict) else line


def _json_text(value: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        found = value.get(key)
        if isinstance(found, str):
            return without_lone_surrogates(found)
        if found is None and "." in key:
            inner: Any = value
            for part in key.split("."):
                inner = inner.get(part) if isinstance(inner, dict) else None
            if isinstance(inner, str):
                return without_lone_surrogates(inner)
    return None


def _json_message(value: dict[str, Any]) -> str | None:
    return _json_text(value, _MESSAGE_KEYS)


def _json_context(value: dict[str, Any]) -> str | None:
    for key in _CONTEXT_KEYS:
        inner = value.get(key)
        if isinstance(inner, dict) and isinstance(inner.get("connector.context"), str):
            context = without_lone_surrogates(inner["connector.context"])
            return context.strip().removeprefix("[").removesuffix("]") or None
    return None


def _json_time(value: dict[str, Any]) -> tuple[int, int | None] | None:
    """(local, UTC or None) of the first time key that can be read."""
    for key in _TIME_KEYS:
        try:
            instant = _json_instant(value.get(key))
        except (ValueError, OverflowError, TypeError):  # infinity, the 99th of a month, text for a number
            continue
        if instant is not None and 0 <= instant[0] < _YEAR_10_000_MS:
            return instant
    return None


def _json_instant(found: Any) -> tuple[int, int | None] | None:
    if isinstance(found, dict) and isinstance(found.get("epochSecond"), int):
        at = int(found["epochSecond"]) * 1000 + int(found.get("nanoOfSecond", 0)) // 1_000_000
        return at, at
    if isinstance(found, int | float) and not isinstance(found, bool):
        at = int(found if found >= 100_000_000_000 else found * 1000)
        return at, at
    if not isinstance(found, str) or (match := re.match(_DATE_TIME + _ZONE, found)) is None:
        return None
    day, hour, minute, second, fraction, zone = match.groups()
    local = _day_ms(day) + (int(hour) * 3600 + int(minute) * 60 + int(second)) * 1000 + _millis(fraction)
    return local, (local - _zone_ms(zone) if zone else None)
