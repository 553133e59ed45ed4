"""Records from a running cluster, through confluent-kafka. An observer: it assigns partitions to itself, and never
subscribes, joins, commits or creates anything."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ingest.client_config import without_secrets
from ingest.errors import Misconfigured, Problem, Retryable
from ingest.readings import SourceReading
from ingest.refusals import guess, principal, refusal, settings_fault
from rebalance_audit.domain.connect_topics import internal_topic_kind

TIMEOUT_S = 10.0
FIRST_PATIENCE_S = 1.0
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
FETCH_BYTES, MOST_FETCH_BYTES = 1 << 20, 16 << 20
_OBSERVER = {
    "group.id": "rebalance-audit-observer",  # the client insists on one; no request ever carries it as a member
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "isolation.level": "read_uncommitted",  # aborted commits are evidence, too
    "auto.offset.reset": "error",  # what retention took is to be reported, not jumped over
    "enable.partition.eof": True,
    "allow.auto.create.topics": False,
    # The client counts bytes of keys and values; a small record takes several times as much. It would else ask
    # for more until 100,000 records of each partition wait.
    "queued.max.messages.kbytes": 1_024,
    "queued.min.messages": 1_000,
    "fetch.queue.backoff.ms": 5,  # with the default of a second most of the time goes by with an empty queue
}
_Place = tuple[str | None, int | None]
"""Topic and partition; an error of the client as a whole has none."""
_ADMIN = {"allow.auto.create.topics": False}
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_CREDENTIALS = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL)


@dataclass(slots=True)
class LivePartition:
    """How far one partition was read."""

    topic: str
    partition: int
    kind: str
    position: int
    """The next offset to read."""
    end_offset: int
    """The high watermark when reading began."""
    is_at_end: bool = False
    is_booked: bool = False
    """It has a reading, even if only to say that it was empty."""
    reading: SourceReading = field(init=False)

    def __post_init__(self) -> None:
        self.is_at_end = self.position >= self.end_offset
        self.reading = self._page()

    def begin_reading(self) -> SourceReading:
        """Turn the page of the books; gives back the full one."""
        page, self.reading, self.is_booked = self.reading, self._page(), True
        page.to_position = self.position
        return page

    def _page(self) -> SourceReading:
        name = f"record:{self.topic}-{self.partition}"
        return SourceReading(source=name, kind="record", from_position=self.position)


@dataclass(slots=True)
class _Waiting:
    """A partition that is yet to be opened."""

    kind: str
    position: int | None
    """Where to begin; None: where it begins."""
    fault: str | None = None
    """What its leader answered; None: nobody asked."""


class LiveCluster:
    """A cluster that has answered. Raises Retryable or Misconfigured if it does not answer."""

    def __init__(self, config: Mapping[str, Any], *, timeout_s: float = TIMEOUT_S) -> None:
        self._errors: list[KafkaError] = []
        self.config = {"log_level": 0, "client.id": "rebalance-audit", **config, "error_cb": self._errors.append}
        self.address = str(config.get("bootstrap.servers", ""))
        if not self.address:
            raise Misconfigured("No broker is given; name one with -b HOST:PORT.")
        self.timeout_s = timeout_s
        try:
            self._admin = AdminClient({**self.config, **_ADMIN})
        except KafkaException as error:
            raise self._refused(error) from error
        self._refusals: dict[tuple[str, ...], str | None] = {}
        metadata = self._first_answer()
        self.cluster_id: str = metadata.cluster_id or "unknown"
        self.partition_counts = {name: len(topic.partitions) for name, topic in metadata.topics.items()}

    def _first_answer(self) -> Any:
        """The metadata. A refusal is known long before the time is up: asked again, ever longer, until then."""
        give_up_at = time.monotonic() + self.timeout_s
        patience_s = FIRST_PATIENCE_S
        while True:
            left_s = give_up_at - time.monotonic()
            try:
                return self._admin.list_topics(timeout=max(0.1, min(patience_s, left_s)))
            except KafkaException as error:
                self._admin.poll(0)
                is_refused = any(each.code() in _CREDENTIALS or "SSL" in each.str() for each in self._errors)
                if is_refused or left_s <= patience_s:
                    raise self._no_answer(error) from error
                patience_s *= 2

    def why_not(self, topic: str) -> str | None:
        """Why a topic cannot be read, and what to do; None if it can be found."""
        if topic in self.partition_counts:
            return None
        try:
            error = self._admin.list_topics(topic, timeout=self.timeout_s).topics[topic].error
        except KafkaException as failed:
            raise self._no_answer(failed) from failed
        return self.sentence(topic, error) if error is not None else None

    def sentence(self, topic: str, error: KafkaError, *, missing: str = "DESCRIBE") -> str:
        """Turns an error about one topic into a sentence for the operator. `missing`: the right that the broker wanted
        to see; who has READ may DESCRIBE."""
        if error.code() in _DENIED:
            return (
                f"Topic {topic} on {self.address} may not be read by this user, who lacks {missing}; "
                f"allow DESCRIBE and READ on it (kafka-acls.sh --add --operation Describe --operation Read "
                f"--topic {topic} --allow-principal '{principal(self.config)}')."
            )
        if error.code() in _UNKNOWN:
            return f"Topic {topic} is not on {self.address}, or hidden from this user; check its name and your rights."
        return f"Topic {topic} on {self.address} cannot be read: {self.text(error)}."

    def consumer(self) -> Consumer:
        # The client refuses a limit of a fetch below that of a message, which may be the user's, within reason.
        most = min(max(FETCH_BYTES, int(self.config.get("message.max.bytes", 0))), MOST_FETCH_BYTES)
        try:
            return Consumer({**self.config, **_OBSERVER, "fetch.max.bytes": most})
        except KafkaException as error:
            raise self._refused(error) from error

    def end_offsets(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The next offset that will be written to each (topic, partition). Raises Retryable or Misconfigured."""
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for topic, partition in places}
        if not asked:
            return {}
        try:
            found = self._admin.list_offsets(asked, request_timeout=self.timeout_s)
            return {(p.topic, p.partition): answer.result().offset for p, answer in found.items()}
        except KafkaException as error:
            self._admin.poll(0)
            raise self._no_answer(error) from error

    def take_errors(self) -> list[str]:
        """The errors that the client reported since the last call, each once."""
        refused = any(error.code() in _CREDENTIALS for error in self._errors)
        errors = list(dict.fromkeys(self.text(error) for error in self._errors))
        self._errors.clear()
        if refused and (why := self._why_refused(errors)) is not None:
            return [why]
        return errors

    def _why_refused(self, errors: list[str]) -> str | None:
        """Each set of reports is looked into once: that asks the broker again."""
        key = tuple(sorted({_without_times(text) for text in errors}))
        if key not in self._refusals:
            self._refusals[key] = refusal(self.config, errors)
        why = self._refusals[key]
        return None if why is None else without_secrets(why, self.config)

    def find_connect_topics(self) -> dict[str, str]:
        """Topics whose names hint at Connect and whose first keys prove it: name to `status` or `config`."""
        hinted = [name for name in sorted(self.partition_counts) if not name.startswith("__")
                  and any(hint in name.lower() for hint in ("connect", "status", "config"))]  # fmt: skip
        if not hinted:
            return {}
        reader = BrokerReader(self, dict.fromkeys(hinted, "unknown"))
        keys: dict[str, list[bytes]] = {name: [] for name in hinted}
        try:
            give_up_at = time.monotonic() + self.timeout_s
            while not reader.is_done and time.monotonic() < give_up_at:
                for live, messages in reader.poll(0.2):
                    keys[live.topic] += filter(None, map(Message.key, messages))
                known = [live for live in reader.partitions if len(keys[live.topic]) >= SAMPLED_KEYS]
                reader.drop([(live.topic, live.partition) for live in known])
        finally:
            reader.close()
        kinds = {name: internal_topic_kind(found[:SAMPLED_KEYS]) for name, found in keys.items() if found}
        return {name: kind for name, kind in kinds.items() if kind in ("status", "config")}

    def _refused(self, error: KafkaException) -> Misconfigured:
        said = self.text(error)
        if (why := settings_fault(self.config, said)) is not None:
            return Misconfigured(without_secrets(why, self.config))
        return Misconfigured(f"The client settings are refused: {said}; check -X and the command config.")

    def _no_answer(self, error: KafkaException) -> Retryable | Misconfigured:
        self._admin.poll(0)
        causes = [e for e in self._errors if e.code() != KafkaError._ALL_BROKERS_DOWN]
        errors = list(dict.fromkeys(map(self.text, causes)))
        if (why := self._why_refused(errors)) is not None:
            return Misconfigured(why)
        shown = f" ({errors[0] if errors else self.text(error)})"
        if any(e.code() in _CREDENTIALS for e in causes):
            return Misconfigured(f"{self.address} refused the connection{shown}; check the security settings and "
                                 f"credentials.")  # fmt: skip
        hint = None if errors else guess(self.config)
        return Retryable(f"No broker answers at {self.address} within {self.timeout_s:g} s{shown}; check the address, "
                         f"the network and the security settings{f' ({hint})' if hint else ''}.")  # fmt: skip

    def text(self, error: KafkaError | KafkaException) -> str:
        """What the client says, without secrets."""
        inner = error.args[0] if isinstance(error, KafkaException) and error.args else error
        text = inner.str() if isinstance(inner, KafkaError) else str(inner)
        return without_secrets(text, self.config).rstrip(".")


