"""A cluster whose groups go on rebalancing, as collectors would land it: records, commits, log lines and readings.

Seeded, so that two runs land the same bytes. Rebalances are a minute apart, or as given; each is of a group drawn at
random, whose members have a host of their own. What is new in a cycle differs from the history by its instants and
offsets alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from bench.group_events import CLUSTER, MEMBERS, OFFSETS_TOPIC, PARTITIONS, member_id
from ingest.landing import Landing
from ingest.readings import LogText, SourceReading
from tests.encoders import (
    classic_member,
    consumer_assignment,
    consumer_subscription,
    group_metadata_key,
    group_metadata_value,
    offset_commit_key,
    offset_commit_value,
)

BASE_MS = 1_795_000_000_000
APART_MS = 60_000
OFFSETS_PARTITIONS = 50
COMMITS = 4
READER = "collect-20261118T120000-00000001"
"""A collector's name, as `ingest.landing.new_read_id` makes it."""
LINES_OF_A_FILE = 20_000
"""Then the log is rotated."""
WRITER = "org.apache.kafka.coordinator.group.GroupMetadataManager"


@dataclass(slots=True)
class FlushedRun:
    """Rows of one partition of __consumer_offsets that one flush landed."""

    partition: int
    columns: dict[str, Any] = field(default_factory=dict)
    topic: str = OFFSETS_TOPIC
    source: str = "live"
    node: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenRebalance:
    """The evidence that one rebalance of a group leaves: the coordinator's log lines and the group's record."""

    partition: int
    lines: list[str]
    record: tuple[int, bytes, bytes]
    """(milliseconds, key, value)"""

    @classmethod
    def of(
        cls, model: int, number: int, at_ms: int, *, by_failure: bool = False, has_default_names: bool = False
    ) -> WrittenRebalance:
        """Generation `number` of a group at `at_ms`. Every second one began with a member's leaving, or its session's
        end (`by_failure`); the others with the leader's new metadata. `has_default_names`: members have the client id
        of a Java consumer that was given none, else each one that nobody had before."""
        gone, group_id, partition = number // 2, f"group-{model:06d}", model % OFFSETS_PARTITIONS

        def client_of(name: int) -> tuple[str, str]:
            """(client id, member id)"""
            if not has_default_names:
                return f"c{name}", member_id(name, model)
            client_id = f"consumer-{group_id}-1"
            return client_id, f"{client_id}-{name:08d}-0000-0000-0000-{model:012d}"

        left, leader = client_of(gone - 1)[1], client_of(gone)[1]
        begun = f"Preparing to rebalance group {group_id} in state PreparingRebalance with old generation {number - 1} "
        if number % 2:
            why = f"leader {leader} re-joining group during Stable; client reason: cached metadata has changed"
            texts = [f"{begun}(reason: {why})."]
        elif by_failure:
            texts = [
                f"Member {left} in group {group_id} has failed, removing it from the group.",
                f"{begun}(reason: removing member {left} on heartbeat expiration.).",
            ]
        else:
            texts = [
                f"[Group {group_id}] Member {left} has left group through explicit `LeaveGroup` request; client "
                "reason: the consumer is being closed.",
                f"{begun}(reason: explicit `LeaveGroup` request for ({left}) members.).",
            ]
        texts += [
            f"Stabilized group {group_id} generation {number} with {MEMBERS} members.",
            f"Assignment received from leader {leader} for group {group_id} for generation {number}. "
            f"The group has {MEMBERS} members, 0 of which are static.",
        ]
        topic = _topic(model)
        members = [
            classic_member(
                client_of(name)[1], client_id=client_of(name)[0], subscription=consumer_subscription((topic,)),
                client_host=f"/10.{model >> 16}.{model >> 8 & 255}.{model & 255}",
                assignment=consumer_assignment({topic: tuple(range(place, PARTITIONS, MEMBERS))}),
            )
            for place, name in enumerate(range(gone, gone + MEMBERS))
        ]  # fmt: skip
        value = group_metadata_value(
            number, members, protocol="range", leader=leader, current_state_timestamp=at_ms + len(texts)
        )
        lines = [_line(text, at_ms + later, partition) for later, text in enumerate(texts)]
        return cls(partition, lines, (at_ms + len(texts) + 1, group_metadata_key(group_id), value))


def commit(model: int, partition: int, offset: int, at_ms: int) -> tuple[bytes, bytes]:
    """Key and value of a group's commit of one partition of its topic."""
    key = offset_commit_key(f"group-{model:06d}", _topic(model), partition)
    return key, offset_commit_value(offset, at_ms=at_ms)


def _topic(model: int) -> str:
    return f"orders-{model:06d}"


