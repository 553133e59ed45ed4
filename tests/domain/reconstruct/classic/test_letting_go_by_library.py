"""When a member lets go and begins again around a rebalance depends on its library."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.kinds import Basis
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import LogKind, Movement, changed
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.reconstruct.classic.resumes import delivered_marks
from tests import encoders
from tests.domain.reconstruct.classic.libraries import (
    JAVA_2_7,
    JAVA_3_7,
    KAFKAJS,
    SARAMA,
    given_on,
    of_records,
    second,
    two,
)
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id


def closed(subscription: bytes, interval_ms: int) -> Story:
    """c2 held two partitions, and leaves at 20 s. It committed both until 17 s, and one of them at 20 s."""
    both = {"c1": "0", "c2": "1 2"}
    assignor = "RoundRobinAssigner" if subscription == KAFKAJS else "range"
    story = a_group().generation(
        1, both, at_ms=1_000, subscriptions=dict.fromkeys(both, subscription), assignor=assignor
    )
    for at_ms in range(2_000, 17_001, interval_ms):
        story.commit(1, at_ms=at_ms).commit(2, at_ms=at_ms)
    story.commit(2, at_ms=20_000)
    story.preparing(1, f"explicit `LeaveGroup` request for ({member_id('c2')}) members.", at_ms=20_001)
    story.generation(2, {"c1": "0 1 2"}, at_ms=21_000, subscriptions={"c1": subscription}, assignor=assignor)
    return story.stabilized(2, at_ms=20_990).received(2, at_ms=20_999)


@pytest.mark.parametrize(
    ("subscription", "interval_ms", "lower_ms", "basis"),
    [
        # Its own last commit, and a whole interval of 1 s.
        (SARAMA, 1_000, 17_000 - 1_050, Basis.COMMIT_AFTER_FETCHES),
        # As seldom as Java's: the last commit of all that it held, and a fetch of 500 ms.
        (JAVA_2_7, 5_000, 20_000 - 550, Basis.COMMIT_AS_IT_LET_GO),
        (JAVA_3_7, 1_000, 20_000 - 50, Basis.COMMIT_AS_IT_LET_GO),
        (KAFKAJS, 5_000, 20_000 - 50, Basis.COMMIT_BEFORE_QUIET),
    ],
    ids=["may be sarama", "maybe not", "not sarama", "kafkajs"],
)
def test_what_a_last_commit_proves_depends_on_whose_it_is(
    subscription: bytes, interval_ms: int, lower_ms: int, basis: Basis
) -> None:
    pause = given_on(second(closed(subscription, interval_ms)))
    assert pause.stopped_at_lower_ms == lower_ms
    assert {(m.at_ms, m.basis) for m in pause.stop_marks if m.bound == "estimate" and m.rank == 2} == {(20_000, basis)}


@pytest.mark.parametrize(
    ("per_s", "early_ms"),
    [
        (10, 130),  # of each partition, which may be its broker's only one: a message every 100 ms, and 1.3 times that
        (1, 550),  # every half a second: a fetch waits no longer
        (None, 550),
    ],
)
def test_saramas_last_commit_waited_for_the_next_message_at_most(per_s: int | None, early_ms: int) -> None:
    story = closed(SARAMA, 1_000)
    for place, mark in enumerate(story.marks):
        position = None if per_s is None else mark.first_at_ms * per_s // 1_000
        story.marks[place] = changed(mark, first_position=position, last_position=position)
    pause = given_on(second(story))
    (estimate,) = (m for m in pause.stop_marks if m.basis == Basis.COMMIT_AFTER_FETCHES)
    assert (estimate.at_ms, estimate.window_from_ms) == (20_000, pytest.approx(20_000 - early_ms, abs=1))


@pytest.mark.parametrize(
    ("position", "lower_ms", "window"),
    [
        (90, 9_000 - 1_050, (9_000, 19_500)),  # what it had committed at 9 s: the broker had not answered within 5 s
        (195, 19_500 - 1_050, (19_500 - 130, 19_507)),
    ],
    ids=["sent again", "something new"],
)
def test_saramas_last_commit_may_be_one_that_it_sent_again(
    position: int, lower_ms: int, window: tuple[int, int]
) -> None:
    """As seen on 3.6.2 while a replica was missing: it had let go 0.5 to 5.6 s before its last commit."""
    both = dict.fromkeys(("c1", "c2"), SARAMA)
    story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000, subscriptions=both)
    for at_ms in range(2_000, 9_001, 1_000):
        story.commit(1, at_ms=at_ms, position=at_ms // 100)
    story.commit(1, at_ms=14_500, position=90).commit(1, at_ms=19_500, position=position)
    story.generation(2, {"c1": "0 1", "c2": ""}, at_ms=20_000, subscriptions=both)
    pause = given_on(second(story))
    (estimate,) = (m for m in pause.stop_marks if m.bound == "estimate" and m.rank == 2)
    assert pause.stopped_at_lower_ms == lower_ms
    assert (estimate.window_from_ms, estimate.window_to_ms) == pytest.approx(window, abs=25)


def of_kafkajs(story: Story) -> Story:
    """c1 and c2 commit each second until 9 s."""
    story = two(story, 1, 1_000, KAFKAJS, assignor="RoundRobinAssigner")
    for at_ms in range(2_000, 9_001, 1_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    return story


def test_the_owners_of_an_emptied_group_are_known_by_what_they_were_given() -> None:
    """The record of an empty group names no assignor. As seen on 4.2.0."""
    story = of_kafkajs(a_group())
    for client in ("c1", "c2"):
        story.says(LogKind.MEMBER_LEFT, at_ms=9_290, member_id=member_id(client))
    story.preparing(1, f"explicit `LeaveGroup` request for ({member_id('c2')}) members.", at_ms=9_291)
    story.empty(2, at_ms=9_300)
    again = {client: f"{client}-00000000-0000-0000-0000-00000000000a" for client in ("c1", "c2")}
    story = two(story, 3, 20_000, KAFKAJS, assignor="RoundRobinAssigner", member_ids=again)
    (third,) = (r for r in reconstruct(story.evidence()).rebalances if r.generation_id == 3)
    assert Basis.COMMIT_BEFORE_QUIET in {m.basis for m in given_on(third).stop_marks}


@pytest.mark.parametrize("with_lines", [True, False])
def test_a_kafkajs_member_let_go_before_the_others_waited_for_a_dead_one(*, with_lines: bool) -> None:
    """As seen on 4.2.0: one was killed and another came, so the only one that stayed had let go 5.3 s before."""
    story = of_kafkajs(a_group())
    story.preparing(1, f"Adding new member {member_id('c3')} with group instance id None", at_ms=9_010)
    story.says(LogKind.MEMBER_FAILED, at_ms=13_990, member_id=member_id("c2"))
    both = dict.fromkeys(("c1", "c3"), KAFKAJS)
    story.generation(2, {"c1": "1", "c3": "0"}, at_ms=14_000, subscriptions=both, assignor="RoundRobinAssigner")
    found = second(story if with_lines else of_records(story))
    (stop,) = (m for m in found.movements if m.resource == f"{TOPIC}-0")
    assert [m.at_ms for m in stop.stop_marks if m.basis == Basis.COMMIT_BEFORE_QUIET] == [9_000]


COOPERATIVE = {
    number: encoders.consumer_subscription((TOPIC,), owned={TOPIC: tuple(numbers)}, version=2, user_data=None)
    for number, numbers in (("0", (0,)), ("", ()))
}
"""Of members that may be sarama's, by what they hold."""


