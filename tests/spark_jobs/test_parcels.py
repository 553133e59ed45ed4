"""Parcels bring each group what it is made from, whatever their size: what `gather` brings it. No JVM."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ingest.evidence import read_evidence
from rebalance_audit.domain.decode import decode_source
from rebalance_audit.domain.gather.groups import group_evidence, line_row, record_row
from rebalance_audit.domain.log_lines import parse_lines
from rebalance_audit.domain.model import CommitMark, ConnectRecord, GroupEvidence, GroupRecord
from rebalance_audit.domain.wire import DecodeError
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import parcel_plan, parcels, task_files
from spark_jobs.belonging import Belonging, belonging
from spark_jobs.group_evidence import Clocks, node_clocks
from tests.captures import GOLDEN, gathered, name_of

CAPTURES = [
    GOLDEN / "4.3.0" / name
    for name in ("eager_join_leave_kill", "connect_worker_lost", "kip848_join_leave", "hostile_names")
]
SIZES = {"as they are": (parcel_plan.BUCKET_BYTES, parcels.PARCEL_BYTES), "tiny": (4_000, 1_000)}


class Stored:
    """A capture's events and marks in a warehouse, in files of several row groups."""

    def __init__(self, capture: Path, folder: Path, file_count: int = 2) -> None:
        self.groups = {group.group_id: group for group in gathered(capture).groups}
        self.warehouse = Warehouse.open(folder, create=True)
        rows = event_rows(capture)
        size = len(rows) // file_count + 1
        for part in (
            (rows[::2], rows[1::2]) if file_count == 2 else [rows[n : n + size] for n in range(0, len(rows), size)]
        ):
            self.warehouse.append(parcel_plan.EVENTS, rows_to_table(parcel_plan.EVENTS, part))
        self.cluster_id = rows[0]["cluster_id"]
        marks = [
            {"cluster_id": self.cluster_id, "group_id": group.group_id} | asdict(mark)
            for group in self.groups.values()
            for mark in group.marks
        ]
        self.warehouse.append(parcel_plan.MARKS, rows_to_table(parcel_plan.MARKS, marks))
        self.until = {table: self.warehouse.version(table) for table in (parcel_plan.EVENTS, parcel_plan.MARKS)}
        self.clocks: Clocks = node_clocks(self.warehouse, self.until[parcel_plan.EVENTS], None)
        self.homes: Belonging = belonging(self.warehouse, self.until[parcel_plan.EVENTS])

    def plan(
        self, wanted: set[str], starts: Mapping[tuple[str, str], parcel_plan.Start] | None = None
    ) -> parcel_plan.ParcelPlan:
        evidence = self.evidence(starts or {})
        sizes = evidence.sizes({(self.cluster_id, group_id) for group_id in wanted})
        return parcel_plan.plan_of(evidence, sizes, self.homes, 1)

    def evidence(self, starts: Mapping[tuple[str, str], parcel_plan.Start]) -> parcel_plan.StoredEvidence:
        batch: Any = SimpleNamespace(until=self.until)
        return parcel_plan.StoredEvidence(warehouse=self.warehouse, batch=batch, clocks=self.clocks, starts=starts)

    def work(self, plan: parcel_plan.ParcelPlan) -> pa.Table:
        context: Any = SimpleNamespace(warehouse=self.warehouse)
        batch: Any = SimpleNamespace(until=self.until)
        return parcel_plan.evidence_of(context, batch, plan)

    def packed(self, plan: parcel_plan.ParcelPlan) -> list[pa.RecordBatch]:
        packed = parcels.packing(lambda: plan)(iter(self.work(plan).to_batches()))
        return sorted(packed, key=lambda parcel: (parcel["bucket"][0].as_py(), parcel["slice"][0].as_py()))


def event_rows(capture: Path) -> list[dict[str, Any]]:
    evidence = read_evidence(capture)
    rows = []
    for source in evidence.records():
        try:
            event = decode_source(source)
        except DecodeError:
            continue
        if isinstance(event, GroupRecord | ConnectRecord):
            rows.append(record_row(source, event))
    for _, lines in groupby(evidence.lines(), key=lambda line: (line.node, line.file_id)):
        whole = list(lines)
        by_ref = {line.ref: line for line in whole}
        rows += [line_row(by_ref[event.ref], event) for event in parse_lines(whole)]
    return rows