class BrokerReader:
    """Reads assigned partitions from remembered positions, or from their beginning, and keeps the books."""

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
        self._closed: list[SourceReading] = []
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

    def close_pages(self) -> list[SourceReading]:
        """The books since the last call, of every partition in which something happened."""
        pages, self._closed = self._closed, []
        for live in self._live.values():
            page = live.reading
            if page.item_count or len(page.problems) or live.position != page.from_position or not live.is_booked:
                pages.append(live.begin_reading())
        return pages

    @property
    def is_done(self) -> bool:
        """Everything that was there when reading began is read."""
        return self.is_at_end and not self._waiting

    @property
    def is_at_end(self) -> bool:
        """The same of those partitions whose leaders answered."""
        return all(live.is_at_end for live in self._live.values())

    @property
    def waiting(self) -> dict[tuple[str, int], str | None]:
        """Partitions that are not read yet, by what their leaders answered; None: nobody asked."""
        return {place: waiting.fault for place, waiting in self._waiting.items()}

    def poll(self, wait_s: float, *, at_once: bool = False) -> list[tuple[LivePartition, list[Message]]]:
        """The records that arrived, per partition in offset order. `at_once`: wait for one alone."""
        if opened := self._open_some(OPEN_S):
            self._consumer.incremental_assign([TopicPartition(p.topic, p.partition, p.position) for p in opened])
        arrived = []
        if at_once:
            first = self._consumer.poll(wait_s)
            consumed = [] if first is None else [first, *self._consumer.consume(CONSUME_RECORDS - 1, 0)]
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
        """Read this one, too, from one of the next polls on: from there, or from its beginning."""
        self._place_of = _place_of
        self._waiting[topic, partition] = _Waiting(kind, position)

    def drop(self, places: Iterable[tuple[str, int]]) -> None:
        """Read these no further."""
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
        """Those that were opened. The first that cannot be ends it: it waits, and the others are asked before it."""
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
        """Whether more is known now; else it waits."""
        timeout_s = min(self._patience_s, self._cluster.timeout_s)
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=timeout_s)
        except KafkaException as error:
            if error.args[0].code() in (*_DENIED, *_UNKNOWN):
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
            self._closed.append(live.begin_reading())
            del self._live[place]
            self._open(live.topic, live.partition, _Waiting(live.kind, live.position))
            self._assign()
        elif error.code() in (*_DENIED, *_UNKNOWN):
            self._refuse(live.topic, error, missing="READ")  # its place was found, which needs DESCRIBE
            self._assign()
        # everything else passes by itself: the client goes on trying


def _without_times(text: str) -> str:
    """librdkafka says how many milliseconds it was in which state."""
    return re.sub(r"\d+", "0", text)


def _place_of(message: Message) -> _Place:
    return message.topic(), message.partition()


def start_position(
    topic: str, partition: int, remembered: int | None, low: int, high: int
) -> tuple[int, Problem | None]:
    """Where to begin, and what cannot be had any more."""
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
