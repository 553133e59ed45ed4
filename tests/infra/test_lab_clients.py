"""The lab's consumers of other libraries: what is pinned, how they start, and what the driver makes of their words."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from infra.lab import jars, programs
from infra.lab.clients import Event, plain_settings
from infra.lab.generations import generations_assigned
from infra.lab.processes import LabError
from infra.lab.scenarios.scenario import SCENARIOS

LAB = Path(programs.__file__).parent


def test_every_library_is_pinned_to_one_version() -> None:
    pinned = programs.versions()
    assert pinned.keys() == set(programs.LIBRARIES)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in pinned.values()), pinned


def test_every_library_has_its_program() -> None:
    for package in programs.GO_LIBRARIES.values():
        assert (LAB / "go" / package / "main.go").exists()
    for program in (*(f"python/{name}" for name in programs.PYTHON_LIBRARIES.values()), "node/kafkajs_consumer.js"):
        assert (LAB / program).exists()


def test_the_lock_of_nodes_packages_names_versions_and_sums_but_no_address() -> None:
    packages = json.loads((LAB / "node/package-lock.json").read_text())["packages"]
    assert packages["node_modules/kafkajs"]["version"] == programs.versions()["kafkajs"]
    assert "integrity" in packages["node_modules/kafkajs"]
    assert not any("resolved" in package for package in packages.values())


def test_an_unknown_library_is_one_clear_sentence() -> None:
    with pytest.raises(LabError, match=r"no lab consumer for rust-rdkafka; there is one for franz-go,"):
        programs.command("rust-rdkafka")


def test_every_library_has_a_scenario_in_which_it_is_killed_and_one_in_which_all_is_silent() -> None:
    for library in programs.LIBRARIES:
        name = library.replace("-", "_")
        assert {f"{name}_join_leave_kill", f"{name}_silent_close"} <= SCENARIOS.keys()


def test_a_kafkajs_member_is_seen_in_the_generation_of_its_first_heartbeat() -> None:
    joined: Event = {"client": "k1", "group": "g", "event": "assigned_end", "partitions": ["orders-0"]}
    heartbeat: Event = {"client": "k1", "group": "g", "event": "in_generation", "generation": 2}
    assert generations_assigned([joined], "g") == {}
    assert generations_assigned([joined, heartbeat], "g") == {2: {"k1"}}


def test_other_libraries_call_assignors_by_their_plain_names() -> None:
    settings = plain_settings("range", rebalance_timeout_ms=8000)
    assert settings["partition.assignment.strategy"] == "range"
    assert settings["rebalance.timeout.ms"] == 8000


@pytest.mark.parametrize(("version", "clients"), [("2.3.1", "2.8.2"), ("2.4.1", "2.8.2"), ("2.7.2", "2.7.2")])
def test_brokers_before_2_5_have_java_clients_of_2_8(version: str, clients: str) -> None:
    assert jars.clients_version(version) == clients
    assert clients in jars.versions()
