"""Connect's workers worked by hand: two of them, a connector of four tasks, a heartbeat of 3 s."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rebalance_audit.domain.replay.life import End, Grown
from rebalance_audit.domain.replay.outcome import ReplayRun
from rebalance_audit.domain.replay.standstill import Why
from tests.domain.replay.stories import AT_ONCE, a_life, a_script, replayed, triggers

# The connector comes at 4 s; w2 runs two of the tasks and is killed at 11 s, a second after its last heartbeat.
LOST = replace(
    a_script(a_life("w1", 0), a_life("w2", 3_000, 11_000, End.CRASHED)),
    protocol_type="connect", partitions={}, grown=(Grown(at_ms=4_000, partitions={"sink": 4}),),
)  # fmt: skip
JOINING = replace(
    a_script(a_life("w1", 0), a_life("w2", 11_000)),
    protocol_type="connect", partitions={}, grown=(Grown(at_ms=4_000, partitions={"sink": 4}),), until_ms=30_000,
)  # fmt: skip


def workers(script: Any, **settings: Any) -> ReplayRun:
    in_force: dict[str, Any] = {"assignor": "sessioned", "connect_delay_ms": 20_000} | settings
    return replayed(script, **in_force)


def stood(run: ReplayRun) -> list[tuple[Any, float, float, Why]]:
    """((connector, task), from, to, whose fault), of each time a task stood still."""
    return list(run.stood)


def test_the_tasks_of_a_lost_worker_wait_for_the_scheduled_delay() -> None:
    run = workers(LOST)
    assert triggers(run)[-2:] == ["member_session_expired", "connect_delay_expired"]
    # Put out at 20 s; the other one hears of it at 22 s, and the delay ends at 42 s.
    assert run.cost.owner_idle_seconds == pytest.approx(2 * 9.0)
    assert run.cost.between_owners_seconds == pytest.approx(2 * 22.0)


@pytest.mark.parametrize("protocol", ["sessioned", "eager"])
def test_what_is_deleted_waits_for_nobody_any_more(protocol: str) -> None:
    """The connector is deleted at 15 s, 4 s after its worker was killed, and made again at 55 s by the one that is
    left."""
    grown = (*LOST.grown, Grown(at_ms=15_000, partitions={}), Grown(at_ms=55_000, partitions={"sink": 4}))
    run = workers(replace(LOST, grown=grown), assignor=protocol, connect_delay_ms=300_000)
    assert [until_ms for _, from_ms, until_ms, _ in stood(run) if from_ms >= 11_000] == [15_000] * 2


def test_a_connector_with_fewer_tasks_waits_for_those_alone() -> None:
    """Two of four tasks are left at 15 s, one of them of w2. The workers join for that, until w2 is put out at 20 s."""
    run = workers(replace(LOST, grown=(*LOST.grown, Grown(at_ms=15_000, partitions={"sink": 2}))), connect_delay_ms=0)
    waited = [(task, until_ms - from_ms) for (_, task), from_ms, until_ms, _ in stood(run) if from_ms == 11_000]
    assert waited == [(3, 4_000), (1, 9_000)]
    assert run.cost.standstill_seconds == pytest.approx(4.0 + 9.0)


def test_without_a_delay_they_go_on_at_the_next_heartbeat() -> None:
    assert workers(LOST, connect_delay_ms=0).cost.between_owners_seconds == pytest.approx(2 * 2.0)


def test_an_eager_cluster_has_no_delay_either() -> None:
    """The connector comes at 7 s, with both workers' heartbeat: w2's last one is that of 10 s, as before."""
    settled = replace(LOST, grown=(Grown(at_ms=7_000, partitions={"sink": 4}),))
    assert workers(settled, assignor="eager").cost.between_owners_seconds == pytest.approx(2 * 2.0)


def test_a_new_worker_gets_its_share_a_heartbeat_after_it_was_taken() -> None:
    run = workers(JOINING)
    assert triggers(run)[-2:] == ["connect_worker_joined", "connect_revocation_follow_up"]
    # w1 hears of the join at 13 s and gives two tasks up; w2, which joined then, hears of the follow-up at 16 s.
    assert run.cost.between_owners_seconds == pytest.approx(2 * 3.0)


def test_a_configuration_that_changes_while_workers_join_makes_them_join_once_more() -> None:
    """w2 joins at 11 s and waits for w1's heartbeat at 13 s; tasks are added at 12 s, which both read by themselves."""
    more = replace(JOINING, grown=(*JOINING.grown, Grown(at_ms=12_000, partitions={"sink": 6})))
    assert triggers(workers(more, assignor="eager")) == [
        "connect_worker_joined", "connect_config_changed", "connect_worker_joined", "connect_config_changed",
    ]  # fmt: skip


