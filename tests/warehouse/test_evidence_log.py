"""The log of evidence: what is changed, removed or set back is named; our own verbs leave it whole."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from ingest.landing import Landing
from ingest.readings import LogText
from rebalance_audit import cli
from rebalance_audit.domain import tables
from rebalance_audit.domain.merkle import EMPTY, Frontier, leaf_hash, roots
from rebalance_audit.warehouse import row_digests, signing
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.evidence_log import SecondPlace, add_news, adding
from rebalance_audit.warehouse.evidence_log.log_files import CHUNK, HEAD, write_leaves
from rebalance_audit.warehouse.evidence_log.verifying import verify
from rebalance_audit.warehouse.row_digests import digests_by_landing
from rebalance_audit.warehouse.signing import ENVIRONMENT_HEADS, ENVIRONMENT_KEY, Head
from rebalance_audit.warehouse.storage import files_at
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError
from spark_jobs import pipeline
from spark_jobs.engine import LocalEngine
from tests.warehouse import one_page_verifier

GOLDEN = Path(__file__).parents[1] / "golden" / "4.3.0"
CAPTURES = ("cooperative_scale_up", "eager_join_leave_kill")

# The reference tree of Certificate Transparency (RFC 9162's authors publish it with their implementations).
REFERENCE_LEAVES = [
    bytes.fromhex(each)
    for each in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
]
REFERENCE_ROOTS = (
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


def test_roots_are_those_of_the_reference_tree() -> None:
    found = roots([leaf_hash(leaf) for leaf in REFERENCE_LEAVES], range(9))
    assert [found[size].hex() for size in range(1, 9)] == list(REFERENCE_ROOTS)
    assert found[0] == EMPTY


def test_a_frontier_must_fit_its_size() -> None:
    with pytest.raises(ValueError, match="3 leaves has 2 subtrees, not 1"):
        Frontier(3, (EMPTY,))


# ---- a warehouse with two runs, signed


class Site:
    """A warehouse, its key, and the second place of its heads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.warehouse, self.heads, self.key = folder / "w", folder / "heads", folder / "audit.pem"

    def run(self) -> None:
        pipeline.run(str(self.warehouse), engine="local")

    def faults(self, heads: bool = True) -> list[str]:
        found = verify(str(self.warehouse), str(self.heads) if heads else None, signing.public_key(self.key))
        return [fault.sentence for fault in found.faults]

    def by_others(self) -> list[str]:
        return list(one_page_verifier.verify(self.warehouse, self.heads / "heads.jsonl"))

    def file(self, table: str) -> Path:
        return next(f for f in sorted((self.warehouse / table).glob("*.parquet")))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Site:
    site = Site(tmp_path_factory.mktemp("evidence_log"))
    signing.make_key(site.key)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT_KEY, str(site.key))
        patch.setenv(ENVIRONMENT_HEADS, str(site.heads))
        for capture in CAPTURES:
            assert cli.run(["import", "-q", "-w", str(site.warehouse), str(GOLDEN / capture)]) == 0
            site.run()
    return site


@pytest.fixture
def site(made: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    shutil.copytree(made.folder, tmp_path / "site")
    found = Site(tmp_path / "site")
    monkeypatch.setenv(ENVIRONMENT_KEY, str(found.key))
    monkeypatch.setenv(ENVIRONMENT_HEADS, str(found.heads))
    return found


def rewritten(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.read_table(file)), file, compression="zstd")


def test_a_warehouse_nobody_touched_is_intact_for_us_and_for_others(site: Site) -> None:
    assert site.faults() == []
    assert site.by_others() == []
    lines = (site.heads / "heads.jsonl").read_text().splitlines()
    assert [json.loads(line)["size"] for line in lines] == [5, 9]  # begin, three tables, a publication; four more


def test_a_run_without_news_adds_no_leaf(site: Site) -> None:
    before = (site.warehouse / HEAD).read_bytes()
    site.run()
    assert (site.warehouse / HEAD).read_bytes() == before


def test_one_byte_of_bronze(site: Site) -> None:
    file = site.file("bronze/record")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    assert len(site.faults()) == 1
    assert f"bronze/record/{file.name} was changed: it has other bytes; leaf" in site.faults()[0]
    assert any(file.name in each for each in site.by_others())


