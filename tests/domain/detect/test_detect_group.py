"""Every rule answers each case as the table says, and every finding keeps the laws of its table."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace

import pytest

from rebalance_audit.domain.detect import GROUP_RULES, Limits, detect_group
from tests.domain.detect.case import Case
from tests.domain.detect.cases import CASES
from tests.domain.detect.consumer_cases import storm_by_poll_timeout
from tests.domain.detect.group_story import a_connect_cluster, a_group


@pytest.mark.parametrize("case", CASES, ids=[f"{c.number} {c.says}" for c in CASES])
def test_each_rule_answers_as_the_table_says(case: Case) -> None:
    assert _answers(case, Limits()) == case.expected


def _answers(case: Case, limits: Limits) -> dict[str, list[str]]:
    story = case.story()
    answers: dict[str, list[str]] = {}
    for finding in detect_group(story.rebalances, story.tasks, limits, seen_until_ms=story.seen_until_ms):
        answers.setdefault(finding.rule_id, []).append(f"{finding.severity} {finding.status}")
    return answers


def test_the_table_numbers_its_cases_and_half_of_them_or_nearly_are_silent() -> None:
    assert [c.number for c in CASES] == list(range(1, len(CASES) + 1))
    for rule_id in GROUP_RULES:
        speaking = [c for c in CASES if rule_id in c.expected]
        assert speaking, f"{rule_id} has no case in which it speaks"
        assert len(CASES) - len(speaking) >= len(speaking)
    assert sum(not c.expected for c in CASES) * 5 >= len(CASES) * 2


@pytest.mark.parametrize("case", CASES, ids=[str(c.number) for c in CASES])
def test_every_finding_keeps_the_laws_of_its_table(case: Case) -> None:
    story = case.story()
    found = detect_group(story.rebalances, story.tasks, seen_until_ms=story.seen_until_ms)
    assert len({f.finding_id for f in found}) == len(found)
    for finding in found:
        assert finding.evidence
        assert all(finding.evidence)
        assert len(finding.evidence) <= 20
        assert finding.first_seen_at_ms <= finding.last_seen_at_ms
        assert finding.subject == story.group_id
        assert finding.subject_type == "group"
        assert re.fullmatch(rf"{finding.rule_id.lower()}:[0-9a-f]{{16}}", finding.finding_id)
        assert isinstance(json.loads(finding.numbers or ""), dict)
        assert finding.advice
        assert finding.advice.endswith("."), finding.advice
        assert "\n" not in finding.title
        assert "None" not in finding.title + (finding.detail or "")


@pytest.mark.parametrize("case", [c for c in CASES if c.expected], ids=[str(c.number) for c in CASES if c.expected])
def test_an_incident_keeps_its_id_while_it_grows_and_when_it_is_over(case: Case) -> None:
    story = case.story()
    found = detect_group(story.rebalances, story.tasks, seen_until_ms=story.seen_until_ms)
    later = max(f.last_seen_at_ms for f in found) + 30 * 24 * 3_600_000
    again = detect_group(story.rebalances, story.tasks, seen_until_ms=later)
    assert {f.finding_id for f in found} == {f.finding_id for f in again}


@pytest.mark.parametrize("name", [f.name for f in fields(Limits) if f.name != "of_connectors"])
def test_no_limit_can_be_moved_far_either_way_without_a_case_that_notices(name: str) -> None:
    value = getattr(Limits(), name)
    for moved in (type(value)(0), type(value)(value * 50 + 1)):
        limits = replace(Limits(), **{name: moved})
        assert any(_answers(case, limits) != case.expected for case in reversed(CASES)), f"{name} = {moved}"


def test_the_same_input_gives_the_same_findings() -> None:
    for case in CASES:
        one, other = case.story(), case.story()
        assert detect_group(one.rebalances, one.tasks) == detect_group(other.rebalances, other.tasks)


def test_a_storm_is_one_finding_from_its_beginning_however_far_it_has_come() -> None:
    ids: set[str] = set()
    story = storm_by_poll_timeout()
    for count in range(10, len(story.rebalances) + 1):
        found = [f for f in detect_group(story.rebalances[:count]) if f.rule_id == "RB001"]
        ids.update(f.finding_id for f in found)
    assert len(ids) == 1


def test_a_group_without_anything_has_no_findings() -> None:
    assert detect_group([], []) == []


def test_a_group_known_by_its_tasks_alone_is_judged_by_them() -> None:
    story = a_connect_cluster().task("t", 0, "FAILED", "w1:8083", 60, None)
    assert [f.rule_id for f in detect_group([], story.tasks)] == ["CN007"]


def test_advice_for_one_that_stands_still_names_no_setting_that_its_library_lacks() -> None:
    def advice(*libraries: str) -> str:
        story = a_group().member("c2", client_libraries=libraries or None).joins("c1", "c2", at_s=0)
        story.stands_still("c2", from_s=60, until_s=180, comes_back=False)
        [finding] = detect_group(story.rebalances, story.tasks)
        return finding.advice or ""

    assert "the group never puts it out" in advice("sarama")
    assert "it leaves after max_poll_interval_ms" in advice("aiokafka")
    assert "it leaves after max.poll.interval.ms" in advice("java")
    assert "poll" not in advice("franz-go", "java")  # it may have no such setting