def test_a_change_that_a_worker_read_after_it_asked_to_join_makes_the_others_wait_for_a_heartbeat() -> None:
    """w2 asks to join at 3 s, and has not read of the connector that comes at 4 s. For that, w1 joins at once, and w2
    again as soon as it has its tasks; w1 knows of no further change, and hears of that at its heartbeat at 7 s."""
    run = workers(LOST, assignor="eager")
    assert triggers(run)[:3] == ["connect_worker_joined", "connect_worker_joined", "connect_config_changed"]
    waited = [(at_ms, until_ms) for (_, task), at_ms, until_ms, _ in stood(run) if task in (0, 2) and at_ms < 10_000]
    assert waited == [(4_000, 7_000)] * 2


def test_an_eager_worker_that_did_not_join_for_a_change_by_itself_hears_of_it_at_its_heartbeat() -> None:
    """The history of an eager cluster shows who. The change comes at 8 s; both joined last at 4 s."""
    grown = (Grown(at_ms=4_000, partitions={"sink": 4}),
             Grown(at_ms=8_000, partitions={"sink": 4}, heard_by_heartbeat=frozenset({"w2"})))  # fmt: skip
    made = replace(LOST, assignor="default", lives=(a_life("w1", 0), a_life("w2", 3_000)), grown=grown, until_ms=20_000)
    run = workers(made, assignor="eager")
    waited = [(from_ms, until_ms) for _, from_ms, until_ms, _ in stood(run) if 8_000 <= from_ms < until_ms]
    assert waited == [(8_000, 10_000)] * 3


def test_a_worker_that_joins_with_what_it_said_before_starts_again_alone() -> None:
    """As above, but tasks work on for 300 ms until they stop, and the connector changes again at 4.1 s. w1 stops for
    that. w2 is about to join, reads it before it does, and looks at it when it has its tasks: it stops once more, and
    the coordinator gives it what it had. No rebalance shows that."""
    slow = replace(AT_ONCE, eager=replace(AT_ONCE.eager, commit_ms=(300,)))
    script = replace(LOST, grown=(*LOST.grown, Grown(at_ms=4_100, partitions={"sink": 5})))
    run = replayed(script, slow, assignor="eager")
    assert [r.at_ms for r in run.rebalances if r.at_ms < 9_000] == [0, 3_000, 4_300]
    of_second = sorted((at_ms, until_ms) for (_, task), at_ms, until_ms, _ in stood(run) if task == 0 and at_ms < 9_000)
    assert of_second == [(4_300, 4_400), (4_700, 4_700)]


def test_a_connector_that_is_started_again_writes_its_tasks_once_more() -> None:
    """`one` starts on w2 at 20 s. `two` is made 200 ms later, for which eager workers start `one` again. Its tasks are
    written 500 ms after its first start, and w2 asks for the second time when that is done. `first` is w1's, the
    leader's, who needs no request."""
    grown = (
        Grown(at_ms=10_000, partitions={"first": 0}),
        Grown(at_ms=20_000, partitions={"first": 0, "one": 0}),
        Grown(at_ms=20_200, partitions={"first": 0, "one": 0, "two": 0}),
        Grown(at_ms=20_500, partitions={"first": 0, "one": 2, "two": 0}),
    )
    made = replace(LOST, lives=(a_life("w1", 0), a_life("w2", 3_000)), grown=grown, until_ms=25_000)
    eager = [r.at_ms for r in workers(made, assignor="eager").rebalances[3:]]
    assert eager[:3] == [20_000, 20_200, 20_500]
    (asked_again,) = eager[3:]
    assert 20_553 <= asked_again <= 20_576
    assert [r.at_ms for r in workers(made).rebalances[3:]] == [20_000, 20_200, 20_500]
    # The history of an eager cluster has its second writes.
    recorded = workers(replace(made, assignor="default"), assignor="eager")
    assert [r.at_ms for r in recorded.rebalances[3:]] == [20_000, 20_200, 20_500]


@pytest.mark.parametrize(("made_ms", "pace"), [(14_000, {"commit_ms": (300,)}), (14_200, {"poll_ms": 500})])
def test_only_a_worker_that_runs_tasks_needs_time_to_stop(made_ms: int, pace: dict[str, Any]) -> None:
    """`two` is made when the connector `one` and its two tasks run: the tasks work on for 300 ms, to commit, or until
    the poll is over that began at 14 s; the connector waits for them. At 12 s there is the connector alone."""
    slow = replace(AT_ONCE, eager=replace(AT_ONCE.eager, **pace))
    grown = (Grown(at_ms=10_000, partitions={"one": 0}), Grown(at_ms=12_000, partitions={"one": 2}),
             Grown(at_ms=made_ms, partitions={"one": 2, "two": 0}))  # fmt: skip
    made = replace(LOST, lives=LOST.lives[:1], grown=grown, until_ms=20_000)
    run = replayed(made, slow, assignor="eager")
    assert run.cost.between_owners_seconds == pytest.approx(0.3)
