"""Live collection: records of a running cluster and growing log files, landed before their positions are remembered."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import Message

from ingest.broker import LiveCluster
from ingest.broker_reader import NO_ANSWER_MS, BrokerReader
from ingest.collect_settings import CollectSettings, another_cluster, nothing_to_collect, topics_to_read
from ingest.errors import Misconfigured, Problem, Retryable
from ingest.landing import Landing, new_read_id, positions_name
from ingest.messages import LiveRecords
from ingest.pending import PendingEvidence
from ingest.readings import LogText, SourceReading
from ingest.sharing import Share
from ingest.tail import LIVE_QUIET_MS, QUIET_MS, SETTLE_MS, LogTail

TAIL_EVERY_MS = 1_000
LIVE_WAIT_S = 0.1
"""How long to wait for a record before log files are looked at again: that takes a system call for each file."""
LIVE_LOOK_MS = 5_000
"""Files are looked for this often even if no folder seems to have changed."""
LIVE_APART_MS = (50, 200)
"""The least and the most time between the beginnings of two landings of urgent evidence: a storm makes at most twenty a
second. With 200 as the most, alerts beside a busy cluster come 0.2 s sooner than with 400, for 0.07 of a core."""
LANDING_SHARE = 10
"""Between these two, a landing is followed by the next after ten times as long as it took: what reads the landed files
takes as long again for each."""
Report = Callable[[str], None]
"""One line for the operator; secrets are gone from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """The evidence that one flush made durable."""

    cluster_id: str
    runs: Sequence[LiveRecords]
    lines: Sequence[LogText]
    until_ms: int | None
    """The last record time so far."""
    is_history: bool
    """It was there before collecting began."""


class Follower(Protocol):
    """Is given what is landed, in the collector's thread and in the order of landing."""

    def landed(self, landed: Landed) -> None: ...

    def caught_up(self) -> None:
        """Called once per call of `collect`, when all that was there at its beginning is landed."""


@dataclass(slots=True, kw_only=True)
class CollectSummary:
    cluster_id: str
    read_id: str
    record_count: int = 0
    line_count: int = 0
    problems: list[str] = field(default_factory=list)


def collect(
    settings: CollectSettings,
    landing: Landing,
    *,
    stop: Callable[[], bool] = lambda: False,
    report: Report = lambda line: None,
    progress: Callable[[int, int, str], None] = lambda done, total, what: None,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    follower: Follower | None = None,
) -> CollectSummary:
    """Collect until `stop()`, or until the end that was there at the beginning. Raises Retryable or Misconfigured;
    what was read until then is landed."""
    if settings.client_config.get("bootstrap.servers"):
        cluster = LiveCluster(settings.client_config)
        cluster_id = cluster.cluster_id
        if settings.cluster_id not in (None, cluster_id):
            raise another_cluster(cluster.address, cluster_id, settings.cluster_id)
    elif settings.cluster_id and settings.logs:
        cluster, cluster_id = None, settings.cluster_id
    else:
        raise nothing_to_collect()
    collector = _Collector(settings, landing, cluster_id, report, now_ms, follower)
    with _few_cycle_searches():
        return collector.run(cluster, stop, progress)


