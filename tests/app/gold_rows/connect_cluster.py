"""A Connect cluster: its rebalances and its tasks."""

from __future__ import annotations

from typing import Any

from rebalance_audit.domain.causes import cause_of
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange, ResourceType
from rebalance_audit.domain.model import ConnectTask, Member, Movement, Rebalance, Trigger, record_ref
from tests.app.gold_rows.builders import a_rebalance, cost, pause, resumed, stopped, task_of, times
from tests.app.gold_rows.names import CLUSTER, HOSTILE_CONNECTOR, T0


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
