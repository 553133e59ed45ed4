"""Reads partitions of a running cluster from where they were left, and notes what was read."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from ingest.broker import DENIED, UNKNOWN, LiveCluster
from ingest.errors import Problem
from ingest.readings import SourceReading
from rebalance_audit.domain.connect_topics import internal_topic_kind

SAMPLED_KEYS = 20
OPEN_S = 0.5
"""The part of each poll that may be spent on asking where partitions begin and end: a slow broker must not keep a
collector from showing that it is alive."""
PATIENCE_S = (2.0, 5.0)
"""How long a leader's first answer is waited for, and the longest wait; each further try waits twice as long."""
AGAIN_S = (0.5, 30.0)
"""The time between two such tries that failed: the first, and the longest."""
CONSUME_RECORDS = 1_000
"""Records that are taken at once: of this many objects, most are still in the core's own cache when they are read."""
GATHER_S = 0.02
"""After the first record of a poll that waits for one: beside a busy cluster there are then hundreds, not a few. A poll
costs as much as the reading of some fifty records."""
NO_ANSWER_MS = 30_000
"""If there is an end to reach: give up after so long without a record or an end of a partition."""
_Place = tuple[str | None, int | None]
"""Topic and partition; an error of the client as a whole has none."""


@dataclass(slots=True)
class LivePartition:
    """One partition that is read: where it is, and what was read since its last reading ended."""

    topic: str
    partition: int
    kind: str
    position: int
    """The next offset to read."""
    end_offset: int
    """The high watermark when reading began."""
    is_at_end: bool = False
    was_noted: bool = False
    """A reading of it has ended, even if only to say that it was empty."""
    reading: SourceReading = field(init=False)

    def __post_init__(self) -> None:
        self.is_at_end = self.position >= self.end_offset
        self.reading = self._new_reading()

    def end_reading(self) -> SourceReading:
        """End the reading here, and begin the next one; returns the one that ended."""
        ended, self.reading, self.was_noted = self.reading, self._new_reading(), True
        ended.to_position = self.position
        return ended

    def _new_reading(self) -> SourceReading:
        name = f"record:{self.topic}-{self.partition}"
        return SourceReading(source=name, kind="record", from_position=self.position)


@dataclass(slots=True)
class _Waiting:
    """A partition that is yet to be opened."""

    kind: str
    position: int | None
    """The first offset to read; None: the partition's first."""
    fault: str | None = None
    """What its leader answered; None: nobody asked."""


