"""Replicas on the move, written by hand: what stands still and why, what moves, what ended, and attacks.

Everything is relative to T0, when the evidence ends.
"""

from __future__ import annotations

import json
from typing import Any

from rebalance_audit.domain.kinds import Severity
from rebalance_audit.domain.model import Finding, log_ref
from rebalance_audit.domain.reassign.model import (
    LeaderElection,
    Reassignment,
    ReassignmentStep,
    ReplicaProgress,
    election_row,
    reassignment_row,
    step_rows,
)

T0 = 1_795_269_600_000
CLUSTER = "lab-cluster"
HOSTILE_TOPIC = "<script>alert(5)</script>';rm -rf ~;'\x1b[31m"
EVIDENCE = ("metadata:broker-1@812",)


def ladder(
    *states: tuple[int | None, str, tuple[int, ...], int | None, tuple[int, ...]],
) -> tuple[ReassignmentStep, ...]:
    """States are (since, phase, replicas, leader, in sync)."""
    return tuple(
        ReassignmentStep(
            step=i, at_ms=at, phase=phase, replicas=replicas, leader=leader, isr=isr, leader_epoch=3, evidence=EVIDENCE
        )
        for i, (at, phase, replicas, leader, isr) in enumerate(states)
    )


def asked_for(
    topic: str,
    partition: int,
    offset: int,
    *,
    original: tuple[int, ...],
    target: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    cluster: str = CLUSTER,
    **facts: Any,
) -> Reassignment:
    """In the record at `offset`; open, unless `facts` say how it ended."""
    known: dict[str, Any] = {"outcome": "open", "is_final": False, "evidence": EVIDENCE} | facts
    return Reassignment(
        cluster_id=cluster,
        reassignment_id=f"{topic}-{partition}@{offset}",
        topic=topic,
        partition=partition,
        original_replicas=original,
        target_replicas=target,
        adding_replicas=adding,
        removing_replicas=removing,
        **known,
    )


def waiting_for_broker_4(topic: str, partition: int, cluster: str = CLUSTER) -> Reassignment:
    """Asked for 15 min before the evidence ends, without progress for 12 min of it: broker 4 is down."""
    asked, stood = T0 - 900_000, T0 - 720_000
    return asked_for(
        topic,
        partition,
        812,
        original=(1, 2),
        target=(3, 4),
        adding=(3, 4),
        removing=(1, 2),
        cluster=cluster,
        started_at_ms=asked,
        phase="catching_up",
        stalled_since_ms=stood,
        blocked_by="broker_down",
        blocked_replicas=(4,),
        longest_standstill_ms=T0 - stood,
        standstill_from_ms=stood,
        min_insync_replicas=1,
        progress=(
            ReplicaProgress(broker_id=3, started_at_ms=asked + 200, in_isr_at_ms=stood),
            ReplicaProgress(broker_id=4),
        ),
        steps=ladder(
            (asked - 5_000_000, "before", (1, 2), 1, (1, 2)),
            (asked, "accepted", (3, 4, 1, 2), 1, (1, 2)),
            (stood, "catching_up", (3, 4, 1, 2), 1, (1, 2, 3)),
        ),
    )


def never_ending() -> Reassignment:
    """Broker 3 is in both lists after a replacement: it hangs on 4.3."""
    asked = T0 - 300_000
    return asked_for(
        "checkout",
        0,
        900,
        original=(1, 2),
        target=(1, 4),
        adding=(3, 4),
        removing=(2, 3),
        started_at_ms=asked,
        phase="accepted",
        stalled_since_ms=asked,
        blocked_by="adding_and_removing_overlap",
        blocked_replicas=(3,),
        longest_standstill_ms=300_000,
        standstill_from_ms=asked,
        progress=(ReplicaProgress(broker_id=3), ReplicaProgress(broker_id=4, in_isr_at_ms=asked + 4_000)),
        steps=ladder(
            (asked - 60_000, "before", (1, 3, 2), 1, (1, 2)),
            (asked, "accepted", (1, 4, 2, 3), 1, (1, 2)),
            (asked + 4_000, "accepted", (1, 4, 2, 3), 1, (1, 2, 4)),
        ),
    )


def moving() -> Reassignment:
    asked = T0 - 30_000
    return asked_for(
        "payments",
        1,
        950,
        original=(1, 2),
        target=(3, 5),
        adding=(3, 5),
        removing=(1, 2),
        started_at_ms=asked,
        phase="catching_up",
        longest_standstill_ms=18_000,
        standstill_from_ms=asked,
        progress=(
            ReplicaProgress(broker_id=3, started_at_ms=asked + 90, in_isr_at_ms=asked + 18_000),
            ReplicaProgress(broker_id=5),
        ),
        steps=ladder(
            (None, "before", (1, 2), 1, (1, 2)),
            (asked, "accepted", (3, 5, 1, 2), 1, (1, 2)),
            (asked + 18_000, "catching_up", (3, 5, 1, 2), 1, (1, 2, 3)),
        ),
    )


