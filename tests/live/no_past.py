"""What memory knows before there are tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rebalance_audit.domain.gather.belonging import Route
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign import LeaderElection
from rebalance_audit.live.elections import MetadataPast
from rebalance_audit.live.group_memory import GroupPast
from rebalance_audit.live.memory import ClusterPast


class NoPast:
    """There are no tables yet: nothing is known of any group."""

    def of_cluster(self) -> ClusterPast:
        return ClusterPast()

    def of_groups(self, groups: Mapping[str, Collection[Route]]) -> Mapping[str, GroupPast]:
        return dict.fromkeys(groups, GroupPast())

    def leader_moves(self, since_ms: int) -> Sequence[LeaderMove] | None:
        return None

    def of_metadata(self) -> MetadataPast:
        return MetadataPast()

    def elections(self, since_ms: int) -> Sequence[LeaderElection]:
        return ()
