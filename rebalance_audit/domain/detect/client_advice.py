"""Advice in the words of the client library concerned: no setting that it lacks, and none by another library's name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rebalance_audit.domain.client_families import (
    ALL,
    HABITS,
    INSTANCE,
    POLL_INTERVAL,
    REBALANCE,
    RECORDS,
    SESSION,
    ClientFamily,
    Families,
    families_shown,
)
from rebalance_audit.domain.detect.history import host_of, worker_name
from rebalance_audit.domain.detect.wording import listed, shown
from rebalance_audit.domain.kinds import GroupType
from rebalance_audit.domain.model import Member

WEIGHS = "`rebalance-audit whatif` weighs both"
"""Where a replay of the group is there, what it says stands in place of this (explain/verdicts.py)."""
WEIGH_STATIC = f"but its partitions wait for it: {WEIGHS}"
"""Static membership removed all rebalances of a rolling restart, and tripled its downtime (docs/whatif.md)."""
WEIGH_STICKY = f"but what moves then waits for a second rebalance: {WEIGHS}"
"""A cooperative assignor moved less in a rolling restart, and about doubled its downtime."""
WEIGH_DEPLOY = f"which is not less downtime: {WEIGHS}"
_BROKERS_SESSION = {
    GroupType.CONSUMER: "group.consumer.session.timeout.ms of the brokers",
    GroupType.SHARE: "group.share.session.timeout.ms of the brokers",
    GroupType.STREAMS: "group.streams.session.timeout.ms of the brokers",
}
"""Members of these groups have no session timeout of their own: a consumer that sets one does not start (KIP-848)."""
_WITHOUT_INSTANCES = (GroupType.SHARE, GroupType.STREAMS)
FIND_OUT = "Find out what restarts it (its log before each leaving)."
WORKER_BACK = (
    "Workers know no static membership: one that is back within scheduled.rebalance.max.delay.ms gets its tasks again, "
    "else they go to the others when the delay ends."
)
WORKER_RESTARTS = f"{FIND_OUT} {WORKER_BACK}"
WORKER_DROPPED = (
    "That worker was still stopping or starting connectors and tasks, or its process was frozen: look at its log of "
    "then. A lower rebalance.timeout.ms of the workers shortens the wait of the others."
)
"""A worker stops what it must give up before it joins again, in the thread that joins (DistributedHerder.tick)."""


def families(members: Iterable[Member]) -> Families:
    """The libraries that these members may use; all libraries if nothing is known about one of the members."""
    found = [families_shown(m.client_libraries) for m in members]
    return frozenset().union(*found) or ALL


def setting(name: str, of: Families, group_type: GroupType = GroupType.CLASSIC) -> str | None:
    """The libraries' own name of the setting with this name in Java. None if one of them lacks it, or if groups of this
    type have no such setting. If the library is not known, it is Java's name, which people know best."""
    if name == SESSION and group_type in _BROKERS_SESSION:
        return _BROKERS_SESSION[group_type]
    if name == INSTANCE and group_type in _WITHOUT_INSTANCES:
        return None
    if of == ALL:
        return name
    names = [HABITS[f].settings[name] for f in ClientFamily if f in of]
    known = list(dict.fromkeys(n for n in names if n is not None))
    if None in names or not known:
        return None
    others = listed(known[1:], most=len(known)).replace(" and ", " or ")
    return f"{known[0]} ({others})" if others else known[0]


def where(members: Iterable[Member]) -> str:
    """Where these members ran: `host /10.0.0.9 (c3)`, `the host of c3` where no evidence names it."""
    names: dict[str | None, list[str]] = {}
    for m in members:
        name = f"worker {worker_name(m.worker_url)}" if m.worker_url is not None else _name(m)
        of_host = names.setdefault(None if m.worker_url is not None else host_of(m), [])
        of_host += [name] if name not in of_host else []
    places = [f"host {shown(host)} ({listed(known)})" for host, known in names.items() if host is not None]
    places += [f"the host of {listed(names[None])}"] if None in names else []
    return listed(places) or "its host"


def _name(member: Member) -> str:
    return shown(member.group_instance_id or member.client_id or member.member_id)


def look_at_host(members: Iterable[Member]) -> str:
    """Advice for members whose process or host may be gone."""
    return f"Look at {where(members)} for a kill, an out-of-memory end, a frozen process or a lost network."


def expiry(of: Families, gone: Sequence[Member], group_type: GroupType = GroupType.CLASSIC, *, came_back: bool) -> str:
    """Advice for members that vanished."""
    advice = []
    if of == {ClientFamily.KAFKAJS}:
        why = "its handler may have taken longer than the session"
        if came_back:
            why = "it came back: its handler took longer than the session, or its process was frozen"
        advice.append(
            f"kafkajs sends heartbeats only between messages, and {why}. Call heartbeat() inside the handler, or raise "
            "sessionTimeout."
        )
    elif of == {ClientFamily.AIOKAFKA}:
        advice.append(
            "aiokafka sends heartbeats from the event loop: code that blocks the loop stops them. Await in the handler "
            "or move its work to a thread, or raise session_timeout_ms."
        )
    elif came_back and of != ALL and any(HABITS[f].lives_while_silent for f in of):
        advice.append(
            "It came back by itself: with kafkajs and aiokafka a handler that takes longer than the session stops the "
            "heartbeats. Send heartbeats inside the handler, or keep it from blocking the event loop."
        )
    if not (came_back and len(of) == 1 and advice):
        look = look_at_host(gone)
        advice.append(look if not advice else f"Else: {look[0].lower()}{look[1:]}")
        instance, session = setting(INSTANCE, of, group_type), setting(SESSION, of, group_type)
        if instance is not None:
            advice.append(f"If it restarts by itself, a {instance} spares the others, {WEIGH_STATIC}.")
        advice.append(f"A shorter {session} shortens the wait." if session else "A shorter session shortens the wait.")
    return " ".join(advice)


