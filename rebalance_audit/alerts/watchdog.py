"""An alert of our own: evidence of a source stopped, and one when it is back."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from rebalance_audit.domain.detect.wording import duration
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.kinds import Severity

STATE = "watchdog"
"""Where a warehouse remembers what was sent, beside that of its incidents."""
COLLECTOR = "the collector"
"""The source that is named when none of them can be taken in."""


class Watchdog:
    """Judges the faults that sources report. Times are epoch ms."""

    def __init__(self, limit_ms: int, began_ms: int) -> None:
        self._limit_ms, self._began_ms = limit_ms, began_ms
        self._good_ms: dict[str, int] = {}
        self._stopped_ms: dict[str, int] = {}
        """Since when, of those that are stopped."""
        self._said_of: dict[str, str] = {}
        """What the cluster was called when each stopped last: an alert ends under the name it began with."""

    def look(
        self, cluster_id: str, faults: Mapping[str, str | None], now_ms: int, held_up: str | None = None
    ) -> list[Incident]:
        """The state of each source, as an incident. It is `open` only after the limit. A source that never stopped is
        `over`, and no alert is sent for it.

        `held_up`: why nothing is taken in from any source. That is one trouble, so it is told of the collector. Then a
        source that was stopped before stays so, and the time of any other begins when the collector is back.
        """
        found = []
        if held_up is not None:
            faults = {s: (fault or held_up) if s in self._stopped_ms else None for s, fault in faults.items()}
        for source, fault in {**faults, COLLECTOR: held_up}.items():
            since_ms = self._good_ms.get(source, self._began_ms)
            if fault is None:
                self._good_ms[source] = now_ms
                since_ms = self._stopped_ms.pop(source, now_ms)
            elif now_ms - since_ms >= self._limit_ms:
                if source not in self._stopped_ms:
                    self._said_of[source] = cluster_id
                self._stopped_ms[source] = since_ms
            is_stopped = source in self._stopped_ms
            for_ms = now_ms - since_ms
            found.append(
                Incident(
                    cluster_id=self._said_of.get(source, cluster_id),
                    incident_id=f"stopped:{hashlib.sha256(source.encode()).hexdigest()[:16]}",
                    kind="evidence",
                    root_cause="evidence_stopped",
                    root_cause_tier="logged",
                    culprits=(source,),
                    first_at_ms=since_ms,
                    last_at_ms=now_ms,
                    status="open" if is_stopped else "over",
                    expected=False,
                    severity=Severity.CRITICAL,
                    title=f"No evidence comes from {source}",
                    story=f"For {duration(for_ms)} nothing came from {source}. {fault}" if fault else
                    f"Evidence comes from {source} again.",
                    advice="Until it is back, nothing is known of this cluster's rebalances; `rebalance-audit doctor` "
                    "tries each source.",
                )
            )  # fmt: skip
        return found
