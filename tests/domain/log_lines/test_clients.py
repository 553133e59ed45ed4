"""Messages of group members, 2.7 to 4.4. Lines with member c1 are from golden captures."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.model import LogKind
from tests.domain.log_lines.lines import CLIENT_LOGGER, CONSUMER, HEAD, M1, WORKER, event_of, parsed

GENERATION = f"Generation{{generationId=2, memberId='{M1}', protocol='cooperative-sticky'}}"

CASES: list[tuple[str, str, LogKind, dict[str, Any]]] = [
    ("all", "(Re-)joining group", LogKind.CLIENT_JOINING, {}),
    (
        "2.6-4.4",
        "Successfully joined group with generation " + GENERATION,
        LogKind.CLIENT_JOINED,
        {"generation_id": 2, "member_id": M1, "assignor": "cooperative-sticky"},
    ),
    ("2.x", "Successfully joined group with generation 2", LogKind.CLIENT_JOINED, {"generation_id": 2}),
    (
        "2.6-4.4",
        "Successfully synced group in generation " + GENERATION,
        LogKind.CLIENT_SYNCED,
        {"generation_id": 2, "member_id": M1, "assignor": "cooperative-sticky"},
    ),
    (
        "all",
        f"Finished assignment for group at generation 1: {{{M1}=Assignment(partitions=[orders-0])}}",
        LogKind.CLIENT_COMPUTED_ASSIGNMENT,
        {"generation_id": 1, "assignments": f"{{{M1}=Assignment(partitions=[orders-0])}}"},
    ),
    (
        "3.0-4.4",
        "Request joining group due to: need to revoke partitions [orders-4, orders-5] as indicated by the current "
        "assignment "
        "and re-join",
        LogKind.CLIENT_REQUESTED_JOIN,
        {
            "client_reason": "need to revoke partitions [orders-4, orders-5] as indicated by the current assignment "
            "and re-join"
        },
    ),
    (
        "2.7",
        "Need to revoke partitions [orders-4] and re-join the group",
        LogKind.CLIENT_REQUESTED_JOIN,
        {"partitions": ("orders-4",), "client_reason": "need to revoke partitions and re-join"},
    ),
    (
        "2.7",
        "Requesting to re-join the group and trigger rebalance since the subscription has changed from [a] to [b]",
        LogKind.CLIENT_REQUESTED_JOIN,
        {"client_reason": "the subscription has changed from [a] to [b]"},
    ),
    (
        "3.x",
        "Resetting generation and member id due to: consumer pro-actively leaving the group",
        LogKind.CLIENT_GENERATION_RESET,
        {"client_reason": "consumer pro-actively leaving the group"},
    ),
    (
        "2.7",
        "Resetting generation due to consumer pro-actively leaving the group",
        LogKind.CLIENT_GENERATION_RESET,
        {"client_reason": "consumer pro-actively leaving the group"},
    ),
    ("2.x", "Attempt to heartbeat failed since group is rebalancing", LogKind.CLIENT_TOLD_OF_REBALANCE, {}),
    (
        "2.x",
        "Revoke previously assigned partitions orders-0, orders-1",
        LogKind.CLIENT_REVOKED,
        {"partitions": ("orders-0", "orders-1"), "stage": "callback"},
    ),
    (
        "4.x",
        "Revoking previously assigned partitions [orders-0]",
        LogKind.CLIENT_REVOKED,
        {"partitions": ("orders-0",), "stage": "begin"},
    ),
    ("4.x", "Adding newly assigned partitions: []", LogKind.CLIENT_ASSIGNED, {"partitions": ()}),
    ("2.x", "Adding newly assigned partitions: orders-0", LogKind.CLIENT_ASSIGNED, {"partitions": ("orders-0",)}),
    ("2.x, none", "Adding newly assigned partitions: ", LogKind.CLIENT_ASSIGNED, {"partitions": ()}),
    ("all", "Lost previously assigned partitions [orders-0]", LogKind.CLIENT_LOST, {"partitions": ("orders-0",)}),
    (
        "all",
        "Notifying assignor about the new Assignment(partitions=[orders-0, orders-1], userDataSize=12)",
        LogKind.CLIENT_GIVEN_ASSIGNMENT,
        {"partitions": ("orders-0", "orders-1"), "user_data_bytes": 12},
    ),
    (
        "all",
        f"Member {M1} sending LeaveGroup request to coordinator localhost:9092 (id: 2147483646 rack: null) due to the "
        "consumer is being closed",
        LogKind.CLIENT_LEAVING,
        {
            "member_id": M1,
            "coordinator": "localhost:9092 (id: 2147483646 rack: null)",
            "client_reason": "the consumer is being closed",
        },
    ),
    (
        "all",
        "consumer poll timeout has expired. This means the time between subsequent calls to poll() was longer",
        LogKind.CLIENT_POLL_TIMEOUT,
        {"detail": "This means the time between subsequent calls to poll() was longer"},
    ),
    (
        "4.x",
        "Member Qpudn8bZSr6MZsUIY4UqXg with epoch 3 transitioned from STABLE to RECONCILING.",
        LogKind.CLIENT_MEMBER_STATE,
        {
            "member_id": "Qpudn8bZSr6MZsUIY4UqXg",
            "member_epoch": 3,
            "from_state": "STABLE",
            "member_state": "RECONCILING",
        },
    ),
]


@pytest.mark.parametrize(("releases", "message", "kind", "fields"), CASES)
def test_the_members_message_is_understood(releases: str, message: str, kind: LogKind, fields: dict[str, Any]) -> None:
    event = event_of(HEAD + CONSUMER + message + CLIENT_LOGGER + "\n")
    assert (event.kind, event.group_id) == (kind, "orders-app")
    assert dict(event.fields) == {**fields, "client_id": "c1"}


def test_an_update_of_several_lines_is_one_event() -> None:
    event = event_of(
        HEAD + CONSUMER + "Updating assignment with\n"
        "\tAssigned partitions:                       [payments-0, payments-1]\n"
        "\tCurrent owned partitions:                  [payments-0, payments-4]\n"
        "\tAdded partitions (assigned - owned):       [payments-1]\n"
        "\tRevoked partitions (owned - assigned):     [payments-4]\n" + CLIENT_LOGGER + "\n"
    )
    assert event.kind is LogKind.CLIENT_UPDATED_ASSIGNMENT
    assert {name: event.fields[name] for name in ("assigned", "owned", "added", "revoked")} == {
        "assigned": ("payments-0", "payments-1"),
        "owned": ("payments-0", "payments-4"),
        "added": ("payments-1",),
        "revoked": ("payments-4",),
    }


def test_a_static_member_names_its_instance() -> None:
    event = event_of(
        HEAD + "[Consumer instanceId=s1-instance, clientId=s1, groupId=billing-app] (Re-)joining group" + CLIENT_LOGGER
    )
    assert (event.group_id, dict(event.fields)) == (
        "billing-app",
        {"client_id": "s1", "group_instance_id": "s1-instance"},
    )


def test_a_worker_is_a_member_too() -> None:
    event = event_of(HEAD + WORKER + "Successfully joined group with generation " + GENERATION + CLIENT_LOGGER)
    assert (event.kind, event.group_id, event.fields["generation_id"]) == (LogKind.CLIENT_JOINED, "connect-lab", 2)


@pytest.mark.parametrize("group_id", ["a] b", "x, groupId=y", "[z] (Re-)joining it", "zwei\nzeilen"])
def test_a_group_id_with_the_prefixs_own_marks_survives(group_id: str) -> None:
    event = event_of(
        f"{HEAD}[Consumer clientId=c1, groupId={group_id}] Adding newly assigned partitions: [o-0]{CLIENT_LOGGER}"
    )
    assert (event.group_id, event.fields["client_id"]) == (group_id, "c1")


def test_applications_in_other_layouts_are_read_too() -> None:
    event = event_of(
        "2026-11-21T14:00:00.123+01:00  INFO 1 --- [app] [ntainer#0-0-C-1] o.a.k.c.c.internals.ConsumerCoordinator  : "
        "[Consumer clientId=c1, groupId=orders-app] Revoke previously assigned partitions orders-0"
    )
    assert (event.kind, event.at_ms) == (LogKind.CLIENT_REVOKED, 1_795_266_000_123)


@pytest.mark.parametrize(
    "message",
    ["Discovered group coordinator localhost:9092 (id: 1 rack: null)", "Found no committed offset for partition o-0"],
)
def test_other_messages_show_nothing(message: str) -> None:
    assert parsed(HEAD + CONSUMER + message + CLIENT_LOGGER) is None
