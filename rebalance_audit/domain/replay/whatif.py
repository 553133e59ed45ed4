"""Seconds that other settings would have saved a group, and the price they would have had instead.

The history is replayed under the settings that were in force first. Only where it comes out again is anything said.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from math import hypot

from rebalance_audit.domain.client_families import shown

from .assignors import NotAssigned
from .in_force import families_in, in_force_of
from .libraries import properties, refusing, refusing_together
from .life import Script
from .meanings import leans, range_in_doubt
from .outcome import ReplayRun
from .requests import OF_DEPLOYS, RequestError, requested
from .settings import GroupSettings
from .situation import LAST_STEP_MS, Situation, base_of, costs_more, deploys_in, runs_of, settled_after_ms
from .standstill import Standstill

LEAST_FIT = 0.9
COST_SLACK = 1.5
"""A replay that costs so many times more than measured, or less, is no replay of this history."""
CHANGED_ERROR = 0.06
"""What the model itself may be off by, as a share of what other settings change, column by column; what stays as it was
is known from the history. The first 15 pairs that nobody had looked at (tests/pairs_unseen) all lie inside with 4 %, 14
with none."""
MISSED_SHARE = 0.8
"""The replay under the settings in force misses the measured cost by so much; under others it may miss as much again,
less what the measuring is off by. With this and STRETCH_SECONDS as many of the golden histories lie in the range of
their own replay as with 8 % of the cost, and their ranges are narrower."""
STRETCH_SECONDS = 0.01
"""How long members take to react, stop and start differs by so much from machine to machine, for each time that a
partition stands still."""
COLUMNS = {
    "owner_idle_seconds": "standing still while the owner was gone or too slow",
    "between_owners_seconds": "standing still on the way from one owner to the next",
    "first_wait_seconds": "waiting for the first assignment",
}
"""Of a Standstill, in words."""
SMALL_SHARE = 0.05
"""A difference below this share of the cost is called none."""
ROUNDING_SECONDS = 0.002
"""What is compared with a rounded saving may be off by so much."""
SMALL_SECONDS = 2.0
"""Costs that differ by less are not held against a replay: short pauses, measured to some tens of milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How well the replay under the settings in force gives the history again."""

    rebalances: float
    """Share of the rebalances found again, and none beside them; 1 is all. Median of the runs."""
    causes: float
    """Share of those with the same cause in the same order."""
    cost_seconds: float
    """The replay's cost, median of the runs."""
    measured_seconds: float
    measured_lower_seconds: float
    measured_upper_seconds: float | None
    beyond_pauses_seconds: float
    """As in `Measured`."""
    refused: str | None
    """Why nothing is predicted; None if something is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The outcome under one set of settings. Numbers are None where it is refused."""

    settings: Mapping[str, str]
    saved_seconds: float | None = None
    saved_lower_seconds: float | None = None
    saved_upper_seconds: float | None = None
    cost_seconds: float | None = None
    cost_lower_seconds: float | None = None
    cost_upper_seconds: float | None = None
    rebalances: int | None = None
    cost: Standstill | None = None
    why: str = ""
    refused: str | None = None
    properties: Mapping[str, Sequence[str]] = field(default_factory=dict)
    in_force: Mapping[str, str] = field(default_factory=dict)
    """What these settings were in the history; without those that it does not show."""
    client_libraries: tuple[str, ...] | None = None
    """Those that members may use; None where one's may be any."""

    @property
    def is_small(self) -> bool:
        """It saves nothing, or too little beside the cost to be named."""
        saved = self.saved_seconds or 0.0
        return saved <= SMALL_SHARE * (saved + (self.cost_seconds or 0.0))

    @property
    def pairs(self) -> tuple[str, ...]:
        """The settings as they are asked for: `name=value`."""
        return tuple(f"{name}={value}" for name, value in self.settings.items())


