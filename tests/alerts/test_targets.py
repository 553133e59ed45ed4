"""What an Alertmanager or one of apprise's services is sent, and what becomes of one that does not take it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rebalance_audit.alerts.target import AlertError, masked, sender_for
from tests.alerts.incidents import an_incident, send
from tests.alerts.receiver import Receiver


def test_apprise_targets_get_one_message_per_incident_and_state(receiver: Receiver, state: Path) -> None:
    for status in ("open", "open", "over", "over"):
        send([an_incident(status=status)], [receiver.apprise], state)
    opened, resolved = receiver.received
    assert opened["title"] == "[WARNING] orders rebalanced 19 times in 2 min"
    assert opened["type"] == "warning"
    assert "since 2025-11-21 14:03:11 UTC" in opened["message"]
    assert resolved["title"] == "[OVER] orders rebalanced 19 times in 2 min"
    assert resolved["type"] == "success"
    assert "over: 2025-11-21 14:03:11 UTC to 2025-11-21 14:05:11 UTC (2 min)" in resolved["message"]


def test_much_news_is_one_message(receiver: Receiver, state: Path) -> None:
    incidents = [an_incident(n) for n in range(25)]
    assert send(incidents, [receiver.apprise], state).delivered_count == 25
    (body,) = receiver.received
    assert body["title"] == "25 new incidents, 0 over"
    assert body["message"].count("[WARNING]") == 25
    assert send(incidents, [receiver.apprise], state).delivered_count == 0


def test_a_target_that_is_down_gets_it_the_next_time_and_holds_up_no_other(receiver: Receiver, state: Path) -> None:
    gone = Receiver()
    gone.stop()
    report = send([an_incident()], [f"http://127.0.0.1:{gone.port}/x", receiver.webhook], state)
    assert report.delivered_count == 1
    (failure,) = report.failures
    assert failure.startswith(
        f"http://127.0.0.1:{gone.port}/… did not take the alerts, they are kept for the next time:"
    )
    assert len(receiver.received) == 1
    send([an_incident()], [f"http://127.0.0.1:{gone.port}/x", receiver.webhook], state)
    assert len(receiver.received) == 1


def test_an_answer_that_is_an_error_is_no_delivery(receiver: Receiver, state: Path) -> None:
    receiver.answer = 500
    report = send([an_incident()], [receiver.webhook], state)
    assert report.delivered_count == 0
    assert report.failures[0].endswith("it answered HTTP 500.")
    receiver.answer = 200
    assert send([an_incident()], [receiver.webhook], state).delivered_count == 1


def test_a_webhook_with_a_password_sends_it_as_a_header(receiver: Receiver, state: Path) -> None:
    send([an_incident()], [f"http://me:p%40ss@127.0.0.1:{receiver.port}/x"], state)
    assert len(receiver.received) == 1
    assert receiver.authorization == "Basic bWU6cEBzcw=="


def test_a_redirect_is_no_delivery(receiver: Receiver, state: Path) -> None:
    receiver.answer = 302
    assert send([an_incident()], [receiver.webhook], state).failures[0].endswith("it answered HTTP 302.")


def test_an_apprise_target_that_is_down_gets_it_the_next_time(receiver: Receiver, state: Path) -> None:
    receiver.answer = 503
    report = send([an_incident()], [receiver.apprise], state)
    assert report.delivered_count == 0
    assert report.failures[0].startswith("json://… did not take the alerts, they are kept for the next time:")
    receiver.answer = 200
    assert send([an_incident()], [receiver.apprise], state).delivered_count == 1


def test_hostile_text_is_spelt_out_calls_nobody_and_links_nowhere(receiver: Receiver, state: Path) -> None:
    evil = an_incident(
        group_ids=("x\n@everyone \x1b[2J\u202e",),
        title="@channel [free](http://evil) \x07",
        story="<script>\nsecond @here",
        culprits=("\n@here",),
    )
    send([evil], [receiver.webhook, receiver.apprise], state)
    (alert,), message = receiver.received
    texts = [alert["annotations"]["summary"], alert["labels"]["subject"], message["title"]]
    texts += [*alert["annotations"]["description"].split("\n"), *message["message"].split("\n")]
    for text in texts:
        assert not set(text) & {"\n", "\x1b", "\x07", "\u202e"}
        assert not any(call in text for call in ("@everyone", "@channel", "@here"))
        assert "](" not in text


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("https://hooks.slack.com/services/T0/B0/s3cr3t", "https://hooks.slack.com/…"),
        ("http://user:pass@alertmanager:9093/api/v2/alerts", "http://alertmanager:9093/…"),
        ("http://alertmanager:9093", "http://alertmanager:9093"),
        ("slack://tokenA/tokenB/tokenC/#ops", "slack://…"),
        ("mailto://user:password@gmail.com", "mailto://…"),
        ("password", "(a target that is not a URL)"),
        ("http://[broken", "http://…"),
        ("evil\nline://x", "(a target that is not a URL)"),
    ],
)
def test_secrets_in_targets_are_masked(target: str, shown: str) -> None:
    assert masked(target) == shown


def test_no_secret_reaches_a_failure_a_log_or_the_state(
    receiver: Receiver, state: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    receiver.answer = 500
    targets = [
        f"json://s3cretuser:s3cretpass@127.0.0.1:{receiver.port}/s3cretpath?+x-key=s3cretkey",
        f"http://s3cretuser:s3cretpass@127.0.0.1:{receiver.port}/s3cretpath",
    ]
    with caplog.at_level(logging.DEBUG):
        report = send([an_incident()], targets, state)
    assert len(report.failures) == 2
    seen = " ".join(report.failures) + caplog.text + "".join(capfd.readouterr()) + state.read_text()
    assert "s3cret" not in seen


def test_what_is_no_target_is_said_in_one_sentence_without_its_secrets(state: Path) -> None:
    with pytest.raises(AlertError) as caught:
        send([an_incident()], ["nosuchservice://t0ken/secret"], state)
    assert str(caught.value).startswith("nosuchservice://… is no alert target: use http(s)://… for Alertmanager's JSON")
    assert "t0ken" not in str(caught.value)
    with pytest.raises(AlertError, match="names no host"):
        send([an_incident()], ["http:///path"], state)


def test_a_webhook_as_slack_gives_it_out_does_not_get_the_json_of_alertmanager() -> None:
    given_out = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
    of_slack, of_alertmanager = (sender_for(url) for url in (given_out, "http://alertmanager:9093/api/v2/alerts"))
    assert type(of_slack) is type(sender_for("json://localhost")) is not type(of_alertmanager)
    assert of_slack.name == "https://hooks.slack.com/…"
