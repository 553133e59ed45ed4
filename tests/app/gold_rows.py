"""A small believable warehouse, written by hand: what the pages are tested and looked at with.

Everything is relative to T0 and written as stories; the numbers the tests expect are the numbers written here.
"""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rebalance_audit.domain.causes import Cause, cause_of
from rebalance_audit.domain.incidents import ChangeMark, ClusterRows, Incident, incident_row, incidents_of, mark_row
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange, Mode, MovementKind, ResourceType, Severity
from rebalance_audit.domain.model import ConnectTask, Finding, Member, Movement, Rebalance, Trigger, log_ref, record_ref
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import reassignment_rows

T0 = 1_795_269_600_000
"""2026-11-21 14:00:00 UTC."""
CLUSTER = "lab-cluster"
HOSTILE_GROUP = "<script>alert(1)</script>\n[2026-01-01 00:00:00,000] INFO forged"
HOSTILE_CONNECTOR = "=HYPERLINK(1)<script>alert(7)</script>\n:smile:"
HOSTILE_MARKDOWN = "**bold** [click](javascript:alert(1)) :red[x] :smile: $x^2$ ![p](http://127.0.0.1:9/p.png)"
FILE_ID = "5f3a9c1e77aa"

Rows = dict[str, list[dict[str, Any]]]


# ---- bytes: an encoder of its own, from the format's definition ------------------------------------------------------


def text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def group_key(group: str) -> bytes:
    return struct.pack(">h", 2) + text(group)


def assignment(partitions: dict[str, list[int]]) -> bytes:
    topics = b"".join(text(t) + struct.pack(f">i{len(p)}i", len(p), *p) for t, p in partitions.items())
    return struct.pack(">hi", 1, len(partitions)) + topics + struct.pack(">i", -1)


def subscription(topics: list[str]) -> bytes:
    return struct.pack(">hi", 1, len(topics)) + b"".join(text(t) for t in topics) + struct.pack(">ii", -1, 0)


def group_value(generation: int, at_ms: int, members: list[tuple[str, str, str, dict[str, list[int]]]]) -> bytes:
    """Members are (member id, client id, host, partitions)."""
    encoded = b"".join(
        text(m)
        + text(None)
        + text(c)
        + text(h)
        + struct.pack(">ii", 300_000, 10_000)
        + blob(subscription(["orders"]))
        + blob(assignment(p))
        for m, c, h, p in members
    )
    head = (
        struct.pack(">h", 3)
        + text("consumer")
        + struct.pack(">i", generation)
        + text("range")
        + text(members[0][0] if members else None)
    )
    return head + struct.pack(">q", at_ms) + struct.pack(">i", len(members)) + encoded


# ---- what rebalances, members and movements of every story have in common -------------------------------------------


def a_rebalance(group: str, number: int, **facts: Any) -> Rebalance:
    return Rebalance(
        cluster_id=CLUSTER, rebalance_id=f"{group}/{number}", group_id=group, generation_id=number, **facts
    )


def times(started_at_ms: int, joined_ms: int, assigned_ms: int) -> dict[str, Any]:
    """A log line says when it began; it is joined and assigned so long after that."""
    return {
        "started_at_ms": started_at_ms,
        "started_tier": "logged",
        "joined_at_ms": started_at_ms + joined_ms,
        "assigned_at_ms": started_at_ms + assigned_ms,
        "ended_at_ms": started_at_ms + assigned_ms,
        "broker_window_ms": assigned_ms,
    }


def pause(lower_ms: int | None, estimate_ms: int | None, upper_ms: int | None) -> dict[str, Any]:
    return {"pause_lower_ms": lower_ms, "pause_estimate_ms": estimate_ms, "pause_upper_ms": upper_ms}


def cost(lower_s: float, estimate_s: float, upper_s: float | None) -> dict[str, Any]:
    return {
        "resource_seconds_lower": lower_s,
        "resource_seconds_estimate": estimate_s,
        "resource_seconds_upper": upper_s,
    }


