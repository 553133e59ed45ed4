"""Which team's target gets which incident; nothing is lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_audit.alerts.news import AlertRound
from rebalance_audit.alerts.routing import key_of
from rebalance_audit.alerts.sending import waiting_count
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.settings.choices import routes_of
from rebalance_audit.settings.model import Settings
from rebalance_audit.settings.reading import parse_settings
from tests.alerts.incidents import T_MS, an_incident, send
from tests.alerts.receiver import Receiver
from tests.webhook import Webhook

HOSTILE = "sink-*"
"""A connector may be called as a pattern is."""


def settings(urls: dict[str, str], teams: str) -> Settings:
    targets = "\n".join(f"  - {{name: {name}, url: '{url}'}}" for name, url in urls.items())
    return parse_settings(f"teams:\n{teams}\nalerts:\n{targets}\n", "s.yaml")


TEAMS = """
  - {name: orders, groups: ["orders*"], alerts: [orders]}
  - {name: sinks, connectors: ["sink-?"], alerts: [sinks]}
  - {name: platform, groups: ["connect-*"], alerts: [platform]}
"""
OF_CONNECT = {"group_ids": ("connect-lab",), "kind": "task_failed", "rebalance_ids": ()}
CASES: list[tuple[Incident, set[str]]] = [
    (an_incident(1, group_ids=("orders-app",)), {"orders"}),
    (an_incident(2, group_ids=("connect-lab",)), {"platform"}),
    (an_incident(3, connectors=("sink-1",), **OF_CONNECT), {"sinks"}),
    (an_incident(4, connectors=("other",), **OF_CONNECT), {"platform"}),
    (an_incident(5, connectors=("sink-1", "other"), **OF_CONNECT), {"sinks", "platform"}),
    (an_incident(6, connectors=("sink-1",), group_ids=("connect-lab",), rebalance_ids=("r",)), {"sinks", "platform"}),
    (an_incident(7, connectors=(HOSTILE,), **OF_CONNECT), {"sinks"}),
    (an_incident(8, group_ids=("orders-app", "connect-lab")), {"orders", "platform"}),
    (an_incident(9, group_ids=("nobody's",)), {"orders", "sinks", "platform"}),
    (an_incident(10, group_ids=()), {"orders", "sinks", "platform"}),
]


@pytest.mark.parametrize(
    ("incident", "expected"), CASES, ids=[f"{n} to {' and '.join(sorted(to))}" for n, (_, to) in enumerate(CASES, 1)]
)
@pytest.mark.parametrize("with_rest", [False, True])
def test_an_incident_goes_to_those_it_concerns(incident: Incident, expected: set[str], with_rest: bool) -> None:
    """A target that no team names gets everything; if there is one, what is nobody's goes there alone."""
    urls = {name: f"http://{name}.example/" for name in ("orders", "sinks", "platform", *(["call"] * with_rest))}
    routes = routes_of(settings(urls, TEAMS))
    assert routes is not None
    keys = {name: key_of(url) for name, url in urls.items()}
    found = {name for name, key in keys.items() if routes.of(key, [incident], keys.values())}
    everybody = {"orders", "sinks", "platform"}
    assert found == (({"call"} | (set() if expected == everybody else expected)) if with_rest else expected)


def test_a_team_without_a_target_of_its_own_is_not_forgotten() -> None:
    routes = routes_of(
        settings({"a": "http://a/"}, '  - {name: a, groups: ["a*"], alerts: [a]}\n  - {name: b, groups: ["b*"]}')
    )
    assert routes is not None
    assert len(routes.of(key_of("http://a/"), [an_incident(1, group_ids=("b-1",))], [key_of("http://a/")])) == 1


def test_without_a_team_that_names_a_target_there_are_no_routes() -> None:
    assert routes_of(settings({"a": "http://a/"}, '  - {name: a, groups: ["a*"]}')) is None


@pytest.mark.parametrize(
    ("said", "url"),
    [
        ("runbook: https://wiki.example.org/kafka\n", "https://wiki.example.org/kafka#rb001"),
        (
            "app: {public_url: 'https://audit.example.org'}\n",
            "https://audit.example.org/incident?cluster=cluster-a&incident=in%3A0000000000000001",
        ),
    ],
)
def test_an_alert_links_to_a_runbook_that_a_browser_opens(receiver: Receiver, state: Path, said: str, url: str) -> None:
    routes = routes_of(parse_settings(said, "f.yaml"))
    assert send([an_incident()], [receiver.webhook], state, routes=routes).delivered_count == 1
    ((alert,),) = receiver.received
    assert alert["annotations"]["runbook_url"] == url
    assert f"Runbook: {url}" in alert["annotations"]["description"]


def test_what_is_sent_elsewhere_is_not_waiting_here(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    ours, theirs = an_incident(1, group_ids=("orders-app",)), an_incident(2, group_ids=("connect-lab",))
    orders, platform = Webhook(), Webhook()
    try:
        given = settings({"orders": orders.url, "platform": platform.url, "sinks": "http://127.0.0.1:9/"}, TEAMS)
        targets = [orders.url, platform.url]
        for _ in range(2):  # the second time nothing is new
            send([ours, theirs], targets, state, is_all=True, now_ms=T_MS, routes=routes_of(given))
        assert orders.labels("incident_id") == [ours.incident_id]
        assert platform.labels("incident_id") == [theirs.incident_id]
    finally:
        orders.close()
        platform.close()
    assert waiting_count(AlertRound([ours, theirs], is_all=True), state) == 0
    assert waiting_count(AlertRound([ours, theirs, an_incident(3)], is_all=True), state) == 2
