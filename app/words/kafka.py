"""Kafka's words, and ours, as a reader says them."""

from __future__ import annotations

from app.words.foreign import name
from app.words.numbers import count
from rebalance_audit.domain.causes import Family, family_of, phrase_of
from rebalance_audit.domain.detect.history import worker_name

FAMILIES = tuple(Family)
FAMILY_WORDS = {
    "failure": "failure",
    "departure": "departure",
    "arrival": "arrival",
    "configuration": "configuration",
    "protocol": "the protocol's own work",
    "unknown": "cause not known",
}
FAMILY_SIGN = {
    "failure": "\u2715",
    "departure": "\u25bc",
    "arrival": "\u25b2",
    "configuration": "\u25a0",
    "protocol": "\u00b7",
    "unknown": "?",
}
"""Colour is never alone: each family has a sign, the same one the time line draws."""

TIER_WORDS = {
    "recorded": "recorded by the broker",
    "logged": "said by a log line",
    "inferred": "follows from records",
    "unknown": "not known",
}
TIER_SENTENCES = {
    "recorded": "the broker recorded it",
    "logged": "a log line says so",
    "inferred": "it follows from records",
    "unknown": "how that is known is not known",
}
OUTCOME_WORDS = {
    "completed": "completed",
    "emptied": "the group emptied",
    "superseded": "superseded before anyone was assigned",
    "failed": "failed",
    "missing": "missing: the number was skipped and nothing says why",
    "open": "open: still running, or evidence ends inside it",
}
MODE_WORDS = {
    "eager": "eager (everyone stops)",
    "cooperative": "cooperative",
    "incremental": "incremental (Connect)",
    "server": "server-side",
    "unknown": "mode not known",
}
SEVERITY_WORDS = {"critical": "Critical", "warning": "Warning", "info": "Info"}
STATE_WORDS = {
    "RUNNING": "running",
    "UNASSIGNED": "unassigned",
    "PAUSED": "paused",
    "STOPPED": "stopped",
    "FAILED": "failed",
    "RESTARTING": "restarting",
    "WAITING": "waiting by design (scheduled delay)",
    "LOST": "lost with its worker",
}


def trigger(value: str) -> str:
    return name(phrase_of(value))


def family(value: str) -> str:
    return family_of(value)


def number_of(generation_id: int | None, group_epoch: int | None, rewrite_seq: int = 0) -> str:
    """`generation 7`, `epoch 12`, `generation 7, rewritten (1)`."""
    if generation_id is None and group_epoch is None:
        return "number not known"
    base = f"generation {generation_id}" if generation_id is not None else f"epoch {group_epoch}"
    return f"{base}, rewritten ({rewrite_seq})" if rewrite_seq else base


def resource(protocol_type: str | None, number: int | None = 1) -> str:
    """The noun for what a group of this protocol hands out."""
    one = "task" if protocol_type in ("connect", "streams") else "partition"
    return one if number == 1 else f"{one}s"


def things(protocol_type: str | None, number: int | None) -> str:
    """So many of what a group of this protocol hands out: Connect hands out connectors beside tasks."""
    if protocol_type == "connect":
        return count(number, "task or connector", "tasks and connectors")
    return count(number, resource(protocol_type))


def owner(client_id: str | None, worker_url: str | None, member_id: str | None) -> str | None:
    """A member by the name a reader knows: a worker by its address without what all of them share."""
    return worker_name(worker_url) if worker_url else client_id or member_id


_ALERT_WORDS = {
    "open": "opened",
    "graver": "became graver",
    "another cause": "has another cause",
    "wider": "became wider",
    "over": "is over",
    "withdrawn": "withdrawn",
    "silenced": "silenced there",
    "heard again": "silence ended there",
}


def alert_news(what: str, is_sent: bool) -> str:
    said = _ALERT_WORDS.get(what, what)
    return said if is_sent else f"{said}; not delivered yet"


def alert(what: str, target: str, is_sent: bool) -> str:
    """`alert to https://hooks.example: opened`; of one that was not taken also that."""
    return f"alert to {name(target, 60)}: {alert_news(what, is_sent)}"
