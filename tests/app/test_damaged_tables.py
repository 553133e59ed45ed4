"""Without a warehouse, or beside a newer, empty, broken or misunderstood one: each page keeps what can be shown."""

import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from app.queries import Questions
from rebalance_audit import __version__
from tests.app import gold_rows
from tests.app.gold_rows import CLUSTER
from tests.app.opening import FAILED, VIEWS, Open, said


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_says_how_to_begin_when_no_warehouse_is_given(opened: Open, view: str) -> None:
    text = said(opened(None, view))
    assert "No warehouse was given." in text
    assert "rebalance-audit ui --warehouse FOLDER" in text


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_says_where_no_warehouse_is(opened: Open, view: str, tmp_path: Path) -> None:
    text = said(opened(tmp_path / "nowhere", view))
    assert "The warehouse cannot be read." in text
    assert "There is no warehouse at" in text
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("view", VIEWS)
def test_every_page_refuses_a_newer_warehouse_in_one_sentence(opened: Open, view: str, newer_warehouse: Path) -> None:
    assert "was written by a newer version" in said(opened(newer_warehouse, view))


@pytest.mark.parametrize(
    "view", [v for v in VIEWS if v not in ("connect", "evidence", "reassignments", "reassignment")]
)
def test_an_empty_warehouse_says_what_to_do_next(opened: Open, view: str, empty_warehouse: Path) -> None:
    text = said(opened(empty_warehouse, view))
    assert "Nothing has been audited yet" in text
    assert "rebalance-audit import FOLDER --warehouse" in text


def test_without_the_metadata_log_the_page_says_what_to_give(opened: Open, empty_warehouse: Path) -> None:
    text = said(opened(empty_warehouse, "reassignments"))
    assert "No reassignment and no change of a leader was seen." in text
    assert "__cluster_metadata-0" in text


def test_without_connect_the_page_says_what_to_give(opened: Open, empty_warehouse: Path) -> None:
    assert "No Connect cluster was seen" in said(opened(empty_warehouse, "connect"))


def test_a_table_that_is_gone_is_no_quiet_fleet(opened: Open, tmp_path: Path) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    shutil.rmtree(tmp_path / "w" / "gold" / "incident")
    for view in ("home", "groups"):
        text = said(opened(tmp_path / "w", view))
        assert "A table cannot be read. What rests on it is not known here, and not zero." in text
        what = "gold.incident (incidents: what happened, whose doing it was, what it cost)"
        assert f"{what} was there at the last publication and is not any more; restore it from a backup" in text


def test_lost_files_are_said_and_nothing_else_breaks(opened: Open, tmp_path: Path) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    for file in (tmp_path / "w" / "gold" / "movement").glob("*.parquet"):
        file.unlink()
    text = said(opened(tmp_path / "w", "rebalance", cluster=CLUSTER, rebalance="orders/7"))
    assert "A table cannot be read." in text
    assert re.search(
        r"gold\.movement \(what moved in [\w ,]+\) lacks a file, part-\w+\.parquet; restore it from a backup", text
    )
    assert "generation 7" in text  # what the other tables say of it is there
    assert "SELECT" not in text
    assert "3 incidents open, 1 critical" in said(opened(tmp_path / "w", "home"))


def test_a_page_names_the_damaged_tables_that_it_asks_and_no_others(opened: Open, tmp_path: Path) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    for file in (tmp_path / "w" / "gold" / "connect_task").glob("*.parquet"):
        file.unlink()
    for _ in range(2):  # also where all answers are remembered
        assert "gold.connect_task (" in said(opened(tmp_path / "w", "connect"))
        for view in ("home", "groups", "trust"):
            assert "cannot be read" not in said(opened(tmp_path / "w", view))


