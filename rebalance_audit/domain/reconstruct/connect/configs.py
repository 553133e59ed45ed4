"""Connectors and tasks by the config topic, up to a given offset.

A generation's `config_offset` is one past the last config record its leader had read: so an increase between two
generations is exactly the records between. Source: KafkaConfigBackingStore.java;
docs/kafka_writes.md#connect-configurations.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from rebalance_audit.domain.connect_topics import ConnectConfig
from rebalance_audit.domain.model import ConnectRecord, LogEvent

from .rounds import Resource, resource_name

_CAUSES = frozenset({"connector", "commit", "target-state"})
"""Kinds whose records can make workers join again; keys of sessions, restarts, fencing and loggers cannot."""


class Configs:
    """The config topic's records in offset order."""

    def __init__(self, records: Iterable[ConnectRecord]) -> None:
        kept = [r for r in records if isinstance(r.record, ConnectConfig)]
        self._records = sorted(kept, key=lambda r: (r.topic, r.partition, r.offset))
        self._live: dict[str, list[tuple[int, int]]] = {}
        """By connector: (offset, 1 or 0), in order."""
        self._counts: dict[str, list[tuple[int, int]]] = {}
        """By connector: (offset, number of tasks), in order."""
        for record in self._records:
            config: ConnectConfig = record.record
            if config.connector is None:
                continue
            if config.kind == "connector":
                self._live.setdefault(config.connector, []).append((record.offset, int(not config.is_tombstone)))
            elif config.kind == "commit" and config.task_count is not None:
                self._counts.setdefault(config.connector, []).append((record.offset, config.task_count))

        self._changes = self._all_changes()
        self._offsets = [record.offset for _, record in self._changes]

    @property
    def is_known(self) -> bool:
        return bool(self._records)

    def configured(self, until: int) -> frozenset[Resource]:
        """Connectors and tasks that exist for a reader of the records before the offset. After compaction some may be
        missing."""
        found: set[Resource] = {(c, None) for c, steps in self._live.items() if _last_before(steps, until)}
        for connector, steps in self._counts.items():
            if _last_before(self._live.get(connector, []), until) != 0:
                found.update((connector, n) for n in range(_last_before(steps, until) or 0))
        return frozenset(found)

    def is_gone(self, resource: Resource, until: int) -> bool:
        """Whether the connector, or this task of it, is known to be deleted before the offset."""
        connector, task = resource
        if _last_before(self._live.get(connector, []), until) == 0:
            return True
        count = _last_before(self._counts.get(connector, []), until)
        return task is not None and count is not None and task >= count

    def changes(self, after: int, until: int) -> list[tuple[str, ConnectRecord]]:
        """(what happened in words, its record) with after <= offset < until. Names only, never values."""
        return self._changes[bisect_left(self._offsets, after) : bisect_left(self._offsets, until)]

    def lacks(self, after: int, until: int) -> bool:
        """Whether some record with after <= offset < until is not there any more."""
        return len({r.offset for r in self._records if after <= r.offset < until}) < until - after

    def _all_changes(self) -> list[tuple[str, ConnectRecord]]:
        live: dict[str, bool] = {}
        counts: dict[str, int | None] = {}
        found: list[tuple[str, ConnectRecord]] = []
        for record in self._records:
            config: ConnectConfig = record.record
            name = config.connector
            if name is None or config.kind not in _CAUSES:
                continue
            words = _words(config, live.get(name), counts.get(name))
            if config.kind == "connector":
                live[name] = not config.is_tombstone
            elif config.kind == "commit":
                counts[name] = config.task_count
            if words is not None:
                found.append((words, record))
        return found


def _last_before(steps: list[tuple[int, int]], until: int) -> int | None:
    at = bisect_left(steps, (until, -1))
    return steps[at - 1][1] if at else None


def _words(config: ConnectConfig, was_live: bool | None, task_count: int | None) -> str | None:
    name = config.connector
    match config.kind:
        case "connector" if config.is_tombstone:
            return f"connector {name} deleted"
        case "connector":
            return f"connector {name} reconfigured" if was_live else f"connector {name} created"
        case "commit" if config.is_tombstone:
            return None
        case "commit":
            before = "" if task_count is None or task_count == config.task_count else f", {task_count} before"
            return f"tasks of {name} configured ({config.task_count}{before})"
        case _:
            # Deleted along with its connector.
            return None if config.is_tombstone else f"target state of {name}: {config.state}"


def words_of_line(line: LogEvent) -> str:
    """A change of a connector in words, by a worker's own line."""
    fields = line.fields
    match fields.get("change"):
        case "connector_updated":
            return f"connector {fields.get('connector')} created or reconfigured"
        case "connector_removed":
            return f"connector {fields.get('connector')} deleted"
        case "target_state":
            return f"target state of {fields.get('connector')}"
        case _:
            tasks = fields.get("tasks") or ()
            names = [t if isinstance(t, str) else resource_name(t) for t in tasks]
            return f"configurations of tasks {', '.join(names)}"


def connectors_of_line(line: LogEvent) -> list[str]:
    connector = line.fields.get("connector")
    if connector is not None:
        return [str(connector)]
    return [str(task).rpartition("-")[0] for task in line.fields.get("tasks") or ()]
