"""What came since a deploy stands beside what was before it, as far as evidence covers that."""

from __future__ import annotations

import re

import pytest

from app import sentences
from app.answers.rows import Fleet, MarkRow, Span

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
