"""Movements of consumer and streams groups by lines alone: 3.7 and 3.8 print each step of a consumer group's member,
4.1 on those of a streams group's.

A step shows all that the member works on: what it was given, and what it is to revoke. Topics stand there by id; the
lines of the group's subscription metadata name them. Formats: docs/log_lines.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalance_audit.domain.kinds import ESTIMATE, LOWER, UPPER, Basis, MovementKind, ResourceType
from rebalance_audit.domain.model import LogEvent, LogKind, Mark, Movement
from rebalance_audit.domain.reconstruct.attempts.by_lines import line_order
from rebalance_audit.domain.reconstruct.evidence.marks import LINE_SLACK_MS, logged

from .epoch import Held
from .marks import CALLBACK_BEFORE_RECORD_MS, CURRENT_TO_CALLBACK_MS, CURRENT_TO_TASKS_MS

_GONE = frozenset({LogKind.MODERN_MEMBER_LEFT, LogKind.MEMBER_LEFT, LogKind.MEMBER_FENCED})
_EPOCH = frozenset({LogKind.EPOCH_BUMPED, LogKind.TARGET_COMPUTED})
_TOPIC = re.compile(r"\bid=([\w-]{22}), name=([\w.-]+),", re.ASCII)
_MEMBER_EPOCH = re.compile(r"\bmemberEpoch=(-?\d{1,10})\b", re.ASCII)
_LISTS = re.compile(r"\b(assignedPartitions|partitionsPendingRevocation)=\{([^{}]*)\}", re.ASCII)
_BY_TOPIC = re.compile(r"([\w-]{22})=\[([\d, ]*)\]", re.ASCII)
_BY_PARTITION = re.compile(r"([\w-]{22})-(\d{1,10})(?=[,\]])", re.ASCII)
_ACTIVE = re.compile(r"\bactive=\[([^\[\]]*)\]", re.ASCII)
_TASK = re.compile(r"([\w.-]+)-(\d{1,10})(?:@-?\d{1,10})?(?=,|$)", re.ASCII)

Place = tuple[int, int]
"""An epoch's number, and how many static members had returned in it."""


@dataclass(slots=True)
class ByLines:
    """The assignments and movements that the lines of one epoch's steps show."""

    movements: dict[str, Movement] = field(default_factory=dict)
    """By resource."""
    resource_count: int = 0
    """How many had an owner at its last step."""


class _Step(NamedTuple):
    """All that a member works on from this line on."""

    line: LogEvent
    epoch: int
    held: Mapping[str, Held]
    pending: frozenset[str]


class _Let(NamedTuple):
    """How a resource lost its owner."""

    member_id: str
    given: _Step
    asked: LogEvent | None
    """The line that first asked the owner to revoke; None if it left."""
    gone: LogEvent
    held: Held


def steps_of_lines(lines: Iterable[LogEvent], emptied: Mapping[str, int]) -> dict[Place, ByLines]:
    """The steps that lines show, by epoch. `emptied`: the number of an epoch without members, by the ref of its first
    line."""
    walk = _Walk(emptied)
    ordered = sorted((x for x in lines if x.at_ms is not None), key=line_order)
    for line in ordered:
        if line.kind is LogKind.MODERN_MEMBER_JOINED and "member_id" in line.fields:
            walk.joins.setdefault(line.fields["member_id"], []).append(line)
    for line in ordered:
        walk.see(line)
    return walk.epochs


