"""Messages of the Scala group coordinator, 2.0 to 3.9. Formats: docs/log_lines.md."""

from __future__ import annotations

from rebalance_audit.domain.log_lines.rules import Rules, rules
from rebalance_audit.domain.model import LogKind

_METADATA = (
    "Member MemberMetadata(memberId=<member_id>, groupInstanceId=<group_instance_id>, clientId=<client_id>, "
    "clientHost=<client_host>, sessionTimeoutMs=<session_timeout_ms:int>, "
    "rebalanceTimeoutMs=<rebalance_timeout_ms:int>, "
    "supportedProtocols=<supported_assignors>) has left group <group_id> through explicit `LeaveGroup`"
)

RULES: Rules = rules(
    (
        (
            LogKind.PREPARING,
            "Preparing to rebalance group <group_id> in state <group_state:word> with old generation "
            "<generation_id:int> "
            "(<offsets_partition:partition>) (reason: <reason>)",
        ),
        (
            LogKind.PREPARING,
            "Preparing to rebalance group <group_id> with old generation <generation_id:int> "
            "(<offsets_partition:partition>)",
        ),
        (
            LogKind.STABILIZED,
            "Stabilized group <group_id> generation <generation_id:int> (<offsets_partition:partition>)"
            "{ with <member_count:int> members}?",
        ),
        (
            LogKind.EMPTIED,
            "Group <group_id> with generation <generation_id:int> is now empty (<offsets_partition:partition>)",
        ),
        (
            LogKind.ASSIGNMENT_RECEIVED,
            "Assignment received from leader for group <group_id> for generation <generation_id:int>"
            "{. The group has <member_count:int> members, <static_count:int> of which are static.}?",
        ),
        (
            LogKind.ASSIGNMENT_RECEIVED,
            "Assignment received from leader <member_id> for group <group_id> for generation <generation_id:int>. "
            "The group has <member_count:int> members, <static_count:int> of which are static.",
        ),
        (LogKind.MEMBERS_NOT_REJOINED, "Group <group_id> remove{d}? dynamic members who haven't joined: <member_ids>"),
        (
            LogKind.MEMBERS_NOT_SYNCED,
            "Group <group_id> removed members who haven't sent their sync request: <member_ids>",
        ),
        (LogKind.NO_MEMBER_REJOINED, "Group <group_id> could not complete rebalance because no members rejoined"),
        (LogKind.REBALANCE_SKIPPED, "Group <group_id> is dead, skipping rebalance stage"),
        (
            LogKind.LEADER_REPLACED,
            "Group leader [member.id: <member_id>, group.instance.id: <group_instance_id>] failed to join before "
            "rebalance "
            "timeout, while new leader MemberMetadata(memberId=<new_member_id>, groupInstanceId=<new_leader>) was "
            "elected.",
        ),
        (
            LogKind.LEADER_NOT_REPLACED,
            "Group leader [member.id: <member_id>, group.instance.id: <group_instance_id>] failed to join before "
            "rebalance "
            "timeout, and the group couldn't proceed to next generation{ }?because no member joined.",
        ),
        (
            LogKind.MEMBER_LEFT,
            "Member[group.instance.id <group_instance_id>, member.id <member_id>] in group <group_id> has left, "
            "removing it from the group",
        ),
        (LogKind.MEMBER_LEFT, "Member <member_id> in group <group_id> has left, removing it from the group"),
        (LogKind.MEMBER_LEFT, _METADATA + " request"),
        (LogKind.MEMBER_LEFT, _METADATA + "; client reason: <client_reason>"),
        (LogKind.MEMBER_LEFT, "Pending member <member_id> is leaving group <group_id>.", {"is_pending": True}),
        (
            LogKind.MEMBER_LEFT,
            "Pending member with memberId=<member_id> has left group <group_id> through explicit `LeaveGroup` request",
            {"is_pending": True},
        ),
        (LogKind.MEMBER_FAILED, "Member <member_id> in group <group_id> has failed, removing it from the group"),
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
            LogKind.MEMBER_JOINED,
            "Static Member with unknown member id joins group <group_id> in <group_state:word> state. "
            "Created a new member id <member_id> for this member and add to the group.",
        ),
        (
            LogKind.MEMBER_JOINED,
            "Dynamic Member with unknown member id joins group <group_id> in <group_state:word> state. "
            "Created a new member id <member_id> for this member and add to the group.",
        ),
        (
            LogKind.MEMBER_JOINED,
            "Dynamic member with unknown member id joins group <group_id> in <group_state:word> state. "
            "Created a new member id <member_id> and request the member to rejoin with this id.",
            {"asked_to_rejoin": True},
        ),
        (
            LogKind.MEMBER_JOINED,
            "Dynamic Member with unknown member id joins group <group_id> in <group_state:word> state. "
            "Created a new member id <member_id> and request the member to rejoin with this id.",
            {"asked_to_rejoin": True},
        ),
        (
            LogKind.PENDING_MEMBER_JOINED,
            "Pending dynamic member with id <member_id> joins group <group_id> in <group_state:word> state. "
            "Adding to the group now.",
        ),
        (
            LogKind.MEMBER_JOINED,
            "Static member with groupInstanceId=<group_instance_id> and unknown member id joins group <group_id> in "
            "<group_state:word> state. Created a new member id <member_id> for this member and add to the group.",
        ),
        (
            LogKind.MEMBER_JOINED,
            "Adding new static member <group_instance_id> to group <group_id> with member id <member_id>.",
        ),
        (
            LogKind.STATIC_MEMBER_REPLACED,
            "Static member <group_instance_id> of group <group_id> with unknown member id rejoins, assigning new "
            "member id "
            "<new_member_id>, while old member id <member_id> will be removed.",
        ),
        # 2.3 and 2.4 name no group, and write no record: the line is all there is of the restart.
        (
            LogKind.STATIC_MEMBER_REPLACED,
            "Static member Some(<group_instance_id>) with unknown member id rejoins, assigning new member id "
            "<new_member_id>, while old member <member_id> will be removed.",
        ),
        (
            LogKind.STATIC_MEMBER_REPLACED,
            "Static member with groupInstanceId=<group_instance_id> and unknown member id joins group <group_id> in "
            "<group_state:word> state. Replacing previously mapped member <member_id> with this groupInstanceId.",
        ),
        (LogKind.STATIC_MEMBER_KEPT, "Static member joins during Stable stage will not trigger rebalance."),
        (
            LogKind.STATIC_MEMBER_KEPT,
            "Static member which joins during Stable stage and doesn't affect selectProtocol will not trigger "
            "rebalance.",
        ),
        (
            LogKind.MEMBER_FENCED,
            "given member.id <member_id> is identified as a known static member <group_instance_id>, but not "
            "matching the "
            "expected member.id <expected_member_id> during <operation:word>, will respond with instance fenced error",
        ),
        (
            LogKind.MEMBER_FENCED,
            "Request memberId=<member_id> for static member with groupInstanceId=<group_instance_id> is fenced by "
            "current "
            "memberId=<expected_member_id> during operation <operation:word>",
        ),
        (
            LogKind.EMPTY_ASSIGNMENT,
            "Setting empty assignments for members <member_ids> of <group_id> for generation <generation_id:int>",
        ),
        (
            LogKind.EMPTY_ASSIGNMENT,
            "Sending empty assignment to member <member_id> of <group_id> for generation <generation_id:int> with no "
            "errors",
        ),
        (LogKind.PERSIST_FAILED, "Failed to persist metadata for group <group_id>: <error>"),
        (LogKind.PERSIST_FAILED, "Failed to write empty metadata for group <group_id>: <error>"),
        (
            LogKind.COORDINATOR_ELECTED,
            "Elected as the group coordinator for partition <offsets_partition:int>{ in epoch <epoch:word>}?",
        ),
        (
            LogKind.COORDINATOR_RESIGNED,
            "Resigned as the group coordinator for partition <offsets_partition:int>{ in epoch <epoch:word>}?",
        ),
        # Up to 2.7 nothing says "Elected": these lines, then still without an epoch, are its only trace.
        (
            LogKind.COORDINATOR_ELECTED,
            "Scheduling loading of offsets and group metadata from <offsets_partition:partition>",
        ),
        (
            LogKind.COORDINATOR_RESIGNED,
            "Scheduling unloading of offsets and group metadata from <offsets_partition:partition>",
        ),
        (
            LogKind.COORDINATOR_LOADED,
            "Finished loading offsets and group metadata from <offsets_partition:partition> in <duration_ms:long> "
            "milliseconds"
            "{ for epoch <epoch:word>}?{, of which <scheduler_ms:long> milliseconds was spent in the scheduler.}?",
        ),
        (
            LogKind.COORDINATOR_UNLOADED,
            "Finished unloading <offsets_partition:partition>{ for coordinator epoch <epoch:word>}?. "
            "Removed <offset_count:int> cached offsets and <group_count:int> cached groups.",
        ),
        (LogKind.GROUP_LOADED, "Loading group metadata for <group_id> with generation <generation_id:int>"),
        (LogKind.GROUP_UNLOADED, "Unloading group metadata for <group_id> with generation <generation_id:int>"),
        (LogKind.GROUP_DEAD, "Group <group_id> transitioned to Dead in generation <generation_id:int>"),
        (
            LogKind.GROUPS_DELETED,
            "The following groups were deleted: <group_ids>. A total of <offset_count:int> offsets were removed.",
        ),
    )
)
