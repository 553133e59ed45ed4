"""A group that changes its protocol while it works: what the one side hands over to the other.

Classic to consumer: a tombstone of the classic record, then every member again as a consumer member with what it holds.
Back: tombstones of everything, then a classic record with the same number. Source: KIP-848;
docs/kafka_writes.md#conversions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_audit.domain.model import GroupEvidence, GroupRecord
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.records import MemberMetadata

_HOLDS = "ConsumerGroupCurrentMemberAssignment"
_BROKERS_SESSION_MS = 45_000
"""group.consumer.session.timeout.ms by default (docs/measured.md#defaults-of-kafka): it is in no record, and no row
says that it is the member's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedOver:
    """One partition as the consumer side held it last."""

    member: MemberMetadata
    given: Attempt
    """Stands for the record that gave it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downgrade:
    """A consumer group that became classic with the record at `offset`."""

    offset: int
    held: Mapping[Resource, HandedOver]
    members: Mapping[str, MemberMetadata]
    """As classic members would be written. One that spoke the consumer protocol had its session from the brokers."""


def downgrades(evidence: GroupEvidence) -> dict[int, Downgrade]:
    """Conversions of a consumer group to the classic protocol, by the offset of the first classic record."""
    if not any(r.record.name == _HOLDS for r in evidence.records):
        return {}
    names = dict(evidence.topic_names)
    metadata: dict[str, Any] = {}
    current: dict[str, GroupRecord] = {}
    leaving: dict[str, GroupRecord] = {}
    """Tombstoned since the last record of another kind: in one batch with the classic record, if it is a conversion."""
    found: dict[int, Downgrade] = {}
    for record in sorted(evidence.records, key=lambda r: (r.topic, r.partition, r.offset)):
        name, value = record.record.name, record.record.value
        if name == "ConsumerGroupMemberMetadata" and value is not None:
            metadata[record.record.key.member_id] = value
        elif name == _HOLDS:
            member_id = record.record.key.member_id
            if value is not None:
                current[member_id] = record
            elif member_id in current:
                leaving[member_id] = current.pop(member_id)
        elif name == "GroupMetadata" and value is not None:
            if leaving and not current:
                found[record.offset] = _downgrade(record, leaving, metadata, names)
            leaving, current = {}, {}
        if value is not None:
            leaving = {}
    return found


def _downgrade(
    record: GroupRecord, last: Mapping[str, GroupRecord], metadata: Mapping[str, Any], names: Mapping[str, str]
) -> Downgrade:
    held: dict[Resource, HandedOver] = {}
    members: dict[str, MemberMetadata] = {}
    for member_id, given in last.items():
        if member_id not in metadata:
            continue
        members[member_id] = member = _as_classic(member_id, metadata[member_id])
        value = given.record.value
        for entry in (*value.assigned_partitions, *value.partitions_pending_revocation):
            topic = names.get(entry.topic_id, entry.topic_id)
            for partition in entry.partitions:
                one = HandedOver(member=member, given=Attempt(number=value.member_epoch, record=given))
                held[topic, partition] = one
    return Downgrade(offset=record.offset, held=held, members=members)


def session_timeout_ms(member: MemberMetadata) -> int | None:
    """The session timeout that the member's row shows; None if the member had none of its own."""
    return None if _is_taken_over(member) else member.session_timeout


def _is_taken_over(member: MemberMetadata) -> bool:
    """No classic member writes an empty subscription."""
    return member.session_timeout == _BROKERS_SESSION_MS and not member.subscription


def _as_classic(member_id: str, value: Any) -> MemberMetadata:
    classic = value.classic_member_metadata
    timeout_ms = value.rebalance_timeout_ms if value.rebalance_timeout_ms is not None else -1
    return MemberMetadata(
        member_id=member_id,
        group_instance_id=value.instance_id,
        client_id=value.client_id,
        client_host=value.client_host,
        rebalance_timeout=timeout_ms,
        session_timeout=classic.session_timeout_ms if classic is not None else _BROKERS_SESSION_MS,
        subscription=b"",
        assignment=b"",
    )