def fit_of(situation: Situation) -> Fit:
    found, alike = [], []
    base = base_of(situation, LAST_STEP_MS)
    for run in base:
        replayed = [r.trigger for r in run.rebalances]
        most = max(len(replayed), len(situation.causes), 1)
        found.append(min(len(replayed), len(situation.causes)) / most)
        alike.append(_alike(situation.causes, replayed) / most)
    measured = situation.measured
    cost = statistics.median(run.cost.standstill_seconds for run in base)
    rebalances, causes = statistics.median(found), statistics.median(alike)
    fit = Fit(
        rebalances=round(rebalances, 3),
        causes=round(causes, 3),
        cost_seconds=round(cost, 3),
        measured_seconds=round(measured.cost.standstill_seconds, 3),
        measured_lower_seconds=round(measured.lower_seconds, 3),
        measured_upper_seconds=None if measured.upper_seconds is None else round(measured.upper_seconds, 3),
        beyond_pauses_seconds=round(measured.beyond_pauses_seconds, 3),
        refused=None,
    )
    return replace(fit, refused=_too_bad(situation, fit))


def _alike(causes: Sequence[str], replayed: list[str]) -> int:
    """How many are the same in the same order."""
    if list(causes) == replayed:
        return len(causes)
    blocks = SequenceMatcher(None, causes, replayed, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks)


def _too_bad(situation: Situation, fit: Fit) -> str | None:
    share = min(fit.rebalances, fit.causes)
    if share < LEAST_FIT:
        cause = "; ".join(situation.script.unexplained[:3]) or "some of its causes are outside the model"
        return f"replayed under its own settings the history comes out to {share:.0%} only ({cause})"
    measured = fit.measured_seconds
    if abs(fit.cost_seconds - measured) > SMALL_SECONDS and not (
        measured / COST_SLACK <= fit.cost_seconds <= measured * COST_SLACK
    ):
        replayed = {
            name: statistics.median(getattr(run.cost, name) for run in base_of(situation, LAST_STEP_MS))
            for name in COLUMNS
        }
        seen = {name: getattr(situation.measured.cost, name) for name in COLUMNS}
        most = max(COLUMNS, key=lambda name: abs(replayed[name] - seen[name]))
        return (
            f"replayed under its own settings the history costs {fit.cost_seconds:.1f} s where {measured:.1f} s were "
            f"measured; they differ most in {COLUMNS[most]}, {replayed[most]:.1f} s replayed and {seen[most]:.1f} s "
            f"measured"
        )
    return None


def request_of(situation: Situation, pairs: Sequence[str]) -> tuple[dict[str, str], GroupSettings]:
    """RequestError where the settings cannot be."""
    sessions = [life.session_timeout_ms for life in situation.script.lives if life.session_timeout_ms]
    asked, settings = requested(pairs, situation.in_force, situation.slots, min(sessions, default=None))
    if settings.changes_deploys and not deploys_in(situation):
        name = next(name for name in asked if name in OF_DEPLOYS)
        raise RequestError(
            f"--set {name}: the history has no deploy, that is two members that are closed and started again one after "
            f"another; leave it out."
        )
    if settings.max_poll_records is not None and refusing(situation.script.lives, asked) is None:
        _refuse_polls(situation.script, settings.max_poll_records)
    return asked, settings


def _refuse_polls(script: Script, records: int) -> None:
    """RequestError where the history does not show what fewer records in a poll would have changed."""
    stalls = [stall for life in script.lives for stall in life.stalls]
    asked = f"--set max.poll.records={records}"
    if not stalls:
        raise RequestError(
            f"{asked}: no member was busy beyond its poll interval, so polls of fewer records save nothing here; leave "
            f"it out."
        )
    if any(stall.full_poll is None or stall.until_ms is None for stall in stalls):
        raise RequestError(
            f"{asked}: how many records a poll held and how long they took does not show before every time a member "
            f"was too slow; that needs commits, at least 10 s apart, of full polls, from --evidence, -b or a "
            f"warehouse, and a member that came back; set max.poll.interval.ms instead."
        )
    held = min(stall.full_poll.records for stall in stalls if stall.full_poll is not None)
    if records >= held:
        raise RequestError(
            f"{asked}: polls held {held} records; what more of them would have made too slow is not in the history; "
            f"give fewer."
        )


def can_save(situation: Situation, pairs: Sequence[str], least_of: Callable[[float], float]) -> bool:
    """Whether the first run saves as much as `least_of` says of the cost in seconds, which is without outages.
    RequestError where the settings cannot be, TooLittle where the history cannot be replayed."""
    _, settings = request_of(situation, pairs)
    after_ms = settled_after_ms(situation, settings)
    first = base_of(situation, after_ms)[0]
    cost_seconds = first.cost.standstill_seconds
    most_seconds = cost_seconds - least_of(cost_seconds - first.outages_seconds) + ROUNDING_SECONDS
    try:
        return not costs_more(situation, settings, after_ms, most_seconds)
    except NotAssigned:
        return False