def test_a_row_of_gold_that_reads_well_but_was_changed(site: Site) -> None:
    file = site.file("gold/rebalance")

    def change(rows: pa.Table) -> pa.Table:
        at = rows.schema.get_field_index("pause_estimate_ms")
        return rows.set_column(
            at, rows.schema.field(at), pc.divide(rows.column(at), 2).cast(rows.schema.field(at).type)
        )

    rewritten(file, change)
    assert [s for s in site.faults() if f"gold/rebalance/{file.name} was changed" in s]


def test_a_file_that_is_gone(site: Site) -> None:
    file = site.file("bronze/log_line")
    file.unlink()
    assert any(s.startswith(f"bronze/log_line/{file.name} is gone") for s in site.faults())


def test_rows_deleted_by_another_program(site: Site) -> None:
    from deltalake import DeltaTable

    DeltaTable(str(site.warehouse / "bronze" / "record")).delete("offset = 3")
    assert "bronze.record: version 3 removes rows, and no verb of ours recorded it." in site.faults()
    assert site.by_others() == ["bronze.record commit 3"]
    assert cli.run(["import", "-q", "-w", str(site.warehouse), str(GOLDEN / "connect_worker_joins")]) == 0
    site.run()  # the log goes on, and says so for ever
    assert any("no verb of ours did it" in s for s in site.faults())
    assert any("bronze.record landing" in s or "landing file" in s for s in [*site.faults(), *site.by_others()])


def test_a_publication_that_was_set_back(site: Site) -> None:
    manifest = site.warehouse / "published.json"
    content = json.loads(manifest.read_text())
    content["versions"]["gold.rebalance"] -= 1
    manifest.write_text(json.dumps(content, indent=1))
    assert any(
        s.startswith("published.json is not what publication 2 wrote: gold.rebalance is at") for s in site.faults()
    )
    assert "published.json" in site.by_others()


def test_a_leaf_that_was_changed(site: Site) -> None:
    chunk = next((site.warehouse / "audit" / "leaves").iterdir())
    chunk.write_bytes(chunk.read_bytes().replace(b'"number":1', b'"number":7'))
    found = site.faults()
    assert any(s.startswith("Leaf 4 of the log was changed") for s in found)
    assert any("leaves were changed, one of leaves 0 to 4" in s for s in found)


def test_a_whole_warehouse_that_was_set_back(site: Site, made: Site, tmp_path: Path) -> None:
    older = site.folder / "older"
    shutil.copytree(site.warehouse, older)
    assert cli.run(["import", "-q", "-w", str(site.warehouse), str(GOLDEN / "connect_worker_joins")]) == 0
    site.run()
    shutil.rmtree(site.warehouse)
    older.rename(site.warehouse)
    assert site.faults(heads=False) == []  # only the second place knows
    assert any(
        s.startswith("The warehouse was set back:") and "knows 13 leaves, here are 9" in s for s in site.faults()
    )
    assert "head of 13 leaves" in site.by_others()
    assert verify(str(site.warehouse), str(site.heads)).unwitnessed == 0  # each leaf that is left has its head there
    assert cli.run(["import", "-q", "-w", str(site.warehouse), str(GOLDEN / "connect_worker_joins")]) == 0
    with pytest.raises(WarehouseError, match="was set back"):
        site.run()  # and no new leaf hides it
    assert json.loads((site.warehouse / HEAD).read_text())["head"]["size"] == 9


