"""A row names the libraries that were known by then; who judges a whole history knows what came out later."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.libraries import with_libraries
from rebalance_audit.domain.model import LogKind, Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from tests import encoders
from tests.domain.detect.group_story import T0_MS, GroupStory
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id

JAVA_OR_FRANZ_GO = encoders.consumer_subscription((TOPIC,), version=3, user_data=None)
OF_PYTHON = encoders.consumer_subscription((TOPIC,), version=0, user_data=b"")
OF_JAVA, OF_FRANZ_GO = "the consumer unsubscribed from all topics", "client leaving group per normal operation"


def c2_comes_and_goes(*reasons: str) -> Story:
    """c1 stays; c2 joins in generations 1, 3 ..., and leaves after each with the next of these reasons."""
    story, both = a_group(), {"c1": "0", "c2": "1"}
    for turn, reason in enumerate(reasons):
        number, at_ms = 2 * turn + 1, 100_000 * turn
        story.generation(number, both, at_ms=at_ms + 1_000, subscriptions=dict.fromkeys(both, JAVA_OR_FRANZ_GO))
        story.says(LogKind.MEMBER_LEFT, at_ms=at_ms + 40_000, member_id=member_id("c2"), client_reason=reason)
        story.preparing(number, f"explicit `LeaveGroup` for ({member_id('c2')})", at_ms=at_ms + 40_001)
        story.stabilized(number + 1, at_ms=at_ms + 40_990).received(number + 1, at_ms=at_ms + 40_999)
        alone = {"c1": JAVA_OR_FRANZ_GO}
        story.generation(number + 1, {"c1": "0 1"}, at_ms=at_ms + 41_000, subscriptions=alone)
    return story


def libraries(rows: list[Rebalance], client_id: str) -> list[tuple[str, ...] | None]:
    return [m.client_libraries for row in rows for m in row.members if m.client_id == client_id]


EITHER, JAVA, FRANZ_GO = ("franz-go", "java"), ("java",), ("franz-go",)


def test_a_row_names_what_is_known_by_its_own_rebalance() -> None:
    rows = list(reconstruct(c2_comes_and_goes(OF_JAVA, OF_JAVA).evidence()).rebalances)
    assert libraries(rows, "c2") == [EITHER, JAVA, JAVA, JAVA]
    assert libraries(rows, "c1") == [EITHER] * 4


def test_two_libraries_under_one_client_id_are_both_not_believed_from_there_on() -> None:
    rows = list(reconstruct(c2_comes_and_goes(OF_JAVA, OF_FRANZ_GO, OF_JAVA).evidence()).rebalances)
    assert libraries(rows, "c2") == [EITHER, JAVA, JAVA, EITHER, EITHER, EITHER]


@pytest.mark.parametrize("until", range(1, 4))
def test_what_comes_later_changes_no_final_row(until: int) -> None:
    whole = reconstruct(c2_comes_and_goes(OF_JAVA, OF_FRANZ_GO).evidence()).rebalances
    story = c2_comes_and_goes(OF_JAVA, OF_FRANZ_GO)
    last_ms = max(r.at_ms for r in story.evidence().records[:until])
    story.lines[:] = [line for line in story.lines if (line.at_ms or 0) <= last_ms]
    story.records[:] = story.evidence().records[:until]
    before = reconstruct(story.evidence()).rebalances
    final = [row for row in before if row.is_final]
    assert len(final) == until - 1
    assert final == list(whole[: len(final)])


def test_who_judges_a_history_knows_the_library_from_the_beginning() -> None:
    rows = list(with_libraries(reconstruct(c2_comes_and_goes(OF_JAVA).evidence()).rebalances))
    assert libraries(rows, "c2") == [JAVA, JAVA]
    assert libraries(rows, "c1") == [EITHER, EITHER]


def test_a_library_that_comes_out_later_changes_no_finding_that_is_over() -> None:
    """c1 and c2 were of franz-go or Java when partitions moved; a day later both leave as Java's consumers do."""
    story = GroupStory("orders").member("c1", client_libraries=EITHER).member("c2", client_libraries=EITHER)
    story.joins("c1", "c2", at_s=0).meets_again(at_s=60, because="leader_rejoined", avoidable_moved_count=2)
    before = detect_group(story.rebalances, seen_until_ms=T0_MS + 90_000_000)
    story.member("c1", client_libraries=JAVA).member("c2", client_libraries=JAVA)
    story.meets_again(at_s=86_400, because="leader_rejoined", avoidable_moved_count=1)
    first, second = (f for f in detect_group(story.rebalances) if f.rule_id == "RB004")
    assert [f for f in before if f.rule_id == "RB004"] == [first]
    assert "(cooperative-sticky)" in (first.advice or "")
    assert "(cooperative-sticky, or group.protocol=consumer)" in (second.advice or "")


def test_what_comes_out_while_partitions_move_is_known_of_all_that_move() -> None:
    story = GroupStory("orders").member("c1", client_libraries=EITHER).joins("c1", at_s=0)
    story.meets_again(at_s=60, because="leader_rejoined", avoidable_moved_count=2)
    story.member("c1", client_libraries=JAVA).meets_again(at_s=90, because="leader_rejoined", avoidable_moved_count=1)
    (found,) = (f for f in detect_group(story.rebalances) if f.rule_id == "RB004")
    assert "(cooperative-sticky, or group.protocol=consumer)" in (found.advice or "")


def test_two_libraries_that_rows_name_narrow_nothing() -> None:
    rows = reconstruct(c2_comes_and_goes(OF_JAVA).evidence()).rebalances
    others = reconstruct(c2_comes_and_goes(OF_FRANZ_GO).evidence()).rebalances
    assert libraries(list(with_libraries([*rows, *others])), "c2") == [EITHER, JAVA, EITHER, FRANZ_GO]


def test_bytes_that_allow_no_such_library_are_believed() -> None:
    story, both = c2_comes_and_goes(OF_JAVA), {"c1": "0", "c2": "1"}
    story.generation(3, both, at_ms=90_000, subscriptions=dict.fromkeys(both, OF_PYTHON))
    rows = list(with_libraries(reconstruct(story.evidence()).rebalances))
    assert libraries(rows, "c2") == [JAVA, JAVA, ("aiokafka", "kafka-python", "kafkajs", "librdkafka")]
