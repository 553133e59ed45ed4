"""A long history is judged in eras: what goes on over their ends is one finding, and news costs the last eras."""

from __future__ import annotations

import json
from random import Random

import pytest

from rebalance_audit.domain.detect import DEFAULT, Limits, detect_group, eras, judged_eras
from rebalance_audit.domain.model import Finding, Rebalance, from_row, to_row
from tests.domain.detect.group_story import GroupStory
from tests.domain.detect.test_due import a_life

LIMITS = (DEFAULT, Limits(settled_ms=150_000, quiet_ms=700_000))


def cut_into(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eras, "ERA_REBALANCES", size)


def uncut(rebalances: list[Rebalance], limits: Limits = DEFAULT) -> list[Finding]:
    with pytest.MonkeyPatch.context() as patch:
        cut_into(1 << 30, patch)
        return detect_group(rebalances, (), limits)


def stored(findings: list[Finding]) -> list[Finding]:
    return [from_row(Finding, row) for row in json.loads(json.dumps([to_row(finding) for finding in findings]))]


def test_judging_goes_on_from_any_era_as_it_does_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_into(9, monkeypatch)
    carried_rules: set[str] = set()
    for seed in range(8):
        random = Random(seed)
        rebalances, limits = a_life(random).rebalances, random.choice(LIMITS)
        whole = list(judged_eras(rebalances, limits))
        assert [era.number for era in whole] == list(range(-(-len(rebalances) // 9)))
        for era in whole[:-1]:
            begin = 9 * (era.number + 1)
            # More of the history, or less, changes nothing of an era that has ended.
            until = random.randint(begin + 1, len(rebalances))
            assert list(judged_eras(rebalances[:until], limits))[: era.number + 1] == whole[: era.number + 1]
            rest = judged_eras(rebalances[begin:], limits, first_place=begin, carried=stored(list(era.carried)))
            assert list(rest) == whole[era.number + 1 :]
            carried_rules |= {finding.rule_id for finding in era.carried}
        ids = [finding.finding_id for era in whole for finding in era.findings]
        assert len(ids) == len(set(ids)), seed
        found = detect_group(rebalances, (), limits)
        assert sorted(found, key=repr) == sorted((f for era in whole for f in era.findings), key=repr)
    assert carried_rules >= {"RB001", "RB002", "RB006", "RB007"}


def test_a_storm_is_one_finding_with_the_sums_of_all_eras(monkeypatch: pytest.MonkeyPatch) -> None:
    story = GroupStory("orders").joins("c1", "c2", at_s=0)
    for at in range(100):
        story.meets_again(at_s=3_600 + 15 * at, because="leader_rejoined")
    [expected] = [f for f in uncut(story.rebalances) if f.rule_id == "RB001"]
    cut_into(16, monkeypatch)
    [found] = [f for f in detect_group(story.rebalances) if f.rule_id == "RB001"]
    numbers = json.loads(found.numbers or "")
    assert numbers.pop("with_excused_count") == 100
    assert numbers == json.loads(expected.numbers or "")
    assert numbers["rebalance_count"] == 100
    same = ("finding_id", "severity", "status", "first_seen_at_ms", "last_seen_at_ms", "title", "evidence", "detail")
    assert [getattr(found, name) for name in same] == [getattr(expected, name) for name in same]


def test_a_state_is_one_finding_from_its_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    story = GroupStory("orders", mode="cooperative", assignor="cooperative-sticky").joins("c1", "c2", at_s=0)
    story.becomes(mode="eager")
    for at in range(40):  # too rare for a storm
        story.meets_again(at_s=3_600 * (at + 1), because="leader_rejoined")
    same = ("finding_id", "status", "severity", "first_seen_at_ms", "last_seen_at_ms", "title", "numbers", "evidence")
    expected = [[getattr(f, name) for name in same] for f in uncut(story.rebalances) if f.rule_id == "RB002"]
    cut_into(8, monkeypatch)
    found = [[getattr(f, name) for name in same] for f in detect_group(story.rebalances) if f.rule_id == "RB002"]
    assert [row[:6] for row in found] == [row[:6] for row in expected]
    assert len(found) == 1
    assert json.loads(found[0][6]) == json.loads(expected[0][6])
    assert found[0][7][0] == expected[0][7][0]


def test_a_state_that_ends_with_an_era_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    story = GroupStory("orders").joins("c1", "c2", at_s=0, unassigned_count=3)
    story.meets_again(at_s=600, because="leader_rejoined", unassigned_count=3)
    story.meets_again(at_s=1_200, because="leader_rejoined", unassigned_count=0)
    story.meets_again(at_s=1_800, because="leader_rejoined", unassigned_count=0)
    cut_into(2, monkeypatch)
    [found] = [f for f in detect_group(story.rebalances) if f.rule_id == "RB013"]
    assert found.status == "resolved"
    assert "were without an owner" in found.title
    assert found.severity == "warning"


def test_a_fault_before_an_era_ended_is_open_until_it_was_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    story = GroupStory("orders").joins("c1", "c2", at_s=0)
    story.vanishes("c2", at_s=3_600).joins("c3", at_s=3_660)
    cut_into(2, monkeypatch)
    last_ms = story.rebalances[-1].assigned_at_ms or 0
    for later_ms, status in ((60_000, "open"), (600_000, "resolved")):
        found = detect_group(story.rebalances, seen_until_ms=last_ms + later_ms)
        assert [f.status for f in found if f.rule_id == "RB007"] == [status]


def test_captures_and_groups_of_connect_are_judged_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert eras.ERA_REBALANCES == 4_096
    cut_into(2, monkeypatch)
    story = GroupStory("workers", protocol_type="connect").joins("w1", "w2", at_s=0)
    for at in range(5):
        story.meets_again(at_s=3_600 * (at + 1), because="connect_config_changed")
    assert detect_group(story.rebalances) == uncut(story.rebalances)
