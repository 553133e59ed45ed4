"""Each message of the Scala coordinator, as its releases write it. Lines with 16:2x times are from golden captures."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.model import LogKind
from tests.domain.log_lines.lines import HEAD, M1, M2, SCALA, SCALA_METADATA, event_of, fields_of

PREPARING = (
    "Preparing to rebalance group orders-app in state PreparingRebalance with old generation {} (__consumer_offsets-1) "
)
METADATA = (
    f"Member MemberMetadata(memberId={M1}, groupInstanceId=Some(inst-1), clientId=c1, clientHost=/127.0.0.1, "
    "sessionTimeoutMs=10000, rebalanceTimeoutMs=300000, supportedProtocols=List(range, cooperative-sticky)) "
)
LEFT = {
    "member_id": M1,
    "group_instance_id": "inst-1",
    "client_id": "c1",
    "client_host": "/127.0.0.1",
    "session_timeout_ms": 10000,
    "rebalance_timeout_ms": 300000,
    "supported_assignors": ("range", "cooperative-sticky"),
}

# releases, message, kind, group, fields
CASES: list[tuple[str, str, LogKind, str | None, dict[str, Any]]] = [
    (
        "2.0-3.1",
        PREPARING.format(0) + f"(reason: Adding new member {M1} with group instance id None)",
        LogKind.PREPARING,
        "orders-app",
        {
            "group_state": "PreparingRebalance",
            "generation_id": 0,
            "offsets_partition": 1,
            "reason": f"Adding new member {M1} with group instance id None",
            "client_reason": None,
        },
    ),
    (
        "3.2-3.9",
        PREPARING.format(7)
        + f"(reason: Removing member {M1} on LeaveGroup; client reason: the consumer is being closed)",
        LogKind.PREPARING,
        "orders-app",
        {
            "group_state": "PreparingRebalance",
            "generation_id": 7,
            "offsets_partition": 1,
            "reason": f"Removing member {M1} on LeaveGroup",
            "client_reason": "the consumer is being closed",
        },
    ),
    (
        "3.9 without a client reason",
        PREPARING.format(7) + f"(reason: Removing member {M1} on LeaveGroup; client reason: )",
        LogKind.PREPARING,
        "orders-app",
        {
            "group_state": "PreparingRebalance",
            "generation_id": 7,
            "offsets_partition": 1,
            "reason": f"Removing member {M1} on LeaveGroup",
            "client_reason": None,
        },
    ),
    (
        "2.0-2.7",
        "Stabilized group orders-app generation 1 (__consumer_offsets-1)",
        LogKind.STABILIZED,
        "orders-app",
        {"generation_id": 1, "offsets_partition": 1},
    ),
    (
        "2.8-3.9",
        "Stabilized group orders-app generation 2 (__consumer_offsets-1) with 3 members",
        LogKind.STABILIZED,
        "orders-app",
        {"generation_id": 2, "offsets_partition": 1, "member_count": 3},
    ),
    (
        "all",
        "Group orders-app with generation 7 is now empty (__consumer_offsets-1)",
        LogKind.EMPTIED,
        "orders-app",
        {"generation_id": 7, "offsets_partition": 1},
    ),
    (
        "2.0-2.7",
        "Assignment received from leader for group orders-app for generation 1",
        LogKind.ASSIGNMENT_RECEIVED,
        "orders-app",
        {"generation_id": 1},
    ),
    (
        "2.8",
        "Assignment received from leader for group orders-app for generation 1. The group has 4 members, 1 of which "
        "are static.",
        LogKind.ASSIGNMENT_RECEIVED,
        "orders-app",
        {"generation_id": 1, "member_count": 4, "static_count": 1},
    ),
    (
        "3.0-3.9",
        f"Assignment received from leader {M1} for group orders-app for generation 1. The group has 1 members, "
        "0 of which are static.",
        LogKind.ASSIGNMENT_RECEIVED,
        "orders-app",
        {"member_id": M1, "generation_id": 1, "member_count": 1, "static_count": 0},
    ),
    (
        "2.0-2.7",
        f"Group g remove dynamic members who haven't joined: Set({M1}, {M2})",
        LogKind.MEMBERS_NOT_REJOINED,
        "g",
        {"member_ids": (M1, M2)},
    ),
    (
        "2.8-3.9",
        f"Group g removed dynamic members who haven't joined: HashSet({M1})",
        LogKind.MEMBERS_NOT_REJOINED,
        "g",
        {"member_ids": (M1,)},
    ),
    (
        "3.0-3.9",
        f"Group g removed members who haven't sent their sync request: Set({M1})",
        LogKind.MEMBERS_NOT_SYNCED,
        "g",
        {"member_ids": (M1,)},
    ),
    ("all", "Group g could not complete rebalance because no members rejoined", LogKind.NO_MEMBER_REJOINED, "g", {}),
    ("all", "Group g is dead, skipping rebalance stage", LogKind.REBALANCE_SKIPPED, "g", {}),
    (
        "2.3-2.8",
        f"Member[group.instance.id Some(inst-1), member.id {M1}] in group g has left, removing it from the group",
        LogKind.MEMBER_LEFT,
        "g",
        {"group_instance_id": "inst-1", "member_id": M1},
    ),
    (
        "2.3-2.8, dynamic",
        f"Member[group.instance.id None, member.id {M1}] in group g has left, removing it from the group",
        LogKind.MEMBER_LEFT,
        "g",
        {"group_instance_id": None, "member_id": M1},
    ),
    ("3.0, 3.1", METADATA + "has left group g through explicit `LeaveGroup` request", LogKind.MEMBER_LEFT, "g", LEFT),
    (
        "3.2-3.9",
        METADATA + "has left group g through explicit `LeaveGroup`; client reason: consumer poll timeout has expired.",
        LogKind.MEMBER_LEFT,
        "g",
        {**LEFT, "client_reason": "consumer poll timeout has expired."},
    ),
    (
        "2.2-2.8",
        f"Pending member {M1} is leaving group g.",
        LogKind.MEMBER_LEFT,
        "g",
        {"member_id": M1, "is_pending": True},
    ),
    (
        "3.0-3.9",
        f"Pending member with memberId={M1} has left group g through explicit `LeaveGroup` request",
        LogKind.MEMBER_LEFT,
        "g",
        {"member_id": M1, "is_pending": True},
    ),
    (
        "all",
        f"Member {M1} in group orders-app has failed, removing it from the group",
        LogKind.MEMBER_FAILED,
        "orders-app",
        {"member_id": M1},
    ),
    (
        "all",
        f"Pending member {M1} in group g has been removed after session timeout expiration.",
        LogKind.MEMBER_FAILED,
        "g",
        {"member_id": M1, "is_pending": True},
    ),
    (
        "2.6-3.9",
        f"Received notification of heartbeat expiration for member {M1} after group g had already been unloaded or "
        f"deleted.",
        LogKind.MEMBER_EXPIRY_IGNORED,
        "g",
        {"member_id": M1},
    ),
    (
        "2.3-2.8",
        f"Static Member with unknown member id joins group g in Stable state. Created a new member id {M1} for this "
        f"member "
        "and add to the group.",
        LogKind.MEMBER_JOINED,
        "g",
        {"group_state": "Stable", "member_id": M1},
    ),
    (
        "2.3-3.9, old clients",
        f"Dynamic Member with unknown member id joins group g in Empty state. Created a new member id {M1} for this "
        f"member "
        "and add to the group.",
        LogKind.MEMBER_JOINED,
        "g",
        {"group_state": "Empty", "member_id": M1},
    ),
    (
        "3.0-3.9",
        f"Dynamic member with unknown member id joins group orders-app in Stable state. Created a new member id {M1} "
        "and request the member to rejoin with this id.",
        LogKind.MEMBER_JOINED,
        "orders-app",
        {"group_state": "Stable", "member_id": M1, "asked_to_rejoin": True},
    ),
    (
        "3.0-3.9",
        f"Static member with groupInstanceId=inst-1 and unknown member id joins group g in Stable state. Created a new "
        f"member id {M1} for this member and add to the group.",
        LogKind.MEMBER_JOINED,
        "g",
        {"group_instance_id": "inst-1", "group_state": "Stable", "member_id": M1},
    ),
    (
        "2.3-2.8",
        f"Adding new static member Some(inst-1) to group g with member id {M1}.",
        LogKind.MEMBER_JOINED,
        "g",
        {"group_instance_id": "inst-1", "member_id": M1},
    ),
    (
        "2.3-2.8",
        "Static member Some(inst-3) of group g-static with unknown member id rejoins, assigning new member id "
        f"{M2}, while old member id {M1} will be removed.",
        LogKind.STATIC_MEMBER_REPLACED,
        "g-static",
        {"group_instance_id": "inst-3", "member_id": M1, "new_member_id": M2},
    ),
    (
        "3.0-3.9",
        f"Static member with groupInstanceId=inst-1 and unknown member id joins group g in Stable state. Replacing "
        f"previously mapped member {M1} with this groupInstanceId.",
        LogKind.STATIC_MEMBER_REPLACED,
        "g",
        {"group_instance_id": "inst-1", "group_state": "Stable", "member_id": M1},
    ),
    (
        "2.3-3.9",
        "Static member which joins during Stable stage and doesn't affect selectProtocol will not trigger rebalance.",
        LogKind.STATIC_MEMBER_KEPT,
        None,
        {},
    ),
    (
        "all",
        f"Setting empty assignments for members Set({M1}, {M2}) of g for generation 4",
        LogKind.EMPTY_ASSIGNMENT,
        "g",
        {"member_ids": (M1, M2), "generation_id": 4},
    ),
    (
        "all",
        f"Sending empty assignment to member {M1} of g for generation 4 with no errors",
        LogKind.EMPTY_ASSIGNMENT,
        "g",
        {"member_ids": (M1,), "generation_id": 4},
    ),
    (
        "all",
        "Failed to persist metadata for group g: The group is rebalancing, so a rejoin is needed.",
        LogKind.PERSIST_FAILED,
        "g",
        {"error": "The group is rebalancing, so a rejoin is needed."},
    ),
    (
        "all",
        "Failed to write empty metadata for group g: This is not the correct coordinator.",
        LogKind.PERSIST_FAILED,
        "g",
        {"error": "This is not the correct coordinator."},
    ),
    (
        "2.8",
        "Elected as the group coordinator for partition 12",
        LogKind.COORDINATOR_ELECTED,
        None,
        {"offsets_partition": 12},
    ),
    (
        "3.0-3.9",
        "Elected as the group coordinator for partition 12 in epoch 3",
        LogKind.COORDINATOR_ELECTED,
        None,
        {"offsets_partition": 12, "epoch": 3},
    ),
    (
        "3.0-3.9",
        "Resigned as the group coordinator for partition 12 in epoch 4",
        LogKind.COORDINATOR_RESIGNED,
        None,
        {"offsets_partition": 12, "epoch": 4},
    ),
    (
        "all",
        "Loading group metadata for g with generation 9",
        LogKind.GROUP_LOADED,
        "g",
        {"generation_id": 9},
    ),
    (
        "all",
        "Unloading group metadata for g with generation 9",
        LogKind.GROUP_UNLOADED,
        "g",
        {"generation_id": 9},
    ),
]

METADATA_CASES: list[tuple[str, str, LogKind, str | None, dict[str, Any]]] = [
    (
        "2.0-2.7",
        "Scheduling loading of offsets and group metadata from __consumer_offsets-2",
        LogKind.COORDINATOR_ELECTED,
        None,
        {"offsets_partition": 2},
    ),
    (
        "2.0-2.7",
        "Scheduling unloading of offsets and group metadata from __consumer_offsets-2",
        LogKind.COORDINATOR_RESIGNED,
        None,
        {"offsets_partition": 2},
    ),
    (
        "2.7",
        "Finished loading offsets and group metadata from __consumer_offsets-2 in 12 milliseconds, of which 3 "
        "milliseconds "
        "was spent in the scheduler.",
        LogKind.COORDINATOR_LOADED,
        None,
        {"offsets_partition": 2, "duration_ms": 12, "scheduler_ms": 3},
    ),
    (
        "3.9",
        "Finished loading offsets and group metadata from __consumer_offsets-2 in 12 milliseconds for epoch 5, of "
        "which "
        "3 milliseconds was spent in the scheduler.",
        LogKind.COORDINATOR_LOADED,
        None,
        {"offsets_partition": 2, "duration_ms": 12, "scheduler_ms": 3, "epoch": 5},
    ),
    (
        "3.9",
        "Finished unloading __consumer_offsets-2 for coordinator epoch OptionalInt[5]. Removed 3 cached offsets and "
        "1 cached groups.",
        LogKind.COORDINATOR_UNLOADED,
        None,
        {"offsets_partition": 2, "epoch": 5, "offset_count": 3, "group_count": 1},
    ),
    (
        "2.7",
        "Finished unloading __consumer_offsets-2. Removed 3 cached offsets and 1 cached groups.",
        LogKind.COORDINATOR_UNLOADED,
        None,
        {"offsets_partition": 2, "offset_count": 3, "group_count": 1},
    ),
    (
        "all",
        "Group g transitioned to Dead in generation 4",
        LogKind.GROUP_DEAD,
        "g",
        {"generation_id": 4},
    ),
    (
        "all",
        "The following groups were deleted: a, b. A total of 12 offsets were removed.",
        LogKind.GROUPS_DELETED,
        None,
        {"group_ids": "a, b", "offset_count": 12},
    ),
]


@pytest.mark.parametrize(("releases", "message", "kind", "group_id", "fields"), CASES)
def test_the_coordinators_message_is_understood(
    releases: str, message: str, kind: LogKind, group_id: str | None, fields: dict[str, Any]
) -> None:
    event = event_of(HEAD + SCALA + message + " (kafka.coordinator.group.GroupCoordinator)\n")
    assert (event.kind, event.group_id, dict(event.fields)) == (kind, group_id, fields)
    assert (event.coordinator_broker_id, event.could_be_forged, event.at_ms) == (1, False, None)


@pytest.mark.parametrize(("releases", "message", "kind", "group_id", "fields"), METADATA_CASES)
def test_the_metadata_managers_message_is_understood(
    releases: str, message: str, kind: LogKind, group_id: str | None, fields: dict[str, Any]
) -> None:
    event = event_of(HEAD + SCALA_METADATA + message + " (kafka.coordinator.group.GroupMetadataManager)\n")
    assert (event.kind, event.group_id, dict(event.fields), event.coordinator_broker_id) == (kind, group_id, fields, 1)


BARE: list[tuple[str, LogKind, dict[str, Any]]] = [
    (
        f"Group leader [member.id: {M1}, group.instance.id: None] failed to join before rebalance timeout, while new "
        f"leader "
        f"MemberMetadata(memberId={M2}, groupInstanceId=None, clientId=c2, clientHost=/127.0.0.1, "
        f"sessionTimeoutMs=10000, "
        "rebalanceTimeoutMs=300000, supportedProtocols=List(range)) was elected.",
        LogKind.LEADER_REPLACED,
        {"member_id": M1, "group_instance_id": None, "new_member_id": M2},
    ),
    (
        f"Group leader [member.id: {M1}, group.instance.id: Some(i)] failed to join before rebalance timeout, and "
        f"the group "
        "couldn't proceed to next generationbecause no member joined.",
        LogKind.LEADER_NOT_REPLACED,
        {"member_id": M1, "group_instance_id": "i"},
    ),
    (
        f"Request memberId={M1} for static member with groupInstanceId=inst-1 is fenced by current memberId={M2} "
        f"during "
        "operation sync-group",
        LogKind.MEMBER_FENCED,
        {"member_id": M1, "group_instance_id": "inst-1", "expected_member_id": M2, "operation": "sync-group"},
    ),
    (
        f"given member.id {M1} is identified as a known static member inst-1, but not matching the expected "
        f"member.id {M2} "
        "during heartbeat, will respond with instance fenced error",
        LogKind.MEMBER_FENCED,
        {"member_id": M1, "group_instance_id": "inst-1", "expected_member_id": M2, "operation": "heartbeat"},
    ),
]


@pytest.mark.parametrize(("message", "kind", "fields"), BARE)
def test_the_group_classes_own_messages_have_no_prefix_and_no_group(
    message: str, kind: LogKind, fields: dict[str, Any]
) -> None:
    event = event_of("[2026-11-21 14:00:00,123] ERROR " + message + " (kafka.coordinator.group.GroupMetadata)\n")
    found = {name: value for name, value in fields_of(event).items() if name in fields}
    assert (event.kind, event.group_id, event.coordinator_broker_id, found) == (kind, None, None, fields)


def test_a_stack_trace_behind_an_error_does_not_hide_it_and_raises_no_suspicion() -> None:
    event = event_of(
        "[2026-11-21 14:00:00,123] WARN [GroupCoordinator 1]: Failed to write empty metadata for group g: no "
        "(kafka.coordinator.group.GroupCoordinator)\norg.apache.kafka.common.errors.NotCoordinatorException: "
        "no\n\tat a.B(C:1)\n"
    )
    assert (event.kind, event.group_id, event.could_be_forged) == (LogKind.PERSIST_FAILED, "g", False)
