"""Kafka's own controller, given random requests (DriveController.java): our fold against its states, and the attempts
we find against what was asked. The records do not say why they were written; here the requests do.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.domain.metadata import MetadataReader, SourceMetadata
from rebalance_audit.domain.reassign import KRaftFold, Reassignment

DRIVEN = sorted((Path(__file__).parent / "driven").glob("*.jsonl.gz"))
Attempt = tuple[tuple[int, ...] | None, tuple[int, ...] | None, str, int | None, int | None]
"""(original, target, outcome, started, ended)."""


def requests(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]


def sources(request: dict[str, Any], at_ms: int, first_offset: int) -> Iterator[SourceMetadata]:
    for n, content in enumerate(request["records"]):
        yield SourceMetadata(
            cluster_id="lab",
            topic="__cluster_metadata",
            partition=0,
            offset=first_offset + n,
            timestamp_ms=at_ms,
            key=None,
            value=bytes.fromhex(content),
            node="controller",
        )


class Asked:
    """What the requests mean for one partition: the attempts there must be."""

    def __init__(self) -> None:
        self.attempts: list[list[Any]] = []
        self.running: list[Any] | None = None

    def end(self, outcome: str, at_ms: int) -> None:
        if self.running is not None:
            self.running[2], self.running[4] = outcome, at_ms
            self.running = None

    def begin(self, original: tuple[int, ...], target: tuple[int, ...], at_ms: int, *, is_done: bool) -> None:
        attempt: list[Any] = [original, target, "completed" if is_done else "open", at_ms, at_ms if is_done else None]
        self.attempts.append(attempt)
        if not is_done:
            self.running = attempt

    def take(self, request: dict[str, Any], is_mine: bool, before: list[Any], after: list[Any], at_ms: int) -> None:
        is_moving = bool(after[3] or after[4])
        if request["what"] == "move" and is_mine and request["error"] == "NONE":
            if request["records"]:  # without one, nobody can know that it was asked
                self.moved(readable(request["asked"], before, after), before, after, at_ms, is_moving=is_moving)
        elif request["what"] == "cancel" and is_mine and request["error"] == "NONE":
            self.end("cancelled", at_ms)
        elif self.running is not None and not is_moving:
            self.end("completed", at_ms)

    def moved(
        self, target: tuple[int, ...], before: list[Any], after: list[Any], at_ms: int, *, is_moving: bool
    ) -> None:
        if self.running is None:
            if before[0] != after[0] or is_moving:
                self.begin(tuple(before[0]), target, at_ms, is_done=not is_moving)
            return
        if target == self.running[1] and is_moving:
            return
        origin = self.running[0]
        if target == self.running[1]:
            self.end("completed", at_ms)
        elif not is_moving and set(target) == set(origin):
            self.end("cancelled", at_ms)
        else:
            self.end("superseded", at_ms)
            self.begin(origin, target, at_ms, is_done=not is_moving)


def readable(target: list[int], before: list[Any], after: list[Any]) -> tuple[int, ...]:
    """The target as far as records can show: Kafka leaves its list of those to remove as it was where none is, and a
    target that happens to end with these reads like one without them."""
    leftover = sorted(after[4])
    if before[4] == after[4] and target == after[0] and leftover and target[-len(leftover) :] == leftover:
        return tuple(target[: -len(leftover)])
    return tuple(target)


def found(r: Reassignment) -> Attempt:
    return r.original_replicas, r.target_replicas, r.outcome, r.started_at_ms, r.ended_at_ms


@pytest.mark.parametrize("path", DRIVEN, ids=[path.name.removesuffix(".jsonl.gz") for path in DRIVEN])
def test_states_and_attempts_are_those_of_kafkas_own_controller(path: Path) -> None:
    fold, reader = KRaftFold("lab"), MetadataReader()
    asked: dict[tuple[int, int], Asked] = defaultdict(Asked)
    states: list[list[Any]] = []
    incarnation = offset = 0
    for n, request in enumerate(requests(path)):
        at_ms = 1_000 * (n + 1)
        fold.read(reader.read(sources(request, at_ms, offset)))
        offset += len(request["records"])
        if request["what"] == "delete":
            for (topic, _), each in asked.items():
                if topic == incarnation:
                    each.end("deleted", at_ms)
            continue
        if request["what"] == "create":
            incarnation += 1
            states = request["states"]
        ours = [fold.partitions[key] for key in sorted(fold.partitions)]
        assert [
            [list(s.replicas), sorted(s.isr), -1 if s.leader is None else s.leader, list(s.adding), list(s.removing)]
            for s in ours
        ] == [[s[0], sorted(s[1]), *s[2:5]] for s in request["states"]]
        assert [[s.leader_epoch, s.partition_epoch] for s in ours] == [s[5:] for s in request["states"]]
        for partition, after in enumerate(request["states"]):
            asked[incarnation, partition].take(
                request, request["partition"] == partition, states[partition], after, at_ms
            )
        states = request["states"]
    assert reader.refused == []
    ours_by_partition: dict[int, list[Attempt]] = defaultdict(list)
    for r in sorted([*fold.ended(), *fold.running()], key=lambda r: (r.started_at_ms or 0, r.ended_at_ms or 1 << 62)):
        ours_by_partition[r.partition].append(found(r))
    theirs: dict[int, list[Attempt]] = defaultdict(list)
    for (_, partition), each in sorted(asked.items()):
        theirs[partition] += [tuple(attempt) for attempt in each.attempts]
    assert ours_by_partition == theirs
    outcomes = [attempt[2] for attempts in theirs.values() for attempt in attempts]
    assert {"completed", "cancelled", "superseded", "deleted"} <= set(outcomes)
