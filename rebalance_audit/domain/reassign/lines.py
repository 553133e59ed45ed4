"""Log lines as what reassignments are told with: `parse_controller_line`, and the few forms only this part needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rebalance_audit.domain.clocks import NodeClock
from rebalance_audit.domain.log_lines import ControllerEvent, ControllerKind, parse_controller_line, read_head
from rebalance_audit.domain.log_lines.controller import CONTROLLER_SIGNS
from rebalance_audit.domain.model import SourceLine
from rebalance_audit.domain.reassign.advice import is_legal_topic
from rebalance_audit.domain.reassign.brokers import THROTTLES

_ELECT_PREFERRED = re.compile(r"\[QuorumController id=(\d+)\] Periodic task electPreferred generated (\d+) records? ")
_TOPIC_DELETED = re.compile(
    r"\[Topic Deletion Manager (\d+)\] Deletion of topic ([\w.-]{1,249}) successfully completed"
)
_TOPIC_DELETING = re.compile(r"\[Topic Deletion Manager (\d+)\] Handling deletion for topics ([\w.,-]+)")
_NO_OVERRIDE = re.compile(r"Processing override for entityPath: (\S+) with config: (?:\w+\(\)|\{\})")
_SIGNS = ("electPreferred generated", "Topic Deletion Manager", "Processing override for entityPath")
_ENTRY = re.compile("(" + "|".join(re.escape(name) for name in THROTTLES) + r")(?: -> |=)")
PREFERRED_RUN = "preferred_run"
LINE_SIGNS = (*CONTROLLER_SIGNS, *_SIGNS)
"""A line without any of these says nothing here."""


@dataclass(frozen=True, slots=True)
class Line:
    """An event with its settled time."""

    at_ms: int
    event: ControllerEvent
    kind: str
    """A ControllerKind, or PREFERRED_RUN: automatic elections in KRaft (count)."""

    @property
    def fields(self) -> Mapping[str, Any]:
        return self.event.fields


@dataclass(slots=True)
class LogLines:
    """Reads lines of all nodes in any order. `utc_offset_ms` per node is subtracted from local times."""

    utc_offset_ms: Mapping[str, int] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)

    def read(self, sources: Iterable[SourceLine]) -> LogLines:
        for source in sources:
            self.lines.extend(self._parsed(source))
        return self

    def take(self, events: Iterable[ControllerEvent]) -> LogLines:
        """Events that were parsed elsewhere."""
        self.lines.extend(self._line(event, event.kind.value) for event in events)
        return self

    def in_order(self) -> list[Line]:
        """By time; lines of one file keep their order."""
        return sorted(self.lines, key=lambda line: line.at_ms)

    def _parsed(self, source: SourceLine) -> Iterator[Line]:
        if (event := parse_controller_line(source)) is not None:
            if event.topic is None or is_legal_topic(event.topic):
                yield self._line(event, event.kind.value)
        elif any(sign in source.text for sign in _SIGNS) and (head := read_head(source.text)) is not None:
            for kind, logged_by, topic, fields in _own_forms(head.message):
                event = ControllerEvent(
                    kind=ControllerKind.TOPIC_REMOVED,
                    ref=source.ref,
                    node=source.node,
                    local_at_ms=head.local_at_ms,
                    at_ms=head.at_ms,
                    topic=topic,
                    logged_by=logged_by,
                    fields=fields,
                )
                if kind == ControllerKind.THROTTLE_CHANGED:
                    event = replace(event, kind=ControllerKind.THROTTLE_CHANGED)
                yield self._line(event, kind)

    def _line(self, event: ControllerEvent, kind: str) -> Line:
        at_ms = event.at_ms
        if at_ms is None:
            at_ms = event.local_at_ms - self.utc_offset_ms.get(event.node, 0)
        return Line(at_ms, event, kind)


def settled(lines: Iterable[Line], clocks: Mapping[str, NodeClock]) -> list[Line]:
    """By time, as the nodes' clocks tell it. Given by node, file and byte; a node without a clock keeps its times."""
    found = []
    latest: dict[str, int] = {}
    for line in lines:
        clock = clocks.get(line.event.node)
        file = line.event.ref.rpartition("@")[0]
        if line.event.at_ms is None and clock is not None:
            line = replace(line, at_ms=clock.to_utc_ms(line.event.local_at_ms, not_before_ms=latest.get(file)))
        latest[file] = line.at_ms
        found.append(line)
    return sorted(found, key=lambda line: line.at_ms)


def _own_forms(message: str) -> Iterator[tuple[str, int | None, str | None, dict[str, Any]]]:
    if found := _ELECT_PREFERRED.match(message):
        yield PREFERRED_RUN, int(found[1]), None, {"count": int(found[2])}
    elif found := _TOPIC_DELETED.match(message):
        yield ControllerKind.TOPIC_REMOVED.value, int(found[1]), found[2], {}
    elif found := _TOPIC_DELETING.match(message):
        for topic in found[2].split(","):
            yield ControllerKind.TOPIC_REMOVED.value, int(found[1]), topic, {}
    elif found := _NO_OVERRIDE.match(message):
        yield ControllerKind.THROTTLE_CHANGED.value, None, None, {"entity": found[1], "text": ""}


def throttles_in(text: str) -> dict[str, str]:
    """Of `HashMap(leader.replication.throttled.rate -> 700000, …)`: names with their values; lists hold commas too."""
    found = list(_ENTRY.finditer(text))
    ends = [*(entry.start() for entry in found[1:]), len(text)][: len(found)]
    return {
        entry[1]: text[entry.end() : end].rstrip(")} ").rstrip(",").strip()
        for entry, end in zip(found, ends, strict=True)
    }
