"""ZooKeeper mode from log lines.

Lines are those of 2.7.2 and 3.9.1 as seen on real clusters (docs/kafka_writes.md#zookeeper-from-24).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from rebalance_audit.domain.model import SourceLine
from rebalance_audit.domain.reassign import Reassignment, ReassignmentHistory
from rebalance_audit.domain.reassign.history import reassignment_history
from rebalance_audit.domain.reassign.lines import LogLines, throttles_in
from tests.domain.reassign.stories import ladder

START = datetime(2026, 11, 21, 14, 45, 29, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
BEFORE = "ReplicaAssignment(replicas=1,0,2, addingReplicas=, removingReplicas=)"
MOVING = "ReplicaAssignment(replicas=2,3,5,1,0, addingReplicas=3,5, removingReplicas=1,0)"
TARGET = "ReplicaAssignment(replicas=2,3,5, addingReplicas=, removingReplicas=)"
CANCELLED = "ReplicaAssignment(replicas=2,1,0, addingReplicas=, removingReplicas=)"


class Logs:
    """Lines of controller.log, state-change.log and server.log, `ms` after the start."""

    def __init__(self, *, zone_ms: int = 0) -> None:
        self.lines: list[SourceLine] = []
        self.zone_ms = zone_ms

    def line(self, ms: int, text: str, *, node: str = "broker-2", file: str = "controller.log") -> Logs:
        at = START + timedelta(milliseconds=ms + self.zone_ms)
        stamp = at.strftime("%Y-%m-%d %H:%M:%S,") + f"{at.microsecond // 1000:03d}"
        self.lines.append(
            SourceLine(
                cluster_id="lab",
                node=node,
                file_name=file,
                file_id="f00d",
                byte=len(self.lines),
                text=f"[{stamp}] {text}\n",
            )
        )
        return self

    def controller(self, ms: int, message: str, *, level: str = "INFO", broker: int = 2) -> Logs:
        text = f"{level} [Controller id={broker}] {message} (kafka.controller.KafkaController)"
        return self.line(ms, text, node=f"broker-{broker}")

    def state_change(self, ms: int, message: str, *, broker: int = 2, epoch: int = 1) -> Logs:
        text = f"INFO [Controller id={broker} epoch={epoch}] {message} (state.change.logger)"
        return self.line(ms, text, node=f"broker-{broker}", file="state-change.log")

    def history(self) -> ReassignmentHistory:
        offsets = {line.node: self.zone_ms for line in self.lines}
        lines = LogLines(utc_offset_ms=offsets).read(self.lines).in_order()
        return reassignment_history((), lines, cluster_id="lab")

    def attempts(self) -> list[Reassignment]:
        return list(self.history().reassignments)


def created(logs: Logs) -> Logs:
    logs.state_change(
        -60_000,
        "Changed partition orders-0 state from NonExistentPartition to NewPartition with assigned replicas 1,0,2",
    )
    return logs.state_change(
        -59_000,
        "Changed partition orders-0 from NewPartition to OnlinePartition with state "
        "LeaderAndIsr(leader=1, leaderEpoch=0, "
        "isr=List(1, 0, 2), zkVersion=0)",
    )


def asked(logs: Logs) -> Logs:
    logs.controller(327, f"Updating assignment of partition orders-0 from {BEFORE} to {MOVING}", level="DEBUG")
    logs.controller(341, f"Successfully updated assignment of partition orders-0 to {MOVING}")
    logs.controller(345, "Updated leader epoch for partition orders-0 to 1, zkVersion=1")
    return logs.state_change(
        350,
        "Sent LeaderAndIsr request (Leader:1,ISR:1,0,2,LeaderEpoch:1,ZkVersion:1,ControllerEpoch:1) with new replica "
        f"assignment {MOVING} to leader 1 for partition being reassigned orders-0",
    )


def copied(logs: Logs) -> Logs:
    logs.line(
        400,
        "INFO [Broker id=5] Follower orders-0 starts at leader epoch 1 from offset 0 "
        "with high watermark 0. Previous leader "
        "epoch was -1. (state.change.logger)",
        node="broker-5",
        file="state-change.log",
    )
    for ms, isr, version in ((10_000, "1,0,2,5", 2), (10_500, "1,0,2,5,3", 3)):
        logs.controller(
            ms, f"ISR for partition orders-0 updated to [{isr}] and zkVersion updated to [{version}]", level="DEBUG"
        )
        logs.line(
            ms + 25,
            f"INFO [Partition orders-0 broker=1] ISR updated from AlterIsr to {isr} and version updated to [{version}] "
            "(kafka.cluster.Partition)",
            node="broker-1",
            file="server.log",
        )
    return logs.controller(
        10_510,
        "Target replicas ArrayBuffer(2, 3, 5) have all caught up with the leader for reassigning partition orders-0",
    )


def finished(logs: Logs) -> Logs:
    logs.controller(
        10_515,
        "Leader 1 for partition orders-0 being reassigned, is not in the new list of "
        "replicas 2,3,5. Re-electing leader",
    )
    logs.state_change(
        10_530,
        "Changed partition orders-0 from OnlinePartition to OnlinePartition with state LeaderAndIsr(leader=2, "
        "leaderEpoch=2, isr=List(0, 5, 1, 2, 3), zkVersion=4)",
    )
    for ms, isr, epoch, gone in ((10_560, "5,1,2,3", 3, 0), (10_580, "5,2,3", 4, 1)):
        logs.state_change(
            ms,
            f"Partition orders-0 state changed to (Leader:2,ISR:{isr},LeaderEpoch:{epoch},ZkVersion:{epoch + 2},"
            f"ControllerEpoch:1) after removing replica {gone} from the ISR as part of transition to OfflineReplica",
        )
    return logs.controller(10_600, f"Successfully updated assignment of partition orders-0 to {TARGET}")


LADDER = [
    ("before", (1, 0, 2), 1, {0, 1, 2}),
    ("accepted", (2, 3, 5, 1, 0), 1, {0, 1, 2}),
    ("catching_up", (2, 3, 5, 1, 0), 1, {0, 1, 2, 5}),
    ("catching_up", (2, 3, 5, 1, 0), 1, {0, 1, 2, 3, 5}),
    ("leader_moved", (2, 3, 5, 1, 0), 2, {0, 1, 2, 3, 5}),
    ("removing", (2, 3, 5, 1, 0), 2, {1, 2, 3, 5}),
    ("removing", (2, 3, 5, 1, 0), 2, {2, 3, 5}),
    ("completed", (2, 3, 5), 2, {2, 3, 5}),
]


def test_the_controllers_lines_make_the_whole_ladder() -> None:
    history = finished(copied(asked(created(Logs())))).history()
    (attempt,) = history.reassignments
    assert ladder(attempt) == LADDER
    assert (attempt.original_replicas, attempt.target_replicas) == ((1, 0, 2), (2, 3, 5))
    assert (attempt.started_at_ms, attempt.ended_at_ms, attempt.outcome) == (
        START_MS + 341,
        START_MS + 10_600,
        "completed",
    )
    assert (attempt.leader_changes, attempt.source) == (1, "logs")
    assert {p.broker_id: p.started_at_ms for p in attempt.progress} == {3: None, 5: START_MS + 400}
    assert [(e.cause, e.previous_leader, e.elected) for e in history.elections if e.previous_leader] == [
        ("reassignment", 1, 2)
    ]


def test_logs_that_begin_with_the_request_show_the_same_ladder() -> None:
    (attempt,) = finished(copied(asked(Logs()))).attempts()
    assert ladder(attempt) == LADDER


def test_without_debug_lines_the_leaders_own_lines_show_the_isr() -> None:
    logs = finished(copied(asked(created(Logs()))))
    logs.lines = [line for line in logs.lines if "DEBUG" not in line.text]
    (attempt,) = logs.attempts()
    assert ladder(attempt) == LADDER
    assert attempt.steps[2].at_ms == START_MS + 10_025


def test_logs_of_another_zone_show_the_same_times() -> None:
    (here,) = finished(copied(asked(created(Logs())))).attempts()
    (there,) = finished(copied(asked(created(Logs(zone_ms=7_200_000))))).attempts()
    assert here == there


def test_lines_in_any_order_of_files_show_the_same() -> None:
    logs = finished(copied(asked(created(Logs()))))
    whole = logs.attempts()
    logs.lines = sorted(logs.lines, key=lambda line: (line.file_name, line.node, line.byte))
    assert [ladder(r) for r in logs.attempts()] == [ladder(r) for r in whole]


def test_a_cancellation_prints_the_new_assignment_first() -> None:
    logs = asked(created(Logs()))
    logs.controller(5_000, f"Updating assignment of partition orders-0 from {MOVING} to {CANCELLED}", level="DEBUG")
    logs.controller(5_010, f"Successfully updated assignment of partition orders-0 to {CANCELLED}")
    logs.controller(
        5_020,
        "Leader 1 for partition orders-0 being reassigned, is already in the new list of replicas 2,1,0 and is alive",
    )
    logs.state_change(
        5_030,
        "Partition orders-0 state changed to "
        "(Leader:1,ISR:1,0,2,LeaderEpoch:1,ZkVersion:1,ControllerEpoch:1) after removing "
        "replica 5 from the ISR as part of transition to OfflineReplica",
    )
    logs.controller(5_040, f"Successfully updated assignment of partition orders-0 to {CANCELLED}")
    (attempt,) = logs.attempts()
    assert (attempt.outcome, attempt.ended_at_ms) == ("cancelled", START_MS + 5_010)
    assert ladder(attempt)[-1] == ("cancelled", (2, 1, 0), 1, {0, 1, 2})


def test_a_replacement_is_two_attempts_with_one_origin() -> None:
    other = "ReplicaAssignment(replicas=0,1,3,2,5, addingReplicas=3, removingReplicas=2,5)"
    logs = asked(created(Logs()))
    logs.controller(5_000, f"Updating assignment of partition orders-0 from {MOVING} to {other}", level="DEBUG")
    logs.controller(5_010, f"Successfully updated assignment of partition orders-0 to {other}")
    first, second = logs.attempts()
    assert (first.outcome, first.superseded_by) == ("superseded", second.reassignment_id)
    assert (second.original_replicas, second.target_replicas) == ((1, 0, 2), (0, 1, 3))


def test_another_order_completes_at_once_and_prints_twice() -> None:
    order = "ReplicaAssignment(replicas=2,1,0, addingReplicas=, removingReplicas=)"
    logs = created(Logs())
    logs.controller(10, f"Updating assignment of partition orders-0 from {BEFORE} to {order}", level="DEBUG")
    logs.controller(20, f"Successfully updated assignment of partition orders-0 to {order}")
    logs.controller(25, "Updated leader epoch for partition orders-0 to 1, zkVersion=1")
    logs.controller(30, f"Successfully updated assignment of partition orders-0 to {order}")
    (attempt,) = logs.attempts()
    assert (attempt.outcome, attempt.started_at_ms, attempt.ended_at_ms) == ("completed", START_MS + 20, START_MS + 20)


def test_a_failover_in_the_middle_is_counted_and_the_attempt_goes_on() -> None:
    logs = asked(created(Logs()))
    logs.controller(
        5_000,
        "5 successfully elected as the controller. Epoch incremented to 2 and epoch zk version is now 2",
        broker=5,
    )
    logs.controller(5_100, "Updated leader epoch for partition orders-0 to 2, zkVersion=2", broker=5)
    (attempt,) = finished(copied(logs)).attempts()
    assert (attempt.outcome, attempt.controller_changes) == ("completed", 1)


def test_what_a_new_controller_took_over_is_found_without_the_old_ones_log() -> None:
    logs = Logs()
    logs.controller(
        100, "5 successfully elected as the controller. Epoch incremented to 2 and epoch zk version is now 2", broker=5
    )
    logs.controller(200, "Updated leader epoch for partition orders-0 to 4, zkVersion=4", broker=5)
    logs.line(
        250,
        "INFO [Broker id=1] Leader orders-0 starts at leader epoch 4 from offset 1280 "
        "with high watermark 1280 ISR [1,0,2] "
        "addingReplicas [3,5] removingReplicas [1,0]. Previous leader epoch was 0. (state.change.logger)",
        node="broker-1",
        file="state-change.log",
    )
    (attempt,) = finished(copied(logs)).attempts()
    assert (attempt.outcome, attempt.started_at_ms, attempt.is_complete_evidence) == ("completed", None, False)
    assert attempt.target_replicas == (2, 3, 5)
    assert attempt.original_replicas is None


def test_it_stands_still_while_its_target_is_away() -> None:
    logs = asked(created(Logs()))
    logs.controller(
        1_000, "Newly added brokers: , deleted brokers: 5, bounced brokers: , all live brokers: 0,1,2,3"
    ).controller(200_000, "Processing automatic preferred replica leader election")
    logs.controller(200_001, "Starting replica leader election (PREFERRED) for partitions  triggered by AutoTriggered")
    (attempt,) = logs.attempts()
    assert (attempt.stalled_since_ms, attempt.blocked_by, attempt.blocked_replicas) == (
        START_MS + 341,
        "broker_down",
        (5,),
    )


def test_elections_by_tool_by_znode_and_by_themselves() -> None:
    logs = created(Logs())
    logs.controller(
        1_000,
        "Starting replica leader election (PREFERRED) for partitions orders-0 triggered by AdminClientTriggered",
    )
    logs.controller(
        1_010,
        "Waiting for any successful result for election type (PREFERRED) by AdminClientTriggered for partitions: "
        "Map(orders-0 -> Right(1))",
        level="DEBUG",
    )
    logs.controller(
        2_000, "Starting replica leader election (PREFERRED) for partitions orders-0 triggered by ZkTriggered"
    ).controller(2_010, "Partition orders-0 completed preferred replica leader election. New leader is 1")
    logs.controller(
        3_000, "Starting replica leader election (PREFERRED) for partitions  triggered by AdminClientTriggered"
    )
    logs.controller(
        3_010,
        "Waiting for any successful result for election type (PREFERRED) by AdminClientTriggered for partitions: "
        "Map(orders-0 -> Left(ApiError(error=ELECTION_NOT_NEEDED, message=Leader "
        "election not needed for topic partition.)))",
        level="DEBUG",
    )
    logs.controller(4_000, "Starting replica leader election (PREFERRED) for partitions  triggered by AutoTriggered")
    assert [(e.cause, e.elected, e.outcome) for e in logs.history().elections] == [
        ("tool", 1, "elected"),
        ("znode", 1, "elected"),
        ("tool", 1, "not_needed"),
    ]


def test_throttles_of_a_map_are_parted_at_their_names_not_at_commas() -> None:
    text = (
        "HashMap(leader.replication.throttled.replicas -> 0:1,1:2, follower.replication.throttled.replicas -> *, "
        "leader.replication.throttled.rate -> 700000)"
    )
    assert throttles_in(text) == {
        "leader.replication.throttled.replicas": "0:1,1:2",
        "follower.replication.throttled.replicas": "*",
        "leader.replication.throttled.rate": "700000",
    }


def test_throttles_are_shown_once_though_every_broker_prints_them_and_end_with_an_empty_map() -> None:
    logs = created(Logs())
    for broker in (1, 2):
        logs.line(
            1_000 + broker,
            "INFO Processing override for entityPath: brokers/1 with config: "
            "HashMap(leader.replication.throttled.rate -> "
            "700000, follower.replication.throttled.rate -> 700000) (kafka.server.DynamicConfigManager)",
            node=f"broker-{broker}",
            file="server.log",
        )
    logs.line(
        9_000,
        "INFO Processing override for entityPath: brokers/1 with config: Map() (kafka.server.DynamicConfigManager)",
        node="broker-1",
        file="server.log",
    )
    throttles = logs.history().throttles
    assert [(t.resource, t.value, t.set_at_ms, t.removed_at_ms) for t in throttles] == [
        ("1", "700000", START_MS + 1_001, START_MS + 9_000)
    ] * 2


def test_a_line_with_a_name_no_topic_has_is_not_believed() -> None:
    logs = Logs()
    logs.controller(10, f"Updating assignment of partition x'; rm -0 from {BEFORE} to {MOVING}", level="DEBUG")
    logs.controller(20, f"Successfully updated assignment of partition x'; rm -0 to {MOVING}")
    assert logs.attempts() == []
