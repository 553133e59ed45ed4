"""Why KRaft gave a partition another leader, from its states before and after."""

from __future__ import annotations

from rebalance_audit.domain.reassign.brokers import Brokers
from rebalance_audit.domain.reassign.model import LeaderElection, PartitionState


def kraft_election(
    cluster_id: str,
    topic: str,
    partition: int,
    before: PartitionState,
    after: PartitionState,
    brokers: Brokers,
    *,
    at_ms: int,
    ref: str,
    is_assignment: bool,
    is_unclean: bool = False,
) -> LeaderElection:
    """The election that made `after` of `before`, with its cause. `is_assignment`: the same change touched the
    assignment."""
    preferred = after.replicas[0] if after.replicas else None
    cause = "unknown"
    if is_assignment:
        cause = "reassignment"
    elif is_unclean:
        cause = "unclean"
    elif before.leader is None:
        cause = "broker_return"
    elif before.leader in brokers.in_shutdown:
        cause = "shutdown"
    elif before.leader not in after.isr or after.leader is None:
        cause = "broker_failure"
    elif set(before.isr) == set(after.isr) and after.leader == preferred:
        cause = "preferred"
    prevented_by = None
    if preferred is not None and after.leader != preferred:
        if brokers.was_away(preferred, at_ms) or (
            cause in ("broker_failure", "shutdown") and preferred == before.leader
        ):
            prevented_by = "preferred_not_alive"
        elif preferred not in after.isr:
            prevented_by = "preferred_not_in_isr"
    return LeaderElection(
        cluster_id=cluster_id,
        topic=topic,
        partition=partition,
        at_ms=at_ms,
        cause=cause,
        previous_leader=before.leader,
        preferred_replica=preferred,
        elected=after.leader,
        outcome="no_leader" if after.leader is None else "elected",
        prevented_by=prevented_by,
        leader_epoch=after.leader_epoch,
        evidence=(ref,),
    )
