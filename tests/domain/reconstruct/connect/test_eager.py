"""What a change would have cost under the eager protocol: hand-worked."""

from __future__ import annotations

import pytest

from tests.domain.reconstruct.connect.stories import FRESH, ConnectStory, a_connect_group, has


def two_workers() -> ConnectStory:
    """Each runs two; starts take 40 ms from the record to their status less 2 ms."""
    story = a_connect_group().generation(
        1, {"w1": FRESH.gets("alpha alpha-0"), "w2": FRESH.gets("alpha-1 alpha-2")}, at_ms=1_000
    )
    for resource, worker in (("alpha", "w1"), ("alpha-0", "w1"), ("alpha-1", "w2"), ("alpha-2", "w2")):
        story.status(resource, "RUNNING", worker, 1, at_ms=1_042)
    return story


def test_a_join_would_have_stopped_everything_of_everybody() -> None:
    story = two_workers().generation(
        2, {"w1": has("alpha alpha-0"), "w2": has("alpha-1 alpha-2").loses("alpha-2"), "w3": FRESH},
        at_ms=9_000, joined_at_ms=8_980,
    )  # fmt: skip
    # 4 that run: 50 ms to stop (assumed, nothing was revoked and marked), 20 ms to be assigned, 40 ms to start.
    assert story.rebalances()[1].eager_seconds_lower == pytest.approx(4 * 0.110)


def test_its_own_rounds_cost_an_eager_group_nothing() -> None:
    story = two_workers().generation(
        2, {"w1": has("alpha alpha-0"), "w2": has("alpha-1 alpha-2").loses("alpha-2"), "w3": FRESH}, at_ms=9_000
    )
    story.rejoined(2, "w2", at_ms=9_100)
    story.generation(3, {"w1": has("alpha alpha-0"), "w2": has("alpha-1"), "w3": has("").gets("alpha-2")}, at_ms=9_110)
    third = story.rebalances()[2]
    assert (third.trigger, third.eager_seconds_lower) == ("connect_revocation_follow_up", 0)


def test_a_lost_workers_tasks_would_not_have_waited_for_the_delay() -> None:
    story = (
        two_workers()
        .expired(1, "w2", at_ms=28_500)
        .generation(2, {"w1": has("alpha alpha-0")}, at_ms=29_000, joined_at_ms=28_990, delay_ms=30_000)
        .rejoined(2, "w1", at_ms=59_002, leader=True)
        .generation(3, {"w1": has("alpha alpha-0").gets("alpha-1 alpha-2")}, at_ms=59_010)
    )
    lost, given = story.rebalances()[1:]
    # w2 died at 20 000: both its tasks from then to 29 040; the two of w1 for 50 + 10 + 40 ms.
    assert lost.eager_seconds_lower == pytest.approx(2 * 9.040 + 2 * 0.100)
    assert given.eager_seconds_lower == 0
    assert (given.resource_seconds_estimate or 0) > 2 * 38


def test_a_worker_starts_eight_at_a_time() -> None:
    many = " ".join(f"alpha-{n}" for n in range(20))
    story = a_connect_group().generation(1, {"w1": FRESH.gets("alpha")}, at_ms=1_000)
    story.status("alpha", "RUNNING", "w1", 1, at_ms=2_002)  # a start takes 1 s
    story.generation(2, {"w1": has("alpha").gets(many)}, at_ms=5_000)
    story.generation(3, {"w1": has(f"alpha {many}"), "w2": FRESH}, at_ms=9_000, joined_at_ms=9_000)
    # 21 on two workers: 11 each, two batches: half of them after 1 s, half after 2 s; 50 ms to stop.
    assert story.rebalances()[2].eager_seconds_lower == pytest.approx(21 * (0.050 + 1.5))


def test_nothing_is_shown_where_everything_did_stop_or_not_all_is_known() -> None:
    eager = a_connect_group().generation(1, {"w1": FRESH.gets("alpha")}, at_ms=1_000, protocol="default")
    eager.generation(2, {"w1": FRESH.gets("alpha"), "w2": FRESH}, at_ms=9_000, protocol="default")
    assert eager.rebalances()[1].eager_seconds_lower is None
    broken = two_workers().generation(
        2,
        {"w1": has("alpha alpha-0"), "w2": has("alpha-1 alpha-2")},
        at_ms=9_000,
        broken={"w2": (b"\x00", b"\x00\x02")},
    )
    assert broken.rebalances()[1].eager_seconds_lower is None
