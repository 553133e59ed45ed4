"""Rows of gold.group: of groups about which anything is new, and of those whose rates changed as time went by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain import tables
from rebalance_audit.domain.model import Finding, Rebalance
from rebalance_audit.domain.publish.groups import DAY_MS, HOUR_MS, READS, group_row, of_open_findings
from rebalance_audit.warehouse.arrow_tables import arrow_schema, distinct
from spark_jobs.copied_rows import written_in
from spark_jobs.ended_eras import ended_eras, sums_before
from spark_jobs.engine import Engine
from spark_jobs.flat_rows import TeamOfGroup
from spark_jobs.group_evidence import seen_until_ms
from spark_jobs.group_rows import GROUP, GroupReader, Place, files_since, rows_of_few_keys, rows_with
from spark_jobs.histories import ObjectsByTable, histories
from spark_jobs.instants import counts_within, groups_within
from spark_jobs.plan import PUBLISH
from spark_jobs.stages.stage import Batch, Run

_REBALANCES, _FINDINGS = "silver.measured_rebalance", "silver.finding"


def groups_in(*parts: pa.Table) -> pa.Table:
    """Each group once."""
    keys = pa.concat_tables([part.cast(GROUP) for part in parts])
    return distinct(keys.filter(pc.is_valid(keys["group_id"])), GROUP.names)


def moving_groups(context: Run, batch: Batch) -> Iterator[pa.Table]:
    """Groups with a rebalance that left the last hour or day. Rates count back from the end of the evidence, which
    moved."""
    if batch.since[_REBALANCES] < 0:
        return  # all groups have new rows
    before: dict[str, int] = context.warehouse.recall(PUBLISH.name).get("seen_until_ms", {})
    now_ms = seen_until_ms(context.warehouse)
    moved = {cluster_id: now for cluster_id, now in now_ms.items() if now != before.get(cluster_id)}
    files = context.warehouse.files(_REBALANCES, batch.until[_REBALANCES])
    for window_ms in (HOUR_MS, DAY_MS) if moved else ():
        bounds = {c: (before.get(c, 0) - window_ms, now - window_ms) for c, now in moved.items()}
        first_ms, last_ms = min(after for after, _ in bounds.values()), max(until for _, until in bounds.values())
        yield groups_within(files_since(files, first_ms, last_ms), bounds)


def group_files(
    context: Run, engine: Engine, batch: Batch, scope: pa.Table, changed: pa.Table, folder: str
) -> list[str]:
    """The rows of the groups in `scope`. Of those in which no rebalance `changed` only the rates and what is said of
    findings are worked out again: their histories need not be read. Of a long history only what comes after the eras
    that have ended is."""
    warehouse = context.warehouse
    seen = seen_until_ms(warehouse)
    team: TeamOfGroup = context.settings.get("team")
    moved = _without(scope, changed)
    stored = (
        rows_of_few_keys(warehouse.files("gold.group"), moved, arrow_schema("gold.group")) if moved.num_rows else None
    )
    written: list[str] = []
    files = warehouse.files(_REBALANCES, batch.until[_REBALANCES])
    of_day = files_since(files, min(seen.values(), default=0) - DAY_MS)
    if stored is not None and stored.num_rows:
        rows = _with_findings(context, _with_rates(stored, of_day, seen, team), batch.until[_FINDINGS])
        written = written_in("gold.group", rows.to_batches(), folder)
        scope = _without(scope, stored)
    ended = ended_eras(warehouse, batch.until, context.limits, _places(scope), ["sums"])
    before = sums_before(warehouse, batch.until, ended)
    windows = (HOUR_MS, DAY_MS) if before else ()
    rates = {w: dict(zip(before, counts_within(of_day, list(before), seen, w), strict=True)) for w in windows}
    reader = GroupReader(
        files={name: warehouse.files(name, batch.until[name]) for name in (_REBALANCES, _FINDINGS)},
        columns={
            _REBALANCES: [*READS, "place"],
            _FINDINGS: [c.name for c in tables.SILVER_FINDING.columns],
        },
        groups=scope,
        floors={place: of_group.first_place for place, of_group in before.items()},
    )

    def to_group(place: Place, known: ObjectsByTable) -> Iterator[tuple[str, dict[str, Any]]]:
        if known[_REBALANCES]:
            name = team(*place) if team is not None else None
            sums = before[place].sums if place in before else ()
            of_group = {window: counts[place] for window, counts in rates.items()} if place in before else None
            yield (
                "gold.group",
                group_row(
                    known[_REBALANCES], known[_FINDINGS], seen.get(place[0], 0), name, before=sums, rates=of_group
                ),
            )

    kinds = {_REBALANCES: Rebalance, _FINDINGS: Finding}
    if scope.num_rows:
        written += histories(engine, reader, kinds, to_group, folder).get("gold.group", [])
    return written


def _without(groups: pa.Table, others: pa.Table) -> pa.Table:
    known = set(_places(others))
    return groups.filter(pa.array([place not in known for place in _places(groups)], pa.bool_()))


def _with_rates(rows: pa.Table, files: Sequence[str], seen: Mapping[str, int], team: TeamOfGroup) -> pa.Table:
    """Rows of groups with their rates by the present end of the evidence. `files`: those of the last day."""
    places = _places(rows)
    columns: dict[str, list[Any]] = {
        f"rebalance_count_{name}": counts_within(files, places, seen, window_ms)
        for name, window_ms in (("1h", HOUR_MS), ("24h", DAY_MS))
    }
    columns["team"] = [team(*place) if team is not None else None for place in places]
    return _with_columns(rows, columns)


def _with_findings(context: Run, rows: pa.Table, version: int) -> pa.Table:
    """The same rows with what they say of the groups' open findings."""
    places = _places(rows)
    severities: dict[Place, list[str]] = {place: [] for place in places}
    named: dict[str, list[str | None]] = {"status": ["open"], "group_id": [group_id for _, group_id in places]}
    found = rows_with(context.warehouse, _FINDINGS, [*GROUP.names, "severity"], named, version)
    for place, severity in zip(_places(found), found["severity"].to_pylist(), strict=True):
        if place in severities:
            severities[place].append(severity)
    said = [of_open_findings(severities[place]) for place in places]
    return _with_columns(rows, {name: [of[name] for of in said] for name in of_open_findings([])})


def _with_columns(rows: pa.Table, columns: Mapping[str, list[Any]]) -> pa.Table:
    for name, values in columns.items():
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))
    return rows


def _places(rows: pa.Table) -> list[Place]:
    return list(zip(*(rows[name].to_pylist() for name in GROUP.names), strict=True))
