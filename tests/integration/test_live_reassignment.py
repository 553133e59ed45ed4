"""A reassignment of a real cluster, asked for by Kafka's own tool and followed while it happens."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ingest.landing import Landing
from ingest.metadata import METADATA_FOLDER
from ingest.metadata_tail import follow_metadata
from rebalance_audit import cli
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.stages import reassign as stage_reassign
from tests.spark_jobs.stages.test_reassign_laws import context

PLAN = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [2]}]}
Explained = Callable[..., str]


@pytest.fixture
def explained(capsys: pytest.CaptureFixture[str]) -> Explained:
    def run(*arguments: object) -> str:
        status = cli.run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert status == 0, err
        return out

    return run


@pytest.mark.broker
def test_a_move_is_followed_live_and_shown_as_the_tool_shows_it(tmp_path: Path, explained: Explained) -> None:
    from infra.lab import configs
    from infra.lab.cluster import Cluster
    from infra.lab.run_folder import SMALL_HEAP
    from infra.lab.shape import ClusterShape

    with Cluster(ClusterShape(brokers=2), folder=tmp_path / "lab") as cluster:
        plan = cluster.folder / "plan.json"
        plan.write_text(json.dumps(PLAN))

        def tool(action: str) -> str:
            main_class = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
            arguments = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", "plan.json", action)
            layout = configs.single_log_layout("tool.log")
            return cluster.run(cluster.java("tool", layout, SMALL_HEAP, main_class, *arguments))

        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", 1, replica_assignment=[[1]])])["orders"].result(30)
        folders = {node: folder / METADATA_FOLDER for node, folder in sorted(cluster.node_folders.items())}
        place, stopped = tmp_path / "w", threading.Event()
        warehouse = Warehouse.open(place, create=True)
        (cluster_id,) = {line.split("=")[1] for line in _meta(folders["broker-1"]).splitlines() if "cluster.id" in line}
        landing = Landing(place)
        follow = threading.Thread(
            target=follow_metadata,
            args=(folders, landing, cluster_id),
            kwargs={"stop": stopped.is_set, "flush_ms": 200},
        )
        follow.start()
        try:
            asked = ["explain", "--plan", plan, "-b", cluster.bootstrap, "-q"]
            assert explained(*asked).splitlines()[:2] == [
                "1 never asked for: orders-0",
                "orders-0 → [2]: never asked for. Its replicas are [1].",
            ]
            tool("--execute")
            _wait(lambda: "1 done: orders-0" in explained(*asked))
            assert "Reassignment of partition orders-0 is completed." in tool("--verify")
            assert "orders-0  replicas [2]  leader 2, all in sync" in explained(
                "explain", "--reassignment", "orders", "-b", cluster.bootstrap
            )
            with_log = [*asked, "--metadata", folders["broker-1"].parent, "-o", "json"]
            (line,) = json.loads(explained(*with_log))["partitions"]
            assert (line["status"], line["reassignment_id"].partition("@")[0]) == ("done", "orders-0")
            time.sleep(1)
        finally:
            stopped.set()
            follow.join()
        _take_in(warehouse)
        stage_reassign.run(context(warehouse))
        (row,) = warehouse.read("silver.reassignment").to_pylist()
        assert (row["outcome"], row["original_replicas"], row["target_replicas"]) == ("completed", [1], [2])
        assert row["started_at_ms"] <= row["ended_at_ms"]
        assert row["reassignment_id"] == line["reassignment_id"]
        assert all(ref.startswith("metadata:broker-1@") for ref in row["evidence"])  # of two copies the least node's


def _meta(metadata_folder: Path) -> str:
    return (metadata_folder.parent / "meta.properties").read_text()


def _wait(is_so: Callable[[], bool], timeout_s: float = 60) -> None:
    until = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.5)


def _take_in(warehouse: Warehouse) -> None:
    """What stage_bronze does, for rows of two nodes that never repeat; its own tests show the rest."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    landed = pa.concat_tables([pq.read_table(file) for file in warehouse.landed("record")])
    nodes = sorted(set(landed["node"].to_pylist()))
    copy = landed.schema.get_field_index("copy")
    copies = pa.array([nodes.index(node) for node in landed["node"].to_pylist()], landed.schema.field(copy).type)
    warehouse.append("bronze.record", landed.set_column(copy, "copy", copies))
