"""How and when members of classic consumer groups went, by hand-worked stories."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import LogKind
from tests import encoders
from tests.domain.reconstruct.classic.found import generations_of, movement, moves, rebalances
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id


def test_the_return_of_one_static_member_is_no_sign_of_life_of_another_that_comes_back_later() -> None:
    """c2 and c3 die at 5 s. c2 is back at 8 s and c3 at 9 s: two rewrites of one generation."""
    held, instances = {"c1": "0", "c2": "1", "c3": "2"}, {"c1": "I1", "c2": "I2", "c3": "I3"}
    story = a_group().generation(1, held, at_ms=1_000, instances=instances)
    story.commit(1, at_ms=4_900).commit(2, at_ms=4_900)
    again = {"c2": "c2-again"}
    story.generation(1, held, at_ms=8_000, joined_at_ms=990, instances=instances, member_ids=again)
    again = {"c2": "c2-again", "c3": "c3-again"}
    story.generation(1, held, at_ms=9_000, joined_at_ms=990, instances=instances, member_ids=again)
    _, _, second = rebalances(story)
    assert moves(second) == {"orders-2": ("returned", "c3", "c3")}
    pause = measure(second).movements[0]
    assert pause.stopped_at_lower_ms is not None
    assert pause.stopped_at_lower_ms <= 4_900
    assert pause.pause_estimate_ms == 9_000 + 8 - 4_900


@pytest.mark.parametrize(("last_ms", "most_ms"), [(20_000, 13_508), (19_200, 14_308)], ids=["on its beat", "off it"])
def test_a_static_member_may_have_died_after_its_last_commit(last_ms: int, most_ms: int) -> None:
    """As seen on 3.8.1: killed 1.4 s after a commit, it was taken for closed at that commit, and for nothing else. It
    commits every second, so it may have lived for one more; a Java one's commit off the beat was made as it closed."""
    instances, java = {"c1": "I1", "c2": "I2"}, encoders.consumer_subscription((TOPIC,), version=3, user_data=None)
    kinds: dict[str, Any] = {"assignor": "sticky", "subscriptions": {"c1": java, "c2": java}}
    story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000, instances=instances, **kinds)
    for at_ms in range(5_000, 20_000, 1_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story.commit(1, at_ms=last_ms)
    story.says(LogKind.MEMBER_FAILED, at_ms=last_ms + 10_000, member_id=member_id("c2"))
    story.preparing(1, f"removing member {member_id('c2')} on heartbeat expiration.", at_ms=last_ms + 10_001)
    story.stabilized(2, at_ms=33_400).received(2, at_ms=33_499)
    kinds["subscriptions"] = {"c1": java}
    story.generation(2, {"c1": "0 1"}, at_ms=33_500, instances=instances, **kinds)
    found = movement(rebalances(story)[1], "orders-1")
    assert found.pause_estimate_ms == 33_508 - last_ms
    assert found.pause_likely_lower_ms is not None
    is_sure = last_ms == 19_200
    assert (found.pause_likely_lower_ms > most_ms - 100) == is_sure
    if not is_sure:
        assert found.pause_likely_lower_ms <= most_ms - 900


def test_static_members_do_not_leave_by_themselves() -> None:
    """As seen on 3.3.2: an administrator removed one that ran, which joined again in the same join phase; then all."""
    held, instances = {"c1": "0", "c2": "1"}, {"c1": "I1", "c2": "I2"}
    story = a_group(session_timeout_ms=25_000).generation(1, held, at_ms=1_000, instances=instances)
    story.commit(0, at_ms=4_000).commit(1, at_ms=4_000)
    story.generation(2, held, at_ms=8_000, instances=instances, member_ids={"c2": "c2-again"})
    three, again = {**held, "c3": "2"}, {"c2": "c2-again"}
    story.generation(3, three, at_ms=9_000, instances=instances, member_ids=again)
    story.commit(0, at_ms=14_900).commit(1, at_ms=14_900).commit(2, at_ms=14_900).empty(4, at_ms=15_000)
    assert [r.trigger for r in rebalances(story)] == ["member_joined", "unknown", "member_joined", "unknown"]


class TestSyncTimeout:
    """c1 leads, joins c3's generation, and never sends its assignment; its max.poll.interval.ms is 8 s."""

    def story(self) -> Story:
        story = a_group(session_timeout_ms=30_000, rebalance_timeout_ms=8_000)
        story.generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000).commit(0, at_ms=6_000).commit(0, at_ms=11_000)
        story.commit(1, at_ms=11_000).preparing(1, "Adding new member c3 with group instance id null", at_ms=12_000)
        story.commit(0, at_ms=12_400).stabilized(2, at_ms=12_500, member_count=3)
        story.preparing(2, f"Removing [{member_id('c1')}] on pending sync request expiration", at_ms=20_500)
        story.stabilized(3, at_ms=20_600, member_count=2)
        return story.generation(3, {"c2": "0", "c3": "1"}, at_ms=20_610, joined_at_ms=20_600)

    def test_it_let_go_when_it_joined_and_not_when_it_was_put_out(self) -> None:
        last = rebalances(self.story())[-1]
        assert (last.generation_id, last.trigger) == (3, "member_sync_timeout")
        lost = movement(last, "orders-0")
        assert (lost.stopped_at_lower_ms, lost.stopped_at_upper_ms) == (12_400 - 50, 12_510)
        assert lost.pause_estimate_ms == 20_610 + 8 - 12_400

    def test_records_alone_show_a_silence_that_has_more_than_one_cause(self) -> None:
        story = self.story()
        story.lines.clear()
        assert generations_of(story)[-1] == (3, "rebalance", "completed", "unknown")


