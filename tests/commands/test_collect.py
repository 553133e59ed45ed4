"""`import` and `collect`: what is landed, and what is refused before anything is stored."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.warehouse.warehouse import Warehouse
from tests.commands.saying import EAGER, GOLDEN, assert_one_sentence


def test_importing_twice_lands_nothing_new(call: Any, tmp_path: Path) -> None:
    first = call("import", EAGER, "-w", tmp_path / "w")
    assert first.status == 0
    assert first.out == ""
    assert "Landed 281 records" in first.err  # as batch headers count: 103 of groups, 178 of metadata
    landed = Warehouse.open(tmp_path / "w").landed("record")
    again = call("import", EAGER, "-w", tmp_path / "w")
    assert again.status == 0
    assert "Landed 0 records" in again.err
    assert Warehouse.open(tmp_path / "w").landed("record") == landed


@pytest.mark.parametrize("quiet", [(), ("-q",)])
def test_a_folder_of_which_nothing_can_be_read_is_an_error(call: Any, tmp_path: Path, quiet: tuple[str, ...]) -> None:
    (segments := tmp_path / "data" / "b1" / "__consumer_offsets-0").mkdir(parents=True)
    (segments / "00000000000000000000.log").write_bytes(bytes(range(200)))
    result = call("import", *quiet, tmp_path, "-w", tmp_path / "w")
    assert result.status == 1
    assert "Nothing of what was given could be read: b1/__consumer_offsets-0/" in result.err


def test_a_folder_that_is_not_empty_is_not_made_a_warehouse(call: Any, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("mine")
    result = call("import", EAGER, "-w", tmp_path)
    assert_one_sentence(result)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_nothing_to_collect_from_is_said(call: Any, tmp_path: Path) -> None:
    assert_one_sentence(call("collect", "-w", tmp_path / "w"), status=2)


def test_a_metadata_log_is_collected_and_explained_in_place(call: Any, moved: Path, tmp_path: Path) -> None:
    node = moved / "data" / "controller-100"
    result = call("collect", "-w", tmp_path / "w", "--metadata", node, "--until-end")
    assert_one_sentence(result)
    assert "--cluster-id" in result.err
    (node / "meta.properties").write_text("cluster.id=theirs\nnode.id=100\n")
    result = call("collect", "-w", tmp_path / "w", "--metadata", node, "--until-end")
    assert (result.status, "Landed 4 records of cluster theirs." in result.err) == (0, True), result.err
    result = call("collect", "-w", tmp_path / "w", "--metadata", node, "--until-end", "--cluster-id", "ours")
    assert_one_sentence(result)
    assert "node-100 is of cluster theirs, not ours" in result.err
    explained = call("explain", "--reassignment", "orders-0", "--metadata", f"c1={node}", "-q")
    assert explained.status == 0, explained.err
    assert "metadata:c1@2" in explained.out


def test_a_folder_of_logs_is_no_pattern(call: Any, tmp_path: Path) -> None:
    folder = tmp_path / "broker [1]*"
    folder.mkdir()
    text = gzip.decompress((GOLDEN / "4.3.0/eager_join_leave_kill/logs/broker-1/server.log.gz").read_bytes())
    (folder / "server.log").write_bytes(text)
    call("collect", "-w", tmp_path / "w", "--logs", folder, "--cluster-id", "ours", "--until-end")
    assert Warehouse.open(tmp_path / "w").landed("log_line")


@pytest.mark.parametrize("verb", ["collect", "watch"])
def test_what_names_nothing_to_follow_makes_no_warehouse(call: Any, tmp_path: Path, verb: str) -> None:
    for given in ([], ["--logs", EAGER / "logs" / "broker-1"]):
        assert_one_sentence(call(verb, "-w", tmp_path / "w", *given), status=2)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("target", "why"), [("nonsense", "is no URL"), ("foo://bar", "is no alert target")])
def test_watch_refuses_a_target_that_takes_nothing_before_it_follows(
    call: Any, tmp_path: Path, target: str, why: str
) -> None:
    logs = EAGER / "logs" / "broker-1"
    result = call("watch", "-w", tmp_path / "w", "--logs", logs, "--cluster-id", "ours", "--to", target)
    assert_one_sentence(result, status=2)
    assert why in result.err
    assert list(tmp_path.iterdir()) == []


def test_a_zone_that_is_none_is_refused_before_anything_is_stored(call: Any, tmp_path: Path) -> None:
    """Beside stored lines it would stop every later run."""
    result = call("import", EAGER, "-w", tmp_path / "w", "--log-time-zone", "Mars")
    assert_one_sentence(result, status=2)
    assert "'Mars' is neither a zone like Europe/Berlin" in result.err
    copy = tmp_path / "copy"
    (copy / "logs").mkdir(parents=True)
    (copy / "logs" / "broker-1").symlink_to(EAGER / "logs" / "broker-1")
    (copy / "meta.json").write_text('{"log_time_zone": "+99:00"}')
    result = call("import", copy, "-w", tmp_path / "w")
    assert_one_sentence(result)
    assert "meta.json: log_time_zone: '+99:00' is more than any zone is away from UTC." in result.err
    assert not (tmp_path / "w").exists()
