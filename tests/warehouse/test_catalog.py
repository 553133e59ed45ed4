"""The catalog answers as `Warehouse.query` does, whatever is published meanwhile, and keeps no more than it must."""

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rebalance_audit.domain import numbers
from rebalance_audit.warehouse import catalog as catalogs
from rebalance_audit.warehouse.catalog import Catalog
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows

SUM = "SELECT count(*) AS n, round(sum(resource_seconds_estimate), 6) AS cost FROM {t}"


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return gold_rows.write(tmp_path / "w", many=40)


def answer(found: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.to_pylist()
    return rows


def kept(catalog: Catalog) -> int:
    return catalog._rows_kept(catalogs.FLAT)


def shrink(warehouse: Warehouse, group_id: str) -> None:
    """All rebalances of the group but its first go."""
    keys = pa.table({"cluster_id": [gold_rows.CLUSTER], "group_id": [group_id]})
    rows = warehouse.read("gold.rebalance", where="group_id = ?", params=[group_id])
    warehouse.replace("gold.rebalance", rows.slice(0, 1), keys)
    gold_rows.publish(warehouse)


def test_flat_rebalances_are_those_of_gold_with_the_columns_that_fleets_are_asked_for(warehouse: Warehouse) -> None:
    catalog = Catalog(warehouse)
    flat = catalog.query("SELECT * FROM flat.rebalance ORDER BY rebalance_id")
    assert tuple(flat.column_names) == catalogs.FLAT_COLUMNS
    listed = ", ".join(catalogs.FLAT_COLUMNS)
    whole = warehouse.query(f"SELECT {listed} FROM gold.rebalance ORDER BY rebalance_id")
    assert answer(flat) == answer(whole)


def test_flat_groups_are_those_of_gold_with_the_columns_that_lists_show(warehouse: Warehouse) -> None:
    listed = ", ".join(catalogs.GROUP_COLUMNS)
    flat = Catalog(warehouse).query("SELECT * FROM flat.group ORDER BY cluster_id, group_id")
    assert tuple(flat.column_names) == catalogs.GROUP_COLUMNS
    assert answer(flat) == answer(warehouse.query(f"SELECT {listed} FROM gold.group ORDER BY cluster_id, group_id"))


@pytest.mark.parametrize("most", [0, 1_000_000])
def test_topics_are_those_of_the_members_published_now(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(catalogs, "MOST_MEMBERS", most)
    catalog = Catalog(warehouse)
    flat = "SELECT DISTINCT cluster_id, group_id, topic FROM flat.topic ORDER BY ALL"
    each = "cluster_id, group_id, unnest(subscribed_topics) AS topic"
    whole = f"SELECT DISTINCT {each} FROM gold.rebalance_member ORDER BY ALL"
    before = answer(catalog.query(flat))
    assert before
    assert before == answer(warehouse.query(whole))
    members = warehouse.read("gold.rebalance_member")
    place = members.schema.get_field_index("subscribed_topics")
    field = members.schema.field(place)
    warehouse.append(
        "gold.rebalance_member", members.slice(0, 1).set_column(place, field, pa.array([["new"]], field.type))
    )
    gold_rows.publish(warehouse)
    after = answer(catalog.query(flat))
    assert [row["topic"] for row in after if row not in before] == ["new"]
    assert after == answer(warehouse.query(whole))
    warehouse.replace("gold.rebalance_member", members.slice(0, 0), None)
    gold_rows.publish(warehouse)
    assert answer(catalog.query(flat)) == []


def test_after_a_publication_only_its_new_files_are_read_for_topics(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = Catalog(warehouse)
    catalog.query("SELECT * FROM flat.topic")
    one = warehouse.read("gold.rebalance_member").slice(0, 1)
    warehouse.append("gold.rebalance_member", one)
    gold_rows.publish(warehouse)
    read: list[tuple[str, ...]] = []

    def noted(files: Any, **options: Any) -> str:
        if options:  # rows, and not only how many there are
            read.append(tuple(files))
        return relation(files, **options)

    monkeypatch.setattr(catalogs, "relation", noted)
    catalog.query("SELECT * FROM flat.topic")
    assert [len(files) for files in read] == [1]


@pytest.mark.parametrize("most_flat_rows", [3, 1_000_000])
def test_near_a_condition_are_whole_rows_and_no_other_files(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, most_flat_rows: int
) -> None:
    monkeypatch.setattr(catalogs, "MOST_FLAT_ROWS", most_flat_rows)
    one = warehouse.read("gold.rebalance", where="group_id = ?", params=["orders"]).slice(0, 1)
    place = one.schema.get_field_index("group_id")
    warehouse.append("gold.rebalance", one.set_column(place, one.schema.field(place), pa.array(["far"], pa.string())))
    gold_rows.publish(warehouse)
    catalog = Catalog(warehouse)
    asked: list[tuple[str, ...]] = []

    def noted(files: Any, **options: Any) -> str:
        asked.append(tuple(files))
        return relation(files, **options)

    monkeypatch.setattr(catalogs, "relation", noted)
    is_far = ("r.group_id = ?", ("far",))
    found = catalog.query("SELECT r.* FROM near.rebalance r WHERE r.group_id = 'far'", near=is_far)
    assert answer(found) == answer(warehouse.query("SELECT r.* FROM gold.rebalance r WHERE r.group_id = 'far'"))
    assert len(found) == 1
    if most_flat_rows > 3:
        assert len(asked[-1]) < len(warehouse.files("gold.rebalance"))
    nobody = catalog.query("SELECT r.* FROM near.rebalance r WHERE r.group_id = 'x'", near=("r.group_id = ?", ("x",)))
    assert len(nobody) == 0
    assert nobody.schema.names == found.schema.names


def test_each_publication_is_seen_whole_and_its_rows_alone_are_kept(warehouse: Warehouse) -> None:
    catalog = Catalog(warehouse)
    before = answer(catalog.query(SUM.format(t="flat.rebalance")))
    assert before == answer(warehouse.query(SUM.format(t="gold.rebalance")))
    shrink(warehouse, "orders")
    after = answer(catalog.query(SUM.format(t="flat.rebalance")))
    assert after == answer(warehouse.query(SUM.format(t="gold.rebalance")))
    assert after[0]["n"] < before[0]["n"]
    shrink(warehouse, "checkout")
    last = answer(catalog.query(SUM.format(t="flat.rebalance")))
    assert last == answer(warehouse.query(SUM.format(t="gold.rebalance")))
    assert kept(catalog) == last[0]["n"]  # what only older publications had was let go


def test_only_files_that_are_new_are_read(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = Catalog(warehouse)
    catalog.query(SUM.format(t="flat.rebalance"))
    read: list[tuple[str, ...]] = []

    def noted(files: Any, **options: Any) -> str:
        if options.get("with_name"):
            read.append(tuple(files))
        return relation(files, **options)

    monkeypatch.setattr(catalogs, "relation", noted)
    before = set(warehouse.files("gold.rebalance"))
    rows = warehouse.read("gold.rebalance", where="group_id = ?", params=["orders"])
    place = rows.schema.get_field_index("revision")
    newer = rows.set_column(place, rows.schema.field(place), pa.array([9] * len(rows), rows.schema.field(place).type))
    keys = pa.table({"cluster_id": [gold_rows.CLUSTER], "group_id": ["orders"]})
    warehouse.replace("gold.rebalance", newer, keys)
    gold_rows.publish(warehouse)
    catalog.query(SUM.format(t="flat.rebalance"))
    assert read == [tuple(f for f in warehouse.files("gold.rebalance") if f not in before)]


def test_a_table_too_large_to_keep_is_asked_in_its_files(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "MOST_FLAT_ROWS", 3)
    catalog = Catalog(warehouse)
    asked = answer(catalog.query(SUM.format(t="flat.rebalance")))
    assert asked == answer(warehouse.query(SUM.format(t="gold.rebalance")))


def test_compressed_rows_are_the_same_rows(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogs, "_COMPRESSED_FROM", 1)
    monkeypatch.setattr(catalogs, "_COMPRESSED_AFTER_S", 0.0)
    catalog = Catalog(warehouse)
    before = answer(catalog.query(SUM.format(t="flat.rebalance")))
    for thread in [t for t in threading.enumerate() if isinstance(t, threading.Timer)]:
        thread.join(10)
    assert answer(catalog.query(SUM.format(t="flat.rebalance"))) == before
    shrink(warehouse, "orders")
    assert answer(catalog.query(SUM.format(t="flat.rebalance"))) == answer(
        warehouse.query(SUM.format(t="gold.rebalance"))
    )


@pytest.mark.parametrize("most_flat_rows", [0, 1_000_000])
def test_bookings_are_those_of_the_incidents_published_now(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, most_flat_rows: int
) -> None:
    monkeypatch.setattr(catalogs, "MOST_FLAT_ROWS", most_flat_rows)
    catalog = Catalog(warehouse)
    by_hash = (
        "SELECT r.rebalance_id, b.cause FROM flat.rebalance r JOIN flat.booking b "
        f"ON b.booking = {catalogs.BOOKING_OF.format('r')} ORDER BY ALL"
    )
    by_text = (
        f"SELECT r.rebalance_id, b.cause FROM gold.rebalance r JOIN {numbers.booked()} b "
        "USING (cluster_id, rebalance_id) ORDER BY ALL"
    )
    before = answer(catalog.query(by_hash))
    assert before
    assert before == answer(warehouse.query(by_text))
    incidents = warehouse.read("gold.incident")
    warehouse.replace("gold.incident", incidents.slice(0, 1), None)
    gold_rows.publish(warehouse)
    after = answer(catalog.query(by_hash))
    assert after == answer(warehouse.query(by_text))
    assert len(after) < len(before)
    assert answer(catalog.query(by_hash, without={"gold.incident"})) == []


@pytest.mark.parametrize("most", [0, 1_000_000])
def test_flat_incidents_are_those_published_now_with_the_bookings_of_their_rebalances(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(catalogs, "MOST_FLAT_INCIDENTS", most)
    catalog = Catalog(warehouse)
    flat = "SELECT incident_id, title, unit, list_sort(bookings) AS bookings FROM flat.incident ORDER BY 1"
    query = (
        "SELECT i.incident_id, any_value(i.title) AS title, any_value(i.unit) AS unit, "
        f"list_sort(list({catalogs.BOOKING_OF.format('r')})) AS bookings "
        "FROM (SELECT *, unnest(rebalance_ids) AS id FROM gold.incident) i "
        "JOIN gold.rebalance r ON r.cluster_id = i.cluster_id AND r.rebalance_id = i.id GROUP BY 1 ORDER BY 1"
    )
    before = answer(catalog.query(flat))
    assert [row for row in before if row["bookings"]] == answer(warehouse.query(query))
    warehouse.replace("gold.incident", warehouse.read("gold.incident").slice(0, 1), None)
    gold_rows.publish(warehouse)
    assert len(answer(catalog.query(flat))) == 1 < len(before)


def test_incidents_of_before_there_was_a_unit_count_resources(warehouse: Warehouse) -> None:
    rows = warehouse.read("gold.incident")
    place = rows.column_names.index("unit")
    warehouse.replace("gold.incident", rows.set_column(place, "unit", pa.nulls(rows.num_rows, pa.string())), None)
    gold_rows.publish(warehouse)
    assert {r["unit"] for r in answer(Catalog(warehouse).query("SELECT unit FROM flat.incident"))} == {"resource"}


def test_a_table_left_out_is_empty_until_it_is_not(warehouse: Warehouse) -> None:
    catalog = Catalog(warehouse)
    count = "SELECT count(*) AS n FROM flat.rebalance"
    assert answer(catalog.query(count, without={"gold.rebalance"})) == [{"n": 0}]
    assert answer(catalog.query(count)) == answer(warehouse.query("SELECT count(*) AS n FROM gold.rebalance"))
    assert answer(catalog.query("SELECT * FROM silver.reopening")) == []