def test_a_log_written_anew_with_another_key(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    other = site.folder / "other.pem"
    signing.make_key(other)
    shutil.rmtree(site.warehouse / "audit")
    monkeypatch.setenv(ENVIRONMENT_KEY, str(other))
    monkeypatch.delenv(ENVIRONMENT_HEADS)
    with Warehouse.open(site.warehouse).lease("forge"):
        pass
    found = site.faults()
    assert any("is signed with another key" in s for s in found)
    assert any(s.startswith("The log was replaced") for s in found)
    assert any(each.endswith(" leaves: signature") for each in site.by_others())


def test_no_new_log_is_begun_beside_heads_of_one_that_was_removed(site: Site) -> None:
    """Whoever holds no key removes the folder, and the next run, which has the key, would sign a clean log."""
    shutil.rmtree(site.warehouse / "audit")
    before = (site.heads / "heads.jsonl").read_bytes()
    with pytest.raises(WarehouseError, match="knows a head of 9 leaves: the log was removed"):
        site.run()
    assert not (site.warehouse / HEAD).exists()
    assert (site.heads / "heads.jsonl").read_bytes() == before


def test_a_second_place_that_knows_another_log_shows_that_one_was_replaced(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(site.warehouse / "audit")
    monkeypatch.delenv(ENVIRONMENT_HEADS)
    site.run()  # starts again, signed with the same key
    monkeypatch.setenv(ENVIRONMENT_HEADS, str(site.heads))
    with pytest.raises(WarehouseError, match="ends with a head of another log of evidence"):
        site.run()
    restarted = json.loads((site.warehouse / HEAD).read_text())["head"]
    SecondPlace(str(site.heads)).add(Head(**restarted))  # as a release did that took this for granted
    (sentence,) = site.faults()
    assert sentence.startswith("The log was replaced:")
    assert "with 9 leaves until" in sentence
    assert site.by_others()


def test_a_head_that_was_changed_stops_the_log(site: Site) -> None:
    path = site.warehouse / HEAD
    path.write_text(path.read_text().replace('"at_ms": 1', '"at_ms": 2'))
    assert "The head of 9 leaves in the warehouse is not what was signed." in site.faults()
    assert site.by_others() == ["head of 9 leaves: signature"]
    assert cli.run(["import", "-q", "-w", str(site.warehouse), str(GOLDEN / "connect_worker_joins")]) == 0
    with pytest.raises(WarehouseError, match="is not what was signed, so nothing is added"):
        site.run()


def test_a_lost_head_is_one_sentence(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    (site.warehouse / HEAD).unlink()
    assert cli.run(["audit", "verify", "-w", str(site.warehouse)]) == 1
    assert "is lost, and leaves are there; restore it from a backup made after the last run." in capsys.readouterr().err
    shutil.rmtree(site.warehouse / "audit")
    assert cli.run(["audit", "verify", "-w", str(site.warehouse)]) == 1
    assert "the log was removed" in capsys.readouterr().err
    (site.heads / "heads.jsonl").unlink()
    assert cli.run(["audit", "verify", "-w", str(site.warehouse)]) == 1
    assert "has no signed head: they are lost, or this is not their second place." in capsys.readouterr().err


def test_joining_files_leaves_it_whole(site: Site) -> None:
    before = len(Warehouse.open(site.warehouse).files("bronze.record"))
    assert cli.run(["maintain", "-q", "-w", str(site.warehouse), "--keep", "1h"]) == 0
    assert len(Warehouse.open(site.warehouse).files("bronze.record")) < before
    assert site.faults() == []
    assert site.by_others() == []


def test_rows_that_go_by_a_stated_act_leave_it_whole(site: Site) -> None:
    opened = Warehouse.open(site.warehouse)
    rows = opened.read("bronze.record")
    gone = rows.filter(pc.equal(rows["offset"], 3)).select(["cluster_id", "topic", "partition", "offset"])
    assert gone.num_rows
    with opened.lease("erase"):
        opened.state_act("erase", rows=gone.num_rows)
        opened.replace("bronze.record", rows.slice(0, 0), gone)
    assert site.faults() == []
    assert site.by_others() == []


def test_what_a_killed_writer_left_behind_the_head_is_written_over(site: Site) -> None:
    chunk = next((site.warehouse / "audit" / "leaves").iterdir())
    chunk.write_bytes(chunk.read_bytes() + b"00 {}\n")
    assert site.faults() == []
    assert cli.run(["import", "-q", "-w", str(site.warehouse), str(GOLDEN / "connect_worker_joins")]) == 0
    site.run()
    assert site.faults() == []


def test_a_first_writer_that_is_killed_between_leaves_and_head_loses_no_log(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(site.warehouse / "audit")
    shutil.rmtree(site.heads)

    def killed(*arguments: Any) -> None:
        write_leaves(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(adding, "write_leaves", killed)
    with pytest.raises(KeyboardInterrupt):
        site.run()
    monkeypatch.undo()
    monkeypatch.setenv(ENVIRONMENT_KEY, str(site.key))
    monkeypatch.setenv(ENVIRONMENT_HEADS, str(site.heads))
    assert site.faults(heads=False)  # a publication that no leaf speaks of yet
    site.run()
    assert site.faults() == []
    assert site.by_others() == []


def test_rows_sorted_in_parts_have_the_digests_of_rows_sorted_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema, key = arrow_schema(tables.BY_NAME["bronze.log_line"]), tables.BY_NAME["bronze.log_line"].key

    def written(name: str, landing: str, at: range) -> str:
        rows = [{"cluster_id": "c", "node": "n", "file_name": "f", "file_id": "i", "byte": n, "text": f"x{n}",
                 "landing": landing} for n in at]  # fmt: skip
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / name)
        return str(tmp_path / name)

    apart = [written("1", "a", range(9, 0, -1)), written("2", "b", range(5)), written("3", "c", range(3))]
    shared = [*apart, written("4", "a", range(20, 30))]
    whole = [digests_by_landing(files, schema, key) for files in (apart, shared)]
    monkeypatch.setattr(row_digests, "_PART_BYTES", 1)
    assert [digests_by_landing(files, schema, key) for files in (apart, shared)] == whole

    def in_tasks(byte_count: int) -> Any:
        return LocalEngine().spread

    assert [digests_by_landing(files, schema, key, spread_of=in_tasks) for files in (apart, shared)] == whole
    assert [(landing, d.rows) for landing, d in sorted(whole[1].items())] == [("a", 19), ("b", 5), ("c", 3)]
    assert whole[0]["a"] != whole[1]["a"]


def test_more_leaves_than_one_file_holds(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    landing = Landing(warehouse.location)
    for at in range(3):
        landing.write_log_lines(
            f"l{at}", "c", [LogText(node="1", file_name="server.log", file_id=f"{at}", byte=0, text="é\n")]
        )
        pipeline.run(warehouse, ["bronze"], engine="local")
    with warehouse.lease("many"):
        for number in range(CHUNK):
            warehouse.publish({"gold.group": -1}, {"n": number})
            add_news(warehouse, files_at(warehouse.location))
    assert len(list((tmp_path / "w" / "audit" / "leaves").iterdir())) == 2
    assert one_page_verifier.verify(tmp_path / "w") == []


@pytest.mark.parametrize(
    ("content", "said"),
    [("no pem", "it is no private key in PEM"), (None, "No such file")],
)
def test_a_key_that_is_none_is_one_sentence(site: Site, content: str | None, said: str) -> None:
    site.key.unlink()
    if content is not None:
        site.key.write_text(content)
    assert cli.run(["import", "-q", "-w", str(site.warehouse), str(GOLDEN / "connect_worker_joins")]) == 0
    with pytest.raises(WarehouseError, match=said):
        site.run()


def test_a_key_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "audit.pem"
    assert cli.run(["audit", "key", str(file)]) == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert cli.run(["audit", "key", str(file)]) == 1
    assert "is there already" in capsys.readouterr().err


def test_the_verb_prints_json_and_says_what_it_could_not_see(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["audit", "verify", "-w", str(site.warehouse), "-o", "json"]) == 0
    printed: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (printed["intact"], printed["publications"], printed["heads"]) == (True, 2, 2)
    monkeypatch.delenv(ENVIRONMENT_HEADS)
    site.file("gold/rebalance").unlink()
    assert cli.run(["audit", "verify", "-w", str(site.warehouse)]) == 1
    out, err = capsys.readouterr()
    assert "is gone" in out
    assert "Without --heads a warehouse that was set back as a whole looks intact" in err


def test_a_head_is_the_same_text_whoever_reads_it() -> None:
    head = Head(log="l", size=1, root="00", at_ms=2)
    assert head.message == b'{"at_ms":2,"key":null,"log":"l","root":"00","size":1}'


def test_heads_behind_a_url_are_one_object_each(tmp_path: Path) -> None:
    place = SecondPlace((tmp_path / "heads").as_uri())
    heads = [Head(log="l", size=size, root="00", at_ms=size) for size in (2, 11)]
    for head in heads:
        place.add(head)
    assert place.all() == heads
    assert place.newest() == heads[1]


def test_a_table_of_gold_that_another_program_restored(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    DeltaTable(str(site.warehouse / "gold" / "rebalance")).restore(1)
    said = "gold.rebalance: version 3 removes rows, and another program wrote it"
    assert site.faults() == [f"{said} (no publication has it yet)."]
    assert cli.run(["import", "-q", "-w", str(site.warehouse), str(GOLDEN / "static_restart")]) == 0
    clock = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: clock() - 3 * 3_600_000_000_000)
    site.run()
    assert site.faults() == [f"{said} (leaf 12)."]  # the next publication does not hide it
    found = verify(str(site.warehouse), str(site.heads))
    assert len(found.clock_back) == 1
    assert found.clock_back[0].startswith("Leaf 9 says ")
    assert found.unwitnessed == 0


def test_what_people_answered_is_in_the_log(site: Site) -> None:
    assert cli.run(["silence", "orders*", "-w", str(site.warehouse), "--until", "2h", "--reason", "migration"]) == 0
    assert verify(str(site.warehouse), str(site.heads)).not_yet == ["gold.response"]
    site.run()
    assert (site.faults(), site.by_others()) == ([], [])
    file = site.file("gold/response")
    rewritten(file, lambda rows: rows.set_column(rows.schema.get_field_index("by"), "by", pa.array(["nobody"])))
    assert site.faults()[0].startswith(f"gold/response/{file.name} was changed: ")
    assert site.by_others() == [f"gold.response {file.name}"]


@pytest.mark.parametrize("table", ["gold/rebalance", "bronze/record"])
def test_a_delta_commit_that_reads_well_but_was_changed(site: Site, table: str) -> None:
    """The statistics in it are what other programs pass over files by."""
    commit = site.warehouse / table / "_delta_log" / f"{1:020d}.json"
    commit.write_bytes(commit.read_bytes().replace(b"numRecords", b"numrecords"))
    (said,) = site.faults()
    assert said.startswith(f"{table.replace('/', '.')}: the commit of its version 1 was changed; leaf ")
    assert site.by_others() == [f"{table.replace('/', '.')} commit 1"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ('"bronze.record": 2', '"bronze.record": 1', "it says bronze.record is logged up to version 1, leaves say 2"),
        ('"publications": 2', '"publications": 3', "it names another publication than the last leaf of one"),
    ],
)
def test_what_the_head_keeps_beside_itself_is_held_against_the_leaves(
    site: Site, before: str, after: str, said: str
) -> None:
    head = site.warehouse / HEAD
    assert before in head.read_text()
    head.write_text(head.read_text().replace(before, after))
    assert site.faults() == [f"{HEAD} is signed, and what it keeps beside the head was changed: {said}."]


def test_any_byte_of_the_leaves_is_named_and_breaks_nothing(site: Site) -> None:
    leaves = next((site.warehouse / "audit" / "leaves").iterdir())
    content = leaves.read_bytes()
    rng = random.Random(7)
    for at in rng.sample(range(len(content)), 12):
        leaves.write_bytes(content[:at] + bytes([content[at] ^ (1 << rng.randrange(8))]) + content[at + 1 :])
        assert site.faults(), content[at - 20 : at + 20]
        if content[content.rfind(b"\n", 0, at) + 1 : at].find(b" ") >= 0:  # in a leaf; the hash beside it is for us
            assert site.by_others()


def test_a_delta_log_without_its_first_commit_is_named(site: Site) -> None:
    (site.warehouse / "bronze" / "record" / "_delta_log" / f"{0:020d}.json").unlink()
    assert len(site.faults()) == 1
    assert site.faults()[0].startswith("bronze.record: its Delta log cannot be read (")


def test_a_second_place_without_the_newest_head_is_said(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    heads = site.heads / "heads.jsonl"
    heads.write_bytes(heads.read_bytes().splitlines(keepends=True)[0])
    assert cli.run(["audit", "verify", "-w", str(site.warehouse), "--heads", str(site.heads)]) == 0
    assert "of the last 4 leaves it shows nothing" in capsys.readouterr().err
