"""An alert when evidence of a source stops, and one when it is back: worked by hand, then sent."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from ingest.collect_settings import CollectSettings
from rebalance_audit.alerts.watchdog import Watchdog
from rebalance_audit.commands.watching.sources import SourceWatch
from tests.alerts.incidents import send
from tests.webhook import Webhook

MINUTE_MS = 60_000


def test_a_source_is_stopped_after_the_limit_and_over_at_its_first_sign() -> None:
    watchdog = Watchdog(5 * MINUTE_MS, 0)
    said = []
    for minute, fault in enumerate([None, None, "away", "away", "away", "away", "away", "away", None, "away"]):
        stand, collector = watchdog.look("c", {"the brokers": fault}, minute * MINUTE_MS)
        assert collector.status == "over"
        said.append((stand.status, stand.first_at_ms // MINUTE_MS))
    # Good at minute 1; five minutes later it is stopped, since minute 1; back at minute 8.
    assert [status for status, _ in said] == [*["over"] * 6, "open", "open", "over", "over"]
    assert said[6] == ("open", 1)
    assert said[8] == ("over", 1)


def test_a_source_that_never_gave_a_sign_is_counted_from_the_beginning() -> None:
    watchdog = Watchdog(MINUTE_MS, 10 * MINUTE_MS)
    assert watchdog.look("c", {"a": "away", "b": None}, 10 * MINUTE_MS)[0].status == "over"
    stopped, fine, _ = watchdog.look("c", {"a": "away", "b": None}, 11 * MINUTE_MS)
    assert (stopped.status, fine.status) == ("open", "over")
    assert stopped.story == "For 1 min nothing came from a. away"


def test_what_holds_up_every_source_is_one_alert_about_the_collector(tmp_path: Path) -> None:
    """A full disk beside a log folder that was away before: two troubles, whatever the number of sources."""
    watchdog, receiver = Watchdog(2 * MINUTE_MS, 0), Webhook()
    full = "The disk: No space left on device."
    looks: list[tuple[str | None, str | None]] = [
        (None, None), ("away", None), ("away", None), ("away", None), ("away", full), ("away", full), ("away", full),
        (None, full), (None, None), (None, None),
    ]  # fmt: skip
    try:
        for minute, (of_logs, held_up) in enumerate(looks):
            faults = {"the brokers": held_up and "not landed", "the logs of b1": None, "the logs of b2": of_logs}
            stands = watchdog.look("c", faults, minute * MINUTE_MS, held_up)
            assert send(stands, [receiver.url], tmp_path / "state.json", is_live=True).failures == ()
    finally:
        receiver.close()
    said = [(labels, " ".join(alert["annotations"]["description"].splitlines()[1:3]))
            for labels, alert in zip(receiver.labels("subject"), receiver.alerts, strict=True)]  # fmt: skip
    assert [(subject, text.partition(" ")[0].rstrip(":")) for subject, text in said] == [
        ("the logs of b2", "since"), ("the collector", "since"), ("the logs of b2", "over"), ("the collector", "over"),
    ]  # fmt: skip
    assert said[1][1].endswith(f"For 2 min nothing came from the collector. {full}")
    assert not any("Evidence:" in alert["annotations"]["description"] for alert in receiver.alerts)  # there is none


def test_a_source_that_has_its_fault_after_the_collector_is_back_is_counted_from_then() -> None:
    watchdog = Watchdog(2 * MINUTE_MS, 0)
    looks = [(None, None), (None, "full"), ("behind", "full"), ("behind", "full"), ("behind", None), ("behind", None)]
    stands = [watchdog.look("c", {"a": f}, n * MINUTE_MS, held_up) for n, (f, held_up) in enumerate(looks)]
    assert [(a.status, collector.status) for a, collector in stands] == [
        ("over", "over"), ("over", "over"), ("over", "open"), ("over", "open"), ("over", "over"), ("open", "over"),
    ]  # fmt: skip


def test_each_end_is_sent_once_and_a_second_stop_again(tmp_path: Path) -> None:
    watchdog, receiver = Watchdog(MINUTE_MS, 0), Webhook()
    try:
        for minute, fault in enumerate([None, None, "away", "away", "away", None, None, "away", "away", None]):
            stands = watchdog.look("c", {"the brokers": fault}, minute * MINUTE_MS)
            assert send(stands, [receiver.url], tmp_path / "state.json", is_live=True).failures == ()
    finally:
        receiver.close()
    assert [alert["annotations"]["description"].split(":")[0].splitlines()[1][:5] for alert in receiver.alerts] == [
        "since", "over", "since", "over",
    ]  # fmt: skip
    assert receiver.labels("subject") == ["the brokers"] * 4
    assert receiver.alerts[0]["annotations"]["summary"] == "No evidence comes from the brokers"


def test_an_alert_ends_under_the_cluster_that_it_began_with() -> None:
    """A broker that is away from the start is known by no id until it answers."""
    watchdog = Watchdog(MINUTE_MS, 0)
    looks = [("unknown", "away"), ("c", None), ("c", None), ("c", "away"), ("c", "away"), ("c", None)]
    stands = [watchdog.look(c, {"the brokers": f}, (n + 1) * MINUTE_MS)[0] for n, (c, f) in enumerate(looks)]
    assert [(stand.cluster_id, stand.status) for stand in stands] == [
        ("unknown", "open"), ("unknown", "over"), ("unknown", "over"), ("c", "open"), ("c", "open"), ("c", "over"),
    ]  # fmt: skip


def test_watch_alerts_when_logs_are_gone_and_when_they_are_back(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.touch()
    receiver, stopped = Webhook(), threading.Event()
    settings = CollectSettings(cluster_id="c", logs=[("broker-1", str(log))])
    watching = SourceWatch(settings, str(tmp_path / "w"), stopped, [receiver.url], 300)
    watching.start()
    try:
        time.sleep(1)
        assert receiver.alerts == []
        log.rename(tmp_path / "away")
        _until(lambda: len(receiver.alerts) == 1)
        (tmp_path / "away").rename(log)
        _until(lambda: len(receiver.alerts) == 2)
        time.sleep(1)
    finally:
        stopped.set()
        watching.join(10)
        receiver.close()
    assert receiver.labels("incident_id")[0].startswith("stopped:")
    assert len(receiver.alerts) == 2


def _until(holds: object) -> None:
    give_up_at = time.monotonic() + 30
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