class BrokerReader:
    """Reads assigned partitions from remembered positions, or from their beginning, and notes what was read."""

    def __init__(
        self,
        cluster: LiveCluster,
        topics: Mapping[str, str],
        positions: Mapping[str, int] | None = None,
        partitions: Mapping[str, Iterable[int]] | None = None,
    ) -> None:
        """`topics`: name to kind. `partitions` restricts some topics to some partitions."""
        self._cluster = cluster
        self._consumer = cluster.consumer()
        self._place_of: Callable[[Message], object] = Message.partition if len(topics) == 1 else _place_of
        self._live: dict[_Place, LivePartition] = {}
        self._waiting: dict[tuple[str, int], _Waiting] = {}
        self._patience_s, self._again_s, self._again_at = PATIENCE_S[0], AGAIN_S[0], 0.0
        self._ended: list[SourceReading] = []
        self.problems: dict[str, Problem] = {}
        """Topics that are not read, and why."""
        for topic, kind in topics.items():
            wanted = (partitions or {}).get(topic, range(cluster.partition_counts.get(topic, 0)))
            for partition in wanted:
                position = (positions or {}).get(f"{topic}-{partition}")
                self._waiting[topic, partition] = _Waiting(kind, position)
        self._open_some(math.inf)
        self._assign()

    @property
    def partitions(self) -> list[LivePartition]:
        return list(self._live.values())

    def end_readings(self) -> list[SourceReading]:
        """The readings since the last call, of every partition in which something happened."""
        ended, self._ended = self._ended, []
        for live in self._live.values():
            now = live.reading
            if now.item_count or len(now.problems) or live.position != now.from_position or not live.was_noted:
                ended.append(live.end_reading())
        return ended

    @property
    def is_done(self) -> bool:
        """Whether everything is read that was there when reading began."""
        return self.is_at_end and not self._waiting

    @property
    def is_at_end(self) -> bool:
        """Like `is_done`, but only for partitions whose leaders answered."""
        return all(live.is_at_end for live in self._live.values())

    @property
    def waiting(self) -> dict[tuple[str, int], str | None]:
        """(topic, partition) of those that are not read yet -> what their leaders answered; None: nobody asked them."""
        return {place: waiting.fault for place, waiting in self._waiting.items()}

    def poll(self, wait_s: float, *, at_once: bool = False) -> list[tuple[LivePartition, list[Message]]]:
        """The records that arrived, per partition in offset order. `at_once`: wait for one, and GATHER_S for others."""
        if opened := self._open_some(OPEN_S):
            self._consumer.incremental_assign([TopicPartition(p.topic, p.partition, p.position) for p in opened])
        arrived = []
        if at_once:
            first = self._consumer.poll(wait_s)
            consumed = [] if first is None else [first, *self._consumer.consume(CONSUME_RECORDS - 1, GATHER_S)]
        else:
            consumed = self._consumer.consume(CONSUME_RECORDS, wait_s)
        for _, run in groupby(consumed, key=self._place_of):
            messages = list(run)
            place = _place_of(messages[0])
            if any(map(Message.error, messages)):
                messages = self._without_errors(place, messages)
            if messages and (live := self._live.get(place)) is not None:
                first, last = messages[0], messages[-1]
                live.position = last.offset() + 1
                live.is_at_end = live.is_at_end or live.position >= live.end_offset
                live.reading.saw_records(len(messages), first.timestamp()[1], last.timestamp()[1])
                arrived.append((live, messages))
        return arrived

    def _without_errors(self, place: _Place, messages: list[Message]) -> list[Message]:
        for message in messages:
            if (error := message.error()) is not None:
                self._on_error(place, message.offset(), error)
        return [message for message in messages if message.error() is None]

    def add(self, topic: str, partition: int, kind: str, position: int | None) -> None:
        """Read this partition, too, from one of the next polls on. `position`: the first offset; None: the partition's
        beginning."""
        self._place_of = _place_of
        self._waiting[topic, partition] = _Waiting(kind, position)

    def drop(self, places: Iterable[tuple[str, int]]) -> None:
        """Stop reading these partitions; ones that are not read are ignored."""
        gone = []
        for place in places:
            self._waiting.pop(place, None)
            if self._live.pop(place, None) is not None:
                gone.append(TopicPartition(*place))
        if gone:
            self._consumer.incremental_unassign(gone)

    def close(self) -> None:
        self._consumer.close()

    def _open_some(self, within_s: float) -> list[LivePartition]:
        """Open waiting partitions; returns those. The first that cannot be opened ends it, and is last in the queue."""
        opened: list[LivePartition] = []
        began = time.monotonic()
        while self._waiting and (now := time.monotonic()) < began + within_s:
            place, waiting = next(iter(self._waiting.items()))
            is_again = waiting.fault is not None
            if is_again and now < self._again_at:
                break
            del self._waiting[place]
            if self._open(*place, waiting):
                opened += filter(None, [self._live.get(place)])
                self._patience_s, self._again_s, self._again_at = PATIENCE_S[0], AGAIN_S[0], 0.0
            else:
                self._again_at = time.monotonic() + self._again_s
                if is_again:
                    self._patience_s = min(2 * self._patience_s, PATIENCE_S[1])
                    self._again_s = min(2 * self._again_s, AGAIN_S[1])
                break
        return opened

    def _open(self, topic: str, partition: int, waiting: _Waiting) -> bool:
        """Whether it was opened or refused; else it goes on waiting."""
        timeout_s = min(self._patience_s, self._cluster.timeout_s)
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
        except KafkaException as error:
            if error.args[0].code() in (*DENIED, *UNKNOWN):
                self._refuse(topic, error.args[0])
                return True
            waiting.fault = self._cluster.text(error)  # it passes: a leader moves, a broker starts
            self._waiting[topic, partition] = waiting
            return False
        position, problem = start_position(topic, partition, waiting.position, low, high)
        live = self._live[topic, partition] = LivePartition(topic, partition, waiting.kind, position, high)
        if problem is not None:
            live.reading.problems.add(problem)
        return True

    def _refuse(self, topic: str, error: KafkaError, *, missing: str = "DESCRIBE") -> None:
        sentence = self._cluster.sentence(topic, error, missing=missing)
        self.problems[topic] = Problem(code="unreadable", sentence=sentence)
        self._live = {place: live for place, live in self._live.items() if place[0] != topic}
        self._waiting = {place: waiting for place, waiting in self._waiting.items() if place[0] != topic}

    def _assign(self) -> None:
        self._consumer.assign([TopicPartition(p.topic, p.partition, p.position) for p in self._live.values()])

    def _on_error(self, place: _Place, offset: int, error: KafkaError) -> None:
        live = self._live.get(place)
        if live is None:
            return
        if error.code() == KafkaError._PARTITION_EOF:
            live.position, live.is_at_end = max(live.position, offset), True
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            self._ended.append(live.end_reading())
            del self._live[place]
            self._open(live.topic, live.partition, _Waiting(live.kind, live.position))
            self._assign()
        elif error.code() in (*DENIED, *UNKNOWN):
            self._refuse(live.topic, error, missing="READ")  # its place was found, which needs DESCRIBE
            self._assign()