class TestRemovalByAnAdministrator:
    """4.x names only dynamic members in its `Preparing` line; the line before has the administrator's reason."""

    REASON = "member was removed by an admin"

    def removed(self, *, instance: str | None, comes_back: bool) -> Story:
        """c2 of two is removed at 9 s; the next generation is c1's alone."""
        instances = {"c2": instance} if instance else None
        story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000, instances=instances)
        story.commit(1, at_ms=6_000).commit(0, at_ms=6_000)
        story.says(LogKind.MEMBER_LEFT, at_ms=9_000, member_id=member_id("c2"), client_reason=self.REASON)
        named = "" if instance else member_id("c2")
        story.preparing(1, f"explicit `LeaveGroup` request for ({named}) members.", at_ms=9_001)
        story.stabilized(2, at_ms=10_000).generation(2, {"c1": "0 1"}, at_ms=10_010, joined_at_ms=10_000)
        if comes_back:
            again = member_id("c2")[:-1] + "9"
            story.preparing(2, f"Adding new member {again} with group instance id null", at_ms=11_500)
        return story

    def test_it_is_the_cause_for_dynamic_and_static_members(self) -> None:
        for instance in (None, "two"):
            found = rebalances(self.removed(instance=instance, comes_back=False))[1]
            assert (found.trigger, found.triggers[0].members) == ("member_removed_by_admin", (member_id("c2"),))
            assert len(found.triggers) == 1

    def test_a_member_that_lived_worked_until_it_joined_again(self) -> None:
        lost = movement(rebalances(self.removed(instance=None, comes_back=True))[1], "orders-1")
        assert (lost.stopped_at_lower_ms, lost.stopped_at_upper_ms) == (6_000 - 50, 11_510)
        assert lost.overlap_ms == 11_500 - (10_010 + 8)

    def test_one_that_stays_away_may_have_been_dead_since_its_last_commit(self) -> None:
        lost = movement(rebalances(self.removed(instance="two", comes_back=False))[1], "orders-1")
        assert (lost.stopped_at_lower_ms, lost.stopped_at_upper_ms) == (6_000 - 50, 9_000 + 3_000 + 10)
        assert lost.pause_estimate_ms == 10_010 + 8 - 6_000

    def test_before_3_2_no_line_shows_it_from_a_leave_and_what_it_may_be_bounds_it(self) -> None:
        for instance, comes_back in (("two", False), (None, True)):
            story = self.removed(instance=instance, comes_back=comes_back)
            story.lines[0] = replace(story.lines[0], fields={"member_id": member_id("c2")})
            found = rebalances(story)[1]
            assert found.trigger == "unknown"
            upper_ms = 11_510 if comes_back else 9_010
            assert movement(found, "orders-1").stopped_at_upper_ms == upper_ms

    def test_without_lines_a_static_member_has_gone_nobody_knows_how(self) -> None:
        story = self.removed(instance="two", comes_back=False)
        story.lines.clear()
        assert generations_of(story)[1] == (2, "rebalance", "completed", "unknown")

    def test_without_lines_one_that_lived_and_did_not_commit_as_it_went_may_have_been_removed(self) -> None:
        for last_commit_ms, trigger in ((8_990, "member_left"), (5_000, "unknown")):
            story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000).commit(1, at_ms=3_000)
            story.commit(1, at_ms=last_commit_ms).generation(2, {"c1": "0 1"}, at_ms=10_010, joined_at_ms=10_000)
            again = {"c2": member_id("c2")[:-1] + "9"}
            story.generation(3, {"c1": "0", "c2": "1"}, at_ms=13_000, member_ids=again)
            assert generations_of(story)[1] == (2, "rebalance", "completed", trigger)

    def test_without_lines_a_last_member_that_did_not_commit_as_it_went_may_have_been_removed(self) -> None:
        for last_commit_ms, trigger in ((8_900, "member_left"), (6_000, "unknown")):
            story = a_group().generation(1, {"c1": "0"}, at_ms=1_000).commit(0, at_ms=4_000)
            story.commit(0, at_ms=last_commit_ms).empty(2, at_ms=9_000)
            assert generations_of(story)[1] == (2, "rebalance", "emptied", trigger)


