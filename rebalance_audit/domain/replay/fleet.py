"""The changes of settings that would save a group the most: rows of gold.whatif, for a fleet's list.

A fleet's groups are replayed less often than one that is asked for by name: their latest rebalances only, each set of
settings once, and the best of them in some runs more; those of the costliest groups in as many.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import inf

from rebalance_audit.domain.model import Rebalance

from .candidates import candidates
from .requests import RequestError
from .settings import ADVISED_WITHOUT_ASKING
from .situation import LAST_STEP_MS, Situation, TooLittle, base_of, situation_of
from .whatif import (
    COST_SLACK,
    LEAST_FIT,
    SMALL_SECONDS,
    SMALL_SHARE,
    Fit,
    Option,
    can_save,
    fit_of,
    option_of,
    ranked,
)

FLEET_RUNS = 3
"""The same, where all groups of a fleet are replayed."""
COSTLIEST = 20
"""So many groups of a fleet are replayed as often as one that is asked for by name, so that both answers agree; a
choice: the ten changes worth most are nearly always among theirs."""
LATEST_REBALANCES = 200
"""So many of a group are replayed at most; a choice: about 0.2 s of CPU time with all options."""
ONE_RUN_SHARE = 0.5
"""One run is believed by itself where it misses by no more than so much of what refuses a replay; a choice."""
TRIED_FIRST = ("heartbeat.interval.ms=", "session.timeout.ms=6000")
OPTIONS_KEPT = 3
"""The best of each group by one run; the others are asked for by name."""
SECONDS_PER_REBALANCE = 0.0006
"""CPU seconds to weigh one rebalance of a group under all options, with all that belongs to it (docs/whatif.md)."""
ASKED_OF_REBALANCES = (
    "cluster_id", "rebalance_id", "group_id", "generation_id", "group_epoch", "group_type", "protocol_type", "kind",
    "outcome", "mode", "assignor", "started_at_ms", "started_lower_ms", "joined_at_ms", "assigned_at_ms", "ended_at_ms",
    "trigger", "connect_delay_ms",
)  # fmt: skip
"""What a replay asks of a Rebalance, beside what is listed in it."""
ASKED_OF_LISTED = {
    "triggers": ("trigger", "tier", "members"),
    "members": (
        "member_id", "group_instance_id", "client_id", "client_host", "worker_url", "change", "session_timeout_ms",
        "rebalance_timeout_ms", "subscribed_topics", "owned_before", "assigned", "revoked", "added", "client_libraries",
    ),
    "movements": (
        "resource_type", "resource", "connector", "task", "kind", "from_member_id", "to_member_id",
        "stopped_at_lower_ms", "stopped_at_upper_ms", "resumed_at_lower_ms", "resumed_at_upper_ms", "pause_lower_ms",
        "pause_estimate_ms", "pause_upper_ms", "pause_detail",
    ),
}  # fmt: skip
"""… and of its causes, members and movements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsAdvice:
    """One set of settings for one group: columns of gold.whatif. Numbers are None where nothing is predicted."""

    cluster_id: str
    group_id: str
    place: int
    """1 is the largest saving of the group."""
    settings: tuple[str, ...]
    """`name=value`; none where nothing is predicted."""
    saved_seconds: float | None = None
    saved_lower_seconds: float | None = None
    saved_upper_seconds: float | None = None
    cost_seconds: float | None = None
    cost_lower_seconds: float | None = None
    cost_upper_seconds: float | None = None
    measured_seconds: float | None = None
    """The group's standing still in these rebalances, as measured."""
    beyond_pauses_seconds: float | None = None
    """The part of it that is no movement's pause."""
    rebalances: int | None = None
    """Rebalances in the replay under these settings."""
    runs: int | None = None
    """Replays that each of these numbers is of."""
    rebalances_replayed: int
    from_ms: int | None = None
    until_ms: int | None = None
    fit_rebalances: float | None = None
    fit_causes: float | None = None
    in_force: tuple[str, ...] = ()
    """What `settings` were in these rebalances; without those that they do not show."""
    client_libraries: tuple[str, ...] | None = None
    """Those that members may use; None where one's may be any."""
    why: str
    """The answer in words, or why there is none."""


