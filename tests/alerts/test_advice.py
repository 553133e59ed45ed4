"""What is sent says of advised settings what the app says: the stored replay of the incident's group."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.alerts import traces
from rebalance_audit.alerts.annotations import _annotations
from rebalance_audit.alerts.news import AlertRound
from rebalance_audit.alerts.sending import send_alerts, would_be_sent
from rebalance_audit.commands.report import send as send_of_tables
from rebalance_audit.domain.detect.client_advice import WEIGH_STATIC, WEIGHS
from rebalance_audit.domain.incidents import Incident, incident_row
from rebalance_audit.domain.kinds import Severity
from rebalance_audit.domain.replay.fleet import SettingsAdvice, advice_row
from rebalance_audit.domain.traces import TraceSpan
from rebalance_audit.warehouse.advice import advised, weigh
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.alerts.incidents import an_incident
from tests.alerts.receiver import Receiver

ADVICE = f"A group.instance.id spares the others, {WEIGH_STATIC}."
SAID = "would have stood still for 43.3 partition-seconds (likely 36.6 to 59.9) more"
INCIDENTS = [an_incident(1, advice=ADVICE), an_incident(2, advice=ADVICE, group_ids=("billing",))]


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """A replay of orders, and none of billing."""
    opened = Warehouse.open(tmp_path / "w", create=True)
    replayed = SettingsAdvice(
        cluster_id="cluster-a", group_id="orders", place=1, settings=("group.instance.id=auto",), saved_seconds=-43.3,
        saved_lower_seconds=-59.9, saved_upper_seconds=-36.6, rebalances_replayed=9, why="",
    )  # fmt: skip
    opened.append("gold.whatif", rows_to_table("gold.whatif", [advice_row(replayed)]))
    opened.append("gold.incident", rows_to_table("gold.incident", [incident_row(i) for i in INCIDENTS]))
    opened.publish({name: opened.version(name) or 0 for name in ("gold.whatif", "gold.incident")})
    return opened


def test_an_alert_says_what_the_app_says(warehouse: Warehouse, receiver: Receiver, state: Path) -> None:
    shown = [{"cluster_id": i.cluster_id, "group_ids": list(i.group_ids), "advice": i.advice} for i in INCIDENTS]
    weigh(shown, lambda sql, params: warehouse.query(sql, params).to_pylist())
    of_orders, of_billing = (str(row["advice"]) for row in shown)
    assert SAID in of_orders
    assert "run `rebalance-audit whatif billing`" in of_billing
    asked = AlertRound(INCIDENTS, is_live=True, advised=partial(advised, opened=warehouse))
    assert send_alerts(asked, [receiver.webhook], state).delivered_count == 2
    ((orders, billing),) = receiver.received
    assert f"What to do: {of_orders}" in orders["annotations"]["description"]
    assert f"What to do: {of_billing}" in billing["annotations"]["description"]


def test_the_round_over_the_tables_says_it_too(warehouse: Warehouse, receiver: Receiver, state: Path) -> None:
    assert send_of_tables(warehouse, [receiver.apprise], Severity.WARNING, state, quiet=True)
    assert SAID in receiver.received[0]["message"]


def test_messages_that_give_no_advice_ask_for_no_replay(receiver: Receiver, state: Path) -> None:
    asked: list[Sequence[Incident]] = []

    def noted(incidents: Sequence[Incident]) -> Sequence[Incident]:
        asked.append(incidents)
        return incidents

    opened = AlertRound([an_incident()], advised=noted)
    send_alerts(opened, [receiver.webhook], state)
    assert len(asked) == 1
    over = AlertRound([an_incident(status="over")], advised=noted)
    for round_ in (opened, over):
        send_alerts(round_, [receiver.webhook], state)
    assert len(receiver.received) == 2
    assert len(asked) == 1
    assert list(would_be_sent(over, [receiver.webhook], state)) == []


def test_annotations_and_traces_say_it_too(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [annotation["text"] for _, annotation in _annotations(warehouse, None)]
    assert SAID in drawn[0]
    assert not [text for text in drawn if WEIGHS in text]
    sent: list[dict[str, Any]] = []
    over = [incident_row(i) | {"status": "over"} for i in INCIDENTS]
    warehouse.append("gold.incident", rows_to_table("gold.incident", over))
    warehouse.publish(warehouse.published() | {"gold.incident": warehouse.version("gold.incident") or 0})

    def spans(opened: Warehouse, incident: dict[str, Any]) -> list[TraceSpan]:
        sent.append(incident)
        return []

    monkeypatch.setattr(traces, "_spans", spans)
    traces.send_traces(warehouse, "http://localhost:4318")
    assert SAID in sent[0]["advice"]
