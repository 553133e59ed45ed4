"""Causes, from the words of 2.7 to 4.4 and of their clients."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.log_lines import classify_fence, classify_leave, classify_reason, split_reason
from tests.domain.log_lines.lines import M1, M2

# reason, client reason, trigger, members
CASES: list[tuple[str, str | None, str, tuple[str, ...]]] = [
    (f"Adding new member {M1} with group instance id None", None, "member_joined", (M1,)),
    (f"Adding new member {M1} with group instance id Some(inst-1)", "not provided", "member_joined", (M1,)),
    (
        f"Adding new member {M1} with group instance id null",
        f"need to re-join with the given member-id: {M1}",
        "member_joined",
        (M1,),
    ),
    (
        f"Adding new member {M1} with group instance id null",
        "rebalance failed due to MemberIdRequiredException",
        "member_joined",
        (M1,),
    ),
    (f"removing member {M1} on LeaveGroup", None, "member_left", (M1,)),
    (f"Removing member {M1} on LeaveGroup", "the consumer is being closed", "member_left", (M1,)),
    (f"Removing member {M1} on LeaveGroup", "the consumer unsubscribed from all topics", "member_left", (M1,)),
    (f"Removing member {M1} on LeaveGroup", "consumer poll timeout has expired.", "member_poll_timeout", (M1,)),
    (f"Removing member {M1} on LeaveGroup", "worker poll timeout has expired.", "member_poll_timeout", (M1,)),
    (
        f"Removing member {M1} on LeaveGroup",
        "member was removed by an admin: rolled back",
        "member_removed_by_admin",
        (M1,),
    ),
    (f"explicit `LeaveGroup` request for ({M1}, {M2}) members.", None, "member_left", (M1, M2)),
    (f"removing member {M1} on heartbeat expiration", None, "member_session_expired", (M1,)),
    (f"removing member {M1} on heartbeat expiration.", None, "member_session_expired", (M1,)),
    (f"Removing Set({M1}, {M2}) on pending sync request expiration", None, "member_sync_timeout", (M1, M2)),
    (f"Removing [{M1}] on pending sync request expiration", None, "member_sync_timeout", (M1,)),
    (f"Updating metadata for member {M1} during Stable", None, "subscription_changed", (M1,)),
    (f"Updating metadata for member {M1} during Stable", "subscription has changed", "subscription_changed", (M1,)),
    (
        f"Updating metadata for member {M1} during Stable",
        "need to revoke partitions and re-join",
        "cooperative_follow_up",
        (M1,),
    ),
    (
        f"Updating metadata for member {M1} during Stable",
        "cached metadata has changed",
        "topic_metadata_changed",
        (M1,),
    ),
    (
        f"Updating metadata for member {M1} during CompletingRebalance",
        "group is already rebalancing",
        "subscription_changed",
        (M1,),
    ),
    (f"leader {M1} re-joining group during Stable", None, "leader_rejoined", (M1,)),
    (f"Leader {M1} re-joining group during Stable", "not provided", "leader_rejoined", (M1,)),
    (f"Leader {M1} re-joining group during Stable", "cached metadata has changed", "topic_metadata_changed", (M1,)),
    (f"Leader {M1} re-joining group during Stable", "rebalance enforced by user", "client_requested", (M1,)),
    (f"Leader {M1} re-joining group during Stable", "because (I; said) so", "client_requested", (M1,)),
    (f"Leader {M1} re-joining group during Stable", "connect worker requested rejoin", "leader_rejoined", (M1,)),
    (
        f"Updating metadata for member {M1} during Stable",
        "rebalance failed due to NotCoordinatorException",
        "coordinator_failover",
        (M1,),
    ),
    (
        f"Leader {M1} re-joining group during Stable",
        "rebalance failed due to UnknownMemberIdException",
        "leader_rejoined",
        (M1,),
    ),
    (
        f"Leader {M1} re-joining group during Stable",
        "triggered followup rebalance scheduled for 0",
        "streams_follow_up",
        (M1,),
    ),
    (
        f"Leader {M1} re-joining group during Stable",
        "triggered followup rebalance scheduled for 1795269600123",
        "streams_probing",
        (M1,),
    ),
    # Streams 3.2, of a follow-up and of probing alike
    (f"Leader {M1} re-joining group during Stable", "Scheduled probing rebalance", "leader_rejoined", (M1,)),
    (f"Leader {M1} re-joining group during Stable", "Shutdown requested", "client_requested", (M1,)),
    # franz-go
    (
        f"Updating metadata for member {M1} during Stable",
        "after revoking what we lost from a rebalance",
        "cooperative_follow_up",
        (M1,),
    ),
    (
        f"Leader {M1} re-joining group during Stable",
        "rejoining because we are the leader and noticed some topics have new partitions",
        "topic_metadata_changed",
        (M1,),
    ),
    (
        f"Leader {M1} re-joining group during Stable",
        "leader detected that partitions on topics another member is consuming have changed, rejoining to trigger "
        "rebalance",
        "topic_metadata_changed",
        (M1,),
    ),
    (
        f"Updating metadata for member {M1} during Stable",
        "rejoining because there are more topics to consume, our interests have changed",
        "subscription_changed",
        (M1,),
    ),
    (f"Leader {M1} re-joining group during Stable", "from ForceRebalance", "client_requested", (M1,)),
    (f"Leader {M1} re-joining group during Stable", "rejoining from normal rebalance", "leader_rejoined", (M1,)),
    (
        f"Leader {M1} re-joining group during Stable",
        "offset commit error: UNKNOWN_MEMBER_ID",
        "leader_rejoined",
        (M1,),
    ),
    (
        f"Leader {M1} re-joining group during Stable",
        "topics purged from consuming",
        "subscription_changed",
        (M1,),
    ),
    (
        f"Updating metadata for member {M1} during Stable",
        "rejoining after we previously errored and backed off",
        "unknown",
        (M1,),
    ),
    (f"Removing member {M1} on LeaveGroup", "client leaving group per normal operation", "member_left", (M1,)),
    # sarama
    (
        f"Leader {M1} re-joining group during Stable",
        "partitions were added to a subscribed topic",
        "topic_metadata_changed",
        (M1,),
    ),
    (f"Leader {M1} re-joining group during Stable", "a ConsumeClaim handler has exited", "leader_rejoined", (M1,)),
    (f"Leader {M1} re-joining group during Stable", "group is rebalancing", "leader_rejoined", (M1,)),
    (
        f"Leader {M1} re-joining group during Stable",
        "member id is not known by the group coordinator",
        "leader_rejoined",
        (M1,),
    ),
    (f"Member {M1} joining group during Stable", None, "unknown", (M1,)),
    (f"Member {M1} is joining group during Stable", "rebalance enforced by user", "client_requested", (M1,)),
    (f"Updating metadata for static member {M1} with instance id i", None, "static_member_replaced", (M1,)),
    (
        f"Group's selectedProtocol will change because static member {M1} with instance id i joined with change of "
        f"protocol",
        None,
        "assignor_changed",
        (M1,),
    ),
    (f"error when storing group assignment during SyncGroup (member: {M1})", None, "append_failed", (M1,)),
    (f"Error when storing group assignment during SyncGroup (member: {M1})", None, "append_failed", (M1,)),
    (
        f"Error COORDINATOR_NOT_AVAILABLE when storing group assignment during SyncGroup (member: {M1})",
        None,
        "append_failed",
        (M1,),
    ),
    (
        f"Error NOT_COORDINATOR when storing group assignmentduring SyncGroup (member: {M1}).",
        None,
        "append_failed",
        (M1,),
    ),
    (
        "Freshly-loaded group is over capacity (GroupConfig(6000,1800000,3,0).groupMaxSize). Rebalacing in order to "
        "give a "
        "chance for consumers to commit offsets",
        None,
        "coordinator_failover",
        (),
    ),
    (
        "Freshly-loaded group g (size 12) is over capacity 10. Rebalancing in order to give a chance for consumers to "
        "commit offsets",
        None,
        "coordinator_failover",
        (),
    ),
    ("Downgrade group g from consumer to classic.", None, "group_converted", ()),
    ("Downgrade group g from consumer to classic for member leaving.", None, "group_converted", ()),
    ("Downgrade group g from consumer to classic with stale assignment.", None, "group_converted", ()),
    ("something that Kafka 9 will write", None, "unknown", ()),
    ("", None, "member_left", ()),
]


@pytest.mark.parametrize(("reason", "client_reason", "trigger", "members"), CASES)
def test_each_reason_has_one_trigger_and_its_members(
    reason: str, client_reason: str | None, trigger: str, members: tuple[str, ...]
) -> None:
    classified = classify_reason(reason, client_reason)
    assert (classified.trigger, classified.member_ids) == (trigger, members)


@pytest.mark.parametrize(("reason", "client_reason", "trigger", "members"), [c for c in CASES if c[1] is not None])
def test_a_reason_that_still_holds_the_clients_part_is_split_first(
    reason: str, client_reason: str, trigger: str, members: tuple[str, ...]
) -> None:
    classified = classify_reason(f"{reason}; client reason: {client_reason}")
    assert (classified.trigger, classified.member_ids) == (trigger, members)


@pytest.mark.parametrize(
    ("client_reason", "trigger"),
    [
        (None, "member_left"),
        ("", "member_left"),
        ("not provided", "member_left"),
        ("the consumer is being closed", "member_left"),
        ("taking too long to read the log", "member_left"),
        ("consumer poll timeout has expired.", "member_poll_timeout"),
        ("member was removed by an admin", "member_removed_by_admin"),
        ("a member was removed by an admin", "member_left"),
    ],
)
def test_a_departure_is_shown_by_the_clients_words_alone(client_reason: str | None, trigger: str) -> None:
    assert classify_leave(client_reason).trigger == trigger
    assert classify_reason(None, client_reason).trigger == trigger


@pytest.mark.parametrize(
    ("reason", "trigger"),
    [
        ("the member session expired", "member_session_expired"),
        ("its session expired", "member_session_expired"),
        ("the classic member failed to join within the rebalance timeout", "member_dropped_at_rebalance_timeout"),
        ("it failed to transition from epoch 3 within 300000ms", "member_dropped_at_rebalance_timeout"),
        ("it failed to revoke partitions within 300000ms", "member_dropped_at_rebalance_timeout"),
        ("the member failed to sync within timeout", "member_sync_timeout"),
        ("it was naughty", "unknown"),
    ],
)
def test_a_fence_has_a_trigger_too(reason: str, trigger: str) -> None:
    assert classify_fence(reason).trigger == trigger


def test_the_detail_keeps_the_words() -> None:
    assert classify_reason(f"Leader {M1} re-joining group during Stable", "say (why)").detail == "say (why)"


def test_member_ids_with_the_separator_do_not_cut_the_reason() -> None:
    member = f"x; client reason: y-{M1}"
    split = split_reason(f"Adding new member {member} with group instance id null; client reason: a; client reason: b")
    assert split == (f"Adding new member {member} with group instance id null", "a; client reason: b")


def test_member_ids_with_commas_are_distinguished_by_their_uuids() -> None:
    odd = f"a, b-{M1}"
    assert classify_reason(f"Removing [{odd}, {M2}] on pending sync request expiration").member_ids == (odd, M2)
