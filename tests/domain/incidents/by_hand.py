"""What an operator who ran the golden scenarios would call the incidents of each, written from the scenarios alone.

Numbers are generations or epochs as truth/scenario.json lists them; `2.1` is the rewrite of generation 2. `cause` and
`end` are places in its list of actions: the action that began it, and the last one that it took in. What cost nobody
anything is no incident: starts of workers before there were connectors, connectors that were created.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Described:
    kind: str
    cause: str
    culprits: tuple[str, ...]
    """Clients and workers as the scenario names them, instance ids, connectors, brokers."""
    rebalances: tuple[str, ...] = ()
    attempts: int = 0
    expected: bool = False
    first: int = 0
    last: int = 0


def _fault(cause: str, who: str, rebalances: str, first: int, last: int, kind: str = "member_fault") -> Described:
    return Described(kind=kind, cause=cause, culprits=(who,), rebalances=_numbers(rebalances), first=first, last=last)


def _normal(kind: str, cause: str, who: str, rebalances: str, first: int, last: int) -> Described:
    return Described(
        kind=kind, cause=cause, culprits=tuple(who.split()), rebalances=_numbers(rebalances), expected=True,
        first=first, last=last,
    )  # fmt: skip


def _moves(attempts: int, cause: str = "reassigned", *brokers: int) -> Described:
    return Described(
        kind="reassignment", cause=cause, culprits=tuple(f"broker {b}" for b in brokers), attempts=attempts,
        expected=cause == "reassigned",
    )  # fmt: skip


def _numbers(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _start(who: str, rebalances: str, first: int, last: int) -> Described:
    return _normal("scaling", "member_joined", who, rebalances, first, last)


EXPIRED, POLL, LEFT = "member_session_expired", "member_poll_timeout", "member_left"
CONFIG = "connect_config_changed"
LIBRARIES = ("aiokafka", "franz_go", "kafka_go", "kafka_python", "kafkajs", "sarama")

BY_HAND: dict[str, tuple[Described, ...]] = {
    "eager_join_leave_kill": (
        _start("c1 c2 c3 r1", "1 2 3 4", 0, 3),
        _normal("scaling", LEFT, "c2 r1 c1", "5 7 8", 4, 7),
        _fault(EXPIRED, "c3", "6", 5, 5),
    ),
    "cooperative_scale_up": (
        _start("c1 c2 c3", "1 2 3 4 5", 0, 2),
        _normal("scaling", LEFT, "c1", "6", 3, 3),
    ),
    "connect_connector_life": (
        _normal("configuration", CONFIG, "alpha", "7", 4, 4),
        _normal("configuration", CONFIG, "alpha", "8 9", 5, 5),
        _normal("configuration", CONFIG, "alpha", "10", 6, 6),
    ),
    "connect_rolling_bounce": (
        _normal("deploy", "connect_worker_left", "worker-3 worker-2 worker-1", "8 9 10 11 12 13 14 15 16", 5, 10),
    ),
    "connect_bounce_within_delay": (_normal("deploy", "connect_worker_left", "worker-3", "8 9 10", 5, 6),),
    "connect_eager": (
        _normal("configuration", CONFIG, "alpha", "3 4", 2, 2),
        _normal("configuration", CONFIG, "beta", "5 6", 3, 3),
        _normal("deploy", "connect_worker_left", "worker-2", "7 8", 4, 5),
        _fault(EXPIRED, "worker-2", "9", 6, 6, kind="connect_worker"),
    ),
    "connect_worker_frozen": (_fault(EXPIRED, "worker-3", "8 9 10 11", 5, 6, kind="connect_worker"),),
    "connect_worker_joins": (_normal("scaling", "connect_worker_joined", "worker-2", "6 7", 3, 3),),
    "connect_worker_lost": (_fault(EXPIRED, "worker-3", "8 9", 5, 5, kind="connect_worker"),),
    "admin_removal": (
        _start("a1 a2-instance", "1 2", 0, 1),
        _normal("removal", "member_removed_by_admin", "a2-instance a1", "3 4 5", 3, 4),
    ),
    "duplicate_instance_id": (
        _start("i1-instance i2-instance", "1 2", 0, 1),
        _normal("deploy", "static_member_replaced", "i2-instance", "2.1", 2, 2),
    ),
    "group_conversion": (
        _start("o1 o2", "1 2", 0, 1),
        _normal("protocol", "group_converted", "o1 o2 k3", "2 3", 2, 2),
        # RB002: it fell back to stop-the-world rebalances, which is nobody's plan
        _fault("group_converted", "k3", "3 4", 3, 3, kind="protocol"),
    ),
    "hostile_names": (_start("v1 v2", "1 2", 0, 3),),
    "kip848_join_leave": (
        _start("k1 k2 k3", "2 3 4", 0, 2),
        _normal("scaling", LEFT, "k1", "5", 3, 3),
        _fault(EXPIRED, "k2", "6", 4, 4),
    ),
    "kip848_poll_timeout": (_start("k1 k2", "2 3", 0, 1), _fault(POLL, "k2", "4 5", 2, 2)),
    "kip848_slow_revocation": (_start("k1 k2", "2 3", 0, 2), _normal("scaling", LEFT, "k2", "4", 4, 4)),
    "kip848_static_restart": (
        _start("s1-instance s2-instance", "2 3", 0, 1),
        _normal("deploy", "static_member_replaced", "s2-instance", "3.1", 3, 3),
        _fault("static_member_expired", "s2-instance", "4", 4, 4),
    ),
    "partition_count_change": (
        _start("g1 g2", "1 2", 0, 1),
        Described(
            kind="subscription",
            cause="topic_metadata_changed",
            culprits=(),
            rebalances=("3",),
            expected=True,
            first=2,
            last=2,
        ),
    ),
    "poll_timeout": (_start("p1 p2", "1 2", 0, 1), _fault(POLL, "p2", "3 4", 2, 2)),
    "rolling_deploy": (
        _start("d1 d2 d3", "1 2 3", 0, 2),
        _normal("deploy", LEFT, "d1 d2 d3", "4 5 6 7 8 9", 3, 8),
    ),
    "share_group": (),
    "share_group_of_many": (_fault(EXPIRED, "s3", "7", 4, 4),),
    "static_restart": (
        _start("s1-instance s2-instance", "1 2", 0, 1),
        _normal("deploy", "static_member_replaced", "s2-instance", "2.1", 3, 3),
        _fault("static_member_expired", "s2-instance", "3", 4, 4),
    ),
    "storm": (
        _start("w1 w2 w3", "1 2 3", 0, 2),
        _fault(POLL, "w3", "4 5 6 7 8 9 10 11 12 13 14 15", 3, 8, kind="storm"),
    ),
    "streams_protocol": (
        _start("w1-StreamThread-1-consumer w2-StreamThread-1-consumer", "2 3", 0, 1),
        _normal("scaling", LEFT, "w1-StreamThread-1-consumer", "4", 2, 2),
    ),
    "streams_standby": (
        _start("w1-StreamThread-1-consumer w2-StreamThread-1-consumer", "1 2 3", 0, 1),
        _fault(EXPIRED, "w1-StreamThread-1-consumer", "4", 2, 2),
    ),
    "superseded_generation": (_start("x1 x2 x3 x4", "1 2 3 4", 0, 3),),
    "reassign_cancel_replace": (_moves(8, "adding_and_removing_overlap", 3, 5),),
    "reassign_cancel_replace_zookeeper": (_moves(7),),
    "reassign_controller_killed": (_moves(1),),
    "reassign_controller_killed_zookeeper": (_moves(1),),
    "reassign_disk_lost": (_moves(1, "disk_failed", 4),),
    "reassign_disk_lost_zookeeper": (_moves(1, "disk_failed", 4),),
    "reassign_moves": (_moves(5),),
    "reassign_moves_zookeeper": (_moves(5),),
    "reassign_old_replica_behind": (_moves(2, "old_replica_out_of_sync", 1),),
    "reassign_old_replica_behind_zookeeper": (_moves(2, "old_replica_out_of_sync", 1),),
    "reassign_quorum_lost": (_moves(1, "controller_unavailable"),),
    "reassign_slow": (_moves(1),),
    "reassign_slow_zookeeper": (_moves(1),),
    "reassign_target_down": (_moves(2, "broker_down", 4),),
    "reassign_target_down_zookeeper": (_moves(2, "broker_down", 4),),
    "reassign_throttled": (_moves(1, "throttle", 3, 4),),
    "reassign_throttled_zookeeper": (_moves(1, "throttle", 3, 4),),
    "reassign_znode": (_moves(4),),
    "members_in_other_zones": (
        _start("z1 z2 z3", "1 2 3", 0, 2),
        Described(
            kind="member_fault", cause=POLL, culprits=("z2", "z3"), rebalances=("4", "5", "7"), first=3, last=5
        ),  # z3 is killed 28 s after z2 stalled: members that fail so soon after each other are one incident
        _normal("scaling", LEFT, "z1", "6", 4, 4),
    ),
    **{
        f"{library}_join_leave_kill": (
            _start("m1 m2 m3", "1 2 3", 0, 2),
            _normal("scaling", LEFT, "m2", "4", 3, 3),
            _fault(EXPIRED, "m3", "5", 4, 4),
        )
        for library in LIBRARIES
    },
    **{
        f"{library}_rolling_deploy": (
            _start("m1 m2", "1 2", 0, 1),
            _normal("deploy", LEFT, "m1 m2", "3 4 5 6", 2, 5),
        )
        for library in LIBRARIES
    },
    **{
        f"{library}_silent_close": (
            _start("m1 m2", "1 2", 0, 1),
            _normal("scaling", LEFT, "m2 m1", "3 4", 3, 4),
        )
        for library in LIBRARIES
    },
}
"""By the name of the scenario: the same on every release that it was captured on."""

ON_A_RELEASE: dict[str, tuple[Described, ...]] = {
    # before 4.3 a group's epoch 1 is its first member's: infra/lab counts the same way
    "4.0.0-kip848_join_leave": (
        _start("k1 k2 k3", "1 2 3", 0, 2),
        _normal("scaling", LEFT, "k1", "4", 3, 3),
        _fault(EXPIRED, "k2", "5", 4, 4),
    ),
    "4.0.0-kip848_poll_timeout": (_start("k1 k2", "1 2", 0, 1), _fault(POLL, "k2", "3 4", 2, 2)),
    "4.0.0-kip848_slow_revocation": (_start("k1 k2", "1 2", 0, 2), _normal("scaling", LEFT, "k2", "3", 4, 4)),
    "4.0.0-kip848_static_restart": (
        _start("s1-instance s2-instance", "1 2", 0, 1),
        _normal("deploy", "static_member_replaced", "s2-instance", "2.1", 3, 3),
        _fault("static_member_expired", "s2-instance", "3", 4, 4),
    ),
}
"""Where a release numbers otherwise."""

STATES: dict[str, tuple[str, ...]] = {"connect_eager": ("CN006",)}
"""What is wrong all the time, and is an incident without any rebalance: the rules that say so."""
