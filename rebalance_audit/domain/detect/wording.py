"""Words and numbers as people read them; shared by the rules, the explanation and the report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from rebalance_audit.domain.visible import visible

_VISIBLE_WIDTH = 60
_NUMBERED = re.compile(r"(.+)-(\d{1,9})\Z", re.DOTALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shown(text: str, width: int = _VISIBLE_WIDTH) -> str:
    """Text from a client, safe on one line: `visible`, and cut in the middle."""
    if len(text) > 4 * width:  # spelling out only lengthens it: no need to look at a megabyte
        text = text[: 2 * width] + "…" + text[-2 * width :]
    whole = visible(text)
    if len(whole) <= width:
        return whole
    head = (width - 1) * 2 // 3
    return whole[:head] + "…" + whole[len(whole) - (width - 1 - head) :]


def duration(ms: float) -> str:
    """48 ms, 12.3 s, 4 min 10 s, 2 h 5 min, 3 d 2 h."""
    if ms < 0:
        return "-" + duration(-ms)
    whole = round(ms)
    if whole < 1_000:
        return f"{whole} ms"
    if whole < 59_950:
        return f"{ms / 1_000:.1f} s".replace(".0 s", " s")
    seconds = round(ms / 1_000)
    if seconds < 3_600:
        return _two_units(seconds, 60, "min", 1, "s")
    if seconds < 86_400:
        return _two_units(seconds, 3_600, "h", 60, "min")
    return _two_units(seconds, 86_400, "d", 3_600, "h")


def _two_units(seconds: int, size: int, unit: str, small_size: int, small_unit: str) -> str:
    large, rest = divmod(seconds, size)
    small = rest // small_size
    return f"{large:,} {unit}" + (f" {small} {small_unit}" if small else "")


def bounded(estimate_ms: float | None, lower_ms: float | None, upper_ms: float | None) -> str:
    """`12.3 s (10 s … 13.4 s)`; an upper bound that nothing gives is named, never left out.

    A lower bound below zero means that two owners may have worked at once, which stood still for no time.
    """
    if estimate_ms is None:
        return "not known"
    if lower_ms is not None and lower_ms < 0 <= estimate_ms:
        lower_ms = 0
    if lower_ms is None and upper_ms is None:
        return duration(estimate_ms)
    lower = "not known" if lower_ms is None else duration(lower_ms)
    upper = "no upper bound" if upper_ms is None else duration(upper_ms)
    if lower == upper == duration(estimate_ms):
        return lower
    return f"{duration(estimate_ms)} ({lower} … {upper})"


def likely(estimate_ms: float | None, lower_ms: float | None, upper_ms: float | None) -> str:
    """`12.3 s, likely 11.9 to 12.6 s`: a pause with its likely range; the estimate alone where both are the same."""
    if estimate_ms is None:
        return "not known"
    text = duration(estimate_ms)
    if lower_ms is None or upper_ms is None:
        return text
    lower, upper = duration(max(lower_ms, 0) if estimate_ms >= 0 else lower_ms), duration(upper_ms)
    if lower == upper == text:
        return text
    return f"{text}, likely {_to(lower, upper)}"


def two_owners(overlap_ms: int, likely_upper_ms: int | None) -> str:
    """`two owners at once for 7.6 s`; `two owners at once for up to 7.6 s, or nobody for up to 9 s` where the old owner
    may as well have stood still. `likely_upper_ms`: of the pause."""
    if likely_upper_ms is None or likely_upper_ms <= 0:
        return f"two owners at once for {duration(overlap_ms)}"
    return f"two owners at once for up to {duration(overlap_ms)}, or nobody for up to {duration(likely_upper_ms)}"


def likely_seconds(estimate: float | None, lower: float | None, upper: float | None) -> str:
    """`91.6 (likely 88.0 to 95.2)`: resource-seconds with their likely range."""
    if estimate is None:
        return "not known"
    text = f"{estimate:,.1f}"
    if lower is None or upper is None or f"{lower:,.1f}" == f"{upper:,.1f}" == text:
        return text
    return f"{text} (likely {lower:,.1f} to {upper:,.1f})"


def seconds_bounds(lower: float | None, upper: float | None) -> str:
    """`[20.1 … 27.0]`: hard bounds in resource-seconds."""
    first = "not known" if lower is None else f"{lower:,.1f}"
    last = "no upper bound" if upper is None else f"{upper:,.1f}"
    return f"[{first} … {last}]"


def _to(lower: str, upper: str) -> str:
    """The unit once, where it is the same."""
    number, _, unit = lower.rpartition(" ")
    return f"{number} to {upper}" if number.count(" ") == 0 and upper.endswith(f" {unit}") else f"{lower} to {upper}"


def clock(at_ms: int | None) -> str:
    """`2026-11-21 14:03:11 UTC`; instants no calendar has are shown as they are. A finding stands at 0 where nothing of
    its cluster could be read that has a time."""
    if not at_ms:
        return "time not known"
    try:
        return (_EPOCH + timedelta(milliseconds=at_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:
        return f"{at_ms} ms after 1970"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 partition`, `1,200 partitions`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def thing_of(unit: str) -> str:
    """What stands still, of costs in this unit: `task`, `partition`, or both where the unit is `resource`."""
    return "partition or task" if unit == "resource" else unit


def seconds_of(unit: str) -> str:
    """The name of a cost's unit: `task-seconds`; of partitions and tasks added up `partition- or task-seconds`."""
    return "partition- or task-seconds" if unit == "resource" else f"{unit}-seconds"


