"""The lab: what it renders, and that every golden capture says where it came from."""

from __future__ import annotations

import gzip
import json
import os
import random
import socket
import subprocess
import sys
import uuid
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from infra.lab import cluster, configs, jars
from infra.lab.__main__ import _parser
from infra.lab.capture import without_machine_names
from infra.lab.clients import Event, holdings, read_events
from infra.lab.configs import BrokerPlace
from infra.lab.generations import generations_assigned, generations_joined, unexpected_generations
from infra.lab.librdkafka_consumer import read_properties
from infra.lab.notebook import DO_NOT_ALWAYS_REPORT
from infra.lab.processes import LabError, free_ports
from infra.lab.scenarios.scenario import SCENARIOS, capture
from tests.truth import written_events

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests/golden"
CAPTURES = sorted(origin.parent for origin in GOLDEN.glob("*/*/origin.json"))


def a_place(**changes: int | str | None) -> BrokerPlace:
    facts: dict[str, Any] = {"node_id": 1, "broker_port": 9092, "controller_port": 9093, "log_dir": "data/broker-1"}
    return BrokerPlace(**facts | changes)


# Processes

_IDLE = """
import sys, time
from pathlib import Path
from infra.lab.cluster import Cluster
from infra.lab.processes import Process

class Idle(Cluster):
    def start(self):
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        node = Process("broker-1", command, folder=folder, output=folder / "said")
        self._nodes["broker-1"] = node
        node.start()

folder = Path(sys.argv[1])
with Idle(folder=folder) as cluster:
    print(cluster.pids()["broker-1"], flush=True)
    time.sleep(600)
"""


