"""A group whose evidence is all there, down to the bytes: a member dies."""

from __future__ import annotations

import struct

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange
from rebalance_audit.domain.model import Member, Rebalance, Trigger, log_ref, record_ref
from tests.app.gold_rows.builders import EAGER, a_rebalance, cost, partition_of, pause, resumed, stopped, times
from tests.app.gold_rows.encoder import group_key, group_value, text
from tests.app.gold_rows.names import CLUSTER, FILE_ID, T0, Rows


def orders() -> tuple[list[Rebalance], Rows]:
    """An eager group. c3 vanishes: no heartbeat for its session timeout of 10 s."""
    m1, m2, m3 = "c1-0001", "c2-0002", "c3-0003"
    before = {m1: (0, 1), m2: (2, 3), m3: (4, 5)}
    after = {m1: (0, 1, 2), m2: (3, 4, 5)}

    def named(held: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(f"orders-{p}" for p in held)

    def member(mid: str, change: str, old: tuple[int, ...], new: tuple[int, ...], is_leader: bool = False) -> Member:
        return Member(
            member_id=mid,
            client_id=mid[:2],
            client_host=f"/10.0.0.{mid[1]}",
            change=MemberChange(change),
            is_leader=is_leader,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=300_000,
            subscribed_topics=("orders",),
            owned_before=named(old),
            assigned=named(new),
            revoked=named(tuple(p for p in old if p not in new)),
            added=named(tuple(p for p in new if p not in old)),
            evidence=(record_ref("__consumer_offsets", 7, 231),),
        )

    start = T0 - 3_600_000
    first = a_rebalance(
        "orders",
        6,
        **EAGER,
        leader_changed=False,
        coordinator_broker_id=1,
        member_count=3,
        **times(start, 1_290, 1_310),
        trigger="member_joined",
        trigger_detail="c3 (/10.0.0.3) joined",
        triggers=(
            Trigger(
                trigger=Cause.MEMBER_JOINED, tier=EvidenceTier.LOGGED, members=(m3,), detail="c3 (/10.0.0.3) joined"
            ),
        ),
        resource_count=6,
        moved_count=2,
        returned_count=4,
        avoidable_moved_count=0,
        **pause(30, 50, 90),
        pause_tier="recorded",
        **cost(0.2, 0.3, 0.5),
        evidence=(record_ref("__consumer_offsets", 7, 210),),
        members=(
            member(m1, "stayed", (0, 1, 2), (0, 1), True),
            member(m2, "stayed", (3, 4, 5), (2, 3)),
            member(m3, "joined", (), (4, 5)),
        ),
        movements=tuple(
            partition_of(
                "orders",
                p,
                kind,
                a,
                b,
                is_avoidable=False,
                **stopped(start + 1_230, start + 1_270),
                **resumed(start + 1_290, start + 1_320),
                **pause(30, 50, 90),
                pause_tier="recorded",
                pause_detail="last commit to group record",
                evidence=(record_ref("__consumer_offsets", 7, 210),),
            )
            for p, kind, a, b in [
                (0, "returned", m1, m1),
                (1, "returned", m1, m1),
                (2, "moved", m1, m2),
                (3, "returned", m2, m2),
                (4, "moved", m2, m3),
                (5, "moved", m2, m3),
            ]
        ),
    )
    gone = T0 - 600_000
    seen = log_ref("broker-1", "server.log", FILE_ID, 88_123)
    evidence = (record_ref("__consumer_offsets", 7, 231), record_ref("__consumer_offsets", 7, 228), seen)
    lost = a_rebalance(
        "orders",
        7,
        **EAGER,
        leader_changed=False,
        coordinator_broker_id=1,
        member_count=2,
        **times(gone, 1_300, 1_312),
        trigger="member_session_expired",
        trigger_detail="c3 (/10.0.0.3) sent no heartbeat for its session timeout of 10.0 s",
        triggers=(
            Trigger(
                trigger=Cause.MEMBER_SESSION_EXPIRED,
                tier=EvidenceTier.LOGGED,
                members=(m3,),
                detail="no heartbeat for 10.0 s",
                evidence=(seen,),
            ),
        ),
        resource_count=6,
        moved_count=3,
        returned_count=3,
        avoidable_moved_count=1,
        **pause(10_020, 12_310, 13_400),
        pause_tier="inferred",
        **cost(20.2, 24.9, 27.1),
        is_final=False,
        evidence=evidence,
        members=(
            member(m1, "stayed", before[m1], after[m1], True),
            member(m2, "stayed", before[m2], after[m2]),
            member(m3, "left", before[m3], ()),
        ),
        movements=tuple(
            partition_of(
                "orders",
                p,
                kind,
                a,
                b,
                is_avoidable=(p == 2),
                **stopped(gone + 1_320 - high, gone + 1_290 - low),
                **resumed(gone + 1_310, gone + 1_330),
                **pause(low, mid, high),
                first_commit_after_ms=mid + 900,
                pause_tier=tier,
                pause_detail=how,
                evidence=evidence,
            )
            for p, kind, a, b, low, mid, high, tier, how in [
                (
                    4,
                    "moved",
                    m3,
                    m2,
                    10_020,
                    12_310,
                    13_400,
                    "inferred",
                    "expiry less session timeout and half a heartbeat",
                ),
                (
                    5,
                    "moved",
                    m3,
                    m2,
                    10_020,
                    12_310,
                    13_400,
                    "inferred",
                    "expiry less session timeout and half a heartbeat",
                ),
                (2, "moved", m2, m1, 30, 50, 90, "recorded", "last commit to group record"),
                (0, "returned", m1, m1, 30, 50, 90, "recorded", "last commit to group record"),
                (1, "returned", m1, m1, 30, 50, 90, "recorded", "last commit to group record"),
                (3, "returned", m2, m2, 30, 50, 90, "recorded", "last commit to group record"),
            ]
        ),
    )
    value = group_value(
        7,
        gone + 1_300,
        [(m1, "c1", "/10.0.0.1", {"orders": [0, 1, 2]}), (m2, "c2", "/10.0.0.2", {"orders": [3, 4, 5]})],
    )
    lines = [
        (
            87_200,
            "[2026-11-21 14:49:58,003] INFO [GroupCoordinator id=1] Group payments is stable. "
            "(org.apache.kafka.coordinator.group.GroupMetadataManager)",
        ),
        (
            88_123,
            "[2026-11-21 14:50:00,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=7] "
            "Preparing to rebalance group orders in state "
            "PreparingRebalance with old generation 6 (reason: removing member c3-0003 on heartbeat expiration.). "
            "(org.apache.kafka.coordinator.group.GroupMetadataManager)",
        ),
        (
            88_480,
            "[2026-11-21 14:50:01,300] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=7] "
            "Stabilized group orders generation 7 with 2 members."
            " (org.apache.kafka.coordinator.group.GroupMetadataManager)",
        ),
    ]
    rows: Rows = {
        "bronze.record": [
            {
                "cluster_id": CLUSTER,
                "topic": "__consumer_offsets",
                "partition": 7,
                "offset": offset,
                "copy": 0,
                "timestamp_ms": at,
                "key": key,
                "value": raw,
                "source": "segment",
                "node": "broker-1",
                "is_transactional": False,
                "is_control": False,
                "landing": "l1",
            }
            for offset, at, key, raw in [
                (231, gone + 1_312, group_key("orders"), value),
                (
                    228,
                    gone - 11_000,
                    struct.pack(">h", 1) + text("orders") + text("orders") + struct.pack(">i", 4),
                    struct.pack(">hqi", 3, 5_000, -1) + text("") + struct.pack(">q", gone - 11_000),
                ),
                (229, gone - 10_000, group_key("orders"), value[:40]),
            ]
        ],
        "bronze.log_line": [
            {
                "cluster_id": CLUSTER,
                "node": "broker-1",
                "file_name": "server.log",
                "file_id": FILE_ID,
                "byte": byte,
                "text": line,
                "landing": "l2",
            }
            for byte, line in lines
        ],
        "silver.undecoded": [
            {
                "cluster_id": CLUSTER,
                "ref": record_ref("__consumer_offsets", 7, 229),
                "reason": "short_buffer",
                "byte_position": 40,
                "part": "value",
                "field": "members",
                "detail": "the value ends inside members",
                "raw": value[:40],
                "at_ms": gone - 10_000,
            }
        ],
    }
    return [first, lost], rows
