from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_audit.domain.connect_topics import (
    REDACTED,
    ConnectConfig,
    ConnectStatus,
    decode_config,
    decode_status,
    internal_topic_kind,
    redact_config,
)
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests.domain.records.refusals import refusal
from tests.encoders import connect_json

SECRET = "hunter2-é"
STATUS = {"state": "RUNNING", "trace": None, "worker_id": "localhost:8083", "generation": 3}


class TestStatus:
    def test_a_connector(self) -> None:
        assert decode_status(b"status-connector-alpha", connect_json(STATUS)) == ConnectStatus(
            kind="connector", connector="alpha", task=None, state="RUNNING", worker_id="localhost:8083", generation=3
        )

    def test_a_failed_task_of_a_worker_that_writes_the_plugins_version(self) -> None:
        failed = {**STATUS, "state": "FAILED", "trace": "java.lang…\n\tat x", "version": "4.3.0"}
        read = decode_status(b"status-task-alpha-12", connect_json(failed))
        assert (read.kind, read.connector, read.task, read.state) == ("task", "alpha", 12, "FAILED")
        assert (read.trace, read.version) == ("java.lang…\n\tat x", "4.3.0")

    @pytest.mark.parametrize(
        ("key", "connector", "task"),
        [
            (b"status-connector-alpha-0", "alpha-0", None),
            (b"status-task-alpha-0", "alpha", 0),
            (b"status-task-alpha-0-0", "alpha-0", 0),
            (b"status-task-a b-\xf0\x9f\x98\x80-3", "a b-😀", 3),
            (b"status-connector-task-1", "task-1", None),
        ],
    )
    def test_a_connector_named_like_a_task_is_distinguished_by_its_key(
        self, key: bytes, connector: str, task: int | None
    ) -> None:
        read = decode_status(key, connect_json(STATUS))
        assert (read.connector, read.task) == (connector, task)

    def test_a_tombstone_has_no_state(self) -> None:
        assert decode_status(b"status-task-alpha-0", None).state is None

    def test_a_topic_in_use(self) -> None:
        used = {"topic": {"name": "t", "connector": "alpha", "task": 1, "discoverTimestamp": 1795276800123}}
        read = decode_status(b"status-topic-t:connector-al:connector-pha", connect_json(used))
        assert (read.kind, read.topic, read.connector, read.task) == ("topic", "t", "al:connector-pha", 1)
        assert read.state is not None

    def test_the_envelope_of_old_clusters_is_opened(self) -> None:
        key = b"status-connector-alpha"
        assert decode_status(key, connect_json(STATUS, envelope=True)) == decode_status(key, connect_json(STATUS))

    @pytest.mark.parametrize(
        ("key", "value", "reason", "part"),
        [
            (b"status-task-alpha", b"{}", DecodeReason.BAD_VALUE, "key"),
            (b"status-task-alpha-", b"{}", DecodeReason.BAD_VALUE, "key"),
            (b"status-task--1", b"{}", DecodeReason.BAD_VALUE, "key"),
            ("status-task-alpha-²".encode(), b"{}", DecodeReason.BAD_VALUE, "key"),
            (b"status-task-a-" + b"9" * 5000, b"{}", DecodeReason.BAD_VALUE, "key"),
            (b"status-connector-", b"{}", DecodeReason.BAD_VALUE, "key"),
            (b"status-topic-t", b"{}", DecodeReason.BAD_VALUE, "key"),
            (b"status-new-thing", b"{}", DecodeReason.UNKNOWN_RECORD_TYPE, "key"),
            (b"status-connector-\xff", b"{}", DecodeReason.BAD_UTF8, "key"),
            (b"status-connector-a", b"{}", DecodeReason.BAD_VALUE, "value"),
            (b"status-connector-a", b'{"state":1}', DecodeReason.BAD_VALUE, "value"),
            (b"status-connector-a", b'{"state":"RUNNING","generation":"3"}', DecodeReason.BAD_VALUE, "value"),
            (b"status-connector-a", b"[]", DecodeReason.BAD_VALUE, "value"),
            (b"status-connector-a", b"{", DecodeReason.BAD_JSON, "value"),
            (b"status-connector-a", b"\xff", DecodeReason.BAD_UTF8, "value"),
        ],
        ids=range(15),
    )
    def test_what_is_not_a_status_is_refused(self, key: bytes, value: bytes, reason: DecodeReason, part: str) -> None:
        with pytest.raises(DecodeError) as refused:
            decode_status(key, value)
        assert (refused.value.reason, refused.value.part) == (reason, part)


