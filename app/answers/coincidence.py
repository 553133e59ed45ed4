"""Rebalances that began within seconds after a leader changed. Whether the change led to them, only the
rebalance's own trigger says. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rebalance_audit.domain.causes import Cause

WITHIN_MS = 5_000
"""Members hear of it at their next heartbeat, 3 s apart by default; 2 s more for retries and the group's loading."""
_CLOCKS_MS = 1_000
"""Controllers' and brokers' clocks may differ by as much without anyone having noticed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coincidence:
    rebalance_id: str
    group_id: str
    trigger: str
    began_at_ms: int
    partition: str
    """The partition whose leader changed."""
    changed_at_ms: int
    previous_leader: int | None
    elected: int | None
    cause: str
    of_coordinator: bool
    """The partition holds the group in the offsets topic: its leader is the group's coordinator."""

    @property
    def gap_ms(self) -> int:
        return self.began_at_ms - self.changed_at_ms

    @property
    def names_it(self) -> bool:
        """The trigger itself names the coordinator's move."""
        return self.of_coordinator and self.trigger == Cause.COORDINATOR_FAILOVER


def coincidences(
    rebalances: pd.DataFrame, elections: pd.DataFrame, offsets_partitions: Collection[str]
) -> list[Coincidence]:
    """Each rebalance that began within seconds after a leader's change, with the last one of the coordinator, else of
    any of the partitions. `elections`: those of the partitions concerned, oldest first."""
    if elections.empty or rebalances.empty:
        return []
    found = []
    changes = elections[elections["elected"].fillna(-1) != elections["previous_leader"].fillna(-1)]
    at = changes["at_ms"].to_numpy(dtype=float)  # ascending
    begins = rebalances["started_at_ms"].astype(float).fillna(rebalances["at_ms"].astype(float))
    first = np.searchsorted(at, begins - WITHIN_MS, side="left")
    after_last = np.searchsorted(at, begins + _CLOCKS_MS, side="right")
    is_near = (first < after_last) & begins.notna().to_numpy()
    for place, r in zip(np.flatnonzero(is_near), rebalances[is_near].itertuples(), strict=True):
        began = float(begins.iloc[place])
        near = changes.iloc[first[place] : after_last[place]]
        own = near[near["name"].isin(offsets_partitions)]
        change: Any = (own if len(own) else near).iloc[-1]
        found.append(
            Coincidence(
                rebalance_id=str(r.rebalance_id),
                group_id=str(r.group_id),
                trigger=str(r.trigger),
                began_at_ms=int(began),
                partition=str(change["name"]),
                changed_at_ms=int(change["at_ms"]),
                previous_leader=_whole(change["previous_leader"]),
                elected=_whole(change["elected"]),
                cause=str(change["cause"]),
                of_coordinator=bool(len(own)),
            )
        )
    return found


def _whole(value: Any) -> int | None:
    return None if value is None or pd.isna(value) else int(value)
