"""Members that stood still without a rebalance: worked by hand, and on captures whose clients say when they did."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pytest

from rebalance_audit.domain.decode import Commit
from rebalance_audit.domain.gather.commit_marks import joined, mark_of
from rebalance_audit.domain.model import CommitMark, Member, MemberStandstill, Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.reconstruct.standstills import with_standstills
from tests.captures import CAPTURES, gathered, name_of
from tests.truth import client_events, scenario

EVERY_5_S = range(0, 61_000, 5_000)
FROZEN = [t for t in EVERY_5_S if not 20_000 < t < 35_000]
"""Due at 25 and 30 s, and not there."""
JAVA, FRANZ_GO = ("java",), ("franz-go",)
PER_S = 10
"""Records of each partition."""


def a_mark(partition: int, times: Sequence[int], positions: Sequence[int] | None = None) -> CommitMark:
    at = positions if positions is not None else [t * PER_S // 1000 for t in times]
    commits = [
        Commit(
            group_id="g", topic="t", partition=partition, ref="", at_ms=t, offsets_topic="__consumer_offsets",
            offsets_partition=7, offset=100 + t // 10 + partition, is_tombstone=False, committed_offset=position,
            topic_id=None, is_transactional=False,
        )
        for t, position in zip(times, at, strict=True)
    ]  # fmt: skip
    return reduce(joined, map(mark_of, commits))


def found(
    marks: Sequence[CommitMark],
    libraries: tuple[str, ...] | None = JAVA,
    owners: Sequence[Sequence[int]] = ((0, 1), (2, 3)),
) -> tuple[MemberStandstill, ...]:
    members = tuple(
        Member(member_id=f"m{n}", client_id=f"c{n}", assigned=tuple(f"t-{p}" for p in own), client_libraries=libraries)
        for n, own in enumerate(owners)
    )
    rebalance = Rebalance(
        cluster_id="c", rebalance_id="c/g/1", group_id="g", generation_id=1, members=members,
        evidence=("record:__consumer_offsets-7@99",),
    )  # fmt: skip
    [checked] = with_standstills([rebalance], marks)
    return checked.standstills


def test_a_member_whose_commits_stop_while_the_others_go_on_stood_still() -> None:
    [one] = found([a_mark(0, FROZEN), a_mark(1, FROZEN), a_mark(2, EVERY_5_S), a_mark(3, EVERY_5_S)])
    assert (one.member_id, one.resources, one.usual_commit_ms) == ("m0", ("t-0", "t-1"), 5_000)
    # It worked at 20 s, and committed again at 35 s; the commit of 25 s may come a second late.
    assert (one.from_lower_ms, one.from_ms, one.from_upper_ms) == (20_000, 22_500, 26_000)
    assert (one.to_lower_ms, one.to_ms, one.to_upper_ms) == (29_000, 35_000, 35_000)
    assert (one.pause_lower_ms, one.pause_estimate_ms, one.pause_upper_ms) == (3_000, 12_500, 15_000)
    assert (one.resource_seconds_estimate, one.tier) == (25.0, "inferred")
    assert one.evidence[:2] == ("record:__consumer_offsets-7@2100", "record:__consumer_offsets-7@3600")


@pytest.mark.parametrize(
    ("marks", "owners"),
    [
        pytest.param(
            [a_mark(0, FROZEN), a_mark(1, FROZEN), a_mark(2, FROZEN), a_mark(3, FROZEN)], ((0, 1), (2, 3)),
            id="all stopped: the coordinator, or the topic",
        ),
        pytest.param(
            [a_mark(0, FROZEN), a_mark(1, EVERY_5_S), a_mark(2, EVERY_5_S)], ((0, 1), (2,)),
            id="on another partition it went on",
        ),
        pytest.param(
            [a_mark(0, [t for t in FROZEN if not 40_000 < t < 55_000]), a_mark(2, EVERY_5_S)], ((0,), (2,)),
            id="it often commits nothing for so long",
        ),
        pytest.param([a_mark(0, FROZEN), a_mark(1, EVERY_5_S)], ((0, 1),), id="nobody shows that the group went on"),
        pytest.param(
            [a_mark(0, FROZEN, [7] * len(FROZEN)), a_mark(2, EVERY_5_S)], ((0,), (2,)), id="its partition never moved"
        ),
        pytest.param([a_mark(0, FROZEN[:2] + FROZEN[-1:]), a_mark(2, EVERY_5_S)], ((0,), (2,)), id="too few commits"),
    ],
)  # fmt: skip
def test_nothing_is_shown_where_it_may_be_otherwise(
    marks: Sequence[CommitMark], owners: Sequence[Sequence[int]]
) -> None:
    assert found(marks, owners=owners) == ()


def silent_meanwhile(times: Sequence[int]) -> list[int]:
    """Positions of a partition to which nothing was written from 20 to 34 s."""
    return [(t if t <= 20_000 else 20_000 if t < 34_000 else t - 14_000) * PER_S // 1000 for t in times]


@pytest.mark.parametrize("libraries", [None, ("franz-go", "java"), FRANZ_GO])
def test_a_partition_that_fell_silent_is_no_member_that_stood_still(libraries: tuple[str, ...] | None) -> None:
    """Its owner's library may commit only what moved, and it had nothing to catch up with."""
    marks = [a_mark(0, FROZEN, silent_meanwhile(FROZEN)), a_mark(2, EVERY_5_S)]
    assert found(marks, libraries, ((0,), (2,))) == ()