def option_of(situation: Situation, pairs: Sequence[str]) -> Option:
    """RequestError where the settings cannot be, TooLittle where the history cannot be replayed."""
    return option_and_run(situation, pairs)[0]


def option_and_run(situation: Situation, pairs: Sequence[str]) -> tuple[Option, ReplayRun | None]:
    """The option with the run whose cost is the median; None where it is refused. Raises RequestError like
    `option_of`."""
    asked, settings = request_of(situation, pairs)
    lives = situation.script.lives
    refused = refusing(lives, asked)
    if refused is None and settings.group_protocol == "classic":
        refused = refusing_together(lives, settings)
    if refused is not None:
        return Option(settings=asked, refused=refused), None
    after_ms = settled_after_ms(situation, settings)
    base = base_of(situation, after_ms)
    try:
        runs = runs_of(situation, settings, after_ms)
    except NotAssigned as failed:
        return Option(settings=asked, refused=str(failed)), None
    base, runs = _without_what_both_have(base, runs)
    pairs_of_cost = [
        (before.cost.standstill_seconds, after.cost.standstill_seconds)
        for before, after in zip(base, runs, strict=True)
    ]
    saved_by_run = sorted(before - after for before, after in pairs_of_cost)
    costs = sorted(after for _, after in pairs_of_cost)
    error = _model_error(situation, base, runs)
    saved_lower, saved, saved_upper = _range(saved_by_run, error)
    lost = statistics.median(before for before, _ in pairs_of_cost)
    saved_upper = max(saved, min(saved_upper, lost))  # nobody saves more than there is to lose
    cost_lower, cost, cost_upper = _range(costs, error)
    families = families_in(situation.script)
    middle = sorted(runs, key=lambda run: run.cost.standstill_seconds)[len(runs) // 2]
    option = Option(
        settings=asked,
        saved_seconds=round(saved, 3),
        saved_lower_seconds=round(saved_lower, 3),
        saved_upper_seconds=round(saved_upper, 3),
        cost_seconds=round(cost, 3),
        cost_lower_seconds=round(max(0.0, cost_lower), 3),
        cost_upper_seconds=round(cost_upper, 3),
        rebalances=round(statistics.median(len(run.rebalances) for run in runs)),
        cost=middle.cost,
        properties=properties(asked, situation.slots, families, is_connect=situation.script.protocol_type == "connect"),
        in_force=in_force_of(situation, asked),
        client_libraries=shown(families),
    )
    return replace(
        option,
        why=_why(base, runs, option)
        + _price(situation.in_force, settings)
        + _polls_measured(situation.script, settings),
    ), middle


def _model_error(situation: Situation, base: Sequence[ReplayRun], runs: Sequence[ReplayRun]) -> float:
    """Seconds. Its parts do not depend on each other, nor on the spread of the runs: all together are the root of
    their squares."""
    own = statistics.median(run.cost.standstill_seconds for run in base_of(situation, LAST_STEP_MS))
    missed = abs(own - situation.measured.cost.standstill_seconds)
    changed = (
        statistics.median(getattr(run.cost, name) for run in runs)
        - statistics.median(getattr(run.cost, name) for run in base)
        for name in COLUMNS
    )
    stretches = statistics.median(run.stretches for run in runs)
    return hypot(*(CHANGED_ERROR * seconds for seconds in changed), MISSED_SHARE * missed, STRETCH_SECONDS * stretches)


def _range(ordered: Sequence[float], error: float) -> tuple[float, float, float]:
    """(lower, median, upper) of runs and of the model's error."""
    middle, last = statistics.median(ordered), len(ordered) - 1
    below, above = middle - ordered[round(0.05 * last)], ordered[round(0.95 * last)] - middle
    return middle - hypot(below, error), middle, middle + hypot(above, error)


def _without_what_both_have(
    base: Sequence[ReplayRun], runs: Sequence[ReplayRun]
) -> tuple[list[ReplayRun], list[ReplayRun]]:
    """An outage costs nothing where both have it: no change of settings saves it, and the measured cost is without."""
    both = [min(before.outages_seconds, after.outages_seconds) for before, after in zip(base, runs, strict=True)]
    return list(map(_less_dark, base, both)), list(map(_less_dark, runs, both))


def _less_dark(run: ReplayRun, seconds: float) -> ReplayRun:
    if seconds == 0:
        return run
    cost = replace(run.cost, owner_idle_seconds=run.cost.owner_idle_seconds - seconds)
    return replace(run, cost=cost, outages_seconds=run.outages_seconds - seconds)


def _why(runs: Sequence[ReplayRun], others: Sequence[ReplayRun], option: Option) -> str:
    """`others`: the runs under the option's settings."""
    base = sorted(runs, key=lambda run: run.cost.standstill_seconds)[len(runs) // 2]
    before, after = base.cost, option.cost or Standstill()
    saved = option.saved_seconds or 0.0
    lower, upper = option.saved_lower_seconds or 0.0, option.saved_upper_seconds or 0.0
    total = before.standstill_seconds
    was, is_now = len(base.rebalances), option.rebalances
    count = f"as many rebalances ({was})" if was == is_now else f"{is_now} rebalances instead of {was}"
    in_doubt, is_small = f"likely {range_in_doubt(lower, upper, 's')}", abs(saved) < SMALL_SHARE * total
    if lower <= 0 <= upper and (is_small or not leans(saved, lower, upper)):
        verdict = f"no difference beyond the spread of the replays of {total:.1f} s ({in_doubt})"
    elif lower <= 0 <= upper:
        what = f"save {saved:.1f} s of" if saved > 0 else f"cost {-saved:.1f} s more than"
        verdict = f"may {what} {total:.1f} s, but that is not sure ({in_doubt})"
    elif is_small:
        verdict = f"hardly any difference: {abs(saved):.1f} s {'less' if saved > 0 else 'more'} of {total:.1f} s"
    elif saved > 0:
        verdict = f"saves {saved:.1f} s of {total:.1f} s (likely {lower:.1f} to {upper:.1f})"
    else:
        verdict = f"costs {-saved:.1f} s more than {total:.1f} s (likely {-upper:.1f} to {-lower:.1f})"
    least = max(0.2, 0.02 * total)
    parts = [*_dark(statistics.median(_fewer_dark(runs, others)), least)]
    for name, words in COLUMNS.items():
        old, new = getattr(before, name), getattr(after, name)
        if abs(new - old) >= least:
            parts.append(f"{words}: {new:.1f} s instead of {old:.1f} s")
    return "; ".join([verdict, count, *parts])


def _fewer_dark(runs: Sequence[ReplayRun], others: Sequence[ReplayRun]) -> list[float]:
    return [before.outages_seconds - after.outages_seconds for before, after in zip(runs, others, strict=True)]


def _dark(fewer_seconds: float, least: float) -> Iterable[str]:
    """The cost in which no process runs at all, where the settings change it."""
    if fewer_seconds >= least:
        yield f"in {fewer_seconds:.1f} s of what is saved no member ran: no saving if the group was stopped on purpose"
    elif fewer_seconds <= -least:
        yield f"in {-fewer_seconds:.1f} s of what it costs no member runs"


def _price(before: GroupSettings, after: GroupSettings) -> str:
    """Remarks that no column shows."""
    was_ms, is_ms = before.heartbeat_interval_ms, after.heartbeat_interval_ms
    is_same = before.group_protocol == after.group_protocol
    return f"; brokers get {was_ms / is_ms:.1f} times the heartbeats" if is_same and is_ms < was_ms else ""


def _polls_measured(script: Script, settings: GroupSettings) -> str:
    """What fewer records in a poll are judged by."""
    if settings.max_poll_records is None:
        return ""
    slowest = max(
        (stall.full_poll for life in script.lives for stall in life.stalls if stall.full_poll is not None),
        key=lambda poll: poll.took_ms / poll.records,
    )
    per_record_ms = slowest.took_ms / slowest.records
    return f"; before it was too slow, a poll of {slowest.records} records took {per_record_ms:.1f} ms for each"


def ranked(situation: Situation, requests: Iterable[Sequence[str]]) -> list[Option]:
    """Order: the largest median saving first, costlier ones last."""
    options = [option_of(situation, pairs) for pairs in requests]
    return sorted(options, key=lambda o: (o.refused is not None, -(o.saved_seconds or 0.0)))
