"""Words for replicas on the move and for changes of a leader."""

from __future__ import annotations

from collections.abc import Sequence

REASSIGNMENT_WORDS = {
    "completed": "completed",
    "cancelled": "cancelled",
    "superseded": "replaced by another request",
    "deleted": "ended with its topic",
    "open": "moving",
    "refused": "refused",
    "unknown": "ended unseen",
}
PHASE_WORDS = {
    "before": "before the request",
    "accepted": "asked for",
    "catching_up": "copying",
    "leader_moved": "the leader moved",
    "removing": "old replicas leave",
    "completed": "done",
    "cancelled": "cancelled",
    "superseded": "replaced by another request",
}
ELECTION_WORDS = {
    "tool": "by a tool",
    "znode": "by a request in ZooKeeper",
    "automatic": "by the automatic balancing of leaders",
    "preferred": "as a preferred election",
    "shutdown": "as its broker was shut down",
    "broker_failure": "as its broker failed",
    "broker_return": "as its broker came back",
    "reassignment": "by a reassignment",
    "unclean": "uncleanly: what only the old leader had is lost",
    "unknown": "why is not known",
}


def ids(value: object) -> list[int] | None:
    """Broker ids of a frame's cell."""
    return None if value is None or isinstance(value, float) else [int(v) for v in value]  # type: ignore[attr-defined]


def replicas(ids: Sequence[int] | None) -> str:
    """`[2, 3, 5]`: in Kafka's order, the first is preferred."""
    return "[not known]" if ids is None else f"[{', '.join(str(i) for i in ids)}]"


def brokers(ids: Sequence[int]) -> str:
    """`broker 3`, `brokers 3, 4`."""
    return f"{'broker' if len(ids) == 1 else 'brokers'} {', '.join(str(i) for i in ids)}"


def election(before: int | None, after: int | None, cause: str) -> str:
    old = "" if before is None else f" from broker {before}"
    new = "to nobody" if after is None else f"to broker {after}"
    return f"moved{old} {new}, {ELECTION_WORDS.get(cause, cause)}"


def state(outcome: str, is_stalled: bool) -> str:
    return "stalled" if is_stalled else REASSIGNMENT_WORDS.get(outcome, outcome)
