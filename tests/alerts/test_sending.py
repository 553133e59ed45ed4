from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.alerts import sending as alerts
from rebalance_audit.alerts.sending import AlertError, masked, send_alerts
from rebalance_audit.alerts.silences import silence_at
from rebalance_audit.alerts.state import sent_about
from rebalance_audit.alerts.target import sender_for
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.incidents.responses import Response, acknowledgement, silence

T_MS = 1_763_733_791_000  # 2025-11-21 14:03:11 UTC


class Receiver:
    """An HTTP server on the loopback that keeps what it is sent."""

    def __init__(self) -> None:
        self.received: list[Any] = []
        self.answer = 200
        self.authorization: str | None = None
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.authorization = self.headers["Authorization"]
                if receiver.answer == 302:
                    self.send_response(302)
                    self.send_header("Location", "/elsewhere")
                    self.end_headers()
                    return
                if receiver.answer == 200:
                    receiver.received.append(json.loads(body))
                self.send_response(receiver.answer)
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    server = Receiver()
    yield server
    server.stop()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "alerts.json"


def an_incident(number: int = 1, **changes: Any) -> Incident:
    return replace(
        Incident(
            cluster_id="cluster-a",
            incident_id=f"in:{number:016x}",
            kind="storm",
            root_cause="member_poll_timeout",
            root_cause_tier="logged",
            culprits=("c1",),
            group_ids=("orders",),
            rebalance_ids=("cluster-a/orders/7",),
            finding_ids=("rb001:5a9a491950ba95c1",),
            severity="warning",
            status="open",
            expected=False,
            first_at_ms=T_MS,
            last_at_ms=T_MS + 120_000,
            title="orders rebalanced 19 times in 2 min",
            story="orders rebalanced 19 times in 2 min. It cost 4.2 partition-seconds. It goes on.",
            advice="Process less per poll.",
            evidence=("record:__consumer_offsets-7@231",),
        ),
        **changes,
    )


def _webhook(receiver: Receiver) -> str:
    return f"http://127.0.0.1:{receiver.port}/api/v2/alerts"


def _apprise(receiver: Receiver) -> str:
    return f"json://127.0.0.1:{receiver.port}/hook"


def test_an_open_incident_is_shown_once(receiver: Receiver, state: Path) -> None:
    for expected in (1, 0, 0):
        assert send_alerts([an_incident()], [_webhook(receiver)], state).delivered_count == expected
    assert len(receiver.received) == 1
    ((alert,),) = receiver.received
    assert alert["labels"] == {
        "alertname": "RebalanceIncident",
        "cluster": "cluster-a",
        "severity": "warning",
        "subject": "orders",
        "incident_id": "in:0000000000000001",
    }
    assert alert["annotations"]["summary"] == "orders rebalanced 19 times in 2 min"
    assert alert["annotations"]["runbook_url"] == "docs/runbook.md#rb001"
    assert "What to do: Process less per poll." in alert["annotations"]["description"]
    assert "Evidence: record:__consumer_offsets-7@231" in alert["annotations"]["description"]
    assert alert["startsAt"] == "2025-11-21T14:03:11.000+00:00"
    assert alert["endsAt"] > alert["startsAt"]


def test_an_incident_that_is_over_is_resolved_once_with_the_labels_it_opened_with(
    receiver: Receiver, state: Path
) -> None:
    send_alerts([an_incident()], [_webhook(receiver)], state)
    over = an_incident(status="over", severity="critical")
    for expected in (1, 0):
        assert send_alerts([over], [_webhook(receiver)], state).delivered_count == expected
    opened, resolved = (body[0] for body in receiver.received)
    assert resolved["labels"] == opened["labels"]
    assert resolved["endsAt"] == "2025-11-21T14:05:11.000+00:00"


def test_an_incident_that_opens_again_is_shown_again(receiver: Receiver, state: Path) -> None:
    for status, expected in (("open", 1), ("over", 1), ("open", 1), ("open", 0)):
        assert send_alerts([an_incident(status=status)], [_webhook(receiver)], state).delivered_count == expected


def test_an_incident_that_becomes_graver_is_shown_again_and_ends_the_lesser_alert(
    receiver: Receiver, state: Path
) -> None:
    targets = [_webhook(receiver), _apprise(receiver)]
    for severity, expected in (("warning", 2), ("critical", 2), ("critical", 0), ("warning", 0)):
        assert send_alerts([an_incident(severity=severity)], targets, state).delivered_count == expected
    _, _, (ended, opened), message = receiver.received
    assert (ended["labels"]["severity"], opened["labels"]["severity"]) == ("warning", "critical")
    assert ended["endsAt"] == "2025-11-21T14:05:11.000+00:00" < opened["endsAt"]
    assert message["title"].startswith("[CRITICAL] orders")
    assert "sent as warning before" in message["message"]


