"""KRaft's logs line by line: one change stands in several, each in part. Lines are those of 3.9.1 and 4.3.0."""

from __future__ import annotations

from tests.domain.reassign.stories import ladder
from tests.domain.reassign.test_kraft_logs import ID, active, quorum
from tests.domain.reassign.test_zookeeper import START_MS, Logs

ASSIGNED = "isr=null, leader=-2, replicas=[2, 3, 5, 0, 1], removingReplicas=[0, 1], addingReplicas=[3, 5]"
COMPLETED = "isr=[5, 2, 3], leader=2, replicas=[2, 3, 5], removingReplicas=[], addingReplicas=[]"


def created(logs: Logs, *, topic_id: str = ID, ms: int = 100) -> Logs:
    registration = (
        "PartitionRegistration(replicas=[1, 0, 2], directories=[A, B, C], isr=[1, 0, 2], removingReplicas=[], "
        "addingReplicas=[], elr=[], lastKnownElr=[], leader=1, leaderRecoveryState=RECOVERED, leaderEpoch=0, "
        "partitionEpoch=0)"
    )
    return quorum(
        logs, ms, f"Replayed PartitionRecord for new partition orders-0 with topic ID {topic_id} and {registration}."
    )


def assigned(logs: Logs, ms: int, record: str, *, topic_id: str = ID) -> Logs:
    """As before 4.3, without the epoch and the difference."""
    return quorum(
        logs,
        ms,
        f"Replayed partition assignment change PartitionChangeRecord(partitionId=0, topicId={topic_id}, {record}, "
        "leaderRecoveryState=-1, directories=[A, B], eligibleLeaderReplicas=null, lastKnownElr=null) for topic orders",
    )


def broker(logs: Logs, ms: int, node: int, message: str) -> Logs:
    text = f"INFO [Broker id={node}] {message} (state.change.logger)"
    return logs.line(ms, text, node=f"broker-{node}", file="state-change.log")


def skipped(
    logs: Logs, ms: int, node: int, *, epoch: int, isr: str, replicas: str, adding: str = "", removing: str = ""
) -> Logs:
    state = (
        f"LeaderAndIsrPartitionState(topicName='orders', partitionIndex=0, controllerEpoch=-1, leader=1, "
        f"leaderEpoch=0, isr=[{isr}], partitionEpoch={epoch}, replicas=[{replicas}], addingReplicas=[{adding}], "
        f"removingReplicas=[{removing}], isNew=false, leaderRecoveryState=0)"
    )
    return broker(
        logs,
        ms,
        node,
        f"Skipped the become-follower state change for orders-0 with topic id Some({ID}) and partition state {state} "
        "since it is already a follower with leader epoch 0.",
    )


def test_a_growth_that_only_brokers_show_is_a_step_and_the_controllers_time_stands_for_the_rest() -> None:
    logs = created(active(Logs(), 0))
    assigned(logs, 1_000, ASSIGNED)
    skipped(logs, 1_030, 2, epoch=1, isr="1, 0, 2", replicas="2, 3, 5, 0, 1", adding="3, 5", removing="0, 1")
    for node, ms in ((2, 9_020), (0, 9_015)):
        skipped(logs, ms, node, epoch=2, isr="1, 0, 2, 3", replicas="2, 3, 5, 0, 1", adding="3, 5", removing="0, 1")
    assigned(logs, 12_000, COMPLETED)
    (attempt,) = logs.attempts()
    assert [(step, leader, isr) for step, _, leader, isr in ladder(attempt)] == [
        ("before", 1, {0, 1, 2}),
        ("accepted", 1, {0, 1, 2}),
        ("catching_up", 1, {0, 1, 2, 3}),
        ("completed", 2, {2, 3, 5}),
    ]
    assert [step.at_ms for step in attempt.steps[1:]] == [START_MS + 1_000, START_MS + 9_015, START_MS + 12_000]