def stopped(lower_ms: int, upper_ms: int) -> dict[str, Any]:
    return {"stopped_at_lower_ms": lower_ms, "stopped_at_upper_ms": upper_ms}


def resumed(lower_ms: int, upper_ms: int) -> dict[str, Any]:
    return {"resumed_at_lower_ms": lower_ms, "resumed_at_upper_ms": upper_ms}


def partition_of(
    topic: str, partition: int, kind: str, from_member: str, to_member: str | None, **facts: Any
) -> Movement:
    """One partition's way; a client id is what its member ids begin with."""
    way = _way(f"{topic}-{partition}", kind, from_member, to_member)
    clients: dict[str, Any] = {"from_client_id": from_member[:2], "to_client_id": to_member and to_member[:2]}
    return Movement(resource_type=ResourceType.PARTITION, topic=topic, partition=partition, **way, **clients, **facts)


def task_of(connector: str, task: int, kind: str, from_member: str, to_member: str, **facts: Any) -> Movement:
    way = _way(f"{connector}-{task}", kind, from_member, to_member)
    return Movement(resource_type=ResourceType.TASK, connector=connector, task=task, **way, **facts)


def _way(resource: str, kind: str, from_member: str, to_member: str | None) -> dict[str, Any]:
    return {"resource": resource, "kind": kind, "from_member_id": from_member, "to_member_id": to_member}


EAGER: dict[str, Any] = {
    "team": "shop",
    "protocol_type": "consumer",
    "mode": "eager",
    "assignor": "range",
    "leader_member_id": "c1-0001",
    "static_member_count": 0,
    "trigger_tier": "logged",
    "kept_count": 0,
    "revoked_count": 0,
    "assigned_count": 0,
    "unassigned_count": 0,
}
"""Of an eager group, in which everybody gives up everything: nothing is kept, and all of it is moved or returned."""


# ---- stories -------------------------------------------------------------------------------------------------------


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


def checkout(rounds: int = 31) -> list[Rebalance]:
    """A storm: every 11 minutes c3 processes for too long, is put out and comes back as another member."""
    found = []
    for i in range(rounds):
        at = T0 - 6 * 3_600_000 + i * 690_000
        old, new = f"c3-{i:04d}", f"c3-{i + 1:04d}"
        is_departure = i % 8 == 7
        trigger = "member_left" if is_departure else "member_poll_timeout"
        stood_ms = 200 + 37 * (i % 9)
        evidence = (record_ref("__consumer_offsets", 3, 1_000 + i),)
        found.append(
            a_rebalance(
                "checkout",
                i + 40,
                **EAGER,
                coordinator_broker_id=2,
                member_count=3,
                **times(at, 2_900, 3_000),
                trigger=trigger,
                trigger_detail="c3 exceeded max.poll.interval.ms",
                triggers=(
                    Trigger(
                        trigger=cause_of(trigger),
                        tier=EvidenceTier.LOGGED,
                        members=(old,),
                        detail="consumer poll timeout has expired.",
                        evidence=evidence,
                    ),
                ),
                resource_count=9,
                moved_count=3,
                returned_count=6,
                avoidable_moved_count=0,
                **pause(stood_ms - 50, stood_ms, stood_ms + 90),
                pause_tier="recorded",
                **cost(1.0, 2.0, 3.0),
                evidence=evidence,
                members=tuple(
                    Member(
                        member_id=m,
                        client_id=m[:2],
                        client_host=f"/10.0.1.{m[1]}",
                        change=MemberChange(change),
                        is_leader=m == "c1-0001",
                        session_timeout_ms=45_000,
                        owned_before=tuple(f"carts-{p}" for p in held) if change != "joined" else (),
                        assigned=tuple(f"carts-{p}" for p in held) if change != "left" else (),
                        evidence=evidence,
                    )
                    for m, change, held in [
                        ("c1-0001", "stayed", (0, 1, 2)),
                        ("c2-0002", "stayed", (3, 4, 5)),
                        (old, "left", (6, 7, 8)),
                        (new, "joined", (6, 7, 8)),
                    ]
                ),
                movements=tuple(
                    partition_of(
                        "carts",
                        p,
                        kind,
                        a,
                        b,
                        **stopped(at + 2_950 - stood_ms, at + 3_050 - stood_ms),
                        **resumed(at + 3_000, at + 3_040),
                        **pause(stood_ms - 50, stood_ms, stood_ms + 90),
                        pause_tier="recorded",
                        evidence=evidence,
                    )
                    for p, kind, a, b in [
                        *((p, "returned", "c1-0001", "c1-0001") for p in (0, 1, 2)),
                        *((p, "returned", "c2-0002", "c2-0002") for p in (3, 4, 5)),
                        *((p, "moved", old, new) for p in (6, 7, 8)),
                    ]
                ),
            )
        )
    return found


