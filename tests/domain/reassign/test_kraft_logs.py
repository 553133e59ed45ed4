"""KRaft from controllers' logs alone. Lines are those of 4.3.0 on real clusters (docs/kafka_writes.md#kraft)."""

from __future__ import annotations

from rebalance_audit.domain.reassign import kraft_history
from rebalance_audit.domain.reassign.history import reassignment_history
from rebalance_audit.domain.reassign.lines import LogLines
from tests.domain.reassign.stories import CLUSTER, MetadataStory, ladder
from tests.domain.reassign.test_zookeeper import START_MS, Logs

ID = "a3aZXC9HRiWZ2U21h_-tDQ"
REPLAYED = "Replayed partition assignment change PartitionChangeRecord(partitionId=0, topicId=" + ID + ", {record}, "
TAIL = (
    "leaderRecoveryState=-1, directories=[AAA], eligibleLeaderReplicas=null, lastKnownElr=null) for topic orders. "
    "({diff})"
)


def quorum(logs: Logs, ms: int, message: str, *, controller: int = 100) -> Logs:
    text = f"INFO [QuorumController id={controller}] {message} (org.apache.kafka.controller.ReplicationControlManager)"
    return logs.line(ms, text, node=f"controller-{controller}")


def replayed(logs: Logs, ms: int, record: str, diff: str, *, controller: int = 100) -> Logs:
    return quorum(logs, ms, REPLAYED.format(record=record) + TAIL.format(diff=diff), controller=controller)


def active(logs: Logs, ms: int, controller: int = 100, epoch: int = 1) -> Logs:
    return quorum(
        logs, ms, f"Becoming the active controller at epoch {epoch}, next write offset 1.", controller=controller
    )


REQUEST = (
    "isr=null, leader=-2, replicas=[2, 3, 5, 0, 1], removingReplicas=[0, 1], addingReplicas=[3, 5]",
    "isr: [1, 0, 2] -> [1, 0, 2], replicaSet: [1, 0, 2] -> [2, 3, 5, 0, 1], partitionEpoch: 1, leaderEpoch: 0",
)
GROWTH = (
    "AlterPartition request from node 1 for orders-0 completed the ongoing partition reassignment. isr: [1, 0, 2] -> "
    "[0, 1, 2, 3], replicaSet: [2, 3, 5, 0, 1] -> [2, 3, 5, 0, 1], partitionEpoch: 1 -> 2, leaderEpoch: 0 -> 0"
)
END = (
    "isr=[2, 3, 5], leader=2, replicas=[2, 3, 5], removingReplicas=[], addingReplicas=[]",
    "isr: [0, 1, 2, 3] -> [2, 3, 5], replicaSet: [2, 3, 5, 0, 1] -> [2, 3, 5], partitionEpoch: 3, leaderEpoch: 1",
)


def whole() -> Logs:
    logs = active(Logs(), 0)
    replayed(logs, 1_000, *REQUEST)
    quorum(logs, 15_000, GROWTH)
    return replayed(logs, 16_000, *END)


def test_the_line_that_says_completed_too_early_is_not_believed() -> None:
    (attempt,) = whole().attempts()
    assert [(phase, replicas, isr) for phase, replicas, _, isr in ladder(attempt)] == [
        ("before", (1, 0, 2), {0, 1, 2}),
        ("accepted", (2, 3, 5, 0, 1), {0, 1, 2}),
        ("catching_up", (2, 3, 5, 0, 1), {0, 1, 2, 3}),
        ("completed", (2, 3, 5), {2, 3, 5}),
    ]
    assert (attempt.outcome, attempt.started_at_ms, attempt.ended_at_ms) == (
        "completed",
        START_MS + 1_000,
        START_MS + 16_000,
    )


def test_lines_of_standbys_and_replays_after_a_restart_change_nothing() -> None:
    logs = whole()
    replayed(logs, 1_150, *REQUEST, controller=101)
    replayed(logs, 60_000, *REQUEST, controller=101)
    replayed(logs, 60_000, *END, controller=101)
    (attempt,) = logs.attempts()
    assert (attempt.started_at_ms, attempt.ended_at_ms) == (START_MS + 1_000, START_MS + 16_000)


def test_only_a_replay_at_hand_is_used_and_said_to_be_one() -> None:
    logs = active(Logs(), 0, controller=100)
    replayed(logs, 60_000, *REQUEST, controller=101)
    (attempt,) = logs.attempts()
    assert not attempt.is_complete_evidence
    assert "replay" in (attempt.detail or "")


def test_a_refused_request_is_kept_with_its_reason() -> None:
    logs = active(Logs(), 0)
    quorum(
        logs,
        500,
        "Unable to alter partition reassignment for orders:0 because of an NoReassignmentInProgressException error: No "
        "partition reassignment is in progress.",
    )
    (attempt,) = logs.attempts()
    assert attempt.outcome == "refused"
    assert "No partition reassignment is in progress." in (attempt.detail or "")


def test_with_records_at_hand_lines_only_add() -> None:
    story = MetadataStory().at(START_MS).topic("orders", (1, 0, 2))
    story.at(START_MS + 500).change(leader=0).at(START_MS + 900).change(leader=1)
    logs = active(Logs(), 0)
    text = "INFO [QuorumController id=100] Periodic task electPreferred generated 1 records in 413 microseconds. (x.Y)"
    logs.line(910, text, node="controller-100")
    lines = LogLines().read(logs.lines).in_order()
    history = reassignment_history(story.sources, lines, cluster_id=CLUSTER)
    assert history.reassignments == kraft_history(story.sources, cluster_id=CLUSTER).reassignments
    assert [e.cause for e in history.elections] == ["unknown", "automatic"]