def test_a_second_member_that_vanishes_is_shown_in_a_message_of_its_own(receiver: Receiver, state: Path) -> None:
    targets = [_webhook(receiver), _apprise(receiver)]
    one = an_incident(kind="member_fault", title="c1 of orders vanished")
    both = replace(one, culprits=("c1", "c2"), title="c1 and c2 of orders vanished")
    for incident, expected in ((one, 2), (both, 2), (both, 0), (replace(both, status="over"), 2)):
        assert send_alerts([incident], targets, state).delivered_count == expected
    alerts_, messages = receiver.received[0::2], receiver.received[1::2]
    assert {json.dumps(body[0]["labels"], sort_keys=True) for body in alerts_} == {
        json.dumps(alerts_[0][0]["labels"], sort_keys=True)
    }
    assert [m["title"] for m in messages] == [
        "[WARNING] c1 of orders vanished", "[WARNING] c1 and c2 of orders vanished",
        "[OVER] c1 and c2 of orders vanished",
    ]  # fmt: skip
    assert "wider than sent before: c2" in messages[1]["message"]


def test_another_group_makes_it_wider_and_keeps_its_labels(receiver: Receiver, state: Path) -> None:
    send_alerts([an_incident()], [_webhook(receiver)], state)
    wider = an_incident(group_ids=("billing", "orders"))  # sorted: another is the first now
    assert send_alerts([wider], [_webhook(receiver)], state).delivered_count == 1
    (first,), (second,) = receiver.received
    assert first["labels"] == second["labels"]


def test_a_fleet_that_goes_down_one_by_one_is_shown_a_few_times(receiver: Receiver, state: Path) -> None:
    reports = [
        send_alerts([an_incident(culprits=tuple(f"c{n}" for n in range(count)))], [_apprise(receiver)], state)
        for count in range(1, 101)
    ]
    assert [n for n, report in enumerate(reports, start=1) if report.delivered_count] == [
        1, 2, 3, 5, 8, 12, 18, 27, 41, 62, 93,
    ]  # fmt: skip


def test_what_an_earlier_version_remembered_is_shown_once_more_if_it_is_open(receiver: Receiver, state: Path) -> None:
    state.write_text('{"version": 1, "delivered": {"k": {"rb001:1": {"status": "open", "severity": "warning"}}}}')
    past = an_incident(2, status="over")
    assert send_alerts([an_incident(), past], [_webhook(receiver)], state).delivered_count == 1


def test_apprise_targets_get_one_message_per_incident_and_state(receiver: Receiver, state: Path) -> None:
    for status in ("open", "open", "over", "over"):
        send_alerts([an_incident(status=status)], [_apprise(receiver)], state)
    opened, resolved = receiver.received
    assert opened["title"] == "[WARNING] orders rebalanced 19 times in 2 min"
    assert opened["type"] == "warning"
    assert "since 2025-11-21 14:03:11 UTC" in opened["message"]
    assert resolved["title"] == "[OVER] orders rebalanced 19 times in 2 min"
    assert resolved["type"] == "success"
    assert "over: 2025-11-21 14:03:11 UTC to 2025-11-21 14:05:11 UTC (2 min)" in resolved["message"]


def test_a_target_that_is_down_gets_it_the_next_time_and_holds_up_no_other(receiver: Receiver, state: Path) -> None:
    gone = Receiver()
    gone.stop()
    report = send_alerts([an_incident()], [f"http://127.0.0.1:{gone.port}/x", _webhook(receiver)], state)
    assert report.delivered_count == 1
    (failure,) = report.failures
    assert failure.startswith(
        f"http://127.0.0.1:{gone.port}/… did not take the alerts, they are kept for the next time:"
    )
    assert len(receiver.received) == 1
    send_alerts([an_incident()], [f"http://127.0.0.1:{gone.port}/x", _webhook(receiver)], state)
    assert len(receiver.received) == 1


def test_an_answer_that_is_an_error_is_no_delivery(receiver: Receiver, state: Path) -> None:
    receiver.answer = 500
    report = send_alerts([an_incident()], [_webhook(receiver)], state)
    assert report.delivered_count == 0
    assert report.failures[0].endswith("it answered HTTP 500.")
    receiver.answer = 200
    assert send_alerts([an_incident()], [_webhook(receiver)], state).delivered_count == 1


