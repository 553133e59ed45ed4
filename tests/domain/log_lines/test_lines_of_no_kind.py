"""Lines of Kafka that the page lists as no events: they are none, and they tear nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_audit.domain.log_lines import outside_torn_lines, parse_controller_line, parse_line
from tests.domain.log_lines.lines import HEAD, JAVA, JAVA_SERVICE, SCALA_METADATA, a_line

PAGE = (Path(__file__).parents[3] / "docs" / "log_lines.md").read_text(encoding="utf-8")
CONTROLLER = "[Controller id=1 epoch=2] "
BROKER = "[Broker id=1] "
QUORUM = "[QuorumController id=1] "
LINES = [
    (SCALA_METADATA, "Scheduling loading of offsets and group metadata from __consumer_offsets-3 for epoch 5"),
    (JAVA_SERVICE, "Started unloading metadata for __consumer_offsets-3 with epoch OptionalInt[5]."),
    (JAVA, "Generated 3 tombstone records while cleaning up group metadata in 4 milliseconds."),
    (JAVA, "[GroupId g] Scanned 3 topics to refresh regular expressions [audit\\..*] in 0ms."),
    (CONTROLLER, "Sending LeaderAndIsr request to broker 1 with 2 become-leader and 3 become-follower partitions"),
    (CONTROLLER, "Sending StopReplica request (delete = true) for 1 replicas to broker 2"),
    (CONTROLLER, "Sending UpdateMetadata request to brokers HashSet(1, 2) for 3 partitions"),
    (BROKER, "Handling LeaderAndIsr request correlationId 3 from controller 1 for 2 partitions"),
    (BROKER, "Handling StopReplica request correlationId 4 from controller 1 for 1 partitions"),
    (BROKER, "Finished LeaderAndIsr request in 4ms correlationId 3 from controller 1 for 2 partitions"),
    (BROKER, "Transitioning 1 partition(s) to local leaders."),
    (BROKER, "Transitioning 1 partition(s) to local followers."),
    (BROKER, "Deleting 1 partition(s)."),
    (QUORUM, "Created topic orders with topic ID dCsV4xDCRs6HtrSwlE8DFw."),
    (QUORUM, "Replayed TopicRecord for topic orders with topic ID dCsV4xDCRs6HtrSwlE8DFw."),
    (QUORUM, "Replayed partition change PartitionChangeRecord(partitionId=0, isr=[1, 2], leader=-2) for topic orders"),
    (QUORUM, "Registered new broker: RegisterBrokerRecord(brokerId=1, fenced=true)"),
    (QUORUM, "Re-registered broker id 1: RegisterBrokerRecord(brokerId=1, fenced=true)"),
]


@pytest.mark.parametrize(("prefix", "message"), LINES)
def test_it_is_on_the_page_no_event_and_no_torn_line(prefix: str, message: str) -> None:
    assert message.removeprefix("[GroupId g] ").split(" ")[0] in PAGE.partition("## Lines of no kind")[2]
    line = a_line(f"{HEAD}{prefix}{message} (org.apache.kafka.X)\n")
    assert parse_line(line) is None
    assert parse_controller_line(line) is None
    after = a_line(f"{HEAD}[Partition orders-0 broker=1] Expanding ISR from 1 to 1,2 (kafka.X)\n", byte=500)
    assert list(outside_torn_lines([line, after])) == [line, after]
