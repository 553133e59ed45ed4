"""Numbers, times and foreign text as people's words. Pure: no reading, no streamlit, no clock.

What is not known is said ("not known: …"), never 0 and never blank. Text from clients leaves here visible (control
characters drawn), cut in the middle, and escaped for where it is going: `Html` for pages, `markdown` for link labels.
"""

from __future__ import annotations

import html
import unicodedata
from datetime import UTC, datetime, tzinfo
from string import Formatter
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

LONGEST_NAME = 60
"""Characters of a client's text that fit on a line of a phone twice; longer is cut in the middle."""

TRIGGER_WORDS = {
    "member_joined": "a member joined",
    "member_left": "a member left",
    "member_session_expired": "a member vanished (session expired)",
    "member_poll_timeout": "a member processed for too long (poll timeout)",
    "member_dropped_at_rebalance_timeout": "a member did not rejoin in time and was dropped",
    "member_sync_timeout": "a member did not sync in time",
    "subscription_changed": "a subscription changed",
    "topic_metadata_changed": "topics or partitions changed",
    "leader_rejoined": "the leader rejoined",
    "client_requested": "a client asked for it",
    "static_member_replaced": "a static member came back",
    "static_member_expired": "a static member stayed away",
    "group_emptied": "the last member left",
    "coordinator_failover": "the coordinator moved",
    "group_converted": "the group changed its protocol",
    "member_removed_by_admin": "an administrator removed a member",
    "cooperative_follow_up": "second round of a cooperative change",
    "streams_probing": "Streams probing",
    "streams_follow_up": "Streams follow-up",
    "streams_topology_changed": "the Streams topology changed",
    "share_state_initialized": "share state was initialised",
    "connect_worker_joined": "a worker joined",
    "connect_worker_left": "a worker left",
    "connect_config_changed": "a connector's configuration changed",
    "connect_delay_expired": "the scheduled delay ended",
    "connect_revocation_follow_up": "follow-up of a revocation",
    "connect_assignment_failed": "the assignment failed",
    "assignor_changed": "the assignor changed",
    "append_failed": "the group record could not be written",
    "unknown": "not known: no evidence names the cause",
}

_ROUNDS = {
    "cooperative_follow_up": "the second round of a cooperative change",
    "streams_probing": "a probe of Streams",
    "streams_follow_up": "the follow-up of a Streams change",
    "connect_revocation_follow_up": "the follow-up of a revocation",
}
"""Triggers that are no event but a round of the protocol."""

FAMILIES = ("failure", "departure", "arrival", "configuration", "protocol", "unknown")
_FAMILY_OF = {
    "arrival": ("member_joined", "static_member_replaced", "connect_worker_joined"),
    "departure": ("member_left", "group_emptied", "member_removed_by_admin", "connect_worker_left"),
    "failure": (
        "member_session_expired",
        "member_poll_timeout",
        "member_dropped_at_rebalance_timeout",
        "member_sync_timeout",
        "static_member_expired",
        "coordinator_failover",
        "connect_assignment_failed",
        "append_failed",
    ),
    "configuration": (
        "subscription_changed",
        "topic_metadata_changed",
        "leader_rejoined",
        "client_requested",
        "group_converted",
        "streams_topology_changed",
        "connect_config_changed",
        "assignor_changed",
    ),
    "protocol": (
        "cooperative_follow_up",
        "streams_probing",
        "streams_follow_up",
        "share_state_initialized",
        "connect_delay_expired",
        "connect_revocation_follow_up",
    ),
}
FAMILY = {trigger: family for family, triggers in _FAMILY_OF.items() for trigger in triggers}
FAMILY_WORDS = {
    "failure": "failure",
    "departure": "departure",
    "arrival": "arrival",
    "configuration": "configuration",
    "protocol": "the protocol's own work",
    "unknown": "cause not known",
}
FAMILY_SIGN = {
    "failure": "\u2715",
    "departure": "\u25bc",
    "arrival": "\u25b2",
    "configuration": "\u25a0",
    "protocol": "\u00b7",
    "unknown": "?",
}
"""Colour is never alone: each family has a sign, the same one the time line draws."""

