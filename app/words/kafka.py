"""Kafka's words, and ours, as a reader says them."""

from __future__ import annotations

from app.words.foreign import name
from app.words.numbers import count

TRIGGER_WORDS = {
    "member_joined": "a member joined",
    "member_left": "a member left",
    "member_session_expired": "a member vanished (session expired)",
    "member_poll_timeout": "a member processed for too long (poll timeout)",
    "member_dropped_at_rebalance_timeout": "a member did not rejoin in time and was dropped",
    "member_sync_timeout": "a member did not sync in time",
    "subscription_changed": "a subscription changed",
    "topic_metadata_changed": "topics or partitions changed",
    "leader_rejoined": "the leader rejoined",
    "client_requested": "a client asked for it",
    "static_member_replaced": "a static member came back",
    "static_member_expired": "a static member stayed away",
    "group_emptied": "the last member left",
    "coordinator_failover": "the coordinator moved",
    "group_converted": "the group changed its protocol",
    "member_removed_by_admin": "an administrator removed a member",
    "cooperative_follow_up": "second round of a cooperative change",
    "streams_probing": "Streams probing",
    "streams_follow_up": "Streams follow-up",
    "streams_topology_changed": "the Streams topology changed",
    "share_state_initialized": "share state was initialised",
    "connect_worker_joined": "a worker joined",
    "connect_worker_left": "a worker left",
    "connect_config_changed": "a connector's configuration changed",
    "connect_delay_expired": "the scheduled delay ended",
    "connect_revocation_follow_up": "follow-up of a revocation",
    "connect_assignment_failed": "the assignment failed",
    "assignor_changed": "the assignor changed",
    "append_failed": "the group record could not be written",
    "unknown": "not known: no evidence names the cause",
}

_ROUNDS = {
    "cooperative_follow_up": "the second round of a cooperative change",
    "streams_probing": "a probe of Streams",
    "streams_follow_up": "the follow-up of a Streams change",
    "connect_revocation_follow_up": "the follow-up of a revocation",
}
"""Triggers that are no event but a round of the protocol."""

FAMILIES = ("failure", "departure", "arrival", "configuration", "protocol", "unknown")
_FAMILY_OF = {
    "arrival": ("member_joined", "static_member_replaced", "connect_worker_joined"),
    "departure": ("member_left", "group_emptied", "member_removed_by_admin", "connect_worker_left"),
    "failure": (
        "member_session_expired",
        "member_poll_timeout",
        "member_dropped_at_rebalance_timeout",
        "member_sync_timeout",
        "static_member_expired",
        "coordinator_failover",
        "connect_assignment_failed",
        "append_failed",
    ),
    "configuration": (
        "subscription_changed",
        "topic_metadata_changed",
        "leader_rejoined",
        "client_requested",
        "group_converted",
        "streams_topology_changed",
        "connect_config_changed",
        "assignor_changed",
    ),
    "protocol": (
        "cooperative_follow_up",
        "streams_probing",
        "streams_follow_up",
        "share_state_initialized",
        "connect_delay_expired",
        "connect_revocation_follow_up",
    ),
}
FAMILY = {trigger: family for family, triggers in _FAMILY_OF.items() for trigger in triggers}
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
    return TRIGGER_WORDS.get(value, name(value))


def because(value: str) -> str:
    """The cause as the end of a sentence: `because a member joined`, `as Streams probing`."""
    if value == "unknown":
        return "for a cause not known"
    if value in _ROUNDS:
        return f"as {_ROUNDS[value]}"
    return f"because {trigger(value)}"


def family(value: str) -> str:
    return FAMILY.get(value, "unknown")


def number_of(generation_id: int | None, group_epoch: int | None, rewrite_seq: int = 0) -> str:
    """`generation 7`, `epoch 12`, `generation 7, rewritten (1)`."""
    if generation_id is None and group_epoch is None:
        return "number not known"
    base = f"generation {generation_id}" if generation_id is not None else f"epoch {group_epoch}"
    return f"{base}, rewritten ({rewrite_seq})" if rewrite_seq else base


def resource(protocol_type: str | None, number: int | None = 1) -> str:
    """What a group of this protocol hands out."""
    one = "task" if protocol_type in ("connect", "streams") else "partition"
    return one if number == 1 else f"{one}s"


def things(protocol_type: str | None, number: int | None) -> str:
    """So many of what a group of this protocol hands out: Connect hands out connectors beside tasks."""
    if protocol_type == "connect":
        return count(number, "task or connector", "tasks and connectors")
    return count(number, resource(protocol_type))
