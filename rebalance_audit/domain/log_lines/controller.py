"""Lines of controllers and brokers about reassignments and leaders: ZooKeeper mode (to 3.9), brokers, KRaft.

Text is the only source in ZooKeeper mode; in KRaft the metadata records are better: a line `Replayed …` stands in the
log of every controller, with the time of its replay. Forms: docs/log_lines.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from rebalance_audit.domain.log_lines.controller_events import ControllerEvent, ControllerKind
from rebalance_audit.domain.log_lines.controller_forms import BROKER, KRAFT, LEADER, ZOOKEEPER, Forms
from rebalance_audit.domain.log_lines.forms_by_word import FormsByWord
from rebalance_audit.domain.log_lines.heads import LogHead, read_head
from rebalance_audit.domain.log_lines.numbers import int_of, java_int
from rebalance_audit.domain.log_lines.templates import Template, template
from rebalance_audit.domain.model import SourceLine

_PREFIX = re.compile(
    r"\[(?:QuorumController id=|Controller id=|Controller |Broker id=|PartitionStateMachine controllerId=|"
    r"ReplicaManager broker=|ReplicaFetcherManager on broker )(\d{1,10})(?: epoch=\d{1,10})?\]:? "
)
_BEFORE_3_5 = re.compile(r"\[Controller \d")
"""KRaft's controllers; those of ZooKeeper mode print `[Controller id=1]`."""
_PARTITION_PREFIX = re.compile(r"\[Partition (?P<tp>[\w.-]{1,260}) broker=(?P<broker>\d{1,10})\] ")
CONTROLLER_SIGNS = (
    "[Controller ",
    "[QuorumController ",
    "[Partition ",
    "[Broker ",
    "[ReplicaFetcherManager ",
    "is scheduled for deletion",
    "Processing override for entityPath",
)


@dataclass(frozen=True, slots=True)
class _ControllerForm:
    template: Template
    kind: ControllerKind
    constants: Mapping[str, Any]


def _rules(*tables: Forms) -> FormsByWord[_ControllerForm]:
    return FormsByWord((_first_word(form[1]), partial(_compiled, *form)) for table in tables for form in table)


def _compiled(kind: ControllerKind, text: str, constants: Mapping[str, Any] | None = None) -> _ControllerForm:
    return _ControllerForm(template(text), kind, constants or {})


def _first_word(message: str) -> str:
    """The key of forms; all that begin with a number share one."""
    return "#" if message[:1] == "<" or message[:1].isdigit() else message[:80].split(" ", 1)[0]


_RULES = _rules(ZOOKEEPER, BROKER, KRAFT)
_LEADER_RULES = _rules(LEADER)
_BULK = re.compile(r"(\S{1,300}): changing (\d{1,10}) partition\(s\)\.?\Z")
_BROKER_IDS = re.compile(r"-?\d{1,20}")
_ISR = re.compile(r"isr=\w+\(([\d, ]*)\)")
_ISR_WITH_EPOCH = re.compile(r"brokerId=(-?\d{1,20})")
_ZK_VERSION = re.compile(r"(?:zkVersion|partitionEpoch)=(\d{1,9})\)")
_RECORD_FIELD = re.compile(r"(\w+)=(\[[^\]]*\]|[^,\[\]]*)(?:, |\Z)")
_MAX_RECORD = 65_536


def parse_controller_line(source: SourceLine) -> ControllerEvent | None:
    """Reads a line of controller.log, state-change.log or server.log about partitions; None for any other.

    Never raises. The same change stands in several logs: on every KRaft controller, and again when one restarts.
    """
    text = source.text
    if not any(sign in text for sign in CONTROLLER_SIGNS):
        return None
    head = read_head(text)
    if head is None:
        return None
    message, logged_by, rules, tp = head.message, None, _RULES, None
    if prefix := _PARTITION_PREFIX.match(message):
        logged_by, rules, tp = java_int(prefix["broker"]), _LEADER_RULES, prefix["tp"]
        message = message[prefix.end() :]
    elif prefix := _PREFIX.match(message):
        logged_by, message = java_int(prefix[1]), message[prefix.end() :]
    if prefix is not None and logged_by is None:
        return None
    kind, fields = _read(message, rules)
    if kind is ControllerKind.ALTER_PARTITION_DONE and prefix is not None and _BEFORE_3_5.match(prefix[0]):
        fields["is_completed"] = True  # 3.3 and 3.4 ask the change's own lists, and print it at the end alone
    if kind is None or (kind is ControllerKind.THROTTLE_CHANGED and "throttled" not in message):
        return None
    tp = fields.pop("tp", tp)
    topic, partition = _topic_partition(tp, fields)
    return controller_event(source, head, kind, logged_by, topic, partition, fields)