def advice_of(rows: Sequence[Rebalance], until_ms: int, run_count: int = FLEET_RUNS) -> list[SettingsAdvice]:
    """The advice for one group, at least one row: where nothing is predicted, it says why. `rows`: the group's
    rebalances, measured, in the order they happened; at least one."""
    earlier, latest = rows[:-LATEST_REBALANCES], rows[-LATEST_REBALANCES:]
    nothing = SettingsAdvice(
        cluster_id=latest[0].cluster_id,
        group_id=latest[0].group_id,
        place=1,
        settings=(),
        rebalances_replayed=len(latest),
        from_ms=_first_ms(latest),
        until_ms=until_ms,
        why="",
    )
    try:
        situation = situation_of(latest, until_ms, earlier[-1] if earlier else None, run_count=run_count)
        situation.keeps_stood = False
        fit = fit_in_few_runs(situation) if run_count == FLEET_RUNS else fit_of(situation)
        options = [] if fit.refused is not None else _best(situation)
    except (TooLittle, RequestError) as error:
        return [replace(nothing, why=str(error))]
    nothing = replace(
        nothing,
        measured_seconds=fit.measured_seconds,
        beyond_pauses_seconds=fit.beyond_pauses_seconds,
        runs=run_count,
        fit_rebalances=fit.rebalances,
        fit_causes=fit.causes,
        why=f"Nothing is predicted: {fit.refused or 'no setting could help'}.",
    )
    found = [_with(nothing, option, place) for place, option in enumerate(options, start=1)]
    return found or [nothing]


def fit_in_few_runs(situation: Situation) -> Fit:
    """By one run where that is far from being refused; else by all of them."""
    once = replace(situation, run_count=1, base={})
    fit = fit_of(once)
    missed = 1 - min(fit.rebalances, fit.causes)
    off_seconds = abs(fit.cost_seconds - fit.measured_seconds)
    slack_seconds = max(SMALL_SECONDS, ONE_RUN_SHARE * (COST_SLACK - 1) * fit.measured_seconds)
    if missed > ONE_RUN_SHARE * (1 - LEAST_FIT) or off_seconds > slack_seconds:
        return fit_of(situation)
    situation.base[LAST_STEP_MS] = once.base[LAST_STEP_MS]
    return fit


def _best(situation: Situation) -> list[Option]:
    """The largest saving first. One run of each set of settings chooses those that are replayed in all: at least one,
    and no other that saves nothing worth naming, but of the costliest groups what is advised to all."""
    situation = replace(situation, kept={})
    fitted = {LAST_STEP_MS: base_of(situation, LAST_STEP_MS)}
    once = replace(situation, run_count=1, base=fitted)
    by_place: dict[int, Option] = {}
    listed = candidates(once)
    for place in sorted(range(len(listed)), key=lambda place: _tried_at(listed[place], place)):
        # A run is not played to its end where it cannot be among those that are kept.
        if can_save(once, listed[place], partial(_least_wanted, by_place.values())):
            option = option_of(once, listed[place])
            if option.refused is None:
                by_place[place] = option
    found = sorted((by_place[place] for place in sorted(by_place)), key=_saved_seconds, reverse=True)
    promising = [o for o in found if not o.is_small] or found[:1]
    kept: list[Sequence[str]] = [o.pairs for o in promising[:OPTIONS_KEPT]]
    if situation.run_count > FLEET_RUNS:
        chosen = {tuple(pairs) for pairs in kept}
        kept += [c for c in listed if ADVISED_WITHOUT_ASKING & set(c) and tuple(c) not in chosen]
    return [o for o in ranked(situation, kept) if o.refused is None]


def _tried_at(pairs: Sequence[str], place: int) -> tuple[bool, int]:
    """What often saves most comes first, since the others end sooner beside it; then the shortest runs, from the end of
    the list on. Only the time depends on it."""
    return not pairs[0].startswith(TRIED_FIRST), -place


def _least_wanted(found: Collection[Option], cost_seconds: float) -> float:
    """One more option that saves less would not be kept beside these."""
    small_seconds = SMALL_SHARE * cost_seconds
    saved = sorted((_saved_seconds(o) for o in found if not o.is_small), reverse=True)
    if saved:
        return max(small_seconds, saved[OPTIONS_KEPT - 1] if len(saved) >= OPTIONS_KEPT else small_seconds)
    return min(small_seconds, max(map(_saved_seconds, found), default=-inf))


def _saved_seconds(option: Option) -> float:
    return option.saved_seconds or 0.0


def _with(nothing: SettingsAdvice, option: Option, place: int) -> SettingsAdvice:
    return replace(
        nothing,
        place=place,
        settings=option.pairs,
        saved_seconds=option.saved_seconds,
        saved_lower_seconds=option.saved_lower_seconds,
        saved_upper_seconds=option.saved_upper_seconds,
        cost_seconds=option.cost_seconds,
        cost_lower_seconds=option.cost_lower_seconds,
        cost_upper_seconds=option.cost_upper_seconds,
        rebalances=option.rebalances,
        in_force=tuple(f"{name}={value}" for name, value in option.in_force.items()),
        client_libraries=option.client_libraries,
        why=option.why,
    )


def _first_ms(rows: Sequence[Rebalance]) -> int | None:
    return next((r.started_at_ms or r.joined_at_ms or r.assigned_at_ms for r in rows), None)


def advice_row(advice: SettingsAdvice) -> dict[str, object]:
    """Columns of gold.whatif."""
    return asdict(advice)
