"""Captures with parts of their evidence taken away: what is left is shown, the rest is not made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import GroupEvidence, Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from tests.captures import CAPTURES, gathered, name_of
from tests.truth import scenario

CLASSIC = [
    capture
    for capture in CAPTURES
    if all(story["group_type"] == "classic" for story in scenario(capture).get("groups", {}).values())
    and not capture.name.startswith(("connect_", "mirror_maker_"))
    and scenario(capture).get("groups")
]


def compacted(evidence: GroupEvidence) -> GroupEvidence:
    """Only the last group record is left, and of each partition only the last commit."""
    if not evidence.records:
        return evidence
    last = max(evidence.records, key=lambda r: r.offset)
    marks = {(m.topic, m.partition): m for m in evidence.marks}
    kept = [replace(m, first_offset=m.last_offset, first_at_ms=m.last_at_ms, commit_count=1) for m in marks.values()]
    return replace(evidence, records=(last,), marks=tuple(kept))


def rows(evidence: GroupEvidence) -> list[Rebalance]:
    return [measure(r) for r in reconstruct(evidence).rebalances]


@pytest.mark.parametrize("capture", CLASSIC, ids=name_of)
def test_a_compacted_topic_shows_its_last_generation_and_invents_nothing(capture: Path) -> None:
    groups = scenario(capture)["groups"]
    for evidence in gathered(capture, with_lines=False).groups:
        if evidence.group_id not in groups:
            continue
        last = groups[evidence.group_id]["rebalances"][-1]
        if last["outcome"] == "open":
            assert not rows(compacted(evidence))
            continue
        (row,) = rows(compacted(evidence))
        assert (row.generation_id, row.outcome) == (last["number"], last["outcome"])
        # Before a first generation there is nothing that compaction could have taken.
        whole = last["number"] == 1
        assert row.trigger == (last["trigger"] if whole else "unknown")
        assert whole or not row.movements


@pytest.mark.parametrize("capture", CLASSIC, ids=name_of)
def test_lines_show_the_generations_that_compaction_took(capture: Path) -> None:
    groups = scenario(capture)["groups"]
    for evidence in gathered(capture).groups:
        # A line cannot be tied to a group whose own name breaks it in two.
        if evidence.group_id not in groups or "\n" in evidence.group_id:
            continue
        expected = groups[evidence.group_id]["rebalances"]
        found = rows(compacted(evidence))
        assert [r.generation_id for r in found if r.kind == "rebalance"] == [
            x["number"] for x in expected if x["kind"] == "rebalance"
        ]
        rebalances = [r for r in found if r.kind == "rebalance"]
        for r, x in zip(rebalances, [x for x in expected if x["kind"] == "rebalance"], strict=True):
            assert r.trigger in (x["trigger"], x.get("or_trigger"), "unknown"), (x["number"], r.trigger)
        assert not any(r.movements for r in found[:-1])


@pytest.mark.parametrize("capture", CLASSIC, ids=name_of)
def test_the_first_half_of_the_evidence_gives_the_first_half_of_the_rows(capture: Path) -> None:
    """A collector that has come half way: nothing is invented, and what is final stays as it is."""
    for evidence in gathered(capture).groups:
        whole = {r.rebalance_id: r for r in rows(evidence)}
        if not evidence.records:
            continue
        middle = sorted(evidence.records, key=lambda r: r.offset)[len(evidence.records) // 2]
        half = replace(
            evidence,
            records=tuple(r for r in evidence.records if r.offset <= middle.offset),
            marks=tuple(m for m in evidence.marks if m.last_offset <= middle.offset),
            lines=tuple(line for line in evidence.lines if (line.at_ms or 0) <= middle.at_ms),
        )
        early = rows(half)
        assert {r.rebalance_id for r in early} <= whole.keys()
        for r in early:
            if r.is_final:
                later = whole[r.rebalance_id]
                assert (r.outcome, r.mode, r.assigned_at_ms) == (later.outcome, later.mode, later.assigned_at_ms)
                assert {m.resource for m in r.movements} == {m.resource for m in later.movements}
