"""The metadata log as reassignments. Records are those of real clusters (docs/kafka_writes.md#kraft), shortened."""

from __future__ import annotations

from rebalance_audit.domain.metadata import MetadataReader, topic_names
from rebalance_audit.domain.reassign import KRaftFold, Reassignment, kraft_history
from tests.domain.reassign.stories import CLUSTER, MetadataStory, ladder


def a_topic() -> MetadataStory:
    """orders-0 on 1, 0, 2."""
    return MetadataStory().at(1_000).topic("orders", (1, 0, 2))


def asked(story: MetadataStory | None = None) -> MetadataStory:
    """[1,0,2] -> [2,3,5] was accepted at 10 s."""
    return (story or a_topic()).at(10_000).change(replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))


def only(story: MetadataStory) -> Reassignment:
    (attempt,) = story.attempts()
    return attempt


def test_a_move_to_other_brokers_climbs_the_ladder_and_completes() -> None:
    story = asked().at(25_000).change(isr=(0, 1, 2, 3))
    story.at(25_600).change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), removing=(), adding=())
    attempt = only(story)
    assert ladder(attempt) == [
        ("before", (1, 0, 2), 1, {0, 1, 2}),
        ("accepted", (2, 3, 5, 0, 1), 1, {0, 1, 2}),
        ("catching_up", (2, 3, 5, 0, 1), 1, {0, 1, 2, 3}),
        ("completed", (2, 3, 5), 2, {2, 3, 5}),
    ]
    assert [step.at_ms for step in attempt.steps] == [1_000, 10_000, 25_000, 25_600]
    assert [step.leader_epoch for step in attempt.steps] == [0, 0, 0, 1]
    assert [step.partition_epoch for step in attempt.steps] == [0, 1, 2, 3]
    assert (attempt.original_replicas, attempt.target_replicas) == ((1, 0, 2), (2, 3, 5))
    assert (attempt.adding_replicas, attempt.removing_replicas) == ((3, 5), (0, 1))
    assert (attempt.started_at_ms, attempt.ended_at_ms, attempt.outcome) == (10_000, 25_600, "completed")
    assert (attempt.leader_changes, attempt.topic, attempt.partition) == (1, "orders", 0)
    assert attempt.evidence == ("metadata:controller-100@2", "metadata:controller-100@3", "metadata:controller-100@4")
    assert attempt.reassignment_id == "orders-0@2"
    assert [(p.broker_id, p.in_isr_at_ms) for p in attempt.progress] == [(3, 25_000), (5, 25_600)]


def test_the_same_leader_written_again_raises_its_epoch_and_is_no_change_of_leader() -> None:
    story = a_topic().change(leader=1)
    story.at(10_000).change(replicas=(1, 2, 3, 0), adding=(3,), removing=(0,))
    story.at(11_000).change(isr=(1, 2, 3), leader=1, replicas=(1, 2, 3), removing=(), adding=())
    attempt = only(story)
    assert attempt.leader_changes == 0
    assert attempt.steps[-1].leader_epoch == 2


def test_another_order_of_the_same_replicas_is_done_as_soon_as_asked() -> None:
    attempt = only(a_topic().at(5_000).change(replicas=(2, 1, 0)))
    assert ladder(attempt) == [("before", (1, 0, 2), 1, {0, 1, 2}), ("completed", (2, 1, 0), 1, {0, 1, 2})]
    assert (attempt.adding_replicas, attempt.removing_replicas, attempt.outcome) == ((), (), "completed")


def test_fewer_replicas_are_done_as_soon_as_asked() -> None:
    attempt = only(a_topic().at(5_000).change(replicas=(1, 0), isr=(0, 1), leader=1))
    assert (attempt.outcome, attempt.removing_replicas, attempt.ended_at_ms) == ("completed", (2,), 5_000)
    assert attempt.steps[-1].leader_epoch == 1


def test_a_cancellation_gives_the_set_back_and_not_the_order() -> None:
    story = asked().at(15_000).change(isr=(0, 1, 2, 3))
    story.at(20_000).change(replicas=(2, 0, 1), isr=(0, 1, 2), adding=(), removing=(), leader=1)
    attempt = only(story)
    assert (attempt.outcome, attempt.ended_at_ms) == ("cancelled", 20_000)
    assert ladder(attempt)[-1] == ("cancelled", (2, 0, 1), 1, {0, 1, 2})
    assert (attempt.original_replicas, attempt.target_replicas) == ((1, 0, 2), (2, 3, 5))


