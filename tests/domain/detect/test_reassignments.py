"""The rules about reassignments: each case a story, and what every rule says to it. Half of them must be silent."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rebalance_audit.domain.detect.reassignments import REASSIGNMENT_RULES, detect_reassignments, removable_since
from rebalance_audit.domain.incidents.titles import title
from rebalance_audit.domain.incidents.troubles import Trouble
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


def still_moving(story: MetadataStory) -> MetadataStory:
    """Another partition has ended, this one goes on and makes progress."""
    story.at(10_000).partition(1, (1, 0, 2)).change(1, replicas=(3, 1, 0, 2), adding=(3,), removing=(2,))
    return done(asked(story)).at(80_000).change(1, isr=(1, 0, 2, 3)).at(160_000).no_op()


def three_elsewhere() -> MetadataStory:
    story = MetadataStory().topic("orders", *[(1, 2)] * 20)
    for partition in (7, 8, 9):
        story.change(partition, leader=2)
    return story


def cancelled_overlap() -> MetadataStory:
    """As seen on 4.3.0: replaced by a list without one of the new brokers, it hung until it was cancelled."""
    story = asked().at(12_000).change(replicas=(0, 1, 3, 2, 5), removing=(2, 5))
    story.at(13_000).change(isr=(0, 1, 2, 3, 5)).at(200_000)
    return story.change(replicas=(0, 1, 2), adding=(), removing=(), isr=(0, 1, 2))


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
    ("a stall of exactly the limit", lambda: asked().at(100_000).no_op(), {}),
    ("a stall one millisecond longer", lambda: asked().at(100_001).no_op(), {"RA001": ("warning", "open")}),
    ("a throttle five minutes after the last move", lambda: done(asked(throttled())).at(320_000).no_op(), {}),
    ("a throttle while something else moves", lambda: still_moving(throttled()), {}),
    (
        "a broker's default throttle without any list",
        lambda: done(asked(base().config(4, "", "leader.replication.throttled.rate", "1"))).at(400_000).no_op(),
        {"RA002": ("warning", "open")},
    ),
    ("a leader elsewhere while something moves", lambda: still_moving(base().change(1, leader=0)), {}),
    (
        "two of twenty leaders elsewhere, which is Kafka's own limit",
        lambda: MetadataStory().topic("orders", *[(1, 2)] * 20).change(7, leader=2).change(8, leader=2),
        {},
    ),
    (
        "three of twenty leaders elsewhere",
        lambda: three_elsewhere(),
        {"RA004": ("info", "open")},
    ),
    (
        "fewer copies than before for longer than a restart takes",
        lambda: done(asked().at(11_000).change(isr=(0, 1)), at_ms=41_001),
        {"RA005": ("warning", "resolved")},
    ),
    ("fewer copies for as long as a restart takes", lambda: done(asked().at(11_000).change(isr=(0, 1)), 41_000), {}),
    (
        "one that could not complete and was cancelled: its leader is not the preferred one any more",
        lambda: cancelled_overlap(),
        {"RA003": ("info", "resolved"), "RA004": ("info", "open"), "RA006": ("info", "resolved")},
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


def test_a_standstill_is_over_when_the_move_goes_on() -> None:
    story = asked().at(11_000).fenced(5).at(200_000).fenced(5, is_fenced=False).change(isr=(0, 1, 2, 5))
    history = story.at(210_000).no_op().history()
    assert [r.outcome for r in history.reassignments] == ["open"]
    why = "broker 5, where it should go, was down or fenced"
    (finding,) = detect_reassignments(history)
    assert finding.title == f"The reassignment of orders-0 made no progress for 3 min 10 s: {why}"
    trouble = Trouble(kind="reassignment", reassignments=list(history.reassignments))
    assert title(trouble, ()) == f"Reassignment of orders-0 was stalled for 3 min 10 s: {why}"


@pytest.mark.parametrize(
    ("replicas", "advice"),
    [((2, 3, 5), "Nothing: it went on."), ((1, 0, 2), "Nothing: it was cancelled.")],
    ids=["completed", "cancelled"],
)
def test_a_standstill_that_is_over_says_how_it_ended(replicas: tuple[int, ...], advice: str) -> None:
    stood_still = asked().at(11_000).fenced(5).at(200_000)
    ended = stood_still.change(isr=replicas, leader=replicas[0], replicas=replicas, adding=(), removing=())
    assert [f.advice for f in found(ended) if f.rule_id == "RA001"] == [advice]


def test_a_throttle_could_go_when_the_last_move_ended() -> None:
    history = done(asked(throttled())).at(400_000).no_op().history()
    assert removable_since(history, history.throttles) == 20_000
    assert removable_since(asked(throttled()).history(), ()) is None


def test_an_empty_history_has_no_findings() -> None:
    assert detect_reassignments(ReassignmentHistory(cluster_id="lab")) == []


def test_every_advice_about_something_open_has_the_command_to_type() -> None:
    for name, story, _ in CASES:
        for finding in found(story()):
            if finding.status == "open" and "no progress" not in finding.title:
                assert "kafka-" in (finding.advice or ""), (name, finding.advice)


def test_a_throttle_left_behind_comes_with_the_command_that_removes_it() -> None:
    (finding,) = found(done(asked(throttled())).at(400_000).no_op())
    assert finding.advice is not None
    assert finding.advice.endswith(
        "kafka-configs --bootstrap-server HOST:PORT --alter --entity-type brokers --entity-name 0 --delete-config "
        "follower.replication.throttled.rate,leader.replication.throttled.rate, and so for 5 other resources."
    )


def test_after_a_cancellation_the_old_order_can_be_asked_for() -> None:
    story = asked().at(15_000).change(replicas=(0, 1, 2), adding=(), removing=(), leader=1)
    (finding,) = (finding for finding in found(story) if finding.rule_id == "RA003")
    assert '"replicas": [1, 0, 2]' in (finding.advice or "")
    assert (finding.advice or "").endswith("--execute")


def test_after_a_cancellation_and_a_later_move_nobody_is_sent_back_to_the_order_before() -> None:
    """As seen on 3.7.2: cancelled, asked for again, and it completed."""
    story = asked().at(15_000).change(replicas=(0, 1, 2), adding=(), removing=(), leader=1)
    story.at(20_000).change(replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))
    (finding,) = (finding for finding in found(done(story, at_ms=30_000)) if finding.rule_id == "RA003")
    assert finding.advice == "It was asked to move again later, see: rebalance-audit explain --reassignment orders-0"
