"""The bytes that members put into classic groups, and that the broker never looks into.

The group's `protocol_type` says which module reads them, then its elected `protocol` says what the user data are.
Anything may be malformed; decode member by member and keep the bytes.
"""

from __future__ import annotations

from rebalance_audit.domain.protocols import (
    connect_protocol,
    consumer_protocol,
    schema_registry,
    sticky_user_data,
    streams_protocol,
)

Subscription = (
    consumer_protocol.ConsumerSubscription
    | connect_protocol.ConnectWorkerState
    | schema_registry.SchemaRegistryIdentity
)
Assignment = (
    consumer_protocol.ConsumerAssignment | connect_protocol.ConnectAssignment | schema_registry.SchemaRegistryAssignment
)
UserData = sticky_user_data.StickyUserData | streams_protocol.SubscriptionInfo


def decode_member_subscription(protocol_type: str, data: bytes) -> Subscription | None:
    """A member's subscription by its protocol type; None for a type that no module here reads. Raises DecodeError."""
    match protocol_type:
        case "consumer":
            return consumer_protocol.decode_subscription(data)
        case "connect":
            return connect_protocol.decode_worker_state(data)
        case "sr":
            return schema_registry.decode_identity(data)
        case _:
            return None


def decode_member_assignment(protocol_type: str, data: bytes) -> Assignment | None:
    """A member's assignment by its protocol type; None for length 0 (the leader gave nothing at all), and for a type
    that no module here reads. Raises DecodeError."""
    if not data:
        return None
    match protocol_type:
        case "consumer":
            return consumer_protocol.decode_assignment(data)
        case "connect":
            return connect_protocol.decode_assignment(data)
        case "sr":
            return schema_registry.decode_assignment(data)
        case _:
            return None


def decode_subscription_user_data(protocol: str | None, user_data: bytes | None) -> UserData | None:
    """User data of a consumer subscription, read by the assignor's name; None if there are none or the assignor is not
    known."""
    if not user_data:
        return None
    match protocol:
        case "sticky":
            return sticky_user_data.decode_sticky(user_data)
        case "cooperative-sticky":
            return sticky_user_data.decode_cooperative_sticky(user_data)
        case "stream":
            return streams_protocol.decode_subscription_info(user_data)
        case _:
            return None


def decode_assignment_user_data(
    protocol: str | None, user_data: bytes | None
) -> streams_protocol.AssignmentInfo | None:
    """User data of a consumer assignment: Kafka Streams' alone."""
    if protocol != "stream" or not user_data:
        return None
    return streams_protocol.decode_assignment_info(user_data)
