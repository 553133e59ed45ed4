"""What is handed on of a storm as an era ends."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_audit.domain.detect.eras import JudgedEra
from rebalance_audit.domain.detect.limits import Limits
from rebalance_audit.domain.incidents.building import troubles_in
from rebalance_audit.domain.incidents.long_storms import last_at_ms, storm_before
from rebalance_audit.domain.incidents.model import ClusterRows, narrowed
from rebalance_audit.domain.incidents.storm_before import StormBefore
from rebalance_audit.domain.model import Rebalance, changed


def storm_at_end(
    rebalances: Sequence[Rebalance], judged: JudgedEra, limits: Limits, earlier: StormBefore | None
) -> StormBefore | None:
    """The storm that goes on as this era ends, with all that was of it in earlier ones. `rebalances`: the era's, of one
    group; `earlier`: the storm that went on as the era before ended."""
    storm = next((finding for finding in judged.carried if finding.rule_id == "RB001"), None)
    if storm is None:
        return None
    group_id = rebalances[0].group_id
    # It goes on after all of this era, or nothing of this is asked for.
    storm = changed(storm, last_seen_at_ms=max(storm.last_seen_at_ms, last_at_ms(rebalances)))
    findings = [*judged.findings, *(storm if f.finding_id == storm.finding_id else f for f in judged.carried)]
    last_seen = {finding.finding_id: finding.last_seen_at_ms for finding in findings}
    goes_on = earlier is not None and last_seen.get(earlier.finding_id, 0) > earlier.until_ms
    rows = ClusterRows(
        cluster_id=rebalances[0].cluster_id,
        now_ms=0,
        groups={group_id: list(map(narrowed, rebalances))},
        findings=sorted(((group_id, f) for f in findings), key=lambda of: (of[1].first_seen_at_ms, of[1].finding_id)),
        limits=lambda _: limits,
        storms={group_id: earlier} if earlier is not None and goes_on else {},
    )
    together, _ = troubles_in(rows)
    return storm_before(rows, together, group_id, storm, judged.number)
