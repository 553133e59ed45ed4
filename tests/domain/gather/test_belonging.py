"""Evidence that names no group finds its group, or none."""

from __future__ import annotations

from collections import Counter

import pytest

from rebalance_audit.domain.decode import decode_source
from rebalance_audit.domain.gather.belonging import (
    ClusterFacts,
    connect_topics,
    groups_by_route,
    routes_of,
    worker_id_of_url,
)
from rebalance_audit.domain.model import GroupRecord, SourceRecord
from tests.encoders import (
    classic_member,
    connect_assignment,
    connect_worker_state,
    group_metadata_key,
    group_metadata_value,
)


def test_a_connect_group_record_shows_its_workers_and_connectors() -> None:
    member = classic_member(
        "m1", subscription=connect_worker_state("http://host-1:8083/", 5),
        assignment=connect_assignment({"sink": [-1, 0]}, leader="m1"),
    )  # fmt: skip
    value = group_metadata_value(1, [member], protocol_type="connect", protocol="sessioned", leader="m1")
    decoded = decode_source(
        SourceRecord(
            cluster_id="c",
            topic="__consumer_offsets",
            partition=3,
            offset=1,
            timestamp_ms=1,
            key=group_metadata_key("connect-a"),
            value=value,
        )
    )
    assert isinstance(decoded, GroupRecord)
    facts = ClusterFacts()
    facts.add(decoded)
    assert dict(facts.worker_ids) == {"host-1:8083": {"connect-a"}}
    assert dict(facts.connectors) == {"sink": {"connect-a"}}
    assert groups_by_route(facts) == {"coordinator:3": {"connect-a"}, "member:m1": {"connect-a"}}


def two_groups() -> ClusterFacts:
    facts = ClusterFacts()
    facts.worker_ids["a:1"].add("group-a")
    facts.worker_ids["b:1"].add("group-b")
    facts.connectors["sink"].add("group-a")
    facts.connectors["source"].add("group-b")
    return facts


def test_a_status_topic_goes_to_the_group_of_most_of_its_workers() -> None:
    facts = two_groups()
    facts.topic_worker_ids["s"] = Counter({"a:1": 5, "b:1": 1})
    assert connect_topics(facts) == {"s": "group-a"}


def test_a_config_topic_goes_to_the_group_that_ran_its_connectors() -> None:
    facts = two_groups()
    facts.topic_connectors["config"] |= {"source", "unknown"}
    assert connect_topics(facts) == {"config": "group-b"}


def test_a_tie_is_nobodys() -> None:
    facts = two_groups()
    facts.topic_connectors["config"] |= {"source", "sink"}
    assert connect_topics(facts) == {}


def test_the_only_connect_group_gets_what_nothing_ties_to_another() -> None:
    facts = ClusterFacts()
    facts.worker_ids["a:1"].add("group-a")
    facts.topic_connectors["config"].add("never ran")
    assert connect_topics(facts) == {"config": "group-a"}


@pytest.mark.parametrize(
    ("source_kind", "kind", "fields", "routes"),
    [
        ("status", "task", {}, ["topic:t"]),
        ("config", "connector", {}, ["topic:t"]),
        ("log", "worker_task_started", {"connector": "x"}, ["node:n"]),
        ("log", "coordinator_elected", {"offsets_partition": 4}, ["coordinator:4"]),
        ("log", "member_fenced", {"member_id": "m", "expected_member_id": "k"}, ["member:m", "member:k"]),
        ("log", "groups_deleted", {}, []),
    ],
)
def test_where_an_event_without_a_group_belongs(
    source_kind: str, kind: str, fields: dict[str, object], routes: list[str]
) -> None:
    assert routes_of(source_kind, kind, "t", "n", fields) == routes


def test_a_workers_url_and_its_id_in_status_records_meet() -> None:
    assert worker_id_of_url("https://host:8083/") == "host:8083"
