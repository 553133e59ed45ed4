"""ZooKeeper mode with state.change.logger at INFO: nothing shows leaders and in-sync replicas, so nothing is claimed of
them. The lines are those of seen/2.3.1 without state-change.log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.evidence import read_evidence
from rebalance_audit.domain.detect import detect_reassignments
from rebalance_audit.domain.explain.reassignment import explain
from rebalance_audit.domain.model import SourceLine
from rebalance_audit.domain.reassign import ReassignmentHistory
from rebalance_audit.domain.reassign.history import reassignment_history
from rebalance_audit.domain.reassign.lines import LogLines

SEEN = Path(__file__).parent / "seen/2.3.1"


def history_of(keep: Callable[[SourceLine], bool]) -> ReassignmentHistory:
    lines = [line for line in read_evidence(SEEN).lines() if keep(line)]
    return reassignment_history((), LogLines().read(lines).in_order(), cluster_id="zk", stall_limit_ms=1)


def from_controllers(line: SourceLine) -> bool:
    return line.file_name.startswith("controller.log")


def without_creation(line: SourceLine) -> bool:
    return from_controllers(line) and "New topics: [" not in line.text


def test_a_topics_replicas_are_known_from_its_creation() -> None:
    moves = {r.name: (r.original_replicas, r.target_replicas) for r in history_of(from_controllers).reassignments}
    assert moves["orders-1"] == ((2, 1), (3, 2))
    assert moves["orders-3"] == ((1, 2), (1,))


@pytest.mark.parametrize("keep", [from_controllers, without_creation])
def test_a_leader_and_in_sync_replicas_that_are_not_known_are_no_risk(keep: Callable[[SourceLine], bool]) -> None:
    history = history_of(keep)
    assert [r.outcome for r in history.reassignments] == ["completed"] * 5
    assert {(r.without_leader_ms, r.under_replicated_ms, r.leader_changes) for r in history.reassignments} == {
        (0, 0, 0)
    }
    assert {r.blocked_by for r in history.reassignments} <= {None, "unknown"}
    assert [f for f in detect_reassignments(history) if f.rule_id == "RA005"] == []
    first = "\n".join(explain(history.reassignments[0]))
    assert "leader not known" in first
    assert "in sync not known" in first


def test_an_origin_that_is_not_known_is_not_guessed() -> None:
    found = {(r.name, r.target_replicas): r for r in history_of(without_creation).reassignments}
    first = found["orders-0", (3, 4)]
    assert first.original_replicas is None
    assert (first.steps[0].phase, first.is_complete_evidence) == ("accepted", False)
    assert first.detail == "Its partition's creation is older than the logs: what it moved from is not known."
    assert found["orders-3", (1,)].original_replicas is None  # a shrink: only its end shows it
    assert found["orders-0", (1, 4)].original_replicas == (3, 4)  # the move before it shown
