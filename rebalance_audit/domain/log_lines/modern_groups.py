"""Messages about consumer (KIP-848), share (KIP-932) and streams (KIP-1071) groups. Formats: docs/log_lines.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_audit.domain.model import LogKind

_PROTOCOL = "<protocol:classic|consumer>"
_STATE = "epoch=<member_epoch:int>, previousEpoch=<previous_epoch:int>, state=<member_state:word>, "

FORMS: tuple[tuple[LogKind, str] | tuple[LogKind, str, Mapping[str, Any]], ...] = (
    (LogKind.EPOCH_BUMPED, "[GroupId <group_id>] Bumped group epoch to <group_epoch:int>."),
    (
        LogKind.EPOCH_BUMPED,
        "[GroupId <group_id>] Bumped group epoch to <group_epoch:int> with metadata hash <metadata_hash:long>.",
    ),
    (
        LogKind.EPOCH_BUMPED,
        "[GroupId <group_id>][MemberId <member_id>] Bumped streams group epoch to <group_epoch:int> with metadata hash "
        "<metadata_hash:long>{ and validated topic epoch <validated_epoch:int>}?.",
        {"group_type": "streams"},
    ),
    (
        LogKind.TARGET_COMPUTED,
        "[GroupId <group_id>] Computed a new target assignment for epoch <group_epoch:int> with '<assignor>' assignor"
        "{ in <duration_ms:long>ms}?.",
    ),
    (
        LogKind.TARGET_COMPUTED,
        "[GroupId <group_id>] Computed a new target assignment for epoch <group_epoch:int> with '<assignor>' assignor"
        "{ in <duration_ms:long>ms}?: <target_assignment>.",
    ),
    *(
        (
            LogKind.ASSIGNMENT_DELAYED,
            f"[GroupId <group_id>] Assignment delayed due to the configured {cause}.{{.}}?",
            {"cause": cause},
        )
        for cause in ("assignment interval", "initial rebalance delay")
    ),
    (LogKind.TOPIC_METADATA_COMPUTED, "[GroupId <group_id>] Computed new subscription metadata: <metadata>."),
    (LogKind.TOPIC_METADATA_COMPUTED, "[GroupId <group_id>] Computed new metadata hash: <metadata_hash:long>."),
    (
        LogKind.TOPIC_METADATA_COMPUTED,
        "[GroupId <group_id>][MemberId <member_id>] Computed new metadata hash: <metadata_hash:long>.",
        {"group_type": "streams"},
    ),
    (
        LogKind.MODERN_MEMBER_JOINED,
        "[GroupId <group_id>] Member <member_id> joins the consumer group.",
        {"group_type": "consumer"},
    ),
    (
        LogKind.MODERN_MEMBER_JOINED,
        f"[GroupId <group_id>] Member <member_id> joins the consumer group using the {_PROTOCOL} protocol.",
        {"group_type": "consumer"},
    ),
    (
        LogKind.MODERN_MEMBER_JOINED,
        "[GroupId <group_id>] Static member <member_id> with instance id <group_instance_id> joins the consumer group.",
        {"group_type": "consumer"},
    ),
    (
        LogKind.MODERN_MEMBER_JOINED,
        "[GroupId <group_id>] Static member <member_id> with instance id <group_instance_id> joins the consumer group "
        f"using the {_PROTOCOL} protocol.",
        {"group_type": "consumer"},
    ),
    (
        LogKind.MODERN_MEMBER_JOINED,
        "[GroupId <group_id>] Static member <member_id> with instance id <group_instance_id> re-joins the consumer "
        "group.",
        {"group_type": "consumer"},
    ),
    (
        LogKind.STATIC_MEMBER_REPLACED,
        "[GroupId <group_id>] Static member with unknown member id and instance id <group_instance_id> re-joins the "
        "consumer "
        "group. Created a new member <new_member_id> to replace the existing member <member_id>.",
        {"group_type": "consumer"},
    ),
    (
        LogKind.STATIC_MEMBER_REPLACED,
        "[GroupId <group_id>] Static member with instance id <group_instance_id> re-joins the consumer group using the "
        f"{_PROTOCOL} protocol. Created a new member <new_member_id> to replace the existing member <member_id>.",
        {"group_type": "consumer"},
    ),
    (
        LogKind.MEMBER_JOINED,
        "[GroupId <group_id>] Dynamic member with unknown member id joins the consumer group. Created a new member id "
        "<member_id> and requesting the member to rejoin with this id.",
        {"group_type": "consumer", "asked_to_rejoin": True},
    ),
    (
        LogKind.MODERN_MEMBER_JOINED,
        "[GroupId <group_id>] Member <member_id> joins the share group using the share protocol.",
        {"group_type": "share"},
    ),
    (
        LogKind.MODERN_MEMBER_JOINED,
        "[GroupId <group_id>][MemberId <member_id>] Member joins the streams group.",
        {"group_type": "streams"},
    ),
    (
        LogKind.MODERN_MEMBER_JOINED,
        "[GroupId <group_id>][MemberId <member_id>] Static member <same_member_id> with instance id "
        "<group_instance_id> joins the streams group.",
        {"group_type": "streams"},
    ),
    (
        LogKind.STATIC_MEMBER_REPLACED,
        "[GroupId <group_id>][MemberId <same_member_id>] Static member with instance id <group_instance_id> re-joins "
        "the streams group using the streams protocol. Created a new member <new_member_id> to replace the existing "
        "member <member_id>.",
        {"group_type": "streams"},
    ),
    (
        LogKind.MODERN_MEMBER_LEFT,
        "[GroupId <group_id>] Member <member_id> left the consumer group.",
        {"group_type": "consumer"},
    ),
    (
        LogKind.MODERN_MEMBER_LEFT,
        "[GroupId <group_id>] Member <member_id> left the share group.",
        {"group_type": "share"},
    ),
    (
        LogKind.MODERN_MEMBER_LEFT,
        "[GroupId <group_id>][MemberId <member_id>] Member <same_member_id> left the streams group.",
        {"group_type": "streams"},
    ),
    *(
        (
            LogKind.MODERN_MEMBER_LEFT,
            "[GroupId <group_id>][MemberId <member_id>] Static member <same_member_id> with instance id "
            f"<group_instance_id> {how}left the streams group.",
            {"group_type": "streams", "temporarily": how != ""},
        )
        for how in ("temporarily ", "")
    ),
    *(
        (
            LogKind.MODERN_MEMBER_LEFT,
            f"[GroupId <group_id>] Static {word} <member_id> with instance id <group_instance_id> {how}left the "
            f"consumer group.",
            {"group_type": "consumer", "temporarily": how != ""},
        )
        for word in ("member", "Member")
        for how in ("temporarily ", "")
    ),
    *(
        (
            LogKind.MODERN_MEMBER_LEFT,
            f"[{prefix} <group_id>] Static {word} <member_id> with instance id <group_instance_id> has left group "
            f"through "
            "explicit `LeaveGroup` request; client reason: <client_reason>",
            {"group_type": "consumer", "protocol": "classic"},
        )
        for prefix, word in (("GroupId", "member"), ("Group", "Member"))
    ),
    *(
        (
            LogKind.MODERN_MEMBER_LEFT,
            f"[{prefix} <group_id>] Dynamic {word} <member_id> has left group through explicit `LeaveGroup` request; "
            "client reason: <client_reason>",
            {"group_type": "consumer", "protocol": "classic"},
        )
        for prefix, word in (("GroupId", "member"), ("Group", "Member"))
    ),
    (
        LogKind.MEMBER_FENCED,
        "[GroupId <group_id>] Member <member_id> fenced from the group because <reason>.",
    ),
    (
        LogKind.MEMBER_FENCED,
        "[GroupId <group_id>] Streams member <member_id> fenced from the group because <reason>.",
        {"group_type": "streams"},
    ),
    (
        LogKind.MEMBER_FENCED,
        "[GroupId <group_id>] Static member <member_id> with instance id <group_instance_id> is fenced by existing "
        "member "
        "<expected_member_id>.",
    ),
    (
        LogKind.MEMBER_FENCED,
        "[GroupId <group_id>] Static member <member_id> with instance id <group_instance_id> cannot join the group "
        "because "
        "the instance id is{ is}? owned by member <expected_member_id>.",
    ),
    (
        LogKind.MEMBER_STATE_CHANGED,
        f"[GroupId <group_id>] Member <member_id> new assignment state: {_STATE}"
        "assignedPartitions=<assigned_text> and revokedPartitions=<revoked_text>.",
    ),
    (
        LogKind.MEMBER_STATE_CHANGED,
        f"[GroupId <group_id>] Member <member_id> new assignment state: {_STATE}assignedPartitions=<assigned_text>.",
    ),
    (
        LogKind.MEMBER_STATE_CHANGED,
        f"[GroupId <group_id>][MemberId <member_id>] Member's new assignment state: {_STATE}"
        "assignedTasks=<assigned_text> and tasksPendingRevocation=<revoked_text>.",
        {"group_type": "streams"},
    ),
    (
        LogKind.MEMBER_STATE_CHANGED,
        "[GroupId <group_id>] Member <member_id> transitioned from <from_text> to <to_text>.",
    ),
    (
        LogKind.SUBSCRIPTION_UPDATED,
        "[GroupId <group_id>] Member <member_id> updated its subscribed topics to: <subscription>.",
    ),
    (
        LogKind.SUBSCRIPTION_UPDATED,
        "[GroupId <group_id>] Member <member_id> updated its subscribed regex to: <subscription>.",
        {"is_regex": True},
    ),
    (
        LogKind.GROUP_CONVERTED,
        "[GroupId <group_id>] Converted the <from_type:classic|consumer|share|streams> group to a "
        "<to_type:classic|consumer|share|streams> group.",
    ),
    (
        LogKind.GROUP_CONVERTED,
        "[GroupId <group_id>] Converted the empty <from_type:classic|consumer|share|streams> group to a "
        "<to_type:classic|consumer|share|streams> group.",
        {"was_empty": True},
    ),
    *(
        (LogKind.CONVERSION_REFUSED, text, {"from_type": from_type, "to_type": to_type})
        for from_type, to_type, text in (
            ("classic", "consumer", "Cannot upgrade classic group <group_id> to consumer group because <reason>."),
            ("classic", "consumer", "Cannot upgrade classic group <group_id> to consumer group: <reason>."),
            ("consumer", "classic", "Cannot downgrade consumer group <group_id> to classic group because <reason>."),
            ("consumer", "classic", "Cannot downgrade the consumer group <group_id>: <reason>."),
        )
    ),
    (
        LogKind.STREAMS_TOPOLOGY_SET,
        "[GroupId <group_id>][MemberId <member_id>] Member initialized the topology with epoch <topology_epoch:int>",
        {"group_type": "streams"},
    ),
    (
        LogKind.STREAMS_CONFIG_CHANGED,
        "[GroupId <group_id>][MemberId <member_id>] Assignment configurations changed to <configs>. Triggering "
        "rebalance.",
        {"group_type": "streams"},
    ),
    (
        LogKind.STREAMS_SHUTDOWN_REQUESTED,
        "[GroupId <group_id>][MemberId <member_id>] Shutdown requested for the streams application.",
        {"group_type": "streams"},
    ),
)
