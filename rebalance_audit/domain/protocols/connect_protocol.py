"""Worker state and assignment of Connect workers in a classic group, versions 0 to 2.

Source: ConnectProtocol.java, IncrementalCooperativeConnectProtocol.java; KIP-415, KIP-507. The version in a header does
not show the mode: up to Kafka 3.2 an assignment says 1 in a sessioned group too. The group's protocol name shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.protocols.consumer_protocol import read_version
from rebalance_audit.domain.wire import Reader

T = TypeVar("T")

ERROR_NONE = 0
ERROR_CONFIG_MISMATCH = 1
"""The leader's config was behind: the lists are empty and everybody joins again."""

_CONNECTOR_ITSELF = -1


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorTask:
    """A task, or the connector itself."""

    connector: str
    task: int | None
    """None: the connector itself."""

    @property
    def resource(self) -> str:
        """`orders` or `orders-3`. A connector may be named `orders-3` too: never a key on its own."""
        return self.connector if self.task is None else f"{self.connector}-{self.task}"


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAssignment:
    version: int
    error: int
    leader: str
    """A member id."""
    leader_url: str
    config_offset: int
    assigned: tuple[ConnectorTask, ...]
    """Version 0: everything the worker is to run. Versions 1 and 2: only what is new for it."""
    revoked: tuple[ConnectorTask, ...]
    """Versions 1 and 2: what it must give up."""
    delay_ms: int
    """Left at the moment of the assignment until missing tasks are given away; the same for all members."""
    rest: bytes = b""
    """Fields of a later version."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectWorkerState:
    version: int
    url: str
    """The worker's REST URL: what stays the same when it restarts."""
    config_offset: int
    """One past the last record read from the config topic."""
    allocation: ConnectAssignment | None
    """Its running set, in `assigned`; `revoked`, `delay_ms` and `error` in here are history. None: a fresh worker."""
    rest: bytes = b""
    """Fields of a later version."""


def decode_worker_state(data: bytes) -> ConnectWorkerState:
    reader = Reader(data, part="subscription")
    version = read_version(reader)
    url = reader.string("url")
    config_offset = reader.int64("config-offset")
    allocation: ConnectAssignment | None = None
    if version >= 1:
        embedded = _or_default(reader, lambda: reader.nullable_bytes("allocation"), None)
        if embedded is not None:
            # Read in place, so that a refused byte is named by its position in the subscription.
            after, reader.at = reader.at, reader.at - len(embedded)
            outer, reader.end = reader.end, after
            allocation = _read_assignment(reader, is_cooperative=True)
            reader.at, reader.end = after, outer
    return ConnectWorkerState(
        version=version, url=url, config_offset=config_offset, allocation=allocation, rest=reader.rest()
    )


def decode_assignment(data: bytes) -> ConnectAssignment:
    """A worker's assignment. Raises DecodeError. Bytes of length 0 are no assignment: ask before calling."""
    return _read_assignment(Reader(data, part="assignment"))


def _read_assignment(reader: Reader, *, is_cooperative: bool = False) -> ConnectAssignment:
    """Decodes by the version in the header; an allocation always has the cooperative layout."""
    version = read_version(reader)
    error = reader.int16("error")
    leader = reader.string("leader")
    leader_url = reader.string("leader-url")
    config_offset = reader.int64("config-offset")
    revoked: tuple[ConnectorTask, ...] = ()
    delay_ms = 0
    if version == 0 and not is_cooperative:
        assigned = _flat(reader.array("assignment", _read_connector))
    else:
        assigned = _or_default(reader, lambda: _read_connectors(reader, "assignment"), ())
        revoked = _or_default(reader, lambda: _read_connectors(reader, "revoked"), ())
        delay_ms = _or_default(reader, lambda: reader.int32("delay"), 0)
    return ConnectAssignment(
        version=version,
        error=error,
        leader=leader,
        leader_url=leader_url,
        config_offset=config_offset,
        assigned=assigned,
        revoked=revoked,
        delay_ms=delay_ms,
        rest=reader.rest(),
    )


def _or_default(reader: Reader, read: Callable[[], T], default: T) -> T:
    """Kafka lets the last fields be missing altogether; one that has begun must be whole."""
    return read() if reader.remaining else default


def _read_connectors(reader: Reader, field: str) -> tuple[ConnectorTask, ...]:
    return _flat(reader.nullable_array(field, _read_connector))


def _read_connector(reader: Reader) -> tuple[str, tuple[int, ...]]:
    return reader.string("connector"), reader.int32s("tasks")


def _flat(connectors: tuple[tuple[str, tuple[int, ...]], ...] | None) -> tuple[ConnectorTask, ...]:
    return tuple(
        ConnectorTask(connector=connector, task=None if task == _CONNECTOR_ITSELF else task)
        for connector, tasks in connectors or ()
        for task in tasks
    )
