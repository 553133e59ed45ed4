from __future__ import annotations

from random import Random

import pytest

from rebalance_audit.domain.replay.deploys import deploys_of, redeployed
from rebalance_audit.domain.replay.life import End
from rebalance_audit.domain.replay.replay import replay
from rebalance_audit.domain.replay.settings import GroupSettings
from tests.domain.replay.stories import AT_ONCE, a_life, a_script, replayed

# b and c are restarted one after another, 5 s and 4 s away, 6 s between them; d leaves for good.
DEPLOY = a_script(
    a_life("a", 0), a_life("b", 0, 20_000, End.CLOSED), a_life("b", 25_000), a_life("c", 0, 31_000, End.CLOSED),
    a_life("c", 35_000), a_life("d", 0, 50_000, End.CLOSED), until_ms=100_000,
)  # fmt: skip


def times(settings: GroupSettings) -> list[tuple[str, int, int]]:
    (deploy,) = deploys_of(redeployed(DEPLOY, settings))
    return [(r.closed.slot, r.closed_ms, r.started_ms) for r in deploy]


def test_a_deploy_is_found_and_who_leaves_for_good_is_no_part_of_it() -> None:
    assert times(GroupSettings()) == [("b", 20_000, 25_000), ("c", 31_000, 35_000)]


def test_all_at_once_closes_all_with_the_first() -> None:
    assert times(GroupSettings(deploy_batch=0)) == [("b", 20_000, 25_000), ("c", 20_000, 24_000)]


def test_a_gap_and_a_time_away_may_be_given() -> None:
    settings = GroupSettings(deploy_gap_ms=1_000, deploy_restart_ms=2_000)
    assert times(settings) == [("b", 20_000, 22_000), ("c", 23_000, 25_000)]


def test_what_is_left_open_stays_as_it_was() -> None:
    assert redeployed(DEPLOY, GroupSettings(session_timeout_ms=45_000)) is DEPLOY
    assert times(GroupSettings(deploy_batch=1)) == times(GroupSettings())


def test_a_group_that_is_away_altogether_for_a_deploy_stood_still() -> None:
    both = a_script(
        a_life("a", 0, 20_000, End.CLOSED), a_life("a", 25_000), a_life("b", 0, 31_000, End.CLOSED), a_life("b", 35_000)
    )
    at_once = redeployed(both, GroupSettings(deploy_batch=0))
    run = replay(at_once, GroupSettings(), AT_ONCE, Random(1), counts_outages=True)
    # Nobody runs from 20 s to 24 s, when b is back: four partitions.
    assert run.cost.owner_idle_seconds == pytest.approx(4 * 4.0)
    assert replayed(at_once).cost.owner_idle_seconds == 0


def test_a_static_group_stands_still_for_as_long_as_its_members_are_away() -> None:
    # Four partitions over a, b, c and d, one each: 5 s and 4 s away, then d's until its session is over or the end.
    run = replayed(redeployed(DEPLOY, GroupSettings(deploy_restart_ms=1_000)), is_static=True)
    slow = replayed(DEPLOY, is_static=True)
    assert slow.cost.owner_idle_seconds - run.cost.owner_idle_seconds == pytest.approx(4.0 + 3.0)
