from __future__ import annotations

from rebalance_audit.domain.replay.assignors import ServerMember, assign_server_ranges, assign_uniformly

TOPIC, OTHER = 1, 2


def test_a_newcomer_gets_what_the_old_members_have_too_much() -> None:
    a = ServerMember(member_id="A", topic_ids=(TOPIC,), target={TOPIC: (0, 1, 2, 3)})
    assert assign_uniformly({TOPIC: 4}, [a, ServerMember(member_id="B", topic_ids=(TOPIC,))]) == {
        "A": {TOPIC: [0, 1]},
        "B": {TOPIC: [2, 3]},
    }


def test_nobody_gives_anything_up_when_a_member_leaves() -> None:
    a = ServerMember(member_id="A", topic_ids=(TOPIC,), target={TOPIC: (0, 1)})
    b = ServerMember(member_id="B", topic_ids=(TOPIC,), target={TOPIC: (4, 5)})
    assigned = assign_uniformly({TOPIC: 6}, [a, b])
    assert assigned == {"A": {TOPIC: [0, 1, 2]}, "B": {TOPIC: [4, 5, 3]}}


def test_members_that_want_different_topics_get_even_loads_where_they_can() -> None:
    a = ServerMember(member_id="A", topic_ids=(TOPIC,))
    b = ServerMember(member_id="B", topic_ids=(TOPIC, OTHER))
    assigned = assign_uniformly({TOPIC: 3, OTHER: 3}, [a, b])
    assert assigned == {"A": {TOPIC: [0, 1, 2]}, "B": {OTHER: [0, 1, 2]}}


def test_server_ranges_line_up_over_topics() -> None:
    members = [ServerMember(member_id=m, topic_ids=(TOPIC, OTHER)) for m in ("B", "A")]
    assert assign_server_ranges({TOPIC: 3, OTHER: 2}, members) == {
        "A": {TOPIC: [0, 1], OTHER: [0]},
        "B": {TOPIC: [2], OTHER: [1]},
    }


def test_a_group_without_members_or_topics_gets_nothing() -> None:
    assert assign_uniformly({TOPIC: 3}, []) == {}
    assert assign_uniformly({TOPIC: 3}, [ServerMember(member_id="A", topic_ids=())]) == {"A": {}}
