"""Advice beside a replay of the group: the replay's answer stands in place of the words that it can be asked."""

from __future__ import annotations

from functools import cache

import pytest

from rebalance_audit.domain.client_families import ALL
from rebalance_audit.domain.detect import client_advice, detect_group
from rebalance_audit.domain.detect.client_advice import WEIGH_STATIC, WEIGH_STICKY, WEIGHS
from rebalance_audit.domain.explain.group import Explanation, explain, explain_text
from rebalance_audit.domain.explain.replayed import replay_advised
from rebalance_audit.domain.explain.verdicts import SettingsVerdict, unreplayed, verdict, verdict_on, weighed
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.whatif import Option
from tests.captures import GOLDEN, gathered

STATIC = ("group.instance.id=auto",)
STICKY = ("partition.assignment.strategy=cooperative-sticky",)
ADVICE = f"A group.instance.id spares the others, {WEIGH_STATIC}. A shorter session shortens the wait."


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ((-43.3, -59.9, -36.6), "for 43.3 partition-seconds (likely 36.6 to 59.9) more"),
        ((9.5, 3.2, 16.6), "for 9.5 partition-seconds (likely 3.2 to 16.6) less"),
        (
            (5.7, -0.7, 12.3),
            "for 5.7 partition-seconds less, but that is not sure (likely 12.3 partition-seconds less to 0.7 more)",
        ),
        (
            (0.0, -0.9, 0.9),
            "for as long, within the spread of its replays (likely 0.9 partition-seconds less to 0.9 more)",
        ),
    ],
)
def test_advice_says_what_the_replay_says(saved: tuple[float, float, float], said: str) -> None:
    assert weighed(ADVICE, [SettingsVerdict(STATIC, *saved)]) == (
        "A group.instance.id spares the others, but its partitions wait for it: replayed with group.instance.id=auto, "
        f"this group would have stood still {said}. A shorter session shortens the wait."
    )


def test_tasks_are_what_connect_counts() -> None:
    advice = f"connect.protocol=sessioned would have spared 4 rebalances, {WEIGH_STICKY}."
    said = weighed(advice, [SettingsVerdict(("connect.protocol=sessioned",), -6.0, -7.0, -5.0)])
    assert said.endswith("this group would have stood still for 6.0 task-seconds (likely 5.0 to 7.0) more.")


def test_of_several_sets_of_settings_the_best_is_said() -> None:
    longer = (*STATIC, "session.timeout.ms=45000")
    found = weighed(ADVICE, [SettingsVerdict(STATIC, -20.0, -30.0, -10.0), SettingsVerdict(longer, -5.0, -8.0, -2.0)])
    assert "replayed with group.instance.id=auto and session.timeout.ms=45000, this group" in found


def test_advice_on_a_deploy_says_the_best_of_what_is_usually_advised() -> None:
    """Stored answers of the recorded restart (docs/whatif.md): each of the three costs more than it saves."""
    found = [
        SettingsVerdict(("group.instance.id=auto",), -49.9, -67.1, -37.9),
        SettingsVerdict(("partition.assignment.strategy=cooperative-sticky",), -20.0, -25.9, -11.4),
        SettingsVerdict(("group.protocol=consumer",), -29.3, -35.0, -22.0),
    ]
    said = weighed(client_advice.deploy(ALL), found)
    assert "which is not less downtime: replayed with partition.assignment.strategy=cooperative-sticky" in said
    assert "20.0 partition-seconds (likely 11.4 to 25.9) more" in said


def test_advice_that_nobody_replayed_says_where_to_ask() -> None:
    assert weighed(ADVICE, []) == ADVICE
    assert weighed(ADVICE, [SettingsVerdict(STICKY, -20.0, -30.0, -10.0)]) == ADVICE
    assert weighed("Look at that host.", [SettingsVerdict(STATIC, -20.0, -30.0, -10.0)]) == "Look at that host."
    assert weighed(None, [SettingsVerdict(STATIC, -20.0, -30.0, -10.0)]) is None


def test_where_no_replay_is_stored_the_command_for_one_is_said() -> None:
    assert weighed(ADVICE, [], unreplayed("orders", predicts_nothing=False)) == (
        "A group.instance.id spares the others, but its partitions wait for it: to weigh it for this group, run "
        "`rebalance-audit whatif orders`. A shorter session shortens the wait."
    )
    refused = unreplayed("orders", predicts_nothing=True)
    assert refused == "a replay of this group predicts nothing, `rebalance-audit whatif orders` says why"


@pytest.mark.parametrize("name", ["a b", "x; rm -rf ~", "`id`", "-w", "$(id)", "", "g" * 81, "größe", "<b>"])
def test_a_name_that_is_no_plain_word_is_in_no_command(name: str) -> None:
    assert unreplayed(name, predicts_nothing=False).endswith("run `rebalance-audit whatif GROUP`")


def test_a_replay_that_says_nothing_or_of_what_nobody_advises_is_no_verdict() -> None:
    assert verdict(STATIC, None, None, None) is None
    assert verdict(("heartbeat.interval.ms=1000",), 3.0, 2.0, 4.0) is None
    assert verdict(Option(settings={"group.instance.id": "auto"}).pairs, 3.0, 2.0, 4.0) == SettingsVerdict(
        STATIC, 3, 2, 4
    )


@cache
def restarted() -> tuple[Rebalance, ...]:
    """Three members of a range group, closed and started again one after another: with group.instance.id the lab's
    clients stood still three times as long, with cooperative-sticky about twice (docs/whatif.md)."""
    (evidence,) = gathered(GOLDEN / "4.3.0" / "rolling_deploy").groups
    return tuple(measure(r) for r in reconstruct(evidence).rebalances)


@cache
def explained() -> Explanation:
    return explain("deploy-app", restarted(), detect_group(restarted()))


def test_what_removes_rebalances_and_costs_more_would_not_have_helped() -> None:
    text = " ".join(explain_text(explained()).split())
    _, helped, not_helped = text.partition("What would not have helped: ")
    assert helped
    assert "a group.instance.id with a longer session timeout would have spared up to 6 of" in not_helped
    assert "partition-seconds (likely " in not_helped
    assert not any("group.instance.id" in hint for hint in explained().would_have_helped)


def test_a_findings_advice_is_weighed_by_the_replay_of_its_group() -> None:
    (advice,) = (f.advice or "" for f in explained().findings if f.rule_id == "RB004")
    assert "replayed with partition.assignment.strategy=cooperative-sticky, this group would have stood" in advice
    assert "partition-seconds (likely " in advice
    assert WEIGHS not in advice


def test_a_history_too_short_to_replay_leaves_the_advice_as_it_is() -> None:
    short = restarted()[:2]
    assert replay_advised(short, None) == ()
    assert replay_advised((), None) == ()
    assert verdict_on(ADVICE, ()) is None