def joined_by_more(own_commit_ms: int | None, interval_ms: int = 1_000) -> Movement:
    """c1 holds partition 0 and is given partition 1 at 20 s beside it, which c2 gave up when it left."""
    story = a_group().generation(
        1, {"c1": "0", "c2": "1"}, at_ms=1_000, assignor="cooperative-sticky",
        subscriptions=dict.fromkeys(("c1", "c2"), COOPERATIVE[""]),
    )  # fmt: skip
    for at_ms in range(2_000, 19_001, interval_ms):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story.generation(
        2, {"c1": "0 1"}, at_ms=20_000, assignor="cooperative-sticky", subscriptions={"c1": COOPERATIVE["0"]}
    )
    story.commit(0, at_ms=20_005)
    if own_commit_ms is not None:
        story.commit(1, at_ms=own_commit_ms)
    return given_on(second(story))


def test_what_it_keeps_says_nothing_of_when_a_cooperative_member_began_with_the_rest() -> None:
    """Seen of sarama on three brokers: it commits what it kept 5 ms after the record, and begins 3.4 s after it."""
    pause = joined_by_more(24_500)
    assert (pause.resumed_at_lower_ms, pause.resumed_at_upper_ms) == (20_000, 24_510)
    (estimate,) = (m for m in pause.resume_marks if m.bound == "estimate")
    assert (estimate.basis, estimate.window_from_ms, estimate.window_to_ms) == (
        Basis.DELIVERY_AFTER_FETCHES, 24_500 - 1_200, 24_500,
    )  # fmt: skip
    pause = joined_by_more(24_500, interval_ms=5_000)  # nobody that commits so seldom is taken for sarama's
    assert pause.resumed_at_upper_ms == 24_510
    assert {m.basis for m in pause.resume_marks if m.bound == "estimate"} == {Basis.DELIVERY}