class TestDepartures:
    """Who left, and how, with lines and without."""

    def killed(self) -> Story:
        return (
            a_group(session_timeout_ms=10_000)
            .generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000)
            .commit(1, at_ms=2_000)
            .commit(1, at_ms=7_000)
            .commit(0, at_ms=20_000)
        )

    def test_a_session_expiry_is_shown_by_the_line(self) -> None:
        story = (
            self.killed()
            .says(LogKind.MEMBER_FAILED, at_ms=18_000, member_id=member_id("c2"))
            .preparing(1, f"removing member {member_id('c2')} on heartbeat expiration.", at_ms=18_001)
            .generation(2, {"c1": "0 1"}, at_ms=20_020, joined_at_ms=20_010)
        )
        second = rebalances(story)[1]
        assert (second.trigger, second.trigger_tier) == ("member_session_expired", "logged")
        assert second.triggers[0].members == (member_id("c2"),)
        moved = movement(second, "orders-1")
        assert (moved.kind, moved.from_client_id, moved.to_client_id) == ("moved", "c2", "c1")
        # It committed at 7.000 and was out at 18.000: it died between, 18 s - 10 s + half a heartbeat is the guess.
        assert (moved.stopped_at_lower_ms, moved.stopped_at_upper_ms) == (6_950, 18_010)
        assert moved.pause_estimate_ms == 20_028 - 9_500
        # The one that stayed stopped when it heard of it, not when the other died.
        stayed = movement(second, "orders-0")
        assert (stayed.kind, stayed.pause_estimate_ms) == ("returned", 28)
        assert second.broker_window_ms == 20_020 - 18_001

    def test_a_session_that_began_anew_at_the_end_of_a_join_phase_is_no_sign_of_life(self) -> None:
        """The coordinator restarts it for all who wait: the member may have been dead since it asked to join."""
        story = (
            self.killed()
            .preparing(1, f"Adding new member {member_id('c3')} with group instance id null", at_ms=21_000)
            .generation(2, {"c1": "0", "c2": "1", "c3": "2"}, at_ms=28_010, joined_at_ms=28_000)
            .says(LogKind.MEMBER_FAILED, at_ms=38_000, member_id=member_id("c2"))
            .preparing(2, f"removing member {member_id('c2')} on heartbeat expiration.", at_ms=38_000)
            .generation(3, {"c1": "0 1", "c3": "2"}, at_ms=40_010, joined_at_ms=40_000)
        )
        moved = movement(rebalances(story)[2], "orders-1")
        # Whoever had it before let go at most a session (10 s, up to 1.5 s late) before that join phase began.
        assert (moved.stopped_at_lower_ms, moved.stopped_at_upper_ms) == (21_000 - 10 - 11_500, 38_010)
        # A commit in the new generation shows that it got what it was given.
        heard = (
            self.killed()
            .preparing(1, f"Adding new member {member_id('c3')} with group instance id null", at_ms=21_000)
            .generation(2, {"c1": "0", "c2": "1", "c3": "2"}, at_ms=28_010, joined_at_ms=28_000)
            .commit(1, at_ms=28_500)
            .says(LogKind.MEMBER_FAILED, at_ms=38_500, member_id=member_id("c2"))
            .preparing(2, f"removing member {member_id('c2')} on heartbeat expiration.", at_ms=38_500)
            .generation(3, {"c1": "0 1", "c3": "2"}, at_ms=40_010, joined_at_ms=40_000)
        )
        assert movement(rebalances(heard)[2], "orders-1").stopped_at_lower_ms == 28_450

    def test_without_lines_one_that_waited_for_the_dead_came_before_their_session_ended(self) -> None:
        """c1 commits every second and let go five seconds before the join phase ended: not for a departure, of which
        it hears within a heartbeat of three."""
        story = a_group(session_timeout_ms=10_000).generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000)
        for second in range(2, 26):
            story.commit(0, at_ms=second * 1_000)
            if second < 20:
                story.commit(1, at_ms=second * 1_000)
        came = story.generation(2, {"c1": "0", "c3": "1"}, at_ms=30_010, joined_at_ms=30_000)
        joined = rebalances(came)[1]
        assert [t.trigger for t in joined.triggers] == ["member_joined", "member_session_expired"]

    def test_without_lines_nobody_knows_who_was_first_where_all_worked_on(self) -> None:
        story = a_group(session_timeout_ms=10_000).generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000)
        for second in range(2, 30):
            story.commit(0, at_ms=second * 1_000)
            if second < 20:
                story.commit(1, at_ms=second * 1_000)
        joined = rebalances(story.generation(2, {"c1": "0", "c3": "1"}, at_ms=30_010, joined_at_ms=30_000))[1]
        assert joined.trigger == "unknown"
        assert {t.trigger for t in joined.triggers} == {"unknown", "member_session_expired", "member_joined"}

    def test_without_lines_silence_longer_than_the_session_says_as_much(self) -> None:
        story = self.killed().generation(2, {"c1": "0 1"}, at_ms=20_020, joined_at_ms=20_010)
        second = rebalances(story)[1]
        assert (second.trigger, second.trigger_tier) == ("member_session_expired", "inferred")

    def test_without_lines_a_member_that_committed_just_before_left_in_good_order(self) -> None:
        story = (
            a_group(session_timeout_ms=10_000)
            .generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000)
            .commit(1, at_ms=17_000)
            .commit(0, at_ms=20_000)
            .generation(2, {"c1": "0 1"}, at_ms=20_020, joined_at_ms=20_010)
        )
        assert rebalances(story)[1].trigger == "member_left"

    def test_without_lines_and_commits_the_cause_is_unknown(self) -> None:
        story = (
            a_group()
            .generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000)
            .generation(2, {"c1": "0 1"}, at_ms=20_020, joined_at_ms=20_010)
        )
        second = rebalances(story)[1]
        assert (second.trigger, second.trigger_tier) == ("unknown", "unknown")

    def test_the_clients_words_show_a_poll_timeout_from_a_leave(self) -> None:
        story = (
            a_group()
            .generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000)
            .says(
                LogKind.MEMBER_LEFT,
                at_ms=17_999,
                member_id=member_id("c2"),
                client_reason="consumer poll timeout has expired.",
            )
            .preparing(1, f"explicit `LeaveGroup` request for ({member_id('c2')}) members", at_ms=18_000)
            .generation(2, {"c1": "0 1"}, at_ms=20_020, joined_at_ms=20_010)
        )
        second = rebalances(story)[1]
        assert second.trigger == "member_poll_timeout"
        # It worked on: nothing bounds when it stopped, so the pause may be an overlap of any length.
        assert movement(second, "orders-1").pause_lower_ms is None

    def test_a_line_that_contradicts_the_record_is_not_believed(self) -> None:
        story = (
            a_group()
            .generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000)
            .preparing(1, f"removing member {member_id('c2')} on heartbeat expiration.", at_ms=18_000)
            .generation(2, {"c1": "0", "c2": "1"}, at_ms=20_020, joined_at_ms=20_010)
        )
        assert rebalances(story)[1].trigger == "unknown"

    def test_a_forged_line_of_a_number_far_away_makes_no_rebalance(self) -> None:
        story = (
            a_group()
            .generation(1, {"c1": "0"}, at_ms=1_000)
            .preparing(899, "Adding new member x with group instance id null", at_ms=1_500)
            .generation(2, {"c1": "0"}, at_ms=2_000)
        )
        assert [n for n, *_ in generations_of(story)] == [1, 2]
