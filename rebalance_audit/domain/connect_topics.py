"""Connect's status and config topics: what a record says, and what of it may be stored.

Source: KafkaStatusBackingStore.java, KafkaConfigBackingStore.java. Old clusters wrapped values as
`{"schema": …, "payload": …}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from rebalance_audit.domain.protocols.json_object import JsonObject, parse, without_lone_surrogates
from rebalance_audit.domain.wire import DecodeError, DecodeReason

TopicKind = Literal["status", "config", "offsets"]
StatusKind = Literal["connector", "task", "topic"]
Kind = TypeVar("Kind", bound=str)

SAFE_PROPERTIES = ("connector.class", "tasks.max", "name", "topics")
"""The properties of connectors and tasks whose values are shown. Any other may be a password."""

HIDDEN = "***"
REDACTED = b'{"redacted":true}'
"""Stands for a value that could not be understood well enough to know what in it is secret."""

_STATUS_PREFIXES: tuple[tuple[str, StatusKind], ...] = (
    ("status-connector-", "connector"),
    ("status-task-", "task"),
    ("status-topic-", "topic"),
)
_CONFIG_PREFIXES = (
    ("connector-", "connector"),
    ("task-", "task"),
    ("commit-", "commit"),
    ("target-state-", "target-state"),
    ("restart-connector-", "restart-connector"),
    ("tasks-fencing-", "tasks-fencing"),
    ("logger-cluster-", "logger-cluster"),
)
_SESSION_KEY = "session-key"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectStatus:
    kind: StatusKind
    connector: str
    task: int | None
    topic: str | None = None
    """Kind `topic`: which topic the connector uses (KIP-558)."""
    state: str | None
    """None: a tombstone. Kind `topic`: ACTIVE."""
    trace: str | None = None
    """Stack trace of a failure."""
    worker_id: str | None = None
    """`host:port` of the worker's REST listener; not a member id."""
    generation: int | None = None
    """The group's when this worker last started or stopped the item: it lags, and UNASSIGNED carries the old one."""
    version: str | None = None
    """The plugin's version; Kafka 4.1 and later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectConfig:
    kind: str
    """connector, task, commit, target-state, session-key, restart-connector, tasks-fencing or logger-cluster."""
    connector: str | None
    """Kind `logger-cluster`: None; the namespace is in `shown`."""
    task: int | None
    is_tombstone: bool
    task_count: int | None = None
    """Kinds commit and tasks-fencing."""
    state: str | None = None
    """Kind target-state: STARTED, PAUSED or STOPPED (KIP-875)."""
    property_names: tuple[str, ...] = ()
    """Kinds connector and task, sorted. Values are never here."""
    shown: Mapping[str, str] = field(default_factory=dict)
    """Values that give nothing away."""


def internal_topic_kind(keys: Sequence[bytes]) -> TopicKind | None:
    """The one of Connect's topics that has keys like these; None unless most of them agree and none says otherwise."""
    kinds = [kind for kind in map(key_kind, keys) if kind is not None]
    if not kinds or len(set(kinds)) > 1 or 2 * len(kinds) <= len(keys):
        return None
    return kinds[0]


def key_kind(key: bytes | None) -> TopicKind | None:
    """The one of Connect's topics that has a key like this."""
    if key is None:
        return None
    if key.startswith(tuple(prefix.encode() for prefix, _ in _STATUS_PREFIXES)):
        return "status"
    if key == _SESSION_KEY.encode() or key.startswith(tuple(prefix.encode() for prefix, _ in _CONFIG_PREFIXES)):
        return "config"
    if key.startswith(b"["):
        try:
            content = parse(key, "key")
        except DecodeError:
            return None
        if isinstance(content, list) and len(content) == 2 and isinstance(content[0], str):
            return "offsets"
    return None


def decode_status(key: bytes, value: bytes | None) -> ConnectStatus:
    """Raises DecodeError."""
    kind, connector, task, topic = _split_status_key(_key_text(key))
    if value is None:
        return ConnectStatus(kind=kind, connector=connector, task=task, topic=topic, state=None)
    content = _payload(value)
    if kind == "topic":
        active = content.object_("topic")
        return ConnectStatus(
            kind=kind, connector=connector, task=active.optional_int("task"), topic=topic, state="ACTIVE"
        )
    return ConnectStatus(
        kind=kind,
        connector=connector,
        task=task,
        state=content.text("state"),
        trace=content.optional_text("trace"),
        worker_id=content.optional_text("worker_id"),
        generation=content.optional_int("generation"),
        version=content.optional_text("version"),
    )


def _split_status_key(text: str) -> tuple[StatusKind, str, int | None, str | None]:
    kind, rest, at = _split_prefix(text, _STATUS_PREFIXES)
    if kind == "task":
        return kind, *_split_task(rest, at), None
    if kind == "topic":
        topic, separator, connector = rest.partition(":connector-")
        if not (topic and separator and connector):
            raise DecodeError(DecodeReason.BAD_VALUE, at, "topic", "key")
        return kind, connector, None, topic
    return kind, _named(rest, at), None, None


