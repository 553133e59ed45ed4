"""What other settings would have saved a group, and what they would have cost instead.

The history is replayed under the settings that were in force first. Only where it comes out again is anything said.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from random import Random

from rebalance_audit.domain.model import Rebalance

from .connect_history import connect_delay_of, connect_script_of
from .deploys import deploys_of, redeployed
from .history import script_of
from .libraries import properties, refusing
from .life import End, Script
from .measured import Measured, measured_cost, server_timing_of, timing_of
from .outcome import ReplayRun
from .replay import replay
from .requests import OF_DEPLOYS, SESSION_LIMITS_MS, RequestError, requested
from .settings import ASSIGNORS, CONNECT_PROTOCOLS, SERVER_ASSIGNORS, GroupSettings
from .standstill import Standstill
from .timing import Timing

RUNS = 21
"""Replays of each set of settings, each with its own draws; the same seeds for all sets."""
LEAST_FIT = 0.9
FEWEST_REBALANCES = 3
LAST_STEP_MS = 1_000
"""A history often ends with a member's last word; its replay may say it some milliseconds later. A choice."""
SETTLED_MS = 150_000
"""Replays that are compared go on so long after the history ends, at least; a choice."""
SETTLED_AFTER_SESSION_MS = 30_000
"""… and so long after the longest session, in which members hear of an expiry; a choice."""
COST_SLACK = 1.5
"""A replay that costs so many times more than measured, or less, is no replay of this history."""
SMALL_SECONDS = 2.0
"""Costs that differ by less are not held against a replay: short pauses, measured to some tens of milliseconds."""


class TooLittle(Exception):
    """The history cannot be replayed: one sentence why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How well the replay under the settings in force gives the history again."""

    rebalances: float
    """Share of the rebalances found again, and none beside them; 1 is all. Median of the runs."""
    causes: float
    """Share of those with the same cause in the same order."""
    cost_seconds: float
    """What the replay costs, median of the runs."""
    measured_seconds: float
    measured_lower_seconds: float
    measured_upper_seconds: float | None
    refused: str | None
    """Why nothing is predicted; None if something is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What one set of settings would have come to. Numbers are None where it is refused."""

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


@dataclass(slots=True)
class Situation:
    """One group's history, ready to be replayed."""

    script: Script
    timing: Timing
    measured: Measured
    causes: tuple[str, ...]
    in_force: GroupSettings
    base: dict[int, list[ReplayRun]] = field(default_factory=dict)
    """Runs under the settings in force, by how long they go on after the history ends."""

    @property
    def slots(self) -> list[str]:
        return list(dict.fromkeys(life.slot for life in self.script.lives))


def situation_of(rows: Sequence[Rebalance], until_ms: int) -> Situation:
    """`rows` of one group, measured, in the order they happened. TooLittle where they cannot be replayed."""
    group = rows[0].group_id if rows else ""
    counted = [r for r in rows if r.kind == "rebalance" and r.outcome not in ("failed", "missing")]
    if len(counted) < FEWEST_REBALANCES:
        raise TooLittle(
            f"The history of group {group!r} is too short to learn from: {len(counted)} rebalances, and at least "
            f"{FEWEST_REBALANCES} are needed; give a longer time or more evidence."
        )
    latest = counted[-1]
    kind = latest.group_type if latest.group_type != "classic" else latest.protocol_type or "consumer"
    if kind == "connect":
        return _connect_situation(rows, counted, until_ms)
    if kind != "consumer":
        raise TooLittle(f"Group {group!r} is a {kind} group; consumers and Connect workers are replayed, no others.")
    is_server = latest.group_type == "consumer"
    timing = server_timing_of(rows) if is_server else timing_of(rows)
    session_ms = timing.session_ms if is_server else None
    script = script_of(rows, until_ms, session_ms=session_ms, heartbeat_ms=timing.heartbeat_ms)
    if script.assignor not in (SERVER_ASSIGNORS if is_server else ASSIGNORS):
        raise TooLittle(
            f"Group {group!r} uses the assignor {script.assignor!r}, which is not one of Kafka's own; what it would "
            f"do is not known."
        )
    in_force = GroupSettings(
        group_protocol="consumer" if is_server else "classic",
        assignor=script.assignor,
        heartbeat_ms=3_000 if is_server else timing.heartbeat_ms,
        initial_delay_ms=timing.initial_delay_ms,
    )
    if is_server:
        in_force = replace(
            in_force, consumer_heartbeat_ms=timing.heartbeat_ms, consumer_session_timeout_ms=timing.session_ms
        )
    return Situation(script, timing, measured_cost(rows), tuple(r.trigger for r in counted), in_force)


