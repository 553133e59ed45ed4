"""Why a Streams instance joins again, where its reason does not say which of two it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_audit.domain.reconstruct import reconstruct
from tests.captures import GOLDEN, gathered

OWN_REASON = "need to revoke partitions and re-join"


@pytest.mark.parametrize(("has_records", "expected"), [(True, "streams_follow_up"), (False, "unknown")])
def test_what_streams_3_2_calls_probing_is_a_follow_up_if_the_assignment_asked_for_one_at_once(
    expected: str, *, has_records: bool
) -> None:
    """Seen on 3.2.3, which has one reason for both: 70 ms after an assignment with `nextRebalanceMs` 0. The capture is
    of 3.3.2, with that reason in place of its own."""
    (evidence,) = gathered(GOLDEN / "3.3.2/streams_scale_out").groups
    lines = [
        replace(line, fields=dict(line.fields) | {"client_reason": "Scheduled probing rebalance"})
        if line.fields.get("client_reason") == OWN_REASON
        else line
        for line in evidence.lines
    ]
    assert lines != list(evidence.lines)
    evidence = replace(evidence, lines=tuple(lines), records=evidence.records if has_records else ())
    third = next(r for r in reconstruct(evidence).rebalances if r.generation_id == 3)
    assert third.trigger == expected
