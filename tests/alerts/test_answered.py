"""What is sent of incidents that somebody silenced or acknowledged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.alerts.silences import silence_at
from rebalance_audit.alerts.target import AlertError
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.incidents.responses import Response, acknowledgement, silence
from tests.alerts.incidents import T_MS, an_incident, send
from tests.alerts.receiver import Receiver


def a_silence(until_ms: int = T_MS + 3_600_000, pattern: str = "orders*") -> Response:
    return silence(pattern, "anna", T_MS, until_ms, "planned")


def test_what_a_silence_covered_is_sent_when_it_ends_if_it_is_still_open(receiver: Receiver, state: Path) -> None:
    def sent(incident: Incident, now_ms: int) -> int:
        found = send([incident], [receiver.webhook], state, responses=[a_silence()], now_ms=now_ms)
        return found.delivered_count

    assert sent(an_incident(1), T_MS + 1) == 0
    assert sent(an_incident(1), T_MS + 3_600_000) == 1
    assert sent(an_incident(1, severity="critical"), T_MS + 2) == 0
    assert sent(an_incident(1, status="over"), T_MS + 3) == 1  # Alertmanager has to end what it has


def test_what_came_and_went_under_a_silence_is_never_sent(receiver: Receiver, state: Path) -> None:
    send([], [receiver.webhook], state)
    over = an_incident(1, status="over")
    for now_ms in (T_MS + 1, T_MS + 3_600_001):
        found = send([over], [receiver.webhook], state, responses=[a_silence()], now_ms=now_ms)
        assert found.delivered_count == 0


def test_who_acknowledged_hears_of_it_only_when_it_grows_graver(receiver: Receiver, state: Path) -> None:
    answers = [acknowledgement(an_incident(1), "anna", T_MS, "on it")]

    def sent(**changes: Any) -> int:
        incident = an_incident(1, **changes)
        return send([incident], [receiver.webhook], state, responses=answers, now_ms=T_MS).delivered_count

    assert sent() == 1
    assert sent(group_ids=("orders", "billing")) == 0
    assert sent(group_ids=("orders", "billing"), severity="critical") == 1
    assert (
        "acknowledged by anna at 2025-11-21 14:03:11 UTC: on it"
        in (receiver.received[-1][-1]["annotations"]["description"])
    )
    assert sent(status="over") == 1


def test_who_acknowledged_hears_that_the_cause_is_another(receiver: Receiver, state: Path) -> None:
    answers = [acknowledgement(an_incident(1), "anna", T_MS, "on it")]
    counts = [
        send([an_incident(1, kind=kind)], [receiver.webhook], state, responses=answers, now_ms=T_MS).delivered_count
        for kind in ("member_fault", "coordinator")
    ]
    assert counts == [1, 1]


def test_a_silence_at_an_alertmanager_matches_the_labels_that_alerts_have(receiver: Receiver) -> None:
    silence_at(receiver.webhook, replace(a_silence(pattern="ord[!x]*.v?"), cluster_id="cluster-a"))
    (found,) = receiver.received
    assert found == {
        "matchers": [
            {"name": "alertname", "value": "RebalanceIncident", "isRegex": False, "isEqual": True},
            {"name": "subject", "value": r"ord[^x].*\.v.", "isRegex": True, "isEqual": True},
            {"name": "cluster", "value": "cluster-a", "isRegex": False, "isEqual": True},
        ],
        "startsAt": "2025-11-21T14:03:11.000+00:00",
        "endsAt": "2025-11-21T15:03:11.000+00:00",
        "createdBy": "anna",
        "comment": "planned",
    }
    silence_at(receiver.webhook, a_silence(pattern="*a*b*"))
    assert receiver.received[-1]["matchers"][1]["value"] == "(?:.*?a)(?:.*?b).*"  # RE2 has no atomic groups


def test_only_an_alertmanager_takes_a_silence() -> None:
    with pytest.raises(AlertError, match="give the URL that ends in /api/v2/alerts"):
        silence_at("https://example.com/hook/s3cret", a_silence())
