"""What a lab run really cost, from its clients' own clocks, in the columns and by the definition of `whatif`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rebalance_audit.domain.replay.standstill import Ledger, Standstill, Why
from tests.truth import scenario, written_events

DEFAULT_POLL_INTERVAL_MS = 300_000
Event = dict[str, Any]


def true_standstill(capture: Path, group_id: str, *, counts_outages: bool = False) -> Standstill:
    """Of one group of Java consumers or others that write down their callbacks.

    A process runs from its first assignment or its start, whichever a replay would know of: a client that starts is not
    seen by the group before it joins, so a group's first wait is not compared. A member that is busy for longer than
    its poll interval stands still from the interval's end on. `counts_outages`: a group that is stopped and soon back
    stood still, as where settings are compared.
    """
    events = sorted(_events(capture, group_id), key=lambda e: e["at_ms"])
    resources = {p for e in events for p in e.get("partitions", ())}
    ledger = Ledger(resources, counts_outages=counts_outages)
    running: set[str] = set()
    held: dict[str, set[str]] = {}
    for number, event in enumerate(events):
        client, at_ms, partitions = event["client"], event["at_ms"], event.get("partitions", ())
        owned = held.setdefault(client, set())
        match event["event"]:
            case "assigned_end":
                if client not in running:
                    running.add(client)
                    ledger.process_starts(client, at_ms)
                owned.update(partitions)
                ledger.works(partitions, client, at_ms)
            case "revoked_start" | "lost_start":
                owned.difference_update(partitions)
                ledger.stops(partitions, client, at_ms)
            case "busy_beyond":
                ledger.stops(owned, client, at_ms, Why.OWNER_IDLE)
            case "stall_end" if not _loses_next(events[number + 1 :], client):
                ledger.works(owned, client, at_ms)
            case "killed" | "frozen" | "closed":
                running.discard(client)
                owned.clear()
                ledger.process_ends(client, at_ms)
    return ledger.finish(max((e["at_ms"] for e in events), default=0))


def true_connect_standstill(capture: Path) -> Standstill:
    """Of a Connect cluster whose connectors and tasks write down their starts and stops; it is alone in its capture."""
    events = written_events(capture)
    ledger = Ledger({r for e in events for r in _resources(e)})
    running: set[str] = set()
    for event in sorted(events, key=lambda e: e["at_ms"]):
        worker, at_ms = event["client"], event["at_ms"]
        match event["event"]:
            case "task_start_end" | "connector_start":
                if worker not in running:
                    running.add(worker)
                    ledger.process_starts(worker, at_ms)
                ledger.works(_resources(event), worker, at_ms)
            case "task_stop_begin" | "connector_stop":
                ledger.stops(_resources(event), worker, at_ms)
            case "killed" | "worker_stopped":
                running.discard(worker)
                ledger.process_ends(worker, at_ms)
    return ledger.finish(max((e["at_ms"] for e in events), default=0))


def _resources(event: Event) -> list[tuple[str, str]]:
    """A connector and a task may have one name."""
    return [(kind, name) for kind in ("tasks", "connectors") for name in event.get(kind, ())]


def _events(capture: Path, group_id: str) -> Iterator[Event]:
    """Under the clients' names: client ids may be the same in two groups of one capture."""
    of_group = {c["client"]: c for c in scenario(capture)["clients"] if c["group"] == group_id}
    for event in written_events(capture):
        client = of_group.get(event["client"])
        if client is None or event.get("group", group_id) != group_id:
            continue
        yield event
        if event["event"] == "stall_start":
            interval_ms = int(client["settings"].get("max.poll.interval.ms", DEFAULT_POLL_INTERVAL_MS))
            # A freeze that ends before the session does has no length of its own: it is no stall beyond the interval.
            if event.get("stall_ms", 0) > interval_ms:
                yield event | {"event": "busy_beyond", "at_ms": event["at_ms"] + interval_ms}


def _loses_next(later: Iterable[Event], client: str) -> bool:
    """Whether the client hears next that its partitions are gone."""
    return next((e["event"] for e in later if e["client"] == client), "") in ("lost_start", "revoked_start")
