"""Incidents and marks as annotations of Grafana.

Grafana itself is in no registry that tests may use: what answers here is a stand-in with the three calls of its
documented Annotations HTTP API (POST, PATCH and GET with tags), and the token's check.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from rebalance_audit.alerts.annotations import annotate
from rebalance_audit.alerts.target import AlertError
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.webhook import Quiet, listening

TOKEN = "glsa_right"


@dataclass(slots=True)
class StandIn:
    url: str = ""
    annotations: dict[int, dict[str, Any]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    loses_answers: bool = False
    """It takes what is posted, and the answer does not arrive."""


@pytest.fixture
def grafana() -> Iterator[StandIn]:
    found = StandIn()

    class Handler(Quiet):
        def do_GET(self) -> None:
            wanted = set(parse_qs(urlsplit(self.path).query).get("tags", ()))
            self._answer([{"id": n, **a} for n, a in found.annotations.items() if wanted <= set(a["tags"])])

        def do_POST(self) -> None:
            number = len(found.annotations) + 1
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self._is_let_in():
                found.annotations[number] = content
                self._answer({"message": "Annotation added", "id": number}, status=502 if found.loses_answers else 200)

        def do_PATCH(self) -> None:
            content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self._is_let_in():
                found.annotations[int(self.path.rpartition("/")[2])].update(content)
                self._answer({"message": "Annotation patched"})

        def _is_let_in(self) -> bool:
            if self.headers.get("Authorization") == f"Bearer {TOKEN}":
                return True
            self._answer({"message": "Invalid API key"}, status=401)
            return False

        def _answer(self, content: Any, status: int = 200) -> None:
            found.calls.append(self.command)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

    with listening(Handler) as found.url:
        yield found


def test_incidents_and_marks_are_drawn_once(grafana: StandIn, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    incidents = warehouse.query("SELECT incident_id, first_at_ms, last_at_ms FROM gold.incident WHERE NOT expected")
    marks = warehouse.query("SELECT mark_id, at_ms FROM gold.mark").to_pylist()
    assert annotate(warehouse, grafana.url, TOKEN) == incidents.num_rows + len(marks)
    by_tag = {tag: a for a in grafana.annotations.values() for tag in a["tags"]}
    for row in incidents.to_pylist():
        drawn = by_tag[row["incident_id"]]
        assert (drawn["time"], drawn["timeEnd"]) == (row["first_at_ms"], row["last_at_ms"])
    for row in marks:
        drawn = by_tag[row["mark_id"]]
        assert drawn["time"] == row["at_ms"]
        assert "timeEnd" not in drawn
        assert "rebalance-audit" in drawn["tags"]
    assert not [a["text"] for a in grafana.annotations.values() if "<script" in a["text"]]
    before = len(grafana.calls)
    assert annotate(Warehouse.open(tmp_path / "w"), grafana.url, TOKEN) == 0
    assert len(grafana.calls) == before


def test_an_incident_that_changed_is_changed_there(grafana: StandIn, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    annotate(warehouse, grafana.url, TOKEN)
    count = len(grafana.annotations)
    rows = warehouse.read("gold.incident").to_pylist()
    changed = next(row for row in rows if row["status"] == "open" and not row["expected"])
    changed |= {"status": "over", "last_at_ms": changed["last_at_ms"] + 60_000}
    keys = rows_to_table("gold.incident", rows).select(["cluster_id", "incident_id"])
    warehouse.replace("gold.incident", rows_to_table("gold.incident", rows), keys)
    gold_rows.publish(warehouse)
    assert annotate(warehouse, grafana.url, TOKEN) == 1
    assert len(grafana.annotations) == count
    (drawn,) = [a for a in grafana.annotations.values() if changed["incident_id"] in a["tags"]]
    assert drawn["timeEnd"] == changed["last_at_ms"]
    assert "over" in drawn["tags"]


def test_an_answer_that_was_lost_makes_no_second_annotation(grafana: StandIn, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    grafana.loses_answers = True
    with pytest.raises(AlertError, match="answered 502"):
        annotate(warehouse, grafana.url, TOKEN)
    assert len(grafana.annotations) == 1
    grafana.loses_answers = False
    count = annotate(warehouse, grafana.url, TOKEN)
    assert len(grafana.annotations) == count


def test_a_token_that_is_refused_and_a_grafana_that_is_away_are_sentences(grafana: StandIn, tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    with pytest.raises(AlertError, match=r"refuses the token \(401\); it needs the right annotations:write") as raised:
        annotate(warehouse, grafana.url, "glsa_wrong")
    assert "glsa_wrong" not in str(raised.value)
    with pytest.raises(AlertError, match="does not answer"):
        annotate(warehouse, "http://127.0.0.1:1", TOKEN)
    with pytest.raises(AlertError, match="GRAFANA_TOKEN"):
        annotate(warehouse, grafana.url, "")
