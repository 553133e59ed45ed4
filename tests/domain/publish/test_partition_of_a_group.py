"""Which partition of the offsets topic a group has: as Java computes it, and as real brokers chose it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rebalance_audit.domain.publish.leader_moves import offsets_partition
from tests.commands.saying import GOLDEN

PARTITIONS = {"one_client_id_for_all": 1}
"""Of the offsets topic, in scenarios that have another number than the lab's own."""


# By hand from String.hashCode's definition: "a" is 97, "ä" 228, "Aa" and "BB" share 2112. "polygenelubricants" is the
# well-known text whose hash code is Integer.MIN_VALUE, which Kafka's Utils.abs takes for 0.
@pytest.mark.parametrize(
    ("group", "partition"), [("", 0), ("a", 47), ("Aa", 12), ("BB", 12), ("polygenelubricants", 0), ("ä", 28)]
)
def test_the_partition_of_a_group_is_the_one_kafka_chooses(group: str, partition: int) -> None:
    assert offsets_partition(group, 50) == partition


@pytest.mark.parametrize(
    "capture", sorted(GOLDEN.glob("*/*/meta.json")), ids=lambda p: f"{p.parent.parent.name}-{p.parent.name}"
)
def test_the_partition_of_a_group_is_the_one_real_brokers_chose(capture: Path) -> None:
    from ingest.evidence import read_evidence
    from rebalance_audit.domain.decode import decode_source
    from rebalance_audit.domain.model import GroupRecord

    scenario = json.loads((capture.parent / "truth" / "scenario.json").read_text())
    seen = {
        (event.record.key.group_id, record.partition)
        for record in read_evidence(capture.parent).records()
        if record.topic == "__consumer_offsets" and not record.is_control
        and isinstance(event := decode_source(record), GroupRecord)
    }  # fmt: skip
    counts = [n for n in range(1, 101) if all(offsets_partition(group, n) == partition for group, partition in seen)]
    assert scenario["groups"].keys() <= {group for group, _ in seen}
    assert PARTITIONS.get(capture.parent.name, 4) in counts