class _Walk:
    def __init__(self, emptied: Mapping[str, int]) -> None:
        self._emptied = emptied
        self.joins: dict[str, list[LogEvent]] = {}
        """By member: it lives on if it joins again under the same id."""
        self.epochs: dict[Place, ByLines] = {}
        self._names: dict[str, str] = {}
        self._live: dict[str, _Step] = {}
        self._asked: dict[tuple[str, str], LogEvent] = {}
        """By member and resource: the line that first asked for it."""
        self._let: dict[str, _Let] = {}
        self._place: Place = (0, 0)
        self._in_place_of: dict[str, tuple[str, Place]] = {}
        """By the new id of a static member: the old one, and the row of its return."""
        self._is_history_known = False

    def see(self, line: LogEvent) -> None:
        member_id, number = line.fields.get("member_id"), line.fields.get("group_epoch")
        if line.ref in self._emptied:
            self._leave_without_owner(self._emptied[line.ref])
        if line.kind is LogKind.TOPIC_METADATA_COMPUTED:
            self._names |= _TOPIC.findall(str(line.fields.get("metadata")))
        elif line.kind in _EPOCH and isinstance(number, int) and number > self._place[0]:
            self._is_history_known = self._is_history_known or number <= 2
            self._place = number, 0
        elif line.kind is LogKind.STATIC_MEMBER_REPLACED and "group_type" in line.fields:
            self._place = self._place[0], self._place[1] + 1
            self._in_place_of[str(line.fields.get("new_member_id"))] = str(member_id), self._place
            self._let_go(str(member_id), line)
        elif line.kind in _GONE and member_id is not None:
            self._let_go(member_id, line)
        elif line.kind is LogKind.MEMBER_STATE_CHANGED and member_id is not None:
            step = _read(line, self._names)
            if step is not None:
                self._see_step(member_id, step)

    def _see_step(self, member_id: str, step: _Step) -> None:
        before = self._live.get(member_id)
        was = before.held if before is not None else {}
        if before is not None:
            for resource in was.keys() - step.held.keys():
                asked = self._asked.pop((member_id, resource), None)
                self._let[resource] = _Let(member_id, before, asked or before.line, step.line, was[resource])
        old, place = self._in_place_of.get(member_id, ("", (step.epoch, 0)))
        if place[0] != step.epoch:
            place = step.epoch, 0
        epoch = self.epochs.setdefault(place, ByLines())
        for resource in sorted(step.held.keys() - was.keys() - step.pending):
            let = self._let.pop(resource, None)
            if let is not None or self._is_history_known:
                is_same = let is not None and let.member_id in (member_id, old)
                epoch.movements[resource] = self._taken_over(member_id, step, step.held[resource], let, is_same)
        for resource in step.pending:
            self._asked.setdefault((member_id, resource), step.line)
        self._live[member_id] = step
        if step.epoch == self._place[0]:
            epoch.resource_count = len({r for one in self._live.values() for r in one.held})

    def _let_go(self, member_id: str, line: LogEvent) -> None:
        step = self._live.pop(member_id, None)
        for resource, held in step.held.items() if step is not None else ():
            self._asked.pop((member_id, resource), None)
            assert step is not None
            self._let[resource] = _Let(member_id, step, None, line, held)

    def _leave_without_owner(self, number: int) -> None:
        """The last member went: what it held is nobody's."""
        epoch = self.epochs.setdefault((number, 0), ByLines())
        for resource, let in sorted(self._let.items()):
            epoch.movements[resource] = _movement(let.held, MovementKind.REVOKED, let.member_id, None, (), (), let.gone)

    def _taken_over(self, member_id: str, step: _Step, held: Held, let: _Let | None, is_same: bool) -> Movement:
        if let is None:
            return _movement(held, MovementKind.ASSIGNED, None, member_id, (), (), step.line)
        kind = MovementKind.RETURNED if is_same else MovementKind.MOVED
        stops, resumes = self._stop_marks(let), _resume_marks(step.line, is_task=held.topic is None)
        return _movement(held, kind, let.member_id, member_id, stops, resumes, step.line)

    def _stop_marks(self, let: _Let) -> tuple[Mark, ...]:
        gone, asked = let.gone, let.asked
        assert gone.at_ms is not None
        assert let.given.line.at_ms is not None
        if asked is not None and asked.at_ms is not None:
            detail = "it was asked to revoke"
            return (
                logged(LOWER, asked.at_ms - LINE_SLACK_MS, detail, asked.ref),
                logged(ESTIMATE, asked.at_ms, detail, asked.ref, rank=3, basis=Basis.ASKED_TO_REVOKE),
                logged(UPPER, gone.at_ms + LINE_SLACK_MS, "its next step no longer holds the resource", gone.ref),
            )
        # A process that lives on learns at its next poll that it was put out.
        back = next((x for x in self.joins.get(let.member_id, ()) if (x.at_ms or 0) > (gone.at_ms or 0)), None)
        detail, until = "it was gone from the group", gone if back is None else back
        assert until.at_ms is not None
        has_left = gone.kind is not LogKind.MEMBER_FENCED and back is None
        basis = Basis.LEAVE if has_left else Basis.MAY_LIVE_ON if back is not None else Basis.GONE
        return (
            logged(LOWER, let.given.line.at_ms - CALLBACK_BEFORE_RECORD_MS, "it held the resource then", gone.ref),
            logged(ESTIMATE, gone.at_ms, detail, gone.ref, rank=5, basis=basis),
            logged(UPPER, until.at_ms + LINE_SLACK_MS, detail, until.ref),
        )


