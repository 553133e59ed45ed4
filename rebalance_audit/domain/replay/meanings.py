"""What a setting does, and what it can cost, for somebody who never read its KIP: one sentence each."""

from __future__ import annotations

from collections.abc import Mapping

from .requests import in_milliseconds

LEAST_SEEN_SECONDS = 0.5
"""Less is not explained; a choice."""

_BY_NAME: Mapping[str, str] = {
    "group.instance.id": "each process has a name that outlives it: closed and started again it takes its partitions "
    "up without a rebalance; until it is back they wait for it, for as long as session.timeout.ms at most",
    "internal.leave.group.on.close": "a member that closes does not say so: its partitions wait for its session to end",
    "session.timeout.ms": "a member that has sent no heartbeat for this long counts as dead, and others get its "
    "partitions",
    "heartbeat.interval.ms": "how often a member asks whether there is a rebalance: all wait until the last one has "
    "heard of it",
    "max.poll.interval.ms": "a member that works longer than this on the records of one poll loses its partitions",
    "max.poll.records": "a poll hands out no more records than this, so the member is done with them sooner, and polls "
    "again before it counts as too slow",
    "group.initial.rebalance.delay.ms": "a group that starts from nothing waits this long for more members before "
    "anybody gets a partition",
    "group.remote.assignor": "how the broker shares partitions out",
    "group.consumer.session.timeout.ms": "a member that has sent no heartbeat for this long counts as dead, and others "
    "get its partitions",
    "group.consumer.heartbeat.interval.ms": "how often a member asks what it is to give up and to take",
    "scheduled.rebalance.max.delay.ms": "the tasks of a worker that is gone wait this long for it to come back, before "
    "other workers get them",
    "deploy.order": "how many members a deploy restarts at a time",
    "deploy.gap": "how long a deploy waits from a member's start to the next one's close",
    "deploy.restart": "how long a restarted member is away",
    "members": "how many members run",
}
_BY_VALUE: Mapping[str, str] = {
    "group.instance.id=none": "a process that closes leaves its group at once, and others take its partitions over",
    "internal.leave.group.on.close=true": "a member that closes says so: its partitions go to others at once",
    "partition.assignment.strategy=cooperative-sticky": "members keep working on what they keep, and only what moves "
    "stands still; it moves in a second rebalance",
    "group.protocol=consumer": "the broker shares partitions out and moves them one by one, and nobody stops for the "
    "others",
    "connect.protocol=eager": "in each rebalance all connectors and tasks are stopped and shared out again",
}
_BY_NAME_OTHERWISE: Mapping[str, str] = {
    "partition.assignment.strategy": "all give everything up in each rebalance, and partitions are shared out again",
    "group.protocol": "a member leads the group, and all join again in each rebalance",
    "connect.protocol": "workers keep what they run in a rebalance, and only what moves is stopped",
}


_PRICES: Mapping[str, str] = {
    "group.instance.id": "the partitions of a process that does not come back stand still until its session ends, and "
    "two processes with one name put each other out",
    "group.instance.id=none": "each restart is two rebalances",
    "internal.leave.group.on.close": "the partitions of a process that is closed for good stand still until its "
    "session ends",
    "internal.leave.group.on.close=true": "each restart is two rebalances",
    "max.poll.records": "more polls, each with fewer records",
    "partition.assignment.strategy": "in each rebalance all members stop",
    "partition.assignment.strategy=cooperative-sticky": "what moves waits for a second rebalance, and the change takes "
    "two deploys",
    "group.protocol": "in each rebalance all members wait for the slowest",
    "group.protocol=consumer": "needs brokers from 4.0 on and clients that know it (KIP-848); how often members ask "
    "and when a silent one counts as dead is set at the brokers then, for all groups or one by one",
    "connect.protocol": "what moves waits for a second rebalance",
    "connect.protocol=eager": "all tasks stop in each rebalance, and for each connector that is made or changed",
    "deploy.order": "the more at a time, the fewer work meanwhile",
    "deploy.gap": "the longer it is, the longer the deploy takes",
    "members": "more processes to run, or more work for each of them",
}
_LATER = "a dead member is noticed later"
_PAUSES = "a member that only pauses is taken for dead sooner"
_REQUESTS = "the brokers get more requests"
_PRICES_BY_LENGTH: Mapping[str, tuple[str, str]] = {
    "session.timeout.ms": (_LATER, _PAUSES),
    "heartbeat.interval.ms": ("all wait longer in each rebalance", _REQUESTS),
    "max.poll.interval.ms": (
        "a member that hangs keeps its partitions longer",
        "a member that is slow for a while loses its partitions sooner",
    ),
    "group.initial.rebalance.delay.ms": (
        "a group that starts begins to work later",
        "a group that starts takes more rebalances",
    ),
    "group.consumer.session.timeout.ms": (_LATER, _PAUSES),
    "group.consumer.heartbeat.interval.ms": ("what moves waits longer", _REQUESTS),
    "scheduled.rebalance.max.delay.ms": (
        "a dead worker's tasks wait longer",
        "tasks move away and back more often while a worker is only restarted",
    ),
}
"""Of a time that becomes longer, and of one that becomes shorter."""
_OF_BROKERS = ("group.initial.rebalance.delay.ms", "group.consumer.")


def prices_of(settings: Mapping[str, str], in_force: Mapping[str, str]) -> list[str]:
    """`name: what it can cost`, whether or not the replayed history has a case of it. `in_force`: what settings were,
    as far as that is known."""
    prices = ((name, _price(name, value, in_force.get(name))) for name, value in settings.items())
    return [f"{name}: {price}" for name, price in prices if price is not None]


def _price(name: str, value: str, was: str | None) -> str | None:
    if name not in _PRICES_BY_LENGTH:
        return _PRICES.get(f"{name}={value}") or _PRICES.get(name)
    longer, shorter = _PRICES_BY_LENGTH[name]
    value = in_milliseconds(value)
    if was is not None and was.isdecimal() and value.isdecimal():
        price = longer if int(value) > int(was) else shorter
    else:
        price = f"if it becomes longer, {longer}; if shorter, {shorter}"
    return f"{price}; it holds for all groups of the brokers" if name.startswith(_OF_BROKERS) else price


def meanings_of(settings: Mapping[str, str]) -> list[str]:
    """`name: what it does`, of the settings as they are asked for."""
    found = []
    for name, value in settings.items():
        meaning = _BY_VALUE.get(f"{name}={value}") or _BY_NAME.get(name) or _BY_NAME_OTHERWISE.get(name)
        if meaning is not None:
            found.append(f"{name}: {meaning}")
    return found


def leans(saved: float, lower: float, upper: float) -> bool:
    """Whether replays say which of saving and harm is likelier, although their range has both: their middle is farther
    from no difference than the other end of the range."""
    return saved > -lower if saved > 0 else -saved > upper


def range_in_doubt(lower: float, upper: float, unit: str = "") -> str:
    """The range of a saving that may be harm. `unit`: what its numbers count, if that is not said before."""
    counted = f" {unit}" if unit else ""
    return f"{max(0.0, upper):,.1f}{counted} less to {max(0.0, -lower):,.1f} more"


def beyond_pauses(seconds: float | None) -> str | None:
    """Why the cost as measured is higher than the sum of the group's pauses; None where it is not, or not by enough to
    be seen."""
    if seconds is None or seconds < LEAST_SEEN_SECONDS:
        return None
    return (
        f"{seconds:,.1f} s of what was measured are no pause elsewhere: a busy member was put out, and others waited "
        "for its partitions (it may still have worked on them), or a group that had just started waited for its first "
        "ones."
    )
