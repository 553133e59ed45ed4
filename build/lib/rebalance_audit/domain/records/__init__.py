"""The records of `__consumer_offsets`: one dataclass per upstream schema, its fields in snake_case.

Here Kafka's own names hold, inconsistent as they are (`group` and `group_id`, `generation`, `epoch`); a value -1 that
means "not known" is None. Types and versions are listed in docs/record_types.md.
"""

from rebalance_audit.domain.records.consumer_group import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
)
from rebalance_audit.domain.records.group_metadata import GroupMetadataValue, MemberMetadata
from rebalance_audit.domain.records.keys import (
    GroupKey,
    GroupMetadataKey,
    MemberKey,
    OffsetCommitKey,
    RecordKey,
    RegularExpressionKey,
)
from rebalance_audit.domain.records.offset_commit import OffsetCommitValue
from rebalance_audit.domain.records.registry import (
    RECORD_TYPES,
    CoordinatorRecord,
    RecordValue,
    decode_record,
    record_group_id,
    record_name,
)
from rebalance_audit.domain.records.share_group import (
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupPartitionMetadataValue,
    ShareGroupStatePartitionMetadataValue,
    ShareGroupTargetAssignmentMemberValue,
)
from rebalance_audit.domain.records.streams_group import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupTopologyValue,
    TaskIds,
)
from rebalance_audit.domain.records.structs import (
    MemberState,
    TargetAssignmentMetadataValue,
    TopicMetadata,
    TopicPartitions,
)

__all__ = [
    "RECORD_TYPES",
    "ClassicMemberMetadata",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberValue",
    "CoordinatorRecord",
    "GroupKey",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "MemberKey",
    "MemberMetadata",
    "MemberState",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "RecordKey",
    "RecordValue",
    "RegularExpressionKey",
    "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataValue",
    "ShareGroupPartitionMetadataValue",
    "ShareGroupStatePartitionMetadataValue",
    "ShareGroupTargetAssignmentMemberValue",
    "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupMemberMetadataValue",
    "StreamsGroupMetadataValue",
    "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupTopologyValue",
    "TargetAssignmentMetadataValue",
    "TaskIds",
    "TopicMetadata",
    "TopicPartitions",
    "decode_record",
    "record_group_id",
    "record_name",
]