def test_one_that_never_commits_the_rest_may_begin_with_it_late() -> None:
    pause = joined_by_more(None)
    assert pause.resumed_at_upper_ms is None
    (estimate,) = (m for m in pause.resume_marks if m.bound == "estimate")
    assert (estimate.at_ms, estimate.window_from_ms, estimate.window_to_ms) == (20_008, 20_008, 25_008)


def test_sarama_lets_go_of_what_was_taken_away_when_its_fetch_is_back() -> None:
    """Its commit may come an interval later, or be of before."""
    sub = {owned: encoders.consumer_subscription((TOPIC,), owned={TOPIC: owned}, version=2, user_data=None)
           for owned in ((0, 1), (0,), ())}  # fmt: skip
    story = a_group().generation(
        1, {"c1": "0 1"}, at_ms=1_000, assignor="cooperative-sticky", subscriptions={"c1": sub[()]}
    )
    for at_ms in range(2_000, 19_001, 1_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    taken = {"c1": sub[0, 1], "c2": sub[()]}
    story.generation(2, {"c1": "0", "c2": ""}, at_ms=20_000, assignor="cooperative-sticky", subscriptions=taken)
    story.commit(1, at_ms=20_900)
    given = {"c1": sub[(0,)], "c2": sub[()]}
    story.generation(3, {"c1": "0", "c2": "1"}, at_ms=23_000, assignor="cooperative-sticky", subscriptions=given)
    (pause,) = [m for r in reconstruct(story.evidence()).rebalances for m in measure(r).movements if m.kind == "moved"]
    (estimate,) = [m for m in pause.stop_marks if m.bound == "estimate"]
    assert (estimate.basis, estimate.at_ms) == (Basis.TAKEN_AWAY_AFTER_FETCHES, 20_010)
    assert (estimate.window_from_ms, estimate.window_to_ms) == (20_000, 20_550)


def kafkajs_rejoins(survivors: int, joined_at_ms: int, gap_ms: int) -> list[tuple[int | None, ...]]:
    """Windows in which kafkajs members let go at c9's join, by partition: all committed last at 10 s, and nothing for
    `gap_ms` once before."""
    names = [f"c{number}" for number in range(survivors)]
    story = a_group().generation(
        1, {name: str(at) for at, name in enumerate(names)}, at_ms=1_000, assignor="RoundRobinAssigner",
        subscriptions=dict.fromkeys(names, KAFKAJS),
    )  # fmt: skip
    for at in range(survivors):
        story.commit(at, at_ms=10_000)
        story.marks[at] = changed(
            story.marks[at], first_at_ms=9_000, commit_count=3, gap_from_at_ms=9_000, gap_to_at_ms=9_000 + gap_ms
        )
    story.preparing(1, f"Adding new member {member_id('c9')} with group instance id null", at_ms=9_500)
    everybody = {name: str(at) for at, name in enumerate([*names, "c9"])}
    story.generation(
        2, everybody, at_ms=joined_at_ms + 5, joined_at_ms=joined_at_ms, assignor="RoundRobinAssigner",
        subscriptions=dict.fromkeys(everybody, KAFKAJS),
    )  # fmt: skip
    story.stabilized(2, at_ms=joined_at_ms)
    found = measure(second(story)).movements
    marks = [m for row in found for m in row.stop_marks if m.basis == Basis.COMMIT_BEFORE_QUIET]
    return [(m.window_from_ms, m.window_to_ms) for m in marks]


@pytest.mark.parametrize(
    ("survivors", "joined_at_ms", "gap_ms", "expected"),
    [
        (1, 10_512, 600, (10_492, 10_512)),  # nobody else had to come: it let go when its fetch was back
        (1, 10_015, 600, (10_000, 10_015)),
        (2, 10_512, 600, (10_000, 10_512)),
        (2, 12_000, 600, (10_000, 10_600)),  # no message came for so long: its fetch was back by then
    ],
)
def test_kafkajs_let_go_at_its_last_commit_or_when_the_fetch_after_it_came_back_empty(
    survivors: int, joined_at_ms: int, gap_ms: int, expected: tuple[int, int]
) -> None:
    assert kafkajs_rejoins(survivors, joined_at_ms, gap_ms) == [expected] * survivors


def test_tasks_of_streams_run_later_than_their_record() -> None:
    story = two(a_group(), 1, 1_000, JAVA_3_7, assignor="stream")
    found = [(m.bound, m.at_ms, m.basis) for m in delivered_marks(story.records[-1], Basis.DELIVERY)]
    assert found == [("lower", 1_000, None), ("estimate", 1_060, Basis.TASK_DELIVERY)]
