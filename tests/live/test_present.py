"""What goes on right now: cases worked out by hand, and rebalances of captures are shown as long as they run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.explain.present import Running, WaitsFor, Whereabouts, details, going_on, headline
from rebalance_audit.domain.kinds import EvidenceTier, GroupType, MemberChange, Mode, Outcome
from rebalance_audit.domain.model import Member, Rebalance, Trigger
from rebalance_audit.live.memory import ClusterMemory
from rebalance_audit.live.present import keep, kept, present
from rebalance_audit.warehouse.just_in import NOTHING
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.captures import GOLDEN
from tests.live.arrivals import arrivals
from tests.live.no_past import NoPast

T = 1_700_000_000_000


def _rebalance(**given: object) -> Rebalance:
    return Rebalance(cluster_id="c", group_id="g", protocol_type="consumer", **given)  # type: ignore[arg-type]


def _member(name: str, *held: str, **given: object) -> Member:
    return Member(member_id=f"{name}-1", client_id=name, assigned=held, **given)  # type: ignore[arg-type]


DELIVERED = _rebalance(
    rebalance_id="c/g/4", generation_id=4, mode=Mode.EAGER, assigned_at_ms=T - 60_000,
    members=(_member("a", "t-0", "t-1"), _member("b", "t-2"), _member("old", change=MemberChange.LEFT)),
)  # fmt: skip
EXPIRED = Trigger(trigger=Cause.MEMBER_SESSION_EXPIRED, tier=EvidenceTier.RECORDED, members=("b-1",))
OPEN = _rebalance(
    rebalance_id="c/g/5", generation_id=5, outcome=Outcome.OPEN, started_at_ms=T, trigger=Cause.MEMBER_SESSION_EXPIRED,
    triggers=(EXPIRED,),
)  # fmt: skip


def test_an_eager_group_stands_still_as_a_whole() -> None:
    """a's last commit of t-1 is 4 s into the rebalance: it had not joined by then. b was put out: t-2 stands still
    since its last commit, 11 s before the rebalance began."""
    found = going_on([DELIVERED, OPEN], {"t-0": T - 3_000, "t-1": T + 4_000, "t-2": T - 11_000}, T + 9_300)
    assert found is not None
    assert (found.waits_for, found.since_ms, found.lasted_ms) == (WaitsFor.JOIN, T, 9_300)
    assert (found.standing_count, found.standing_ms) == (3, 20_300)
    assert [(m.name, m.whereabouts, m.resource_count, m.until_ms) for m in found.members] == [
        ("a", Whereabouts.WORKED, 2, T + 4_000),
        ("b", Whereabouts.GONE, 1, None),
    ]
    assert headline(found) == "g waits for its members to join, for 9.3 s: a member's session expired"
    assert details(found) == [
        "3 partitions stand still for up to 20.3 s",
        "gone: b",
        "not joined 4 s after it began, as their commits show: a",
    ]


def test_a_cooperative_group_goes_on_but_for_what_lost_its_owner() -> None:
    """b's partition stands still since its last commit, 11 s before the rebalance began."""
    found = going_on(
        [replace(DELIVERED, mode=Mode.COOPERATIVE), OPEN], {"t-1": T + 4_000, "t-2": T - 11_000}, T + 1_000
    )
    assert found is not None
    assert (found.standing_count, found.standing_ms) == (1, 12_000)
    assert [m.whereabouts for m in found.members] == [Whereabouts.NOT_KNOWN, Whereabouts.GONE]


def test_attempts_that_failed_belong_to_the_wait() -> None:
    failed = replace(OPEN, rebalance_id="c/g/5x", outcome=Outcome.SUPERSEDED, started_at_ms=T - 5_000)
    found = going_on([DELIVERED, failed, replace(OPEN, joined_at_ms=T + 10)], {}, T + 1_000)
    assert found is not None
    assert (found.waits_for, found.since_ms, found.lasted_ms) == (WaitsFor.SYNC, T - 5_000, 6_000)