def _resume_marks(line: LogEvent, *, is_task: bool) -> tuple[Mark, ...]:
    assert line.at_ms is not None
    detail, after_ms, basis = "the member's step first holds the resource", CURRENT_TO_CALLBACK_MS, Basis.EPOCH_RECORD
    if is_task:
        after_ms, basis = CURRENT_TO_TASKS_MS, Basis.TASK_EPOCH_RECORD
    return (
        logged(LOWER, line.at_ms - CALLBACK_BEFORE_RECORD_MS, detail, line.ref),
        logged(ESTIMATE, line.at_ms + after_ms, detail, line.ref, rank=3, basis=basis),
    )


def _movement(
    held: Held,
    kind: MovementKind,
    old: str | None,
    new: str | None,
    stops: tuple[Mark, ...],
    resumes: tuple[Mark, ...],
    line: LogEvent,
) -> Movement:
    refs = (line.ref, *(m.ref for m in (*stops, *resumes) if m.ref is not None))
    return Movement(
        resource_type=ResourceType.STREAM_TASK if held.topic is None else ResourceType.PARTITION,
        resource=held.resource,
        topic=held.topic,
        partition=held.partition,
        kind=kind,
        from_member_id=old,
        to_member_id=new,
        stop_marks=stops,
        resume_marks=resumes,
        evidence=tuple(dict.fromkeys(refs)),
    )


def _read(line: LogEvent, names: Mapping[str, str]) -> _Step | None:
    """None where the line does not hold the whole step."""
    fields = line.fields
    if "to_text" in fields:  # 3.7
        text = str(fields["to_text"])
        epoch, lists = _MEMBER_EPOCH.search(text), dict(_LISTS.findall(text))
        if epoch is None or len(lists) != 2:
            return None
        given, pending = (
            [
                _partition(topic_id, int(number), names)
                for topic_id, numbers in _BY_TOPIC.findall(lists[name])
                for number in numbers.split(",")
                if number.strip()
            ]
            for name in ("assignedPartitions", "partitionsPendingRevocation")
        )
        member_epoch = int(epoch[1])
    elif "revoked_text" in fields:
        member_epoch = fields["member_epoch"]
        texts = (str(fields[name]) for name in ("assigned_text", "revoked_text"))
        if fields.get("group_type") == "streams":
            given, pending = ([_task(*found) for found in _TASK.findall(_active(text))] for text in texts)
        else:
            given, pending = ([_partition(t, int(p), names) for t, p in _BY_PARTITION.findall(x)] for x in texts)
    else:
        return None
    held = {one.resource: one for one in (*given, *pending)}
    return _Step(line, member_epoch, held, frozenset(one.resource for one in pending))


def _active(text: str) -> str:
    found = _ACTIVE.search(text)
    return found[1] if found is not None else ""


def _partition(topic_id: str, number: int, names: Mapping[str, str]) -> Held:
    topic = names.get(topic_id, topic_id)
    return Held(resource=f"{topic}-{number}", topic=topic, partition=number)


def _task(subtopology: str, number: str) -> Held:
    return Held(resource=f"{subtopology}_{number}", topic=None, partition=None)
