"""Which team a group belongs to, and what a reader may see of a warehouse that several teams share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True)
class TeamOf:
    """(cluster id, group id) → the name of the first team whose patterns match, or None.

    Clusters match by their id or by the name that the settings give them.
    """

    teams: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    """(team, patterns of clusters, patterns of groups), in the order of the file."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Name of a cluster by its id."""

    def __call__(self, cluster_id: str, group_id: str) -> str | None:
        called = [cluster_id, *([self.names[cluster_id]] if cluster_id in self.names else [])]
        for team, clusters, groups in self.teams:
            if any(fnmatchcase(name, pattern) for name in called for pattern in clusters) and any(
                fnmatchcase(group_id, pattern) for pattern in groups
            ):
                return team
        return None


@dataclass(frozen=True, slots=True)
class Sight:
    """The groups that members of some teams may see."""

    team_of: TeamOf
    teams: frozenset[str]

    def of(self, groups: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of (cluster id, group id) that are theirs. A group of no team is nobody's but an auditor's."""
        return [(cluster, group) for cluster, group in groups if self.team_of(cluster, group) in self.teams]