@pytest.mark.parametrize("libraries", [None, ("franz-go", "java"), FRANZ_GO])
def test_what_was_read_right_afterwards_had_waited(libraries: tuple[str, ...] | None) -> None:
    [one] = found([a_mark(0, FROZEN), a_mark(2, EVERY_5_S)], libraries, ((0,), (2,)))
    assert one.member_id == "m0"


def after_silence(until_ms: int) -> list[int]:
    """Of a topic that gets nothing from 20 to 34 s, the commits of a member that reads again from `until_ms` on."""
    return [t for t in range(0, 121_000, 2_000) if not 20_000 < t < until_ms]


def read_of(times: Sequence[int]) -> list[int]:
    return [(t if t <= 20_000 else max(t - 14_000, 20_000)) * PER_S // 1000 for t in times]


def test_one_that_misses_the_end_of_a_silence_stood_still_from_then_on() -> None:
    frozen, others = after_silence(48_000), after_silence(36_000)
    marks = [a_mark(p, times, read_of(times)) for p, times in enumerate((frozen, frozen, others, others))]
    [one] = found(marks, FRANZ_GO)
    assert (one.member_id, one.usual_commit_ms) == ("m0", 2_000)
    # When it was stopped is not known: at its commit of 20 s, or by 39 s, when it was a second late.
    assert (one.from_lower_ms, one.from_ms, one.from_upper_ms) == (17_000, 36_000, 39_000)
    assert (one.to_lower_ms, one.to_ms, one.to_upper_ms) == (45_000, 48_000, 48_000)
    assert one.pause_estimate_ms == 12_000


def test_one_that_is_back_soon_after_a_silence_did_not_stand_still() -> None:
    late, others = after_silence(38_000), after_silence(36_000)
    marks = [a_mark(p, times, read_of(times)) for p, times in enumerate((late, late, others, others))]
    assert found(marks, FRANZ_GO) == ()


def test_one_that_never_came_back_goes_on_as_far_as_evidence_goes() -> None:
    stopped, going = range(0, 21_000, 5_000), range(0, 121_000, 5_000)
    marks = [a_mark(0, stopped), a_mark(1, stopped), a_mark(2, going), a_mark(3, going)]
    [one] = found(marks, FRANZ_GO)
    # Its commit of 20 s may be of what it had read by 15 s, or a second before.
    assert (one.from_lower_ms, one.from_ms, one.from_upper_ms) == (14_000, 21_250, 26_000)
    assert (one.to_ms, one.pause_estimate_ms, one.pause_upper_ms) == (None, 98_750, None)
    assert found([marks[0], *marks[2:]], FRANZ_GO) == ()  # one partition alone may have fallen silent


EXPECTED = {
    "frozen_briefly": {("c2", "stall")},
    "frozen_in_turn": {("r1", "stall"), ("s1", "stall"), ("f1", "stall")},
    "franz_go_stuck_alone": {("m2", "stall")},
    "kafka_go_stuck_alone": {("m2", "stall")},
    "stuck_kip848": {("f2", "stall")},
    # Java commits while it is paused, as it does on a topic that is silent.
    "paused": {("r2", "stall"), ("k2", "stall")},
    # All members of a group had fallen silent before. franz-go's commits too seldom to show it.
    "frozen_after_silence": {("j2", "stall"), ("r2", "stall"), ("s2", "stall")},
    # Five were frozen for 5 s; three commit every five seconds.
    "frozen_by_library": {("k2", "stall"), ("s2", "stall")},
    # It was frozen for 5 s; others were killed, or frozen until their sessions ended.
    "shift_of_five": {("k1", "stall")},
    # Six were frozen. Four libraries had committed nothing for longer before, on a topic that was silent.
    "side_by_side_in_trouble": {("kafka-python-2", "stall"), ("aiokafka-2", "stall")},
}
"""Who stood still for long enough, on all it has."""


@pytest.mark.parametrize("capture", CAPTURES, ids=name_of)
@pytest.mark.parametrize("with_lines", [True, False], ids=["with-logs", "records-only"])
def test_only_members_that_stood_still_are_shown_and_the_truth_is_inside(capture: Path, with_lines: bool) -> None:
    if not scenario(capture).get("groups"):
        return
    standstills = [
        s
        for group in gathered(capture, with_lines=with_lines).groups
        for rebalance in reconstruct(group).rebalances
        for s in rebalance.standstills
    ]
    expected = EXPECTED.get(capture.name, set())
    assert {s.client_id for s in standstills} <= {client for client, _ in expected}
    if with_lines:
        assert {s.client_id for s in standstills} == {client for client, _ in expected}
    events = client_events(capture)
    for s in standstills:
        begins = [e["at_ms"] for e in events if e["event"] == "stall_start" and e["client"] == s.client_id]
        ends = [e["at_ms"] for e in events if e["event"] == "stall_end" and e["client"] == s.client_id]
        [true_ms] = [b - a for a, b in zip(begins, ends, strict=True)]
        assert s.from_lower_ms <= begins[0] <= s.from_upper_ms
        assert s.to_lower_ms is not None
        assert s.to_upper_ms is not None
        assert s.to_lower_ms <= ends[0] <= s.to_upper_ms + 5
        assert s.pause_lower_ms <= true_ms <= (s.pause_upper_ms or 0)
