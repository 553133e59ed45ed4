"""Settings that could help a group, each as a user would ask for it: those that its history can gain from."""

from __future__ import annotations

from itertools import pairwise
from math import inf

from .libraries import refusing
from .life import End, Script
from .requests import SESSION_LIMITS_MS
from .settings import SERVER_ASSIGNORS
from .situation import JAVA_STARTS_MS, Situation, deploys_in

DRAWN_APART_MS = 2 * JAVA_STARTS_MS
"""Two starts may come so much closer in a run than they were."""


def candidates(situation: Situation) -> list[list[str]]:
    """None that a member's library lacks."""
    found = [*_of_protocol(situation), *_deploy_candidates(situation)]
    return [c for c in found if refusing(situation.script.lives, dict(p.split("=", 1) for p in c)) is None]


def _of_protocol(situation: Situation) -> list[list[str]]:
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
        # Longer than it is helps who is back later than that, and soon enough.
        away = _absences_ms(script)
        sessions_ms = [session_ms, *(ms for ms in (45_000, 120_000) if ms > session_ms)]
        found += [
            ["group.instance.id=auto", f"session.timeout.ms={longer_ms}"]
            for shorter_ms, longer_ms in pairwise(sessions_ms)
            if any(shorter_ms - situation.in_force.heartbeat_ms < ms < longer_ms for ms in away)
        ]
    if any(life.end is End.CRASHED for life in script.lives):
        shorter = [ms for ms in (6_000, 10_000, 20_000) if ms < session_ms and ms > situation.in_force.heartbeat_ms]
        found += [[f"session.timeout.ms={ms}"] for ms in shorter]
        found += [[f"session.timeout.ms={ms}"] for ms in (45_000,) if ms > session_ms]
    # Members of eager assignors all let go of everything, whoever gets it next: one of them saves as much as another.
    other = "range" if situation.in_force.is_cooperative else "cooperative-sticky"
    found.append([f"partition.assignment.strategy={other}"])
    if situation.in_force.heartbeat_ms > 1_000:
        found.append(["heartbeat.interval.ms=1000"])
    found.append(["group.protocol=consumer"])
    if any(life.stalls for life in script.lives):
        interval_ms = max(life.rebalance_timeout_ms or 300_000 for life in script.lives)
        found.append([f"max.poll.interval.ms={interval_ms * 2}"])
        stalls = [stall for life in script.lives for stall in life.stalls]
        if any(s.until_ms is None or s.until_ms - s.since.at_ms > interval_ms * 2 for s in stalls):
            found.append([f"max.poll.interval.ms={interval_ms * 4}"])
        held = [stall.full_poll.records if stall.full_poll and stall.until_ms else 0 for stall in stalls]
        found += [[f"max.poll.records={min(held) // part}"] for part in (2, 5) if min(held) >= part]
    in_force_ms = situation.in_force.initial_delay_ms
    found += [
        [f"group.initial.rebalance.delay.ms={ms}"]
        for ms in (0, 3_000)
        if ms != in_force_ms and _has_cold_start(script, ms if ms > in_force_ms else None)
    ]
    return found


def _absences_ms(script: Script) -> list[int]:
    """How long places were empty between two processes."""
    latest: dict[str, int] = {}
    found = []
    for life in sorted(script.lives, key=lambda life: life.started.at_ms if life.started else script.from_ms):
        if life.started is not None and life.slot in latest:
            found.append(life.started.at_ms - latest[life.slot])
        if life.ended is not None:
            latest[life.slot] = life.ended.at_ms
    return found


def _has_cold_start(script: Script, delay_ms: int | None) -> bool:
    """Whether a process starts when none has run for a while: then alone an initial delay is waited for. With
    `delay_ms`: whether another one starts in that delay, too. Where none does, a longer delay only makes the first one
    wait."""
    running_until_ms = script.from_ms if any(life.started is None for life in script.lives) else script.from_ms - 1
    cold_ms: float = -inf
    for life in sorted(script.lives, key=lambda life: life.started.at_ms if life.started else script.from_ms):
        since_ms = life.started.at_ms if life.started else script.from_ms
        if delay_ms is not None and since_ms <= cold_ms + delay_ms + DRAWN_APART_MS:
            return True
        if since_ms > running_until_ms:
            cold_ms = float(since_ms)
            if delay_ms is None:
                return True
        running_until_ms = max(running_until_ms, life.ended.at_ms if life.ended else script.until_ms)
    return False


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
    session_ms, beat_ms = situation.in_force.consumer_session_timeout_ms, situation.in_force.consumer_heartbeat_ms
    sessions_ms = [ms for ms in (10_000, 20_000, 45_000) if ms != session_ms and ms > beat_ms]
    found += [[f"group.consumer.session.timeout.ms={ms}"] for ms in sessions_ms]
    found += [[f"group.remote.assignor={name}"] for name in SERVER_ASSIGNORS if name != situation.in_force.assignor]
    return [*found, ["group.protocol=classic"]]


def _deploy_candidates(situation: Situation) -> list[list[str]]:
    return [["deploy.order=all-at-once"], ["deploy.order=2"]] if deploys_in(situation) else []
