"""What a piece of evidence says, in a few words beside its link."""

from __future__ import annotations

from app.words.foreign import name

_SAYS = {
    "GroupMetadata": "the group's record",
    "preparing": "the broker begins to rebalance",
    "stabilized": "the members have joined",
    "assignment_received": "the leader's assignment arrives",
    "emptied": "the group is empty",
    "members_not_rejoined": "members did not join in time",
    "members_not_synced": "members did not fetch their assignment in time",
    "member_joined": "a member asks to join",
    "pending_member_joined": "a member joins",
    "member_left": "a member leaves",
    "member_failed": "a member sent no heartbeat for its session",
    "member_fenced": "a member is fenced",
    "static_member_replaced": "a static member is back",
    "coordinator_elected": "this broker becomes coordinator",
    "coordinator_resigned": "this broker is coordinator no longer",
    "coordinator_loaded": "the coordinator has loaded its groups",
    "epoch_bumped": "the group gets a new epoch",
    "target_computed": "the broker has a new assignment",
    "modern_member_joined": "a member joins",
    "modern_member_left": "a member leaves",
    "client_poll_timeout": "the client exceeded its poll interval",
    "client_leaving": "the client leaves",
    "client_revoked": "the client gives partitions up",
    "client_assigned": "the client gets partitions",
    "client_lost": "the client lost its partitions",
    "worker_joined": "a worker has joined",
    "worker_rebalance_started": "a worker notices the rebalance",
    "worker_work_started": "a worker has started its work",
    "worker_work_stopped": "a worker has stopped its work",
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
