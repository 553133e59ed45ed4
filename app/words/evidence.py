"""What a piece of evidence says, in a few words beside its link."""

from __future__ import annotations

from app.words.foreign import name
from rebalance_audit.domain.model import LogKind

_SAYS: dict[str, str] = {
    "GroupMetadata": "the group's record",
    LogKind.PREPARING: "the broker begins to rebalance",
    LogKind.STABILIZED: "the members have joined",
    LogKind.ASSIGNMENT_RECEIVED: "the leader's assignment arrives",
    LogKind.EMPTIED: "the group is empty",
    LogKind.MEMBERS_NOT_REJOINED: "members did not join in time",
    LogKind.MEMBERS_NOT_SYNCED: "members did not fetch their assignment in time",
    LogKind.MEMBER_JOINED: "a member asks to join",
    LogKind.PENDING_MEMBER_JOINED: "a member joins",
    LogKind.MEMBER_LEFT: "a member leaves",
    LogKind.MEMBER_FAILED: "a member sent no heartbeat for its session",
    LogKind.MEMBER_FENCED: "a member is fenced",
    LogKind.STATIC_MEMBER_REPLACED: "a static member is back",
    LogKind.COORDINATOR_ELECTED: "this broker becomes coordinator",
    LogKind.COORDINATOR_RESIGNED: "this broker is coordinator no longer",
    LogKind.COORDINATOR_LOADED: "the coordinator has loaded its groups",
    LogKind.EPOCH_BUMPED: "the group gets a new epoch",
    LogKind.TARGET_COMPUTED: "the broker has a new assignment",
    LogKind.MODERN_MEMBER_JOINED: "a member joins",
    LogKind.MODERN_MEMBER_LEFT: "a member leaves",
    LogKind.CLIENT_POLL_TIMEOUT: "the client exceeded its poll interval",
    LogKind.CLIENT_LEAVING: "the client leaves",
    LogKind.CLIENT_REVOKED: "the client gives partitions up",
    LogKind.CLIENT_ASSIGNED: "the client gets partitions",
    LogKind.CLIENT_LOST: "the client lost its partitions",
    LogKind.WORKER_JOINED: "a worker has joined",
    LogKind.WORKER_REBALANCE_STARTED: "a worker notices the rebalance",
    LogKind.WORKER_WORK_STARTED: "a worker has started its work",
    LogKind.WORKER_WORK_STOPPED: "a worker has stopped its work",
    "connector": "a connector's configuration",
    "task": "a task's configuration",
}


def evidence_says(kind: str | None, commit_of: str | None = None) -> str | None:
    """None where nobody knows. `commit_of`: the partition whose progress a group committed there."""
    if commit_of is not None:
        return f"commit of {name(commit_of, 60)}"
    if kind is None:
        return None
    return _SAYS.get(kind) or name(kind, 40).replace("_", " ")
