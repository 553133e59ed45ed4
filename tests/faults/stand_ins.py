"""Stand-ins of the simulator for what has no seed: the broker's log, the disk, the receiver, the tables."""

from __future__ import annotations

import builtins
import errno
import os
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ingest.broker_reader import LivePartition
from ingest.errors import Retryable
from rebalance_audit.alerts.message import News
from rebalance_audit.alerts.target import NotDelivered, Sender
from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.gather.groups import Gathered, gather
from rebalance_audit.domain.incidents import ClusterRows, Incident, incidents_of
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import SourceLine, SourceRecord
from rebalance_audit.domain.reassign import LeaderElection
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.live.elections import MetadataPast
from rebalance_audit.live.group_memory import GroupPast
from rebalance_audit.live.memory import ClusterPast
from tests.captures import GOLDEN
from tests.live.arrivals import arrivals

CAPTURE = GOLDEN / "4.3.0" / "eager_join_leave_kill"
CLUSTER = "simulated"
TICK_MS = 400
TARGET = "http://receiver/"
FIRST_LINE = f"[2026-11-21 16:00:00,000] INFO starting {'.' * 1_024} (kafka.server.KafkaRaftServer)"
KILL_POINTS = (
    "before a file is opened", "when half of a file is written", "before fsync", "before a file gets its name",
    "after a file has its name", "before a message is sent", "after a message is delivered", "while polling",
)  # fmt: skip
DISK_FAULTS = ("full disk", "short write", "fsync error")
FAULTS = (
    *(f"kill {point}" for point in KILL_POINTS), *DISK_FAULTS, "clock jumps forward", "clock jumps back", "broker gone",
    "coordinator moved", "second writer", "half-written landing file", "receiver gone",
)  # fmt: skip


class Killed(BaseException):
    """kill -9: nothing of this process runs any more, no handler either."""


@dataclass
class Plan:
    """The faults of one run, each at one of the moments at which it can happen."""

    rng: random.Random
    rate: float
    counts: Counter[str] = field(default_factory=Counter)
    is_dead: bool = False

    def strikes(self, fault: str) -> bool:
        if self.rng.random() >= self.rate:
            return False
        self.counts[fault] += 1
        return True

    def may_die(self, point: str) -> None:
        if self.is_dead:
            raise Killed
        if self.strikes(f"kill {point}"):
            self.is_dead = True
            raise Killed


class Message:
    """What the collector asks of a message of confluent-kafka."""

    def __init__(self, record: SourceRecord) -> None:
        self.record = record

    def partition(self) -> int:
        return self.record.partition

    def offset(self) -> int:
        return self.record.offset

    def timestamp(self) -> tuple[int, int]:
        return 1, self.record.timestamp_ms

    def key(self) -> bytes | None:
        return self.record.key

    def value(self) -> bytes | None:
        return self.record.value

    def headers(self) -> None:
        return None

    def leader_epoch(self) -> int:
        return 0


class World:
    """What goes on whether somebody watches or not: the broker's log, its log files, the time."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.logs = plan, folder / "logs"
        self.logs.mkdir()
        # A file has its identity from its first KiB; that of a shorter one would depend on when it was seen first.
        (self.logs / "server.log").write_text(FIRST_LINE + "\n")
        self.records, self.lines = evidence()
        self.ends_ms = max(at for at, _ in [*self.records, *self.lines]) + 20_000
        self.now_ms = min(at for at, _ in [*self.records, *self.lines])
        self.skew_ms = 0
        self._written = 0

    @property
    def is_over(self) -> bool:
        return self.now_ms >= self.ends_ms

    def tick(self) -> None:
        self.now_ms += TICK_MS
        with (self.logs / "server.log").open("a") as log:
            while self._written < len(self.lines) and self.lines[self._written][0] <= self.now_ms:
                log.write(self.lines[self._written][1].text + "\n")
                self._written += 1

    def clock_ms(self) -> int:
        if self.plan.strikes("clock jumps forward"):
            self.skew_ms += self.plan.rng.choice((2_000, 60_000, 3_600_000))
        if self.plan.strikes("clock jumps back"):
            self.skew_ms -= self.plan.rng.choice((2_000, 60_000, 3_600_000))
        return self.now_ms + self.skew_ms


@cache
def evidence() -> tuple[list[tuple[int, SourceRecord]], list[tuple[int, SourceLine]]]:
    """Records and lines of the capture's group coordinator, each with the instant it comes at."""
    records, lines = [], []
    for of_piece, new in arrivals(CAPTURE):
        records += [(r.timestamp_ms, r) for r in of_piece if r.topic == OFFSETS_TOPIC and not r.is_control]
        at_ms = max((r.timestamp_ms for r in of_piece), default=records[-1][0] if records else None)
        lines += [(at_ms, line) for line in new if "GroupCoordinator" in line.text and at_ms is not None]
    return records, lines


