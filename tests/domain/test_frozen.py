from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.cost_sums import CostSums
from rebalance_audit.domain.detect import LimitsOf
from rebalance_audit.domain.frozen import changed, maker, quick
from rebalance_audit.domain.incidents.storm_before import Link, StormBefore
from rebalance_audit.domain.kinds import EvidenceTier
from rebalance_audit.domain.model import Trigger
from rebalance_audit.domain.reassign.model import Reassignment, ReassignmentStep, ReplicaProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    kind: str
    number: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    kind: str
    number: int | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


@quick
@dataclass(frozen=True, slots=True)
class Placed:
    one: int
    other: int = 2


@pytest.mark.parametrize("given", [{"kind": "a"}, {"kind": "a", "number": 0}, {"kind": "a", "values": {"b": None}}])
def test_it_holds_and_shows_what_a_dataclass_does(given: dict[str, Any]) -> None:
    plain, made = Plain(**given), Quick(**given)
    assert {f.name: getattr(made, f.name) for f in fields(made)} == {
        f.name: getattr(plain, f.name) for f in fields(plain)
    }
    assert repr(made) == repr(plain).replace("Plain", "Quick")
    assert type(made) is Quick


def test_it_is_frozen_and_has_no_other_attributes() -> None:
    for made in (Quick(kind="a"), changed(Quick(kind="a"), number=1)):
        with pytest.raises(FrozenInstanceError):
            made.kind = "b"  # type: ignore[misc]
    assert not hasattr(Placed(1), "__dict__")


def test_default_factories_are_called_for_each() -> None:
    assert Quick(kind="a").values is not Quick(kind="a").values


def test_a_maker_makes_what_the_class_does() -> None:
    make_quick, make_placed = maker(Quick), maker(Placed)
    made = make_quick(kind="a", number=0)
    assert made == Quick(kind="a", number=0)
    assert type(made) is Quick
    assert make_quick(kind="a").values is not make_quick(kind="a").values
    assert make_placed(1) == Placed(1) == make_placed(one=1, other=2)
    assert hash(make_placed(1)) == hash(Placed(1))
    with pytest.raises(FrozenInstanceError):
        made.kind = "b"  # type: ignore[misc]
    for wrong in WRONG:
        with pytest.raises(TypeError):
            make_quick(**wrong)
    with pytest.raises(TypeError):
        make_quick("a")  # type: ignore[call-arg]


WRONG: tuple[dict[str, Any], ...] = ({}, {"kind": "a", "unknown": 1})


def test_fields_are_given_as_the_dataclass_wants_them() -> None:
    assert Placed(1) == Placed(one=1, other=2)
    assert hash(Placed(1)) == hash(Placed(1, 2)) != hash(Placed(1, 3))
    for wrong in WRONG:
        with pytest.raises(TypeError):
            Quick(**wrong)
    with pytest.raises(TypeError):
        Quick("a")  # type: ignore[call-arg]


def test_a_change_leaves_the_first_as_it_was() -> None:
    first = Quick(kind="a", values={"b": 1})
    second = changed(first, kind="c", number=3)
    assert second == replace(first, kind="c", number=3)
    assert first == Quick(kind="a", values={"b": 1})
    with pytest.raises(AttributeError):
        changed(first, unknown=1)


def test_it_survives_pickling() -> None:
    first = Quick(kind="a", number=1)
    assert pickle.loads(pickle.dumps(first)) == first


def test_a_class_without_slots_is_copied_too() -> None:
    """As compiled classes are."""

    @dataclass(frozen=True)
    class Compiled:
        kind: str
        number: int

    first = Compiled("a", 0)
    assert changed(first, number=1) == Compiled("a", 1)
    assert first.number == 0


STORM = StormBefore(
    finding_id="f", first_era=0, until_ms=9, first_at_ms=1, first_sign_ms=1, first_step=(1, "a/b/1"),
    first_failure=None, round_count=3, rounds_from_ms=1, triggers={Cause.MEMBER_JOINED: 3},
    causes=[(Trigger(trigger=Cause.MEMBER_JOINED, tier=EvidenceTier.RECORDED), 3)],
    moved_count=0, counted_count=3, longest_pause_ms=None, cost=CostSums(), protocol_types=["consumer"],
    links=[Link(at_ms=1, what="w", evidence=("record:t-0@1",))], link_count=1, finding_ids=["f"], failed=[], turned=[],
    hosts=[], rebalance_ids=["a/b/1"],
)  # fmt: skip
MOVED = Reassignment(
    cluster_id="a", reassignment_id="r", topic="t", partition=0, outcome="completed",
    progress=(ReplicaProgress(broker_id=3, in_isr_at_ms=5),),
    steps=(ReassignmentStep(step=0, at_ms=None, phase="before", replicas=(1,), leader=1, isr=(1,)),),
)  # fmt: skip


@pytest.mark.parametrize("given", [LimitsOf(({"cluster": "a*", "storm_short_count": 9},)), STORM, MOVED])
def test_what_tasks_are_given_goes_through_pickle(given: object) -> None:
    """Compiled, too (`make test-compiled`)."""
    read = pickle.loads(pickle.dumps(given))
    assert read == given
    assert type(read) is type(given)