def payments() -> list[Rebalance]:
    """A cooperative group grows from one to two members: one round takes, the next one gives."""
    at = T0 - 5_400_000
    ev = (record_ref("__consumer_offsets", 1, 90),)

    def one(
        number: int,
        start: int,
        trigger: str,
        expected: bool,
        members: tuple[Member, ...],
        movements: tuple[Movement, ...],
        **more: Any,
    ) -> Rebalance:
        return a_rebalance(
            "payments",
            number,
            protocol_type="consumer",
            mode="cooperative",
            assignor="cooperative-sticky",
            **times(start, 2_000, 2_010),
            trigger=trigger,
            trigger_tier="recorded",
            triggers=(Trigger(trigger=cause_of(trigger), tier=EvidenceTier.RECORDED, members=("p2-b",), detail=""),),
            expected=expected,
            member_count=len(members),
            resource_count=4,
            evidence=ev,
            members=members,
            movements=movements,
            **more,
        )

    def who(mid: str, change: str, old: tuple[str, ...], new: tuple[str, ...]) -> Member:
        return Member(
            member_id=mid,
            group_instance_id=None,
            client_id=mid[:2],
            client_host="/10.0.2.1",
            change=MemberChange(change),
            owned_before=old,
            assigned=new,
            evidence=ev,
        )

    four = tuple(f"pay-{i}" for i in range(4))
    taken = four[2:]
    first = one(
        4,
        at,
        "member_joined",
        False,
        (who("p1-a", "stayed", four, four[:2]), who("p2-b", "joined", (), ())),
        tuple(
            partition_of(
                "pay",
                p,
                "revoked",
                "p1-a",
                None,
                **stopped(at + 2_010, at + 2_040),
                evidence=ev,
            )
            for p in (2, 3)
        ),
        kept_count=2,
        revoked_count=2,
        assigned_count=0,
        moved_count=0,
        returned_count=0,
    )
    second = one(
        5,
        at + 3_000,
        "cooperative_follow_up",
        True,
        (who("p1-a", "stayed", four[:2], four[:2]), who("p2-b", "stayed", (), taken)),
        tuple(
            partition_of(
                "pay",
                p,
                "moved",
                "p1-a",
                "p2-b",
                revoked_in_rebalance_id="payments/4",
                **stopped(at + 2_010, at + 2_040),
                **resumed(at + 5_010, at + 5_040),
                **pause(2_970, 3_000, None),
                pause_tier="recorded",
                evidence=ev,
            )
            for p in (2, 3)
        ),
        kept_count=2,
        moved_count=2,
        returned_count=0,
        pause_lower_ms=2_970,
        pause_estimate_ms=3_000,
        pause_tier="recorded",
        resource_seconds_lower=5.9,
        resource_seconds_estimate=6.0,
        expected_reason="the second round of generation 4",
    )
    return [first, second]