class Reader:
    """Stands in for BrokerReader: the records that are there by now, from the remembered positions on."""

    def __init__(self, world: World, positions: dict[str, int]) -> None:
        self.problems: dict[str, Any] = {}
        self.waiting: dict[tuple[str, int], str | None] = {}
        self._world = world
        self._live = {}
        for partition in sorted({record.partition for _, record in world.records}):
            there = [r.offset for at, r in world.records if r.partition == partition and at <= world.now_ms]
            position = positions.get(f"{OFFSETS_TOPIC}-{partition}", 0)
            end = max(there, default=-1) + 1
            self._live[partition] = LivePartition(OFFSETS_TOPIC, partition, "group", position, end)

    @property
    def partitions(self) -> list[LivePartition]:
        return list(self._live.values())

    @property
    def is_done(self) -> bool:
        return all(live.is_at_end for live in self._live.values())

    is_at_end = is_done

    def poll(self, wait_s: float, *, at_once: bool = False) -> list[tuple[LivePartition, list[Message]]]:
        plan = self._world.plan
        plan.may_die("while polling")
        if plan.strikes("broker gone"):
            raise Retryable("no broker answers")
        self._world.tick()
        arrived = []
        for partition, live in self._live.items():
            new = [
                record for at, record in self._world.records
                if record.partition == partition and record.offset >= live.position and at <= self._world.now_ms
            ]  # fmt: skip
            if new and plan.strikes("coordinator moved"):
                new = []  # the new leader gives them at the next fetch
            if new:
                live.position = new[-1].offset + 1
                live.is_at_end = live.is_at_end or live.position >= live.end_offset
                live.reading.saw_records(len(new), new[0].timestamp_ms, new[-1].timestamp_ms)
                arrived.append((live, [Message(record) for record in new]))
        return arrived

    def end_readings(self) -> list[Any]:
        return [live.end_reading() for live in self.partitions if live.reading.item_count]

    def close(self) -> None:
        pass


