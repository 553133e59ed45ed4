"""What brokers and controllers logged, out of bronze.log_line: forged lines are not among it. It needs no Spark."""

from __future__ import annotations

from pathlib import Path

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.metadata_log import controller_lines

HEAD = "[2026-11-21 14:00:00,000] INFO "
EXPANDED = HEAD + "[Partition orders-{} broker=1] Expanding ISR from 1 to 1,2 (kafka.cluster.Partition)"
JAVA = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "


def shown_at(place: Path, texts: list[str]) -> list[int | None]:
    warehouse = Warehouse.open(place, create=True)
    where = {"cluster_id": "c", "node": "broker-1", "file_name": "server.log", "file_id": "f", "landing": "a test"}
    rows = [where | {"byte": 200 * at, "text": text} for at, text in enumerate(texts)]
    warehouse.append("bronze.log_line", rows_to_table("bronze.log_line", rows))
    lines = controller_lines(warehouse, "c", {}, warehouse.version("bronze.log_line"))
    return [line.event.partition for line in lines]


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
