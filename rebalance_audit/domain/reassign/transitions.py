"""From states of one partition to its reassignments; the same for records and for log lines."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_audit.domain.reassign.attempt import ReassignmentAttempt
from rebalance_audit.domain.reassign.model import PartitionState

Key = tuple[str, int]
"""(topic id, or topic where ids are not known; partition)."""


WITHOUT_ORDER = "original replicas without their order."


class Attempts:
    """Attempts of a whole cluster: open ones by partition, ended ones until they are taken."""

    def __init__(self, source: str, *, lists_are_exact: bool = False) -> None:
        self.source, self.lists_are_exact = source, lists_are_exact
        self.open: dict[Key, ReassignmentAttempt] = {}
        self.ended: list[ReassignmentAttempt] = []

    def change(
        self, key: Key, topic: str, before: PartitionState, after: PartitionState, at_ms: int, ref: str, attempt_id: str
    ) -> None:
        """Note that a state followed another. A reassignment shows only where the assignment changed."""
        running = self.open.get(key)
        has_new_assignment = (before.replicas, before.adding, before.removing) != (
            after.replicas, after.adding, after.removing
        )  # fmt: skip
        if not has_new_assignment:
            if running is not None:
                running.take(after, at_ms, ref)
            return
        if running is None and before.is_moving:
            running = self.found_running(key, topic, before, attempt_id)
        if running is None:
            self._start(key, topic, before, after, before.replicas, at_ms, ref, attempt_id)
        elif after.is_moving:
            target = self._target(before, after)
            if target == running.target:  # asked again for what is being done
                running.aims(target, after.adding, after.removing)
                running.take(after, at_ms, ref)
            else:
                self._supersede(key, running, after, at_ms, ref, attempt_id)
                self._start(key, topic, before, after, running.original, at_ms, ref, attempt_id)
        else:
            self._end(key, topic, running, before, after, at_ms, ref, attempt_id)

    def found_running(self, key: Key, topic: str, state: PartitionState, attempt_id: str) -> ReassignmentAttempt:
        """Open an attempt whose request is not in evidence."""
        # Brokers in both lists come from a replacement: whether they were there at first is not known.
        overlaps = set(state.adding) & set(state.removing)
        original = None if overlaps else tuple(r for r in state.replicas if r not in state.adding)
        attempt = self._new(key, topic, None, original, None, attempt_id)
        attempt.aims(state.target, state.adding, state.removing)
        attempt.detail = f"Its request is older than the evidence: {WITHOUT_ORDER}"
        attempt.in_isr = {broker: None for broker in state.adding if broker in state.isr}
        attempt.take(state, state.at_ms or 0, state.ref)
        if state.at_ms is None:
            attempt.last_progress_ms = None
        self.open[key] = attempt
        return attempt

    def remove(self, key: Key, at_ms: int, ref: str) -> None:
        """End the partition's attempt: its topic was deleted."""
        running = self.open.pop(key, None)
        if running is not None:
            running.evidence.append(ref)
            running.end("deleted", at_ms)
            self.ended.append(running)

    def lose(self, key: Key, after: PartitionState | None, ref: str) -> None:
        """End an attempt whose end lies in a gap of the evidence. `after`: the first state behind the gap."""
        running = self.open.pop(key, None)
        if running is None:
            return
        running.is_complete = False
        running.evidence.append(ref)
        running.detail = "It ended where evidence has a gap."
        outcome = "unknown"
        if after is not None and after.replicas == running.target:
            outcome = "completed"
        elif after is not None and running.original and set(after.replicas) == set(running.original):
            outcome = "cancelled"
        running.end(outcome, None)
        self.ended.append(running)

    def finish(self, key: Key, state: PartitionState, at_ms: int, ref: str) -> None:
        """End the running attempt as completed, with the state it has."""
        running = self.open.pop(key)
        running.take(state, at_ms, ref, "completed")
        running.evidence.append(ref)
        running.end("completed", at_ms)
        self.ended.append(running)

    def take_ended(self) -> Iterator[ReassignmentAttempt]:
        ended, self.ended = self.ended, []
        yield from ended

    def _target(self, before: PartitionState, after: PartitionState) -> tuple[int, ...]:
        """The target of a request. KRaft writes its list of replicas and, sorted behind it, those that must go; but
        where none must go, the list of the request before is left as it was."""
        is_leftover = (
            not self.lists_are_exact
            and before.is_moving
            and after.removing == before.removing
            and after.replicas[len(after.replicas) - len(after.removing) :] != tuple(sorted(after.removing))
        )
        return after.replicas if is_leftover else after.target

    def _new(
        self,
        key: Key,
        topic: str,
        before: PartitionState | None,
        original: tuple[int, ...] | None,
        started_at_ms: int | None,
        attempt_id: str,
    ) -> ReassignmentAttempt:
        has_id = key[0] != topic
        return ReassignmentAttempt(
            reassignment_id=attempt_id,
            topic=topic,
            partition=key[1],
            topic_id=key[0] if has_id else None,
            before=before,
            original=original,
            started_at_ms=started_at_ms,
            source=self.source,
        )

    def _start(
        self,
        key: Key,
        topic: str,
        before: PartitionState,
        after: PartitionState,
        original: tuple[int, ...] | None,
        at_ms: int,
        ref: str,
        attempt_id: str,
    ) -> None:
        attempt = self._new(key, topic, before, original, at_ms, attempt_id)
        attempt.evidence.append(ref)
        if after.is_moving:
            attempt.aims(self._target(before, after), after.adding, after.removing)
            attempt.in_isr = {broker: at_ms for broker in after.adding if broker in before.isr}
            attempt.take(after, at_ms, ref, "accepted")
            self.open[key] = attempt
        else:  # another order, or fewer of the same: done as soon as asked
            removed = tuple(r for r in before.replicas if r not in after.replicas)
            added = tuple(r for r in after.replicas if r not in before.replicas)
            attempt.aims(after.replicas, added, removed)
            attempt.take(after, at_ms, ref, "completed")
            attempt.end("completed", at_ms)
            self.ended.append(attempt)

    def _supersede(
        self, key: Key, running: ReassignmentAttempt, after: PartitionState, at_ms: int, ref: str, attempt_id: str
    ) -> None:
        running.take(after, at_ms, ref, "superseded")
        running.superseded_by = attempt_id
        running.end("superseded", at_ms)
        self.ended.append(running)
        self.open.pop(key, None)

    def _end(
        self,
        key: Key,
        topic: str,
        running: ReassignmentAttempt,
        before: PartitionState,
        after: PartitionState,
        at_ms: int,
        ref: str,
        attempt_id: str,
    ) -> None:
        outcome = _outcome(running, before, after)
        if outcome == "superseded":  # by a request that was done at once
            self._supersede(key, running, after, at_ms, ref, attempt_id)
            self._start(key, topic, before, after, running.original, at_ms, ref, attempt_id)
            return
        if outcome == "completed" and after.replicas != running.target:
            running.detail = (
                f"It ended with {list(after.replicas)}, which is not what was asked for: the controller still had "
                "brokers to remove from the request before."
            )
        running.take(after, at_ms, ref, outcome)
        running.evidence.append(ref)
        running.end(outcome, at_ms)
        self.ended.append(running)
        self.open.pop(key, None)


def _outcome(running: ReassignmentAttempt, before: PartitionState, after: PartitionState) -> str:
    """Completion and cancellation look alike: the target in its order, or what is left without the added ones."""
    without_added = tuple(r for r in before.replicas if r not in before.adding)
    is_target = after.replicas in (running.target, before.target)  # the controller's own idea may differ
    if is_target and set(after.replicas) != set(without_added):
        return "completed"
    if running.original is not None and set(after.replicas) == set(running.original):
        # A request for the origin that is done at once ends the running one; KRaft forgets the order.
        is_asked = after.replicas == running.target and set(running.target) != set(running.original)
        return "completed" if is_asked else "cancelled"
    if after.replicas == without_added:
        return "cancelled"
    return "completed" if is_target else "superseded"
