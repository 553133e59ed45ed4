"""Messages of the Java group coordinator, 3.7 on: classic groups and its partitions. Formats: docs/log_lines.md."""

from __future__ import annotations

from rebalance_audit.domain.log_lines.modern_groups import FORMS
from rebalance_audit.domain.log_lines.rules import Rules, rules
from rebalance_audit.domain.model import LogKind

RULES: Rules = rules(
    (
        (
            LogKind.PREPARING,
            "Preparing to rebalance group <group_id> in state <group_state:word> with old generation "
            "<generation_id:int> "
            "(reason: <reason>).",
        ),
        (
            LogKind.STABILIZED,
            "Stabilized group <group_id> generation <generation_id:int> with <member_count:int> members.",
        ),
        (LogKind.EMPTIED, "Group <group_id> with generation <generation_id:int> is now empty."),
        (
            LogKind.ASSIGNMENT_RECEIVED,
            "Assignment received from leader <member_id> for group <group_id> for generation <generation_id:int>. "
            "The group has <member_count:int> members, <static_count:int> of which are static.",
        ),
        (LogKind.MEMBERS_NOT_REJOINED, "Group <group_id> removed dynamic members who haven't joined: <member_ids>"),
        (
            LogKind.MEMBERS_NOT_SYNCED,
            "Group <group_id> removed members who haven't sent their sync requests: <member_ids>",
        ),
        (
            LogKind.JOIN_PHASE_FAILED,
            "The write event Timeout(key=join-<group_id>) for the timer join-<timer> failed due to <error>. "
            "Ignoring it.{ }?",
        ),
        (LogKind.NO_MEMBER_REJOINED, "Group <group_id> could not complete rebalance because no members rejoined."),
        (LogKind.REBALANCE_SKIPPED, "Group <group_id> is dead, skipping rebalance stage."),
        (
            LogKind.LEADER_REPLACED,
            "Group leader [memberId: <member_id>, groupInstanceId: <group_instance_id>] failed to join before the "
            "rebalance "
            "timeout. Member <new_member_id> was elected as the new leader.",
        ),
        (
            LogKind.LEADER_NOT_REPLACED,
            "Group leader [memberId: <member_id>, groupInstanceId: <group_instance_id>] failed to join before the "
            "rebalance "
            "timeout and the group couldn't proceed to the next generation because no member joined.",
        ),
        (
            LogKind.MEMBER_LEFT,
            "[Group <group_id>] Member <member_id> has left group through explicit `LeaveGroup` request; "
            "client reason: <client_reason>",
        ),
        (
            LogKind.MEMBER_LEFT,
            "[Group <group_id>] Pending member <member_id> has left group through explicit `LeaveGroup` request; "
            "client reason: <client_reason>",
            {"is_pending": True},
        ),
        (LogKind.MEMBER_FAILED, "Member <member_id> in group <group_id> has failed, removing it from the group."),
        (
            LogKind.MEMBER_FAILED,
            "Pending member <member_id> in group <group_id> has been removed after session timeout expiration.",
            {"is_pending": True},
        ),
        (
            LogKind.MEMBER_EXPIRY_IGNORED,
            "Received notification of heartbeat expiration for member <member_id> after group <group_id> "
            "had already been unloaded or deleted.",
        ),
        (
            LogKind.MEMBER_EXPIRY_IGNORED,
            "Received notification of heartbeat expiration for member <member_id> after group <group_id> "
            "had already been deleted or upgraded.",
        ),
        (
            LogKind.MEMBER_JOINED,
            "Dynamic member with unknown member id joins group <group_id> in <group_state:word> state. "
            "Created a new member id <member_id> and requesting the member to rejoin with this id.",
            {"asked_to_rejoin": True},
        ),
        (
            LogKind.MEMBER_JOINED,
            "Dynamic member with unknown member id joins group <group_id> in state <group_state:word>. "
            "Created a new member id <member_id> and added the member to the group.",
        ),
        (
            LogKind.PENDING_MEMBER_JOINED,
            "Pending dynamic member with id <member_id> joins group <group_id> in <group_state:word> state. "
            "Adding to the group now.",
        ),
        (
            LogKind.MEMBER_JOINED,
            "Static member with groupInstanceId=<group_instance_id> and unknown member id joins group <group_id> in "
            "<group_state:word> state. Created a new member id <member_id> for this member and added to the group.",
        ),
        (
            LogKind.STATIC_MEMBER_REPLACED,
            "Static member with groupInstanceId=<group_instance_id> and unknown member id joins group <group_id> in "
            "<group_state:word> state. Replacing previously mapped member <member_id> with this groupInstanceId.",
        ),
        (
            LogKind.STATIC_MEMBER_KEPT,
            "Static member which joins during Stable stage and doesn't affect the selected protocol will not trigger "
            "a rebalance.",
        ),
        (
            LogKind.MEMBER_FENCED,
            "Request memberId=<member_id> for static member with groupInstanceId=<group_instance_id> is fenced by "
            "existing "
            "memberId=<expected_member_id> during operation <operation>",
        ),
        (
            LogKind.EMPTY_ASSIGNMENT,
            "Setting empty assignments for members <member_ids> of <group_id> for generation <generation_id:int>.",
        ),
        (
            LogKind.EMPTY_ASSIGNMENT,
            "Sending empty assignment to member <member_id> of <group_id> for generation <generation_id:int> with no "
            "errors",
        ),
        (
            LogKind.PERSIST_FAILED,
            "Failed to persist metadata for group <group_id> static member <member_id> with group instance id "
            "<group_instance_id> due to <error>. Reverting to old member id <expected_member_id>.",
        ),
        (LogKind.PERSIST_FAILED, "Failed to write empty metadata for group <group_id>: <error>"),
        (
            LogKind.COORDINATOR_ELECTED,
            "Scheduling loading of metadata from <offsets_partition:partition> with epoch <epoch:int>",
        ),
        (
            LogKind.COORDINATOR_RESIGNED,
            "Scheduling unloading of metadata for <offsets_partition:partition> with epoch <epoch:word>",
        ),
        (
            LogKind.COORDINATOR_LOADED,
            "Finished loading of metadata from <offsets_partition:partition> with epoch <epoch:int> in "
            "<duration_ms:long>ms "
            "where <scheduler_ms:long>ms was spent in the scheduler. Loaded <record_count:long> records which total to "
            "<loaded_bytes:long> bytes.",
        ),
        (
            LogKind.COORDINATOR_LOADED,
            "Finished loading of metadata from <offsets_partition:partition> with epoch <epoch:int> and "
            "LoadSummary=<summary>",
        ),
        (
            LogKind.COORDINATOR_UNLOADED,
            "Finished unloading metadata for <offsets_partition:partition> with epoch <epoch:word>",
        ),
        (
            LogKind.GROUP_LOADED,
            "Loaded <group_type:classic|consumer|share|streams> group <group_id> with <member_count:int> members.",
        ),
        (LogKind.GROUP_UNLOADED, "[GroupId=<group_id>] Unloading group metadata for generation <generation_id:int>."),
        (LogKind.GROUP_UNLOADED, "[GroupId=<group_id>] Unloaded group metadata for group epoch <group_epoch:int>."),
        (
            LogKind.GROUPS_DELETED,
            "The following groups were deleted: <group_ids>. A total of <offset_count:int> offsets were removed.",
        ),
        *FORMS,
    )
)
