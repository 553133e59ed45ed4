"""Polls of a slow member, by its commits: hand-worked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange
from rebalance_audit.domain.model import CommitMark, Member, Rebalance, Trigger
from rebalance_audit.domain.replay.life import Moment, Stall
from rebalance_audit.domain.replay.measured import Measured
from rebalance_audit.domain.replay.polls import FullPoll, full_polls
from rebalance_audit.domain.replay.requests import RequestError
from rebalance_audit.domain.replay.settings import GroupSettings
from rebalance_audit.domain.replay.situation import Situation
from rebalance_audit.domain.replay.standstill import Standstill
from rebalance_audit.domain.replay.timing import Timing
from rebalance_audit.domain.replay.whatif import option_of, request_of
from tests.domain.reconstruct.test_standstills import a_mark
from tests.domain.replay.stories import a_life, a_script, replayed, triggers

PUT_OUT = Rebalance(
    cluster_id="c", group_id="g", rebalance_id="c/g/2", trigger=Cause.MEMBER_POLL_TIMEOUT, started_at_ms=80_000,
    members=(Member(member_id="b-1", change=MemberChange.LEFT, owned_before=("t-0", "t-1")),),
    triggers=(
        Trigger(trigger=Cause.MEMBER_POLL_TIMEOUT, tier=EvidenceTier.LOGGED, members=("b-1",)),
    ),
)  # fmt: skip
"""b had two partitions, polled last at 60 s, and was put out at 80 s."""
TIMES = (1_000, 6_000, 18_000, 30_000, 42_000, 54_000)


def polls(*positions: Sequence[int], times: Sequence[int] = TIMES) -> FullPoll | None:
    """Of b, by what it committed of each of its partitions."""
    marks: list[CommitMark] = [a_mark(p, times, at) for p, at in enumerate(positions)]
    return full_polls([PUT_OUT], marks).get("b-1")


def test_polls_of_the_same_size_are_full_and_say_what_a_record_takes() -> None:
    # 12 s from commit to commit: 200 records of one partition and 120 of the other, then 150 and 170.
    found = polls((0, 50, 250, 400, 550, 700), (0, 0, 120, 290, 460, 630))
    assert found == FullPoll(records=320, took_ms=12_000)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # 320, then 321: none of them may be full.
        ((0, 50, 250, 401, 550, 700), (0, 0, 120, 290, 460, 630)),
        ((0, 50, 50, 50, 50, 50), (0, 0, 0, 0, 0, 0)),
    ],
    ids=["of two sizes", "of nothing"],
)
def test_polls_that_differ_may_not_be_full(first: Sequence[int], second: Sequence[int]) -> None:
    assert polls(first, second) is None


def test_commits_that_may_hold_several_polls_say_nothing() -> None:
    # Every 8 s: two polls of 4 s are committed together.
    times = (1_000, 9_000, 17_000, 25_000, 33_000, 41_000)
    assert polls((0, 500, 1_000, 1_500, 2_000, 2_500), (0, 0, 0, 0, 0, 0), times=times) is None


def test_commits_of_one_partition_alone_say_nothing_of_the_poll() -> None:
    assert polls((0, 50, 250, 400, 550, 700)) is None


def test_kafkas_default_is_believed_at_first_sight() -> None:
    assert polls((0, 0, 500), (0, 0, 0), times=(1_000, 6_000, 18_000)) == FullPoll(500, 12_000)


def test_fewer_records_take_less_time_by_what_was_slow() -> None:
    full = FullPoll(500, 12_000)
    # Of 500 records in 30 s, 100 take 6 s if all were slow; 30 - 12 * 4 / 5 if it was one of them.
    assert full.shortened_ms(30_000, 100, 0) == pytest.approx(6_000)
    assert full.shortened_ms(30_000, 100, 1) == pytest.approx(20_400)
    assert full.shortened_ms(30_000, 500, 0.5) == pytest.approx(30_000)


SLOW = Stall(since=Moment.known(40_000), until_ms=70_000, full_poll=FullPoll(500, 12_000))


def test_a_member_with_fewer_records_stays_in_its_group() -> None:
    script = a_script(a_life("a", 0), a_life("b", 10_000, stalls=(SLOW,)), until_ms=120_000)
    assert "member_poll_timeout" in triggers(replayed(script, max_poll_interval_ms=21_000))
    assert "member_poll_timeout" not in triggers(replayed(script, max_poll_interval_ms=21_000, max_poll_records=100))


def situation(*stalls: Stall, library: str = "java") -> Situation:
    busy = replace(a_life("b", 10_000, stalls=stalls), libraries=(library,))
    script = a_script(a_life("a", 0), busy, until_ms=120_000)
    return Situation(script, Timing(), Measured(Standstill(), 0, 0), (), GroupSettings(max_poll_interval_ms=21_000))


@pytest.mark.parametrize(
    ("stalls", "records", "words"),
    [
        ((), 100, "no member was busy"),
        ((replace(SLOW, full_poll=None),), 100, "does not show"),
        ((replace(SLOW, until_ms=None),), 100, "does not show"),
        ((SLOW,), 500, "polls held 500"),
    ],
)
def test_what_the_history_does_not_show_is_one_sentence(stalls: Sequence[Stall], records: int, words: str) -> None:
    with pytest.raises(RequestError, match=words) as refused:
        request_of(situation(*stalls), [f"max.poll.records={records}"])
    assert str(refused.value).count(". ") == 0


def test_a_library_without_the_setting_is_named() -> None:
    refused = option_of(situation(SLOW, library="librdkafka"), ["max.poll.records=100"]).refused
    assert refused == "b runs librdkafka, which has no max.poll.records"


def test_fewer_records_save_and_say_by_what_they_are_judged() -> None:
    option = option_of(situation(SLOW), ["max.poll.records=100"])
    assert (option.saved_lower_seconds or 0) > 0
    assert "24.0 ms" in option.why  # 12 s for 500
