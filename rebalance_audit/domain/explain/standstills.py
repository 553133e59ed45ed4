"""Members that hung without a rebalance, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rebalance_audit.domain.detect.wording import clock, duration, folded, shown
from rebalance_audit.domain.explain.rebalance import exact, exact_bounds
from rebalance_audit.domain.model import MemberStandstill, Rebalance


@dataclass(frozen=True, slots=True, kw_only=True)
class StandstillStory:
    rebalance_id: str
    """The rebalance before it."""
    from_ms: int
    who: str
    text: str
    bounds: str
    resource_seconds: float
    evidence: tuple[str, ...]


def standstill_stories(rebalances: Iterable[Rebalance]) -> list[StandstillStory]:
    """A story for each standstill, by when it began."""
    found = [_story(r, s) for r in rebalances for s in r.standstills]
    return sorted(found, key=lambda story: story.from_ms)


def _story(rebalance: Rebalance, s: MemberStandstill) -> StandstillStory:
    host = f" ({shown(s.client_host)})" if s.client_host else ""
    who = f"{shown(s.client_id or s.member_id)}{host}"
    still = f"hung for {exact(s.pause_estimate_ms)}"
    if s.to_ms is None:
        still = f"has hung for {duration(s.pause_estimate_ms)}, as far as evidence goes,"
    where = f"on {folded(s.resources, 3)}, without a rebalance"
    return StandstillStory(
        rebalance_id=rebalance.rebalance_id,
        from_ms=s.from_ms,
        who=who,
        text=f"{clock(s.from_ms)}  {who} {still} {where}: {s.detail} ({s.tier})",
        bounds=exact_bounds(s.pause_lower_ms, s.pause_upper_ms),
        resource_seconds=s.resource_seconds_estimate,
        evidence=s.evidence,
    )