PROPERTIES = {
    "name": "alpha",
    "connector.class": "FileStreamSource",
    "tasks.max": "4",
    "topics": "orders",
    "connection.password": SECRET,
    "connection.url": f"jdbc:x://user:{SECRET}@h/",
}
CONFIGS: list[tuple[bytes, dict[str, Any], dict[str, Any]]] = [
    (
        b"connector-alpha-0",
        {"properties": PROPERTIES},
        {
            "kind": "connector",
            "connector": "alpha-0",
            "property_names": tuple(sorted(PROPERTIES)),
            "shown": {name: PROPERTIES[name] for name in ("connector.class", "tasks.max", "name", "topics")},
        },
    ),
    (
        b"task-alpha-0-3",
        {"properties": {"task.class": "T", "password": SECRET}},
        {"kind": "task", "connector": "alpha-0", "task": 3, "property_names": ("password", "task.class")},
    ),
    (b"commit-alpha", {"tasks": 4}, {"kind": "commit", "connector": "alpha", "task_count": 4}),
    (b"target-state-alpha", {"state": "PAUSED"}, {"kind": "target-state", "connector": "alpha", "state": "PAUSED"}),
    (
        b"target-state-alpha",
        {"state": "PAUSED", "state.v2": "STOPPED"},
        {"kind": "target-state", "connector": "alpha", "state": "STOPPED"},
    ),
    (
        b"session-key",
        {"key": SECRET, "algorithm": "HmacSHA256", "creation-timestamp": 1795276800123},
        {"kind": "session-key"},
    ),
    (
        b"restart-connector-alpha",
        {"include-tasks": True, "only-failed": False},
        {
            "kind": "restart-connector",
            "connector": "alpha",
            "shown": {"include-tasks": "true", "only-failed": "false"},
        },
    ),
    (b"tasks-fencing-alpha", {"task-count": 2}, {"kind": "tasks-fencing", "connector": "alpha", "task_count": 2}),
    (
        b"logger-cluster-org.apache",
        {"level": "DEBUG"},
        {"kind": "logger-cluster", "shown": {"namespace": "org.apache", "level": "DEBUG"}},
    ),
]
EMPTY: dict[str, Any] = {"connector": None, "task": None, "is_tombstone": False}


@pytest.mark.parametrize(
    ("key", "value", "expected"), CONFIGS, ids=[f"{n}-{c[0].decode()}" for n, c in enumerate(CONFIGS)]
)
class TestConfig:
    def test_what_it_says(self, key: bytes, value: dict[str, Any], expected: dict[str, Any]) -> None:
        assert decode_config(key, connect_json(value)) == ConnectConfig(**{**EMPTY, **expected})

    def test_an_envelope_says_the_same(self, key: bytes, value: dict[str, Any], expected: dict[str, Any]) -> None:
        enveloped = connect_json(value, envelope=True)
        assert decode_config(key, enveloped) == decode_config(key, connect_json(value))
        redacted = redact_config(key, enveloped)
        assert redacted == redact_config(key, connect_json(value))

    def test_redacting_takes_nothing_away_that_we_show(
        self, key: bytes, value: dict[str, Any], expected: dict[str, Any]
    ) -> None:
        redacted = redact_config(key, connect_json(value))
        assert redacted is not None
        assert decode_config(key, redacted) == decode_config(key, connect_json(value))
        assert redact_config(key, redacted) == redacted

    def test_no_secret_is_left(self, key: bytes, value: dict[str, Any], expected: dict[str, Any]) -> None:
        for envelope in (False, True):
            redacted = redact_config(key, connect_json(value, envelope))
            assert redacted is not None
            assert b"hunter2" not in redacted
            assert "hunter2" not in repr(decode_config(key, connect_json(value, envelope)))

    def test_a_tombstone_stays_one(self, key: bytes, value: dict[str, Any], expected: dict[str, Any]) -> None:
        assert redact_config(key, None) is None
        read = decode_config(key, None)
        assert read.is_tombstone
        assert (read.kind, read.connector) == (expected["kind"], expected.get("connector"))


def test_names_of_properties_stay_and_their_values_go() -> None:
    redacted = redact_config(b"connector-alpha", connect_json({"properties": PROPERTIES}))
    assert redacted is not None
    assert json.loads(redacted) == {"properties": {**PROPERTIES, "connection.password": "***", "connection.url": "***"}}


