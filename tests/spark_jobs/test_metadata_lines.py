"""What brokers and controllers logged, out of bronze.log_line: forged lines are not among it. It needs no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import metadata_log
from spark_jobs.metadata_log import BronzeOfClusters, controller_lines, portions_of

HEAD = "[2026-11-21 14:00:00,000] INFO "
EXPANDED = HEAD + "[Partition orders-{} broker=1] Expanding ISR from 1 to 1,2 (kafka.cluster.Partition)"
JAVA = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "


def shown_at(place: Path, texts: list[str]) -> list[int | None]:
    warehouse = Warehouse.open(place, create=True)
    where = {"cluster_id": "c", "node": "broker-1", "file_name": "server.log", "file_id": "f", "landing": "a test"}
    rows = [where | {"byte": 200 * at, "text": text} for at, text in enumerate(texts)]
    warehouse.append("bronze.log_line", rows_to_table("bronze.log_line", rows))
    bronze = BronzeOfClusters(warehouse, ["b", "c"], {"bronze.log_line": warehouse.version("bronze.log_line") or 0})
    return [line.event.partition for line in controller_lines(bronze.lines("c"), {})]


def test_lines_behind_a_text_that_a_client_tore_are_left_out(tmp_path: Path) -> None:
    end = HEAD + "x in state PreparingRebalance with old generation 0 (reason: r).\n (a.B)"
    for number, torn in enumerate(
        (
            HEAD + "[GroupCoordinator 1]: Preparing to rebalance group evil",
            HEAD + JAVA + "Preparing to rebalance group evil (org.apache.kafka.coordinator.group.GroupMetadataManager)",
            HEAD + JAVA + "Stabilized group evil (org.apache.kafka.coordinator.group.GroupMetadataManager)",
            HEAD + "[GroupMetadataManager brokerId=1] Loading group metadata for evil",
        )
    ):
        texts = [EXPANDED.format(0), torn, EXPANDED.format(1), EXPANDED.format(2), end]
        assert shown_at(tmp_path / str(number), texts) == [0]


def test_honest_lines_of_coordinators_cost_nothing(tmp_path: Path) -> None:
    honest = HEAD + JAVA + "Stabilized group g generation 1 with 2 members. (org.apache.kafka.coordinator.group.X)"
    assert shown_at(tmp_path, [EXPANDED.format(0), honest, EXPANDED.format(1)]) == [0, 1]


@pytest.mark.parametrize("clusters_of_a_file", [1, 4])
def test_clusters_are_read_together_up_to_some_rows(
    clusters_of_a_file: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    where = {"node": "broker-1", "file_name": "server.log", "file_id": "f", "landing": "a test"}
    for at in range(0, 4, clusters_of_a_file):
        rows = [
            where | {"cluster_id": cluster_id, "byte": byte, "text": EXPANDED.format(byte)}
            for cluster_id in "abcd"[at : at + clusters_of_a_file]
            for byte in range(10)
        ]
        warehouse.append("bronze.log_line", rows_to_table("bronze.log_line", rows))
    until = {"bronze.record": -1, "bronze.log_line": warehouse.version("bronze.log_line") or 0}
    for at_once, portions in ((1_000, 1), (25, 2), (1, 4)):
        monkeypatch.setattr(metadata_log, "_ROWS_AT_ONCE", at_once)
        found = portions_of(warehouse, "dbca", until)
        assert [cluster_id for together in found for cluster_id in together] == list("abcd")
        assert len(found) == portions
        for together in found:
            bronze = BronzeOfClusters(warehouse, together, until)
            for cluster_id in together:
                assert set(bronze.lines(cluster_id)["cluster_id"].to_pylist()) == {cluster_id}
                assert len(controller_lines(bronze.lines(cluster_id), {})) == 10
    ends = BronzeOfClusters(warehouse, ["a", "d"], until)
    assert [ends.lines(cluster_id).num_rows for cluster_id in "abcd"] == [10, 0, 0, 10]
