"""When time alone changes what the rules find, so that a run looks again only at the groups for which it may.

A fault is open until it was not seen for a while, so its last moment shows when it will be over. A state that lasts is
shown with its length. To the millisecond, that length would change with every piece of evidence, so it is shown in
steps that grow with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rebalance_audit.domain.detect.limits import DEFAULT, Limits

FIRST_STEP_MS = 60_000
"""1 min: somebody who watches a state begin wants to see it grow, but no rule depends on a second."""
_STEPS = 16
_OF_STATES = frozenset({"RB002", "RB003", "RB010", "RB013", "RB015", "RB017", "CN004", "CN006"})
"""Rules about `History.spells`; RB002 is about single pauses, too."""
OF_FAULTS = frozenset({
    "RB001", "RB004", "RB005", "RB006", "RB007", "RB008", "RB009", "RB014", "RB016", "RB018", "CN002", "CN005",
    "CN008",
})  # fmt: skip
"""Rules about `History.extent`."""
_HOLDS = ("settled_ms", "quiet_ms")
"""Limits that a state must last for."""


def shown_until(first_ms: int, now_ms: int) -> int:
    """The instant until which a state that began at `first_ms` is shown to last. It is at most a minute early, and at
    most a sixteenth of the length early once the state lasts longer than 32 min."""
    lasted_ms = max(now_ms - first_ms, 0)
    step_ms = FIRST_STEP_MS
    while lasted_ms >= 2 * _STEPS * step_ms:
        step_ms *= 2
    return first_ms + lasted_ms - lasted_ms % step_ms


def may_differ(
    rule_id: str, first_seen_at_ms: int, last_seen_at_ms: int, before_ms: int, now_ms: int, limits: Limits
) -> bool:
    """Whether an open finding may differ between `before_ms` and `now_ms` without new evidence about its group."""
    if rule_id not in _OF_STATES and rule_id not in OF_FAULTS:
        return before_ms != now_ms
    if rule_id in _OF_STATES and shown_until(first_seen_at_ms, before_ms) != shown_until(first_seen_at_ms, now_ms):
        return True
    return any(before_ms - last_seen_at_ms <= gap_ms < now_ms - last_seen_at_ms for gap_ms in _quiet_times(limits))


def only_ends(rule_id: str) -> bool:
    """Whether time changes nothing of this rule's open findings but that each is over, once it was not seen for longer
    than `quiet_ms`. (CN008's time is one of each connector.)"""
    return rule_id in OF_FAULTS and rule_id != "CN008"


def quiet_ms(rule_id: str, limits: Limits) -> int:
    """How long a fault that this rule found is open after it was seen last."""
    return {"RB001": limits.storm_quiet_ms, "RB005": limits.flapping_window_ms}.get(rule_id, limits.quiet_ms)


def may_begin(first_at_ms: int, at_ms: int, before_ms: int, now_ms: int, limits: Limits) -> bool:
    """Whether a state that began with this rebalance may be a finding at `now_ms` though it was none at `before_ms`:
    some states must last for a while first. `first_at_ms` and `at_ms` as in HistoryStep."""
    before, now = (shown_until(first_at_ms, t) - at_ms for t in (before_ms, now_ms))
    return any(before < getattr(limits, name) <= now for name in _HOLDS)


def longest_hold_ms(overrides: Iterable[Mapping[str, Any]]) -> int:
    """How long ago a state can have begun for which `may_begin` is true, at most, under any limits that these overrides
    make."""
    longest_ms = max(of[name] for of in (asdict(DEFAULT), *overrides) for name in _HOLDS if name in of)
    return 2 * int(longest_ms) + FIRST_STEP_MS  # what is shown of a length lags behind it


def _quiet_times(limits: Limits) -> Iterator[int]:
    """How long a fault must not be seen before it is over, one time per limit."""
    yield from (limits.quiet_ms, limits.storm_quiet_ms, limits.flapping_window_ms, limits.config_rewrite_window_ms)
    for _, of_connector in limits.of_connectors:
        yield from (value for name, value in of_connector if name == "config_rewrite_window_ms")
