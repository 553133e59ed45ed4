"""A group in a storm of rebalances, and one that is deployed."""

from __future__ import annotations

from typing import Any

from rebalance_audit.domain.causes import cause_of
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange
from rebalance_audit.domain.model import Member, Movement, Rebalance, Trigger, record_ref
from tests.app.gold_rows.builders import EAGER, a_rebalance, cost, partition_of, pause, resumed, stopped, times
from tests.app.gold_rows.names import T0


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
