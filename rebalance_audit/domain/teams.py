"""Which team a group or a connector belongs to, and what a reader may see of a warehouse that several teams share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

Connector = tuple[str, str, str]
"""Cluster id, the Connect cluster's group, name of the connector."""


@dataclass(frozen=True, slots=True)
class TeamOf:
    """(cluster id, group id) → the name of the first team whose patterns match, or None.

    Clusters match by their id or by the name that the settings give them.
    """

    teams: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    """(team, patterns of clusters, patterns of groups), in the order of the file."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Name of a cluster by its id."""
    connectors: tuple[tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = ()
    """(team, patterns of clusters, patterns of Connect clusters' groups, patterns of connectors), in that order too."""

    def __call__(self, cluster_id: str, group_id: str) -> str | None:
        called = self._called(cluster_id)
        for team, clusters, groups in self.teams:
            if _match(called, clusters) and _match((group_id,), groups):
                return team
        return None

    def of_connector(self, cluster_id: str, group_id: str, connector: str) -> str | None:
        """The first team whose patterns of connectors match; the group's own team may be another one."""
        called = self._called(cluster_id)
        for team, clusters, groups, connectors in self.connectors:
            if _match(called, clusters) and _match((group_id,), groups) and _match((connector,), connectors):
                return team
        return None

    def owners(self, cluster_id: str, group_ids: Iterable[str], connectors: Iterable[str] = ()) -> frozenset[str]:
        """The teams that are responsible for something about these groups. If it is about connectors, these are the
        connectors' teams; a connector without a team belongs to the group's team."""
        named, found = tuple(connectors), set[str | None]()
        for group_id in group_ids:
            if named:
                found |= {self.of_connector(cluster_id, group_id, c) or self(cluster_id, group_id) for c in named}
            else:
                found.add(self(cluster_id, group_id))
        return frozenset(team for team in found if team is not None)

    def _called(self, cluster_id: str) -> tuple[str, ...]:
        return (cluster_id, self.names[cluster_id]) if cluster_id in self.names else (cluster_id,)


def _match(names: Iterable[str], patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


@dataclass(frozen=True, slots=True)
class Sight:
    """The groups and connectors that members of some teams may see."""

    team_of: TeamOf
    teams: frozenset[str]

    def of(self, groups: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """The groups, as (cluster id, group id), that the reader may see. A group of no team is nobody's but an
        auditor's."""
        return [(cluster, group) for cluster, group in groups if self.team_of(cluster, group) in self.teams]

    def of_connectors(self, connectors: Iterable[Connector]) -> list[Connector]:
        """The connectors that belong to the reader's teams by name, whichever team the group belongs to."""
        return [each for each in connectors if self.team_of.of_connector(*each) in self.teams]