def test_a_replacement_ends_the_first_and_keeps_the_origin_of_the_chain() -> None:
    story = asked().at(12_000).change(replicas=(0, 1, 3, 2, 5), removing=(2, 5))  # adding stays as it was
    first, second = story.attempts()
    assert (first.outcome, first.ended_at_ms, first.superseded_by) == ("superseded", 12_000, second.reassignment_id)
    assert ladder(first)[-1] == ("superseded", (0, 1, 3, 2, 5), 1, {0, 1, 2})
    assert ladder(second)[0] == ("before", (2, 3, 5, 0, 1), 1, {0, 1, 2})
    assert (second.original_replicas, second.target_replicas, second.outcome) == ((1, 0, 2), (0, 1, 3), "open")
    assert (second.adding_replicas, second.removing_replicas) == ((3, 5), (2, 5))


def test_a_broker_in_both_lists_is_a_stall_at_once() -> None:
    story = asked().at(12_000).change(replicas=(0, 1, 3, 2, 5), removing=(2, 5)).at(12_500).no_op()
    second = story.attempts()[1]
    assert (second.stalled_since_ms, second.blocked_by, second.blocked_replicas) == (
        12_000,
        "adding_and_removing_overlap",
        (5,),
    )


def test_controllers_before_4_3_get_over_a_broker_in_both_lists() -> None:
    def story(level: int) -> MetadataStory:
        first = asked(MetadataStory().controller(level).at(1_000).topic("orders", (1, 0, 2)))
        return first.at(12_000).change(replicas=(0, 1, 3, 2, 5), removing=(2, 5)).at(12_500).no_op()

    assert [r.blocked_by for r in story(21).attempts()] == [None, None]
    assert [r.blocked_by for r in story(30).attempts()] == [None, "adding_and_removing_overlap"]
    assert story(21).at(200_000).no_op().attempts()[1].blocked_by == "replica_not_fetching"


def test_a_request_for_the_origin_while_moving_is_a_move_back() -> None:
    story = asked().at(12_000).change(replicas=(1, 0, 2, 3, 5), removing=(3, 5))
    story.at(60_000).change(replicas=(1, 0, 2), adding=(), removing=())
    first, second = story.attempts()
    assert (first.outcome, second.outcome) == ("superseded", "cancelled")
    assert (second.original_replicas, second.target_replicas) == ((1, 0, 2), (1, 0, 2))


def test_a_request_for_the_origin_that_ends_at_once_is_a_cancellation() -> None:
    story = asked().at(12_000).change(replicas=(1, 0, 2), adding=(), removing=())
    attempt = only(story)
    assert (attempt.outcome, attempt.ended_at_ms) == ("cancelled", 12_000)


def test_a_replacement_that_is_done_at_once_is_an_attempt_of_its_own() -> None:
    story = asked().at(12_000).change(replicas=(1, 0), isr=(0, 1), adding=(), removing=(), leader=1)
    first, second = story.attempts()
    assert (first.outcome, second.outcome) == ("superseded", "completed")
    assert (second.original_replicas, second.target_replicas) == ((1, 0, 2), (1, 0))


def test_asking_again_for_what_is_being_done_is_no_attempt() -> None:
    assert only(asked().at(11_000).change(replicas=(2, 3, 5, 0, 1))).outcome == "open"


def test_a_deleted_topic_takes_its_reassignment_with_it() -> None:
    attempt = only(asked().at(20_000).remove_topic())
    assert (attempt.outcome, attempt.ended_at_ms) == ("deleted", 20_000)
    assert len(attempt.steps) == 2


def test_a_topic_of_the_same_name_is_another_topic() -> None:
    story = asked().at(20_000).remove_topic().at(21_000).topic("orders", (0, 1), number=2)
    story.at(22_000).change(replicas=(1, 0), number=2)
    first, second = story.attempts()
    assert (first.outcome, second.outcome) == ("deleted", "completed")
    assert first.topic_id != second.topic_id


def test_records_of_an_aborted_transaction_never_were() -> None:
    story = a_topic().begin().change(replicas=(2, 1, 0)).abort()
    assert story.attempts() == []


def test_records_of_a_transaction_take_effect_at_its_end() -> None:
    story = a_topic().at(5_000).begin().change(replicas=(2, 1, 0))
    assert story.attempts() == []
    assert only(story.at(6_000).end()).started_at_ms == 6_000


def test_a_new_controller_changes_nothing_and_is_counted() -> None:
    attempt = only(asked().new_controller(2).at(30_000).change(isr=(0, 1, 2, 3)))
    assert (attempt.outcome, attempt.controller_changes, attempt.phase) == ("open", 1, "catching_up")


