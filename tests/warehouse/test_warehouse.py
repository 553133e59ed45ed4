"""The warehouse: what a commit does, what readers see, who may write."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema, arrow_type, rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError


@pytest.fixture(params=["folder", "store"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same promises in a folder and in an object store."""
    return str(tmp_path / "w") if request.param == "folder" else str(request.getfixturevalue("store_url"))


@pytest.fixture
def warehouse(place: str) -> Warehouse:
    return Warehouse.open(place, create=True)


def a_finding(subject: str, **changes: Any) -> dict[str, Any]:
    return {
        "cluster_id": "c", "finding_id": f"f-{subject}", "rule_id": "RB001", "severity": "info",
        "subject_type": "group", "subject": subject, "status": "open", "first_seen_at_ms": 1, "last_seen_at_ms": 2,
        "title": "t", "evidence": ["record:a-0@1"],
    } | changes  # fmt: skip


def findings(*subjects: str, **changes: Any) -> pa.Table:
    return rows_to_table("silver.finding", [a_finding(s, **changes) for s in subjects])


def subjects(warehouse: Warehouse, name: str = "silver.finding") -> list[str]:
    return sorted(warehouse.read(name, ["subject"]).column("subject").to_pylist())


def keys(*subjects: str) -> pa.Table:
    return pa.table({"cluster_id": ["c"] * len(subjects), "subject": list(subjects)})


# ---- schemas


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda t: t.name)
def test_every_table_has_an_arrow_schema_with_its_columns(table: tables.Table) -> None:
    assert arrow_schema(table).names == [c.name for c in table.columns]


def test_nested_types_are_read_from_ddl() -> None:
    assert arrow_type("array<struct<a:string,b:array<bigint>>>") == pa.list_(
        pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64()))])
    )


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(ValueError, match="no Arrow type for 'map<string,int>'"):
        arrow_type("map<string,int>")


# ---- opening


