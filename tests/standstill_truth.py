"""What a lab run really cost, from its clients' own clocks, in the columns and by the definition of `whatif`."""

from __future__ import annotations

from pathlib import Path

from rebalance_audit.domain.replay.standstill import Ledger, Standstill, Why
from tests.truth import client_events, group_of_clients


def true_standstill(capture: Path, group_id: str) -> Standstill:
    """Of one group of Java consumers or others that tell their callbacks.

    A process runs from its first assignment or its start, whichever a replay would know of: a client that starts is not
    seen by the group before it joins, so a group's first wait is not compared.
    """
    group_of = group_of_clients(capture)
    events = [e for e in client_events(capture) if (e.get("group") or group_of.get(e["client"])) == group_id]
    ledger = Ledger({p for e in events for p in e.get("partitions", ())})
    running: set[str] = set()
    for event in events:
        client, at_ms, partitions = event["client"], event["at_ms"], event.get("partitions", ())
        match event["event"]:
            case "assigned_end":
                if client not in running:
                    running.add(client)
                    ledger.process_starts(client, at_ms)
                for partition in partitions:
                    ledger.works(partition, client, at_ms)
            case "revoked_start" | "lost_start":
                for partition in partitions:
                    ledger.stops(partition, client, at_ms, Why.BETWEEN_OWNERS)
            case "killed" | "frozen" | "closed":
                running.discard(client)
                ledger.process_ends(client, at_ms)
    return ledger.finish(max((e["at_ms"] for e in events), default=0))