TIER_WORDS = {
    "recorded": "recorded by the broker",
    "logged": "said by a log line",
    "inferred": "follows from records",
    "unknown": "not known",
}
TIER_SENTENCES = {
    "recorded": "the broker recorded it",
    "logged": "a log line says so",
    "inferred": "it follows from records",
    "unknown": "how that is known is not known",
}
OUTCOME_WORDS = {
    "completed": "completed",
    "emptied": "the group emptied",
    "superseded": "superseded before anyone was assigned",
    "failed": "failed",
    "missing": "missing: the number was skipped and nothing tells why",
    "open": "open: still running, or evidence ends inside it",
}
MODE_WORDS = {
    "eager": "eager (everyone stops)",
    "cooperative": "cooperative",
    "incremental": "incremental (Connect)",
    "server": "server-side",
    "unknown": "mode not known",
}
SEVERITY_WORDS = {"critical": "Critical", "warning": "Warning", "info": "Info"}
STATE_WORDS = {
    "RUNNING": "running",
    "UNASSIGNED": "unassigned",
    "PAUSED": "paused",
    "STOPPED": "stopped",
    "FAILED": "failed",
    "RESTARTING": "restarting",
    "WAITING": "waiting by design (scheduled delay)",
    "LOST": "lost with its worker",
}


_CONTROL_NAMES = {"\0": "NUL", "\t": "TAB", "\n": "LF", "\r": "CR", "\x1b": "ESC", "\x7f": "DEL"}


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


def visible(text: str) -> str:
    """Every character shown: control characters by name, direction and zero-width ones by number."""
    return "".join(_visible_char(c) for c in text)


def _visible_char(char: str) -> str:
    if char in _CONTROL_NAMES:
        return f"\u2039{_CONTROL_NAMES[char]}\u203a"
    if char != " " and unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
        return f"\u2039U+{ord(char):04X}\u203a"
    return char


def cut(text: str, most: int = LONGEST_NAME) -> str:
    """At most so many characters, the middle left out: what differs is mostly at the ends."""
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}\u2026{text[len(text) - tail :]}"


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


def markdown(text: str) -> str:
    """Plain text for a label that Streamlit reads as markdown: no link, picture, formula or emoji comes of it."""
    return "".join(f"\\{c}" if c in _MARKDOWN_SIGNS else c for c in text)


def count(number: int | None, one: str, many: str | None = None) -> str:
    """`1 rebalance`, `2,014 rebalances`."""
    if number is None:
        return f"not known: number of {many or one + 's'}"
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def duration(ms: float | None) -> str:
    """`48 ms`, `12.3 s`, `4 min 5 s`, `3 h 20 min`, `2 d 4 h`."""
    if ms is None:
        return "not known"
    sign, size = ("\u2212", -ms) if ms < 0 else ("", ms)
    value, unit = _in_unit(size)
    if unit is not None:
        return f"{sign}{value} {unit}"
    return f"{sign}{_in_two_units(size)}"


def _in_unit(size: float) -> tuple[str, str | None]:
    if size < 999.5:
        return f"{size:.0f}", "ms"
    if size < 59_950:
        return f"{size / 1000:.1f}", "s"
    return "", None