@pytest.fixture(scope="module", params=CAPTURES, ids=name_of)
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Stored:
    return Stored(request.param, tmp_path_factory.mktemp("warehouse"))


@pytest.mark.parametrize("asked", [0, task_files.ASKED_AT_MOST], ids=["of all row groups", "of those that may hold it"])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_each_group_is_brought_all_that_shows_it(
    stored: Stored, sizes: tuple[int, int], asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_files, "ASKED_AT_MOST", asked)
    monkeypatch.setattr(parcel_plan, "BUCKET_BYTES", sizes[0])
    monkeypatch.setattr(parcels, "PARCEL_BYTES", sizes[1])
    plan = stored.plan(set(stored.groups))
    assert bool(plan.cuts) == (sizes == SIZES["tiny"])
    brought = _brought(stored, plan)
    assert brought == stored.groups


def test_few_rows_have_the_sizes_that_many_have(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {(stored.cluster_id, group_id) for group_id in (*stored.groups, "nobody")}
    instants = sorted(row["at_ms"] for row in stored.warehouse.read(parcel_plan.EVENTS, ["at_ms"]).to_pylist())
    starts = {min(places): parcel_plan.Start(instants[len(instants) // 2], frozenset())}
    for some in ({}, starts):
        evidence = stored.evidence(some)
        few = evidence.sizes(places)
        assert sum(few.values()) > 0
        with monkeypatch.context() as patch:
            patch.setattr(parcel_plan, "_FEW_ROWS", 0)
            assert evidence.sizes(places) == few


def test_of_a_group_that_nobody_wants_nothing_is_brought(stored: Stored) -> None:
    wanted = min(stored.groups)
    assert list(_brought(stored, stored.plan({wanted}))) == [wanted]
    assert stored.packed(stored.plan(set())) == []


def test_a_large_group_comes_in_slices_of_time(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcel_plan, "BUCKET_BYTES", 4_000)
    plan = stored.plan(set(stored.groups))
    assert plan.cuts
    for bucket, cuts in plan.cuts.items():
        assert list(cuts) == sorted(set(cuts))
        assert list(plan.buckets.values()).count(bucket) == 1


def test_of_a_long_history_only_what_a_fold_starts_from_is_read(tmp_path: Path) -> None:
    stored = Stored(CAPTURES[0], tmp_path, file_count=40)
    [group_id] = stored.groups
    whole = _pieces_of(stored, stored.plan({group_id}))
    from_ms, first_ref = whole[-len(whole) // 5][0], min(whole)[1]
    start = parcel_plan.Start(from_ms, frozenset({first_ref}))
    plan = stored.plan({group_id}, {(stored.cluster_id, group_id): start})
    assert _pieces_of(stored, plan) == [(at, ref) for at, ref in whole if at >= from_ms or ref == first_ref]
    assert 2 * stored.work(plan).num_rows < stored.work(stored.plan({group_id})).num_rows


def _pieces_of(stored: Stored, plan: parcel_plan.ParcelPlan) -> list[tuple[int, str]]:
    """Instant and reference of each record and line."""
    found = parcels.groups_in(iter(stored.packed(plan)))
    return sorted((at, piece.ref) for _, coming in found for at, piece in coming if not isinstance(piece, CommitMark))


def _brought(stored: Stored, plan: parcel_plan.ParcelPlan) -> dict[str, GroupEvidence]:
    found: dict[str, GroupEvidence] = {}
    for (cluster_id, group_id), coming in parcels.groups_in(iter(stored.packed(plan))):
        pieces = list(coming)
        assert group_id not in found
        assert [instant for instant, _ in pieces] == sorted(instant for instant, _ in pieces)
        found[group_id] = group_evidence(
            cluster_id,
            group_id,
            [piece for _, piece in pieces if not isinstance(piece, CommitMark)],
            [piece for _, piece in pieces if isinstance(piece, CommitMark)],
            stored.clocks.get(cluster_id, {}),
            stored.groups[group_id].topic_names,
        )
    return found