def _line(text: str, at_ms: int, partition: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return (
        f"[{at:%Y-%m-%d %H:%M:%S},{at_ms % 1000:03d}] INFO [GroupCoordinator id=1 topic={OFFSETS_TOPIC} "
        f"partition={partition}] {text} ({WRITER})"
    )


class GrowingCluster:
    """Land rebalances with `land`; it goes on where it ended."""

    def __init__(
        self,
        groups: int,
        seed: int = 1,
        share_of_one: float = 0.0,
        apart_ms: int = APART_MS,
        *,
        has_default_names: bool = False,
    ) -> None:
        """`share_of_one`: of all rebalances, those of one group; what is left is drawn evenly from all groups.
        `apart_ms`: between two rebalances. `has_default_names`: as in `WrittenRebalance.of`."""
        self._random = Random(seed)
        self._groups, self._share_of_one, self._apart_ms = groups, share_of_one, apart_ms
        self._has_default_names = has_default_names
        self._generations: Counter[int] = Counter()
        self._offsets: Counter[int] = Counter()
        self._at_ms = BASE_MS
        self._flushes = 0
        self._file, self._lines, self._byte = 0, 0, 0
        self.rebalance_count = 0

    def generations_of(self, model: int) -> int:
        return self._generations[model]

    def land(self, landing: Landing, rebalances: int, *, of: int | None = None) -> None:
        """One flush: a landing file of each kind, and what was read from where to where. `of`: the group of all of
        them."""
        self._flushes += 1
        name = f"{READER}-{self._flushes:06d}"
        records: dict[int, list[tuple[int, int, bytes, bytes]]] = {}
        lines: list[LogText] = []
        read_from = dict(self._offsets)
        for _ in range(rebalances):
            is_of_one = self._share_of_one > 0 and self._random.random() < self._share_of_one
            drawn = 0 if is_of_one else self._random.randrange(self._groups)
            self._rebalance(drawn if of is None else of, records, lines)
        runs = []
        for partition, rows in sorted(records.items()):
            offsets, times, keys, values = (list(column) for column in zip(*rows, strict=True))
            runs.append(FlushedRun(partition, {"offset": offsets, "timestamp_ms": times, "key": keys, "value": values}))
        landing.write_records(name, CLUSTER, runs)
        landing.write_log_lines(name, CLUSTER, lines)
        readings = [
            SourceReading(
                source=f"record:{OFFSETS_TOPIC}-{run.partition}", kind="record",
                from_position=read_from.get(run.partition, 0), to_position=self._offsets[run.partition],
                from_at_ms=run.columns["timestamp_ms"][0], to_at_ms=run.columns["timestamp_ms"][-1],
                item_count=len(run.columns["offset"]),
            )
            for run in runs
        ]  # fmt: skip
        by_file: dict[str, list[LogText]] = {}
        for line in lines:
            by_file.setdefault(line.file_id, []).append(line)
        readings += [
            SourceReading(
                source=f"log:broker-1/server.log#{file_id}", kind="log", from_position=of_file[0].byte,
                to_position=of_file[-1].byte + len(of_file[-1].text) + 1, item_count=len(of_file),
            )
            for file_id, of_file in by_file.items()
        ]  # fmt: skip
        landing.write_sources(name, CLUSTER, name, readings)
        self.rebalance_count += rebalances

    def _rebalance(
        self, model: int, records: dict[int, list[tuple[int, int, bytes, bytes]]], lines: list[LogText]
    ) -> None:
        self._generations[model] += 1
        number = self._generations[model]
        self._at_ms += self._apart_ms
        what = WrittenRebalance.of(model, number, self._at_ms, has_default_names=self._has_default_names)
        of_partition = records.setdefault(what.partition, [])
        for text in what.lines:
            self._log(text, lines)
        self._record(what.partition, of_partition, *what.record)
        for partition in range(COMMITS):
            committed_ms = self._at_ms + 5_000 + partition
            self._record(
                what.partition, of_partition, committed_ms, *commit(model, partition, 100 * number, committed_ms)
            )

    def _record(
        self, partition: int, records: list[tuple[int, int, bytes, bytes]], at_ms: int, key: bytes, value: bytes
    ) -> None:
        records.append((self._offsets[partition], at_ms, key, value))
        self._offsets[partition] += 1

    def _log(self, text: str, lines: list[LogText]) -> None:
        if self._lines == LINES_OF_A_FILE:
            self._file, self._lines, self._byte = self._file + 1, 0, 0
        lines.append(
            LogText(node="broker-1", file_name="server.log", file_id=f"{self._file:08x}", byte=self._byte, text=text)
        )
        self._lines += 1
        self._byte += len(text) + 1
