"""A running cluster, through confluent-kafka. An observer: it assigns partitions to itself, and never subscribes,
joins, commits or creates anything."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from ingest.client_config import without_secrets
from ingest.errors import Misconfigured, Retryable, and_more
from ingest.refusals import guess, principal, refusal, settings_fault

TIMEOUT_S = 10.0
FIRST_PATIENCE_S = 1.0
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
_ADMIN = {"allow.auto.create.topics": False}
DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)
_CREDENTIALS = (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL)


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
        """The metadata. Each try waits longer than the one before: a refusal is known long before the time is up."""
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
        """An error about one topic as a sentence for the operator. `missing`: the right that the broker asked for; who
        has READ may DESCRIBE."""
        if error.code() in DENIED:
            return (
                f"Topic {topic} on {self.address} may not be read by this user, who lacks {missing}; "
                f"allow DESCRIBE and READ on it (kafka-acls.sh --add --operation Describe --operation Read "
                f"--topic {topic} --allow-principal '{principal(self.config)}')."
            )
        if error.code() in UNKNOWN:
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
            ends = {(p.topic, p.partition): answer.result().offset for p, answer in found.items()}
        except KafkaException as error:
            self._admin.poll(0)
            raise self._no_answer(error) from error
        # of a leader that did not answer in time the client gives an invalid offset, and no error
        unknown = sorted(place for place, end in ends.items() if end < 0)
        if unknown:
            topic, partition = unknown[0]
            raise Retryable(
                f"The leader of {topic}-{partition}{and_more(len(unknown) - 1)} did not answer within "
                f"{self.timeout_s:g} s; look at that broker and the network."
            )
        return ends

    def take_errors(self) -> list[str]:
        """The errors that the client reported since the last call, each once."""
        refused = any(error.code() in _CREDENTIALS for error in self._errors)
        errors = list(dict.fromkeys(self.text(error) for error in self._errors))
        self._errors.clear()
        if refused and (why := self._why_refused(errors)) is not None:
            return [why]
        return errors

    def _why_refused(self, errors: list[str]) -> str | None:
        """The reason behind these reports, kept for each set of them: to find it asks the broker again."""
        key = tuple(sorted({_without_times(text) for text in errors}))
        if key not in self._refusals:
            self._refusals[key] = refusal(self.config, errors)
        why = self._refusals[key]
        return None if why is None else without_secrets(why, self.config)

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
        """The client's message about an error, without secrets."""
        inner = error.args[0] if isinstance(error, KafkaException) and error.args else error
        text = inner.str() if isinstance(inner, KafkaError) else str(inner)
        return without_secrets(text, self.config).rstrip(".")

        # everything else passes by itself: the client goes on trying


def _without_times(text: str) -> str:
    """librdkafka says how many milliseconds it was in which state."""
    return re.sub(r"\d+", "0", text)