def meaning_of_unit(unit: str) -> str:
    """What a cost counts, in a sentence. `unit`: task, partition or resource."""
    return f"A {seconds_of(unit)[:-1]} is one {thing_of(unit)} that nobody works on for a second."


def things(count: int, noun: str, protocol_type: str | None) -> str:
    """So many of what a group hands out: Connect hands out connectors beside tasks."""
    if protocol_type == "connect":
        return counted(count, "task or connector", "tasks and connectors")
    return counted(count, noun)


def folded(resources: Iterable[str], most: int = 8) -> str:
    """`orders-0 … orders-3, billing-7`: runs of three and more numbers become one; at most `most` pieces."""
    numbered: dict[str, list[int]] = {}
    plain: list[str] = []
    for resource in sorted(set(resources)):
        match = _NUMBERED.match(resource)
        if match and str(int(match[2])) == match[2]:
            numbered.setdefault(match[1], []).append(int(match[2]))
        else:
            plain.append(resource)
    pieces: list[tuple[str, int]] = [(shown(name), 1) for name in plain]
    for name, numbers in sorted(numbered.items()):
        safe = shown(name)
        for run in _runs(sorted(numbers)):
            if len(run) >= 3:
                pieces.append((f"{safe}-{run[0]} … {safe}-{run[-1]}", len(run)))
            else:
                pieces.extend((f"{safe}-{n}", 1) for n in run)
    if len(pieces) <= most:
        return ", ".join(text for text, _ in pieces)
    rest = sum(size for _, size in pieces[most:])
    return ", ".join(text for text, _ in pieces[:most]) + f" and {rest} more"


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return runs


def zones_not_known(nodes: Sequence[str]) -> str:
    """That log times of these nodes may be off by hours."""
    names = listed([shown(node) for node in nodes], 5)
    if len(nodes) == 1:
        return f"the zone of {names}'s log times is not known and was taken for UTC (say it with --log-time-zone)"
    return f"the zones of the log times of {names} are not known and were taken for UTC (say them with --log-time-zone)"


def listed(items: Sequence[str], most: int = 3) -> str:
    """`a`, `a and b`, `a, b and 4 more`."""
    if len(items) <= 1:
        return "".join(items)
    if len(items) <= most:
        return ", ".join(items[:-1]) + " and " + items[-1]
    return ", ".join(items[: most - 1]) + f" and {len(items) - most + 1} more"
