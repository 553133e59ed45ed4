"""Record types of the metadata log by number, and the one way to decode a record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rebalance_audit.domain.metadata import brokers, others, partitions
from rebalance_audit.domain.wire import MAX_INT32, DecodeError, DecodeReason, Reader

FRAME_VERSION = 1
_MAX_SHORT = 0x7FFF
_Read = Callable[[Reader, int], Any]


@dataclass(frozen=True, slots=True)
class MetadataRecordType:
    """`read` is None for records that no answer needs: they are named and skipped."""

    number: int
    name: str
    latest_version: int
    read: _Read | None = None
    is_secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataRecord:
    """One decoded record. `value` is None where only the name is wanted, and for secrets that were removed."""

    record_type: int
    name: str
    version: int
    value: Any


RECORD_TYPES: dict[int, MetadataRecordType] = {
    t.number: t
    for t in (
        MetadataRecordType(0, "RegisterBroker", 4, brokers.read_register_broker),
        MetadataRecordType(1, "UnregisterBroker", 0, brokers.read_unregister_broker),
        MetadataRecordType(2, "Topic", 0, others.read_topic),
        MetadataRecordType(3, "Partition", 2, partitions.read_partition),
        MetadataRecordType(4, "Config", 0, others.read_config),
        MetadataRecordType(5, "PartitionChange", 2, partitions.read_partition_change),
        MetadataRecordType(6, "AccessControl", 0),
        MetadataRecordType(7, "FenceBroker", 0, brokers.read_fence_broker),
        MetadataRecordType(8, "UnfenceBroker", 0, brokers.read_unfence_broker),
        MetadataRecordType(9, "RemoveTopic", 0, others.read_remove_topic),
        MetadataRecordType(10, "DelegationToken", 0, is_secret=True),
        MetadataRecordType(11, "UserScramCredential", 0, is_secret=True),
        MetadataRecordType(12, "FeatureLevel", 0, others.read_feature_level),
        MetadataRecordType(14, "ClientQuota", 0),
        MetadataRecordType(15, "ProducerIds", 0),
        MetadataRecordType(16, "RemoveFeatureLevel", 0),
        MetadataRecordType(17, "BrokerRegistrationChange", 3, brokers.read_broker_registration_change),
        MetadataRecordType(18, "AccessControlEntry", 0),
        MetadataRecordType(19, "RemoveAccessControlEntry", 0),
        MetadataRecordType(20, "NoOp", 0, others.read_no_op),
        MetadataRecordType(21, "ZkMigrationState", 0),
        MetadataRecordType(22, "RemoveUserScramCredential", 0),
        MetadataRecordType(23, "BeginTransaction", 0, others.read_begin_transaction),
        MetadataRecordType(24, "EndTransaction", 0, others.read_end_transaction),
        MetadataRecordType(25, "AbortTransaction", 0, others.read_abort_transaction),
        MetadataRecordType(26, "RemoveDelegationToken", 0, is_secret=True),
        MetadataRecordType(27, "RegisterController", 0, brokers.read_register_controller),
        MetadataRecordType(28, "ClearElr", 0, others.read_clear_elr),
        MetadataRecordType(29, "UnregisterController", 0, brokers.read_unregister_controller),
    )
}
_NO_OP = MetadataRecord(record_type=20, name="NoOp", version=0, value=others.NoOpRecord())
_NO_OP_BYTES = b"\x01\x14\x00\x00"


def decode_metadata(value: bytes | None) -> MetadataRecord:
    """A record of the metadata log by its value; keys are null. Raises DecodeError.

    Records of types or versions of a later release are refused as such; unknown tagged fields are kept.
    """
    if value == _NO_OP_BYTES:  # most of a quiet log
        return _NO_OP
    reader, number, version = read_frame(value)
    kind = RECORD_TYPES.get(number)
    if kind is None:
        raise DecodeError(DecodeReason.UNKNOWN_RECORD_TYPE, 1, "recordType")
    if version > kind.latest_version:
        raise DecodeError(DecodeReason.UNKNOWN_VALUE_VERSION, 2, "recordVersion")
    if kind.read is None:
        return MetadataRecord(record_type=number, name=kind.name, version=version, value=None)
    content = kind.read(reader, version)
    reader.expect_end()
    return MetadataRecord(record_type=number, name=kind.name, version=version, value=content)


def read_frame(value: bytes | None) -> tuple[Reader, int, int]:
    """(where the record's own bytes begin, record type, record version). Raises DecodeError."""
    reader = Reader(value or b"", flexible=True)
    frame = _short(reader, "frameVersion")
    if frame != FRAME_VERSION:  # 0: the early access of Kafka 2.8, which nobody can upgrade from
        raise DecodeError(DecodeReason.UNKNOWN_VALUE_VERSION, 0, "frameVersion")
    number = _short(reader, "recordType")
    return reader, number, _short(reader, "recordVersion")


def _short(reader: Reader, field: str) -> int:
    """Kafka refuses what is too large for a short, but takes what is negative as a Java int and keeps its lower half
    (AbstractApiMessageSerde.unsignedIntToShort)."""
    at = reader.at
    value = reader.uvarint(field)
    if _MAX_SHORT < value <= MAX_INT32:
        raise reader.error(DecodeReason.BAD_VALUE, at, field)
    return value & 0xFFFF