def test_opening_what_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match=r"There is no warehouse at .*; make one with"):
        Warehouse.open(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_a_folder_with_other_things_is_neither_opened_nor_taken(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(WarehouseError, match="is not a warehouse"):
        Warehouse.open(tmp_path)
    with pytest.raises(WarehouseError, match="is not empty and not a warehouse"):
        Warehouse.open(tmp_path, create=True)
    assert os.listdir(tmp_path) == ["letter.txt"]


def test_a_warehouse_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warehouse.json").write_text(json.dumps({"schema_version": tables.SCHEMA_VERSION + 1}))
    with pytest.raises(WarehouseError, match="written by a newer version"):
        Warehouse.open(tmp_path, create=True)


def test_a_damaged_marker_is_named(tmp_path: Path) -> None:
    (tmp_path / "warehouse.json").write_text("{")
    with pytest.raises(WarehouseError, match=r"warehouse\.json is damaged"):
        Warehouse.open(tmp_path)


def test_reading_writes_nothing(tmp_path: Path) -> None:
    Warehouse.open(tmp_path, create=True).append("silver.finding", findings("a"))
    before = sorted((str(p), p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
    reader = Warehouse.open(tmp_path)
    reader.read("silver.finding")
    reader.query("SELECT * FROM gold.rebalance")
    assert reader.changed_keys("silver.finding", ["subject"], None).num_rows == 1
    assert sorted((str(p), p.stat().st_mtime_ns) for p in tmp_path.rglob("*")) == before


def test_an_unknown_table_is_named_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match=r"no table 'gold.rebalances'; tables are .*gold\.rebalance"):
        Warehouse.open(tmp_path, create=True).read("gold.rebalances")


# ---- commits


def test_what_is_appended_comes_back_in_the_tables_own_types(warehouse: Warehouse) -> None:
    warehouse.append("silver.finding", findings("a", numbers='{"n":1}'))
    back = warehouse.read("silver.finding")
    assert back.schema == arrow_schema("silver.finding")
    assert back.to_pylist()[0] == {f.name: None for f in back.schema} | a_finding("a", numbers='{"n":1}')


def test_nested_rows_come_back_whole(warehouse: Warehouse) -> None:
    trigger = {"trigger": "member_left", "tier": "logged", "members": ["m1"], "detail": "", "evidence": ["log:x"]}
    row = {"cluster_id": "c", "rebalance_id": "r", "group_id": "g", "triggers": [trigger], "evidence": []}
    warehouse.append("gold.rebalance", rows_to_table("gold.rebalance", [row]))
    assert warehouse.read("gold.rebalance", ["triggers"]).to_pylist() == [{"triggers": [trigger]}]


def test_a_replayed_transaction_is_skipped(warehouse: Warehouse) -> None:
    assert warehouse.append("silver.finding", findings("a"), transaction=("batch", 0))
    assert not warehouse.append("silver.finding", findings("a"), transaction=("batch", 0))
    assert warehouse.append("silver.finding", findings("b"), transaction=("batch", 1))
    assert not warehouse.replace("silver.finding", findings("z"), keys("a"), transaction=("batch", 1))
    assert subjects(warehouse) == ["a", "b"]
    assert warehouse.transaction_version("silver.finding", "batch") == 1


def test_a_commit_of_several_inputs_is_skipped_only_when_all_were_consumed(warehouse: Warehouse) -> None:
    warehouse.append("silver.finding", findings("a"), transaction={"x": 1, "y": 1})
    assert not warehouse.append("silver.finding", findings("b"), transaction={"x": 1, "y": 0})
    assert warehouse.append("silver.finding", findings("c"), transaction={"x": 1, "y": 2})
    assert subjects(warehouse) == ["a", "c"]


def test_a_transaction_without_rows_is_remembered(warehouse: Warehouse) -> None:
    warehouse.replace("silver.finding", findings(), keys(), transaction=("batch", 7))
    assert warehouse.transaction_version("silver.finding", "batch") == 7
    assert subjects(warehouse) == []


def test_replace_removes_the_keys_and_adds_the_rows_in_one_commit(warehouse: Warehouse) -> None:
    warehouse.append("silver.finding", findings("a", "b"))
    warehouse.append("silver.finding", findings("c"))
    before = warehouse.version("silver.finding")
    warehouse.replace("silver.finding", findings("b", "d", title="new"), keys("b", "c"))
    assert warehouse.version("silver.finding") == (before or 0) + 1
    found = {r["subject"]: r["title"] for r in warehouse.read("silver.finding").to_pylist()}
    assert found == {"a": "t", "b": "new", "d": "new"}


def test_replace_matches_null_with_null(warehouse: Warehouse) -> None:
    warehouse.append("silver.finding", findings("a", detail=None))
    warehouse.append("silver.finding", findings("b", detail="x"))
    null_key = pa.table({"detail": pa.array([None], pa.string())})
    warehouse.replace("silver.finding", findings(), null_key)
    assert subjects(warehouse) == ["b"]


def test_replace_without_keys_replaces_everything(warehouse: Warehouse) -> None:
    warehouse.append("silver.finding", findings("a", "b"))
    warehouse.replace("silver.finding", findings("z"), None)
    assert subjects(warehouse) == ["z"]


def test_ten_thousand_keys_are_replaced_at_once(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    names = [f"group-{n}" for n in range(10_001)]
    warehouse.append("silver.finding", findings(*names))
    started = time.monotonic()
    warehouse.replace("silver.finding", findings(*names[:-1], title="new"), keys(*names[:-1]))
    assert time.monotonic() - started < 10
    counted = warehouse.read("silver.finding", ["title"]).column("title").value_counts().to_pylist()
    assert sorted((c["values"], c["counts"]) for c in counted) == [("new", 10_000), ("t", 1)]


def test_files_of_collectors_are_adopted_as_they_are(warehouse: Warehouse, tmp_path: Path) -> None:
    landed = tmp_path / "l1.parquet"
    pq.write_table(findings("a"), landed)
    assert warehouse.adopt("silver.finding", [str(landed)], transaction=("landing:l1", 1))
    assert not warehouse.adopt("silver.finding", [str(landed)], transaction=("landing:l1", 1))
    assert subjects(warehouse) == ["a"]
    assert [os.path.basename(f) for f in warehouse.files("silver.finding")] == ["l1.parquet"]
    assert landed.exists()


# ---- what changed


def test_appended_and_replaced_keys_are_shown_since_a_version(warehouse: Warehouse) -> None:
    warehouse.append("silver.finding", findings("a", "b"))
    first = warehouse.version("silver.finding")
    warehouse.append("silver.finding", findings("c"))
    warehouse.replace("silver.finding", findings(), keys("b"))

    def changed(since: int | None) -> list[str]:
        return sorted(warehouse.changed_keys("silver.finding", ["subject"], since).column(0).to_pylist())

    assert changed(None) == ["a", "b", "c"]
    assert changed(first) == ["b", "c"]  # b vanished, and that is a change; a was only copied to another file
    assert changed(warehouse.version("silver.finding")) == []


def test_compaction_is_no_change_and_loses_nothing(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    for subject in "abc":
        warehouse.append("silver.finding", findings(subject))
    version = warehouse.version("silver.finding")
    warehouse.compact("silver.finding")
    assert subjects(warehouse) == ["a", "b", "c"]
    assert warehouse.changed_keys("silver.finding", ["subject"], version).num_rows == 0
    assert warehouse.changed_keys("silver.finding", ["subject"], None).num_rows == 3


def test_what_was_published_stays_published_when_its_files_are_joined(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    for subject in "abc":
        warehouse.append("gold.finding", rows_to_table("gold.finding", findings(subject).to_pylist()))
    version = warehouse.version("gold.finding") or 0
    warehouse.publish({"gold.finding": version}, {"silver.finding": 7})
    warehouse.append("gold.finding", rows_to_table("gold.finding", findings("d").to_pylist()))
    warehouse.compact("gold.finding", keep_hours=1)  # a publication did not end: readers keep what they had
    assert warehouse.published() == {"gold.finding": version}
    assert warehouse.query("SELECT subject FROM gold.finding ORDER BY 1").column("subject").to_pylist() == list("abc")
    warehouse.append("gold.finding", rows_to_table("gold.finding", findings("e").to_pylist()))
    warehouse.publish({"gold.finding": warehouse.version("gold.finding") or 0}, {"silver.finding": 9})
    warehouse.compact("gold.finding", keep_hours=0)
    assert len(warehouse.files("gold.finding")) == 1
    assert warehouse.query("SELECT subject FROM gold.finding ORDER BY 1").column("subject").to_pylist() == list("abcde")
    assert warehouse.publication()["consumed"] == {"silver.finding": 9}


def test_keys_that_were_cleaned_up_mean_everything_may_have_changed(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    warehouse.append("silver.finding", findings("a"))
    warehouse.replace("silver.finding", findings("b"), pa.table({"subject": ["a"]}))
    changed = warehouse.changed_keys("silver.finding", ["subject"], 0).column("subject").to_pylist()
    assert sorted(changed) == ["a", "b"]  # gone, and come
    warehouse.compact("silver.finding", keep_hours=0)
    assert not list((tmp_path / "silver/finding/_keys").iterdir())
    assert warehouse.changed_keys("silver.finding", ["subject"], 0).column("subject").to_pylist() == ["b"]


def test_only_landing_files_that_were_taken_in_and_are_old_are_forgotten(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    folder = tmp_path / "landing" / "source"
    folder.mkdir(parents=True)
    for name in ("taken", "waiting"):
        pq.write_table(rows_to_table("bronze.source", []), folder / f"{name}.parquet")
    taken = [str(folder / "taken.parquet")]
    assert warehouse.forget_landed("source", taken, keep_hours=1) == 0
    assert warehouse.forget_landed("source", taken, keep_hours=0) == 1
    assert [Path(file).name for file in warehouse.landed("source")] == ["waiting.parquet"]


def test_a_cleaned_up_history_means_everything_may_have_changed(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    for subject in "abc":
        warehouse.append("silver.finding", findings(subject))
    DeltaTable(tmp_path / "silver/finding").create_checkpoint()
    (tmp_path / "silver/finding/_delta_log/00000000000000000001.json").unlink()
    assert warehouse.changes("silver.finding", 0) is None
    assert warehouse.changed_keys("silver.finding", ["subject"], 0).num_rows == 3


# ---- readers


def test_a_reader_sees_a_publication_only_when_it_has_ended(warehouse: Warehouse) -> None:
    count = "SELECT count(*) n FROM gold.finding WHERE subject = ?"
    assert warehouse.query(count, ["a"]).to_pylist() == [{"n": 0}]
    warehouse.append("gold.finding", rows_to_table("gold.finding", [a_finding("a")]))
    assert warehouse.query(count, ["a"]).to_pylist() == [{"n": 0}]
    version = warehouse.version("gold.finding")
    assert version is not None
    assert warehouse.publish({"gold.finding": version})
    assert not warehouse.publish({"gold.finding": version})
    assert warehouse.query(count, ["a"]).to_pylist() == [{"n": 1}]
    warehouse.replace("gold.finding", rows_to_table("gold.finding", []), keys("a"))
    assert warehouse.query(count, ["a"]).to_pylist() == [{"n": 1}]


def test_tables_that_nobody_wrote_are_empty_and_typed(warehouse: Warehouse) -> None:
    found = warehouse.query("SELECT pause_estimate_ms, evidence FROM gold.rebalance JOIN gold.group USING (group_id)")
    assert found.num_rows == 0
    assert found.schema.types[0] == pa.int64()


def test_values_are_parameters_and_never_sql(warehouse: Warehouse) -> None:
    warehouse.append("silver.finding", findings("it's"))
    assert warehouse.read("silver.finding", ["subject"], "subject = ?", ["it's"]).num_rows == 1


# ---- one writer


def test_a_second_writer_is_refused_and_shown_who_writes(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    another = Warehouse.open(tmp_path)
    refusal = rf"written by process {os.getpid()} .*import"
    with warehouse.lease("import"), pytest.raises(WarehouseError, match=refusal), another.lease():
        pass
    with warehouse.lease():
        pass
    assert not (tmp_path / "lease.json").exists()


def test_the_lease_of_a_dead_process_is_taken_over(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    program = (
        "import os, sys; from rebalance_audit.warehouse.warehouse import Warehouse\n"
        "held = Warehouse.open(sys.argv[1]).lease(); held.__enter__(); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == 9
    assert (tmp_path / "lease.json").exists()
    with warehouse.lease():
        pass


def test_a_lease_whose_pid_was_given_to_another_process_is_taken_over(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    other = {"pid": os.getpid(), "process_started": "1", "host": socket.gethostname(), "what": "run", "token": "x"}
    (tmp_path / "lease.json").write_text(json.dumps(other))
    with warehouse.lease():
        pass


@pytest.mark.parametrize(("age_ms", "is_taken"), [(60_000, False), (700_000, True)])
def test_a_lease_of_another_host_is_stale_when_it_is_not_renewed(tmp_path: Path, age_ms: int, is_taken: bool) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    renewed = int(time.time() * 1000) - age_ms
    lease = {"pid": 1, "host": "another-host", "renewed_at_ms": renewed, "what": "run", "token": "x"}
    (tmp_path / "lease.json").write_text(json.dumps(lease))
    if is_taken:
        with warehouse.lease():
            pass
    else:
        with pytest.raises(WarehouseError, match="another-host"), warehouse.lease():
            pass


def test_rows_of_before_a_column_was_there_are_null_in_it(tmp_path: Path) -> None:
    """Files of an earlier version stay as they are; `let_go_count` came later."""
    opened = Warehouse.open(tmp_path / "w", create=True)
    row = {"cluster_id": "c", "source": "log:n/f#1", "read_id": "r", "kind": "log", "item_count": 3, "landing": "x"}
    narrow = rows_to_table("bronze.source", [row]).drop_columns(["let_go_count"])
    path = tmp_path / "old.parquet"
    pq.write_table(narrow, path)
    opened.adopt("bronze.source", [str(path)])
    assert opened.read("bronze.source", ["read_id", "let_go_count"]).to_pylist() == [
        {"read_id": "r", "let_go_count": None}
    ]
    opened.append("bronze.source", rows_to_table("bronze.source", [row | {"read_id": "s", "let_go_count": 9}]))
    rows = opened.read("bronze.source", ["read_id", "let_go_count"], "item_count = ?", [3]).to_pylist()
    assert sorted((r["read_id"], r["let_go_count"]) for r in rows) == [("r", None), ("s", 9)]
