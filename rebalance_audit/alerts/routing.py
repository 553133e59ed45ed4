"""What the settings say about alerts: which target gets which incident, and where the runbook is."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from rebalance_audit.alerts.message import Runbook
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.teams import TeamOf


def key_of(target: str) -> str:
    """A target's name for places where its address must not be shown. No secret can be read from it."""
    return hashlib.sha256(target.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Routes:
    """Incidents by target. Nothing is lost: what no target would get goes to all of them."""

    team_of: TeamOf
    teams: Mapping[str, frozenset[str]]
    """The teams that name a target, by `key_of` it. A target that is not here gets everything."""
    runbook: Runbook | None = None

    def of(self, key: str, incidents: Sequence[Incident], keys: Collection[str]) -> list[Incident]:
        """The incidents for the target with this key. `keys`: those of all targets that are sent to."""
        if key not in self.teams:
            return list(incidents)
        has_rest = any(each not in self.teams for each in keys)
        reached = frozenset(team for each in keys for team in self.teams.get(each, ()))
        return [i for i in incidents if self._is_for(self.teams[key], i, reached, has_rest=has_rest)]

    def _is_for(self, teams: frozenset[str], i: Incident, reached: frozenset[str], *, has_rest: bool) -> bool:
        owners = self.team_of.owners(i.cluster_id, i.group_ids, i.connectors)
        if i.rebalance_ids:  # the whole group went through it, whoever's connector began it
            owners |= self.team_of.owners(i.cluster_id, i.group_ids)
        return bool(owners & teams) or not (owners & reached or has_rest)