def test_of_the_session_key_only_its_age_stays() -> None:
    value = {"key": SECRET, "algorithm": "HmacSHA256", "creation-timestamp": 5}
    redacted = redact_config(b"session-key", connect_json(value))
    assert redacted == b'{"key":"***","algorithm":"HmacSHA256","creation-timestamp":5}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"a-new-kind-of-record", connect_json({"key": SECRET})),
        (b"session-key-2", connect_json({"key": SECRET})),
        (b"\xff", connect_json({"key": SECRET})),
        (None, connect_json({"key": SECRET})),
        (b"connector-a", connect_json({"property": {"password": SECRET}})),
        (b"connector-a", connect_json({"properties": [SECRET]})),
        (b"connector-a", connect_json([SECRET])),
        (b"connector-a", connect_json(SECRET)),
        (b"connector-a", b'{"properties": {"password": "hunter2"'),
        (b"connector-a", b'{"properties": {"password": "hunter2\xff"}}'),
        (b"connector-a", b'{"x":' * 100_000),
        (b"commit-a", b'{"tasks":' + b"9" * 5000 + b"}"),
        (b"connector-a", b""),
    ],
    ids=range(13),
)
def test_what_is_not_understood_is_dropped_whole(key: bytes | None, value: bytes) -> None:
    assert redact_config(key, value) == REDACTED
    assert redact_config(key, REDACTED) == REDACTED


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"connector-a", {"properties": {"name": {"hidden": SECRET}, "topics": [SECRET], "x": {"y": SECRET}}}),
        (b"connector-a", {"properties": {}, "extra": SECRET}),
        (b"session-key", {"key": {"inner": SECRET}, "algorithm": {"x": SECRET}, "new": SECRET}),
        (b"commit-a", {"tasks": 1, "token": SECRET, "inner": {"x": SECRET}}),
        (b"target-state-a", {"state": "PAUSED", "why": SECRET}),
    ],
)
def test_secrets_in_unexpected_places_go_too(key: bytes, value: dict[str, Any]) -> None:
    redacted = redact_config(key, connect_json(value))
    assert redacted is not None
    assert b"hunter2" not in redacted


def test_of_two_fields_with_one_name_neither_secret_stays() -> None:
    value = b'{"properties":{"p":"hunter2"},"properties":{"p":"hunter2","p":"hunter2"}}'
    assert redact_config(b"connector-a", value) == b'{"properties":{"p":"***"}}'


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.text(max_size=5), st.sampled_from(["properties", "key", "tasks", "state", "payload", "schema"])
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)
KEYS = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([each[0] for each in CONFIGS]),
    st.sampled_from([b"status-connector-a", b"status-task-a-1", b"status-topic-a:connector-b", b'["a",{}]']),
)


@settings(max_examples=300)
@given(KEYS, st.one_of(st.none(), st.binary(max_size=30), JSON.map(connect_json)))
def test_any_bytes_are_read_or_refused_and_nothing_else(key: bytes, value: bytes | None) -> None:
    for read in (decode_status, decode_config):
        refused = refusal(read, key, value)
        assert refused is None or refused.part in ("key", "value")
    redacted = redact_config(key, value)
    assert redact_config(key, redacted) == redacted
    assert (redacted is None) == (value is None)
    internal_topic_kind([key])


@given(st.dictionaries(st.text(max_size=8).map("x{}".format), st.text(min_size=4, max_size=12).map("secret{}".format)))
def test_no_value_of_any_other_property_survives(properties: dict[str, str]) -> None:
    redacted = redact_config(b"task-a-0", connect_json({"properties": properties}))
    assert redacted is not None
    assert json.loads(redacted)["properties"] == dict.fromkeys(properties, "***")


class TestKindOfTopic:
    def test_by_the_shape_of_its_keys(self) -> None:
        assert internal_topic_kind([b"status-connector-a", b"status-task-a-0"]) == "status"
        assert internal_topic_kind([b"session-key", b"connector-a", b"commit-a", b"tasks-fencing-a"]) == "config"
        assert internal_topic_kind([b'["alpha",{"filename":"x"}]']) == "offsets"

    def test_one_key_of_a_later_release_does_not_confuse(self) -> None:
        assert internal_topic_kind([b"session-key", b"connector-a", b"something-new"]) == "config"

    @pytest.mark.parametrize(
        "keys",
        [
            [],
            [b"order-1", b"order-2"],
            [b"connector-a", b"order-1"],
            [b"connector-a", b"status-task-a-0"],
            [b'["alpha"]', b"[1,2]", b"[" * 100_000],
            [b"\xff\xfe"],
        ],
        ids=range(6),
    )
    def test_none_where_keys_disagree_or_say_nothing(self, keys: list[bytes]) -> None:
        assert internal_topic_kind(keys) is None
