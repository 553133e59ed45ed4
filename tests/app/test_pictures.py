"""The picture of an incident at an address of its own: whole for every incident, and only where nobody is asked who
they are."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from starlette.requests import Request
from starlette.responses import Response

from app import access
from app.pictures import incident_svg
from app.queries import Questions, opened
from tests.app.gold_rows import CLUSTER
from tests.app.test_access import RULES

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def nobody_is_asked() -> Iterator[None]:
    access.rules.cache_clear()
    opened.cache_clear()
    yield
    access.rules.cache_clear()
    opened.cache_clear()


@pytest.fixture
def location(full_warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("sys.argv", ["streamlit"])
    monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", str(full_warehouse))
    return full_warehouse


def asked(**params: str) -> Response:
    return incident_svg(Request({"type": "http", "query_string": urlencode(params).encode(), "headers": []}))


def test_every_incident_has_a_picture_in_which_no_client_writes_markup(location: Path, reader: Questions) -> None:
    found = reader.rows("SELECT cluster_id, incident_id FROM gold.incident")
    assert len(found) > 4
    for row in found:
        answer = asked(cluster=row["cluster_id"], incident=row["incident_id"], zone="Asia/Tokyo")
        assert answer.status_code == 200, row
        assert answer.media_type == "image/svg+xml"
        drawn = ElementTree.fromstring(bytes(answer.body))
        kinds = {each.tag.removeprefix(SVG) for each in drawn.iter()}
        assert kinds <= {"svg", "title", "defs", "pattern", "rect", "text"}, row
        for box in drawn.iter(f"{SVG}rect"):
            assert float(box.get("width", "nan")) >= 0, row


def test_the_storm_is_drawn_with_its_members_and_in_the_zone_of_the_address(location: Path) -> None:
    reader = Questions.open(location)
    reader.refresh()
    (storm,) = reader.rows("SELECT * FROM gold.incident WHERE list_contains(group_ids, 'checkout') AND status = 'open'")
    texts = {}
    for zone in ("UTC", "Asia/Tokyo"):
        answer = asked(cluster=CLUSTER, incident=storm["incident_id"], zone=zone)
        texts[zone] = [each.text for each in ElementTree.fromstring(bytes(answer.body)).iter(f"{SVG}text")]
    assert {"stood still", "broker's window"} <= set(texts["UTC"])
    hours = {zone: next(t for t in said if t and len(t) in (5, 8) and t[2] == ":") for zone, said in texts.items()}
    assert (int(hours["Asia/Tokyo"][:2]) - int(hours["UTC"][:2])) % 24 == 9


def test_where_people_log_in_or_nothing_is_known_there_is_no_picture(
    location: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked(cluster=CLUSTER, incident="in:nobody").status_code == 404
    assert asked().status_code == 404
    reader = Questions.open(location)
    reader.refresh()
    row = reader.rows("SELECT cluster_id, incident_id FROM gold.incident LIMIT 1")[0]
    monkeypatch.setenv(access.ENVIRONMENT_ACCESS, json.dumps(RULES))
    access.rules.cache_clear()
    assert asked(cluster=row["cluster_id"], incident=row["incident_id"]).status_code == 404