def test_no_node_outlives_a_program_that_is_terminated(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _IDLE, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        assert program.stdout is not None
        node = int(program.stdout.readline())
        program.terminate()
        program.wait(60)
    with pytest.raises(ProcessLookupError):
        os.kill(node, 0)


# Settings


def test_a_cluster_id_never_begins_with_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [uuid.UUID(bytes=bytes([first]) + bytes(15)) for first in (0xF8, 0xFB, 0xFC)]
    monkeypatch.setattr(uuid, "uuid4", lambda: drawn.pop(0))
    assert cluster.new_cluster_id() == "_" + "A" * 21


def test_a_combined_node_advertises_only_the_broker_listener() -> None:
    settings = configs.kraft_settings(a_place(), [(1, 9093)])
    assert settings["process.roles"] == "broker,controller"
    assert settings["listeners"] == "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093"
    assert settings["advertised.listeners"] == "PLAINTEXT://localhost:9092"
    assert settings["controller.quorum.voters"] == "1@localhost:9093"


def test_a_controller_apart_has_no_broker_listener() -> None:
    settings = configs.kraft_settings(a_place(node_id=100, broker_port=None), [(100, 9093)])
    assert settings["process.roles"] == "controller"
    assert "advertised.listeners" not in settings


def test_a_scenario_may_override_every_broker_setting() -> None:
    settings = configs.broker_settings("4.3.0", a_place(), replicas=1, extra={"offsets.topic.num.partitions": 50})
    assert settings["offsets.topic.num.partitions"] == 50


def test_properties_survive_the_round_trip_to_a_client() -> None:
    settings = {"client.id": "c1", "topics.pattern": r"orders\.\d+"}
    assert read_properties(configs.render_properties(settings)) == settings


@pytest.mark.parametrize("version", ["2.7.2", "3.9.1"])
def test_old_brokers_log_as_log4j_1_properties(version: str) -> None:
    suffix, text = configs.logging_config(version, configs.broker_log_layout(version), "logs/broker-1")
    assert suffix == ".properties"
    assert "log4j.appender.serverAppender.layout.ConversionPattern=[%d] %p %m (%c)%n\n" in text
    assert "log4j.logger.kafka.controller=TRACE, controllerAppender\n" in text
    # KRaft's controller got its own place in controller.log with 3.4.
    assert ("log4j.logger.org.apache.kafka.controller=INFO" in text) == (version == "3.9.1")


def test_new_brokers_log_as_log4j_2_xml() -> None:
    suffix, text = configs.logging_config("4.3.0", configs.broker_log_layout("4.3.0"), "logs/broker-1")
    root = ElementTree.fromstring(text)
    assert suffix == ".xml"
    assert [file.attrib["fileName"] for file in root.iter("RollingFile")][:3] == [
        "logs/broker-1/server.log",
        "logs/broker-1/controller.log",
        "logs/broker-1/state-change.log",
    ]
    assert {pattern.text for pattern in root.iter("Pattern")} == {"[%d] %p %m (%c)%n"}


@pytest.mark.parametrize(
    ("version", "pattern"),
    [
        ("2.7.2", "[%d] %p %m (%c:%L)%n"),
        ("3.9.1", "[%d] %p %X{connector.context}%m (%c:%L)%n"),
        ("4.3.0", "[%d] %p %X{connector.context}%m (%c:%L)%n"),
    ],
)
def test_connect_logs_the_connector_context_since_3_0(version: str, pattern: str) -> None:
    assert configs.connect_log_layout(version).pattern == pattern


def test_versions_are_ordered_by_number_and_not_by_letter() -> None:
    assert jars.versions() == sorted(jars.versions(), key=configs.version_key, reverse=True)
    assert configs.version_key("3.10.0") > configs.version_key("3.9.1")


# Ports


def test_free_ports_differ_and_can_be_bound() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_a_port_in_use_is_not_chosen() -> None:
    (taken,) = free_ports(1, choose=random.Random(7))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", taken))
        assert free_ports(1, choose=random.Random(7)) != [taken]


# Truth


def test_holdings_follow_gains_losses_and_deaths() -> None:
    events: list[Event] = [
        {"client": "c1", "event": "assigned_end", "partitions": ["orders-0", "orders-1"]},
        {"client": "c2", "event": "assigned_end", "partitions": ["orders-2"]},
        {"client": "c1", "event": "revoked_end", "partitions": ["orders-1"]},
        {"client": "worker-1", "event": "task_start_end", "tasks": ["alpha-0"]},
        {"client": "c2", "event": "killed"},
    ]
    assert holdings(events) == {"c1": {"orders-0"}, "worker-1": {"alpha-0"}}


def test_a_half_written_truth_line_is_left_for_the_next_look(tmp_path: Path) -> None:
    (tmp_path / "c1.jsonl").write_text('{"at_ms": 1, "client": "c1", "event": "started"}\n{"at_ms": 2, "cl')
    assert [event["event"] for event in read_events(tmp_path)] == ["started"]


def test_a_capture_that_went_otherwise_is_refused() -> None:
    story = {"rebalances": [{"number": 1, "outcome": "completed", "members": ["c1", "c2"]}]}
    assert unexpected_generations({1: {"c1"}}, story) == []
    assert len(unexpected_generations({1: {"c1"}, 2: {"c1"}}, story)) == 1
    assert len(unexpected_generations({1: {"c1", "c3"}}, story)) == 1
    assert len(unexpected_generations({}, story)) == 1


def test_generations_are_read_from_callbacks_and_from_workers_logs() -> None:
    seen: Event = {"client": "c1", "group": "g", "event": "assigned_end", "generation": 3}
    assert generations_assigned([seen, seen | {"group": "other"}], "g") == {3: {"c1"}}
    line = "[2026-11-21 16:19:46,008] INFO [Worker clientId=connect-1, groupId=g] Joined group at generation 4 with …\n"
    assert generations_joined({"worker-1": line, "worker-2": ""}) == {4: {"worker-1"}}


def test_machine_names_are_replaced_as_whole_words_only() -> None:
    names = {"/srv/lab/run-1": "/lab", "vm": "lab-host"}
    assert without_machine_names(b"jvm on vm in /srv/lab/run-1/data", names) == b"jvm on lab-host in /lab/data"


def test_every_scenario_says_what_it_is() -> None:
    assert all(len(scenario.description) > 40 for scenario in SCENARIOS.values())


def test_an_unknown_scenario_and_a_too_old_kafka_are_one_clear_sentence(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="There is no scenario nonsense"):
        capture("nonsense", version="4.3.0", output=tmp_path, command="", say=print)
    with pytest.raises(LabError, match="needs Kafka"):
        capture("kip848_join_leave", version="2.7.2", output=tmp_path, command="", say=print)


# Golden captures


@pytest.mark.parametrize("verb", ["list", "capture", "up"])
def test_the_help_of_every_verb_ends_with_examples_that_can_be_typed(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _parser("lab").parse_args([verb, "--help"])
    said, _, examples = capsys.readouterr().out.partition("\nExamples:\n")
    assert said.startswith(f"Usage: lab {verb} ")
    assert "\nOptions:\n" in said
    typed = [line.split() for line in examples.splitlines()]
    assert typed
    for program, *words in typed:
        assert program == "lab"
        assert _parser("lab").parse_args(words).verb == verb


def test_no_golden_folder_is_without_its_origin() -> None:
    with_data = {meta.parent for meta in GOLDEN.glob("*/*/meta.json")} | {
        data.parent for data in GOLDEN.glob("*/*/data")
    }
    assert with_data == set(CAPTURES)


@pytest.mark.parametrize("folder", CAPTURES, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
class TestGoldenCapture:
    def test_its_origin_shows_how_to_make_it_again(self, folder: Path) -> None:
        origin = json.loads((folder / "origin.json").read_text())
        assert origin["kafka_version"] == folder.parent.name
        assert f"capture {folder.name} " in origin["command"] + " "
        assert origin.keys() >= {"clients", "captured_on", "java_version", "changed"}

    def test_its_files_are_not_empty_and_packed_without_a_time(self, folder: Path) -> None:
        packed = sorted(folder.rglob("*.gz"))
        assert packed
        for file in packed:
            assert file.read_bytes()[4:8] == b"\0\0\0\0", f"{file} carries a time stamp"
            assert gzip.decompress(file.read_bytes())

    def test_its_clients_saw_what_the_scenario_expects(self, folder: Path) -> None:
        events = written_events(folder)
        assert events == sorted(events, key=lambda event: event["at_ms"])
        logs = {
            log.parent.name: gzip.decompress(log.read_bytes()).decode() for log in folder.glob("logs/*/connect.log.gz")
        }
        scenario = json.loads((folder / "truth/scenario.json").read_text())
        silent = {c["client"] for c in scenario["clients"] if c["library"] in DO_NOT_ALWAYS_REPORT}
        for group, story in scenario["groups"].items():
            assert story["rebalances"]
            if story["group_type"] == "classic":
                is_connect = story["protocol_type"] == "connect"
                seen = generations_joined(logs, group) if is_connect else generations_assigned(events, group)
                assert unexpected_generations(seen, story, silent) == []


# A real broker


@pytest.mark.broker
def test_a_lab_of_one_broker_starts_answers_and_stops(tmp_path: Path) -> None:
    with cluster.Cluster(folder=tmp_path) as lab:
        pids = lab.pids()
        assert list(pids) == ["broker-1"]
        assert (lab.node_folders["broker-1"] / "__cluster_metadata-0").is_dir()
        assert "Kafka Server started" in (lab.log_folders["broker-1"] / "server.log").read_text()
    assert lab.pids() == {}
