"""Messages of group members: consumers, Streams, and the part of a Connect worker that is a group member."""

from __future__ import annotations

from rebalance_audit.domain.log_lines.rules import Rules, rules
from rebalance_audit.domain.model import LogKind

_GENERATION = "Generation{generationId=<generation_id:int>, memberId='<member_id>', protocol='<assignor>'}"
_UPDATE = (
    "Updating assignment with\n\tAssigned partitions:                       [<assigned>]\n"
    "\tCurrent owned partitions:                  [<owned>]\n\tAdded partitions (assigned - owned):       [<added>]\n"
    "\tRevoked partitions (owned - assigned):     [<revoked>]"
)
_MEMBER_UPDATE = (
    "Reconciling assignment with local epoch <member_epoch:int>\n"
    "\tMember:                                    <member_id>\n\tAssigned partitions:                       "
    "[<assigned>]\n"
    "\tCurrent owned partitions:                  [<owned>]\n\tAdded partitions (assigned - owned):       [<added>]\n"
    "\tRevoked partitions (owned - assigned):     [<revoked>]"
)

RULES: Rules = rules(
    (
        (LogKind.CLIENT_JOINING, "(Re-)joining group"),
        (LogKind.CLIENT_JOINED, "Successfully joined group with generation " + _GENERATION),
        (LogKind.CLIENT_JOINED, "Successfully joined group with generation <generation_id:int>"),
        (LogKind.CLIENT_SYNCED, "Successfully synced group in generation " + _GENERATION),
        (
            LogKind.CLIENT_COMPUTED_ASSIGNMENT,
            "Finished assignment for group at generation <generation_id:int>: <assignments>",
        ),
        (
            LogKind.CLIENT_GIVEN_ASSIGNMENT,
            "Notifying assignor about the new Assignment(partitions=[<partitions>]"
            "{, userDataSize=<user_data_bytes:int>}?)",
        ),
        (LogKind.CLIENT_REQUESTED_JOIN, "Request joining group due to: <client_reason>"),
        (
            LogKind.CLIENT_REQUESTED_JOIN,
            "Requesting to re-join the group and trigger rebalance since <client_reason>",
        ),
        (
            LogKind.CLIENT_REQUESTED_JOIN,
            "Need to revoke partitions <partitions> and re-join the group",
            {"client_reason": "need to revoke partitions and re-join"},
        ),
        (LogKind.CLIENT_GENERATION_RESET, "Resetting generation due to: <client_reason>"),
        (LogKind.CLIENT_GENERATION_RESET, "Resetting generation and member id due to: <client_reason>"),
        (LogKind.CLIENT_GENERATION_RESET, "Resetting generation due to <client_reason>"),
        (LogKind.CLIENT_GENERATION_RESET, "Resetting generation after <client_reason>"),
        (LogKind.CLIENT_TOLD_OF_REBALANCE, "Attempt to heartbeat failed since group is rebalancing"),
        (LogKind.CLIENT_REVOKED, "Revoke previously assigned partitions <partitions>", {"stage": "callback"}),
        (LogKind.CLIENT_REVOKED, "Revoking previously assigned partitions <partitions>", {"stage": "begin"}),
        (LogKind.CLIENT_ASSIGNED, "Adding newly assigned partitions: <partitions>"),
        (LogKind.CLIENT_LOST, "Lost previously assigned partitions <partitions>"),
        (LogKind.CLIENT_UPDATED_ASSIGNMENT, _UPDATE),
        (LogKind.CLIENT_UPDATED_ASSIGNMENT, _MEMBER_UPDATE),
        (
            LogKind.CLIENT_LEAVING,
            "Member <member_id> sending LeaveGroup request to coordinator <coordinator> due to <client_reason>",
        ),
        (LogKind.CLIENT_POLL_TIMEOUT, "consumer poll timeout has expired. <detail>"),
        (
            LogKind.CLIENT_MEMBER_STATE,
            "Member <member_id> with epoch <member_epoch:int> transitioned from <from_state:word> to "
            "<member_state:word>.",
        ),
    )
)
"""Behind `[Consumer clientId=…, groupId=…] `, and the coordinator's part of a Connect worker behind `[Worker …] `."""
