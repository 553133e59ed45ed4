"""Closed sets: tables hold exactly their values, as plain text, and reading a row gives the members back."""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa
import pytest

from rebalance_audit.domain import kinds, tables
from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import Bound, EvidenceTier, MovementKind, Outcome, ResourceType
from rebalance_audit.domain.model import Mark, Movement, Rebalance, from_row, to_row

COLUMNS: dict[tuple[str, str], type[StrEnum]] = {
    ("gold.rebalance", "group_type"): kinds.GroupType,
    ("gold.rebalance", "kind"): kinds.RebalanceKind,
    ("gold.rebalance", "outcome"): kinds.Outcome,
    ("gold.rebalance", "mode"): kinds.Mode,
    ("gold.rebalance", "trigger"): Cause,
    ("gold.rebalance", "trigger_tier"): kinds.EvidenceTier,
    ("gold.rebalance", "pause_tier"): kinds.EvidenceTier,
    ("gold.rebalance_member", "change"): kinds.MemberChange,
    ("gold.movement", "resource_type"): kinds.ResourceType,
    ("gold.movement", "kind"): kinds.MovementKind,
    ("gold.movement", "pause_tier"): kinds.EvidenceTier,
    ("gold.finding", "severity"): kinds.Severity,
    ("gold.finding", "status"): kinds.FindingStatus,
}


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_table_takes_the_values_of_the_type_and_no_others(table: str, column: str) -> None:
    [found] = [c for c in tables.BY_NAME[table].columns if c.name == column]
    assert found.values == tuple(COLUMNS[table, column])


def test_the_contracts_values_are_these() -> None:
    # As written in docs/definitions.md; readers outside this program filter by them.
    assert tables.OUTCOMES == ("completed", "emptied", "superseded", "failed", "missing", "open")
    assert tables.REBALANCE_KINDS == ("rebalance", "static_rewrite")
    assert tables.MODES == ("eager", "cooperative", "incremental", "server", "unknown")
    assert tables.TIERS == ("recorded", "logged", "inferred", "unknown")
    assert tables.MOVEMENT_KINDS == ("moved", "returned", "assigned", "revoked", "restarted")
    assert tables.SEVERITIES == ("info", "warning", "critical")


def test_what_is_stored_is_plain_text_and_what_is_read_is_of_the_type() -> None:
    mark = Mark(bound=Bound.LOWER, at_ms=1, tier=EvidenceTier.LOGGED, rank=0, detail="")
    movement = Movement(
        resource_type=ResourceType.PARTITION, resource="orders-0", kind=MovementKind.MOVED, stop_marks=(mark,)
    )
    rebalance = Rebalance(
        cluster_id="c", rebalance_id="r", group_id="g", outcome=Outcome.EMPTIED, movements=(movement,)
    )
    stored = pa.Table.from_pylist([to_row(rebalance)]).to_pylist()[0]
    assert type(stored["outcome"]) is type(stored["movements"][0]["kind"]) is str
    read = from_row(Rebalance, stored)
    assert read.outcome is Outcome.EMPTIED
    assert read.movements[0].kind is MovementKind.MOVED
    assert read.movements[0].stop_marks[0].bound is Bound.LOWER
