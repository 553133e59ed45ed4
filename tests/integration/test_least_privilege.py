"""What the README promises to whoever grants rights: DESCRIBE and READ on the topics, nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset
import pytest

from tests.integration.test_whole_path import called

if TYPE_CHECKING:
    from confluent_kafka.admin import AclBinding, AdminClient

    from infra.lab.cluster import Cluster

pytestmark = pytest.mark.broker

OFFSETS, GROUP = "__consumer_offsets", "orders-app"
SOMEONE, WE = "User:someone", "User:ANONYMOUS"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, AdminClient]]:
    """A broker whose topics and groups all belong to someone else. What has no rule is open, or it could not start."""
    from confluent_kafka import Consumer
    from confluent_kafka.admin import AdminClient, NewTopic

    from infra.lab.cluster import Cluster
    from infra.lab.shape import ClusterShape

    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
    }
    with Cluster(ClusterShape(broker_properties=rights), folder=tmp_path_factory.mktemp("guarded")) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
        consumer.subscribe(["orders"])
        while not consumer.assignment():
            consumer.poll(0.2)
        consumer.close()
        _allow(admin, _rule("TOPIC", "*", SOMEONE, "ALL"), _rule("GROUP", "*", SOMEONE, "ALL"))
        yield cluster, admin


def test_rights_that_are_missing_are_named_and_those_asked_for_suffice(
    guarded: tuple[Cluster, AdminClient], tmp_path: Path
) -> None:
    cluster, admin = guarded
    asked_for = (
        f"allow DESCRIBE and READ on it (kafka-acls.sh --add --operation Describe --operation Read --topic {OFFSETS}"
    )
    collect = ("collect", "-b", cluster.bootstrap, "--until-end", "-w")

    assert asked_for in called("doctor", "-b", cluster.bootstrap).stdout
    refused = called("explain", GROUP, "-b", cluster.bootstrap)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert asked_for in refused.stderr

    _allow(admin, _rule("TOPIC", OFFSETS, WE, "DESCRIBE"))
    refused = called(*collect, str(tmp_path / "refused"))
    assert refused.returncode == 1
    assert asked_for in refused.stderr

    # A rule about the cluster itself ends what is open; the broker's own connections bear the same name as ours.
    _allow(admin, _rule("TOPIC", OFFSETS, WE, "READ"), _rule("BROKER", "kafka-cluster", WE, "CLUSTER_ACTION"))
    explained = called("explain", GROUP, "-b", cluster.bootstrap)
    assert explained.returncode == 0, explained.stderr
    assert "orders-0" in explained.stdout
    collected = called(*collect, str(tmp_path / "warehouse"))
    assert collected.returncode == 0, collected.stderr
    landed = pyarrow.dataset.dataset(tmp_path / "warehouse/landing/record").to_table(columns=["topic"])
    assert set(landed["topic"].to_pylist()) == {OFFSETS}


def _rule(kind: str, name: str, principal: str, operation: str) -> AclBinding:
    from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

    return AclBinding(
        ResourceType[kind], name, ResourcePatternType.LITERAL, principal, "*", AclOperation[operation],
        AclPermissionType.ALLOW,
    )  # fmt: skip


def _allow(admin: AdminClient, *rules: AclBinding) -> None:
    for done in admin.create_acls(list(rules)).values():
        done.result(30)
