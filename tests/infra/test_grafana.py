"""The dashboard names only what the exporter serves, with labels it has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from rebalance_audit.exporter import Exporter
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows

FILE = Path(__file__).parents[2] / "infra" / "grafana" / "rebalance_audit.json"
DASHBOARD: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
METRIC = re.compile(r"\b(rebalance_audit_\w+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\bby \(([^)]*)\)")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Metric -> its labels, of a warehouse with something of everything."""
    exporter = Exporter(Warehouse.open(gold_rows.write(tmp_path_factory.mktemp("gold") / "w").location))
    exporter.refresh()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(generate_latest(exporter.registry).decode()):
        found.setdefault(family.name, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]] + [
        variable["query"]["query"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query"
    ]


def test_every_metric_and_label_is_served(served: dict[str, set[str]]) -> None:
    for expression in expressions():
        named = METRIC.findall(expression)
        assert named, expression
        for metric, matchers in named:
            assert metric in served, expression
            asked = {matcher.partition("=")[0].strip("!~ ") for matcher in matchers.split(",") if matcher}
            asked |= {label.strip() for group in GROUPED.findall(expression) for label in group.split(",")}
            if served[metric]:  # of a metric without samples the labels are not seen
                assert asked <= served[metric], expression


def test_every_panel_has_a_title_a_place_and_a_number_of_its_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    places = [tuple(panel["gridPos"][side] for side in "xywh") for panel in panels]
    cells = [(x + i, y + j) for x, y, w, h in places for i in range(w) for j in range(h)]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_the_dashboard_is_of_no_one_installation() -> None:
    sources = {panel["datasource"]["uid"] for panel in DASHBOARD["panels"]}
    assert sources == {"${datasource}"}
    assert "http" not in FILE.read_text(encoding="utf-8")
