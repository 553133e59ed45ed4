"""What is asked of the rows behind incidents is what SQL over all of them answers."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_audit.domain.causes import MEMBER_FAILED
from rebalance_audit.domain.tables import BY_NAME
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.row_groups import Least
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_rows import rows_with
from spark_jobs.incidents import departures as of_files
from spark_jobs.incidents.departures import departures, of_few_rows, of_many_rows
from spark_jobs.incidents.rows import shown_incidents

LAST_MS = 1_000


def a_warehouse(folder: Path, table: str, *, seed: int = 1) -> Warehouse:
    """Files of a few rows each: some with what is asked for, some without."""
    random, warehouse = Random(seed), Warehouse.open(folder, create=True)
    required: dict[str, object] = {c.name: "x" for c in BY_NAME[table].columns if c.required and c.type == "string"}
    for number in range(30):
        statuses = random.choice((["open"], ["resolved"], ["open", "resolved"]))
        rows = [
            required | {
                "cluster_id": random.choice("ab"), "status": random.choice(statuses), "group_ids": [f"g{row}"],
                "group_id": random.choice((None, "g1", "g2")), "rule_id": random.choice(("RB001", "TR003")),
                "incident_id": f"i{number}-{row}", "finding_id": f"f{number}-{row}",
                "last_at_ms": random.randrange(LAST_MS),
            }
            for row in range(random.randrange(1, 5))
        ]  # fmt: skip
        columns = {column.name for column in BY_NAME[table].columns}
        warehouse.append(table, rows_to_table(table, [{k: v for k, v in row.items() if k in columns} for row in rows]))
    return warehouse


@pytest.mark.parametrize("from_ms", [0, 300, 990, LAST_MS])
def test_shown_incidents_are_open_or_end_later(from_ms: int, tmp_path: Path) -> None:
    warehouse, columns = a_warehouse(tmp_path, "gold.incident"), ["incident_id", "group_ids"]
    asked = warehouse.read("gold.incident", columns, "status = 'open' OR last_at_ms >= ?", [from_ms]).to_pylist()
    found = shown_incidents(warehouse, columns, from_ms).to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, asked)) != []
    opened = warehouse.read("gold.incident", columns, "status = 'open'").to_pylist()
    assert sorted(map(str, shown_incidents(warehouse, columns).to_pylist())) == sorted(map(str, opened)) != []


def test_rows_with_few_values_may_have_none_of_them_but_null(tmp_path: Path) -> None:
    warehouse, table = a_warehouse(tmp_path, "silver.finding"), "silver.finding"
    asked = warehouse.read(table, None, "group_id IS NULL AND rule_id = 'TR003' AND cluster_id = 'a'").to_pylist()
    found = rows_with(warehouse, table, None, {"rule_id": ["TR003"], "group_id": [None], "cluster_id": ["a"]})
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, asked)) != []
    either = rows_with(warehouse, table, ["finding_id"], {"group_id": [None, "g1"]})
    listed = warehouse.read(table, ["finding_id"], "group_id IS NULL OR group_id = 'g1'")
    assert sorted(either["finding_id"].to_pylist()) == sorted(listed["finding_id"].to_pylist())
    assert rows_with(warehouse, "gold.mark", None, {"scope": ["*"]}).num_rows == 0  # nobody wrote it yet


def test_rows_with_few_values_may_have_a_bound_for_each(tmp_path: Path) -> None:
    random, warehouse = Random(3), Warehouse.open(tmp_path, create=True)
    for part in range(4):
        rows = [
            {"cluster_id": "a", "mark_id": f"m{part}-{n}", "at_ms": 100 * part + random.randrange(200),
             "source": "evidence", "text": "t", "scope": random.choice(["g", "h", "i", "*"])}
            for n in range(60)
        ]  # fmt: skip
        warehouse.append("gold.mark", rows_to_table("gold.mark", rows))
    bound = Least("at_ms", "scope", {"g": 150, "h": 420, "*": None})
    found = rows_with(warehouse, "gold.mark", ["mark_id", "at_ms"], {"scope": ["g", "h", "*"]}, bound=bound)
    asked = "scope = 'g' AND at_ms >= 150 OR scope = 'h' AND at_ms >= 420 OR scope = '*'"
    listed = warehouse.read("gold.mark", ["mark_id"], asked)
    assert sorted(found["mark_id"].to_pylist()) == sorted(listed["mark_id"].to_pylist()) != []


def test_few_rows_show_the_departures_that_sql_finds_in_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random, warehouse = Random(5), Warehouse.open(tmp_path, create=True)

    def member(name: str) -> dict[str, object]:
        change = random.choice(("stayed", "joined", "left", "left", "replaced"))
        names = {column: random.choice((None, f"{column}-{name}")) for column in ("worker_url", "group_instance_id")}
        host = random.choice((None, "/10.0.0.1", "/10.0.0.2", "/10.0.0.2"))
        return {"member_id": name, "client_id": "c", "client_host": host, "change": change, **names}

    def rebalance(number: int) -> dict[str, object]:
        members = [member(f"m{at}") for at in range(random.randrange(4))]
        causes = [
            {"trigger": random.choice((*sorted(MEMBER_FAILED), "member_left")), "members": random.choice(([], ["m0"]))}
            for _ in range(random.randrange(3))
        ]
        instants = {
            name: random.choice((None, number)) for name in ("started_at_ms", "started_lower_ms", "assigned_at_ms")
        }
        place = {"cluster_id": random.choice("ab"), "group_id": f"g{number % 3}", "rebalance_id": f"r{number}"}
        grown = random.choice((None, [], ["orders"], ["orders", "refunds"]))
        return {**place, **instants, "members": members, "triggers": causes, "grown_topics": grown, "is_final": True}

    rows = [rebalance(number) for number in range(200)]
    warehouse.append("silver.measured_rebalance", rows_to_table("silver.measured_rebalance", rows))
    [file] = warehouse.files("silver.measured_rebalance")
    found, asked = of_few_rows(file), of_many_rows([file]).drop_columns("filename")
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, asked.to_pylist()))
    assert {None, "/10.0.0.1", "c", "m0", "orders", "refunds"} <= set(found["place"].to_pylist())
    assert departures([file, file]).equals(pa.concat_tables([found, found]))
    older = str(tmp_path / "older.parquet")
    pq.write_table(pq.read_table(file).drop_columns("grown_topics"), older)
    lacking = of_few_rows(older)
    assert "orders" not in lacking["place"].to_pylist()
    monkeypatch.setattr(of_files, "_ROWS_AT_MOST", found.num_rows)
    assert departures([older]).equals(lacking)
    assert older in of_files._known
    assert file not in of_files._known, "it has too many rows to be kept beside those that are asked for"
    both = of_many_rows([older, file]).drop_columns("filename")
    assert sorted(map(str, both.to_pylist())) == sorted(map(str, [*found.to_pylist(), *lacking.to_pylist()]))