def connect() -> tuple[list[Rebalance], list[ConnectTask]]:
    """Three workers. Source is created, for which a task of sink moves and stands still 0.4 s. Then worker-3 is killed;
    its two tasks wait for the 20 s delay by design."""
    kill = T0 - 1_800_000
    expiry, back = kill + 10_000, kill + 31_500
    urls = [f"http://10.0.3.{i}:8083/" for i in (1, 2, 3)]
    ev = (record_ref("connect-status", 0, 12),)
    tasks = []
    for i in range(6):
        url = urls[i % 3]
        wid = url[7:-1]
        base: dict[str, Any] = {
            "cluster_id": CLUSTER,
            "group_id": "connect-lab",
            "resource_type": "task",
            "connector": "sink" if i < 4 else "source",
            "task": i % 4,
            "evidence": ev,
        }
        if i % 3 != 2:
            tasks.append(
                ConnectTask(
                    **base, worker_url=url, worker_id=wid, state="RUNNING", generation_id=8, from_ms=kill - 600_000
                )
            )
            continue
        tasks.append(
            ConnectTask(
                **base,
                worker_url=url,
                worker_id=wid,
                state="RUNNING",
                generation_id=8,
                from_ms=kill - 600_000,
                to_ms=kill,
                ended_by="worker_lost",
            )
        )
        tasks.append(
            ConnectTask(
                **base,
                worker_url=url,
                worker_id=wid,
                state="LOST",
                generation_id=8,
                from_ms=kill,
                to_ms=expiry,
                ended_by="member_session_expired",
            )
        )
        tasks.append(
            ConnectTask(
                **base, state="WAITING", generation_id=9, from_ms=expiry, to_ms=back, expected=True, ended_by="started"
            )
        )
        tasks.append(
            ConnectTask(
                **base,
                worker_url=urls[i % 2],
                worker_id=urls[i % 2][7:-1],
                state="RUNNING",
                generation_id=10,
                from_ms=back,
            )
        )
    tasks.append(
        ConnectTask(
            cluster_id=CLUSTER,
            group_id="connect-lab",
            resource_type=ResourceType.CONNECTOR,
            connector="sink",
            task=None,
            worker_url=urls[0],
            state="RUNNING",
            from_ms=kill - 600_000,
            evidence=ev,
        )
    )
    tasks.append(
        ConnectTask(
            cluster_id=CLUSTER,
            group_id="connect-lab",
            resource_type=ResourceType.TASK,
            connector="broken",
            task=0,
            worker_url=urls[1],
            state="FAILED",
            from_ms=T0 - 900_000,
            detail="org.apache.kafka.connect.errors.ConnectException: <b>no</b> route",
            evidence=ev,
        )
    )

    tasks.append(
        ConnectTask(
            cluster_id=CLUSTER,
            group_id="connect-lab",
            resource_type=ResourceType.TASK,
            connector=HOSTILE_CONNECTOR,
            task=0,
            worker_url="http://<img src=x onerror=alert(8)>/",
            state="PAUSED",
            from_ms=kill - 600_000,
            detail="=1+1 <img src=x>",
            evidence=ev,
        )
    )

    def round_(
        number: int,
        at: int,
        trigger: str,
        expected: bool,
        third: str | None,
        movements: tuple[Movement, ...] = (),
        **more: Any,
    ) -> Rebalance:
        """`third`: what worker-3 did; None: it is not there any more."""
        return a_rebalance(
            "connect-lab",
            number,
            protocol_type="connect",
            mode="incremental",
            assignor="sessioned",
            **times(at - 900, 880, 900),
            trigger=trigger,
            trigger_tier="logged",
            expected=expected,
            member_count=2,
            resource_count=7,
            triggers=(Trigger(trigger=cause_of(trigger), tier=EvidenceTier.LOGGED, members=("w3-id",)),),
            evidence=ev,
            movements=movements,
            members=tuple(
                Member(
                    member_id=f"w{n}-id",
                    client_id=f"connect-{n}",
                    client_host=f"/10.0.3.{n}",
                    worker_url=urls[n - 1],
                    change=MemberChange(third if n == 3 and third is not None else "stayed"),
                    owned_before=("sink-2", "source-1") if n == 3 else (),
                    assigned=() if n == 3 else (f"sink-{n}",),
                    evidence=ev,
                )
                for n in ((1, 2) if third is None else (1, 2, 3))
            ),
            **more,
        )

    created = round_(
        8,
        kill - 600_000,
        "connect_config_changed",
        False,
        "stayed",
        (
            task_of(
                "sink",
                0,
                "moved",
                "w2-id",
                "w1-id",
                from_worker_url=urls[1],
                to_worker_url=urls[0],
                **pause(390, 400, 410),
                pause_tier="recorded",
                evidence=ev,
            ),
            task_of(
                HOSTILE_CONNECTOR,
                0,
                "restarted",
                "w1-id",
                "w1-id",
                **pause(90, 100, 110),
                pause_tier="recorded",
                evidence=ev,
            ),
        ),
        trigger_detail="connector source created",
        changed_connectors=("source",),
        moved_count=1,
        returned_count=0,
        **pause(390, 400, 410),
        **cost(0.48, 0.5, 0.52),
        eager_seconds_lower=2.5,
    )
    lost = round_(
        9,
        expiry,
        "member_session_expired",
        False,
        "left",
        moved_count=0,
        returned_count=0,
        connect_delay_ms=20_000,
        unassigned_count=2,
    )
    given = round_(
        10,
        back - 30,
        "connect_delay_expired",
        True,
        None,
        tuple(
            task_of(
                r[:-2],
                int(r[-1]),
                "moved",
                "w3-id",
                f"w{n}-id",
                from_worker_url=urls[2],
                to_worker_url=urls[n - 1],
                **stopped(kill - 50, kill + 50),
                **resumed(back - 10, back + 10),
                **pause(31_400, 31_500, 31_600),
                pause_tier="recorded",
                evidence=ev,
            )
            for r, n in (("sink-2", 1), ("source-1", 2))
        ),
        moved_count=2,
        returned_count=0,
        **pause(31_400, 31_500, 31_600),
        **cost(62.8, 63.0, 63.2),
        connect_delay_ms=0,
    )
    return [created, lost, given], tasks


