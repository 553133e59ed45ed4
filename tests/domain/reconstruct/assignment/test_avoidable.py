"""The least movement under balance, against trying out every balanced assignment."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_audit.domain.kinds import MovementKind, ResourceType
from rebalance_audit.domain.model import Member, Movement, Rebalance
from rebalance_audit.domain.reconstruct.assignment.avoidable import mark_avoidable


def a_rebalance(
    before: dict[str, str], after: dict[str, str], *, assignor: str = "sticky", members: str | None = None
) -> Rebalance:
    """`before` and `after`: resource -> member. Who is only in `before` has left."""
    names = sorted(members or {*after.values()})
    topics = tuple(sorted({r.rpartition("-")[0] for r in (*before, *after)}))
    movements = []
    for resource, owner in sorted(after.items()):
        if resource not in before:
            kind = "assigned"
        elif before[resource] != owner:
            kind = "moved"
        else:
            continue
        movements.append(
            Movement(
                resource_type=ResourceType.PARTITION,
                resource=resource,
                kind=MovementKind(kind),
                from_member_id=before.get(resource),
                to_member_id=owner,
            )
        )
    return Rebalance(
        cluster_id="c",
        rebalance_id="c/g/2",
        group_id="g",
        generation_id=2,
        assignor=assignor,
        members=tuple(
            Member(
                member_id=name,
                subscribed_topics=topics,
                assigned=tuple(sorted(r for r, owner in after.items() if owner == name)),
            )
            for name in names
        ),
        movements=tuple(movements),
    )


def avoidable(rebalance: Rebalance) -> dict[str, bool | None]:
    return {m.resource: m.is_avoidable for m in mark_avoidable(rebalance).movements if m.kind == "moved"}


def test_what_a_new_member_needs_is_not_avoidable() -> None:
    before = {"t-0": "a", "t-1": "a", "t-2": "b", "t-3": "b"}
    assert avoidable(a_rebalance(before, before | {"t-1": "c"}, members="abc")) == {"t-1": False}


def test_a_swap_between_members_that_stayed_is_avoidable() -> None:
    before = {"t-0": "a", "t-1": "b"}
    assert avoidable(a_rebalance(before, {"t-0": "b", "t-1": "a"})) == {"t-0": True, "t-1": True}


def test_partitions_of_a_member_that_left_are_not_avoidable() -> None:
    before = {"t-0": "a", "t-1": "b", "t-2": "gone"}
    assert avoidable(a_rebalance(before, {"t-0": "a", "t-1": "b", "t-2": "a"})) == {"t-2": False}


def test_range_shifts_partitions_between_survivors_when_one_leaves() -> None:
    # range hands out runs of partitions in the order of member ids, so a leave shifts them.
    before = {"t-0": "a", "t-1": "a", "t-2": "b", "t-3": "b", "t-4": "c", "t-5": "c"}
    after = {"t-0": "b", "t-1": "b", "t-2": "b", "t-3": "c", "t-4": "c", "t-5": "c"}
    assert avoidable(a_rebalance(before, after, assignor="range")) == {"t-0": False, "t-1": False, "t-3": True}


def test_range_is_balanced_by_topic() -> None:
    # Both topics have one partition: range gives both to the first member, and by its own balance nothing else is due.
    before = {"t-0": "a", "u-0": "a"}
    after = {"t-0": "a", "u-0": "b"}
    assert avoidable(a_rebalance(before, after, assignor="range", members="ab")) == {"u-0": True}
    assert avoidable(a_rebalance(before, after, assignor="sticky", members="ab")) == {"u-0": False}


@pytest.mark.parametrize("assignor", ["com.example.MyAssignor", "stream", None])
def test_an_assignor_of_unknown_balance_has_no_verdict(assignor: str | None) -> None:
    before = {"t-0": "a", "t-1": "b"}
    assert avoidable(a_rebalance(before, {"t-0": "b", "t-1": "a"}, assignor=assignor or "")) == dict.fromkeys(before)


def test_an_unbalanced_result_has_no_verdict() -> None:
    before = {"t-0": "a", "t-1": "b", "t-2": "b"}
    assert avoidable(a_rebalance(before, {"t-0": "b", "t-1": "b", "t-2": "b"}, members="ab")) == {"t-0": None}


owners = st.sampled_from("abcd")


@given(before=st.lists(st.sampled_from("abcdx"), min_size=1, max_size=6), count=st.integers(1, 4), data=st.data())
def test_it_counts_what_an_exhaustive_search_spares(before: list[str], count: int, data: st.DataObject) -> None:
    members = "abcd"[:count]
    names = [f"t-{i}" for i in range(len(before))]
    balanced = [
        choice
        for choice in product(members, repeat=len(names))
        if max(map(choice.count, members)) - min(map(choice.count, members)) <= 1
    ]
    stayed = [owner if owner in members else None for owner in before]

    def moves(choice: tuple[str, ...]) -> int:
        return sum(old is not None and old != new for old, new in zip(stayed, choice, strict=True))

    chosen = data.draw(st.sampled_from(balanced))
    rebalance = a_rebalance(
        dict(zip(names, before, strict=True)), dict(zip(names, chosen, strict=True)), members=members
    )
    verdicts = avoidable(rebalance)
    assert sum(v is True for v in verdicts.values()) == moves(chosen) - min(map(moves, balanced))
    from_who_left = [n for n, owner in zip(names, before, strict=True) if owner not in members]
    assert not any(verdicts.get(name) for name in from_who_left)
