"""A partition, and the elections of its leaders, by ZooKeeper mode's logs."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from rebalance_audit.domain.log_lines.numbers import java_int
from rebalance_audit.domain.reassign.brokers import Brokers
from rebalance_audit.domain.reassign.lines import PartitionLine
from rebalance_audit.domain.reassign.model import LeaderElection, PartitionState
from rebalance_audit.domain.reassign.transitions import Key

_RESULT = re.compile(r"([\w.-]{1,249}-\d{1,9}) -> (?:Right\((-?\d{1,9})\)|Left\(ApiError\(error=(\w+))")
_CAUSES = {"AdminClientTriggered": "tool", "ZkTriggered": "znode", "AutoTriggered": "automatic"}
_ELECTION_MS = 10_000
"""An election that was begun has ended, or failed, by then."""


@dataclass(slots=True)
class Partition:
    """A partition as far as it is known; None: no line has shown it yet."""

    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader: int | None = None
    """None: nobody leads it; or, where `is_leader_known` is False, no line shows who does."""
    is_leader_known: bool = False
    isr: tuple[int, ...] | None = None
    leader_epoch: int | None = None
    at_ms: int | None = None
    ref: str = ""
    version: int = -1
    """Of the znode with leader and ISR."""
    asked: tuple[int, ...] | None = None
    """Up to 2.3: what the request that is being worked on is for."""
    asked_at_ms: int | None = None
    asked_ref: str = ""
    is_waiting: bool = False
    is_caught_up: bool = False
    has_left: bool = False

    def state(self) -> PartitionState:
        return PartitionState(
            replicas=self.replicas or (),
            isr=self.isr or (),
            leader=self.leader,
            is_leader_known=self.is_leader_known,
            is_isr_known=self.isr is not None,
            adding=self.adding,
            removing=self.removing,
            leader_epoch=self.leader_epoch,
            at_ms=self.at_ms,
            ref=self.ref,
        )


@dataclass(slots=True)
class Elections:
    """Elections that were asked for, and their results."""

    cluster_id: str
    brokers: Brokers
    partitions: defaultdict[Key, Partition]
    found: list[LeaderElection] = field(default_factory=list)
    _asked: dict[Key, tuple[int, str, str]] = field(default_factory=dict)
    """Under way: (at_ms, cause, ref)."""
    _led_before: dict[Key, int | None] = field(default_factory=dict)
    """Who led before an election that is under way and has changed it."""

    def is_under_way(self, key: Key, at_ms: int, led_before: int | None) -> bool:
        """Whether a change of leader belongs to a requested election: the election's own line, or its result, will show
        the change."""
        asked = self._asked.get(key)
        if asked is None or at_ms - asked[0] > _ELECTION_MS:
            return False
        self._led_before[key] = led_before
        return True

    def ask(self, line: PartitionLine) -> None:
        cause = _CAUSES.get(line.fields["cause"], "unknown")
        for tp in line.fields["partitions"]:
            topic, _, number = tp.rpartition("-")
            if (partition := java_int(number)) is not None:
                self._asked[(topic, partition)] = (line.at_ms, cause, line.event.ref)

    def results(self, line: PartitionLine) -> None:
        cause = _CAUSES.get(str(line.fields.get("cause")), "unknown")
        for tp, leader, error in _RESULT.findall(str(line.fields.get("text", ""))):
            topic, _, number = tp.rpartition("-")
            key = (topic, int(number))
            known = self.partitions[key]
            if leader:
                if key in self._asked:
                    self.ended(key, line, int(leader), "elected")
            elif error == "ELECTION_NOT_NEEDED":
                self.ended(key, line, known.leader, "not_needed", cause=cause)
            else:
                preferred = known.replicas[0] if known.replicas else None
                why = None
                if preferred is not None:
                    is_away = self.brokers.is_away(preferred)
                    why = "preferred_not_alive" if is_away else "preferred_not_in_isr"
                self.ended(key, line, known.leader, "failed", cause=cause, prevented_by=why)

    def ended(
        self,
        key: Key,
        line: PartitionLine,
        elected: int | None,
        outcome: str,
        *,
        cause: str | None = None,
        previous: int | None = None,
        prevented_by: str | None = None,
    ) -> None:
        asked, known = self._asked.pop(key, None), self.partitions[key]
        previous = self._led_before.pop(key, previous)
        preferred = known.replicas[0] if known.replicas else None
        if prevented_by is None and preferred not in (None, elected):
            if self.brokers.is_away(preferred) or (cause == "broker_failure" and preferred == previous):
                prevented_by = "preferred_not_alive"
            elif known.isr is not None and preferred not in known.isr:
                prevented_by = "preferred_not_in_isr"
        refs: tuple[str, ...] = (line.event.ref,)
        if cause is None:
            cause = asked[1] if asked is not None else "unknown"
            refs = refs if asked is None else (asked[2], *refs)
        self.found.append(
            LeaderElection(
                cluster_id=self.cluster_id,
                topic=key[0],
                partition=key[1],
                at_ms=line.at_ms,
                cause=cause,
                previous_leader=previous,
                preferred_replica=preferred,
                elected=elected,
                outcome=outcome,
                prevented_by=prevented_by,
                leader_epoch=known.leader_epoch,
                evidence=refs,
            )
        )