def hostile() -> list[Rebalance]:
    """Every text a client can choose is an attack."""
    bad_client = HOSTILE_MARKDOWN
    ev = (record_ref("__consumer_offsets", 2, 5), log_ref("<img src=x onerror=alert(2)>", "server.log\u202e", "ff", 1))
    resource = "<b>topic</b>-0"
    one = Rebalance(
        cluster_id=CLUSTER,
        rebalance_id="hostile/1",
        group_id=HOSTILE_GROUP,
        generation_id=1,
        protocol_type="consumer\x00<i>",
        mode=Mode.UNKNOWN,
        assignor="<img src=x onerror=alert(3)>",
        leader_member_id=bad_client,
        member_count=1,
        assigned_at_ms=T0 - 50_000,
        trigger=Cause.CLIENT_REQUESTED,
        trigger_tier=EvidenceTier.LOGGED,
        trigger_detail="</p><script>alert(4)</script>\x1b[31mred",
        triggers=(
            Trigger(
                trigger=Cause.CLIENT_REQUESTED, tier=EvidenceTier.LOGGED, members=(bad_client,), detail="<u>reason</u>"
            ),
        ),
        moved_count=1,
        returned_count=0,
        **pause(-2_000, -1_500, -900),
        **cost(0.0, 0.0, 0.0),
        evidence=ev,
        is_complete_evidence=False,
        members=(
            Member(
                member_id=bad_client,
                client_id=bad_client,
                client_host="/<script>",
                change=MemberChange.JOINED,
                owned_before=(),
                assigned=(resource,),
                evidence=ev,
            ),
        ),
        movements=(
            Movement(
                resource_type=ResourceType.PARTITION,
                resource=resource,
                topic="<b>topic</b>",
                partition=0,
                kind=MovementKind.MOVED,
                from_member_id="gone\u0000",
                to_member_id=bad_client,
                from_client_id="gone\u0000",
                to_client_id=bad_client,
                **stopped(T0 - 49_000, T0 - 48_000),
                **resumed(T0 - 50_000, T0 - 49_900),
                **pause(-2_000, -1_500, -900),
                overlap_ms=1_500,
                pause_detail="<script>alert(5)</script>",
                evidence=ev,
            ),
        ),
    )
    return [one, replace(one, rebalance_id="hostile/2", generation_id=2, assigned_at_ms=T0 - 40_000, movements=())]