def _place_of(message: Message) -> _Place:
    return message.topic(), message.partition()


def start_position(
    topic: str, partition: int, remembered: int | None, low: int, high: int
) -> tuple[int, Problem | None]:
    """The first offset to read, and the problem if some that were remembered are gone. `low`, `high`: the partition's
    first and next offset."""
    if remembered is None:
        return low, None
    if remembered < low:
        sentence = f"{topic}-{partition}: offsets {remembered} to {low - 1} were deleted before they were read."
        return low, Problem(code="lost", sentence=sentence, position=remembered)
    if remembered > high:
        sentence = (
            f"{topic}-{partition} was read up to offset {remembered} and now ends at {high}: it was truncated or "
            f"recreated. It is read again from its beginning."
        )
        return low, Problem(code="lost", sentence=sentence, position=high)
    return remembered, None


def find_connect_topics(cluster: LiveCluster) -> dict[str, str]:
    """Topics whose names hint at Connect and whose first keys prove it: name to `status` or `config`."""
    hinted = [name for name in sorted(cluster.partition_counts) if not name.startswith("__")
              and any(hint in name.lower() for hint in ("connect", "status", "config"))]  # fmt: skip
    if not hinted:
        return {}
    reader = BrokerReader(cluster, dict.fromkeys(hinted, "unknown"))
    keys: dict[str, list[bytes]] = {name: [] for name in hinted}
    try:
        give_up_at = time.monotonic() + cluster.timeout_s
        while not reader.is_done and time.monotonic() < give_up_at:
            for live, messages in reader.poll(0.2):
                keys[live.topic] += filter(None, map(Message.key, messages))
            known = [live for live in reader.partitions if len(keys[live.topic]) >= SAMPLED_KEYS]
            reader.drop([(live.topic, live.partition) for live in known])
    finally:
        reader.close()
    kinds = {name: internal_topic_kind(found[:SAMPLED_KEYS]) for name, found in keys.items() if found}
    return {name: kind for name, kind in kinds.items() if kind in ("status", "config")}
