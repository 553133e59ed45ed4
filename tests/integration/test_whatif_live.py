"""`whatif -b`: a group's history off a running broker, replayed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.test_whole_path import called

if TYPE_CHECKING:
    from infra.lab.cluster import Cluster

pytestmark = pytest.mark.broker
GROUP, TOPIC = "orders-app", "orders"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two members, of which one is closed and started again."""
    from infra.lab.cluster import Cluster
    from infra.lab.driver import Driver

    with Cluster(folder=tmp_path_factory.mktemp("replayed")) as running:
        driver = Driver(running)
        try:
            driver.topics(**{TOPIC: 4})
            driver.produce()
            driver.group(GROUP, group_type="classic", mode="eager", assignor="range")
            for name in ("c1", "c2"):
                driver.join(name, GROUP, [TOPIC], library="librdkafka")
                driver.settle(GROUP)
            driver.leave("c2")
            driver.settle(GROUP)
            driver.join("c2", GROUP, [TOPIC], library="librdkafka")
            driver.settle(GROUP)
            yield running
        finally:
            driver.end()


def test_a_running_brokers_history_is_replayed(cluster: Cluster) -> None:
    logs: Path = cluster.log_folders["broker-1"].parent
    asked = (
        "whatif",
        GROUP,
        "-b",
        cluster.bootstrap,
        "--logs",
        str(logs),
        "--set",
        "heartbeat.interval.ms=1000",
        "-o",
        "json",
    )
    answer = called(*asked)
    assert answer.returncode == 0, answer.stderr
    said = json.loads(answer.stdout)
    assert said["fit"]["rebalances"] == said["fit"]["causes"] == 1.0
    (option,) = said["options"]
    assert option["refused"] is None
    assert option["cost_seconds"] < said["fit"]["cost_seconds"]