def test_a_webhook_with_a_password_sends_it_as_a_header(receiver: Receiver, state: Path) -> None:
    send_alerts([an_incident()], [f"http://me:p%40ss@127.0.0.1:{receiver.port}/x"], state)
    assert len(receiver.received) == 1
    assert receiver.authorization == "Basic bWU6cEBzcw=="


def test_a_redirect_is_no_delivery(receiver: Receiver, state: Path) -> None:
    receiver.answer = 302
    assert send_alerts([an_incident()], [_webhook(receiver)], state).failures[0].endswith("it answered HTTP 302.")


def test_an_apprise_target_that_is_down_gets_it_the_next_time(receiver: Receiver, state: Path) -> None:
    receiver.answer = 503
    report = send_alerts([an_incident()], [_apprise(receiver)], state)
    assert report.delivered_count == 0
    assert report.failures[0].startswith("json://… did not take the alerts, they are kept for the next time:")
    receiver.answer = 200
    assert send_alerts([an_incident()], [_apprise(receiver)], state).delivered_count == 1


def test_a_crash_after_sending_and_before_remembering_sends_twice_and_loses_nothing(
    receiver: Receiver, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(alerts, "write_state", crash)
        with pytest.raises(KeyboardInterrupt):
            send_alerts([an_incident()], [_webhook(receiver)], state)
    assert not state.exists()
    send_alerts([an_incident()], [_webhook(receiver)], state)
    send_alerts([an_incident()], [_webhook(receiver)], state)
    assert len(receiver.received) == 2


def test_of_several_messages_those_before_the_failure_are_remembered(receiver: Receiver, state: Path) -> None:
    incidents = [an_incident(1), an_incident(2, first_at_ms=T_MS + 1)]
    send_alerts(incidents[:1], [_apprise(receiver)], state)
    receiver.answer = 500
    send_alerts(incidents, [_apprise(receiver)], state)
    receiver.answer = 200
    send_alerts(incidents, [_apprise(receiver)], state)
    assert len(receiver.received) == 2


def test_a_new_target_is_not_shown_what_was_over_before_it_was_there(receiver: Receiver, state: Path) -> None:
    past, present = an_incident(1, status="over"), an_incident(2)
    assert send_alerts([past, present], [_webhook(receiver)], state).delivered_count == 1
    assert receiver.received[0][0]["labels"]["incident_id"] == present.incident_id


def test_what_came_and_went_between_two_runs_is_shown_once(receiver: Receiver, state: Path) -> None:
    send_alerts([], [_apprise(receiver)], state)
    short = an_incident(status="over")
    send_alerts([short], [_apprise(receiver)], state)
    send_alerts([short], [_apprise(receiver)], state)
    assert [body["title"] for body in receiver.received] == ["[OVER] orders rebalanced 19 times in 2 min"]


def test_what_the_evidence_no_longer_supports_is_withdrawn_once(receiver: Receiver, state: Path) -> None:
    send_alerts([an_incident()], [_apprise(receiver)], state, is_all=True)
    for _ in range(2):
        send_alerts([], [_apprise(receiver)], state, is_all=True)
    assert [body["title"].split()[0] for body in receiver.received] == ["[WARNING]", "[WITHDRAWN]"]


def test_incidents_of_one_group_alone_withdraw_nothing(receiver: Receiver, state: Path) -> None:
    send_alerts([an_incident()], [_webhook(receiver)], state)
    assert send_alerts([], [_webhook(receiver)], state).delivered_count == 0


def test_a_live_call_leaves_what_came_and_went_to_the_tables(receiver: Receiver, state: Path) -> None:
    send_alerts([], [_webhook(receiver)], state)
    over = an_incident(1, status="over")
    assert send_alerts([over], [_webhook(receiver)], state, is_live=True).delivered_count == 0
    assert send_alerts([over], [_webhook(receiver)], state, is_all=True).delivered_count == 1


def test_what_was_sent_live_is_not_sent_again_by_the_tables(receiver: Receiver, state: Path) -> None:
    send_alerts([], [_webhook(receiver)], state)
    assert send_alerts([an_incident(1)], [_webhook(receiver)], state, is_live=True).delivered_count == 1
    assert send_alerts([an_incident(1)], [_webhook(receiver)], state, is_all=True).delivered_count == 0


def test_tables_that_are_behind_neither_withdraw_nor_repeat(receiver: Receiver, state: Path) -> None:
    """Sent live while the stages ran over what was there before: they do not know it, or still think it open."""
    send_alerts([], [_webhook(receiver)], state)
    first, second = an_incident(1), an_incident(2)
    send_alerts([first, second], [_webhook(receiver)], state, is_live=True)
    send_alerts([replace(second, status="over")], [_webhook(receiver)], state, is_live=True)
    count = len(receiver.received)
    ids = {first.incident_id, second.incident_id}
    sent = send_alerts([second], [_webhook(receiver)], state, is_all=True, except_ids=ids)
    assert (sent.delivered_count, len(receiver.received)) == (0, count)
    assert (
        send_alerts([first, replace(second, status="over")], [_webhook(receiver)], state, is_all=True).delivered_count
        == 0
    )


def test_below_the_least_severity_nothing_is_shown(receiver: Receiver, state: Path) -> None:
    incidents = [an_incident(1, severity="info"), an_incident(2), an_incident(3, severity="critical")]
    assert send_alerts(incidents, [_webhook(receiver)], state, min_severity="critical").delivered_count == 1
    assert send_alerts(incidents, [_webhook(receiver)], state, min_severity="info").delivered_count == 2


def test_much_news_is_one_message(receiver: Receiver, state: Path) -> None:
    incidents = [an_incident(n) for n in range(25)]
    assert send_alerts(incidents, [_apprise(receiver)], state).delivered_count == 25
    (body,) = receiver.received
    assert body["title"] == "25 new incidents, 0 over"
    assert body["message"].count("[WARNING]") == 25
    assert send_alerts(incidents, [_apprise(receiver)], state).delivered_count == 0


def test_a_dry_run_prints_and_changes_nothing(receiver: Receiver, state: Path) -> None:
    lines: list[str] = []
    report = send_alerts([an_incident()], [_webhook(receiver)], state, dry_run=True, out=lines.append)
    assert report.printed == tuple(lines)
    assert lines[0].startswith(f"[http://127.0.0.1:{receiver.port}/…] [WARNING] orders rebalanced 19 times")
    assert receiver.received == []
    assert not state.exists()


def test_hostile_text_is_spelt_out_calls_nobody_and_links_nowhere(receiver: Receiver, state: Path) -> None:
    evil = an_incident(
        group_ids=("x\n@everyone \x1b[2J\u202e",),
        title="@channel [free](http://evil) \x07",
        story="<script>\nsecond @here",
        culprits=("\n@here",),
    )
    send_alerts([evil], [_webhook(receiver), _apprise(receiver)], state)
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
        report = send_alerts([an_incident()], targets, state)
    assert len(report.failures) == 2
    seen = " ".join(report.failures) + caplog.text + "".join(capfd.readouterr()) + state.read_text()
    assert "s3cret" not in seen


def test_what_is_no_target_is_said_in_one_sentence_without_its_secrets(state: Path) -> None:
    with pytest.raises(AlertError) as caught:
        send_alerts([an_incident()], ["nosuchservice://t0ken/secret"], state)
    assert str(caught.value).startswith("nosuchservice://… is no alert target: use http(s)://… for Alertmanager's JSON")
    assert "t0ken" not in str(caught.value)
    with pytest.raises(AlertError, match="names no host"):
        send_alerts([an_incident()], ["http:///path"], state)


def test_a_webhook_as_slack_gives_it_out_does_not_get_the_json_of_alertmanager() -> None:
    given_out = "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ"
    of_slack, of_alertmanager = (sender_for(url, "") for url in (given_out, "http://alertmanager:9093/api/v2/alerts"))
    assert type(of_slack) is type(sender_for("json://localhost", "")) is not type(of_alertmanager)
    assert of_slack.name == "https://hooks.slack.com/…"


def test_a_severity_that_does_not_exist_is_said(state: Path) -> None:
    with pytest.raises(AlertError, match="There is no severity 'urgent': use one of info, warning, critical"):
        send_alerts([], [], state, min_severity="urgent")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 9, "delivered": {}}', '{"version": 1, "delivered": {"k": [1]}}']
)
def test_a_state_file_that_is_none_is_left_alone_and_said(receiver: Receiver, state: Path, text: str) -> None:
    state.write_text(text)
    with pytest.raises(AlertError, match="is not one this version wrote"):
        send_alerts([an_incident()], [_webhook(receiver)], state)
    assert state.read_text() == text
    assert receiver.received == []


