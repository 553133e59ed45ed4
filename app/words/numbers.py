"""Counts, durations and costs in words. What is not known is shown as not known, never as 0 and never blank."""

from __future__ import annotations

from rebalance_audit.domain.detect.wording import seconds_of


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
    """`12.3 s (10.0 … 13.4)`. Where no evidence gives an end, it says so."""
    if estimate is None:
        return f"not known: {why_not or 'no evidence of when it stopped or went on'}"
    shown = duration(estimate)
    if lower is None and upper is None:
        return f"{shown} (no bounds)"
    unit = _in_unit(abs(estimate))[1]
    is_one_unit = unit is not None and all(_in_unit(abs(end))[1] == unit for end in (lower, upper) if end is not None)
    ends = [
        none if end is None else duration(end).removesuffix(f" {unit}") if is_one_unit else duration(end)
        for end, none in ((lower, "no lower bound"), (upper, "no upper bound"))
    ]
    return f"{shown} ({ends[0]} \u2026 {ends[1]})"


def pause(lower: float | None, estimate: float | None, upper: float | None, why_not: str = "") -> str:
    """A pause with its bounds. Less than none is an overlap, and said so: no duration is shown below zero."""
    if estimate is None or (estimate >= 0 and (lower is None or lower >= 0)):
        return bounds(lower, estimate, upper, why_not)
    if estimate >= 0:
        ends = "no upper bound" if upper is None else duration(upper)
        return f"{duration(estimate)} (from two owners for {duration(-(lower or 0))} \u2026 {ends})"
    most = f" (at most {duration(-lower)})" if lower is not None and lower < estimate else ""
    if upper is None:
        other = ", or a pause with no upper bound"
    else:
        other = f", or a pause of {duration(upper)} at most" if upper > 0 else ""
    return f"none, but two owners for {duration(-estimate)}{most}{other}"


def pause_likely(
    lower: float | None,
    estimate: float | None,
    upper: float | None,
    likely_lower: float | None,
    likely_upper: float | None,
) -> str:
    """`12.3 s, likely 12.1 to 12.6 s`; as `pause` where no likely range is known, or two owners are about."""
    if estimate is None or estimate < 0 or likely_lower is None or likely_upper is None:
        return pause(lower, estimate, upper)
    low, high = max(0.0, likely_lower), max(0.0, likely_upper)
    said = duration(estimate)
    if duration(low) == duration(high) == said:
        return said
    unit = _in_unit(estimate)[1]
    is_one_unit = unit is not None and _in_unit(low)[1] == _in_unit(high)[1] == unit
    first = duration(low).removesuffix(f" {unit}") if is_one_unit else duration(low)
    return f"{said}, likely {first} to {duration(high)}"


def ends(lower: float | None, upper: float | None) -> str:
    """What evidence gives for certain: `2.0 s \u2026 18.1 s`."""
    first = "no lower bound" if lower is None else duration(max(0.0, lower))
    last = "no upper bound" if upper is None else duration(max(0.0, upper))
    return f"{first} \u2026 {last}"


def _seconds_number(value: float) -> str:
    if 0 < abs(value) < 0.095:
        return f"{value:.2f}" if abs(value) >= 0.005 else "under 0.01"
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def seconds(value: float | None, unit: str = "resource") -> str:
    """A cost: `24.9 partition-seconds`, `1,234 task-seconds`."""
    if value is None:
        return f"not known: {seconds_of(unit)}"
    return f"{_seconds_number(value)} {seconds_of(unit)}"


def costs(partition_seconds: float | None, task_seconds: float | None) -> str:
    """`132 partition-seconds and 91.6 task-seconds`, which cannot be added up; empty if neither is known. Of none and
    some, only the some is said."""
    both = ((partition_seconds, "partition"), (task_seconds, "task"))
    known = [(cost, unit) for cost, unit in both if cost is not None]
    some = [(cost, unit) for cost, unit in known if cost > 0]
    return " and ".join(seconds(cost, unit) for cost, unit in some or known[:1])


def unit_of_costs(partition_seconds: float | None, task_seconds: float | None) -> str | None:
    """What these costs count: `partition`, `task`, or `resource` where there are both; None where there is no cost."""
    units = [unit for cost, unit in ((partition_seconds, "partition"), (task_seconds, "task")) if cost]
    return units[0] if len(units) == 1 else "resource" if units else None


def seconds_likely(lower: float | None, estimate: float | None, upper: float | None, unit: str) -> str:
    """`91.6 task-seconds, likely 88.0 to 95.2`; without a range where none is known or all three are the same."""
    said = seconds(estimate, unit)
    if estimate is None or lower is None or upper is None:
        return said
    low, high = _seconds_number(lower), _seconds_number(upper)
    return said if low == high == _seconds_number(estimate) else f"{said}, likely {low} to {high}"


def seconds_bounds(lower: float | None, estimate: float | None, upper: float | None, unit: str) -> str:
    """`91.6 task-seconds (66.1 \u2026 101)`."""
    if estimate is None:
        return "not known"
    return f"{_seconds_number(estimate)} {seconds_of(unit)} ({seconds_ends(lower, upper)})"


def seconds_ends(lower: float | None, upper: float | None) -> str:
    """What evidence gives for certain of a cost: `66.1 \u2026 101`."""
    first = "no lower bound" if lower is None else _seconds_number(lower)
    last = "no upper bound" if upper is None else _seconds_number(upper)
    return f"{first} \u2026 {last}"
