"""Lines of Kafka 2.1 to 2.5 and of the releases between those of the lab, as their brokers and workers printed them."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.log_lines import ControllerKind, classify_fence, classify_reason, parse_controller_line
from rebalance_audit.domain.log_lines.controller_events import ControllerEvent
from rebalance_audit.domain.model import LogKind
from tests.domain.log_lines.lines import HEAD, HERDER_LOGGER, M1, WORKER, a_line, event_of, java, scala

STATIC_1 = "inst-2-fb4ed8c5-2ccf-4326-bca1-d8fa703b3745"
STATIC_2 = "inst-2-8994e8b3-c7a9-466f-91db-b462b8ea0b0f"


def controller(text: str) -> ControllerEvent:
    event = parse_controller_line(a_line(text))
    assert event is not None, f"not understood: {text}"
    return event


@pytest.mark.parametrize(
    ("reason", "trigger"),
    [
        (f"Adding new member {M1}", "member_joined"),  # 2.2
        (f"Adding new member {M1} with group instanceid None", "member_joined"),  # 2.3, 2.4: one word
        (f"Adding new member {M1} with group instanceid Some(inst-1)", "member_joined"),
        (f"Updating metadata for member {M1}", "subscription_changed"),  # to 2.5
        (f"removing member {M1} on LeaveGroup", "member_left"),
        (f"removing member {M1} on heartbeat expiration", "member_session_expired"),
    ],
)
def test_reasons_of_2_2_to_2_5_name_member_and_cause(reason: str, trigger: str) -> None:
    found = classify_reason(reason)
    assert (found.trigger, found.member_ids) == (trigger, (M1,))


def test_a_preparation_of_2_3_names_its_new_member() -> None:
    event = scala(
        "Preparing to rebalance group orders-app in state PreparingRebalance with old generation 3 "
        f"(__consumer_offsets-1) (reason: Adding new member {M1} with group instanceid None)"
    )
    assert (event.kind, event.group_id) == (LogKind.PREPARING, "orders-app")
    assert event.fields["reason"] == f"Adding new member {M1} with group instanceid None"


def test_a_preparation_of_2_0_has_neither_state_nor_reason() -> None:
    event = scala("Preparing to rebalance group orders-app with old generation 3 (__consumer_offsets-1)")
    assert (event.kind, event.group_id) == (LogKind.PREPARING, "orders-app")
    assert event.fields == {"generation_id": 3, "offsets_partition": 1}


def test_a_departure_of_2_2_has_no_instance_id() -> None:
    event = scala(f"Member {M1} in group orders-app has left, removing it from the group")
    assert (event.kind, event.group_id) == (LogKind.MEMBER_LEFT, "orders-app")
    assert event.fields == {"member_id": M1}


def test_a_departure_of_2_4_is_shown_with_its_instance_id() -> None:
    event = scala(
        f"Member[group.instance.id None, member.id {M1}] in group orders-app has left, removing it from the group"
    )
    assert (event.kind, event.group_id) == (LogKind.MEMBER_LEFT, "orders-app")
    assert event.fields == {"member_id": M1, "group_instance_id": None}


def test_a_static_member_that_returns_to_2_3_is_shown_without_its_group() -> None:
    event = scala(
        f"Static member Some(inst-2) with unknown member id rejoins, assigning new member id {STATIC_2}, while old "
        f"member {STATIC_1} will be removed."
    )
    assert (event.kind, event.group_id) == (LogKind.STATIC_MEMBER_REPLACED, None)
    assert event.fields == {"group_instance_id": "inst-2", "new_member_id": STATIC_2, "member_id": STATIC_1}
    kept = scala("Static member joins during Stable stage will not trigger rebalance.")
    assert kept.kind is LogKind.STATIC_MEMBER_KEPT


def test_a_generation_of_2_2_shows_neither_count_nor_leader() -> None:
    stable = scala("Stabilized group orders-app generation 3 (__consumer_offsets-1)")
    assert (stable.kind, stable.fields) == (LogKind.STABILIZED, {"generation_id": 3, "offsets_partition": 1})
    given = scala("Assignment received from leader for group orders-app for generation 3")
    assert (given.kind, given.fields) == (LogKind.ASSIGNMENT_RECEIVED, {"generation_id": 3})


def test_connect_2_2_prints_no_generation_and_no_delay() -> None:
    event = event_of(
        HEAD + WORKER + "Joined group and got assignment: Assignment{error=0, leader='connect-1-a', "
        "leaderUrl='http://h:8083/', offset=4, connectorIds=[files], taskIds=[files-0, files-1]}" + HERDER_LOGGER
    )
    assert event.kind is LogKind.WORKER_JOINED
    assert "generation_id" not in event.fields
    assert event.fields["tasks"] == ("files-0", "files-1")


def test_connect_2_3_prints_its_generation_without_a_protocol_version() -> None:
    event = event_of(
        HEAD + WORKER + "Joined group at generation 4 and got assignment: Assignment{error=0, leader='connect-1-a', "
        "leaderUrl='http://h:8083/', offset=4, connectorIds=[files], taskIds=[files-0], revokedConnectorIds=[], "
        "revokedTaskIds=[], delay=0}" + HERDER_LOGGER
    )
    assert event.kind is LogKind.WORKER_JOINED
    assert (event.fields["generation_id"], event.fields["delay_ms"]) == (4, 0)
    assert "rebalance_delay_ms" not in event.fields


# ---- KIP-848 early access


def test_fencing_is_shown_with_and_without_a_second_full_stop() -> None:
    first = java("[GroupId modern] Member 8Zb2kKqTQyiU0lHk7X0O7w fenced from the group because its session expired.")
    assert classify_fence(first.fields["reason"]).trigger == "member_session_expired"  # 3.7
    second = java(
        "[GroupId modern] Member 8Zb2kKqTQyiU0lHk7X0O7w fenced from the group because the member session expired.."
    )
    assert second.fields["reason"] == "the member session expired"  # 3.8
    assert classify_fence(second.fields["reason"]).trigger == "member_session_expired"


def test_target_assignments_of_3_7_and_3_8_are_printed_in_full() -> None:
    topic = "Zr3P1oRtRl2fS0zCh5uFCw"
    seen = java(
        "[GroupId modern] Computed a new target assignment for epoch 4 with 'uniform' assignor: "
        f"{{m1=Assignment(error=0, partitions={{{topic}=[2, 3, 5]}}, metadata=VersionedMetadata(version=0))}}."
    )
    assert (seen.kind, seen.fields["group_epoch"]) == (LogKind.TARGET_COMPUTED, 4)
    later = java(
        "[GroupId modern] Computed a new target assignment for epoch 4 with 'uniform' assignor in 0ms: "
        f"{{m1=MemberAssignment(partitions={{{topic}=[2, 3, 5]}})}}."
    )
    assert (later.kind, later.fields["duration_ms"]) == (LogKind.TARGET_COMPUTED, 0)


# ---- controllers


def test_the_requests_of_2_4_and_2_5_show_leader_and_isr() -> None:
    event = parse_controller_line(a_line(SENT_BY_2_4))
    assert event is None  # read by domain.reassign.lines, like those of 2.3


SENT_BY_2_4 = (
    "[2026-11-21 14:00:00,123] TRACE [Controller id=1 epoch=1] Sending become-leader LeaderAndIsr request "
    "LeaderAndIsrPartitionState(topicName='orders', partitionIndex=1, controllerEpoch=1, leader=0, leaderEpoch=7, "
    "isr=[3, 0, 1], zkVersion=10, replicas=[0, 1, 3], addingReplicas=[], removingReplicas=[], isNew=false) to broker 0 "
    "for partition orders-1 (state.change.logger)"
)


def test_the_end_shown_by_3_3_is_one_where_the_leader_changes() -> None:
    event = controller(
        "[2026-11-21 14:00:00,123] INFO [Controller 100] AlterPartition request from node 1 for orders-0 completed the "
        "ongoing partition reassignment and triggered a leadership change. Returning NEW_LEADER_ELECTED. "
        "(org.apache.kafka.controller.ReplicationControlManager)"
    )
    assert (event.kind, event.logged_by) == (ControllerKind.ALTER_PARTITION_DONE, 100)
    assert (event.topic, event.partition, event.fields["is_completed"]) == ("orders", 0, True)


def test_the_end_shown_by_3_3_and_3_4_is_true_and_by_later_releases_it_is_not_known() -> None:
    message = (
        "AlterPartition request from node 1 for orders-0 completed the ongoing partition reassignment. "
        "(org.apache.kafka.controller.ReplicationControlManager)"
    )
    old = controller(f"[2026-11-21 14:00:00,123] INFO [Controller 100] {message}")
    assert old.fields["is_completed"] is True
    new = controller(f"[2026-11-21 14:00:00,123] INFO [QuorumController id=100] {message}")
    assert new.fields["is_completed"] is None


def test_brokers_that_register_with_3_3_are_shown() -> None:
    from rebalance_audit.domain.reassign.lines import BROKER_CHANGED, LogLines

    text = (
        "[2026-11-21 14:00:00,123] INFO [Controller 100] Registered new broker: RegisterBrokerRecord(brokerId=1, "
        "isMigratingZkBroker=false, incarnationId=mkLPg7SrQ3-CqEDL4vB3OA, brokerEpoch=3, "
        "endPoints=[BrokerEndpoint(name='PLAINTEXT', host='localhost', port=21001, securityProtocol=0)], "
        "features=[BrokerFeature(name='metadata.version', minSupportedVersion=1, maxSupportedVersion=7)], rack=null, "
        "fenced=true, inControlledShutdown=false) (org.apache.kafka.controller.ClusterControlManager)"
    )
    (line,) = LogLines().read([a_line(text)]).lines
    assert (line.kind, line.event.logged_by) == (BROKER_CHANGED, 100)
    assert line.fields == {"broker_id": 1, "fenced": 1, "level": 7}


def test_states_sent_by_2_4_are_read_with_their_lists() -> None:
    from rebalance_audit.domain.reassign.lines import STATE_SENT, LogLines

    (line,) = LogLines().read([a_line(SENT_BY_2_4)]).lines
    assert (line.kind, line.event.topic, line.event.partition) == (STATE_SENT, "orders", 1)
    assert line.fields == {"leader": 0, "leader_epoch": 7, "isr": (3, 0, 1), "version": 10}