def unknowns() -> list[Rebalance]:
    """Null wherever a null may stand."""
    missing = a_rebalance(
        "unknowns",
        2,
        outcome="missing",
        started_lower_ms=T0 - 80_000,
        is_complete_evidence=False,
    )
    bare = a_rebalance(
        "unknowns",
        3,
        assigned_at_ms=T0 - 70_000,
        evidence=(record_ref("__consumer_offsets", 0, 3),),
        members=(Member(member_id="m-1"),),
        movements=(Movement(resource_type=ResourceType.PARTITION, resource="t-0", kind=MovementKind.MOVED),),
    )
    return [missing, bare]


def _finding(
    finding_id: str, rule_id: str, severity: str, group: str, title: str, *, seen_ms: tuple[int, int], **facts: Any
) -> Finding:
    """Of a group; `seen_ms`: first and last."""
    return Finding(
        cluster_id=CLUSTER,
        finding_id=finding_id,
        rule_id=rule_id,
        severity=Severity(severity),
        subject_type="group",
        subject=group,
        title=title,
        first_seen_at_ms=seen_ms[0],
        last_seen_at_ms=seen_ms[1],
        **{"status": "open"} | facts,
    )


def findings() -> list[Finding]:
    return [
        _finding(
            "f-storm",
            "RB001",
            "critical",
            "checkout",
            "31 rebalances in 6 h, more than this group's limit of 6 per hour",
            seen_ms=(T0 - 6 * 3_600_000, T0 - 600_000),
            detail="27 of them because c3 processed for longer than max.poll.interval.ms.",
            numbers=json.dumps({"rebalance_count": 31, "window_ms": 21_600_000, "limit_per_hour": 6}),
            advice="Raise max.poll.interval.ms for c3, or lower max.poll.records.",
            evidence=(record_ref("__consumer_offsets", 3, 1_030),),
        ),
        _finding(
            "f-expiry",
            "RB007",
            "warning",
            "orders",
            "c3 vanished without leaving",
            seen_ms=(T0 - 600_000, T0 - 598_000),
            detail="orders-4 and orders-5 stood still 12.3 s (10.0 \u2026 13.4).",
            numbers=json.dumps({"pause_estimate_ms": 12_310, "partition_count": 2}),
            advice="See why c3 died; a group.instance.id would not have helped here.",
            evidence=(record_ref("__consumer_offsets", 7, 231),),
        ),
        _finding(
            "f-wait",
            "CN001",
            "info",
            "connect-lab",
            "2 tasks waited 21.5 s for the scheduled delay",
            seen_ms=(T0 - 1_790_000, T0 - 1_768_500),
            status="resolved",
            evidence=("record:connect-status-0@12",),
        ),
        _finding(
            "f-forged",
            "TR004",
            "warning",
            HOSTILE_GROUP,
            "a log line <b>contradicts</b> the records",
            seen_ms=(T0 - 50_000, T0 - 40_000),
            detail="<script>alert(6)</script>",
            numbers="not json",
            advice="[x](javascript:alert(7))",
            evidence=(record_ref("__consumer_offsets", 2, 5),),
        ),
    ]


