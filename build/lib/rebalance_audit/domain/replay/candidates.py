"""Settings that could help a group, each as a user would ask for it."""

from __future__ import annotations

from .deploys import deploys_of
from .life import End
from .requests import SESSION_LIMITS_MS
from .settings import SERVER_ASSIGNORS
from .situation import Situation


def candidates(situation: Situation) -> list[list[str]]:
    return [*_of_protocol(situation), *_deploy_candidates(situation)]


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
