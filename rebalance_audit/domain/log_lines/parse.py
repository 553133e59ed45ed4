"""Reads a log event's text: of which kind it is, about which group, with which fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rebalance_audit.domain.frozen import maker
from rebalance_audit.domain.log_lines import clients, connect_worker, java_coordinator, scala_coordinator
from rebalance_audit.domain.log_lines.heads import LogHead, inner_logger_starts, read_head
from rebalance_audit.domain.log_lines.numbers import java_int
from rebalance_audit.domain.log_lines.rules import (
    LineForm,
    Reading,
    Rules,
    begins_like_one,
    best,
    first_word,
    read_all,
    values,
)
from rebalance_audit.domain.model import LogEvent, LogKind, SourceLine

_COORDINATOR = re.compile(
    r"\[GroupCoordinator (?:id=(?P<java>\d{1,10})(?: topic=__consumer_offsets partition=(?P<partition>\d{1,6}))?\] "
    r"|(?P<scala>\d{1,10})\]: )|\[GroupMetadataManager brokerId=(?P<manager>\d{1,10})\] "
)
_MEMBER = re.compile(r"\[(?P<who>Worker|Consumer) (?:instanceId=(?P<instance>[^\n]{0,300}?), )?clientId=")
_STACK = re.compile(r"\tat |Caused by: |\t\.\.\. |\tSuppressed: |[\w.$]+(?:Exception|Error)\b|\s*\Z")


_MAX_FORGED_BYTES = 131_072
"""A text a client chose is at most 32,767 bytes long and stands in a line at most a few times."""
_MAX_BRACKETS = 16
_BRACKETED = re.compile(r"\[Group(?:Id)? [^\n]*?\][ \[]")


def parse_line(source: SourceLine) -> LogEvent | None:
    """Reads what one log event says about groups; None for an event of no interest. Never raises.

    `could_be_forged` is True if a client's own text may have made the event. One event alone shows this when
    - its message can be read in more than one way: free text in it holds the fixed words of a form; or
    - a first part of it is whole by itself, logger and all, and yet more follows that is no stack trace: the rest of a
      line that a client's text broke in two.
    What one event alone cannot show, its neighbours can: see `parse_lines`. Nothing shows a forgery that a process
    with write access to the log file made. Records confirm or contradict the rest later.
    """
    return _parse(source)[0]


@dataclass(slots=True)
class Torn:
    """The line of a file that was torn and whose torn-off end has not come."""

    at_byte: int | None = None
    """None: there is none."""


def parse_lines(lines: Iterable[SourceLine], torn: Torn | None = None) -> Iterator[LogEvent]:
    """`parse_line` over the events of one file in byte order, marking what follows a line that was cut. `torn`: how the
    events before these left it; at the end it is as these leave it.

    A text with line breaks in a group id (or member id, or reason) tears its own line apart: the true head is left
    without its end, then come the events the client wrote, and the last of these carries the torn-off end. Kafka
    writes an event in one piece, so all between the torn head and the torn-off end is the client's. An event is torn
    if it begins as a known form, goes on in free text and lacks the form's end. The mark ends with the event that
    holds the torn-off end, or where no client's text can reach.
    """
    for _, event, is_within in _followed(lines, Torn() if torn is None else torn):
        if event is not None:
            yield replace(event, could_be_forged=True) if is_within and not event.could_be_forged else event


def outside_torn_lines(lines: Iterable[SourceLine]) -> Iterator[SourceLine]:
    """The events that no client's text can have made by tearing a line (see `parse_lines`), in the order of their files
    and bytes. Other lines may be missing, if those with a coordinator's prefix and without a logger are there. For
    lines that name no group and that no record will confirm one by one."""
    for source, event, is_within in _followed(lines, Torn()):
        if not (is_within or _is_doubtful(event)):
            yield source


def _is_doubtful(event: LogEvent | None) -> bool:
    return event is not None and event.could_be_forged


def _followed(lines: Iterable[SourceLine], torn: Torn) -> Iterator[tuple[SourceLine, LogEvent | None, bool]]:
    """Each line with the event it is, and whether it stands behind a torn head, the torn-off end included."""
    file: tuple[str, str] | None = None
    for source in lines:
        if torn.at_byte is not None and not 0 <= source.byte - torn.at_byte <= _MAX_FORGED_BYTES:
            torn.at_byte = None
        if file is not None and (source.node, source.file_id) != file:
            torn.at_byte = None
        file = source.node, source.file_id
        event, is_torn = _parse(source)
        is_within = torn.at_byte is not None
        if not is_within:
            torn.at_byte = source.byte if is_torn else None
        elif _has_end(source, event, is_torn):
            torn.at_byte = None
        yield source, event, is_within


def _has_end(source: SourceLine, event: LogEvent | None, is_torn: bool) -> bool:
    """Whether the torn-off end of the line above seems to be in this event."""
    if event is not None:
        return event.could_be_forged
    text = source.text.rstrip()
    return "\n" in text and (not is_torn or text.endswith(")"))


def _parse(source: SourceLine) -> tuple[LogEvent | None, bool]:
    """(the event, whether its text was torn inside a client's words)."""
    text = source.text
    # Spelled out: most lines of a broker end here, and a loop takes three times as long.
    is_coordinator = (
        "[GroupCoordinator " in text
        or "[GroupMetadataManager " in text
        or "coordinator.group." in text
        or "Group leader [" in text
        or " is fenced by " in text
    )
    is_member = "[Consumer " in text or "[Worker clientId=" in text
    is_of_worker = (
        " task " in text
        or " connector " in text
        or "WorkerConnector{" in text
        or " Task threw " in text
        or "Advertised URI: " in text
    )
    if not (is_coordinator or is_member or is_of_worker):
        return None, False
    head = read_head(text)
    if head is None:
        return None, False
    message = head.message
    if is_coordinator and (prefix := _COORDINATOR.match(message)):
        return _coordinator(source, head, prefix)
    if is_member and (member := _MEMBER.match(message)):
        return _member(source, head, member), False
    return _bare(source, head)


def _coordinator(source: SourceLine, head: LogHead, prefix: re.Match[str]) -> tuple[LogEvent | None, bool]:
    java, partition_text = prefix["java"], prefix["partition"]
    broker_id = java_int(java or prefix["scala"] or prefix["manager"])
    if broker_id is None:
        return None, False
    partition = int(partition_text) if partition_text else None
    found = _read_coordinator(
        head, head.message[prefix.end() :], java_coordinator.RULES if java else scala_coordinator.RULES, partition
    )
    if isinstance(found, bool):
        return None, found
    reading, forged = found
    fields = values(reading)
    if partition is not None:
        fields.setdefault("offsets_partition", partition)
    return _event(source, head, reading, fields, reading.fields.get("group_id"), broker_id, forged), False


def _read_coordinator(head: LogHead, body: str, by_word: Rules, partition: int | None) -> tuple[Reading, bool] | bool:
    """The reading and whether it may be forged; or, without one, whether the message is torn."""
    candidates = by_word.of(first_word(body))
    if not candidates:
        return False
    readings = read_all(candidates, body)
    if not readings:
        # A client can write a logger's name, too; lines of unknown forms that begin so name their group in brackets.
        return begins_like_one(candidates, body) and not (head.logger is not None and _BRACKETED.match(body))
    return best(readings, partition), _disagree(readings) or _has_torn_off_end(head, body, candidates)


def _disagree(readings: list[Reading]) -> bool:
    """Whether they name different groups or members: forms that contain each other do not."""
    if len(readings) == 1:
        return False
    meant = {(r.rule.kind, r.fields.get("group_id"), r.fields.get("member_id")) for r in readings}
    return len(meant) > 1


def _has_torn_off_end(head: LogHead, body: str, candidates: tuple[LineForm, ...]) -> bool:
    """Whether more follows a message that is whole by itself."""
    if head.trailing and not all(_STACK.match(line) for line in head.trailing.split("\n")):
        return True
    if head.has_logger_tail:
        return any(read_all(candidates, body[:at]) for at in inner_logger_starts(body))
    first, newline, _ = body.partition("\n")
    return bool(newline) and bool(read_all(candidates, first))


def _bare(source: SourceLine, head: LogHead) -> tuple[LogEvent | None, bool]:
    """A message without a prefix: the Scala GroupMetadata class, and a worker's own tasks and connectors."""
    message = head.message
    word = first_word(message)
    if word in _BARE_COORDINATOR_WORDS:
        found = _read_coordinator(head, message, scala_coordinator.RULES, None)
        if isinstance(found, bool):
            return None, found
        reading, forged = found
        if reading.rule.kind not in _BARE_COORDINATOR_KINDS:
            return None, False
        return _event(source, head, reading, values(reading), None, None, forged), False
    readings = read_all(connect_worker.TASK_RULES.of(word), message)
    if not readings or (head.logger is not None and not head.logger.startswith(_TASK_LOGGERS)):
        return None, False
    reading = readings[0]
    return _event(source, head, reading, _worker_values(reading), None, None, False), False


_BARE_COORDINATOR_WORDS = ("Group", "Request", "given")
_BARE_COORDINATOR_KINDS = (LogKind.LEADER_REPLACED, LogKind.LEADER_NOT_REPLACED, LogKind.MEMBER_FENCED)
_TASK_LOGGERS = ("org.apache.kafka.connect.runtime.", "o.a.k.c.runtime.", "o.a.k.c.r.", "Worker")


def _member(source: SourceLine, head: LogHead, prefix: re.Match[str]) -> LogEvent | None:
    """A line behind `[Consumer clientId=…, groupId=…] ` or `[Worker …] `: both ids are free text, so each `] ` may
    be the prefix's end; the first behind which a known form begins is taken."""
    message = head.message
    families = (connect_worker.GROUP_RULES, clients.RULES) if prefix["who"] == "Worker" else (clients.RULES,)
    found: list[tuple[Reading, str]] = []
    end = message.find("] ", prefix.end())
    for _ in range(_MAX_BRACKETS):
        if end < 0:
            break
        body = message[end + 2 :]
        word = first_word(body)
        for family in families:
            candidates = family.of(word)
            if candidates:
                found.extend(
                    (reading, message[prefix.end() : end]) for reading in read_all(candidates, body.rstrip("\r\n"))
                )
        end = message.find("] ", end + 1)
    if not found:
        return None
    reading, ids = found[0]
    client_id, separator, group_id = ids.partition(", groupId=")
    fields = _worker_values(reading)
    fields["client_id"] = client_id
    if prefix["instance"] is not None:
        fields["group_instance_id"] = prefix["instance"]
    return _event(source, head, reading, fields, group_id if separator else None, None, len(found) > 1)


def _worker_values(reading: Reading) -> dict[str, Any]:
    fields = values(reading)
    resource = fields.pop("resource", None)
    if resource is not None:
        connector, _, task = resource.rpartition("-")
        number = java_int(task)
        if connector and number is not None:
            fields["connector"], fields["task"] = connector, number
        else:
            fields["connector"] = resource
    return fields


_make_event = maker(LogEvent)


def _event(
    source: SourceLine,
    head: LogHead,
    reading: Reading,
    fields: dict[str, Any],
    group_id: str | None,
    broker_id: int | None,
    forged: bool,
) -> LogEvent:
    return _make_event(
        kind=reading.rule.kind,
        ref=source.ref,
        node=source.node,
        local_at_ms=head.local_at_ms,
        at_ms=head.at_ms,
        group_id=group_id,
        fields=fields,
        coordinator_broker_id=broker_id,
        could_be_forged=forged,
    )
