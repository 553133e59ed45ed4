"""What the votes on nodes' clocks add up to, as a note of the warehouse: a process that begins goes on from there. The
votes themselves are in further notes, which it opens when it needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_audit.domain.gather.clock_tally import ClockTally
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.day_votes import Slot, VotesByDay
from spark_jobs.node_tallies import NodeTally, Versions, Voting, Zone

NOTE = "clock-votes"
"""The names of all notes of votes begin with it."""
_FORM = 3
_TABLES = ("silver.group_event", "bronze.source")


def keep(warehouse: Warehouse, known: Voting) -> None:
    """The notes with votes that this one replaces stay until the next time: a reader may have read what names them."""
    before = _note(warehouse, known.versions)
    slots = {} if before is None else _slots(before)
    known.votes.save(warehouse, f"{NOTE}-", known.versions[0], slots)
    warehouse.remember(
        NOTE,
        {
            "form": _FORM, "tables": list(map(warehouse.table_id, _TABLES)), "versions": known.versions,
            "nodes": sorted(known.nodes), "zones": known.zones,
            "slots": {str(at): list(slot) for at, slot in known.votes.slots.items()},
            "tallies": {
                cluster_id: {node: [of_node.first, of_node.tally.as_kept()] for node, of_node in of_cluster.items()}
                for cluster_id, of_cluster in known.tallies.items()
            },
        },
    )  # fmt: skip
    named = {NOTE, *(slot.note for slot in (*slots.values(), *known.votes.slots.values()))}
    for name in warehouse.notes():
        if name.startswith(NOTE) and name not in named:
            warehouse.forget(name)
    known.noted, known.unnoted_rows = known.versions[0], 0


def kept(warehouse: Warehouse, until: Versions) -> Voting | None:
    """What was kept last, if it is of no later version."""
    if (note := _note(warehouse, until)) is None:
        return None
    zones = {
        cluster_id: {node: (zone[0], zone[1], zone[2]) for node, zone in of_cluster.items()}
        for cluster_id, of_cluster in note["zones"].items()
    }
    tallies = {
        cluster_id: {node: _tally(kept_as, zones.get(cluster_id, {}).get(node)) for node, kept_as in of_cluster.items()}
        for cluster_id, of_cluster in note["tallies"].items()
    }
    return Voting(
        versions=(note["versions"][0], note["versions"][1]),
        nodes={(cluster_id, node) for cluster_id, node in note["nodes"]},
        zones=zones,
        votes=VotesByDay(warehouse, _slots(note)),
        tallies=tallies,
        noted=note["versions"][0],
    )


def _note(warehouse: Warehouse, until: Versions) -> dict[str, Any] | None:
    note = warehouse.recall(NOTE)
    if note.get("form") != _FORM or note["tables"] != list(map(warehouse.table_id, _TABLES)):
        return None
    is_later = any(
        at is not None and (now is None or at > now) for at, now in zip(note["versions"], until, strict=True)
    )
    return None if is_later else note


def _slots(note: Mapping[str, Any]) -> dict[int, Slot]:
    return {int(at): Slot(name, days) for at, (name, days) in note["slots"].items()}


def _tally(kept_as: list[Any], zone: Zone | None) -> NodeTally:
    first, tally = kept_as
    counted = ClockTally.of_kept(tally, None if zone is None else zone[2])
    return NodeTally(counted, None if first is None else (first[0], first[1]))
