"""What came since a deploy stands beside what was before it, as far as evidence covers that."""

from __future__ import annotations

import re

import pytest

from app import sentences
from app.answers.rows import Fleet, IncidentRow, MarkRow, Span

HOUR_MS = 3_600_000
MARK = MarkRow(
    cluster_id="prod", mark_id="mk:1", at_ms=10 * HOUR_MS, source="told", text="v2.3 <b>", scope="*", evidence=()
)


@pytest.mark.parametrize(
    ("begins_ms", "said"),
    [
        (0, "In as long a time before: 2 rebalances of 1 group cost 3.0 partition-seconds."),
        (9 * HOUR_MS, "In the 1 h before, where the evidence begins: 2 rebalances of 1 group cost"),
        (10 * HOUR_MS, "What was before is not known: the evidence begins after it."),
        (11 * HOUR_MS, "What was before is not known: the evidence begins after it."),
    ],
)
def test_what_evidence_does_not_cover_is_not_said_to_have_cost_nothing(begins_ms: int, said: str) -> None:
    fleet = Fleet(
        rebalance_count=2, expected_count=0, group_count=1, unknown_cost_count=0, partition_seconds=3.0,
        task_seconds=None,
    )  # fmt: skip
    span = Span(from_ms=MARK.at_ms, to_ms=15 * HOUR_MS)
    whole = Span(from_ms=begins_ms, to_ms=span.to_ms)
    text = re.sub("<[^>]*>", "", sentences.since(MARK, None, fleet, fleet, span, whole))
    assert text.startswith("Since v2.3 &lt;b&gt;, 5 h: 2 rebalances of 1 group cost 3.0 partition-seconds. ")
    assert said in text
    assert text.count("rebalances") == (2 if "cost" in said else 1)  # not before what nobody saw


def an_incident(story: str = "Deploy of orders: c1 was restarted. It cost little.") -> IncidentRow:
    return IncidentRow(
        cluster_id="prod", incident_id="in:1", kind="deploy", root_cause="member_left", root_cause_tier="logged",
        first_at_ms=MARK.at_ms, last_at_ms=MARK.at_ms + 60_000, status="over", expected=True, severity="info",
        cost_seconds=12.0, cost_likely_lower_seconds=11.0, cost_likely_upper_seconds=13.0,
        title="Deploy of orders: c1 was restarted", story=story,
    )  # fmt: skip


def test_what_a_deploy_cost_itself_stands_before_what_the_fleet_cost_since() -> None:
    fleet = Fleet(
        rebalance_count=9, expected_count=0, group_count=4, unknown_cost_count=0, partition_seconds=99.0,
        task_seconds=None,
    )  # fmt: skip
    span = Span(from_ms=MARK.at_ms, to_ms=15 * HOUR_MS)
    text = re.sub("<[^>]*>", "", sentences.since(MARK, an_incident(), fleet, fleet, span, Span(from_ms=0, to_ms=1)))
    assert text.startswith("The change itself cost 12.0 partition-seconds, likely 11.0 to 13.0. Since v2.3")


@pytest.mark.parametrize(
    ("story", "said"),
    [
        ("Deploy of orders: c1 was restarted. It cost little.", "It cost little."),
        (
            "Deploy of orders: c1 was restarted; its rebalances began because a member left and a member joined.",
            "Its rebalances began because a member left and a member joined.",
        ),
        ("Deploy of orders: c1 was restarted or replaced.", "Deploy of orders: c1 was restarted or replaced."),
    ],
)
def test_a_story_below_its_title_does_not_repeat_it(story: str, said: str) -> None:
    assert sentences.story(an_incident(story)) == said