def coverage() -> list[dict[str, Any]]:
    return [
        {
            "cluster_id": CLUSTER,
            "source": "record:__consumer_offsets-7",
            "kind": "record",
            "from_position": 200,
            "to_position": 232,
            "from_at_ms": T0 - 7_200_000,
            "to_at_ms": T0,
            "item_count": 30,
            "is_gap": False,
            "problem_code": "none",
        },
        {
            "cluster_id": CLUSTER,
            "source": "record:__consumer_offsets-7",
            "kind": "record",
            "from_position": 0,
            "to_position": 200,
            "is_gap": True,
            "problem_code": "compacted",
            "problem": "Offsets 0 to 199 were compacted away before they were read.",
        },
        {
            "cluster_id": CLUSTER,
            "source": f"log:broker-1/server.log#{FILE_ID}",
            "kind": "log",
            "from_position": 0,
            "to_position": 99_000,
            "from_at_ms": T0 - 7_200_000,
            "to_at_ms": T0 - 1_000,
            "item_count": 412,
            "is_gap": False,
            "problem_code": "none",
            "utc_offset_ms": 3_600_000,
            "utc_offset_source": "inferred",
        },
        {
            "cluster_id": CLUSTER,
            "source": "log:broker-2",
            "kind": "log",
            "from_position": 0,
            "is_gap": True,
            "problem_code": "not_given",
            "problem": "No log of broker-2 was given; a start there would be missing.",
        },
    ]


def checks() -> list[dict[str, Any]]:
    return [
        {
            "batch_id": "b1",
            "table_name": "gold.rebalance",
            "check_name": "pause bounds in order",
            "is_fatal": True,
            "success": True,
            "checked_count": 40,
            "unexpected_count": 0,
            "examples": [],
        },
        {
            "batch_id": "b1",
            "table_name": "gold.rebalance",
            "check_name": "starts before it is assigned",
            "is_fatal": False,
            "success": False,
            "checked_count": 40,
            "unexpected_count": 1,
            "examples": ["lab-cluster, hostile/1<script>"],
        },
    ]


# ---- the warehouse -------------------------------------------------------------------------------------------------


def group_row(rebalances: list[Rebalance], found: list[Finding]) -> dict[str, Any]:
    last = rebalances[-1]
    times = [t for r in rebalances for t in (r.assigned_at_ms, r.started_lower_ms) if t is not None]
    mine = [f for f in found if f.subject == last.group_id and f.status == "open"]
    return {
        "cluster_id": last.cluster_id,
        "group_id": last.group_id,
        "team": last.team,
        "group_type": last.group_type,
        "protocol_type": last.protocol_type,
        "state": "Stable",
        "mode": last.mode,
        "assignor": last.assignor,
        "generation_id": last.generation_id,
        "member_count": last.member_count,
        "resource_count": last.resource_count,
        "first_seen_at_ms": min(times),
        "last_rebalance_at_ms": max(times),
        "last_rebalance_id": last.rebalance_id,
        "rebalance_count": len(rebalances),
        "rebalance_count_1h": 0,
        "rebalance_count_24h": len(rebalances),
        "open_finding_count": len(mine),
        "worst_severity": mine[0].severity if mine else None,
    }