def test_it_stands_still_after_the_limit_without_progress() -> None:
    story = asked().at(99_999).no_op()
    assert only(story).stalled_since_ms is None
    stalled = only(story.at(100_001).no_op())
    assert (stalled.stalled_since_ms, stalled.blocked_by) == (10_000, "replica_not_fetching")
    assert stalled.blocked_replicas == (3, 5)


def test_a_growing_isr_is_progress() -> None:
    story = asked().at(90_000).change(isr=(0, 1, 2, 3)).at(150_000).no_op()
    assert only(story).stalled_since_ms is None
    stalled = only(story.at(181_000).no_op())
    assert (stalled.stalled_since_ms, stalled.blocked_replicas) == (90_000, (5,))


def test_a_fenced_target_is_named() -> None:
    stalled = only(asked().at(11_000).fenced(5).at(200_000).no_op())
    assert (stalled.blocked_by, stalled.blocked_replicas) == ("broker_down", (5,))
    assert "metadata:controller-100@3" in stalled.evidence


def test_a_target_that_came_back_is_not_what_blocks_now() -> None:
    story = asked().at(11_000).fenced(5).at(12_000).fenced(5, is_fenced=False).at(200_000).no_op()
    assert only(story).blocked_by == "replica_not_fetching"


def test_a_throttle_on_the_way_is_named() -> None:
    story = asked(a_topic().throttle("orders", "1000", (0, 1, 2, 3, 5))).at(200_000).no_op()
    assert only(story).blocked_by == "throttle"


def test_a_throttle_of_another_topic_does_not_block() -> None:
    story = asked(a_topic().throttle("payments", "1000", (0, 1, 2, 3, 5))).at(200_000).no_op()
    assert only(story).blocked_by == "replica_not_fetching"


def test_a_partition_without_leader_is_named() -> None:
    story = asked().at(11_000).change(leader=-1, isr=(1,)).at(200_000).no_op()
    attempt = only(story)
    assert attempt.blocked_by == "no_leader"
    assert attempt.without_leader_ms == 189_000


def test_an_old_replica_of_the_target_that_is_not_in_sync_is_named() -> None:
    story = asked().at(11_000).change(isr=(0, 1)).at(12_000).change(isr=(0, 1, 3, 5)).at(200_000).no_op()
    attempt = only(story)
    assert (attempt.blocked_by, attempt.blocked_replicas) == ("old_replica_out_of_sync", (2,))


def test_the_longest_standstill_of_an_ended_one_and_its_reason_are_kept() -> None:
    story = asked().at(11_000).fenced(5).at(12_000).change(isr=(0, 1, 2, 3)).at(130_000).fenced(5, is_fenced=False)
    story.at(131_000).change(isr=(2, 3, 5), replicas=(2, 3, 5), removing=(), adding=(), leader=2)
    attempt = only(story)
    assert (attempt.longest_standstill_ms, attempt.standstill_from_ms) == (119_000, 12_000)
    assert (attempt.blocked_by, attempt.stalled_since_ms) == ("broker_down", None)


def test_time_under_min_isr_is_added_up() -> None:
    story = MetadataStory().config(4, "", "min.insync.replicas", "2").at(1_000).topic("orders", (1, 0, 2))
    story = asked(story).at(20_000).change(isr=(1,)).at(50_000).change(isr=(1, 2))
    story.at(60_000).change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), removing=(), adding=())
    attempt = only(story)
    assert (attempt.min_insync_replicas, attempt.under_min_isr_ms, attempt.under_replicated_ms) == (2, 30_000, 40_000)


def test_a_snapshot_in_the_middle_of_a_move_is_where_it_begins() -> None:
    story = MetadataStory().snapshot_begins(500, 9_000).topic("orders")
    story.partition(0, (2, 3, 5, 0, 1), isr=(0, 1, 2), adding=(3, 5), removing=(0, 1), leader=1, leader_epoch=7)
    story.snapshot_ends().at(25_000).change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), removing=(), adding=())
    attempt = only(story)
    assert (attempt.started_at_ms, attempt.ended_at_ms, attempt.outcome) == (None, 25_000, "completed")
    assert not attempt.is_complete_evidence
    assert attempt.original_replicas is not None
    assert set(attempt.original_replicas) == {0, 1, 2}
    assert attempt.steps[-1].leader_epoch == 8


