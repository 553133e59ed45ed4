"""Each rule that can warn says what its findings are to incidents."""

from __future__ import annotations

from rebalance_audit.domain.incidents.symptoms import OWN_KINDS, SYMPTOMS
from tests.domain.detect.cases import CASES


def test_a_finding_that_warns_is_a_symptom_or_an_incident_of_a_kind() -> None:
    warning = {
        rule_id
        for case in CASES
        for rule_id, answers in case.expected.items()
        if any(answer.startswith(("warning", "critical")) for answer in answers)
    }
    assert len(warning) > 20
    assert warning <= SYMPTOMS | OWN_KINDS.keys()