def many_groups(number: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    groups, rebalances = [], []
    for i in range(number):
        base = Rebalance(
            cluster_id="fleet",
            rebalance_id=f"svc-{i}/1",
            group_id=f"svc-{i:04d}",
            generation_id=1,
            protocol_type="consumer",
            mode=Mode.COOPERATIVE if i % 3 else Mode.EAGER,
            assignor="cooperative-sticky" if i % 3 else "range",
            member_count=3 + i % 5,
            resource_count=12,
            assigned_at_ms=T0 - (i * 37_000) % 80_000_000,
            trigger=Cause.MEMBER_JOINED,
            trigger_tier=EvidenceTier.RECORDED,
            moved_count=1,
            returned_count=0,
            **pause(20, 40 + i % 900, 2_000),
            **cost(0.0, 0.04, 0.1),
            evidence=("record:__consumer_offsets-9@1",),
        )
        groups.append(group_row([base], []))
        rebalances.append(_row(base))
    return groups, rebalances


def _row(thing: Any) -> dict[str, Any]:
    return {
        k: list(v) if isinstance(v, tuple) else v for k, v in asdict(thing).items() if k not in ("members", "movements")
    }


def write(location: Path, many: int = 2_000, wide: int = 0) -> Warehouse:
    """All stories, published."""
    warehouse = Warehouse.open(location, create=True)
    order_story, evidence_rows = orders()
    connect_story, tasks = connect()
    found = findings()
    stories = [order_story, checkout(), payments(), connect_story, hostile(), unknowns()]
    groups, fleet = many_groups(many)
    rebalances = [r for story in stories for r in story]
    keys = ("cluster_id", "rebalance_id", "group_id", "generation_id", "group_epoch")
    tables: Rows = {
        **evidence_rows,
        **reassignment_rows.rows(wide),
        "gold.rebalance": [_row(r) for r in rebalances] + fleet,
        "gold.rebalance_member": [
            {**{k: getattr(r, k) for k in keys}, **_row(m)} for r in rebalances for m in r.members
        ],
        "gold.movement": [{**{k: getattr(r, k) for k in keys}, **_row(m)} for r in rebalances for m in r.movements],
        "gold.connect_task": [_row(t) for t in tasks],
        "gold.finding": [{**_row(f), "group_id": f.subject} for f in found]
        + [_row(f) for f in reassignment_rows.findings()],
        "gold.group": [group_row(story, found) for story in stories] + groups,
        "gold.coverage": coverage(),
        "gold.check": checks(),
        "silver.decode_count": [
            {
                "cluster_id": CLUSTER,
                "batch_id": "b1",
                "source_kind": "record",
                "kind": "GroupMetadata",
                "in_count": 3,
                "event_count": 1,
                "commit_count": 1,
                "undecoded_count": 1,
                "skipped_count": 0,
            }
        ],
    }
    tables["gold.incident"] = [incident_row(i) for i in incidents(stories, tasks, found)]
    tables["gold.mark"] = [mark_row(m) for m in marks()]
    for name, rows in tables.items():
        warehouse.append(name, rows_to_table(name, rows))
    publish(warehouse)
    return warehouse


def incidents(stories: list[list[Rebalance]], tasks: list[ConnectTask], found: list[Finding]) -> list[Incident]:
    """Of every cluster, at the end of its evidence."""
    of_cluster: dict[str, dict[str, list[Rebalance]]] = {}
    for story in stories:
        of_cluster.setdefault(story[0].cluster_id, {})[story[0].group_id] = story
    made: list[Incident] = []
    for cluster_id, groups in sorted(of_cluster.items()):
        ends = [r.ended_at_ms or 0 for story in groups.values() for r in story]
        rows = ClusterRows(
            cluster_id=cluster_id,
            now_ms=max(ends),
            groups=groups,
            tasks=tasks,
            findings=[(f.subject if f.subject in groups else None, f) for f in found if f.cluster_id == cluster_id],
        )
        made += incidents_of(rows)[0]
    return made


def marks() -> list[ChangeMark]:
    """A deploy half an hour before the end, and one whose text is hostile."""
    return [
        ChangeMark(cluster_id=CLUSTER, at_ms=T0 - 1_800_000, source="told", text="v2.3 of orders", scope="orders*"),
        ChangeMark(cluster_id=CLUSTER, at_ms=T0 - 7_200_000, source="told", text=HOSTILE_MARKDOWN, scope="*"),
    ]


def publish(warehouse: Warehouse) -> None:
    gold = (
        "rebalance", "rebalance_member", "movement", "connect_task", "finding", "group", "coverage",
        "reassignment", "reassignment_step", "leader_election", "incident", "mark",
    )  # fmt: skip
    versions = {f"gold.{noun}": warehouse.version(f"gold.{noun}") for noun in gold}
    warehouse.publish({name: version for name, version in versions.items() if version is not None})


if __name__ == "__main__":
    write(Path(sys.argv[1]))