def test_without_an_assignment_before_nobody_says_what_stands_still() -> None:
    found = going_on([OPEN], {}, T - 50)
    assert found is not None
    assert (found.standing_count, found.members, found.lasted_ms) == (None, (), 0)


def test_members_behind_the_epoch() -> None:
    epoch = _rebalance(
        rebalance_id="c/g/e7", group_epoch=7, group_type=GroupType.CONSUMER, mode=Mode.SERVER, outcome=Outcome.OPEN,
        started_at_ms=T, trigger=Cause.MEMBER_JOINED,
        members=(_member("a", member_epoch=7), _member("b", member_epoch=6, owned_before=("t-0",))),
    )  # fmt: skip
    found = going_on([epoch], {}, T + 2_000)
    assert found is not None
    assert (found.waits_for, found.number, found.standing_count) == (WaitsFor.RECONCILE, 7, None)
    assert [(m.name, m.whereabouts, m.resource_count) for m in found.members] == [("b", Whereabouts.BEHIND, 1)]


@pytest.mark.parametrize(("now_ms", "is_waiting"), [(T + 9_999, True), (T + 10_001, False)])
def test_tasks_wait_until_the_delay_is_over(now_ms: int, is_waiting: bool) -> None:
    round_ = _rebalance(
        rebalance_id="c/g/5", generation_id=5, mode=Mode.INCREMENTAL, assigned_at_ms=T, connect_delay_ms=10_000,
        unassigned_count=3, trigger=Cause.MEMBER_SESSION_EXPIRED,
    )  # fmt: skip
    found = going_on([round_], {}, now_ms)
    assert (found is not None) == is_waiting
    if found is not None:
        assert (found.waits_for, found.until_ms, found.standing_count) == (WaitsFor.DELAY, T + 10_000, 3)


def test_a_group_at_rest_waits_for_nothing() -> None:
    assert going_on([], {}, T) is None
    assert going_on([DELIVERED], {}, T) is None


@pytest.mark.parametrize("name", ["eager_join_leave_kill", "cooperative_scale_up", "kip848_slow_revocation"])
def test_each_rebalance_of_a_capture_is_shown_while_it_runs(name: str) -> None:
    memory: ClusterMemory | None = None
    shown: dict[str, Running] = {}
    for records, lines in arrivals(GOLDEN / "4.3.0" / name):
        memory = memory or ClusterMemory((records or lines)[0].cluster_id, NoPast())
        for group_id in memory.take(records, lines):
            memory.fold(group_id)
        for running in memory.going_on():
            shown[running.rebalance_id] = running
            assert headline(running).startswith(running.group_id)
    assert memory is not None
    assert memory.going_on() == []
    for rebalance in (r for g in memory.groups.values() for r in g.rebalances):
        lasted_ms = (rebalance.ended_at_ms or 0) - (rebalance.started_at_ms or 0)
        if rebalance.started_at_ms is not None and lasted_ms > 1_000:
            assert rebalance.rebalance_id in shown, (rebalance.rebalance_id, lasted_ms)


def test_a_note_is_read_as_it_was_kept(tmp_path: Path) -> None:
    opened = Warehouse.open(str(tmp_path / "w"), create=True)
    running = going_on([DELIVERED, OPEN], {}, T + 1_000)
    assert running is not None
    now = present("c\n<b>", [running], NOTHING, written_at_ms=T)
    keep(opened, now)
    assert kept(opened, "c\n<b>") == now
    assert kept(opened, "another") is None
    opened.remember("present-" + _name_of(opened), {"cluster_id": "c\n<b>", "running": 3})
    assert kept(opened, "c\n<b>") is None


def _name_of(opened: Warehouse) -> str:
    (note,) = Path(opened.location, "notes").glob("present-*.json")
    return note.stem.removeprefix("present-")
