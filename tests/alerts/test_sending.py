"""What is new is sent once to each target, and remembered only when it was delivered."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_audit.alerts import sending as alerts
from rebalance_audit.alerts.news import AlertRound
from rebalance_audit.alerts.sending import would_be_sent
from rebalance_audit.alerts.state import sent_about
from rebalance_audit.alerts.target import AlertError, masked
from rebalance_audit.domain.kinds import Severity
from tests.alerts.incidents import T_MS, an_incident, send
from tests.alerts.receiver import Receiver


def test_an_open_incident_is_shown_once(receiver: Receiver, state: Path) -> None:
    for expected in (1, 0, 0):
        assert send([an_incident()], [receiver.webhook], state).delivered_count == expected
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
    assert "runbook_url" not in alert["annotations"]  # nobody said where a browser finds it
    assert "Runbook: docs/runbook.md#rb001" in alert["annotations"]["description"]
    assert "Whose doing: c1: exceeded its poll interval" in alert["annotations"]["description"]
    assert "What to do: Process less per poll." in alert["annotations"]["description"]
    assert "Evidence: record:__consumer_offsets-7@231" in alert["annotations"]["description"]
    assert alert["startsAt"] == "2025-11-21T14:03:11.000+00:00"
    assert alert["endsAt"] > alert["startsAt"]


def test_a_message_about_old_evidence_says_since_when_it_is_not_known_how_the_incident_stands(state: Path) -> None:
    for status, age_ms, expected in (("open", 7_200_000, True), ("open", 60_000, False), ("over", 7_200_000, False)):
        found = AlertRound([an_incident(status=status)], ends={"cluster-a": T_MS}, now_ms=T_MS + age_ms)
        said = "".join(would_be_sent(found, ["http://localhost:1"], state))
        assert (", not known since 2025-11-21 14:03:11 UTC" in said) is expected


def test_an_incident_that_is_over_is_resolved_once_with_the_labels_it_opened_with(
    receiver: Receiver, state: Path
) -> None:
    send([an_incident()], [receiver.webhook], state)
    over = an_incident(status="over", severity="critical")
    for expected in (1, 0):
        assert send([over], [receiver.webhook], state).delivered_count == expected
    opened, resolved = (body[0] for body in receiver.received)
    assert resolved["labels"] == opened["labels"]
    assert resolved["endsAt"] == "2025-11-21T14:05:11.000+00:00"


def test_an_incident_that_opens_again_is_shown_again(receiver: Receiver, state: Path) -> None:
    for status, expected in (("open", 1), ("over", 1), ("open", 1), ("open", 0)):
        assert send([an_incident(status=status)], [receiver.webhook], state).delivered_count == expected


def test_an_incident_that_becomes_graver_is_shown_again_and_ends_the_lesser_alert(
    receiver: Receiver, state: Path
) -> None:
    targets = [receiver.webhook, receiver.apprise]
    for severity, expected in (("warning", 2), ("critical", 2), ("critical", 0), ("warning", 0)):
        assert send([an_incident(severity=severity)], targets, state).delivered_count == expected
    _, _, (ended, opened), message = receiver.received
    assert (ended["labels"]["severity"], opened["labels"]["severity"]) == ("warning", "critical")
    assert ended["endsAt"] == "2025-11-21T14:05:11.000+00:00" < opened["endsAt"]
    assert message["title"].startswith("[CRITICAL] orders")
    assert "sent as warning before" in message["message"]


def test_a_second_member_that_vanishes_is_shown_in_a_message_of_its_own(receiver: Receiver, state: Path) -> None:
    targets = [receiver.webhook, receiver.apprise]
    one = an_incident(kind="member_fault", title="c1 of orders vanished")
    both = replace(one, culprits=("c1", "c2"), title="c1 and c2 of orders vanished")
    for incident, expected in ((one, 2), (both, 2), (both, 0), (replace(both, status="over"), 2)):
        assert send([incident], targets, state).delivered_count == expected
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
    send([an_incident()], [receiver.webhook], state)
    wider = an_incident(group_ids=("billing", "orders"))  # sorted: another is the first now
    assert send([wider], [receiver.webhook], state).delivered_count == 1
    (first,), (second,) = receiver.received
    assert first["labels"] == second["labels"]


def test_members_that_turn_out_to_be_put_out_by_a_broker_are_taken_back_in_one_message(
    receiver: Receiver, state: Path
) -> None:
    targets = [receiver.webhook, receiver.apprise]
    vanished = an_incident(kind="member_fault", title="c1 of orders vanished")
    broker = replace(vanished, kind="coordinator", culprits=("broker 2",), title="Broker 2 died")
    for incident, expected in ((vanished, 2), (broker, 2), (broker, 0), (replace(broker, status="over"), 2)):
        assert send([incident], targets, state).delivered_count == expected
    alerts_, messages = receiver.received[0::2], receiver.received[1::2]
    assert {json.dumps(body[0]["labels"], sort_keys=True) for body in alerts_} == {
        json.dumps(alerts_[0][0]["labels"], sort_keys=True)
    }
    assert [m["title"] for m in messages[:2]] == ["[WARNING] c1 of orders vanished", "[WARNING] Broker 2 died"]
    assert "another cause than sent before: c1 of orders vanished" in messages[1]["message"]
    assert [note["what"] for note in sent_about(state, vanished.incident_id)][::2] == ["open", "another cause", "over"]


def test_two_judgements_that_contradict_each_other_all_the_time_do_not_send_for_ever(
    receiver: Receiver, state: Path
) -> None:
    vanished, storm = an_incident(kind="member_fault"), an_incident(kind="storm")
    counts = [send([i], [receiver.apprise], state).delivered_count for i in (vanished, storm) * 10]
    assert counts == [1, 1, 1, 1] + [0] * 16


def test_a_change_on_purpose_that_looks_otherwise_later_is_no_news(receiver: Receiver, state: Path) -> None:
    for kind, expected in (("scaling", 1), ("deploy", 0)):
        assert send([an_incident(kind=kind)], [receiver.apprise], state).delivered_count == expected


def test_a_fleet_that_goes_down_one_by_one_is_shown_a_few_times(receiver: Receiver, state: Path) -> None:
    reports = [
        send([an_incident(culprits=tuple(f"c{n}" for n in range(count)))], [receiver.apprise], state)
        for count in range(1, 101)
    ]
    assert [n for n, report in enumerate(reports, start=1) if report.delivered_count] == [
        1, 2, 3, 5, 8, 12, 18, 27, 41, 62, 93,
    ]  # fmt: skip


def test_what_an_earlier_version_remembered_is_shown_once_more_if_it_is_open(receiver: Receiver, state: Path) -> None:
    state.write_text('{"version": 1, "delivered": {"k": {"rb001:1": {"status": "open", "severity": "warning"}}}}')
    past = an_incident(2, status="over")
    assert send([an_incident(), past], [receiver.webhook], state).delivered_count == 1


def test_a_crash_after_sending_and_before_remembering_sends_twice_and_loses_nothing(
    receiver: Receiver, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(alerts, "write_state", crash)
        with pytest.raises(KeyboardInterrupt):
            send([an_incident()], [receiver.webhook], state)
    assert not state.exists()
    send([an_incident()], [receiver.webhook], state)
    send([an_incident()], [receiver.webhook], state)
    assert len(receiver.received) == 2


def test_of_several_messages_those_before_the_failure_are_remembered(receiver: Receiver, state: Path) -> None:
    incidents = [an_incident(1), an_incident(2, first_at_ms=T_MS + 1)]
    send(incidents[:1], [receiver.apprise], state)
    receiver.answer = 500
    send(incidents, [receiver.apprise], state)
    receiver.answer = 200
    send(incidents, [receiver.apprise], state)
    assert len(receiver.received) == 2


def test_a_new_target_is_not_shown_what_was_over_before_it_was_there(receiver: Receiver, state: Path) -> None:
    past, present = an_incident(1, status="over"), an_incident(2)
    assert send([past, present], [receiver.webhook], state).delivered_count == 1
    assert receiver.received[0][0]["labels"]["incident_id"] == present.incident_id


def test_what_came_and_went_between_two_runs_is_shown_once(receiver: Receiver, state: Path) -> None:
    send([], [receiver.apprise], state)
    short = an_incident(status="over")
    send([short], [receiver.apprise], state)
    send([short], [receiver.apprise], state)
    assert [body["title"] for body in receiver.received] == ["[OVER] orders rebalanced 19 times in 2 min"]


def test_what_the_evidence_no_longer_supports_is_withdrawn_once(receiver: Receiver, state: Path) -> None:
    send([an_incident()], [receiver.apprise], state, is_all=True)
    for _ in range(2):
        send([], [receiver.apprise], state, is_all=True)
    assert [body["title"].split()[0] for body in receiver.received] == ["[WARNING]", "[WITHDRAWN]"]


def test_incidents_of_one_group_alone_withdraw_nothing(receiver: Receiver, state: Path) -> None:
    send([an_incident()], [receiver.webhook], state)
    assert send([], [receiver.webhook], state).delivered_count == 0


def test_a_live_call_leaves_what_came_and_went_to_the_tables(receiver: Receiver, state: Path) -> None:
    send([], [receiver.webhook], state)
    over = an_incident(1, status="over")
    assert send([over], [receiver.webhook], state, is_live=True).delivered_count == 0
    assert send([over], [receiver.webhook], state, is_all=True).delivered_count == 1


def test_what_was_sent_live_is_not_sent_again_by_the_tables(receiver: Receiver, state: Path) -> None:
    send([], [receiver.webhook], state)
    assert send([an_incident(1)], [receiver.webhook], state, is_live=True).delivered_count == 1
    assert send([an_incident(1)], [receiver.webhook], state, is_all=True).delivered_count == 0


def test_tables_that_are_behind_neither_withdraw_nor_repeat(receiver: Receiver, state: Path) -> None:
    """Sent live while the stages ran over what was there before: they do not know it, or still think it open."""
    send([], [receiver.webhook], state)
    first, second = an_incident(1), an_incident(2)
    send([first, second], [receiver.webhook], state, is_live=True)
    send([replace(second, status="over")], [receiver.webhook], state, is_live=True)
    count = len(receiver.received)
    ids = {first.incident_id, second.incident_id}
    sent = send([second], [receiver.webhook], state, is_all=True, except_ids=ids)
    assert (sent.delivered_count, len(receiver.received)) == (0, count)
    assert send([first, replace(second, status="over")], [receiver.webhook], state, is_all=True).delivered_count == 0


def test_below_the_least_severity_nothing_is_shown(receiver: Receiver, state: Path) -> None:
    incidents = [an_incident(1, severity="info"), an_incident(2), an_incident(3, severity="critical")]
    assert send(incidents, [receiver.webhook], state, min_severity=Severity.CRITICAL).delivered_count == 1
    assert send(incidents, [receiver.webhook], state, min_severity=Severity.INFO).delivered_count == 2


def test_an_incident_that_two_receivers_get_is_one_incident(receiver: Receiver, state: Path) -> None:
    both = [receiver.webhook, receiver.apprise]
    assert send([an_incident()], both, state).in_words() == "1 incident sent to 2 receivers"
    assert send([an_incident()], both, state).in_words() == "0 incidents sent"
    assert send([an_incident(2)], [receiver.webhook], state).in_words() == "1 incident sent to 1 receiver"


def test_what_would_be_sent_is_shown_and_changes_nothing(receiver: Receiver, state: Path) -> None:
    (shown,) = would_be_sent(AlertRound([an_incident()]), [receiver.webhook], state)
    assert shown.startswith(f"[http://127.0.0.1:{receiver.port}/…] [WARNING] orders rebalanced 19 times")
    assert receiver.received == []
    assert not state.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 9, "delivered": {}}', '{"version": 1, "delivered": {"k": [1]}}']
)
def test_a_state_file_that_is_none_is_left_alone_and_said(receiver: Receiver, state: Path, text: str) -> None:
    state.write_text(text)
    with pytest.raises(AlertError, match="is not one this version wrote"):
        send([an_incident()], [receiver.webhook], state)
    assert state.read_text() == text
    assert receiver.received == []


def test_the_state_file_is_replaced_whole_and_nothing_is_left_beside_it(receiver: Receiver, state: Path) -> None:
    send([an_incident()], [receiver.webhook], state)
    assert sorted(p.name for p in state.parent.iterdir()) == ["alerts.json", "alerts.json.lock"]
    assert json.loads(state.read_text())["version"] == 2


def test_two_senders_at_once_show_it_once(receiver: Receiver, state: Path) -> None:
    threads = [threading.Thread(target=send, args=([an_incident()], [receiver.webhook], state)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(receiver.received) == 1


def test_what_was_sent_when_is_kept_for_those_who_look_at_the_incident(receiver: Receiver, state: Path) -> None:
    targets = [receiver.webhook]
    receiver.answer = 500
    for minutes in (0, 1, 2):
        send([an_incident()], targets, state, now_ms=T_MS + minutes * 60_000)
    receiver.answer = 200
    send([an_incident()], targets, state, now_ms=T_MS + 180_000)
    send([an_incident(severity="critical")], targets, state, now_ms=T_MS + 240_000)
    send([an_incident(status="over")], targets, state, now_ms=T_MS + 300_000, is_all=True)
    notes = sent_about(state, an_incident().incident_id)
    assert [(n["at_ms"] - T_MS, n["what"], n["is_sent"]) for n in notes] == [
        (0, "open", False),  # and not once per try
        (180_000, "open", True),
        (240_000, "graver", True),
        (300_000, "over", True),
    ]
    assert {n["target"] for n in notes} == {masked(targets[0])}
    send([], targets, state, now_ms=T_MS, is_all=True)  # it is in no table any more
    assert sent_about(state, an_incident().incident_id) == []
