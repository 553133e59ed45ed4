"""Whether evidence still comes, against librdkafka's mock cluster: real sockets and protocol, no JVM."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ListOffsetsResultInfo

from ingest.broker import LiveCluster
from ingest.collect_settings import CollectSettings
from ingest.collector import collect
from ingest.errors import IngestError, Misconfigured, Retryable
from ingest.landing import Landing
from ingest.probe import SourceProbe
from rebalance_audit import cli
from rebalance_audit.commands import watch
from rebalance_audit.commands.collect import metadata_followed
from rebalance_audit.commands.watching import outages
from tests.webhook import Webhook

OFFSETS = "__consumer_offsets"


def _away(*_: object) -> None:
    raise IngestError("away")


def test_a_broker_with_nothing_new_is_idle_and_one_with_news_that_nobody_lands_is_behind(
    mock_broker: Producer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = CollectSettings(client_config={"bootstrap.servers": address}, until_end=True, connect_topics={})
    landing = Landing(tmp_path)
    name = f"the brokers at {address}"
    probe = SourceProbe(settings, landing)

    def written(value: bytes) -> None:
        mock_broker.produce(OFFSETS, key=b"k", value=value, partition=1)
        assert mock_broker.flush(10) == 0

    written(b"v0")
    assert probe.faults() == {name: "Nothing of it was landed yet."}
    collect(settings, landing)
    assert [probe.faults()[name] for _ in range(3)] == [None, None, None]
    written(b"v1")
    assert probe.faults()[name] == f"{OFFSETS}-1 holds records that are not landed."
    collect(settings, landing)
    assert probe.faults() == {name: None}
    known = probe.cluster_id
    assert known is not None
    monkeypatch.setattr(LiveCluster, "end_offsets", _away)
    assert probe.faults() == {name: "away"}
    assert probe.cluster_id == known  # what the alert about it names


def test_a_leader_that_does_not_answer_in_time_is_a_fault(
    mock_broker: Producer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As seen on a broker of 4.3.0 that was frozen: librdkafka gives the offset -1001 after the time, and no error."""
    settings = CollectSettings(client_config={"bootstrap.servers": address}, until_end=True, connect_topics={})
    mock_broker.produce(OFFSETS, key=b"k", value=b"v", partition=1)
    assert mock_broker.flush(10) == 0
    landing = Landing(tmp_path)
    collect(settings, landing)
    probe = SourceProbe(settings, landing)
    assert list(probe.faults().values()) == [None]

    def unanswered(_: object, asked: dict[TopicPartition, object], **__: object) -> dict[TopicPartition, Future[Any]]:
        answers: dict[TopicPartition, Future[Any]] = {place: Future() for place in asked}
        for answer in answers.values():
            answer.set_result(ListOffsetsResultInfo(OFFSET_INVALID, -1, -1))
        return answers

    with monkeypatch.context() as frozen:
        frozen.setattr(AdminClient, "list_offsets", unanswered)
        (fault,) = probe.faults().values()
    assert fault == (
        f"The leader of {OFFSETS}-0 (and 3 more) did not answer within 5 s; look at that broker and the network."
    )
    assert list(probe.faults().values()) == [None]


def test_what_the_settings_say_of_a_cluster_is_its_id_until_the_brokers_answer(
    mock_broker: Producer, address: str, tmp_path: Path
) -> None:
    def settings_of(address: str) -> CollectSettings:
        client = {"bootstrap.servers": address}
        return CollectSettings(client_config=client, until_end=True, connect_topics={}, cluster_id="stated")

    landing = Landing(tmp_path)
    away = SourceProbe(settings_of("127.0.0.1:1"), landing)
    away.faults()
    assert away.cluster_id == "stated"
    with pytest.raises(Misconfigured, match="not stated; check -b, --cluster-id and what the settings say of both"):
        collect(settings_of(address), landing)
    (tmp_path / "node" / "__cluster_metadata-0").mkdir(parents=True)
    with pytest.raises(Misconfigured, match="not stated; check -b"):
        metadata_followed([str(tmp_path / "node")], {"bootstrap.servers": address}, "stated")
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_broker_that_does_not_answer_and_logs_that_are_gone_are_faults(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    settings = CollectSettings(
        client_config={"bootstrap.servers": "127.0.0.1:1"}, logs=[("broker-1", str(log)), ("broker-2", str(tmp_path))]
    )
    broker, first, second = SourceProbe(settings, Landing(tmp_path / "w")).faults().values()
    assert broker is not None
    assert "127.0.0.1:1" in broker
    assert first == f"There is no file at {log} that may be read."
    assert second is None
    log.touch()
    only_logs = CollectSettings(cluster_id="c", logs=[("broker-1", str(log))])
    assert SourceProbe(only_logs, Landing(tmp_path / "w")).faults() == {"the logs of broker-1": None}


def test_watch_stays_while_brokers_are_away_and_alerts_in_the_name_that_the_settings_state(
    mock_broker: Producer,
    address: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = LiveCluster({"bootstrap.servers": address}).cluster_id
    is_away, answer, count = threading.Event(), LiveCluster._first_answer, itertools.count()

    def first_answer(cluster: LiveCluster) -> Any:
        if is_away.is_set():
            raise Retryable(f"No broker answers (after {next(count)}ms).")
        return answer(cluster)

    mock_broker.produce(OFFSETS, key=b"k", value=b"v", partition=0)
    assert mock_broker.flush(10) == 0
    (tmp_path / "node" / "__cluster_metadata-0").mkdir(parents=True)
    receiver, stopped, status = Webhook(), threading.Event(), list[int]()
    (config := tmp_path / "s.yaml").write_text(
        f"clusters: [{{name: shop, cluster_id: {known}, bootstrap_servers: '{address}'}}]\n"
        f"alerts: [{{name: hook, url: '{receiver.url}'}}]\nstopped_after: 1s\n"
    )
    monkeypatch.setattr(LiveCluster, "_first_answer", first_answer)
    monkeypatch.setattr(outages, "RETRY_S", 0.1)
    monkeypatch.setattr(watch, "until_stopped", lambda: contextlib.nullcontext(stopped))
    words = ["watch", "-w", str(tmp_path / "w"), "--config", str(config), "--metadata", str(tmp_path / "node")]
    running = threading.Thread(target=lambda: status.append(cli.run(words)))
    is_away.set()
    running.start()
    try:
        _until(lambda: receiver.alerts)
        assert running.is_alive()
        assert not list(tmp_path.glob("w/landing/record/*"))
        is_away.clear()
        _until(lambda: str(receiver.labels("incident_id")).count("stopped:") == 2)
        _until(lambda: list(tmp_path.glob("w/landing/record/*")))
    finally:
        stopped.set()
        running.join(30)
        receiver.close()
    assert status == [0]
    assert set(receiver.labels("cluster")) == {known}
    assert capfd.readouterr().err.count("(after a while). Trying again every 0 s.") == 1


def _until(holds: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)
