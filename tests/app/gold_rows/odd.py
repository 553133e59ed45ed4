"""A group with hostile names, and one of which little is known."""

from __future__ import annotations

from dataclasses import replace

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange, Mode, MovementKind, ResourceType
from rebalance_audit.domain.model import Member, Movement, Rebalance, Trigger, log_ref, record_ref
from tests.app.gold_rows.builders import a_rebalance, cost, pause, resumed, stopped
from tests.app.gold_rows.names import CLUSTER, HOSTILE_GROUP, HOSTILE_MARKDOWN, T0


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