def decode_config(key: bytes, value: bytes | None) -> ConnectConfig:
    """What a record of Connect's config topic says. The answer is the same for a value as it was written and for one
    that `redact_config` made of it. Raises DecodeError."""
    kind, connector, task, namespace = _split_config_key(_key_text(key))
    if value is None:
        return ConnectConfig(kind=kind, connector=connector, task=task, is_tombstone=True)
    content = _payload(value)
    task_count: int | None = None
    state: str | None = None
    names: tuple[str, ...] = ()
    shown: dict[str, str] = {}
    match kind:
        case "connector" | "task":
            properties = content.object_("properties").fields
            names = tuple(sorted(without_lone_surrogates(name) for name in properties))
            shown = {
                name: without_lone_surrogates(properties[name])
                for name in SAFE_PROPERTIES
                if isinstance(properties.get(name), str)
            }
        case "commit":
            task_count = content.int_("tasks")
        case "tasks-fencing":
            task_count = content.int_("task-count")
        case "target-state":
            state = content.optional_text("state.v2") or content.text("state")
        case "restart-connector":
            for name in ("include-tasks", "only-failed"):
                flag = content.optional_bool(name)
                if flag is not None:
                    shown[name] = str(flag).lower()
        case "logger-cluster":
            shown = {"namespace": namespace or "", "level": content.optional_text("level") or ""}
    return ConnectConfig(
        kind=kind,
        connector=connector,
        task=task,
        is_tombstone=False,
        task_count=task_count,
        state=state,
        property_names=names,
        shown=shown,
    )


def _split_config_key(text: str) -> tuple[str, str | None, int | None, str | None]:
    """Kind, connector, task, logger namespace."""
    if text == _SESSION_KEY:
        return _SESSION_KEY, None, None, None
    kind, rest, at = _split_prefix(text, _CONFIG_PREFIXES)
    if kind == "task":
        return kind, *_split_task(rest, at), None
    if kind == "logger-cluster":
        return kind, None, None, rest
    return kind, _named(rest, at), None, None


def redact_config(key: bytes | None, value: bytes | None) -> bytes | None:
    """The value of a config record without its secrets; what is not understood is dropped whole. Never raises.

    Redacting twice changes nothing.
    """
    if value is None or value == REDACTED:
        return value
    try:
        kind = _split_config_key(_key_text(key or b""))[0]
        content = _payload(value).fields
        redact = _REDACTIONS[kind]
        return json.dumps(redact(content), ensure_ascii=True, separators=(",", ":")).encode("ascii")
    except (DecodeError, ValueError, RecursionError):
        return REDACTED


def _redact_properties(content: dict[str, Any]) -> dict[str, Any]:
    properties = content.get("properties")
    if not isinstance(properties, dict):
        raise ValueError("no properties")
    return {
        "properties": {
            name: value if value is None or (name in SAFE_PROPERTIES and isinstance(value, str)) else HIDDEN
            for name, value in properties.items()
        }
    }


def _only(*names: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Keeps the plain values of these fields."""

    def redact(content: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value if isinstance(value, str | int | None) and name in names else HIDDEN
            for name, value in content.items()
        }

    return redact


_REDACTIONS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "connector": _redact_properties,
    "task": _redact_properties,
    "session-key": _only("algorithm", "creation-timestamp"),
    "commit": _only("tasks"),
    "tasks-fencing": _only("task-count"),
    "target-state": _only("state", "state.v2"),
    "restart-connector": _only("include-tasks", "only-failed"),
    "logger-cluster": _only("level"),
}


def _key_text(key: bytes) -> str:
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError as refused:
        raise DecodeError(DecodeReason.BAD_UTF8, refused.start, "", "key") from None


def _split_prefix(text: str, prefixes: Iterable[tuple[str, Kind]]) -> tuple[Kind, str, int]:
    """Kind, what follows its prefix, and where that begins."""
    for prefix, kind in prefixes:
        if text.startswith(prefix):
            return kind, text[len(prefix) :], len(prefix)
    raise DecodeError(DecodeReason.UNKNOWN_RECORD_TYPE, 0, "", "key")


def _named(connector: str, at: int) -> str:
    if not connector:
        raise DecodeError(DecodeReason.BAD_VALUE, at, "connector", "key")
    return connector


def _split_task(rest: str, at: int) -> tuple[str, int]:
    """Connector names may hold dashes: the last one counts."""
    connector, dash, number = rest.rpartition("-")
    if not connector or not dash or not (number.isascii() and number.isdigit()) or len(number) > 10:
        raise DecodeError(DecodeReason.BAD_VALUE, at, "task", "key")
    return connector, int(number)


def _payload(value: bytes) -> JsonObject:
    content = parse(value)
    if isinstance(content, dict) and content.keys() == {"schema", "payload"}:
        content = content["payload"]
    if not isinstance(content, dict):
        raise DecodeError(DecodeReason.BAD_VALUE, 0, "", "value")
    return JsonObject(content, "value")
