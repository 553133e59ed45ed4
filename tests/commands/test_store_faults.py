"""Verbs on an object store that turns read-only or full, or whose credentials expire, at each request but the last."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import obstore
import pyarrow.parquet as pq
import pytest

from rebalance_audit import cli
from rebalance_audit.warehouse import object_store as client
from rebalance_audit.warehouse.storage import located
from rebalance_audit.warehouse.warehouse import Warehouse
from tests import object_store as faults
from tests.app import gold_rows
from tests.captures import GOLDEN
from tests.object_store import Fault, ObjectStore

CAPTURE = str(GOLDEN / "4.3.0" / "eager_join_leave_kill")
KINDS: dict[str, tuple[Callable[[int], Fault], str]] = {
    "expired": (faults.expired, "have expired or are no longer accepted"),
    "read-only": (lambda after: faults.refuses_writes(*faults.READ_ONLY, after=after), "refuses this; the user needs"),
    "full": (lambda after: faults.refuses_writes(*faults.FULL, after=after), "is full; free some space"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "w"
    gold_rows.write(folder, many=0)
    return folder


@pytest.fixture
def location(made: Path, object_store: ObjectStore, asks_twice: None) -> str:
    """The same warehouse in a store."""
    name = f"faults-{uuid.uuid4().hex[:8]}"
    object_store.make_bucket(name)
    bucket, _ = client.bucket(f"s3://{name}/w")
    for file in made.rglob("*"):
        if file.is_file():
            obstore.put(bucket, f"w/{file.relative_to(made)}", file.read_bytes())
    return f"s3://{name}/w"


def rows(location: str, table: str) -> int:
    """As readers see it."""
    return Warehouse.open(location).query(f"SELECT 1 FROM {table}").num_rows


@pytest.mark.parametrize(
    ("verb", "table", "kind"),
    [("mark", "gold.mark", "expired"), ("mark", "gold.mark", "read-only"), ("ack", "gold.response", "expired")],
)
def test_what_is_written_is_there_whole_or_not_at_all(
    object_store: ObjectStore, location: str, capfd: pytest.CaptureFixture[str], verb: str, table: str, kind: str
) -> None:
    fault, said = KINDS[kind]
    [incident] = Warehouse.open(location).query("SELECT min(incident_id) i FROM gold.incident").column(0).to_pylist()
    more = {"mark": ["--at", "2026-11-21T00:00", "--text", "v7"], "ack": [incident, "--reason", "rolling back"]}
    before = kept = rows(location, table)
    after, status = 0, 1
    while status:
        object_store.fault = fault(after)
        status = cli.run([verb, *more[verb], "-w", location])
        object_store.fault = None
        [line] = capfd.readouterr().err.splitlines()
        now = rows(location, table)
        if status:
            assert line.startswith(f"rebalance-audit: {location}: "), line
            assert said in line
            assert now in (kept, kept + 1)  # 1: what was refused came after it, as giving the lease back does
            after += 17 if kind == "expired" else 3
        kept = now
    assert after > 0
    assert kept == before + 1 if verb == "mark" else kept > before  # of marks, the same one twice is one


@pytest.mark.parametrize("kind", KINDS)
def test_an_import_that_is_refused_leaves_whole_files_and_is_finished_by_the_next(
    object_store: ObjectStore, location: str, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    fault, said = KINDS[kind]
    for after in range(20):
        object_store.fault = fault(after)
        status = cli.run(["import", CAPTURE, "-w", location])
        object_store.fault = None
        lines = capfd.readouterr().err.splitlines()
        assert len(lines) == 1, lines
        if status == 0:
            break
        assert said in lines[0]
    assert 0 < after < 19
    opened = Warehouse.open(location)
    files = {noun: opened.landed(noun) for noun in ("record", "log_line", "source")}
    found = {
        noun: [
            row for name in names for row in pq.read_table(located(name)[1], filesystem=located(name)[0]).to_pylist()
        ]
        for noun, names in files.items()
    }
    assert len({(r["topic"], r["partition"], r["offset"]) for r in found["record"]}) == 281
    assert len({(r["node"], r["file_name"], r["byte"]) for r in found["log_line"]}) == 308


@pytest.mark.parametrize("words", [["export", "rebalance", "-o", "csv"], ["explain", "payments"]], ids=" ".join)
def test_a_reader_says_when_credentials_expire_in_the_middle_and_else_writes_nothing(
    object_store: ObjectStore, location: str, capfd: pytest.CaptureFixture[str], words: list[str]
) -> None:
    for kind, after in (("expired", 0), ("expired", 9), ("read-only", 0)):
        fault, said = KINDS[kind]
        object_store.fault = fault(after)
        status = cli.run([*words, "-w", location])
        object_store.fault = None
        answer = capfd.readouterr()
        if kind == "expired":
            assert (status, answer.out, answer.err.count("\n")) == (1, "", 1)
            assert said in answer.err
        else:
            assert (status, answer.err) == (0, "")


def test_an_auditor_who_may_only_read_verifies_the_log(
    object_store: ObjectStore, store_url: str, asks_twice: None, capfd: pytest.CaptureFixture[str]
) -> None:
    for verb in (["import", "-q", CAPTURE], ["run", "-q"]):
        assert cli.run([*verb, "-w", store_url]) == 0
    object_store.fault = faults.refuses_writes(*faults.READ_ONLY)
    assert cli.run(["audit", "verify", "-w", store_url]) == 0
    assert capfd.readouterr().out.startswith("Intact: ")
    object_store.fault = faults.expired()
    assert cli.run(["audit", "verify", "-w", store_url]) == 1
    assert "have expired" in capfd.readouterr().err