def controller_event(
    source: SourceLine,
    head: LogHead,
    kind: ControllerKind,
    logged_by: int | None,
    topic: str | None,
    partition: int | None,
    fields: dict[str, Any],
) -> ControllerEvent:
    return ControllerEvent(
        kind=kind,
        ref=source.ref,
        node=source.node,
        local_at_ms=head.local_at_ms,
        at_ms=head.at_ms,
        topic=topic,
        partition=partition,
        logged_by=logged_by,
        fields=fields,
    )


def _read(message: str, rules: FormsByWord[_ControllerForm]) -> tuple[ControllerKind | None, dict[str, Any]]:
    for rule in rules.of(_first_word(message)):
        if rule.template.needle not in message:
            continue
        readings = rule.template.readings(message)
        if readings:
            try:
                return rule.kind, _values(readings[0], rule)
            except ValueError:  # no number of Kafka's: somebody else wrote the line
                return None, {}
    if (bulk := _BULK.match(message)) and (count := java_int(bulk[2])) is not None:
        return ControllerKind.PARTITIONS_CHANGED_IN_BULK, {"context": bulk[1], "count": count}
    return None, {}


def _values(texts: Mapping[str, str | None], rule: _ControllerForm) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, text in texts.items():
        if text is not None:
            convert = _CONVERT.get(name)
            fields[name] = text if convert is None else convert(text)
    if "leader_and_isr" in fields:
        text = fields.pop("leader_and_isr")
        fields["isr"] = _isr(text)
        if (version := _ZK_VERSION.search(text)) is not None:
            fields["version"] = int(version[1])
    if rule.kind is ControllerKind.ASSIGNMENT_REPLAYED:
        fields["record"] = record = _record(fields["record"])
        fields.setdefault("partition", record.get("partitionId"))
    fields.update(rule.constants)
    if rule.kind is ControllerKind.ALTER_PARTITION_DONE and "is_completed" not in fields:
        fields["is_completed"] = fields["from_replicas"] != fields["replicas"]
    return fields


def _topic_partition(tp: str | None, fields: dict[str, Any]) -> tuple[str | None, int | None]:
    if both := fields.pop("topic_and_partition", None):  # KRaft's refusal writes a colon
        topic, _, number = both.rpartition(":")
    elif tp is not None:
        topic, _, number = tp.rpartition("-")
    else:
        partition = fields.pop("partition", None)
        return fields.pop("topic", None), partition
    partition = java_int(number)
    return (topic, partition) if topic and partition is not None and partition >= 0 else (tp, None)


def _isr(text: str) -> tuple[int, ...]:
    """The ISR in `isr=List(1, 2), …` or, from 3.8, `isrWithBrokerEpoch=List(BrokerState(brokerId=1, …), …), …`."""
    plain = _ISR.search(text)
    return _broker_ids(plain[1]) if plain else tuple(map(int_of, _ISR_WITH_EPOCH.findall(text[:_MAX_RECORD])))


def _broker_ids(text: str) -> tuple[int, ...]:
    """The broker ids in `1,2`, `[1, 2]`, `List(1, 2)` or an empty text."""
    return tuple(map(int_of, _BROKER_IDS.findall(text)))


def _record(text: str) -> dict[str, Any]:
    """Fields of a record's text form; those that are null are left out, `[]` is an empty tuple."""
    found: dict[str, Any] = {}
    for name, value in _RECORD_FIELD.findall(text[:_MAX_RECORD]):
        if value == "null":
            continue
        if name in ("partitionId", "leader", "leaderRecoveryState"):
            found[name] = int_of(value)
        elif name == "directories":
            found[name] = tuple(part for part in value[1:-1].split(", ") if part)
        else:
            found[name] = _broker_ids(value) if value.startswith("[") else value
    return found


def _topic_id(text: str) -> str | None:
    return None if text == "None" else text.removeprefix("Some(").removesuffix(")")


_CONVERT: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(
        (
            "replicas",
            "adding",
            "removing",
            "from_replicas",
            "from_adding",
            "from_removing",
            "isr",
            "from_isr",
            "added",
            "deleted",
            "bounced",
            "live",
        ),
        _broker_ids,
    ),
    **dict.fromkeys(
        (
            "leader_epoch",
            "from_leader_epoch",
            "partition_epoch",
            "from_partition_epoch",
            "previous_epoch",
            "version",
            "epoch",
            "controller_id",
            "broker_id",
            "replica",
            "offset",
            "high_watermark",
            "altered_count",
            "asked_count",
            "caught_up_count",
            "replica_count",
            "correlation_id",
        ),
        int,
    ),
    "leader": lambda text: None if text == "(none)" else int_of(text),
    "partitions": lambda text: tuple(name for name in text.split(",") if name),
    "topic_id": _topic_id,
    "value": lambda text: None if text == "null" else text,
}