@contextlib.contextmanager
def _few_cycle_searches() -> Iterator[None]:
    """Python looks for cycles less often: thousands of messages live for a moment, and none is part of one."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Collector:
    def __init__(
        self,
        settings: CollectSettings,
        landing: Landing,
        cluster_id: str,
        report: Report,
        now_ms: Callable[[], int],
        follower: Follower | None = None,
    ) -> None:
        self.follower = follower
        self.has_caught_up = False
        self.until_ms: int | None = None
        self.glance: Hashable = None
        """What `LogTail.glance` gave at the last look."""
        self.settings, self.landing, self.report, self.now_ms = settings, landing, report, now_ms
        self.summary = CollectSummary(cluster_id=cluster_id, read_id=new_read_id("collect"))
        alone = positions_name("live", cluster_id)
        positions = landing.read_positions(alone)
        self.record_positions: dict[str, int] = positions.get("partitions", {})
        self.share: Share | None = None
        if settings.share_as is not None:  # its logs are of its own host
            alone = positions_name("logs", f"{cluster_id}-{settings.share_as}")
            positions = landing.read_positions(alone)
        self.positions_name = alone
        quiet_ms = LIVE_QUIET_MS if settings.is_live else QUIET_MS
        self.tail = LogTail(settings.logs, positions.get("logs"), quiet_ms=quiet_ms, interest=settings.interest)
        self.reader: BrokerReader | None = None
        self.pending = PendingEvidence()
        self.flush_count = self.flushed_at_ms = self.tailed_at_ms = 0
        self.apart_ms = LIVE_APART_MS[0]
        self.places: dict[str, tuple[str, int, str]] = {}
        """If the collector has a share of the cluster: each place as topic, partition, kind."""
        self.is_settled = True
        """Each partition is read by somebody."""
        self.is_held_up = False
        """Some partitions have no leader that answers."""
        self.is_flushing = False
        """Also after a flush that failed: then nothing more is written, and the next run reads it again."""
        self.reported_errors: set[str] = set()
        self.reported_count = 0
        """Topics that cannot be read, of those that the reader found."""

    def run(
        self, cluster: LiveCluster | None, stop: Callable[[], bool], progress: Callable[[int, int, str], None]
    ) -> CollectSummary:
        began_at_ms = self.flushed_at_ms = moved_at_ms = self.now_ms()
        try:
            if cluster is not None:
                self._begin_reading(cluster)
            while not stop():
                arrived = self._poll_broker()
                self._poll_logs()
                now_ms = self.now_ms()
                if self.reader is not None and cluster is not None:
                    self._report_cluster(cluster, self.reader, has_news=arrived)
                    partitions = self.reader.partitions
                    progress(sum(p.position for p in partitions), sum(p.end_offset for p in partitions), "records")
                    moved_at_ms = now_ms if arrived or self.reader.is_done else moved_at_ms
                if self._is_flush_due(now_ms):
                    self._flush()
                    self._exchange()
                is_held_up = self._is_done(despite_waiting=True) and now_ms - began_at_ms > NO_ANSWER_MS
                if not self.has_caught_up and (self._is_done() or is_held_up):
                    self._catch_up()
                if self.settings.until_end and self._is_done():
                    self._poll_logs(is_last=True)
                    break
                if self.settings.until_end and now_ms - moved_at_ms > NO_ANSWER_MS and cluster is not None:
                    raise Retryable(f"{cluster.address} stopped answering before the end was read; what was read is "
                                    f"kept, run it again to go on.")  # fmt: skip
        finally:
            try:
                if not self.is_flushing:
                    self._flush()
                    if self.share is not None:
                        self.share.leave(self.record_positions)
            finally:
                if self.reader is not None:
                    self.reader.close()
        return self.summary

    def _begin_reading(self, cluster: LiveCluster) -> None:
        topics, problems = topics_to_read(cluster, self.settings)
        shares = self.settings.share_as is not None
        self.reader = BrokerReader(
            cluster, topics, self.record_positions, dict.fromkeys(topics, ()) if shares else None
        )
        if shares:
            self._begin_sharing(cluster, topics)
        for topic, problem in {**problems, **self.reader.problems}.items():
            self._report(SourceReading(source=f"record:{topic}", kind="record"), problem)
        self.reported_count = len(self.reader.problems)
        self._report_waiting(self.reader)

    def _report_cluster(self, cluster: LiveCluster, reader: BrokerReader, *, has_news: bool) -> None:
        """What the brokers say is wrong since the last look. Raises Misconfigured if nothing can be read any more."""
        self._report_errors(cluster, has_news=has_news)
        self._report_waiting(reader)
        for topic, problem in list(reader.problems.items())[self.reported_count :]:
            self._report(SourceReading(source=f"record:{topic}", kind="record"), problem)
        self.reported_count = len(reader.problems)
        has_places = self.share is None or self.share.own
        if reader.problems and has_places and not (reader.partitions or reader.waiting or self.settings.logs):
            raise Misconfigured(*(problem.sentence for problem in reader.problems.values()))

    def _is_done(self, *, despite_waiting: bool = False) -> bool:
        """Whether all that was there at the beginning is read, by this collector or another. `despite_waiting`:
        partitions whose leaders do not answer do not count."""
        reader = self.reader
        return self.is_settled and (reader is None or reader.is_done or (despite_waiting and reader.is_at_end))

    def _report_waiting(self, reader: BrokerReader) -> None:
        """Once each time that something cannot be read for now, and once when it can."""
        held_up = [(place, fault) for place, fault in reader.waiting.items() if fault is not None]
        if held_up and not self.is_held_up:
            ((topic, partition), fault), others = held_up[0], len(held_up) - 1
            more = f" and {others} other partitions" if others else ""
            self.report(f"{topic}-{partition}{more} cannot be read for now: {fault}; it is tried again.")
        elif self.is_held_up and not reader.waiting:
            self.report("All partitions can be read again.")
        self.is_held_up = bool(reader.waiting) if self.is_held_up else bool(held_up)

    def _begin_sharing(self, cluster: LiveCluster, topics: Mapping[str, str]) -> None:
        self.places = {
            f"{topic}-{partition}": (topic, partition, kind)
            for topic, kind in topics.items()
            for partition in range(cluster.partition_counts[topic])
        }
        name = self.settings.share_as or ""
        self.share = self.landing.share(
            self.summary.cluster_id, name, self.places, self.record_positions, self.settings.dead_after_s
        )
        self.record_positions = {}
        self._exchange()

    def _exchange(self) -> None:
        """Called right after a flush, when all that was read is landed: shares these positions, and learns what to read
        from now on."""
        if self.share is None or self.reader is None:
            return
        change = self.share.exchange(self.record_positions)
        gone = {self.places[place][:2] for place in change.gone}
        self.reader.drop(gone)
        self.record_positions = {
            place: position for place, position in self.record_positions.items() if place not in change.gone
        }
        for place, position in change.taken.items():
            self.reader.add(*self.places[place], position)
        self.is_settled = change.is_settled
        if change.taken or change.gone:
            self.report(
                f"Reads {len(self.share.own)} of {len(self.places)} partitions; {change.others} other collectors share "
                "them."
            )

    def _catch_up(self) -> None:
        self._flush()
        self.has_caught_up = True
        if self.follower is not None:
            self.follower.caught_up()

    def _report_errors(self, cluster: LiveCluster, *, has_news: bool) -> None:
        if has_news:
            self.reported_errors.clear()
        for line in cluster.take_errors():
            if line not in self.reported_errors:
                self.reported_errors.add(line)
                self.report(line)

    def _poll_broker(self) -> bool:
        at_once = self.settings.is_live and self.has_caught_up
        wait_s = LIVE_WAIT_S if at_once else 0.2
        if self.reader is None:
            if not self.settings.until_end:
                time.sleep(wait_s)
            return False
        arrived = self.reader.poll(wait_s, at_once=at_once)
        is_urgent = self.settings.is_urgent
        for live, messages in arrived:
            if at_once and not self.pending.is_urgent:
                self.pending.is_urgent = any(is_urgent(live.topic, key) for key in map(Message.key, messages))
            last_ms = messages[-1].timestamp()[1]
            self.until_ms = last_ms if self.until_ms is None else max(self.until_ms, last_ms)
        self.pending.add_messages(arrived)
        return bool(arrived)

    def _poll_logs(self, *, is_last: bool = False) -> None:
        now_ms = self.now_ms()
        if not self.settings.logs or not (is_last or self._is_look_due(now_ms)):
            return
        self.tailed_at_ms = now_ms
        for reading, lines in self.tail.poll(now_ms + (SETTLE_MS if is_last else 0)):
            self.pending.add_lines(lines)
            self.pending.is_urgent |= bool(lines)
            self.pending.add_reading(reading)
            self._note(reading)
            if self._is_flush_due(now_ms):
                self._flush()

    def _is_look_due(self, now_ms: int) -> bool:
        waited_ms = abs(now_ms - self.tailed_at_ms)  # the clock may be set back
        if not (self.settings.is_live and self.has_caught_up):
            return waited_ms >= TAIL_EVERY_MS
        before, self.glance = self.glance, self.tail.glance()
        return before != self.glance or self.tail.is_behind or waited_ms >= LIVE_LOOK_MS

    def _report(self, reading: SourceReading, problem: Problem) -> None:
        reading.problems.add(problem)
        self.pending.add_reading(reading)
        self._note(reading)

    def _note(self, reading: SourceReading) -> None:
        for problem in reading.problems:
            self.summary.problems.append(problem.sentence)
            self.report(problem.sentence)

    def _is_flush_due(self, now_ms: int) -> bool:
        return (
            self.pending.item_count >= self.settings.flush_records
            or self.pending.byte_count >= self.settings.flush_bytes
            or now_ms - self.flushed_at_ms >= self.settings.flush_ms
            or (self.settings.is_live and self.pending.is_urgent and now_ms - self.flushed_at_ms >= self.apart_ms)
            or now_ms < self.flushed_at_ms  # the clock was set back
        )

    def _flush(self) -> None:
        """Land what is pending, then the readings, then remember the positions: in this order, a crash only repeats."""
        self.flushed_at_ms = self.now_ms()
        partitions = self.reader.partitions if self.reader is not None else []
        readings = self.reader.end_readings() if self.reader is not None else []
        positions = self.record_positions | {f"{live.topic}-{live.partition}": live.position for live in partitions}
        for reading in readings:
            self._note(reading)
        if self.pending.is_empty and not readings:
            return
        self.is_flushing = True
        landing_id = f"{self.summary.read_id}-{self.flush_count:06d}"
        runs, lines = self.pending.runs, self.pending.lines
        cluster_id = self.summary.cluster_id
        self.summary.record_count += self.landing.write_records(landing_id, cluster_id, runs)
        self.summary.line_count += self.landing.write_log_lines(landing_id, cluster_id, lines)
        self.landing.write_sources(landing_id, cluster_id, landing_id, [*readings, *self.pending.readings()])
        stated = {"partitions": positions} if self.share is None else {}  # else they are in the shared document
        self.landing.write_positions(self.positions_name, {**stated, "logs": self.tail.positions()})
        self.record_positions = positions
        if self.follower is not None and (runs or lines):
            self.follower.landed(
                Landed(
                    cluster_id=cluster_id, runs=runs, lines=lines, until_ms=self.until_ms,
                    is_history=not self.has_caught_up,
                )
            )  # fmt: skip
        self.pending = PendingEvidence()
        self.flush_count += 1
        self.is_flushing = False
        least_ms, most_ms = LIVE_APART_MS
        self.apart_ms = min(max(least_ms, LANDING_SHARE * (self.now_ms() - self.flushed_at_ms)), most_ms)
