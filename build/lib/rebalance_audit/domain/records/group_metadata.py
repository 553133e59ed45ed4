"""Type 2: a classic group at the moment its leader's assignment arrived. Source: GroupMetadataValue.json.

A value with members means "generation G was assigned", one without "the group became empty at generation G".
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.frozen import maker, quick
from rebalance_audit.domain.wire import Reader, UnknownTags, none_if_minus_one

VERSIONS = range(5)
FLEXIBLE_FROM = 4
"""Version 4 is reserved (KIP-915): brokers can read it, none has written it yet."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    member_id: str
    group_instance_id: str | None
    """Since version 3 (KIP-345); None for a dynamic member."""
    client_id: str
    client_host: str
    """Java's way of printing an address: `/10.0.0.7`."""
    rebalance_timeout: int
    """Milliseconds; where the record has none (version 0, or -1) the session timeout, as in Kafka."""
    session_timeout: int
    """Milliseconds."""
    subscription: bytes
    """The member's metadata for the elected protocol, and only that."""
    assignment: bytes
    """Length 0: the leader gave this member nothing at all."""
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    protocol_type: str
    """"" for a group created by the Java coordinator and not joined yet."""
    generation: int
    protocol: str | None
    leader: str | None
    """A member id."""
    current_state_timestamp: int | None
    """Epoch milliseconds of the last change of state; with members, the end of the join phase. Since version 2."""
    members: tuple[MemberMetadata, ...]
    """In no order."""
    unknown_tags: UnknownTags = ()


_make_member, _make_value = maker(MemberMetadata), maker(GroupMetadataValue)


def read_group_metadata_value(reader: Reader, version: int) -> GroupMetadataValue:
    def read_member(element: Reader) -> MemberMetadata:
        return _read_member(element, version)

    return _make_value(
        protocol_type=reader.string("protocolType"),
        generation=reader.int32("generation"),
        protocol=reader.nullable_string("protocol"),
        leader=reader.nullable_string("leader"),
        current_state_timestamp=(none_if_minus_one(reader.int64("currentStateTimestamp")) if version >= 2 else None),
        members=reader.array("members", read_member),
        unknown_tags=reader.tags({}),
    )


def _read_member(reader: Reader, version: int) -> MemberMetadata:
    member_id = reader.string("memberId")
    group_instance_id = reader.nullable_string("groupInstanceId") if version >= 3 else None
    client_id = reader.string("clientId")
    client_host = reader.string("clientHost")
    rebalance_timeout = reader.int32("rebalanceTimeout") if version >= 1 else -1
    session_timeout = reader.int32("sessionTimeout")
    return _make_member(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout=session_timeout if rebalance_timeout == -1 else rebalance_timeout,
        session_timeout=session_timeout,
        subscription=reader.bytes_("subscription"),
        assignment=reader.bytes_("assignment"),
        unknown_tags=reader.tags({}),
    )