def _connect_situation(rows: Sequence[Rebalance], counted: Sequence[Rebalance], until_ms: int) -> Situation:
    script = connect_script_of(rows, until_ms)
    protocol = "eager" if script.assignor == "default" else script.assignor
    if protocol not in CONNECT_PROTOCOLS:
        raise TooLittle(f"Group {script.group_id!r} uses Connect's protocol {protocol!r}, which is not known.")
    timing = timing_of(rows)
    in_force = GroupSettings(
        assignor=protocol,
        heartbeat_ms=timing.heartbeat_ms,
        initial_delay_ms=timing.initial_delay_ms,
        connect_delay_ms=connect_delay_of(rows),
    )
    return Situation(script, timing, measured_cost(rows), tuple(r.trigger for r in counted), in_force)


def runs_of(situation: Situation, settings: GroupSettings, after_ms: int) -> list[ReplayRun]:
    """`after_ms`: how long the runs go on after the history ends, so that what happened last is paid for in full."""
    script = redeployed(situation.script, settings)
    script = replace(script, until_ms=situation.script.until_ms + after_ms)
    are_compared = after_ms > LAST_STEP_MS
    return [
        replay(script, settings, situation.timing, Random(seed), counts_outages=are_compared) for seed in range(RUNS)
    ]


def base_of(situation: Situation, after_ms: int) -> list[ReplayRun]:
    if after_ms not in situation.base:
        situation.base[after_ms] = runs_of(situation, situation.in_force, after_ms)
    return situation.base[after_ms]


def _after_ms(situation: Situation, settings: GroupSettings) -> int:
    lives = [life.session_timeout_ms or 0 for life in situation.script.lives]
    waits = [settings.session_timeout_ms or 0, settings.consumer_session_timeout_ms, *lives]
    if situation.script.protocol_type == "connect":
        waits.append(2 * settings.connect_delay_ms)
    return max(SETTLED_MS, max(waits) + SETTLED_AFTER_SESSION_MS)


def fit_of(situation: Situation) -> Fit:
    found, alike = [], []
    base = base_of(situation, LAST_STEP_MS)
    for run in base:
        told = [r.trigger for r in run.rebalances]
        most = max(len(told), len(situation.causes), 1)
        found.append(min(len(told), len(situation.causes)) / most)
        blocks = SequenceMatcher(None, situation.causes, told, autojunk=False).get_matching_blocks()
        alike.append(sum(block.size for block in blocks) / most)
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
        refused=None,
    )
    return replace(fit, refused=_too_bad(situation, fit))


def _too_bad(situation: Situation, fit: Fit) -> str | None:
    share = min(fit.rebalances, fit.causes)
    if share < LEAST_FIT:
        cause = "; ".join(situation.script.unexplained[:3]) or "some of its causes are outside the model"
        return f"replayed under its own settings the history comes out to {share:.0%} only ({cause})"
    measured = fit.measured_seconds
    if abs(fit.cost_seconds - measured) > SMALL_SECONDS and not (
        measured / COST_SLACK <= fit.cost_seconds <= measured * COST_SLACK
    ):
        return (
            f"replayed under its own settings the history costs {fit.cost_seconds:.1f} s where {measured:.1f} s were "
            f"measured"
        )
    return None