def ended() -> list[Reassignment]:
    """The partition of the offsets topic that holds the group orders moved just before orders rebalanced; a refusal."""
    asked, moved, done = T0 - 615_000, T0 - 603_000, T0 - 602_900
    return [
        asked_for(
            "__consumer_offsets",
            7,
            700,
            original=(1, 2),
            target=(3, 2),
            adding=(3,),
            removing=(1,),
            started_at_ms=asked,
            ended_at_ms=done,
            outcome="completed",
            phase="removing",
            leader_changes=1,
            longest_standstill_ms=11_000,
            standstill_from_ms=asked,
            min_insync_replicas=2,
            progress=(ReplicaProgress(broker_id=3, started_at_ms=asked + 100, in_isr_at_ms=asked + 11_000),),
            evidence=("metadata:broker-1@700", "metadata:broker-1@731"),
            steps=ladder(
                (asked - 1_000, "before", (1, 2), 1, (1, 2)),
                (asked, "accepted", (3, 2, 1), 1, (1, 2)),
                (asked + 11_000, "catching_up", (3, 2, 1), 1, (1, 2, 3)),
                (moved, "leader_moved", (3, 2, 1), 3, (1, 2, 3)),
                (done, "completed", (3, 2), 3, (2, 3)),
            ),
            is_final=True,
        ),
        Reassignment(
            cluster_id=CLUSTER,
            reassignment_id="hostile@1",
            topic=HOSTILE_TOPIC,
            partition=0,
            started_at_ms=T0 - 400_000,
            ended_at_ms=T0 - 400_000,
            outcome="refused",
            detail="<img src=x onerror=alert(6)> no such topic\x00",
            source="logs",
            is_complete_evidence=False,
            evidence=(log_ref("<b>controller</b>", "controller.log", "ff", 7),),
        ),
    ]


def elections() -> list[LeaderElection]:
    base: dict[str, Any] = {"cluster_id": CLUSTER, "outcome": "elected", "evidence": EVIDENCE}
    return [
        LeaderElection(
            **base,
            topic="__consumer_offsets",
            partition=7,
            at_ms=T0 - 603_000,
            cause="reassignment",
            previous_leader=1,
            preferred_replica=3,
            elected=3,
        ),
        LeaderElection(
            **base,
            topic="elsewhere",
            partition=0,
            at_ms=T0 - 601_000,
            cause="preferred",
            previous_leader=2,
            preferred_replica=1,
            elected=1,
        ),
    ]


def wide(number: int, cluster: str = "wide") -> list[Reassignment]:
    """So many partitions on their way at once, every fiftieth of them stuck on broker 4."""
    found = []
    for i in range(number):
        stuck = waiting_for_broker_4(f"topic-{i // 100:03d}", i % 100, cluster)
        if i % 50 == 0:
            found.append(stuck)
            continue
        asked = T0 - 900_000 + 37 * i
        found.append(
            asked_for(
                stuck.topic,
                stuck.partition,
                812,
                original=(1, 2),
                target=(3, 5),
                adding=(3, 5),
                removing=(1, 2),
                cluster=cluster,
                started_at_ms=asked,
                phase="catching_up",
                progress=(
                    ReplicaProgress(broker_id=3, in_isr_at_ms=asked + 20_000 + 13 * i),
                    ReplicaProgress(broker_id=5),
                ),
                steps=stuck.steps[:2],
            )
        )
    return found


def findings() -> list[Finding]:
    base: dict[str, Any] = {"cluster_id": CLUSTER, "status": "open", "last_seen_at_ms": T0, "evidence": EVIDENCE}
    return [
        Finding(
            **base,
            finding_id="f-stalled",
            rule_id="RA001",
            severity=Severity.WARNING,
            subject_type="partition",
            subject="orders-4",
            first_seen_at_ms=T0 - 720_000,
            title="The reassignment of orders-4 has made no progress for 12 min: broker 4, where it should go, is down",
            numbers=json.dumps({"reassignment_id": "orders-4@812", "standstill_ms": 720_000}),
            advice="Start broker 4, or cancel the reassignment.",
        ),
        Finding(
            **base,
            finding_id="f-imbalance",
            rule_id="RA004",
            severity=Severity.INFO,
            subject_type="broker",
            subject="broker 2",
            first_seen_at_ms=T0,
            title="Broker 2 does not lead 3 of the 9 partitions it is preferred for",
            advice="If the broker is well: kafka-leader-election --election-type preferred.",
        ),
    ]


def rows(wide_count: int = 0) -> dict[str, list[dict[str, Any]]]:
    known = [
        waiting_for_broker_4("orders", 4), waiting_for_broker_4("orders", 5), never_ending(), moving(), *ended(),
        *wide(wide_count),
    ]  # fmt: skip
    return {
        "gold.reassignment": [reassignment_row(r) for r in known],
        "gold.reassignment_step": [row for r in known for row in step_rows(r)],
        "gold.leader_election": [election_row(e) for e in elections()],
    }
