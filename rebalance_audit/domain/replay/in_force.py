"""The settings a history was made under, as far as it shows them: what stands beside a setting that is asked for."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

from rebalance_audit.domain.client_families import ALL, HABITS, POLL_INTERVAL, REBALANCE, Families, families_shown

from .deploys import Redeployment, deploys_of
from .libraries import library_of
from .life import Life, Script
from .members import most_at_once
from .settings import CONNECT_PROTOCOLS
from .situation import Situation


def in_force_of(situation: Situation, names: Iterable[str]) -> dict[str, str]:
    """The values of these settings, as `--set` takes them; without those that the history does not show."""
    found = {}
    for name in names:
        shown = _SHOWN.get(name)
        value = None if shown is None else shown(situation)
        if value is not None:
            found[name] = value
    return found


def families_in(script: Script) -> Families:
    """The client libraries that the group's members may use."""
    found: Families = frozenset()
    for life in {(life.client_id, life.libraries): life for life in script.lives}.values():
        named = library_of(life) if life.libraries is None else None
        found |= families_shown(life.libraries if named is None else (named,))
    return found or ALL


def _latest(script: Script) -> Iterator[Life]:
    """The last process of each place."""
    yield from {life.slot: life for life in script.lives}.values()


def _times(values: Iterable[int | None]) -> str | None:
    """None where one is not known; members may differ."""
    known = list(values)
    given = [ms for ms in known if ms is not None]
    if not given or len(given) < len(known):
        return None
    least, most = min(given), max(given)
    return str(least) if least == most else f"{least} to {most}"


def _instances(situation: Situation) -> str:
    latest = list(_latest(situation.script))
    static = [life.slot for life in latest if life.instance_id is not None]
    if len(static) == len(latest):
        return "one for each member"
    return ",".join(static) if static else "none"


def _assignor(*, of_protocol: str) -> Callable[[Situation], str | None]:
    def shown(situation: Situation) -> str | None:
        is_connect = situation.in_force.assignor in CONNECT_PROTOCOLS
        protocol = "connect" if is_connect else situation.in_force.group_protocol
        return situation.in_force.assignor if protocol == of_protocol else None

    return shown


def _heartbeat(*, of_protocol: str) -> Callable[[Situation], str | None]:
    def shown(situation: Situation) -> str | None:
        is_shown = "heartbeat_ms" in situation.timing.is_measured
        is_asked = situation.in_force.group_protocol == of_protocol
        return str(situation.in_force.heartbeat_interval_ms) if is_shown and is_asked else None

    return shown


def _broker_session(situation: Situation) -> str | None:
    is_shown = "session_ms" in situation.timing.is_measured and situation.in_force.group_protocol == "consumer"
    return str(situation.in_force.consumer_session_timeout_ms) if is_shown else None


def _measured(name: str) -> Callable[[Situation], str | None]:
    def shown(situation: Situation) -> str | None:
        return str(getattr(situation.in_force, name)) if name in situation.timing.is_measured else None

    return shown


def _poll_interval(situation: Situation) -> str | None:
    """Members say their rebalance timeout, which is the poll interval in some libraries alone."""
    script = situation.script
    own_names = [HABITS[family].settings for family in families_in(script)]
    is_one = all(names[REBALANCE] == names[POLL_INTERVAL] for names in own_names)
    if not is_one and not any(life.stalls for life in script.lives):
        return None
    return _times(life.rebalance_timeout_ms for life in _latest(script))


def _records(situation: Situation) -> str | None:
    stalls = [stall for life in situation.script.lives for stall in life.stalls]
    return _times(stall.full_poll.records if stall.full_poll else None for stall in stalls)


def _dated_deploys(script: Script) -> list[list[Redeployment]]:
    """Those whose closes the history dates: a static member says nothing when it is closed."""
    deploys = deploys_of(script)
    return [deploy for deploy in deploys if all(restart.closed.instance_id is None for restart in deploy)]


def _deploys(times_ms: Callable[[list[Redeployment]], list[int]]) -> Callable[[Situation], str | None]:
    def shown(situation: Situation) -> str | None:
        found = [ms for deploy in _dated_deploys(situation.script) for ms in times_ms(deploy)]
        return f"{statistics.median(found) / 1000:.1f}s" if found else None

    return shown


def _order(situation: Situation) -> str | None:
    """Of the latest deploy."""
    deploys = _dated_deploys(situation.script)
    if not deploys:
        return None
    latest = deploys[-1]
    most = max(sum(other.closed_ms <= r.closed_ms < other.started_ms for other in latest) for r in latest)
    return {1: "one-by-one", len(latest): "all-at-once"}.get(most, str(most))


_SHOWN: Mapping[str, Callable[[Situation], str | None]] = {
    "group.instance.id": _instances,
    "session.timeout.ms": lambda s: _times(life.session_timeout_ms for life in _latest(s.script)),
    "heartbeat.interval.ms": _heartbeat(of_protocol="classic"),
    "max.poll.interval.ms": _poll_interval,
    "max.poll.records": _records,
    "partition.assignment.strategy": _assignor(of_protocol="classic"),
    "group.protocol": lambda s: s.in_force.group_protocol,
    "group.remote.assignor": _assignor(of_protocol="consumer"),
    "group.initial.rebalance.delay.ms": _measured("initial_delay_ms"),
    "group.consumer.session.timeout.ms": _broker_session,
    "group.consumer.heartbeat.interval.ms": _heartbeat(of_protocol="consumer"),
    "connect.protocol": _assignor(of_protocol="connect"),
    "scheduled.rebalance.max.delay.ms": _measured("connect_delay_ms"),
    "deploy.order": _order,
    "deploy.gap": _deploys(lambda deploy: [b.closed_ms - a.started_ms for a, b in pairwise(deploy)]),
    "deploy.restart": _deploys(lambda deploy: [restart.away_ms for restart in deploy]),
    "members": lambda s: str(most_at_once(s.script)),
}
"""`internal.leave.group.on.close` is in no history."""