def request_of(situation: Situation, pairs: Sequence[str]) -> tuple[dict[str, str], GroupSettings]:
    """RequestError where the settings cannot be."""
    sessions = [life.session_timeout_ms for life in situation.script.lives if life.session_timeout_ms]
    asked, settings = requested(pairs, situation.in_force, situation.slots, min(sessions, default=None))
    if settings.changes_deploys and not deploys_of(situation.script):
        name = next(name for name in asked if name in OF_DEPLOYS)
        raise RequestError(
            f"--set {name}: the history has no deploy, that is two members that are closed and started again one after "
            f"another; leave it out."
        )
    return asked, settings


def option_of(situation: Situation, pairs: Sequence[str]) -> Option:
    """RequestError where the settings cannot be."""
    asked, settings = request_of(situation, pairs)
    refused = refusing(situation.script.lives, asked)
    if refused is not None:
        return Option(settings=asked, refused=refused)
    after_ms = _after_ms(situation, settings)
    base, runs = base_of(situation, after_ms), runs_of(situation, settings, after_ms)
    pairs_of_cost = [
        (before.cost.standstill_seconds, after.cost.standstill_seconds)
        for before, after in zip(base, runs, strict=True)
    ]
    saved = sorted(before - after for before, after in pairs_of_cost)
    costs = sorted(after for _, after in pairs_of_cost)
    middle = sorted(runs, key=lambda run: run.cost.standstill_seconds)[len(runs) // 2]
    option = Option(
        settings=asked,
        saved_seconds=round(statistics.median(saved), 3),
        saved_lower_seconds=round(_quantile(saved, 0.05), 3),
        saved_upper_seconds=round(_quantile(saved, 0.95), 3),
        cost_seconds=round(statistics.median(costs), 3),
        cost_lower_seconds=round(_quantile(costs, 0.05), 3),
        cost_upper_seconds=round(_quantile(costs, 0.95), 3),
        rebalances=round(statistics.median(len(run.rebalances) for run in runs)),
        cost=middle.cost,
        properties=properties(asked, situation.slots, is_connect=situation.script.protocol_type == "connect"),
    )
    return replace(option, why=_why(base, option))


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[round(share * (len(ordered) - 1))]


def _why(runs: Sequence[ReplayRun], option: Option) -> str:
    base = sorted(runs, key=lambda run: run.cost.standstill_seconds)[RUNS // 2]
    before, after = base.cost, option.cost or Standstill()
    saved = option.saved_seconds or 0.0
    lower, upper = option.saved_lower_seconds or 0.0, option.saved_upper_seconds or 0.0
    total = before.standstill_seconds
    count = f"{len(base.rebalances)} → {option.rebalances} rebalances"
    if lower <= 0 <= upper or abs(saved) < 0.05 * total:
        verdict = f"no saving that stands out of the spread ({lower:.1f} … {upper:.1f} s of {total:.1f} s)"
    elif saved > 0:
        verdict = f"saves {saved:.1f} s of {total:.1f} s ({lower:.1f} … {upper:.1f})"
    else:
        verdict = f"costs {-saved:.1f} s more than {total:.1f} s ({-upper:.1f} … {-lower:.1f})"
    parts = []
    for name, words in (
        ("owner_idle_seconds", "with an owner that is away"),
        ("between_owners_seconds", "between two owners"),
        ("first_wait_seconds", "before the first assignment"),
    ):
        old, new = getattr(before, name), getattr(after, name)
        if abs(new - old) >= max(0.2, 0.02 * total):
            parts.append(f"{words} {old:.1f} → {new:.1f} s")
    return f"{verdict}; {count}" + (f"; {', '.join(parts)}" if parts else "")


def candidates(situation: Situation) -> list[list[str]]:
    """What could help this group, each as it would be asked for."""
    script = situation.script
    if script.protocol_type == "connect":
        return _connect_candidates(situation)
    if situation.in_force.group_protocol == "consumer":
        return _server_candidates(situation)
    sessions = [life.session_timeout_ms for life in script.lives if life.session_timeout_ms]
    session_ms = max(sessions, default=45_000)
    is_static = any(life.instance_id is not None for life in script.lives)
    found = [["group.instance.id=none"]] if is_static else [["group.instance.id=auto"]]
    if not is_static:
        found += [["group.instance.id=auto", f"session.timeout.ms={ms}"] for ms in (45_000, 120_000) if ms > session_ms]
    if any(life.end is End.CRASHED for life in script.lives):
        shorter = [ms for ms in (6_000, 10_000, 20_000) if ms < session_ms and ms > situation.in_force.heartbeat_ms]
        found += [[f"session.timeout.ms={ms}"] for ms in shorter]
        found += [[f"session.timeout.ms={ms}"] for ms in (45_000,) if ms > session_ms]
    strategies = ("range", "sticky", "cooperative-sticky")
    found += [[f"partition.assignment.strategy={name}"] for name in strategies if name != script.assignor]
    if situation.in_force.heartbeat_ms > 1_000:
        found.append(["heartbeat.interval.ms=1000"])
    found.append(["group.protocol=consumer"])
    if any(life.stalls for life in script.lives):
        interval_ms = max(life.rebalance_timeout_ms or 300_000 for life in script.lives)
        found += [[f"max.poll.interval.ms={interval_ms * times}"] for times in (2, 4)]
    found += [
        [f"group.initial.rebalance.delay.ms={ms}"] for ms in (0, 3_000) if ms != situation.in_force.initial_delay_ms
    ]
    return found


def _connect_candidates(situation: Situation) -> list[list[str]]:
    in_force = situation.in_force
    delays = (0, 10_000, 60_000, 300_000) if in_force.is_cooperative else ()
    found = [[f"scheduled.rebalance.max.delay.ms={ms}"] for ms in delays if ms != in_force.connect_delay_ms]
    found.append([f"connect.protocol={'eager' if in_force.is_cooperative else 'sessioned'}"])
    if in_force.heartbeat_ms > 1_000:
        found.append(["heartbeat.interval.ms=1000"])
    lives = situation.script.lives
    sessions = [life.session_timeout_ms for life in lives if life.session_timeout_ms]
    if any(life.end is End.CRASHED for life in lives) and max(sessions, default=0) > SESSION_LIMITS_MS[0]:
        found.append([f"session.timeout.ms={SESSION_LIMITS_MS[0]}"])
    return found


def _server_candidates(situation: Situation) -> list[list[str]]:
    is_static = any(life.instance_id is not None for life in situation.script.lives)
    found = [["group.instance.id=none"]] if is_static else [["group.instance.id=auto"]]
    beats = (1_000, 2_000, 5_000)
    found += [
        [f"group.consumer.heartbeat.interval.ms={ms}"] for ms in beats if ms < situation.in_force.consumer_heartbeat_ms
    ]
    session_ms = situation.in_force.consumer_session_timeout_ms
    found += [[f"group.consumer.session.timeout.ms={ms}"] for ms in (10_000, 20_000, 45_000) if ms != session_ms]
    found += [[f"group.remote.assignor={name}"] for name in SERVER_ASSIGNORS if name != situation.in_force.assignor]
    return [*found, ["group.protocol=classic"]]


def _deploy_candidates(situation: Situation) -> list[list[str]]:
    return [["deploy.order=all-at-once"], ["deploy.order=2"]] if deploys_of(situation.script) else []


def ranked(situation: Situation) -> list[Option]:
    """What saves most in the median first; what costs more last."""
    tried = [*candidates(situation), *_deploy_candidates(situation)]
    options = [option_of(situation, pairs) for pairs in tried]
    return sorted(options, key=lambda o: (o.refused is not None, -(o.saved_seconds or 0.0)))
