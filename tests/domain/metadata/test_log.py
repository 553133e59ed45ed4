"""Reading only some records of a log: what is read means what it means in the whole log."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rebalance_audit.domain.metadata import MetadataReader, SourceMetadata
from rebalance_audit.domain.metadata.partitions import PartitionChangeRecord, PartitionRecord
from tests.domain.reassign.stories import MetadataStory

Seen = tuple[str, int, bool]


def a_log_with_a_hole() -> list[SourceMetadata]:
    """Offsets 0 to 5, a checkpoint up to 8, then 6 to 11 without 6 and 7; a transaction over the end of the hole."""
    story = MetadataStory().at(1_000).topic("orders", (1, 2), (2, 1)).change(0, leader=2).begin().change(1, leader=1)
    before = list(story.sources)
    snapshot = MetadataStory().snapshot_begins(8, 2_000).topic("orders").partition(0, (1, 2)).partition(1, (2, 1))
    rest = MetadataStory(first_offset=8).at(3_000).change(1, leader=1).begin().change(0, leader=1).end()
    return [*before, *snapshot.snapshot_ends().sources, *rest.sources]


def partition_of(source: SourceMetadata) -> int | None:
    value = source.value or b""
    return int.from_bytes(value[3:7], "big") if value[1:2] in (b"\x03", b"\x05") and not source.is_control else None


def seen(reader: MetadataReader, sources: Sequence[SourceMetadata], partition: int) -> list[Seen]:
    return [
        (change.ref, change.at_ms, change.snapshot is not None)
        for change in reader.read(sources)
        if isinstance(getattr(change.record, "value", None), PartitionRecord | PartitionChangeRecord)
        and change.record.value.partition_id == partition  # type: ignore[union-attr]
    ]


@pytest.mark.parametrize("partition", [0, 1])
def test_the_records_of_one_partition_hold_as_in_the_whole_log(partition: int) -> None:
    whole = a_log_with_a_hole()
    some = [source for source in whole if partition_of(source) in (None, partition)]
    reader = MetadataReader(stretches=[(0, 6), (8, 12)])
    expected = MetadataReader()
    assert seen(reader, some, partition) == seen(expected, whole, partition)
    assert reader.gaps == expected.gaps == [(6, 8)]
    assert reader.has_base is expected.has_base is True


def test_a_checkpoint_of_what_is_held_stands_for_nothing() -> None:
    story = MetadataStory().at(1_000).topic("orders", (1, 2)).no_op().no_op()
    snapshot = MetadataStory().snapshot_begins(3, 2_000).topic("orders").partition(0, (1, 2)).snapshot_ends()
    reader = MetadataReader(stretches=[(0, 4)])
    changes = list(reader.read([*story.sources[:2], *snapshot.sources]))
    assert [change.snapshot for change in changes] == [None, None]
