"""RB017 to RB019: what is wrong with a client library, or with how it is used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rebalance_audit.domain.client_families import HABITS, POLL_INTERVAL, ClientFamily, families_shown
from rebalance_audit.domain.detect.client_advice import families, setting
from rebalance_audit.domain.detect.finding import Extent
from rebalance_audit.domain.detect.history import History, Spell, bursts, label, most_at_once, refs_of
from rebalance_audit.domain.detect.wording import clock, counted, duration, folded, listed
from rebalance_audit.domain.kinds import MemberChange, Severity
from rebalance_audit.domain.log_lines.reasons import HANDLER_EXITED
from rebalance_audit.domain.model import Finding, Member

_OF_SUBSCRIPTION = "of the subscription"
_KAFKA_GO = {ClientFamily.KAFKA_GO}


def broken_subscription(history: History) -> list[Finding]:
    """Members write subscriptions that cannot be read; leaders of other libraries fail on them, one after the other.

    Silent where all subscriptions can be read, for bytes that are not of the consumer protocol, and for a group of
    kafka-go alone, which gets on with itself. Info where every member writes such ones.
    """
    broken = {
        s.rebalance.rebalance_id: members
        for s in history.attempts
        if s.rebalance.protocol_type == "consumer" and (members := _broken(s.rebalance.members))
    }
    found: list[Finding] = []
    for spell in history.spells(broken, history.carried("RB017")):
        culprits = [m for s in spell.steps for m in broken[s.rebalance.rebalance_id]]
        names = list(dict.fromkeys(label(m) for m in culprits))
        is_kafka_go = all(families_shown(m.client_libraries) == _KAFKA_GO for m in culprits)
        fallen = _fallen_leaders(history, spell)
        here = [m for s in spell.steps for m in s.rebalance.members if m.change != MemberChange.LEFT]
        others = {m.member_id for m in here if m.undecoded is None}
        if is_kafka_go and not others and not fallen:
            continue
        also = (
            f"; {counted(len(fallen), 'leader')} of other libraries went meanwhile: {listed(fallen)}" if fallen else ""
        )
        by = " (segmentio/kafka-go leaves out the owned partitions that its version has)" if is_kafka_go else ""
        found += history.finding(
            "RB017",
            spell.extent,
            severity=Severity.WARNING if fallen or others else Severity.INFO,
            title=f"{counted(len(names), 'member')} of {history.group} {'writes' if len(names) == 1 else 'write'} a "
            f"subscription that cannot be read{by}: {listed(names)}{also}",
            detail=culprits[0].undecoded,
            numbers={"member_count": len(names), "members": names[:20], "fallen_leaders": fallen[:20]},
            advice=_ADVICE_KAFKA_GO if is_kafka_go else _ADVICE if fallen or others else _ADVICE_ALONE,
            evidence=refs_of((spell.first, spell.last)),
        )
    return found


_ADVICE = (
    "A leader that cannot read a member's subscription fails, and so does the next one. Find out what wrote it, and "
    "keep that client out of the group."
)
_ADVICE_ALONE = (
    "All members write such ones and get on with each other, as with an assignor of their own. A member of another "
    "library could not lead them, and a coordinator of Kafka 4.0 or later that cannot read one either may never end "
    "the group's join phase."
)
_ADVICE_KAFKA_GO = (
    "A Java or kafka-python leader fails on it (SchemaException, buffer underflow), and so does the next one; "
    "librdkafka gives such members nothing. Keep kafka-go readers in a group of their own."
)


def _broken(members: Sequence[Member]) -> list[Member]:
    return [
        m
        for m in members
        if m.change != MemberChange.LEFT and m.undecoded is not None and _OF_SUBSCRIPTION in m.undecoded
    ]


def _fallen_leaders(history: History, spell: Spell) -> list[str]:
    """Leaders that wrote good subscriptions themselves and were gone in the rebalance that followed."""
    fallen: list[str] = []
    leader: Member | None = None
    for step in history.attempts:
        if not step.is_settled or step.index > spell.last.index:
            continue
        here = {m.member_id: m for m in step.rebalance.members if m.change != MemberChange.LEFT}
        if step.index >= spell.first.index and leader is not None and leader.member_id not in here:
            fallen.append(label(leader))
        known = here.get(step.rebalance.leader_member_id or "")
        leader = known if known is not None and known.undecoded is None else None
    return fallen


def handler_exits(history: History) -> list[Finding]:
    """A sarama application's ConsumeClaim returns before its session has ended: its member joins again each time.

    Silent below the limit: at the end of a session every handler returns.
    """
    limits = history.limits
    exits = [s for s in history.attempts if any(HANDLER_EXITED in t.detail for t in s.rebalance.triggers)]
    found: list[Finding] = []
    for part in bursts(exits, limits.quiet_ms):
        if most_at_once(part, limits.storm_short_window_ms) < limits.handler_exits:
            continue
        ids = Counter(m for s in part for t in s.rebalance.triggers if HANDLER_EXITED in t.detail for m in t.members)
        names = list(dict.fromkeys(label(history.member(m)) for m, _ in ids.most_common()))
        span_ms = part[-1].at_ms - part[0].first_at_ms
        found += history.finding(
            "RB018",
            history.extent(part),
            severity=Severity.WARNING,
            title=f"{listed(names) or 'A member'} of {history.group} joined again {counted(len(part), 'time')} in "
            f"{duration(span_ms)}: its ConsumeClaim handler had returned",
            numbers={"times": len(part), "members": names[:20]},
            advice="A handler that returns ends the session of all its claims (sarama). Stay in its loop until "
            "claim.Messages() is closed or session.Context() is done, and deal with errors inside it.",
            evidence=refs_of(part, *{t.trigger for s in part for t in s.rebalance.triggers}),
        )
    return found


def stands_still(history: History) -> list[Finding]:
    """A member keeps its partitions and commits nothing any more, while others go on.

    Silent for one that came back, for members with one partition, and where nothing shows that its partitions move.
    """
    found: list[Finding] = []
    for step in history.attempts:
        for still in step.rebalance.standstills:
            if still.to_ms is not None:
                continue
            members = [m for m in step.rebalance.members if m.member_id == still.member_id]
            of = families(members)
            interval = setting(POLL_INTERVAL, of)
            by_itself = (
                "Its library sets no limit between two polls: the group never puts it out. "
                if not any(HABITS[f].has_poll_interval for f in of)
                else f"If it does not poll, it leaves after {interval}. "
                if interval is not None
                else ""
            )
            found += history.finding(
                "RB019",
                Extent(
                    key=f"{step.rebalance.rebalance_id}/{still.member_id}",
                    is_open=True,
                    first_seen_at_ms=still.from_lower_ms,
                    last_seen_at_ms=max(history.now_ms, still.from_lower_ms),
                ),
                severity=Severity.WARNING,
                title=f"{listed([label(m) for m in members])} of {history.group} has hung for "
                f"{duration(still.pause_estimate_ms)}: it keeps {folded(still.resources, 3)} and commits nothing",
                detail=f"Last commit at {clock(still.from_lower_ms)}; {still.detail}.",
                numbers={
                    "duration_ms": still.pause_estimate_ms,
                    "resources": list(still.resources[:20]),
                    "usual_commit_ms": still.usual_commit_ms,
                },
                advice=f"Look at that process: a handler that does not return, or a frozen host. {by_itself}"
                "Restarting it hands its partitions on.",
                evidence=still.evidence,
            )
    return found
