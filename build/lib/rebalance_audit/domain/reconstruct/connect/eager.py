"""The least a change would have cost under the eager protocol, where every round stops every connector and task.

Measured in the same evidence as far as it goes: how long these tasks take to stop and to start, and the round's
assignment once all had joined. A worker starts tasks eight at a time (DistributedHerder.java): what starts last waits
for all before it. An eager group knows neither delay nor second round: their cost is the incremental protocol's
own. Left out: that workers hear of a rebalance one after another, and the first to stop waits for the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rebalance_audit.domain.causes import CONNECT_ROUNDS, Cause
from rebalance_audit.domain.kinds import Mode, TaskState

from .existence import Existence
from .marks import START_AFTER_RECORD_MS, STOP_AFTER_RECORD_MS, Sources, start_marks, stop_marks
from .rounds import Round
from .runs import Ownership, OwnershipRun
from .stretches import settle

START_THREADS = 8
"""START_STOP_THREAD_POOL_SIZE of a worker."""


class EagerCost:
    def __init__(self, ownership: Ownership, existence: Existence, sources: Sources) -> None:
        self._ownership = ownership
        self._existence = existence
        self._sources = sources
        self._start_ms = self._median_start_ms()
        self._stop_ms = self._median_stop_ms()

    def of(self, round_: Round, trigger: Cause) -> float | None:
        """Resource-seconds; None where the work before or after is not known, or everything did stop."""
        before = self._sources.rounds.before(round_.index)
        if round_.mode != Mode.INCREMENTAL or before is None or round_.is_failed:
            return None
        if any(w.running is None for w in (*before.workers, *round_.workers)):
            return None
        if trigger in CONNECT_ROUNDS:
            return 0.0
        present = {w.member_id for w in round_.workers}
        held = [r for w in before.workers if w.member_id in present for r in w.running or ()]
        lost = [run for run in self._ownership.ended_in(round_) if run.how == "gone"]
        lost = [run for run in lost if self._existence.deleted_in(run) is not round_]
        deleted = [run for run in self._ownership.ended_in(round_) if self._existence.deleted_in(run) is round_]
        stopped = max(len(held) - len(deleted), 0)
        started_ms = self._mean_start_ms(stopped + len(lost), len(round_.workers))
        joined_ms = round_.joined_at_ms if round_.joined_at_ms is not None else round_.at_ms
        each_ms = self._stop_ms + max(round_.at_ms - joined_ms, 0) + started_ms
        total_ms = stopped * each_ms
        for run in lost:
            stop_ms = settle(stop_marks(run, self._sources), round_.at_ms).at
            total_ms += max(round_.at_ms + started_ms - stop_ms, 0)
        return round(total_ms / 1000, 3)

    def _mean_start_ms(self, resources: int, workers: int) -> float:
        """From the group record to the end of a start, in the mean over all that start."""
        per_worker = -(-resources // max(workers, 1))
        batches = max(-(-per_worker // START_THREADS), 1)
        return self._start_ms * (batches + 1) / 2

    def _median_stop_ms(self) -> float:
        """From the assignment that takes it away to its status: a worker waits for its slowest before it joins."""
        known = [
            max(run.statuses[-1].at_ms - run.ended.at_ms, 0)
            for run in self._ownership.all()
            if run.ended is not None and run.how == "revoked" and run.statuses
            if run.statuses[-1].record.state == TaskState.UNASSIGNED and not self._sources.has_new_config(run.ended)
        ]
        return median(known) if known else STOP_AFTER_RECORD_MS

    def _median_start_ms(self) -> float:
        """From the group record to the end of a start, where few enough started together to start at once."""
        known: list[int] = []
        for round_ in self._sources.rounds.all:
            begun: dict[str, list[OwnershipRun]] = {}
            for run in self._ownership.begun_in(round_):
                begun.setdefault(run.worker.member_id, []).append(run)
            known += self._starts_ms(round_, [runs for runs in begun.values() if len(runs) <= START_THREADS])
        return median(known) if known else START_AFTER_RECORD_MS

    def _starts_ms(self, round_: Round, together: Sequence[Sequence[OwnershipRun]]) -> list[int]:
        return [
            max(settle(start_marks(run, self._sources), round_.at_ms).at - round_.at_ms, 0)
            for runs in together
            for run in runs
            if run.statuses
        ]