def test_the_same_move_asked_for_twice_is_two_attempts() -> None:
    logs = created(active(Logs(), 0))
    for ms in (1_000, 60_000):
        assigned(logs, ms, ASSIGNED)
        cancelled = "isr=null, leader=1, replicas=[1, 0, 2], removingReplicas=[], addingReplicas=[]"
        assigned(logs, ms + 5_000, cancelled)
    assert [r.outcome for r in logs.attempts()] == ["cancelled", "cancelled"]


def test_another_order_is_shown_by_the_brokers_alone() -> None:
    logs = created(active(Logs(), 0))
    for node, ms in ((0, 5_040), (2, 5_030)):
        skipped(logs, ms, node, epoch=1, isr="1, 0, 2", replicas="2, 1, 0")
    (attempt,) = logs.attempts()
    assert (attempt.target_replicas, attempt.outcome, attempt.started_at_ms) == (
        (2, 1, 0),
        "completed",
        START_MS + 5_030,
    )


def test_fewer_replicas_are_shown_by_the_leader_and_by_the_broker_that_gives_its_own_up() -> None:
    logs = created(active(Logs(), 0))
    start = (
        "starts at leader epoch 1 from offset 40 with partition epoch 1, high watermark 40, ISR [1,0], adding replicas"
    )
    rest = "[] and removing replicas [] . Previous leader Some(1) and previous leader epoch was 0."
    broker(logs, 5_030, 1, f"Leader orders-0 with topic id Some({ID}) {start} {rest}")
    skipped(logs, 200, 2, epoch=0, isr="1, 0, 2", replicas="1, 0, 2")
    text = "INFO Log for partition orders-0 is renamed to /d/orders-0.f7-delete and is scheduled for deletion (k.L)"
    logs.line(5_050, text, node="broker-2", file="server.log")
    (attempt,) = logs.attempts()
    assert (attempt.original_replicas, attempt.target_replicas) == ((1, 0, 2), (1, 0))


def test_a_topic_of_the_same_name_is_another_topic() -> None:
    other = "b" * 22
    logs = created(active(Logs(), 0))
    assigned(logs, 1_000, ASSIGNED)
    quorum(logs, 5_000, f"Replayed RemoveTopicRecord for topic orders with ID {ID}.")
    created(logs, topic_id=other, ms=6_000)
    assigned(logs, 7_000, ASSIGNED, topic_id=other)
    first, second = logs.attempts()
    assert (first.outcome, first.ended_at_ms, second.outcome) == ("deleted", START_MS + 5_000, "open")
    assert (first.topic_id, second.topic_id) == (ID, other)


def test_a_fenced_broker_that_came_back_does_not_block() -> None:
    logs = created(active(Logs(), 0))
    change = "Replayed BrokerRegistrationChangeRecord modifying the registration for broker 5: "
    change += "BrokerRegistrationChangeRecord("
    for ms, fenced in ((500, -1), (2_000, 1), (3_000, -1)):
        quorum(logs, ms, f"{change}brokerId=5, brokerEpoch=23, fenced={fenced}, inControlledShutdown=0, logDirs=[])")
    assigned(logs, 1_000, ASSIGNED)
    quorum(logs, 200_000, "Successfully altered 0 out of 1 partition reassignment(s).")
    (attempt,) = logs.attempts()
    assert attempt.blocked_by == "unknown"  # nobody at hand shows in-sync replicas
    quorum(logs, 4_000, f"{change}brokerId=5, brokerEpoch=23, fenced=1, inControlledShutdown=0, logDirs=[])")
    assert logs.attempts()[0].blocked_by == "broker_down"


def test_forged_lines_show_nothing_and_break_nothing() -> None:
    logs = created(active(Logs(), 0))
    assigned(logs, 500, "isr=x, leader=1, replicas=none, removingReplicas=?, addingReplicas=7")
    empty = "PartitionRegistration(replicas=[], directories=[], isr=[], leader=-1, leaderEpoch=0, partitionEpoch=0)"
    quorum(logs, 600, f"Replayed PartitionRecord for new partition orders-1 with topic ID {ID} and {empty}.")
    skipped(logs, 700, 2, epoch=1, isr="a, b", replicas="")
    assert logs.attempts() == []
