"""`explain` says what is wrong in its first line, and shows each trouble from its cause on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.detect.wording import clock
from rebalance_audit.domain.explain.group import explain, explain_dict, explain_text
from rebalance_audit.domain.explain.incidents import LINKS_SHOWN, answer, incident_lines, old_of
from rebalance_audit.domain.incidents import ClusterRows, Incident, incidents_of
from rebalance_audit.domain.kinds import GroupType
from rebalance_audit.domain.numbers import unit_of
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory


def incidents_until(story: GroupStory, until_s: float) -> list[Incident]:
    now_ms = T0_MS + round(until_s * 1000)
    findings = detect_group(story.rebalances, story.tasks, seen_until_ms=now_ms)
    rows = ClusterRows(
        cluster_id=CLUSTER, now_ms=now_ms, groups={story.group_id: story.rebalances},
        findings=[(story.group_id, f) for f in findings],
    )  # fmt: skip
    return incidents_of(rows)[0]


def a_group() -> GroupStory:
    return GroupStory("orders").joins("c1", "c2", "c3", at_s=-7_200)


def test_the_first_line_is_the_answer() -> None:
    story = a_group().vanishes("c3", at_s=0, pause_ms=10_000)
    text = explain_text(explain("orders", story.rebalances, incidents=incidents_until(story, 60)))
    first = "c3 (/10.0.0.9) of orders sent no heartbeat until its session expired; 1 rebalance, "
    assert text.splitlines()[0].startswith(first)
    assert "open since 2025-11-21" in " ".join(text.splitlines()[:3])


@pytest.mark.parametrize(
    ("group_types", "unit"),
    [
        ([("classic", "consumer")], "partition"),
        ([("classic", "connect")], "task"),
        ([("streams", "streams")], "task"),
        ([("classic", "consumer"), ("classic", "connect")], "resource"),
    ],
)
def test_a_cost_is_counted_in_what_the_groups_hand_out(group_types: list[tuple[str, str]], unit: str) -> None:
    (one,) = a_group().vanishes("c3", at_s=0, pause_ms=10_000).rebalances[-1:]
    of_all = [replace(one, group_type=GroupType(group), protocol_type=protocol) for group, protocol in group_types]
    assert unit_of(of_all) == unit


def test_the_first_line_names_the_unit() -> None:
    story = a_group().vanishes("c3", at_s=0, pause_ms=10_000)
    (trouble,) = [i for i in incidents_until(story, 60) if not i.expected]
    assert trouble.unit == "partition"
    assert " partition-seconds lost" in answer([trouble])
    assert " task-seconds lost" in answer([replace(trouble, unit="task")])
    nothing: dict[str, Any] = {
        "cost_seconds": None,
        "cost_likely_lower_seconds": None,
        "cost_likely_upper_seconds": None,
    }
    assert "; downtime not known" in answer([replace(trouble, **nothing)])
    assert "; no downtime seen" in answer([replace(trouble, **nothing, rebalance_ids=())])


def test_a_group_in_which_only_changes_on_purpose_happened_is_said_to_be_well() -> None:
    story = a_group().deploys("c1", "c2", from_s=0, each_s=60)
    assert answer([i for i in incidents_until(story, 7_200) if i.kind == "deploy"]).startswith(
        "Nothing is wrong: 1 change on"
    )
    assert answer([]) == "Nothing is wrong: no incident is in evidence."


def test_the_chain_runs_from_the_cause_to_the_last_consequence_and_a_long_one_is_cut_in_the_middle() -> None:
    story = a_group()
    story.again(range(12), lambda s, n: s.exceeds_poll_interval("c1", at_s=n * 60))
    (storm,) = [i for i in incidents_until(story, 700) if i.kind == "storm"]
    lines = list(incident_lines([storm], 200))
    stamps = [line.split("  ")[0].strip() for line in lines if line.startswith("   20")]
    assert stamps == sorted(stamps)
    assert len(stamps) == LINKS_SHOWN
    assert f"   … {12 - LINKS_SHOWN} more" in lines


def test_json_has_the_incidents_and_no_line_is_wider_than_asked() -> None:
    story = a_group().vanishes("c3", at_s=0, pause_ms=10_000)
    explanation = explain("orders", story.rebalances, incidents=incidents_until(story, 60))
    assert [i["kind"] for i in explain_dict(explanation)["incidents"]][-1] == "member_fault"
    assert max(map(len, explain_text(explanation, 80).splitlines())) <= 80


def test_what_of_an_open_incident_has_not_ended_stands_beside_it() -> None:
    """Open is not down: its evidence may still grow. What is over has nothing left, and where it is not known it is not
    said."""
    story = a_group().vanishes("c3", at_s=0, pause_ms=10_000)
    (trouble,) = [i for i in incidents_until(story, 60) if not i.expected]

    def said(**how: Any) -> tuple[str, str]:
        i = replace(trouble, **how)
        return answer([i]), list(incident_lines([i], 300))[1]

    first, head = said(status="open", still="waiting")
    assert first.endswith(" UTC (tasks still wait).")
    assert head.startswith("Incident (warning, open, tasks still wait)  ")
    for unsaid in ({"status": "open", "still": None}, {"status": "over", "still": "nothing"}):
        first, head = said(**unsaid)
        assert first.endswith(" UTC.")
        assert head.startswith(f"Incident (warning, {unsaid['status']})  ")


def test_of_evidence_that_ended_long_ago_it_is_said_since_when_the_state_is_not_known() -> None:
    """Neither that it is over nor that it goes on."""
    story = a_group().vanishes("c3", at_s=0, pause_ms=10_000)
    (trouble,) = [i for i in incidents_until(story, 60) if not i.expected]
    ends = {trouble.cluster_id: trouble.last_at_ms + 60_000}
    assert old_of(ends, trouble.last_at_ms + 120_000) == {}
    since = old_of(ends, trouble.last_at_ms + 7_200_000)
    for still, said in (
        ("waiting", f"tasks still wait at {clock(ends[trouble.cluster_id])}, not known since"),
        ("nothing", f"state not known since {clock(ends[trouble.cluster_id])}"),
        (None, f"state not known since {clock(ends[trouble.cluster_id])}"),
    ):
        i = replace(trouble, status="open", still=still)
        assert answer([i], (), since).endswith(f" ({said}).")
        assert list(incident_lines([i], 300, unknown_since=since))[1].startswith(f"Incident (warning, open, {said})  ")
        assert "not known" not in answer([replace(i, status="over")], (), since)
