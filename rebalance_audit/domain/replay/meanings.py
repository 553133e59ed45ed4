"""What a setting does, for somebody who never read its KIP: one sentence each."""

from __future__ import annotations

from collections.abc import Mapping

_BY_NAME: Mapping[str, str] = {
    "group.instance.id": "each process has a name that outlives it: closed and started again it takes up its "
    "partitions without a rebalance, and until then they wait for it, for as long as the session",
    "internal.leave.group.on.close": "a member that closes does not say so: its partitions wait for its session to end",
    "session.timeout.ms": "so long after its last heartbeat a member counts as dead, and its partitions go to others",
    "heartbeat.interval.ms": "members ask so often whether the group rebalances: the others wait for the last to hear",
    "max.poll.interval.ms": "a member that takes longer over one poll than this loses its partitions",
    "max.poll.records": "a poll holds no more records than this: it is done, and the member heard of, sooner",
    "group.initial.rebalance.delay.ms": "a group that starts from nothing waits so long for more members",
    "group.remote.assignor": "how the broker shares partitions out",
    "group.consumer.session.timeout.ms": "so long after its last heartbeat a member counts as dead, and its partitions "
    "go to others",
    "group.consumer.heartbeat.interval.ms": "members hear so often what they are to give up and to take",
    "scheduled.rebalance.max.delay.ms": "the tasks of a worker that is gone wait so long for it to come back",
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


def meanings_of(settings: Mapping[str, str]) -> list[str]:
    """`name: what it does`, of the settings as they are asked for."""
    found = []
    for name, value in settings.items():
        meaning = _BY_VALUE.get(f"{name}={value}") or _BY_NAME.get(name) or _BY_NAME_OTHERWISE.get(name)
        if meaning is not None:
            found.append(f"{name}: {meaning}")
    return found
