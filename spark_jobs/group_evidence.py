"""Facts from the events of a whole cluster: the clocks of nodes, and the end of the evidence."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from rebalance_audit.domain.gather.clocks import NodeClock
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.spreading import in_this_process
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import kept_votes
from spark_jobs.clock_news import with_news
from spark_jobs.clock_votes import all_votes
from spark_jobs.day_votes import LostVotes
from spark_jobs.kept_folds import folded
from spark_jobs.node_tallies import NodeReading, Versions, Voting

Clocks = dict[str, dict[str, NodeClock]]
"""By cluster and node."""


def node_clocks(warehouse: Warehouse, event_version: int | None, source_version: int | None) -> Clocks:
    """The clock of every node with log events."""
    found: Clocks = defaultdict(dict)
    for known in node_readings(warehouse, event_version, source_version):
        found[known.cluster_id][known.node] = known.clock
    return dict(found)


_VOTING: WeakKeyDictionary[Warehouse, Voting] = WeakKeyDictionary()
"""What was worked out last: four stages of a run need it at the same versions, and most news adds no vote."""


def node_readings(warehouse: Warehouse, event_version: int | None, source_version: int | None) -> list[NodeReading]:
    """Of the nodes whose logs name groups, and of those whose zone is configured."""
    asked = (
        warehouse.version("silver.group_event") if event_version is None else event_version,
        warehouse.version("bronze.source") if source_version is None else source_version,
    )
    known = _VOTING[warehouse] = _voting(warehouse, asked)
    if warehouse.is_writing and known.is_late:
        kept_votes.keep(warehouse, known)
    return known.readings


def _voting(warehouse: Warehouse, asked: Versions) -> Voting:
    spread_of = warehouse.spread_of
    for known in _before(warehouse, asked):
        if known.versions == asked:
            return known
        spread_of = in_this_process  # a process that goes on does not start Spark for a zone that is new
        with suppress(LostVotes):
            if (now := with_news(warehouse, known, asked)) is not None:
                return now
    return all_votes(warehouse, asked, spread_of)


def _before(warehouse: Warehouse, asked: Versions) -> Iterator[Voting]:
    """What this process knows, then what is kept."""
    if (known := _VOTING.pop(warehouse, None)) is not None:
        yield known
    if (known := kept_votes.kept(warehouse, asked)) is not None:
        yield known


def settings_of(clocks: Clocks) -> dict[str, Any]:
    """The settings of the clocks that decide instants, comparable with what was remembered."""
    return {
        cluster_id: {
            node: json.loads(json.dumps([asdict(clock)["source"], clock.zone, clock.offsets]))
            for node, clock in sorted(by_node.items())
        }
        for cluster_id, by_node in sorted(clocks.items())
    }


def seen_until_ms(warehouse: Warehouse) -> dict[str, int]:
    """The end of each cluster's evidence: the last record time anything was read at."""
    versions = tuple(warehouse.version(table) for table, _, _ in _ENDS)
    known = _SEEN.get(warehouse)
    if known is None or known[0] != versions:
        known = _SEEN[warehouse] = versions, _seen_until_ms(warehouse)
    return dict(known[1])


_ENDS = (
    ("bronze.source", "to_at_ms", "true"),
    ("silver.group_event", "at_ms", "source_kind <> 'log'"),
    ("silver.commit_mark", "last_at_ms", "true"),
)
_SEEN: WeakKeyDictionary[Warehouse, tuple[tuple[int | None, ...], dict[str, int]]] = WeakKeyDictionary()
"""The ends that were read last: stages need them half a dozen times in a run."""


def _seen_until_ms(warehouse: Warehouse) -> dict[str, int]:
    found: dict[str, int] = {}
    for table, column, where in _ENDS:
        latest = folded(warehouse, f"end-{table}", table, None, partial(_latest, column, where), value_version=1)
        for cluster_id, at_ms in (latest or {}).items():
            found[cluster_id] = max(found.get(cluster_id, at_ms), at_ms)
    return found


def _latest(column: str, where: str, known: dict[str, int] | None, files: Sequence[str]) -> dict[str, int]:
    found = dict(known or {})
    sql = f"SELECT cluster_id, max({column}) FROM {relation(files)} WHERE {where} GROUP BY 1"
    with cursor() as db:
        for cluster_id, at_ms in db.execute(sql).fetchall():
            if at_ms is not None:
                found[cluster_id] = max(found.get(cluster_id, at_ms), at_ms)
    return found
