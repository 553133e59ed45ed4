"""Each message about consumer, share and streams groups. The first block is verbatim from a 4.3.0 capture."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.model import LogKind
from tests.domain.log_lines.lines import M1, M2, fields_of, java

K1 = "ztOXmimJRYKFm8PmyCPVSw"
K2 = "/Cl/WBruRfi8Qq6Op2hJ5A"
EPOCHS = {"member_epoch": 3, "previous_epoch": 2, "member_state": "UNREVOKED_PARTITIONS"}
CONSUMER = {"group_type": "consumer"}
STREAMS = {"group_type": "streams"}

# releases, message after the group, kind, fields
CASES: list[tuple[str, str, LogKind, dict[str, Any]]] = [
    (
        "3.9-4.4",
        f" Member {K1} joins the consumer group using the consumer protocol.",
        LogKind.MODERN_MEMBER_JOINED,
        {"member_id": K1, "protocol": "consumer", **CONSUMER},
    ),
    (
        "4.1-4.4",
        " Bumped group epoch to 2 with metadata hash 3177628593685193190.",
        LogKind.EPOCH_BUMPED,
        {"group_epoch": 2, "metadata_hash": 3177628593685193190},
    ),
    (
        "4.0-4.4",
        " Computed a new target assignment for epoch 2 with 'uniform' assignor in 11ms.",
        LogKind.TARGET_COMPUTED,
        {"group_epoch": 2, "assignor": "uniform", "duration_ms": 11},
    ),
    ("3.8-4.4", f" Member {K2} left the consumer group.", LogKind.MODERN_MEMBER_LEFT, {"member_id": K2, **CONSUMER}),
    (
        "4.3",
        f" Member {K2} fenced from the group because the member session expired.",
        LogKind.MEMBER_FENCED,
        {"member_id": K2, "reason": "the member session expired"},
    ),
    # from here on: formats of releases without a capture
    ("3.7-4.0", " Bumped group epoch to 12.", LogKind.EPOCH_BUMPED, {"group_epoch": 12}),
    (
        "3.7",
        " Computed a new target assignment for epoch 2 with 'range' assignor: Assignment(partitions={x=[1]}).",
        LogKind.TARGET_COMPUTED,
        {"group_epoch": 2, "assignor": "range", "target_assignment": "Assignment(partitions={x=[1]})"},
    ),
    (
        "3.8, 3.9",
        " Computed a new target assignment for epoch 2 with 'range' assignor in 0ms: Assignment(partitions={x=[1]}).",
        LogKind.TARGET_COMPUTED,
        {
            "group_epoch": 2,
            "assignor": "range",
            "duration_ms": 0,
            "target_assignment": "Assignment(partitions={x=[1]})",
        },
    ),
    (
        "3.7-3.9",
        " Computed new subscription metadata: {orders=TopicMetadata(id=x, name=orders, numPartitions=6)}.",
        LogKind.TOPIC_METADATA_COMPUTED,
        {"metadata": "{orders=TopicMetadata(id=x, name=orders, numPartitions=6)}"},
    ),
    ("4.1-4.4", " Computed new metadata hash: -12.", LogKind.TOPIC_METADATA_COMPUTED, {"metadata_hash": -12}),
    (
        "4.3",
        " Assignment delayed due to the configured initial rebalance delay.",
        LogKind.ASSIGNMENT_DELAYED,
        {"cause": "initial rebalance delay"},
    ),
    (
        "3.7, 3.8",
        f" Member {K1} joins the consumer group.",
        LogKind.MODERN_MEMBER_JOINED,
        {"member_id": K1, **CONSUMER},
    ),
    (
        "3.9-4.4",
        f" Member {M1} joins the consumer group using the classic protocol.",
        LogKind.MODERN_MEMBER_JOINED,
        {"member_id": M1, "protocol": "classic", **CONSUMER},
    ),
    (
        "3.7, 3.8",
        f" Static member {K1} with instance id i-1 joins the consumer group.",
        LogKind.MODERN_MEMBER_JOINED,
        {"member_id": K1, "group_instance_id": "i-1", **CONSUMER},
    ),
    (
        "3.9-4.4",
        f" Static member {K1} with instance id i-1 joins the consumer group using the consumer protocol.",
        LogKind.MODERN_MEMBER_JOINED,
        {"member_id": K1, "group_instance_id": "i-1", "protocol": "consumer", **CONSUMER},
    ),
    (
        "3.7, 3.8",
        f" Static member {K1} with instance id i-1 re-joins the consumer group.",
        LogKind.MODERN_MEMBER_JOINED,
        {"member_id": K1, "group_instance_id": "i-1", **CONSUMER},
    ),
    (
        "3.8",
        f" Static member with unknown member id and instance id i-1 re-joins the consumer group. Created a new "
        f"member {M2} "
        f"to replace the existing member {M1}.",
        LogKind.STATIC_MEMBER_REPLACED,
        {"group_instance_id": "i-1", "new_member_id": M2, "member_id": M1, **CONSUMER},
    ),
    (
        "3.9-4.4",
        f" Static member with instance id i-1 re-joins the consumer group using the consumer protocol. Created a new "
        f"member "
        f"{K2} to replace the existing member {K1}.",
        LogKind.STATIC_MEMBER_REPLACED,
        {"group_instance_id": "i-1", "new_member_id": K2, "member_id": K1, "protocol": "consumer", **CONSUMER},
    ),
    (
        "3.8-4.4",
        f" Dynamic member with unknown member id joins the consumer group. Created a new member id {M1} and "
        f"requesting the "
        "member to rejoin with this id.",
        LogKind.MEMBER_JOINED,
        {"member_id": M1, "asked_to_rejoin": True, **CONSUMER},
    ),
    (
        "3.9-4.4",
        f" Member {K1} joins the share group using the share protocol.",
        LogKind.MODERN_MEMBER_JOINED,
        {"member_id": K1, "group_type": "share"},
    ),
    (
        "4.1-4.4",
        f" Member {K1} left the share group.",
        LogKind.MODERN_MEMBER_LEFT,
        {"member_id": K1, "group_type": "share"},
    ),
    (
        "3.7-3.9",
        f" Static Member {K1} with instance id i-1 temporarily left the consumer group.",
        LogKind.MODERN_MEMBER_LEFT,
        {"member_id": K1, "group_instance_id": "i-1", "temporarily": True, **CONSUMER},
    ),
    (
        "4.0-4.4",
        f" Static member {K1} with instance id i-1 left the consumer group.",
        LogKind.MODERN_MEMBER_LEFT,
        {"member_id": K1, "group_instance_id": "i-1", "temporarily": False, **CONSUMER},
    ),
    (
        "4.0-4.4",
        f" Static member {M1} with instance id i-1 has left group through explicit `LeaveGroup` request; client "
        f"reason: x y",
        LogKind.MODERN_MEMBER_LEFT,
        {"member_id": M1, "group_instance_id": "i-1", "client_reason": "x y", "protocol": "classic", **CONSUMER},
    ),
    (
        "4.0-4.4",
        f" Dynamic member {M1} has left group through explicit `LeaveGroup` request; client reason: not provided",
        LogKind.MODERN_MEMBER_LEFT,
        {"member_id": M1, "client_reason": None, "protocol": "classic", **CONSUMER},
    ),
    (
        "3.8-4.1",
        f" Member {K1} fenced from the group because the classic member failed to join within the rebalance timeout..",
        LogKind.MEMBER_FENCED,
        {"member_id": K1, "reason": "the classic member failed to join within the rebalance timeout"},
    ),
    (
        "3.8-4.4",
        f" Member {K1} fenced from the group because it failed to transition from epoch 3 within 300000ms.",
        LogKind.MEMBER_FENCED,
        {"member_id": K1, "reason": "it failed to transition from epoch 3 within 300000ms"},
    ),
    (
        "3.7",
        f" Member {K1} fenced from the group because its session expired.",
        LogKind.MEMBER_FENCED,
        {"member_id": K1, "reason": "its session expired"},
    ),
    (
        "4.2, 4.3",
        f" Streams member {K1} fenced from the group because the member session expired.",
        LogKind.MEMBER_FENCED,
        {"member_id": K1, "reason": "the member session expired", **STREAMS},
    ),
    (
        "3.7-4.4",
        f" Static member {K1} with instance id i is fenced by existing member {K2}.",
        LogKind.MEMBER_FENCED,
        {"member_id": K1, "group_instance_id": "i", "expected_member_id": K2},
    ),
    (
        "3.9",
        f" Static member {K1} with instance id i cannot join the group because the instance id is is owned by member "
        f"{K2}.",
        LogKind.MEMBER_FENCED,
        {"member_id": K1, "group_instance_id": "i", "expected_member_id": K2},
    ),
    (
        "3.8, 3.9",
        f" Member {K1} new assignment state: epoch=3, previousEpoch=2, state=UNREVOKED_PARTITIONS, "
        "assignedPartitions={x=[0, 1]} and revokedPartitions={}.",
        LogKind.MEMBER_STATE_CHANGED,
        {"member_id": K1, **EPOCHS, "assigned_text": "{x=[0, 1]}", "revoked_text": "{}"},
    ),
    (
        "4.1-4.4, share",
        f" Member {K1} new assignment state: epoch=3, previousEpoch=2, state=UNREVOKED_PARTITIONS, "
        "assignedPartitions={x=[0, 1]}.",
        LogKind.MEMBER_STATE_CHANGED,
        {"member_id": K1, **EPOCHS, "assigned_text": "{x=[0, 1]}"},
    ),
    (
        "3.7",
        f" Member {K1} transitioned from CurrentAssignment(memberEpoch=1) to CurrentAssignment(memberEpoch=2).",
        LogKind.MEMBER_STATE_CHANGED,
        {
            "member_id": K1,
            "from_text": "CurrentAssignment(memberEpoch=1)",
            "to_text": "CurrentAssignment(memberEpoch=2)",
        },
    ),
    (
        "3.7-3.9",
        f" Member {K1} updated its subscribed topics to: [a, b].",
        LogKind.SUBSCRIPTION_UPDATED,
        {"member_id": K1, "subscription": "[a, b]"},
    ),
    (
        "3.7-3.9",
        f" Member {K1} updated its subscribed regex to: a.*.",
        LogKind.SUBSCRIPTION_UPDATED,
        {"member_id": K1, "subscription": "a.*", "is_regex": True},
    ),
    (
        "4.0-4.4",
        " Converted the empty classic group to a streams group.",
        LogKind.GROUP_CONVERTED,
        {"from_type": "classic", "to_type": "streams", "was_empty": True},
    ),
    (
        "4.0-4.4",
        " Converted the consumer group to a classic group.",
        LogKind.GROUP_CONVERTED,
        {"from_type": "consumer", "to_type": "classic"},
    ),
    (
        "4.2-4.4",
        f"[MemberId {K1}] Bumped streams group epoch to 4 with metadata hash 7 and validated topic epoch 2.",
        LogKind.EPOCH_BUMPED,
        {"member_id": K1, "group_epoch": 4, "metadata_hash": 7, "validated_epoch": 2, **STREAMS},
    ),
    (
        "4.1",
        f"[MemberId {K1}] Bumped streams group epoch to 4 with metadata hash 7.",
        LogKind.EPOCH_BUMPED,
        {"member_id": K1, "group_epoch": 4, "metadata_hash": 7, **STREAMS},
    ),
    (
        "4.1-4.4",
        f"[MemberId {K1}] Member joins the streams group.",
        LogKind.MODERN_MEMBER_JOINED,
        {"member_id": K1, **STREAMS},
    ),
    (
        "4.1-4.4",
        f"[MemberId {K1}] Member {K1} left the streams group.",
        LogKind.MODERN_MEMBER_LEFT,
        {"member_id": K1, "same_member_id": K1, **STREAMS},
    ),
    # As the class of 4.4.0's group coordinator has them: static members of Streams groups are new there.
    (
        "4.4",
        f"[MemberId {K1}] Static member {K1} with instance id i-1 joins the streams group.",
        LogKind.MODERN_MEMBER_JOINED,
        {"member_id": K1, "same_member_id": K1, "group_instance_id": "i-1", **STREAMS},
    ),
    (
        "4.4",
        f"[MemberId {K2}] Static member with instance id i-1 re-joins the streams group using the streams protocol. "
        f"Created a new member {K2} to replace the existing member {K1}.",
        LogKind.STATIC_MEMBER_REPLACED,
        {
            "same_member_id": K2,
            "group_instance_id": "i-1",
            "new_member_id": K2,
            "member_id": K1,
            **STREAMS,
        },
    ),
    *(
        (
            "4.4",
            f"[MemberId {K1}] Static member {K1} with instance id i-1 {how}left the streams group.",
            LogKind.MODERN_MEMBER_LEFT,
            {
                "member_id": K1,
                "same_member_id": K1,
                "group_instance_id": "i-1",
                "temporarily": bool(how),
                **STREAMS,
            },
        )
        for how in ("temporarily ", "")
    ),
    (
        "4.1-4.4",
        f"[MemberId {K1}] Member's new assignment state: epoch=3, previousEpoch=2, state=UNREVOKED_PARTITIONS, "
        "assignedTasks=TasksTuple(active={a=[0]}) and tasksPendingRevocation=TasksTuple(active={}).",
        LogKind.MEMBER_STATE_CHANGED,
        {
            "member_id": K1,
            **EPOCHS,
            "assigned_text": "TasksTuple(active={a=[0]})",
            "revoked_text": "TasksTuple(active={})",
            **STREAMS,
        },
    ),
    (
        "4.3",
        f"[MemberId {K1}] Member initialized the topology with epoch 2",
        LogKind.STREAMS_TOPOLOGY_SET,
        {"member_id": K1, "topology_epoch": 2, **STREAMS},
    ),
    (
        "4.3",
        f"[MemberId {K1}] Assignment configurations changed to {{x=1}}. Triggering rebalance.",
        LogKind.STREAMS_CONFIG_CHANGED,
        {"member_id": K1, "configs": "{x=1}", **STREAMS},
    ),
    (
        "4.2-4.4",
        f"[MemberId {K1}] Shutdown requested for the streams application.",
        LogKind.STREAMS_SHUTDOWN_REQUESTED,
        {"member_id": K1, **STREAMS},
    ),
]


@pytest.mark.parametrize("group_id", ["clicks-app", "two words", "a] b", "täter\n2"])
@pytest.mark.parametrize(("releases", "message", "kind", "fields"), CASES)
def test_the_message_is_understood(
    releases: str, message: str, kind: LogKind, fields: dict[str, Any], group_id: str
) -> None:
    event = java(f"[GroupId {group_id}]{message}")
    assert (event.kind, event.group_id, fields_of(event), event.could_be_forged) == (kind, group_id, fields, False)


@pytest.mark.parametrize("word", ["Static Member {m} with instance id i-1", "Dynamic Member {m}"])
def test_3_8_and_3_9_write_another_prefix_for_classic_members(word: str) -> None:
    event = java(
        f"[Group g] {word.format(m=M1)} has left group through explicit `LeaveGroup` request; client reason: x"
    )
    assert (event.kind, event.group_id, event.fields["member_id"]) == (LogKind.MODERN_MEMBER_LEFT, "g", M1)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (
            "Cannot upgrade classic group g to consumer group because online upgrade is disabled.",
            "online upgrade is disabled",
        ),
        ("Cannot upgrade classic group g to consumer group: it is too big.", "it is too big"),
        (
            "Cannot downgrade consumer group g to classic group because the online downgrade is disabled.",
            "the online downgrade is disabled",
        ),
    ],
)
def test_a_refused_conversion_says_why(message: str, reason: str) -> None:
    event = java(message)
    assert (event.kind, event.group_id, event.fields["reason"]) == (LogKind.CONVERSION_REFUSED, "g", reason)
