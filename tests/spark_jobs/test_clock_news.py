"""Clocks are those of all pairs at once, in whatever order evidence comes and wherever a process begins."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rebalance_audit.domain.gather.clock_tally import ClockTally
from rebalance_audit.domain.model import LogKind
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.spreading import SpreadOf
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import clock_news, clock_votes, day_votes, group_evidence, kept_votes, node_tallies
from spark_jobs.day_votes import STRETCH_MS
from spark_jobs.group_evidence import node_readings
from spark_jobs.node_tallies import Versions, Voting
from tests.domain.gather.plain_clock import plain_clock

Row = dict[str, Any]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
BERLIN_BACK_MS = 1_792_890_000_000
"""2026-10-25T01:00:00Z: in Berlin 03:00 becomes 02:00."""
VOTES = 3
"""Lines of a stretch that vote here."""
NODES = ("broker-1", "broker-2")


@pytest.fixture(autouse=True)
def _few_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = clock_votes.FIRST.replace(f"<= {day_votes.PAIRS_PER_STRETCH}", f"<= {VOTES}")
    for module in (clock_votes, clock_news):
        monkeypatch.setattr(module, "FIRST", first)
    for module in (node_tallies, clock_news):
        monkeypatch.setattr(module, "PAIRS_PER_STRETCH", VOTES)
    monkeypatch.setattr(node_tallies, "BEHIND", 1)
    monkeypatch.setattr(day_votes, "_SLOTS", 3)
    monkeypatch.setattr(day_votes, "_SLOTS_READ", 1)
    monkeypatch.setattr(day_votes, "UNPACKED", 12)


def a_line(chance: Random, at: int, local_at_ms: int, kind: LogKind, group: str, number: int, node: str) -> Row:
    field = "group_epoch" if kind is LogKind.EPOCH_BUMPED else "generation_id"
    detail: Row = {"fields": {field: number}, "at_ms": None, "coordinator_broker_id": None}
    if chance.random() < 0.1:
        detail["could_be_forged"] = True
    return {
        "cluster_id": f"cluster-{group[0]}", "group_id": group, "ref": f"log:{node}/x#1@{at}", "source_kind": "log",
        "kind": kind.value, "node": node, "at_ms": local_at_ms, "text": "", "detail": json.dumps(detail),
    }  # fmt: skip


def a_record(at: int, at_ms: int, group: str, number: int, kind: str, stable_at_ms: int | None, members: int) -> Row:
    value: Row = {"epoch": number}
    if kind == "GroupMetadata":
        value = {
            "generation": number, "current_state_timestamp": stable_at_ms,
            "members": [{"member_id": f"m{n}"} for n in range(members)],
        }  # fmt: skip
    return {
        "cluster_id": f"cluster-{group[0]}", "group_id": group, "ref": f"record:t-0@{at}", "source_kind": "record",
        "kind": kind, "topic": "t", "partition": 0, "offset": at, "at_ms": at_ms, "key": b"", "value": b"v",
        "detail": json.dumps({"value": value}),
    }  # fmt: skip


def evidence(chance: Random, count: int) -> list[Row]:
    """Lines and the records that they belong to: some again, some far away, with a change of the clocks."""
    rows: list[Row] = []
    for at in range(count):
        group, number = chance.choice(["a1", "a2", "a1", "a2", "b"]), chance.randrange(40)
        node = chance.choice(NODES)
        at_ms = BERLIN_BACK_MS + chance.randrange(-16, 16) * HOUR_MS + chance.randrange(HOUR_MS)
        offset_ms = 2 * HOUR_MS if at_ms < BERLIN_BACK_MS and node != "broker-2" else HOUR_MS
        late_ms = chance.choice([0, 1, 2, 5, 40, chance.randrange(-DAY_MS, DAY_MS)])
        kind = chance.choice([LogKind.STABILIZED, LogKind.STABILIZED, LogKind.EMPTIED, LogKind.EPOCH_BUMPED])
        rows.append(a_line(chance, at, at_ms + offset_ms + late_ms, kind, group, number, node))
        for again in range(chance.choice([0, 1, 1, 1, 2])):
            written_ms = at_ms + again * chance.choice([1, HOUR_MS, 40 * DAY_MS])
            record = "ConsumerGroupMetadata" if kind is LogKind.EPOCH_BUMPED else "GroupMetadata"
            stable_at_ms = chance.choice([None, at_ms, written_ms - 5])
            members = 0 if kind is LogKind.EMPTIED else 1
            rows.append(a_record(2 * at + again, written_ms, group, number, record, stable_at_ms, members))
    return rows


def plainly(rows: list[Row], zones: dict[tuple[str, str], str]) -> list[tuple[Any, ...]]:
    """What the clocks are by all of these rows, worked out at once."""
    instants: dict[Any, list[int]] = defaultdict(list)
    stretches: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        value = json.loads(row["detail"]).get("value")
        place = row["cluster_id"], row["group_id"]
        if row["source_kind"] == "log":
            stretches[row["cluster_id"], row["node"], row["kind"], row["at_ms"] // STRETCH_MS].append(row)
        elif row["kind"] == "ConsumerGroupMetadata":
            instants[(*place, "epoch_bumped", value["epoch"])].append(row["at_ms"])
        elif not value["members"]:
            instants[(*place, "emptied", value["generation"])].append(row["at_ms"])
        else:
            instants[(*place, "assignment_received", value["generation"])].append(row["at_ms"])
            if value["current_state_timestamp"] is not None:
                stable_at_ms = value["current_state_timestamp"]
                instants[(*place, "stabilized", value["generation"])].append(stable_at_ms)
    pairs: dict[tuple[str, str], list[tuple[int, int]]] = {node: [] for node in zones}
    first: dict[tuple[str, str], tuple[int, str]] = {}
    for (cluster_id, node, kind, _), of_stretch in stretches.items():
        of_node = pairs.setdefault((cluster_id, node), [])
        for line in sorted(of_stretch, key=lambda row: (row["at_ms"], row["ref"]))[:VOTES]:
            here = line["at_ms"], line["ref"]
            first[cluster_id, node] = min(here, first.get((cluster_id, node), here))
            detail = json.loads(line["detail"])
            if "could_be_forged" not in detail:
                (number,) = detail["fields"].values()
                of_node += [(line["at_ms"], at_ms) for at_ms in instants[cluster_id, line["group_id"], kind, number]]
    found = []
    for place, of_node in sorted(pairs.items()):
        tally = ClockTally(zones.get(place))
        for pair in of_node:
            tally.add(*pair)
        clock = plain_clock(of_node, zones.get(place))
        found.append((*place, first.get(place), clock, tally.as_kept()))
    return found


def shown(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    found = []
    for reading in node_readings(warehouse, None, None):
        known = group_evidence._VOTING[warehouse].tallies[reading.cluster_id][reading.node]
        assert (reading.zone, reading.first_ref) == (known.tally.configured, known.first and known.first[1])
        found.append((reading.cluster_id, reading.node, known.first, reading.clock, known.tally.as_kept()))
    return found


def die_while_it_is_noted(warehouse: Warehouse, after: int) -> None:
    """After so many notes were written."""
    written = iter(range(after))

    def remember(note: str, content: Row) -> None:
        next(written)
        Warehouse.remember(warehouse, note, content)

    with pytest.MonkeyPatch.context() as patch, suppress(StopIteration), warehouse.lease():
        patch.setattr(warehouse, "remember", remember)
        node_readings(warehouse, None, None)


@pytest.mark.parametrize("seed", range(8))
def test_clocks_are_those_of_all_pairs_at_once(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(seed)
    rows = evidence(chance, 220)
    if seed % 2:
        chance.shuffle(rows)
    rows.sort(key=lambda row: row["at_ms"] // DAY_MS if seed % 4 < 2 else 0)
    warehouse = Warehouse.open(tmp_path, create=True)
    without_zone = {"cluster_id": "cluster-a", "source": "log:broker-1/x", "read_id": "r", "kind": "log"}
    warehouse.append("bronze.source", rows_to_table("bronze.source", [without_zone]))
    anew: list[Versions] = []

    def all_votes(of: Warehouse, versions: Versions, spread_of: SpreadOf) -> Voting:
        if kept_votes.NOTE in of.notes():
            anew.append(versions)
        return clock_votes.all_votes(of, versions, spread_of)

    monkeypatch.setattr(group_evidence, "all_votes", all_votes)
    came: list[Row] = []
    zones: dict[tuple[str, str], str] = {}
    while rows:
        news = [rows.pop(0) for _ in range(min(len(rows), chance.choice([1, 3, 10, 40])))]
        warehouse.append("silver.group_event", rows_to_table("silver.group_event", news))
        came += news
        if seed > 3 and chance.random() < 0.2:
            node, zone = ("cluster-a", chance.choice(NODES)), chance.choice(["Europe/Berlin", "+01:00"])
            zones[node] = zone
            read = {
                "cluster_id": node[0], "source": f"log:{node[1]}/x", "read_id": f"r{len(came):04}", "kind": "log",
                "log_time_zone": zone,
            }  # fmt: skip
            warehouse.append("bronze.source", rows_to_table("bronze.source", [read]))
        if chance.random() < 0.2:
            die_while_it_is_noted(Warehouse.open(tmp_path), chance.randrange(4))
        if seed % 4 == 3 and chance.random() < 0.2:
            warehouse.forget(chance.choice([name for name in warehouse.notes() if name.startswith(kept_votes.NOTE)]))
        if chance.random() < 0.3:  # a process begins
            warehouse = Warehouse.open(tmp_path)
        if chance.random() < 0.6:
            with warehouse.lease():
                assert shown(warehouse) == plainly(came, zones)
        else:
            assert shown(Warehouse.open(tmp_path)) == plainly(came, zones)
    assert shown(warehouse) == shown(Warehouse.open(tmp_path)) == plainly(came, zones)
    assert seed > 2 or not anew, "with notes nothing is read anew"
    assert sum(of_node[3].pair_count for of_node in shown(warehouse)) > 50
