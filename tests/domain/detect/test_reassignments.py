"""The rules about reassignments: each case a story, and what every rule says to it. Half of them must be silent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rebalance_audit.domain.detect.reassignments import REASSIGNMENT_RULES, detect_reassignments, removable_since
from rebalance_audit.domain.model import Finding
from rebalance_audit.domain.reassign import ReassignmentHistory
from tests.domain.reassign.stories import MetadataStory

Story = Callable[[], MetadataStory]


def base() -> MetadataStory:
    return MetadataStory().config(4, "", "min.insync.replicas", "2").at(1_000).topic("orders", (1, 0, 2))


def asked(story: MetadataStory | None = None) -> MetadataStory:
    return (story or base()).at(10_000).change(replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))


def done(story: MetadataStory, at_ms: int = 20_000) -> MetadataStory:
    return story.at(at_ms).change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), removing=(), adding=())


def throttled() -> MetadataStory:
    return base().throttle("orders", "1000", (0, 1, 2, 3, 5))


CASES: list[tuple[str, Story, dict[str, tuple[str, str]]]] = [
    ("a move that completes", lambda: done(asked()), {}),
    ("a move that runs for less than the limit", lambda: asked().at(100_000).no_op(), {}),
    ("nothing moves at all", lambda: base().at(900_000).no_op(), {}),
    ("another order", lambda: base().at(5_000).change(replicas=(1, 2, 0)), {}),
    ("no progress for the limit", lambda: asked().at(101_000).no_op(), {"RA001": ("warning", "open")}),
    ("no progress for hours", lambda: asked().at(9_000_000).no_op(), {"RA001": ("critical", "open")}),
    (
        "no progress, then it completed",
        lambda: done(asked(), at_ms=200_000),
        {"RA001": ("info", "resolved")},
    ),
    ("progress each minute", lambda: done(asked().at(70_000).change(isr=(0, 1, 2, 3)), at_ms=150_000), {}),
    ("a throttle while it runs", lambda: asked(throttled()).at(50_000).no_op(), {}),
    ("a throttle that was just left", lambda: done(asked(throttled())).at(60_000).no_op(), {}),
    ("a throttle left behind", lambda: done(asked(throttled())).at(400_000).no_op(), {"RA002": ("warning", "open")}),
    (
        "a throttle that was removed",
        lambda: done(asked(throttled())).at(30_000).throttle("orders", None, (0, 1, 2, 3, 5)).at(400_000).no_op(),
        {},
    ),
    (
        "a cancelled one",
        lambda: asked().at(15_000).change(replicas=(1, 2, 0), adding=(), removing=(), leader=1),
        {"RA003": ("info", "resolved")},
    ),
    (
        "one that was replaced by another with the same new brokers",
        lambda: asked().at(12_000).change(replicas=(3, 5, 0, 1, 2), removing=(1, 2)),
        {"RA003": ("info", "resolved")},
    ),
    (
        "one that was replaced and now cannot complete",
        lambda: asked().at(12_000).change(replicas=(0, 1, 3, 2, 5), removing=(2, 5)).at(13_000).no_op(),
        {"RA003": ("info", "resolved"), "RA006": ("critical", "open")},
    ),
    ("one that went with its topic", lambda: asked().at(12_000).remove_topic(), {}),
    ("a leader elsewhere after a failure", lambda: base().at(2_000).change(leader=0), {"RA004": ("info", "open")}),
    (
        "one of twenty leaders elsewhere",
        lambda: MetadataStory().topic("orders", *[(1, 2)] * 20).change(7, leader=2),
        {},
    ),
    (
        "under min ISR while it moves",
        lambda: done(asked().at(11_000).change(isr=(1,))),
        {"RA005": ("warning", "resolved")},
    ),
    (
        "without a leader, still",
        lambda: asked().at(11_000).change(isr=(1,), leader=-1).at(20_000).no_op(),
        {"RA005": ("critical", "open")},
    ),
    ("a moment without a copy", lambda: done(asked().at(11_000).change(isr=(0, 1))), {}),
]


def found(story: MetadataStory) -> list[Finding]:
    return detect_reassignments(story.history())


@pytest.mark.parametrize(("story", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_story_has_its_findings_and_no_other(story: Story, expected: dict[str, tuple[str, str]]) -> None:
    findings = found(story())
    assert {f.rule_id: (f.severity, f.status) for f in findings} == expected
    assert all(f.evidence and f.first_seen_at_ms <= f.last_seen_at_ms for f in findings)
    assert all("?" not in f.title for f in findings)


def test_half_of_the_cases_are_silent() -> None:
    assert sum(1 for *_, expected in CASES if not expected) * 2 >= len(CASES)


def test_every_rule_is_in_some_case_and_says_what_it_is() -> None:
    assert {rule for *_, expected in CASES for rule in expected} == set(REASSIGNMENT_RULES)
    for rule_id, rule in REASSIGNMENT_RULES.items():
        assert (rule.__doc__ or "").startswith(f"{rule_id}. ")
        assert "Silent" in (rule.__doc__ or "")


def test_the_same_evidence_gives_the_same_findings_and_more_of_it_keeps_their_ids() -> None:
    short, long = asked().at(101_000).no_op(), asked().at(101_000).no_op().at(150_000).no_op()
    assert found(short) == found(asked().at(101_000).no_op())
    assert [f.finding_id for f in found(short)] == [f.finding_id for f in found(long)]


def test_the_stall_says_in_one_sentence_what_to_do() -> None:
    (finding,) = found(asked().at(11_000).fenced(5).at(200_000).no_op())
    assert finding.title == (
        "The reassignment of orders-0 has made no progress for 3 min 10 s: "
        "broker 5, where it should go, is down or fenced"
    )
    assert finding.advice is not None
    assert finding.advice.startswith("Start broker 5, or cancel the reassignment: ")


def test_a_throttle_could_go_when_the_last_move_ended() -> None:
    history = done(asked(throttled())).at(400_000).no_op().history()
    assert removable_since(history, history.throttles) == 20_000
    assert removable_since(asked(throttled()).history(), ()) is None


def test_an_empty_history_has_no_findings() -> None:
    assert detect_reassignments(ReassignmentHistory(cluster_id="lab")) == []
