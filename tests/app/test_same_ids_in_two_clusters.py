"""Two clusters may use the same ids: `orders-0@86` is a move of a partition in each. No answer about one holds the
other's rows."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from app.answers.rows import FindingFilter
from app.queries import Questions
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER

NOT_OF_A_CLUSTER = {"findings"}
"""Filters by several things; asked below."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Questions:
    return opened(gold_rows.write(tmp_path_factory.mktemp("alone") / "w", many=3))


@pytest.fixture(scope="module")
def beside_its_twin(tmp_path_factory: pytest.TempPathFactory) -> Questions:
    """Each row a second time, in another cluster, under the same ids."""
    warehouse = gold_rows.write(tmp_path_factory.mktemp("twins") / "w", many=3)
    for name, table in tables.BY_NAME.items():
        rows = warehouse.read(name)
        if rows.num_rows and "cluster_id" in rows.column_names:
            place = rows.column_names.index("cluster_id")
            twin = rows.set_column(place, rows.field(place), [[f"{c}-twin" for c in rows["cluster_id"].to_pylist()]])
            warehouse.append(name, twin.select([column.name for column in table.columns]))
    gold_rows.publish(warehouse)
    return opened(warehouse)


def opened(warehouse: Warehouse) -> Questions:
    reader = Questions.open(Path(warehouse.location))
    reader.refresh()
    return reader


def asked(reader: Questions) -> list[tuple[str, dict[str, Any]]]:
    """Every question about one cluster that the reader answers, about all that it has of this cluster."""
    span = reader.span(CLUSTER)
    assert span is not None
    rebalances = reader.rows("SELECT rebalance_id, group_id FROM gold.rebalance WHERE cluster_id = ?", (CLUSTER,))
    moves = reader.rows("SELECT * FROM gold.reassignment WHERE cluster_id = ?", (CLUSTER,))
    found = reader.rows("SELECT finding_id, evidence FROM gold.finding WHERE cluster_id = ?", (CLUSTER,))
    troubles = reader.rows("SELECT incident_id FROM gold.incident WHERE cluster_id = ?", (CLUSTER,))
    names = sorted({f"{m['topic']}-{m['partition']}" for m in moves})
    known: dict[str, list[Any]] = {
        "cluster_id": [CLUSTER],
        "span": [span],
        "group_id": sorted({r["group_id"] for r in rebalances})[:2],
        "group_ids": [sorted({r["group_id"] for r in rebalances})],
        "rebalance_id": [r["rebalance_id"] for r in rebalances][:2],
        "finding_ids": [[f["finding_id"] for f in found]],
        "finding_id": [f["finding_id"] for f in found][:2],
        "incident_id": [i["incident_id"] for i in troubles][:3],
        "incident_or_rebalance_id": [i["incident_id"] for i in troubles][:1],
        "ids": [[m["reassignment_id"] for m in moves]],
        "topic": sorted({m["topic"] for m in moves}),
        "partition": sorted({m["partition"] for m in moves}),
        "partitions": [names],
        "name": names,
        "refs": [sorted({ref for row in found for ref in row["evidence"]})],
        "ref": sorted({ref for row in (*moves, *found) for ref in row["evidence"]})[:2],
    }
    questions: list[tuple[str, dict[str, Any]]] = []
    for name, method in inspect.getmembers(Questions, inspect.isfunction):
        needed = [p.name for p in inspect.signature(method).parameters.values() if p.name != "self"]
        if name.startswith("_") or "cluster_id" not in needed or name in NOT_OF_A_CLUSTER:
            continue
        several: list[dict[str, Any]] = [{}]
        for each in needed:
            if each in known:
                several = [so_far | {each: value} for so_far in several for value in known[each]]
        questions += [(name, arguments) for arguments in several]
    return questions


def plain(answer: Any) -> Any:
    return answer.to_dict("records") if isinstance(answer, pd.DataFrame) else answer


def test_no_answer_about_a_cluster_holds_rows_of_another_with_the_same_ids(
    alone: Questions, beside_its_twin: Questions
) -> None:
    questions = asked(alone)
    assert len({name for name, _ in questions}) >= 20
    for name, arguments in questions:
        one, other = (plain(getattr(reader, name)(**arguments)) for reader in (alone, beside_its_twin))
        assert repr(one) == repr(other), f"{name}({arguments})"


def test_findings_of_a_cluster_are_its_own(alone: Questions, beside_its_twin: Questions) -> None:
    assert alone.findings(FindingFilter(cluster_id=CLUSTER)) == beside_its_twin.findings(
        FindingFilter(cluster_id=CLUSTER)
    )
    assert len(beside_its_twin.findings(FindingFilter())) == 2 * len(alone.findings(FindingFilter()))
