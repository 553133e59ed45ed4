"""What keeps a reassignment from going on. Numbers are worked by hand; lines are those of real clusters."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.reassign import Reassignment, ReassignmentHistory
from rebalance_audit.domain.reassign.advice import blocked, next_steps
from rebalance_audit.domain.reassign.history import reassignment_history
from rebalance_audit.domain.reassign.lines import LogLines
from tests.domain.metadata.encoder import record, topic_id
from tests.domain.reassign.stories import CLUSTER, MetadataStory
from tests.domain.reassign.test_zookeeper import START_MS, Logs

ALL = (1, 2, 3, 4, 5)


def asked(level: int, target: tuple[int, ...], original: tuple[int, ...] = (1, 2, 3)) -> MetadataStory:
    adding = tuple(sorted(set(target) - set(original)))
    removing = tuple(sorted(set(original) - set(target)))
    story = MetadataStory().controller(level).at(START_MS).topic("orders", original)
    return story.at(START_MS + 10_000).change(replicas=(*target, *removing), adding=adding, removing=removing)


def history_of(story: MetadataStory, logs: Logs | None = None) -> ReassignmentHistory:
    lines = LogLines().read(logs.lines).in_order() if logs is not None else ()
    return reassignment_history(story.sources, lines, cluster_id=CLUSTER)


def only(story: MetadataStory, logs: Logs | None = None) -> Reassignment:
    (attempt,) = history_of(story, logs).reassignments
    return attempt


@pytest.mark.parametrize(
    ("level", "target", "blocked_by"),
    [
        (19, (1, 4, 5), "unknown"),  # 3.7: new replicas alone are waited for, and they are there
        (21, (1, 4, 5), "old_replica_out_of_sync"),  # 3.9: the whole target
        (30, (1, 4, 5), "unknown"),  # 4.3: two come and two go
        (30, (1, 4), "old_replica_out_of_sync"),  # 4.3: one comes and two go
    ],
)
def test_whom_the_controller_waits_for_differs_by_release(level: int, target: tuple[int, ...], blocked_by: str) -> None:
    story = asked(level, target).at(START_MS + 20_000).change(isr=(2, 3, *(b for b in target if b > 3)))
    attempt = only(story.at(START_MS + 200_000).no_op())
    assert (attempt.stalled_since_ms, attempt.blocked_by) == (START_MS + 20_000, blocked_by)


def test_a_replica_it_keeps_on_a_broker_that_is_down_is_named() -> None:
    story = asked(21, (1, 4, 5)).at(START_MS + 20_000).change(isr=(2, 3, 4, 5)).fenced(1)
    attempt = only(story.at(START_MS + 200_000).no_op())
    assert (attempt.blocked_by, attempt.blocked_replicas) == ("broker_down", (1,))
    assert blocked(attempt) == "broker 1, which it keeps, is down or fenced"
    assert next_steps(attempt)[0].startswith("Start broker 1, or cancel")


def test_no_controller_is_what_a_silence_of_the_log_and_a_new_leader_show() -> None:
    story = asked(30, (1, 4, 5)).at(START_MS + 10_500).no_op()
    story.at(START_MS + 150_000).new_controller(101).change(isr=(1, 2, 3, 4))
    attempt = only(story)
    assert (attempt.blocked_by, attempt.longest_standstill_ms) == ("controller_unavailable", 140_000)


def test_a_new_leader_after_a_quiet_time_without_no_ops_shows_nothing() -> None:
    story = asked(30, (1, 4, 5)).at(START_MS + 150_000).new_controller(101).change(isr=(1, 2, 3, 4))
    assert only(story).blocked_by == "replica_not_fetching"


def no_heartbeat(logs: Logs, brokers: tuple[int, ...], from_s: int, to_s: int) -> Logs:
    for second in range(from_s, to_s, 4):
        for broker in brokers:
            text = f"INFO [BrokerLifecycleManager id={broker}] Unable to send a heartbeat because the RPC got timed out"
            logs.line(
                second * 1000, f"{text} before it could be sent. (x.BrokerLifecycleManager)", node=f"broker-{broker}"
            )
    return logs


def following(logs: Logs, *brokers: int) -> Logs:
    for broker in brokers:
        text = (
            "starts at leader epoch 0 from offset 0 with partition epoch 1 and high watermark 0. Current leader is 1. "
        )
        text = (
            f"INFO [Broker id={broker}] Follower orders-0 {text}Previous leader None and previous leader epoch was -1."
        )
        logs.line(10_400, f"{text} (state.change.logger)", node=f"broker-{broker}", file="state-change.log")
    return logs


def test_a_log_that_ended_with_its_controllers_is_stalled_where_brokers_go_on_missing_them() -> None:
    story = asked(30, (1, 4, 5)).at(START_MS + 10_500).no_op()
    logs = no_heartbeat(following(Logs(), 4, 5), (4, 5), 15, 200)
    attempt = only(story, logs)
    assert (attempt.stalled_since_ms, attempt.blocked_by) == (START_MS + 10_000, "controller_unavailable")
    assert next_steps(attempt) == ["Bring a majority of the controllers back; the reassignment goes on by itself."]


def test_one_broker_of_three_without_a_controller_is_that_brokers_trouble() -> None:
    story = asked(30, (1, 4, 5)).at(START_MS + 200_000).no_op()
    assert only(story, no_heartbeat(following(Logs(), 2, 4, 5), (4,), 15, 200)).blocked_by == "replica_not_fetching"


def rolled(logs: Logs, second: int, broker: int, offset: int) -> Logs:
    text = (
        f"INFO [LocalLog partition=orders-0, dir=/data] Rolled new log segment at offset {offset} in 3 ms. (x.LocalLog)"
    )
    return logs.line(second * 1000, text, node=f"broker-{broker}", file="server.log")


def test_a_new_replica_that_begins_segments_is_copying() -> None:
    logs = following(Logs(), 4, 5)
    for second in range(30, 200, 60):
        rolled(logs, second, 4, second * 100)
    story = asked(30, (1, 4, 5)).at(START_MS + 200_000).no_op()
    assert only(story).stalled_since_ms is not None
    assert only(story, logs).stalled_since_ms is None  # the last at 150 s


def test_a_copy_that_stopped_is_stalled_since_its_last_segment() -> None:
    logs = rolled(rolled(following(Logs(), 4, 5), 30, 4, 3_000), 60, 4, 6_000)
    story = asked(30, (1, 4, 5)).at(START_MS + 200_000).no_op()
    assert only(story, logs).stalled_since_ms == START_MS + 60_000


def test_a_copy_slower_than_what_is_written_does_not_catch_up() -> None:
    """The leader writes 100 a second, the throttle lets 90 pass."""
    logs = following(Logs(), 1, 4)
    for second in range(20, 400, 20):
        rolled(logs, second, 1, 10_000 + second * 100)
        rolled(logs, second + 1, 4, second * 90)
    story = asked(30, (1, 4, 5)).throttle("orders", "900", ALL).at(START_MS + 400_000).no_op()
    attempt = only(story, logs)
    assert (attempt.stalled_since_ms, attempt.blocked_by) == (START_MS + 21_000, "throttle")
    assert blocked(attempt) == "copying to brokers 4, 5 is throttled and does not catch up"


def test_a_leader_that_is_heard_of_late_does_not_make_progress_vanish() -> None:
    logs = rolled(following(Logs(), 1, 4), 30, 4, 3_000)
    rolled(logs, 60, 1, 40_000)
    for second in range(70, 190, 30):
        rolled(logs, second, 4, second * 100)
    assert only(asked(30, (1, 4, 5)).at(START_MS + 200_000).no_op(), logs).stalled_since_ms is None


def test_a_disk_that_failed_is_named_before_a_throttle() -> None:
    text = (
        "WARN [ReplicaManager broker=4] Broker 4 stopped fetcher for partitions orders-0,orders-7 and stopped moving "
        "logs for partitions  because they are in the failed log directory /data/2. (kafka.server.ReplicaManager)"
    )
    logs = following(Logs(), 4, 5).line(15_000, text, node="broker-4", file="server.log")
    story = asked(30, (1, 4, 5)).throttle("orders", "1000", ALL).at(START_MS + 20_000).change(isr=(1, 2, 3, 5))
    attempt = only(story.at(START_MS + 200_000).no_op(), logs)
    assert (attempt.blocked_by, attempt.blocked_replicas) == ("disk_failed", (4,))
    assert blocked(attempt) == "the disk of broker 4 with the new copy failed"


def test_a_request_that_can_never_end_is_named_when_it_was_cancelled_long_before_the_limit() -> None:
    story = asked(30, (2, 3, 5), (1, 2, 4)).at(START_MS + 11_000).change(replicas=(4, 1, 3, 2, 5), removing=(2, 5))
    story.at(START_MS + 15_000).change(replicas=(4, 1, 2), adding=(), removing=())
    first, second = history_of(story).reassignments
    assert (first.blocked_by, second.outcome) == (None, "cancelled")
    assert (second.blocked_by, second.blocked_replicas) == ("adding_and_removing_overlap", (5,))


def test_a_disk_that_failed_is_shown_by_records_where_the_copy_lay_on_it_or_nowhere_yet() -> None:
    first, second, unassigned = topic_id(7), topic_id(8), "AAAAAAAAAAAAAAAAAAAAAQ"

    def story(directory: str, *, lost_at_ms: int) -> MetadataStory:
        disks = {"brokerId": 4, "brokerEpoch": 9}
        lost = record(17, 3, {**disks, "logDirs": [first]})
        story = MetadataStory().write(record(0, 3, {**disks, "logDirs": [first, second], "fenced": False}))
        story.controller(30).at(START_MS).topic("orders", (1, 2, 3))
        if lost_at_ms < 10_000:
            story.at(START_MS + lost_at_ms).write(lost)
        fields = {"replicas": (1, 4, 5, 2, 3), "addingReplicas": (4, 5), "removingReplicas": (2, 3)}
        where = {"directories": [first, directory, first, first, first]}
        story.at(START_MS + 10_000)
        story.write(record(5, 2, {"partitionId": 0, "topicId": topic_id(1), **fields, **where}))
        if lost_at_ms >= 10_000:
            story.at(START_MS + lost_at_ms).write(lost)
        story.at(START_MS + 20_000).change(isr=(1, 2, 3, 5))
        return story.at(START_MS + 200_000).no_op()

    assert only(story(second, lost_at_ms=30_000)).blocked_by == "disk_failed"
    assert only(story(unassigned, lost_at_ms=30_000)).blocked_by == "disk_failed"
    assert only(story(unassigned, lost_at_ms=5_000)).blocked_by == "replica_not_fetching"
    assert only(story(first, lost_at_ms=30_000)).blocked_by == "replica_not_fetching"
