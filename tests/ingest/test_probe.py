"""Whether evidence still comes, against librdkafka's mock cluster: real sockets and protocol, no JVM."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer

from ingest.broker import LiveCluster
from ingest.collector import CollectSettings, collect
from ingest.errors import IngestError, Misconfigured
from ingest.landing import Landing
from ingest.probe import SourceProbe
from rebalance_audit.commands.collect import metadata_followed

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
