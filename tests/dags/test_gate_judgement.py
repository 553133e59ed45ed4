"""What a gate decides, by hand: times in seconds after the deploy, which began at 1,000 s."""

from __future__ import annotations

from typing import Any

import pytest

from dags.gate_judgement import Judgement, judge

DEPLOY_MS = 1_000_000


def rebalance(began: int, ended: int | None, seconds: float | None = 0.0, outcome: str = "completed") -> dict[str, Any]:
    return {
        "started_at_ms": None if outcome == "unseen" else DEPLOY_MS + began * 1000,
        "ended_at_ms": None if ended is None else DEPLOY_MS + ended * 1000,
        "resource_seconds_estimate": seconds, "outcome": outcome,
    }  # fmt: skip


def judged(
    rebalances: list[dict[str, Any]], seen_until: int | None, findings: tuple[dict[str, Any], ...] = ()
) -> Judgement:
    end_ms = None if seen_until is None else DEPLOY_MS + seen_until * 1000
    coverage: list[dict[str, Any]] = [
        {"to_at_ms": end_ms, "is_gap": False},
        {"to_at_ms": 10 * DEPLOY_MS, "is_gap": True},
    ]
    return judge("g", DEPLOY_MS, rebalances, findings, coverage, most_seconds=10.0, quiet_ms=60_000)


def finding(rule: str, last: int) -> dict[str, Any]:
    return {"rule_id": rule, "title": "eager again", "last_seen_at_ms": DEPLOY_MS + last * 1000}


@pytest.mark.parametrize(
    ("rebalances", "seen_until", "is_settled"),
    [
        ([], 59, False),
        ([], 60, True),
        ([], None, False),  # no evidence is no peace
        ([rebalance(5, 20)], 79, False),
        ([rebalance(5, 20)], 80, True),
        ([rebalance(5, 20), rebalance(30, None, None, "open")], 500, False),
        ([rebalance(-50, None, 99.0, "open")], 60, True),  # from before the deploy
    ],
)
def test_a_group_has_settled_when_evidence_goes_on_without_news(
    rebalances: list[dict[str, Any]], seen_until: int | None, is_settled: bool
) -> None:
    found = judged(rebalances, seen_until)
    assert (found.is_settled, found.refusal) == (is_settled, None)


def test_a_deploy_that_costs_too_much_is_refused_at_once() -> None:
    found = judged([rebalance(5, 20, 6.0), rebalance(30, 31, 4.5)], 40)
    assert found.refusal == ("g: 2 rebalances since the deploy, 10.5 partition-seconds lost; at most 10 were allowed.")


def test_what_is_not_known_is_said_and_not_counted() -> None:
    found = judged([rebalance(5, 20, 6.0), rebalance(30, 31, None)], 400)
    assert found == Judgement(
        True, None, "g: 2 rebalances since the deploy, 6.0 partition-seconds lost (of 1 rebalances it is not known)."
    )


@pytest.mark.parametrize(
    ("found", "is_refused"),
    [(finding("RB002", 30), True), (finding("RB002", -30), False), (finding("RB007", 30), False)],
    ids=["appeared", "before the deploy", "another rule"],
)
def test_a_regression_is_refused(found: dict[str, Any], is_refused: bool) -> None:
    refusal = judged([], 400, (found,)).refusal
    assert (refusal is not None) == is_refused
    assert refusal is None or "a regression appeared: RB002: eager again." in refusal
