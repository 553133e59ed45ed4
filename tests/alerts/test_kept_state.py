"""What was sent is known to the process that sent it, also while the warehouse cannot be written."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ingest.collect_settings import CollectSettings
from rebalance_audit.alerts import state as states
from rebalance_audit.alerts.state import KeptState, read_state, state_of
from rebalance_audit.commands.watching.sources import SourceWatch
from tests import object_store as faults
from tests.alerts.incidents import an_incident, send
from tests.object_store import ObjectStore
from tests.webhook import Webhook


@pytest.fixture
def receiver() -> Any:
    made = Webhook()
    yield made
    made.close()


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_message_goes_out_once_while_the_disk_is_full_and_is_written_down_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Webhook
) -> None:
    place = tmp_path / "alerts.json"
    kept = KeptState(place)
    send([], [receiver.url], kept)
    before = place.read_text()
    with monkeypatch.context() as at_that_time:
        at_that_time.setattr(os, "replace", full)
        for _ in range(3):
            assert send([an_incident()], [receiver.url], kept).failures == ()
    assert (len(receiver.alerts), place.read_text()) == (1, before)
    send([an_incident(status="over")], [receiver.url], kept)
    assert len(receiver.alerts) == 2
    assert read_state(place) == read_state(kept)
    assert send([an_incident(status="over")], [receiver.url], place).delivered_count == 0


def test_what_others_wrote_meanwhile_stays(tmp_path: Path) -> None:
    place = tmp_path / "alerts.json"
    ours, theirs, gone = ({"status": "open", "severity": "warning", "subject": name} for name in ("o", "t", "g"))
    place.write_text(json.dumps({"version": 2, "delivered": {"x": {"gone": gone, "kept": theirs}}}))
    kept = KeptState(place)
    known = read_state(kept)
    known["delivered"]["x"]["new"] = ours
    kept.now = known  # sent while nothing could be written
    place.write_text(json.dumps({"version": 2, "delivered": {"x": {"kept": theirs, "late": theirs}, "y": {}}}))
    assert read_state(kept)["delivered"] == {"x": {"kept": theirs, "late": theirs, "new": ours}, "y": {}}


def test_the_watchdog_barks_when_the_store_itself_is_away(
    object_store: ObjectStore, store_url: str, tmp_path: Path, asks_twice: None, receiver: Webhook
) -> None:
    log = tmp_path / "server.log"
    settings = CollectSettings(cluster_id="c", logs=[("broker-1", str(log))])
    states.write_state(state_of(store_url, "watchdog"), {"version": 2, "delivered": {}})
    stopped = threading.Event()
    watching = SourceWatch(settings, store_url, stopped, [receiver.url], 150)
    log.touch()
    watching.start()
    try:
        until(lambda: bool(read_state(state_of(store_url, "watchdog"))["delivered"]))
        object_store.fault = faults.expired()
        log.unlink()
        until(lambda: len(receiver.alerts) == 1)
        time.sleep(0.3)
        object_store.fault = None
        log.touch()
        until(lambda: len(receiver.alerts) == 2)
        time.sleep(0.3)
    finally:
        stopped.set()
        watching.join(10)
        object_store.fault = None
    assert receiver.labels("subject") == ["the logs of broker-1"] * 2
    (entry,) = read_state(state_of(store_url, "watchdog"))["delivered"].values()
    assert {each["status"] for each in entry.values()} == {"over"}


def until(holds: Any, within_s: float = 20) -> None:
    give_up_at = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)
