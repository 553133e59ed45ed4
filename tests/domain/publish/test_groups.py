"""The latest known state of a group."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.kinds import FindingStatus, Severity
from rebalance_audit.domain.model import Finding, Rebalance
from rebalance_audit.domain.publish.groups import DAY_MS, HOUR_MS, group_row, percentile

NOW_MS = 1_795_000_000_000


def a_rebalance(generation: int, ago_ms: int = 0, **others: Any) -> Rebalance:
    known: dict[str, Any] = {
        "cluster_id": "c", "group_id": "g", "rebalance_id": f"c/g/{generation}", "generation_id": generation,
        "assigned_at_ms": NOW_MS - ago_ms, "member_count": 2, "mode": "eager", "trigger": "member_left",
    }  # fmt: skip
    return Rebalance(**(known | others))


def a_finding(severity: str, status: str = "open") -> Finding:
    return Finding(
        cluster_id="c", finding_id=severity, rule_id="RB001", severity=Severity(severity),
        subject_type="group", subject="g",
        status=FindingStatus(status), first_seen_at_ms=1, last_seen_at_ms=2, title="t",
    )  # fmt: skip


def test_rates_count_back_from_the_end_of_the_evidence_without_rewrites() -> None:
    history = [
        a_rebalance(1, DAY_MS + 1), a_rebalance(2, DAY_MS - 1), a_rebalance(3, HOUR_MS - 1),
        a_rebalance(3, 5, kind="static_rewrite", rewrite_seq=1),
    ]  # fmt: skip
    row = group_row(history, [], NOW_MS)
    assert (row["rebalance_count"], row["rebalance_count_24h"], row["rebalance_count_1h"]) == (3, 2, 1)
    assert (row["first_seen_at_ms"], row["last_rebalance_at_ms"]) == (NOW_MS - DAY_MS - 1, NOW_MS - 5)


@pytest.mark.parametrize(
    ("last", "state"),
    [
        ({}, "Stable"),
        ({"outcome": "emptied", "member_count": 0}, "Empty"),
        ({"outcome": "open"}, "PreparingRebalance"),
        ({"outcome": "open", "joined_at_ms": NOW_MS}, "CompletingRebalance"),
        ({"outcome": "open", "group_type": "consumer"}, "Reconciling"),
        ({"outcome": "superseded"}, "Stable"),
    ],
)
def test_the_last_attempt_shows_the_state(last: dict[str, Any], state: str) -> None:
    assert group_row([a_rebalance(1), a_rebalance(2, **last)], [], NOW_MS)["state"] == state


def test_an_open_attempt_does_not_hide_what_the_last_completed_one_left() -> None:
    row = group_row([a_rebalance(1), a_rebalance(2, outcome="open", member_count=None, mode="unknown")], [], NOW_MS)
    assert (row["member_count"], row["mode"], row["generation_id"]) == (2, "eager", 2)


def test_an_empty_group_keeps_the_assignor_that_it_had() -> None:
    emptied = a_rebalance(2, outcome="emptied", member_count=0, assignor=None)
    assert group_row([a_rebalance(1, assignor="range"), emptied], [], NOW_MS)["assignor"] == "range"


def test_only_open_findings_count() -> None:
    row = group_row([a_rebalance(1)], [a_finding("info"), a_finding("warning"), a_finding("critical", "resolved")], 1)
    assert (row["open_finding_count"], row["worst_severity"]) == (2, "warning")


def test_what_is_not_known_is_null() -> None:
    row = group_row([a_rebalance(1, trigger="unknown", assigned_at_ms=None)], [], NOW_MS)
    unknown = ("pause_p50_ms", "resource_seconds_estimate", "top_trigger", "worst_severity", "last_rebalance_at_ms")
    assert [row[name] for name in unknown] == [None] * 5


def test_percentiles_lie_between_values() -> None:
    assert percentile([], 0.5) is None
    assert percentile([7], 0.95) == 7
    assert percentile([0, 10, 20, 30], 0.5) == 15