class Disk:
    """`os` and `open` as the modules see them that make files durable."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open_file(self, path: Any, mode: str = "r", **given: Any) -> Any:
        if "w" not in mode and "a" not in mode:
            return builtins.open(path, mode, **given)
        self._plan.may_die("before a file is opened")
        if self._plan.strikes("full disk"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return _File(builtins.open(path, mode, **given), self._plan)

    def fdopen(self, descriptor: int, mode: str, **given: Any) -> Any:
        self._plan.may_die("before a file is opened")
        return _File(os.fdopen(descriptor, mode, **given), self._plan)

    def fsync(self, descriptor: int) -> None:
        self._plan.may_die("before fsync")
        if self._plan.strikes("fsync error"):
            raise OSError(errno.EIO, "Input/output error")

    def replace(self, source: str, target: Any) -> None:
        self._plan.may_die("before a file gets its name")
        os.replace(source, target)
        self._plan.may_die("after a file has its name")

    def unlink(self, path: str) -> None:
        if self._plan.is_dead:
            self._plan.counts["half-written landing file"] += 1
            raise Killed
        os.unlink(path)


class _File:
    def __init__(self, file: Any, plan: Plan) -> None:
        self._file, self._plan, self._is_begun = file, plan, False

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def write(self, content: Any) -> Any:
        if self._is_begun:  # JSON comes in thousands of pieces; a file meets one fault at most
            return self._file.write(content)
        self._is_begun = True
        half = bytes(content)[: len(bytes(content)) // 2] if not isinstance(content, str) else content[:1]
        try:
            self._plan.may_die("when half of a file is written")
        except Killed:
            self._file.write(half)
            raise
        if self._plan.strikes("short write"):
            self._file.write(half)
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(content)


@dataclass
class Receiver:
    """Honours fingerprints: the same message of the same incident is one."""

    plan: Plan
    came: list[tuple[str, str, str, int, int]] = field(default_factory=list)

    def take(self, news: News) -> None:
        i = news.incident
        self.came.append((i.incident_id, news.status, news.severity, len(i.culprits), len(i.group_ids)))

    @property
    def opened(self) -> set[str]:
        return {incident_id for incident_id, status, *_ in self.came if status == "open"}

    @property
    def withdrawn(self) -> set[str]:
        return {incident_id for incident_id, status, *_ in self.came if status == "withdrawn"}

    @property
    def twice(self) -> int:
        return len(self.came) - len(set(self.came))


class SimulatedSender(Sender):
    def __init__(self, receiver: Receiver) -> None:
        self.name, self.target, self.key, self._receiver = TARGET, TARGET, "receiver", receiver

    def send(self, pending: Sequence[News]) -> Iterator[Sequence[News]]:
        plan = self._receiver.plan
        for news in pending:
            plan.may_die("before a message is sent")
            if plan.strikes("receiver gone"):
                raise NotDelivered("it does not answer.")
            self._receiver.take(news)
            plan.may_die("after a message is delivered")
            yield [news]


class Tables:
    """Stands in for the stages: everything that is landed whole, gathered. A Past of the memory."""

    def __init__(self, warehouse: Path) -> None:
        self.records, self.lines = landed(warehouse)
        gathered = gather(self.records, self.lines)
        self.groups = {evidence.group_id: evidence for evidence in gathered.groups}
        self.clocks = gathered.clocks
        self.seen_ms = max((r.timestamp_ms for r in self.records), default=0)
        self.rows = rows_of(gathered, self.seen_ms)

    def of_cluster(self) -> ClusterPast:
        return ClusterPast(seen_until_ms=self.seen_ms, clocks=self.clocks, rows=self.rows)

    def of_groups(self, groups: Mapping[str, object]) -> dict[str, GroupPast]:
        found = {group_id: GroupPast() for group_id in groups}
        for known in (self.groups[group_id] for group_id in groups if group_id in self.groups):
            found[known.group_id] = GroupPast(events=[*known.records, *known.lines], marks=known.marks)
        return found

    def leader_moves(self, since_ms: int) -> None:
        """There is no metadata log."""

    def of_metadata(self) -> MetadataPast:
        return MetadataPast()

    def elections(self, since_ms: int) -> tuple[LeaderElection, ...]:
        return ()

    def incidents(self) -> list[Incident]:
        return incidents_of(self.rows)[0]


def rows_of(gathered: Gathered, seen_ms: int) -> ClusterRows:
    groups, findings = {}, []
    for evidence in gathered.groups:
        found = reconstruct(evidence)
        rebalances = groups[evidence.group_id] = [measure(r) for r in found.rebalances]
        of_group = detect_group(rebalances, found.connect_tasks, seen_until_ms=seen_ms or None)
        findings += [(evidence.group_id, finding) for finding in of_group]
    return ClusterRows(cluster_id=CLUSTER, now_ms=seen_ms, groups=groups, findings=findings)


def landed(warehouse: Path) -> tuple[list[SourceRecord], list[SourceLine]]:
    """As bronze keeps it: a repeat whose bytes agree is one, and one whose bytes differ is a failure of the run."""
    records: dict[tuple[str, int, int], SourceRecord] = {}
    lines: dict[tuple[str, int], SourceLine] = {}
    for path in sorted((warehouse / "landing" / "record").glob("*.parquet")):
        columns = ["cluster_id", "topic", "partition", "offset", "timestamp_ms", "key", "value"]
        for row in pq.ParquetFile(path).read(columns).to_pylist():
            record = SourceRecord(**row)
            place = record.topic, record.partition, record.offset
            assert records.setdefault(place, record) == record, f"two contents at {place}"
    for path in sorted((warehouse / "landing" / "log_line").glob("*.parquet")):
        columns = ["cluster_id", "node", "file_name", "file_id", "byte", "text"]
        for row in pq.ParquetFile(path).read(columns).to_pylist():
            line = SourceLine(**row)
            lines[line.file_id, line.byte] = line
    return [r for _, r in sorted(records.items())], [x for _, x in sorted(lines.items())]