def test_what_ended_in_a_gap_is_known_to_have_ended_and_not_when() -> None:
    story = asked()
    story.snapshot_begins(500, 90_000).topic("orders").partition(0, (2, 3, 5), leader=2).snapshot_ends()
    history = story.history()
    (attempt,) = history.reassignments
    assert (attempt.outcome, attempt.ended_at_ms, attempt.is_complete_evidence) == ("completed", None, False)
    assert history.gaps == ((3, 500),)


def test_a_snapshot_that_the_log_covers_changes_nothing() -> None:
    story = asked()
    late = MetadataStory().snapshot_begins(2, 9_000).topic("orders").partition(0, (1, 0, 2)).snapshot_ends()
    history = kraft_history([*story.sources, *late.sources], cluster_id=CLUSTER)
    assert [r.outcome for r in history.reassignments] == ["open"]


def test_reading_a_log_twice_or_in_pieces_changes_nothing() -> None:
    story = asked().at(25_000).change(isr=(0, 1, 2, 3))
    story.at(25_600).change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), removing=(), adding=())
    whole = story.history()
    assert kraft_history([*story.sources, *story.sources], cluster_id=CLUSTER) == whole
    for cut in range(len(story.sources)):
        fold, reader = KRaftFold(CLUSTER), MetadataReader()
        fold.read(reader.read(story.sources[:cut]))
        first = list(fold.ended())
        fold.read(reader.read(story.sources[cut:]))
        assert [*first, *fold.ended()] == list(whole.reassignments)


def test_elections_show_their_cause() -> None:
    story = a_topic().at(5_000).change(leader=2).at(6_000).change(leader=1)
    story.at(7_000).shuts_down(1).change(isr=(0, 2), leader=0)
    story.at(8_000).change(isr=(2,), leader=2).fenced(0)
    story.at(9_000).change(leader=-1).at(10_000).change(leader=2)
    elections = story.history().elections
    assert [(e.cause, e.previous_leader, e.elected, e.prevented_by) for e in elections] == [
        ("unknown", 1, 2, None),
        ("preferred", 2, 1, None),
        ("shutdown", 1, 0, "preferred_not_alive"),
        ("broker_failure", 0, 2, "preferred_not_in_isr"),
        ("broker_failure", 2, None, "preferred_not_in_isr"),
        ("broker_return", None, 2, "preferred_not_in_isr"),
    ]


def test_a_leader_that_moves_with_its_partition_says_so() -> None:
    story = asked().at(25_600).change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), removing=(), adding=())
    (election,) = story.history().elections
    assert (election.cause, election.elected, election.at_ms) == ("reassignment", 2, 25_600)


def test_throttles_last_from_their_setting_to_their_removal() -> None:
    story = a_topic().at(2_000).throttle("orders", "700000", (1,)).at(9_000).throttle("orders", None, (1,))
    throttles = story.history().throttles
    assert {(t.resource_type, t.resource, t.set_at_ms, t.removed_at_ms) for t in throttles} == {
        ("topic", "orders", 2_000, 9_000),
        ("broker", "1", 2_000, 9_000),
    }
    assert {t.value for t in throttles} == {"*", "700000"}


def test_brokers_that_do_not_lead_what_they_should_are_counted() -> None:
    story = MetadataStory().topic("orders", (1, 2), (1, 2), (2, 1)).change(1, leader=2)
    (imbalance,) = story.history().imbalances
    assert (imbalance.broker_id, imbalance.preferred_count, imbalance.led_elsewhere_count) == (1, 2, 1)
    assert imbalance.examples == ("orders-1",)


def test_topic_names_are_known_by_id_after_deletion_too() -> None:
    story = a_topic().remove_topic().topic("payments", number=2)
    assert sorted(topic_names(story.sources).values()) == ["orders", "payments"]


def test_a_record_that_cannot_be_read_is_reported_and_the_rest_goes_on() -> None:
    story = a_topic().write(b"\x01\x7e\x00\x00").at(5_000).change(replicas=(2, 1, 0))
    reader = MetadataReader()
    assert len(kraft_history(story.sources, cluster_id=CLUSTER, reader=reader).reassignments) == 1
    assert [(refused.source.offset, refused.error.reason) for refused in reader.refused] == [(2, "unknown_record_type")]


def test_a_change_of_the_controller_after_the_end_is_not_counted() -> None:
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2)).at(2_000)
    story.change(replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1)).new_controller(101)
    story.change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), adding=(), removing=()).new_controller(102)
    (attempt,) = story.attempts()
    assert attempt.controller_changes == 1