def _in_two_units(size: float) -> str:
    seconds = round(size / 1000)
    for unit, length, smaller, part in (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1)):
        if seconds >= length:
            whole, rest = divmod(seconds, length)
            return f"{whole:,} {unit}" + (f" {rest // part} {smaller}" if rest // part else "")
    return f"{seconds} s"


def bounds(lower: float | None, estimate: float | None, upper: float | None, why_not: str = "") -> str:
    """`12.3 s (10.0 … 13.4)`. A bound no evidence gives is called `not bounded`."""
    if estimate is None:
        return f"not known: {why_not or 'no evidence of when it stopped or went on'}"
    shown = duration(estimate)
    if lower is None and upper is None:
        return f"{shown} (not bounded)"
    unit = _in_unit(abs(estimate))[1]
    is_one_unit = unit is not None and all(_in_unit(abs(end))[1] == unit for end in (lower, upper) if end is not None)
    ends = [
        "not bounded" if end is None else duration(end).removesuffix(f" {unit}") if is_one_unit else duration(end)
        for end in (lower, upper)
    ]
    return f"{shown} ({ends[0]} \u2026 {ends[1]})"


def pause(lower: float | None, estimate: float | None, upper: float | None, why_not: str = "") -> str:
    """A pause with its bounds; less than none is an overlap, and said so."""
    if estimate is None or estimate >= 0:
        return bounds(lower, estimate, upper, why_not)
    turned = (None if upper is None else -upper, -estimate, None if lower is None else -lower)
    return f"none, but two owners for {bounds(*turned)}"


def _seconds_number(value: float) -> str:
    if 0 < abs(value) < 0.095:
        return f"{value:.2f}" if abs(value) >= 0.005 else "under 0.01"
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def seconds(value: float | None, unit: str = "resource") -> str:
    """Damage: `24.9 partition-seconds`, `1,234 task-seconds`."""
    if value is None:
        return f"not known: {unit}-seconds"
    return f"{_seconds_number(value)} {unit}-seconds"


def seconds_bounds(lower: float | None, estimate: float | None, upper: float | None, unit: str) -> str:
    if estimate is None:
        return f"not known: {unit}-seconds, no resource's pause is known"
    ends = ["not bounded" if end is None else _seconds_number(end) for end in (lower, upper)]
    return f"{_seconds_number(estimate)} {unit}-seconds ({ends[0]} \u2026 {ends[1]})"


def resource(protocol_type: str | None, number: int | None = 1) -> str:
    """What a group of this protocol hands out."""
    one = "task" if protocol_type == "connect" else "partition"
    return one if number == 1 else f"{one}s"


def things(protocol_type: str | None, number: int | None) -> str:
    """So many of what a group of this protocol hands out: Connect hands out connectors beside tasks."""
    if protocol_type == "connect":
        return count(number, "task or connector", "tasks and connectors")
    return count(number, "partition")


def zone(name_of_zone: str | None) -> tzinfo:
    """The reader's zone; UTC where the browser does not tell or names one nobody knows."""
    if not name_of_zone:
        return UTC
    try:
        return ZoneInfo(name_of_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _moment(at_ms: int, tz: tzinfo) -> datetime | None:
    try:
        return datetime.fromtimestamp(at_ms / 1000, tz)
    except (OverflowError, OSError, ValueError):
        return None


def instant(at_ms: int | None, tz: tzinfo = UTC) -> str:
    """`2026-11-21 14:03:11.231 CET`."""
    if at_ms is None:
        return "not known"
    moment = _moment(at_ms, tz)
    if moment is None:
        return f"not a date: {at_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} {moment:%Z}"


def minute(at_ms: int | None, tz: tzinfo = UTC) -> str:
    """`2026-11-21 14:03 CET`: where milliseconds would be noise."""
    if at_ms is None:
        return "not known"
    moment = _moment(at_ms, tz)
    return f"not a date: {at_ms} ms" if moment is None else f"{moment:%Y-%m-%d %H:%M %Z}"


def clock(at_ms: int | None, tz: tzinfo = UTC) -> str:
    """`14:03:11.231`, where the day and zone are said nearby."""
    moment = None if at_ms is None else _moment(at_ms, tz)
    return "not known" if moment is None else f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def ago(at_ms: int | None, now_ms: int) -> str:
    if at_ms is None:
        return "not known when"
    gap = now_ms - at_ms
    if abs(gap) < 1000:
        return "just now"
    rough = duration(gap if abs(gap) < 60_000 else round(abs(gap) / 60_000) * 60_000)
    return f"{rough} ago" if gap > 0 else f"in {rough.lstrip(chr(0x2212))}"


def when(at_ms: int | None, now_ms: int, tz: tzinfo) -> str:
    """Absolute and relative: `2026-11-21 14:03 CET, 12 min ago`."""
    return "not known when" if at_ms is None else f"{minute(at_ms, tz)}, {ago(at_ms, now_ms)}"


def trigger(value: str) -> str:
    return TRIGGER_WORDS.get(value, name(value))


def because(value: str) -> str:
    """The cause as the end of a sentence: `because a member joined`, `as Streams probing`."""
    if value == "unknown":
        return "for a cause not known"
    if value in _ROUNDS:
        return f"as {_ROUNDS[value]}"
    return f"because {trigger(value)}"


def family(value: str) -> str:
    return FAMILY.get(value, "unknown")


def number_of(generation_id: int | None, group_epoch: int | None, rewrite_seq: int = 0) -> str:
    """`generation 7`, `epoch 12`, `generation 7, rewritten (1)`."""
    if generation_id is None and group_epoch is None:
        return "number not known"
    base = f"generation {generation_id}" if generation_id is not None else f"epoch {group_epoch}"
    return f"{base}, rewritten ({rewrite_seq})" if rewrite_seq else base


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