LOST = [
    # the table, the page, what it must not say without it, what it says
    ("incident", "home", "No incident open", "Which incidents are open is not known: gold.incident cannot be read."),
    ("incident", "home", "0 open", "Not known: gold.incident cannot be read."),
    ("incident", "groups", "0 of", "Which groups have open incidents is not known: gold.incident cannot be read"),
    ("incident", "group", "None.", "Its incidents Not known: gold.incident cannot be read."),
    ("incident", "incident", "Nothing is known of", "is not known: gold.incident cannot be read."),
    ("rebalance", "home", "No rebalance in this time", "Not known: gold.rebalance cannot be read."),
    ("rebalance", "groups", "0 rebalanced", "how many rebalanced is not known, since gold.rebalance cannot be read"),
    ("rebalance", "group", "none of its rebalances was seen", "Not known: gold.rebalance cannot be read."),
    ("rebalance", "rebalance", "Nothing is known of", "is not known: gold.rebalance cannot be read."),
    ("rebalance", "group", "Its incidents Not known", "Its incidents"),
    ("rebalance", "rebalance", "Nothing is known of", "Its incident"),
    ("group", "group", "Nothing is known of", "Its incidents"),
    ("incident", "incident", "a incident", "rebalance-audit doctor -w "),
    ("movement", "rebalance", "No resource stopped", "What moved Not known: gold.movement cannot be read."),
    ("rebalance_member", "rebalance", "no record of", "before and after Not known: gold.rebalance_member cannot"),
    ("rebalance_member", "group", "No member is known", "Not known: gold.rebalance_member cannot be read."),
    ("finding", "findings", "Nothing was found", "Not known: gold.finding cannot be read."),
    ("connect_task", "connect", "No task was seen", "Not known: gold.connect_task cannot be read."),
    ("reassignment", "reassignments", "Nothing is moving", "Not known: gold.reassignment cannot be read."),
    ("leader_election", "reassignments", "leaders None", "Not known: gold.leader_election cannot be read."),
    (
        "coverage",
        "trust",
        "Nothing is known to be missing",
        "What was seen is not known: gold.coverage cannot be read.",
    ),
    ("check", "trust", "No check has run", "Whether the checks hold is not known: gold.check cannot be read."),
    ("group", "home", "Nothing has been audited yet", "3 incidents open, 1 critical"),
    ("group", "groups", "No group matches", "Not known: gold.group cannot be read."),
    ("group", "rebalance", "Nothing has been audited yet", "In numbers"),
]


@pytest.mark.parametrize(("table", "view", "lie", "truth"), LOST, ids=lambda text: re.sub(r"\W+", "-", text)[:24])
def test_what_a_lost_table_held_is_not_known_rather_than_none(
    opened: Open, tmp_path: Path, table: str, view: str, lie: str, truth: str
) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    found = Questions.open(tmp_path / "w").rows("SELECT incident_id FROM gold.incident ORDER BY 1")[0]["incident_id"]
    params = {
        "group": {"cluster": CLUSTER, "group": "orders"},
        "rebalance": {"cluster": CLUSTER, "rebalance": "orders/7"},
        "incident": {"cluster": CLUSTER, "incident": found},
        "connect": {"cluster": CLUSTER, "group": "connect-lab"},
    }.get(view, {})
    lost = list((tmp_path / "w" / "gold" / table).rglob("*.parquet"))
    assert lost
    for file in lost:
        file.unlink()
    text = said(opened(tmp_path / "w", view, **params))
    assert lie not in text
    assert truth in text
    assert FAILED not in text


def test_rows_of_another_shape_cost_their_part_of_the_page(opened: Open, tmp_path: Path) -> None:
    gold_rows.write(tmp_path / "w", many=0)
    (file,) = (tmp_path / "w" / "gold" / "check").glob("*.parquet")
    pq.write_table(pq.read_table(file).drop_columns(["check_name"]), file)
    text = said(opened(tmp_path / "w", "trust"))
    assert "A table cannot be read." in text
    assert "gold.check (checks of the tables) has no column check_name: another release wrote it" in text
    assert "What was seen, source by source" in text
    assert "Whether the checks hold is not known: gold.check cannot be read." in text
    assert "No check has run yet" not in text
    assert FAILED not in text


def test_a_wrong_query_of_ours_is_not_blamed_on_the_warehouse(
    opened: Open, full_warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Questions, "undecoded_counts", lambda self: self.rows("SELECT nonsense FROM gold.incident"))
    text = said(opened(full_warehouse, "trust"))
    assert FAILED in text
    assert f"The fault is ours: it is in this page of rebalance-audit {__version__} (BinderException)" in text
    assert "The warehouse cannot be read." not in text


def test_a_part_that_fails_costs_itself_and_not_the_page(
    opened: Open, full_warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fragment's error is Streamlit's box, with a traceback, unless somebody catches it."""
    monkeypatch.setattr(Questions, "groups", lambda self, span: self.rows("SELECT nonsense FROM gold.incident"))
    at = opened(full_warehouse, "groups")
    text = said(at)
    assert "Which groups need care?" in text
    assert "This part of the page cannot be shown. The fault is ours: it is in this part of the page" in text
    assert "nonsense" not in text
    assert FAILED not in text
    assert not at.exception
