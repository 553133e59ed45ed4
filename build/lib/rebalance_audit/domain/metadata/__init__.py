"""KRaft's metadata log: `decode_metadata` for records, `MetadataReader` for what holds; docs/reassignments.md.

Source: KIP-500, KIP-631, KIP-868; the schemas of Kafka's `metadata` module.
"""

from rebalance_audit.domain.metadata.log import (
    TOPIC_FRAME,
    MetadataChange,
    MetadataReader,
    Refused,
    named_topic,
    topic_names,
)
from rebalance_audit.domain.metadata.others import ControlRecord, decode_control
from rebalance_audit.domain.metadata.redact import redact_metadata
from rebalance_audit.domain.metadata.registry import RECORD_TYPES, MetadataRecord, decode_metadata
from rebalance_audit.domain.metadata.source import (
    METADATA_TOPIC,
    SourceMetadata,
    bronze_topic,
    is_metadata_topic,
    metadata_of_bronze,
    metadata_ref,
)

__all__ = [
    "METADATA_TOPIC",
    "RECORD_TYPES",
    "TOPIC_FRAME",
    "ControlRecord",
    "MetadataChange",
    "MetadataReader",
    "MetadataRecord",
    "Refused",
    "SourceMetadata",
    "bronze_topic",
    "decode_control",
    "decode_metadata",
    "is_metadata_topic",
    "metadata_of_bronze",
    "metadata_ref",
    "named_topic",
    "redact_metadata",
    "topic_names",
]