def test_the_state_file_is_replaced_whole_and_nothing_is_left_beside_it(receiver: Receiver, state: Path) -> None:
    send_alerts([an_incident()], [_webhook(receiver)], state)
    assert sorted(p.name for p in state.parent.iterdir()) == ["alerts.json", "alerts.json.lock"]
    assert json.loads(state.read_text())["version"] == 2


def test_two_senders_at_once_show_it_once(receiver: Receiver, state: Path) -> None:
    threads = [
        threading.Thread(target=send_alerts, args=([an_incident()], [_webhook(receiver)], state)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(receiver.received) == 1


def a_silence(until_ms: int = T_MS + 3_600_000, pattern: str = "orders*") -> Response:
    return silence(pattern, "anna", T_MS, until_ms, "planned")


def test_what_a_silence_covered_is_sent_when_it_ends_if_it_is_still_open(receiver: Receiver, state: Path) -> None:
    def sent(incident: Incident, now_ms: int) -> int:
        found = send_alerts([incident], [_webhook(receiver)], state, responses=[a_silence()], now_ms=now_ms)
        return found.delivered_count

    assert sent(an_incident(1), T_MS + 1) == 0
    assert sent(an_incident(1), T_MS + 3_600_000) == 1
    assert sent(an_incident(1, severity="critical"), T_MS + 2) == 0
    assert sent(an_incident(1, status="over"), T_MS + 3) == 1  # Alertmanager has to end what it has


def test_what_came_and_went_under_a_silence_is_never_sent(receiver: Receiver, state: Path) -> None:
    send_alerts([], [_webhook(receiver)], state)
    over = an_incident(1, status="over")
    for now_ms in (T_MS + 1, T_MS + 3_600_001):
        found = send_alerts([over], [_webhook(receiver)], state, responses=[a_silence()], now_ms=now_ms)
        assert found.delivered_count == 0


def test_who_acknowledged_hears_of_it_only_when_it_grows_graver(receiver: Receiver, state: Path) -> None:
    answers = [acknowledgement(an_incident(1), "anna", T_MS, "on it")]

    def sent(**changes: Any) -> int:
        incident = an_incident(1, **changes)
        return send_alerts([incident], [_webhook(receiver)], state, responses=answers, now_ms=T_MS).delivered_count

    assert sent() == 1
    assert sent(group_ids=("orders", "billing")) == 0
    assert sent(group_ids=("orders", "billing"), severity="critical") == 1
    assert (
        "acknowledged by anna at 2025-11-21 14:03:11 UTC: on it"
        in (receiver.received[-1][-1]["annotations"]["description"])
    )
    assert sent(status="over") == 1


def test_a_silence_at_an_alertmanager_matches_the_labels_that_alerts_have(receiver: Receiver) -> None:
    silence_at(_webhook(receiver), replace(a_silence(pattern="ord[!x]*.v?"), cluster_id="cluster-a"))
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
    silence_at(_webhook(receiver), a_silence(pattern="*a*b*"))
    assert receiver.received[-1]["matchers"][1]["value"] == "(?:.*?a)(?:.*?b).*"  # RE2 has no atomic groups


def test_only_an_alertmanager_takes_a_silence() -> None:
    with pytest.raises(AlertError, match="give the URL that ends in /api/v2/alerts"):
        silence_at("https://example.com/hook/s3cret", a_silence())


def test_what_was_sent_when_is_kept_for_those_who_look_at_the_incident(receiver: Receiver, state: Path) -> None:
    targets = [_webhook(receiver)]
    receiver.answer = 500
    for minutes in (0, 1, 2):
        send_alerts([an_incident()], targets, state, now_ms=T_MS + minutes * 60_000)
    receiver.answer = 200
    send_alerts([an_incident()], targets, state, now_ms=T_MS + 180_000)
    send_alerts([an_incident(severity="critical")], targets, state, now_ms=T_MS + 240_000)
    send_alerts([an_incident(status="over")], targets, state, now_ms=T_MS + 300_000, is_all=True)
    notes = sent_about(state, an_incident().incident_id)
    assert [(n["at_ms"] - T_MS, n["what"], n["is_sent"]) for n in notes] == [
        (0, "open", False),  # and not once per try
        (180_000, "open", True),
        (240_000, "graver", True),
        (300_000, "over", True),
    ]
    assert {n["target"] for n in notes} == {masked(targets[0])}
    send_alerts([], targets, state, now_ms=T_MS, is_all=True)  # it is in no table any more
    assert sent_about(state, an_incident().incident_id) == []
