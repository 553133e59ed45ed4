"""Rows that are just in: the app's answers over tables that lack them, or have older ones, are those over the tables
that hold them; and a team sees of them what it sees of tables."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from app.answers.rows import Span
from app.queries import Questions
from rebalance_audit.domain.teams import Sight, TeamOf
from rebalance_audit.live.present import FRESH_MS, Present, keep
from rebalance_audit.warehouse import catalog as catalogs
from rebalance_audit.warehouse.just_in import KEYS, JustInRows
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER, HOSTILE_GROUP, T0
from tests.app.opening import Open, cells, markup, opening_lines, said

GROUPS = ("orders", "checkout", HOSTILE_GROUP)
SPAN = Span(from_ms=0, to_ms=1 << 62)
ORDERS = Sight(TeamOf((("orders", ("*",), ("orders",)), ("others", ("*",), ("*",)))), frozenset({"orders"}))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    location = tmp_path_factory.mktemp("whole") / "w"
    gold_rows.write(location, many=20)
    return location


def _newest(rebalances: pa.Table) -> list[str]:
    """The two newest rebalances of each group."""
    found = []
    for group_id in GROUPS:
        of_group = rebalances.filter(pc.equal(rebalances["group_id"], group_id))
        found += of_group.sort_by("ended_at_ms")["rebalance_id"].to_pylist()[-2:]
    return found


def _late(whole: Path, tmp_path: Path) -> tuple[Path, JustInRows]:
    """A warehouse that has an older row of one of them and lacks the other, and whose incidents are older; and what it
    lacks."""
    warehouse = Warehouse.open(whole)
    new = _newest(warehouse.read("gold.rebalance"))
    incidents = warehouse.read("gold.incident", where="len(list_intersect(group_ids, ?)) > 0", params=[[*GROUPS]])
    rows = {
        table: warehouse.read(table, where=f"list_contains(?, {KEYS[table]})", params=[new])
        for table in ("gold.rebalance", "gold.rebalance_member", "gold.movement")
    } | {"gold.incident": incidents}
    location = tmp_path / "late"
    shutil.copytree(whole, location)
    late = Warehouse.open(location)
    for table, lacking in rows.items():
        of_half = new[::2] if KEYS[table] == "rebalance_id" else incidents["incident_id"].to_pylist()[::2]
        stored = late.read(table)
        is_gone = pc.is_in(stored[KEYS[table]], pa.array([*set(lacking[KEYS[table]].to_pylist()) - {*of_half}]))
        is_old = pc.is_in(stored[KEYS[table]], pa.array(of_half, pa.string()))
        for name, value in (("pause_estimate_ms", 1), ("title", "older"), ("change", "joined")):
            if name in stored.schema.names:
                at = stored.schema.get_field_index(name)
                older = pc.if_else(is_old, pa.scalar(value, stored.schema.field(at).type), stored[name])
                stored = stored.set_column(at, stored.schema.field(at), older)
        keys = stored.select(["cluster_id", KEYS[table]]).group_by(["cluster_id", KEYS[table]]).aggregate([])
        late.replace(table, stored.filter(pc.invert(is_gone)), keys)
    gold_rows.publish(late)
    return location, JustInRows(rows=rows)


def _shows(location: Path, just_in: JustInRows, at_ms: int = T0) -> None:
    note = Present(cluster_id=CLUSTER, written_at_ms=at_ms, running_count=0, running=(), just_in=just_in)
    keep(Warehouse.open(location), note)


def _asked(location: Path, sight: Sight | None, now_ms: int) -> Questions:
    reader = Questions(Warehouse.open(location), sight)
    reader.refresh(now_ms)
    return reader


def _answers(reader: Questions) -> list[Any]:
    rebalances = reader.rows("SELECT cluster_id, rebalance_id FROM gold.rebalance ORDER BY ALL")
    incidents = reader.incidents()
    return [
        incidents, reader.incident_count(SPAN), reader.open_kinds(SPAN), reader.span(), reader.fleet(SPAN),
        reader.groups(SPAN).to_pandas(), reader.over_time(SPAN, [(CLUSTER, g) for g in GROUPS]),
        reader.open_at_home(SPAN), rebalances,
        *(reader.incident(i.cluster_id, i.incident_id) for i in incidents),
        *(reader.incident_costs(i.cluster_id, i.incident_id) for i in incidents),
        *(reader.rebalance(*row.values()) for row in rebalances),
        *(reader.incident_of_rebalance(*row.values()) for row in rebalances),
        *(
            ask(CLUSTER, group_id, SPAN) for group_id in GROUPS
            for ask in (reader.group_rebalances, reader.group_members, reader.group_movements, reader.group_causes)
        ),
    ]  # fmt: skip


def _same(one: Any, other: Any) -> bool:
    """Sums of the same numbers in another order differ in their last digits."""
    if isinstance(one, pd.DataFrame):
        return one.round(6).equals(other.round(6))
    texts = [re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.6f}", repr(each)) for each in (one, other)]
    return texts[0] == texts[1]


@pytest.mark.parametrize("most_flat_rows", [3, 1_000_000])
@pytest.mark.parametrize("sight", [None, ORDERS], ids=["all", "a team"])
def test_answers_are_those_of_the_tables_that_hold_what_is_just_in(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sight: Sight | None, most_flat_rows: int
) -> None:
    monkeypatch.setattr(catalogs, "MOST_FLAT_ROWS", most_flat_rows)
    location, just_in = _late(whole, tmp_path)
    expected = _answers(_asked(whole, sight, T0))
    reader = _asked(location, sight, T0)
    late = _answers(reader)
    assert not all(map(_same, late, expected))
    _shows(location, just_in)
    reader.refresh(T0 + FRESH_MS)
    found = _answers(reader)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert _same(one, other), (one, other)
    reader.refresh(T0 + FRESH_MS + 1)  # `watch` has stopped
    assert all(map(_same, _answers(reader), late))


def test_what_turned_out_to_be_part_of_another_is_not_there(whole: Path, tmp_path: Path) -> None:
    location = tmp_path / "w"
    shutil.copytree(whole, location)
    reader = _asked(location, None, T0)
    first = reader.incidents()[0]
    rebalance = reader.rows("SELECT rebalance_id FROM gold.rebalance WHERE group_id = 'orders' LIMIT 1")[0]
    gone = {"incident_id": [(CLUSTER, first.incident_id)], "rebalance_id": [(CLUSTER, rebalance["rebalance_id"])]}
    _shows(location, JustInRows(gone=gone))
    reader.refresh(T0)
    assert first.incident_id not in {i.incident_id for i in reader.incidents()}
    assert reader.rebalance(CLUSTER, rebalance["rebalance_id"]) is None


@pytest.mark.parametrize("harm", [
    lambda note: note["just_in"]["rows"].update({"gold.rebalance": "bm8gYXJyb3c="}),
    lambda note: note["just_in"]["rows"].update({"gold.rebalance": note["just_in"]["rows"]["gold.incident"]}),
    lambda note: note.pop("just_in"),
    lambda note: note.update(just_in=[]),
])  # fmt: skip
def test_a_note_of_another_release_counts_for_nothing(
    whole: Path, tmp_path: Path, harm: Callable[[dict[str, Any]], None]
) -> None:
    location, just_in = _late(whole, tmp_path)
    _shows(location, just_in)
    warehouse = Warehouse.open(location)
    (name,) = (name for name in warehouse.notes() if name.startswith("present-"))
    note = warehouse.recall(name)
    harm(note)
    warehouse.remember(name, note)
    assert not _asked(location, None, T0).just_in


def test_pages_show_and_mark_what_is_just_in(opened: Open, whole: Path, tmp_path: Path) -> None:
    location, just_in = _late(whole, tmp_path)
    hostile = next(i for i in _asked(whole, None, T0).incidents() if HOSTILE_GROUP in i.group_ids)
    asked = {"cluster": CLUSTER, "incident": hostile.incident_id}
    old = said(opened(location, "incident", T0, **asked))
    assert "older" in old or "Nothing is known" in old
    _shows(location, just_in)
    at = opened(location, "incident", T0, **asked)
    assert "Just in: the tables do not hold this yet" in said(at)
    assert "<script>" not in markup(at)
    home = opened(location, "home", T0)
    assert any("just in" in str(line["cause"]) for line in opening_lines(home))
    assert "<script>alert(1)" not in markup(home)
    group = opened(location, "group", T0, cluster=CLUSTER, group="orders")
    assert cells(group).count(", just in") == 2
    assert [i["incident_id"] for i in _asked(location, None, T0).just_in_row(CLUSTER, hostile.incident_id)] == [
        hostile.incident_id
    ]
    assert _asked(location, None, T0).just_in_row("another", hostile.incident_id) == []
    (newest,) = _newest(Warehouse.open(whole).read("gold.rebalance"))[1:2]
    assert "Just in" in said(opened(location, "rebalance", T0, cluster=CLUSTER, rebalance=newest))
    later = opened(location, "group", T0 + FRESH_MS + 1, cluster=CLUSTER, group="orders")
    assert "just in" not in cells(later)
    keep(Warehouse.open(location), Present(cluster_id=CLUSTER, written_at_ms=T0, running_count=0, running=(),
                                           just_in=JustInRows(left_out=7)))  # fmt: skip
    assert "news of 7 groups and incidents comes with the tables" in said(opened(location, "home", T0))
