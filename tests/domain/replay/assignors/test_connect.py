from __future__ import annotations

from rebalance_audit.domain.replay.assignors import ConnectRound, IncrementalAssignor, Work, assign_connect_eagerly

MINUTE = 60_000


def tasks(count: int) -> list[tuple[str, int]]:
    return [("sink", number) for number in range(count)]


class Cluster:
    """Workers that do as they are asked."""

    def __init__(self, max_delay_ms: int, *workers: str) -> None:
        self.assignor = IncrementalAssignor(max_delay_ms)
        self.running = {worker: Work() for worker in workers}
        self.generation = 0

    def rebalance(self, at_ms: int) -> ConnectRound:
        round_ = self.assignor.assign(
            {"sink": 4}, self.running, generation=self.generation + 1,
            last_completed_generation=self.generation if self.generation else -1, now_ms=at_ms,
        )  # fmt: skip
        self.generation += 1
        for worker, work in self.running.items():
            work.remove(round_.revoked[worker])
            work.add(round_.added[worker])
        return round_


def test_eager_connect_gives_connectors_and_then_tasks_in_turn() -> None:
    assert assign_connect_eagerly({"sink": 3, "a": 1}, ["w2", "w1"]) == {
        "w1": (["a"], [("a", 0), ("sink", 1)]),
        "w2": (["sink"], [("sink", 0), ("sink", 2)]),
    }


def test_what_a_lost_worker_ran_waits_for_the_whole_delay() -> None:
    cluster = Cluster(5 * MINUTE, "w1", "w2")
    cluster.rebalance(0)
    lost = cluster.running.pop("w2")
    waiting = cluster.rebalance(MINUTE)
    assert waiting.delay_ms == 5 * MINUTE
    assert not any(waiting.added.values())
    later = cluster.rebalance(6 * MINUTE)
    assert later.delay_ms == 0
    assert set(later.added["w1"]) == set(lost)


def test_a_worker_that_comes_back_within_the_delay_still_waits_for_its_end() -> None:
    cluster = Cluster(5 * MINUTE, "w1", "w2")
    cluster.rebalance(0)
    lost = cluster.running.pop("w2")
    cluster.rebalance(MINUTE)
    cluster.running["w2-again"] = Work()
    back = cluster.rebalance(2 * MINUTE)
    assert back.delay_ms == 4 * MINUTE
    assert not any(back.added.values())
    assert set(cluster.rebalance(6 * MINUTE).added["w2-again"]) == set(lost)


def test_a_new_leader_knows_of_no_loss_and_hands_out_at_once() -> None:
    cluster = Cluster(5 * MINUTE, "w1", "w2")
    cluster.rebalance(0)
    del cluster.running["w2"]
    cluster.assignor = IncrementalAssignor(5 * MINUTE)
    assert cluster.rebalance(MINUTE).delay_ms == 0
    assert set(cluster.running["w1"].tasks) == set(tasks(4))


def test_a_new_worker_gets_its_share_one_round_after_it_was_taken_from_the_others() -> None:
    cluster = Cluster(5 * MINUTE, "w1")
    cluster.rebalance(0)
    cluster.running["w2"] = Work()
    taking = cluster.rebalance(MINUTE)
    assert len(taking.revoked["w1"].tasks) == 2
    assert not taking.added["w2"]
    giving = cluster.rebalance(MINUTE + 100)
    assert len(giving.added["w2"].tasks) == 2
