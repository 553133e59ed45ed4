"""Members of consumer groups that leave, die in silence or come back, by hand-worked stories."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import LogKind, Movement
from tests.domain.reconstruct.epochs.found import a_group_of_one, epochs_of, moves
from tests.domain.reconstruct.epochs.stories import ConsumerGroupStory


class TestMembersThatLeaveAndLiveOn:
    """KIP-848 members leave for not polling without saying so, and keep their id: commits and its return show."""

    def left(
        self,
        *,
        commits: tuple[int, ...],
        others: tuple[int, ...] = (),
        max_poll_ms: int = 8_000,
        position: int | None = None,
    ) -> ConsumerGroupStory:
        """k1 (max.poll.interval.ms=8000) leaves at 30 s, k2, which commits at `others`, takes over at 31 s."""
        story = ConsumerGroupStory().member("k1", at_ms=100, max_poll_ms=max_poll_ms).member("k2", at_ms=100)
        story.epoch(2, at_ms=100).target(2, at_ms=100)
        story.holds("k2", [1], at_ms=101, epoch=2).holds("k1", [0], at_ms=101, epoch=2)
        for at_ms, partition in sorted([*((at_ms, 0) for at_ms in commits), *((at_ms, 1) for at_ms in others)]):
            story.commit(partition, at_ms=at_ms, position=position)
        story.says(LogKind.MODERN_MEMBER_LEFT, at_ms=30_000, member_id="k1", group_type="consumer")
        story.gone("k1", at_ms=30_000).epoch(3, at_ms=30_000).target(3, at_ms=30_000)
        return story.holds("k2", [0, 1], at_ms=31_000, epoch=3)

    def back(self, story: ConsumerGroupStory, *, at_ms: int) -> ConsumerGroupStory:
        return story.member("k1", at_ms=at_ms).epoch(4, at_ms=at_ms)

    def test_a_leave_after_a_long_silence_is_a_poll_timeout_and_it_worked_on(self) -> None:
        story = self.back(self.left(commits=(5_000, 10_000, 15_000, 20_000)), at_ms=50_000)
        found = story.reconstructed()
        assert epochs_of(found)[1] == (3, "completed", "member_poll_timeout")
        (movement,) = measure(found.rebalances[1]).movements
        # Its lost callback came just before it joined again; k2 had the partition 19 s earlier.
        assert (movement.stopped_at_lower_ms, movement.stopped_at_upper_ms) == (29_950, 50_010)
        assert movement.overlap_ms == 50_000 - (31_000 + 45)

    def test_one_that_seldom_commits_may_have_been_closed_long_after_its_last_commit(self) -> None:
        assert epochs_of(self.left(commits=(500, 10_000, 20_000)).reconstructed())[1] == (3, "completed", "member_left")

    def test_a_leave_right_after_a_commit_is_a_leave_even_if_it_subscribes_again(self) -> None:
        story = self.back(self.left(commits=(5_000, 10_000, 29_990)), at_ms=50_000)
        assert epochs_of(story.reconstructed())[1] == (3, "completed", "member_left")

    def test_a_topic_that_falls_silent_is_no_poll_timeout(self) -> None:
        # librdkafka and franz-go commit nothing then, and nothing as they close; k2 has fallen silent, too.
        story = self.left(commits=(5_000, 10_000, 15_000))
        assert epochs_of(story.reconstructed())[1] == (3, "completed", "member_left")
        (movement,) = measure(story.reconstructed().rebalances[1]).movements
        assert (movement.stopped_at_upper_ms, movement.pause_estimate_ms) == (30_010, 1_045)

    def test_one_that_is_silent_while_another_commits_did_not_poll(self) -> None:
        story = self.left(commits=(5_000, 10_000, 15_000), others=(5_000, 15_000, 27_000))
        assert epochs_of(story.reconstructed())[1] == (3, "completed", "member_poll_timeout")

    def test_one_whose_partition_got_nothing_may_have_left_while_another_commits(self) -> None:
        for read_on_to, trigger in ((7, "member_left"), (8, "member_poll_timeout")):
            story = self.left(commits=(5_000, 10_000, 15_000), others=(5_000, 15_000, 27_000), position=7)
            story.commit(0, at_ms=33_000, position=read_on_to)
            assert epochs_of(story.reconstructed())[1] == (3, "completed", trigger)

    def test_records_alone_do_not_say_how_one_went_when_all_were_silent(self) -> None:
        story = self.left(commits=(5_000, 10_000, 15_000), max_poll_ms=300_000)
        story.lines.clear()
        assert epochs_of(story.reconstructed())[1] == (3, "completed", "unknown")
        story = self.left(commits=(5_000, 10_000, 15_000), others=(5_000, 27_000), max_poll_ms=300_000)
        story.lines.clear()
        assert epochs_of(story.reconstructed())[1] == (3, "completed", "member_session_expired")

    def test_a_member_without_commits_that_comes_back_may_have_gone_either_way(self) -> None:
        story = self.back(self.left(commits=()), at_ms=50_000)
        assert epochs_of(story.reconstructed())[1] == (3, "completed", "unknown")

    def test_a_member_without_commits_that_stays_away_left(self) -> None:
        assert epochs_of(self.left(commits=()).reconstructed())[1] == (3, "completed", "member_left")


class TestStaticMembers:
    """KIP-848: one that is closed writes epoch -2, and its place waits for it; its return begins no epoch."""

    def closed(self) -> ConsumerGroupStory:
        story = ConsumerGroupStory().member("k1", at_ms=100).member("s1", at_ms=100, instance="one")
        story.epoch(2, at_ms=100).target(2, at_ms=100)
        story.holds("k1", [0], at_ms=101, epoch=2).holds("s1", [1], at_ms=101, epoch=2)
        return story.holds("s1", [1], at_ms=20_000, epoch=-2)

    def test_a_return_is_a_row_of_its_own_with_the_pause_of_its_partitions_alone(self) -> None:
        story = self.closed().gone("s1", at_ms=23_000).member("s2", at_ms=23_000, instance="one")
        story.holds("s2", [1], at_ms=23_000, epoch=0).holds("s2", [1], at_ms=23_000, epoch=2)
        found = story.reconstructed()
        assert epochs_of(found) == [(2, "completed", "member_joined"), (2, "completed", "static_member_replaced")]
        row = measure(found.rebalances[1])
        assert (row.rebalance_id, row.kind, row.rewrite_seq, row.expected) == (
            "c/clicks-app/e2.1",
            "static_rewrite",
            1,
            True,
        )
        assert moves(row) == {"orders-1": ("returned", "s1", "s2")}
        (movement,) = row.movements
        # It had stopped when it was closed, at 20 s, and heard of it in its next poll after 23 s.
        assert (movement.stopped_at_upper_ms, movement.resumed_at_lower_ms) == (20_010, 21_500)
        assert movement.pause_estimate_ms == 23_045 - 20_000
        assert [(m.client_id, m.change, m.owned_before) for m in row.members] == [
            ("k1", "stayed", ("orders-0",)), ("s2", "replaced", ("orders-1",)),
        ]  # fmt: skip
        assert moves(found.rebalances[0]) == {
            "orders-0": ("assigned", None, "k1"),
            "orders-1": ("assigned", None, "s1"),
        }

    def test_the_epoch_after_a_return_is_not_missed(self) -> None:
        story = self.closed().gone("s1", at_ms=23_000).member("s2", at_ms=23_000, instance="one")
        story.holds("s2", [1], at_ms=23_000, epoch=2).member("k3", at_ms=30_000).epoch(3, at_ms=30_000)
        assert [(r.group_epoch, r.rewrite_seq, r.trigger) for r in story.reconstructed().rebalances] == [
            (2, 0, "member_joined"), (2, 1, "static_member_replaced"), (3, 0, "member_joined"),
        ]  # fmt: skip

    def test_one_that_stays_away_expires_and_records_alone_say_so(self) -> None:
        story = self.closed().gone("s1", at_ms=65_000).epoch(3, at_ms=65_000).target(3, at_ms=65_000)
        story.holds("k1", [0, 1], at_ms=65_100, epoch=3)
        found = story.reconstructed()
        assert epochs_of(found)[1] == (3, "completed", "static_member_expired")
        assert moves(found.rebalances[1]) == {"orders-1": ("moved", "s1", "k1")}
        assert measure(found.rebalances[1]).movements[0].stopped_at_upper_ms == 20_010


def gone_in_silence(
    kind: LogKind, *, gone_at_ms: int, next_position: int, others_until_ms: int | None = None
) -> Movement:
    """k1 commits until its topic falls silent at 10 s, says once more what it holds, and is gone later."""
    story = a_group_of_one()
    for at_ms in range(2_000, (others_until_ms or 0) + 1, 2_000):
        story.commit(2, at_ms=at_ms, position=at_ms)
    for at_ms in (2_000, 4_000, 6_000, 8_000, 10_000):
        story.commit(0, at_ms=at_ms, position=at_ms).commit(1, at_ms=at_ms, position=at_ms)
    known_ms = 20_000 if gone_at_ms > 20_000 else 9_500
    story.member("k2", at_ms=known_ms - 1).epoch(3, at_ms=known_ms - 1).target(3, at_ms=known_ms - 1)
    story.holds("k2", [], at_ms=known_ms - 1, epoch=3).holds("k1", [0, 1], at_ms=known_ms, epoch=3)
    reason = {"reason": "the member session expired"} if kind is LogKind.MEMBER_FENCED else {}
    story.says(kind, at_ms=gone_at_ms, member_id="k1", **reason)
    story.gone("k1", at_ms=gone_at_ms).epoch(4, at_ms=gone_at_ms).target(4, at_ms=gone_at_ms)
    story.holds("k2", [0, 1], at_ms=gone_at_ms + 100, epoch=4).commit(0, at_ms=90_000, position=next_position)
    return next(m for m in map(measure, story.reconstructed().rebalances) if m.group_epoch == 4).movements[0]


def test_a_member_that_dies_in_silence_lived_at_least_until_its_own_record() -> None:
    """Seen with librdkafka and franz-go on 4.4.0: nothing was produced for 27 s, and it was killed after 20 of them."""
    silent = gone_in_silence(LogKind.MEMBER_FENCED, gone_at_ms=60_000, next_position=10_000)
    assert silent.pause_likely_lower_ms is not None
    assert silent.pause_likely_upper_ms is not None
    assert silent.pause_likely_lower_ms < 10_000 < 35_000 < silent.pause_likely_upper_ms < 41_000


@pytest.mark.parametrize(("others_until_ms", "is_silent"), [(10_000, True), (58_000, False)])
def test_where_others_fell_silent_too_messages_that_came_later_are_no_sign(
    others_until_ms: int, is_silent: bool
) -> None:
    """Seen with franz-go on 4.2.0 and 4.4.0: killed in a silence that ended when it was gone."""
    gone = gone_in_silence(
        LogKind.MEMBER_FENCED, gone_at_ms=60_000, next_position=12_000, others_until_ms=others_until_ms
    )
    assert gone.pause_likely_lower_ms is not None
    assert (gone.pause_likely_lower_ms < 10_000) is is_silent


def test_a_member_that_had_messages_and_committed_none_died_before_its_next_commit() -> None:
    busy = gone_in_silence(LogKind.MEMBER_FENCED, gone_at_ms=60_000, next_position=12_000)
    assert busy.pause_estimate_ms is not None
    assert busy.pause_estimate_ms > 40_000


@pytest.mark.parametrize(
    ("next_position", "pause_ms"),
    [(10_000, 145), (12_000, 3_145)],
    ids=["nothing came", "messages came"],
)
def test_a_commit_seconds_before_the_leave_was_not_made_for_it_if_nothing_came_since(
    next_position: int, pause_ms: int
) -> None:
    """Seen with franz-go on 4.4.0, which had nothing to commit as it closed."""
    left = gone_in_silence(LogKind.MODERN_MEMBER_LEFT, gone_at_ms=13_000, next_position=next_position)
    assert left.pause_estimate_ms == pause_ms
