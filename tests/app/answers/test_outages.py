import pytest

from app.answers.outages import outages
from app.answers.rows import Span
from rebalance_audit.domain.kinds import ResourceType
from rebalance_audit.domain.model import ConnectTask


def task(state: str, from_ms: int, to_ms: int | None, expected: bool = False, number: int | None = 0) -> ConnectTask:
    return ConnectTask(
        cluster_id="c",
        group_id="g",
        resource_type=ResourceType.TASK if number is not None else ResourceType.CONNECTOR,
        connector="sink",
        task=number,
        state=state,
        from_ms=from_ms,
        to_ms=to_ms,
        expected=expected,
    )


HUNDRED = Span(from_ms=0, to_ms=100_000)


def test_a_lost_worker_and_the_delay_after_it_are_one_outage() -> None:
    (found,) = outages(
        [
            task("RUNNING", 0, 10_000),
            task("LOST", 10_000, 20_000),
            task("WAITING", 20_000, 41_500),
            task("RUNNING", 41_500, None),
        ],
        HUNDRED,
    )
    assert (found.from_ms, found.to_ms, found.is_over) == (10_000, 41_500, True)
    assert found.parts == (("LOST", 10_000, False), ("WAITING", 21_500, True))
    assert (found.waited_ms(True), found.waited_ms(False)) == (21_500, 10_000)


def test_outages_far_apart_are_two() -> None:
    found = outages([task("LOST", 10_000, 20_000), task("FAILED", 60_000, None)], HUNDRED)
    assert [(o.length_ms, o.is_over) for o in found] == [(40_000, False), (10_000, True)]


def test_an_outage_is_cut_to_the_span() -> None:
    (found,) = outages([task("FAILED", -50_000, 30_000)], HUNDRED)
    assert (found.from_ms, found.to_ms) == (0, 30_000)


def test_overlapping_states_are_not_counted_twice() -> None:
    (found,) = outages([task("LOST", 0, 30_000), task("UNASSIGNED", 20_000, 40_000)], HUNDRED)
    assert found.length_ms == 40_000
    assert sum(length for _, length, _ in found.parts) == 40_000


@pytest.mark.parametrize(
    "quiet",
    [task("RUNNING", 0, None), task("PAUSED", 0, None), task("STOPPED", 0, None)],
    ids=["running", "paused", "stopped"],
)
def test_running_paused_and_stopped_are_no_outage(quiet: ConnectTask) -> None:
    assert outages([quiet], HUNDRED) == []


def test_a_connector_that_does_not_run_counts_as_its_tasks_do() -> None:
    (found,) = outages([task("FAILED", 0, None, number=None)], HUNDRED)
    assert (found.task, found.length_ms) == (None, 100_000)