def expired_alive(of: Families, gone: Iterable[Member]) -> str:
    """Advice for members of a group that the brokers assign to, which came back under the member id that its process
    made."""
    reason = "It came back under its own member id, so its process lived on: it was frozen, or had lost its network"
    if ClientFamily.LIBRDKAFKA not in of:
        return f"{reason}."
    return (
        f"{reason}, or, with librdkafka, its application had not polled for {POLL_INTERVAL}, after which no heartbeat "
        f"is sent. Look at {where(gone)}, and at what takes long between two polls."
    )


def poll_timeout(of: Families) -> str:
    """Advice for a member whose application did not ask for messages in time."""
    records, interval = setting(RECORDS, of), setting(POLL_INTERVAL, of)
    fewer = (
        f"Process fewer records per poll ({records}), faster" if records else "Process fewer records at a time, faster"
    )
    return f"{fewer}, or allow more time{f' ({interval})' if interval else ''}."


def poll_interval(of: Families) -> str:
    return setting(POLL_INTERVAL, of) or "poll interval"


def dropped(of: Families) -> str:
    """Advice for a member that was dropped because the others waited for it in vain."""
    wait = setting(REBALANCE, of) if of != ALL else POLL_INTERVAL
    lower = f" A lower {wait} shortens the wait of the others." if wait else ""
    if of == {ClientFamily.FRANZ_GO}:
        return (
            "Its application was busy between PollFetches and AllowRebalance (kgo.BlockRebalanceOnPoll), or its "
            f"process was frozen: allow the rebalance sooner, with fewer records per PollRecords.{lower}"
        )
    if of == {ClientFamily.SARAMA}:
        return (
            "Its ConsumeClaim did not return when the session ended, or its process was frozen: return as soon as "
            f"session.Context() is done.{lower}"
        )
    if of == {ClientFamily.KAFKAJS}:
        return (
            "Its handler was busy, or its process frozen: kafkajs joins again only between messages. Call heartbeat() "
            f"inside the handler, which throws when the group rebalances.{lower}"
        )
    return (
        "That member's poll loop was stuck or its process frozen (its heartbeats may go on from another thread): look "
        f"at what it processed then.{lower}"
    )


def restarts(of: Families, group_type: GroupType = GroupType.CLASSIC) -> str:
    """Advice for a member that leaves and returns again and again."""
    if of == {ClientFamily.KAFKAJS}:
        return (
            "Find out what restarts it. kafkajs itself leaves and starts again when a handler has failed for good "
            "(retry.retries): look for the error that its handler throws."
        )
    if of == {ClientFamily.KAFKA_GO}:
        return (
            "Find out what restarts it. As the leader kafka-go leaves, and is back after 5 s, when it cannot read "
            "another library's subscription: look for members of other libraries in the group."
        )
    instance = setting(INSTANCE, of, group_type)
    spares = f" A {instance} spares the group a rebalance per restart, {WEIGH_STATIC}." if instance else ""
    return f"{FIND_OUT}{spares}"


def static_slot(of: Families, group_type: GroupType = GroupType.CLASSIC) -> str:
    """Advice for a static member that did not come back."""
    session = setting(SESSION, of, group_type) or "the session timeout"
    return (
        f"Its slot holds its partitions until the session timeout: make that ({session}) a little longer than a "
        "restart takes. When scaling down for good, remove the member (Admin.removeMembersFromConsumerGroup)."
    )


def restart_storm(of: Families, what: str, group_type: GroupType = GroupType.CLASSIC) -> str:
    """Advice for members that come and go again and again. `what`: restarts or stops."""
    instance = setting(INSTANCE, of, group_type)
    found = f"Find out what {what} the named members"
    return (
        f"{found}. A {instance} spares the others a restart's rebalances, {WEIGH_STATIC}." if instance else f"{found}."
    )


def sticky(of: Families, group_type: GroupType = GroupType.CLASSIC) -> str | None:
    """An assignor that leaves partitions where they are; None where a library has none."""
    if group_type == GroupType.CONSUMER:
        return "the server's uniform"
    if of == ALL or of <= {ClientFamily.JAVA, ClientFamily.LIBRDKAFKA}:
        return "cooperative-sticky, or group.protocol=consumer"
    return "cooperative-sticky" if all(HABITS[f].has_cooperative for f in of) else None


def deploy(of: Families, group_type: GroupType = GroupType.CLASSIC) -> str:
    """Advice for members that were restarted on purpose."""
    instance = setting(INSTANCE, of, group_type)
    assignor = sticky(of) if group_type == GroupType.CLASSIC else None
    known = [f"a {instance} per member"] if instance else []
    known += ["a cooperative assignor"] if assignor is not None else []
    known += ["group.protocol=consumer"] if "group.protocol" in (assignor or "") else []
    if not known:
        return "Nothing is wrong."
    either = listed(known, most=len(known)).replace(" and ", " or ")
    return f"Nothing is wrong. For fewer rebalances {either} is usually advised, {WEIGH_DEPLOY}."
