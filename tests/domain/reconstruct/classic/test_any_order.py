"""Order of arrival, repeated delivery and cuts do not matter: generated histories, and every golden capture."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import GroupEvidence, LogKind, Rebalance
from rebalance_audit.domain.reconstruct import Reconstruction, reconstruct
from tests.captures import CAPTURES, gathered, name_of

from .stories import Story, a_group, member_id

T0 = 1_800_000_000_000
STEPS = ("join", "leave", "die", "rejoin", "supersede", "forge", "commit", "empty", "delete", "static")


@st.composite
def histories(draw: st.DrawFn) -> Story:
    """A group's life of up to twelve steps, shown by records, commits and an arbitrary part of its log lines."""
    story = a_group(draw(st.sampled_from(["orders-app", "evil\ngroup"])))
    at_ms, number, members = T0, 0, ["c1"]
    assignor = draw(st.sampled_from(["range", "cooperative-sticky", "sticky"]))
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=1, max_size=12)):
        at_ms += draw(st.integers(1, 20_000))
        has_lines = draw(st.booleans())
        match step:
            case "join":
                members = [*members, f"c{len(members) + number + 1}"]
            case "leave" | "die" if len(members) > 1:
                gone = members[0]
                members = members[1:]
                if has_lines:
                    kind = LogKind.MEMBER_LEFT if step == "leave" else LogKind.MEMBER_FAILED
                    story.says(kind, at_ms=at_ms - 1, member_id=member_id(gone))
            case "commit":
                story.commit(draw(st.integers(0, 3)), at_ms=at_ms)
                continue
            case "forge":
                story.preparing(draw(st.integers(0, 30)), "removing member x on heartbeat expiration.", at_ms=at_ms)
                continue
            case "supersede":
                number += 1
                if has_lines:
                    story.preparing(number - 1, "Leader x re-joining group during Stable", at_ms=at_ms)
                    story.stabilized(number, at_ms=at_ms + 5)
                continue
            case "static" if number:
                story.says(LogKind.STATIC_MEMBER_REPLACED, at_ms=at_ms, member_id="s1", group_instance_id="one")
                continue
            case "empty" if number:
                number += 1
                story.empty(number, at_ms=at_ms)
                continue
            case "delete" if number:
                story.deleted(at_ms=at_ms)
                number = 0
                continue
        number += 1
        if has_lines:
            story.preparing(number - 1, "removing member x on heartbeat expiration.", at_ms=at_ms)
            story.stabilized(number, at_ms=at_ms + 20, member_count=len(members))
            story.received(number, at_ms=at_ms + 29)
        held = {m: " ".join(str(p) for p in range(4) if p % len(members) == i) for i, m in enumerate(members)}
        story.generation(number, held, at_ms=at_ms + 30, joined_at_ms=at_ms + 20, assignor=assignor)
    return story


def rows(reconstruction: Reconstruction) -> list[Rebalance]:
    return [measure(r) for r in reconstruction.rebalances]


def shuffled(evidence: GroupEvidence, seed: int, *, repeat: bool = False) -> GroupEvidence:
    choose = random.Random(seed)
    changes: dict[str, Any] = {}
    for name in ("records", "marks", "lines", "statuses", "configs", "topic_names"):
        things = list(getattr(evidence, name))
        if repeat and things:
            things += choose.choices(things, k=len(things))
        choose.shuffle(things)
        changes[name] = tuple(things)
    return replace(evidence, **changes)


@settings(max_examples=150)
@given(story=histories(), seed=st.integers(0, 1 << 16))
def test_any_order_of_arrival_gives_the_same_rows(story: Story, seed: int) -> None:
    evidence = story.evidence()
    expected = reconstruct(evidence)
    assert reconstruct(shuffled(evidence, seed)) == expected
    assert reconstruct(shuffled(evidence, seed, repeat=True)) == expected


@settings(max_examples=150)
@given(story=histories())
def test_every_row_has_a_key_of_its_own_and_numbers_that_agree(story: Story) -> None:
    found = rows(reconstruct(story.evidence()))
    assert len({r.rebalance_id for r in found}) == len(found)
    for r in found:
        assert r.resource_count is None or r.resource_count >= 0
        for m in r.movements:
            if m.pause_lower_ms is not None and m.pause_estimate_ms is not None:
                assert m.pause_lower_ms <= m.pause_estimate_ms
            if m.pause_upper_ms is not None and m.pause_estimate_ms is not None:
                assert m.pause_estimate_ms <= m.pause_upper_ms


@settings(max_examples=100)
@given(story=histories(), cut=st.integers(0, 100))
def test_lines_that_come_later_neither_rename_nor_remove_what_records_show(story: Story, cut: int) -> None:
    evidence = story.evidence()
    early = reconstruct(replace(evidence, lines=evidence.lines[: cut * len(evidence.lines) // 100]))
    late = reconstruct(evidence)
    lasting = {r.rebalance_id for r in early.rebalances if r.outcome in ("completed", "emptied") and r.resource_count}
    assert lasting <= {r.rebalance_id for r in late.rebalances}


@pytest.mark.parametrize("capture", CAPTURES, ids=name_of)
def test_a_capture_may_arrive_in_any_order_and_twice(capture: Path) -> None:
    for evidence in gathered(capture).groups:
        expected = rows(reconstruct(evidence))
        for seed in range(2):
            assert rows(reconstruct(shuffled(evidence, seed, repeat=seed == 1))) == expected
