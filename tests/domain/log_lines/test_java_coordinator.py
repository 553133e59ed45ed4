"""Each message of the Java coordinator about classic groups. Lines with 16:2x times are from golden captures."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.model import LogKind
from tests.domain.log_lines.lines import HEAD, JAVA, JAVA_LOGGER, JAVA_SERVICE, M1, M2, event_of, fields_of

PREPARING = "Preparing to rebalance group billing-app in state PreparingRebalance with old generation 2 (reason: {})."

CASES: list[tuple[str, str, LogKind, str | None, dict[str, Any]]] = [
    (
        "3.7-4.4",
        PREPARING.format(f"Adding new member {M1} with group instance id null; client reason: not provided"),
        LogKind.PREPARING,
        "billing-app",
        {
            "group_state": "PreparingRebalance",
            "generation_id": 2,
            "reason": f"Adding new member {M1} with group instance id null",
            "client_reason": None,
        },
    ),
    (
        "3.7-4.4",
        PREPARING.format(f"removing member {M1} on heartbeat expiration."),
        LogKind.PREPARING,
        "billing-app",
        {
            "group_state": "PreparingRebalance",
            "generation_id": 2,
            "reason": f"removing member {M1} on heartbeat expiration",
            "client_reason": None,
        },
    ),
    (
        "3.7-4.4",
        PREPARING.format(f"explicit `LeaveGroup` request for ({M1}, {M2}) members."),
        LogKind.PREPARING,
        "billing-app",
        {
            "group_state": "PreparingRebalance",
            "generation_id": 2,
            "reason": f"explicit `LeaveGroup` request for ({M1}, {M2}) members",
            "client_reason": None,
        },
    ),
    (
        "3.7-4.4",
        PREPARING.format(f'Leader {M1} re-joining group during Stable; client reason: say ("why (not)")'),
        LogKind.PREPARING,
        "billing-app",
        {
            "group_state": "PreparingRebalance",
            "generation_id": 2,
            "reason": f"Leader {M1} re-joining group during Stable",
            "client_reason": 'say ("why (not)")',
        },
    ),
    (
        "3.7-4.4",
        "Stabilized group billing-app generation 3 with 1 members.",
        LogKind.STABILIZED,
        "billing-app",
        {"generation_id": 3, "member_count": 1},
    ),
    ("3.7-4.4", "Group g with generation 8 is now empty.", LogKind.EMPTIED, "g", {"generation_id": 8}),
    (
        "3.7-4.4",
        f"Assignment received from leader {M1} for group g for generation 3. The group has 2 members, 1 of which are "
        f"static.",
        LogKind.ASSIGNMENT_RECEIVED,
        "g",
        {"member_id": M1, "generation_id": 3, "member_count": 2, "static_count": 1},
    ),
    (
        "3.7-4.4",
        f"Group frozen removed dynamic members who haven't joined: [{M1}, {M2}]",
        LogKind.MEMBERS_NOT_REJOINED,
        "frozen",
        {"member_ids": (M1, M2)},
    ),
    (
        "3.7-4.4",
        f"Group g removed members who haven't sent their sync requests: [{M1}]",
        LogKind.MEMBERS_NOT_SYNCED,
        "g",
        {"member_ids": (M1,)},
    ),
    (
        "3.7-4.4",
        "Group g could not complete rebalance because no members rejoined.",
        LogKind.NO_MEMBER_REJOINED,
        "g",
        {},
    ),
    (
        "4.3",
        "The write event Timeout(key=join-g) for the timer join-g failed due to Error reading byte array of 6 byte(s): "
        "only 4 byte(s) available. Ignoring it. ",
        LogKind.JOIN_PHASE_FAILED,
        "g",
        {"timer": "g", "error": "Error reading byte array of 6 byte(s): only 4 byte(s) available"},
    ),
    ("3.7-4.4", "Group g is dead, skipping rebalance stage.", LogKind.REBALANCE_SKIPPED, "g", {}),
    (
        "3.7-4.4",
        f"Group leader [memberId: {M1}, groupInstanceId: None] failed to join before the rebalance timeout. Member "
        f"{M2} was "
        "elected as the new leader.",
        LogKind.LEADER_REPLACED,
        None,
        {"member_id": M1, "group_instance_id": None, "new_member_id": M2},
    ),
    (
        "3.7-4.4",
        f"Group leader [memberId: {M1}, groupInstanceId: i] failed to join before the rebalance timeout and the group "
        "couldn't proceed to the next generation because no member joined.",
        LogKind.LEADER_NOT_REPLACED,
        None,
        {"member_id": M1, "group_instance_id": "i"},
    ),
    (
        "3.7-4.4",
        f"[Group g] Member {M1} has left group through explicit `LeaveGroup` request; client reason: not provided",
        LogKind.MEMBER_LEFT,
        "g",
        {"member_id": M1, "client_reason": None},
    ),
    (
        "3.7-4.4",
        f"[Group g] Member {M1} has left group through explicit `LeaveGroup` request; client reason: consumer poll "
        f"timeout "
        "has expired.",
        LogKind.MEMBER_LEFT,
        "g",
        {"member_id": M1, "client_reason": "consumer poll timeout has expired."},
    ),
    (
        "3.7-4.4",
        f"[Group g] Pending member {M1} has left group through explicit `LeaveGroup` request; client reason: x",
        LogKind.MEMBER_LEFT,
        "g",
        {"member_id": M1, "client_reason": "x", "is_pending": True},
    ),
    (
        "3.7-4.4",
        f"Member {M1} in group g has failed, removing it from the group.",
        LogKind.MEMBER_FAILED,
        "g",
        {"member_id": M1},
    ),
    (
        "3.7-4.4",
        f"Pending member {M1} in group g has been removed after session timeout expiration.",
        LogKind.MEMBER_FAILED,
        "g",
        {"member_id": M1, "is_pending": True},
    ),
    (
        "3.8-4.4",
        f"Received notification of heartbeat expiration for member {M1} after group g had already been deleted or "
        f"upgraded.",
        LogKind.MEMBER_EXPIRY_IGNORED,
        "g",
        {"member_id": M1},
    ),
    (
        "3.7-4.4",
        f"Dynamic member with unknown member id joins group g in Empty state. Created a new member id {M1} and "
        f"requesting "
        "the member to rejoin with this id.",
        LogKind.MEMBER_JOINED,
        "g",
        {"group_state": "Empty", "member_id": M1, "asked_to_rejoin": True},
    ),
    (
        "3.7-4.4, old clients",
        f"Dynamic member with unknown member id joins group g in state Stable. Created a new member id {M1} and "
        f"added the "
        "member to the group.",
        LogKind.MEMBER_JOINED,
        "g",
        {"group_state": "Stable", "member_id": M1},
    ),
    (
        "4.0-4.4",
        f"Pending dynamic member with id {M1} joins group g in Stable state. Adding to the group now.",
        LogKind.PENDING_MEMBER_JOINED,
        "g",
        {"group_state": "Stable", "member_id": M1},
    ),
    (
        "3.7-4.4",
        f"Static member with groupInstanceId=s1-instance and unknown member id joins group g in Empty state. Created "
        f"a new "
        f"member id {M1} for this member and added to the group.",
        LogKind.MEMBER_JOINED,
        "g",
        {"group_instance_id": "s1-instance", "group_state": "Empty", "member_id": M1},
    ),
    (
        "3.7-4.4",
        f"Static member with groupInstanceId=s1-instance and unknown member id joins group g in Stable state. "
        f"Replacing "
        f"previously mapped member {M1} with this groupInstanceId.",
        LogKind.STATIC_MEMBER_REPLACED,
        "g",
        {"group_instance_id": "s1-instance", "group_state": "Stable", "member_id": M1},
    ),
    (
        "3.7-4.4",
        "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger a "
        "rebalance.",
        LogKind.STATIC_MEMBER_KEPT,
        None,
        {},
    ),
    (
        "3.7-4.4",
        f"Request memberId={M1} for static member with groupInstanceId=i is fenced by existing memberId={M2} during "
        "operation sync-group",
        LogKind.MEMBER_FENCED,
        None,
        {"member_id": M1, "group_instance_id": "i", "expected_member_id": M2, "operation": "sync-group"},
    ),
    (
        "3.7-4.4",
        f"Setting empty assignments for members [{M1}] of g for generation 4.",
        LogKind.EMPTY_ASSIGNMENT,
        "g",
        {"member_ids": (M1,), "generation_id": 4},
    ),
    (
        "3.7-4.4",
        f"Sending empty assignment to member {M1} of g for generation 4 with no errors",
        LogKind.EMPTY_ASSIGNMENT,
        "g",
        {"member_ids": (M1,), "generation_id": 4},
    ),
    (
        "3.7-4.4",
        f"Failed to persist metadata for group g static member {M1} with group instance id i due to X. Reverting to "
        f"old "
        f"member id {M2}.",
        LogKind.PERSIST_FAILED,
        "g",
        {"member_id": M1, "group_instance_id": "i", "error": "X", "expected_member_id": M2},
    ),
    (
        "3.7-4.4",
        "Loaded classic group ha with 3 members.",
        LogKind.GROUP_LOADED,
        "ha",
        {"group_type": "classic", "member_count": 3},
    ),
    (
        "3.7-4.4",
        "Loaded streams group ha with 3 members.",
        LogKind.GROUP_LOADED,
        "ha",
        {"group_type": "streams", "member_count": 3},
    ),
    (
        "3.7-4.4",
        "[GroupId=g] Unloading group metadata for generation 4.",
        LogKind.GROUP_UNLOADED,
        "g",
        {"generation_id": 4},
    ),
    (
        "3.7-4.4",
        "[GroupId=a b] Unloaded group metadata for group epoch 4.",
        LogKind.GROUP_UNLOADED,
        "a b",
        {"group_epoch": 4},
    ),
    (
        "3.7-4.4",
        "The following groups were deleted: a, b. A total of 12 offsets were removed.",
        LogKind.GROUPS_DELETED,
        None,
        {"group_ids": "a, b", "offset_count": 12},
    ),
]

SERVICE: list[tuple[str, str, LogKind, dict[str, Any]]] = [
    (
        "3.7-4.4",
        "Scheduling loading of metadata from __consumer_offsets-0 with epoch 7",
        LogKind.COORDINATOR_ELECTED,
        {"offsets_partition": 0, "epoch": 7},
    ),
    (
        "3.7",
        "Finished loading of metadata from __consumer_offsets-2 with epoch 0 and LoadSummary=LoadSummary(x=1).",
        LogKind.COORDINATOR_LOADED,
        {"offsets_partition": 2, "epoch": 0, "summary": "LoadSummary(x=1)."},
    ),
    (
        "3.8-4.4",
        "Finished loading of metadata from __consumer_offsets-2 with epoch 0 in 4ms where 3ms was spent in the "
        "scheduler. "
        "Loaded 5 records which total to 6 bytes.",
        LogKind.COORDINATOR_LOADED,
        {"offsets_partition": 2, "epoch": 0, "duration_ms": 4, "scheduler_ms": 3, "record_count": 5, "loaded_bytes": 6},
    ),
    (
        "3.7-4.4",
        "Scheduling unloading of metadata for __consumer_offsets-2 with epoch OptionalInt[3]",
        LogKind.COORDINATOR_RESIGNED,
        {"offsets_partition": 2, "epoch": 3},
    ),
    (
        "3.7-4.4, deleted",
        "Finished unloading metadata for __consumer_offsets-2 with epoch OptionalInt.empty.",
        LogKind.COORDINATOR_UNLOADED,
        {"offsets_partition": 2, "epoch": None},
    ),
]


@pytest.mark.parametrize(("releases", "message", "kind", "group_id", "fields"), CASES)
def test_the_shards_message_is_understood(
    releases: str, message: str, kind: LogKind, group_id: str | None, fields: dict[str, Any]
) -> None:
    event = event_of(HEAD + JAVA + message + JAVA_LOGGER + "\n")
    assert (event.kind, event.group_id, fields_of(event)) == (kind, group_id, fields)
    assert (event.fields["offsets_partition"], event.coordinator_broker_id, event.could_be_forged) == (3, 1, False)


@pytest.mark.parametrize(("releases", "message", "kind", "fields"), SERVICE)
def test_the_services_message_names_the_partition_and_no_group(
    releases: str, message: str, kind: LogKind, fields: dict[str, Any]
) -> None:
    event = event_of(
        HEAD + JAVA_SERVICE + message + " (org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime)\n"
    )
    assert (event.kind, event.group_id, dict(event.fields), event.coordinator_broker_id) == (kind, None, fields, 1)
