"""`explain` of groups, from recorded evidence: what is shown, in which form, and what is refused."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.domain import tables
from rebalance_audit.domain.detect import eras
from tests.commands.saying import EAGER, GOLDEN, assert_one_sentence
from tests.domain.reassign.stories import MetadataStory
from tests.ingest.test_metadata import batches, folder, log_name


def test_explain_without_a_group_names_those_that_are_worth_it(call: Any) -> None:
    """Clients' truth: c3 was killed, and its six partitions waited for its session to end."""
    result = call("explain", "--evidence", str(EAGER))
    assert result.status == 0
    assert result.out.startswith("c3 of orders-app sent no heartbeat until its session expired; 1 rebalance, ")
    (row,) = json.loads(call("explain", "--evidence", str(EAGER), "-o", "json").out)
    assert (row["group_id"], row["rebalance_count"], row["status"]) == ("orders-app", 8, "open")
    assert row["cost_lower_seconds"] <= row["cost_seconds"] <= row["cost_upper_seconds"]


def test_explain_shows_every_rebalance_of_a_recorded_group(call: Any) -> None:
    result = call("explain", "orders-app", "--evidence", EAGER, "-q")
    assert result.status == 0
    assert result.err == ""
    truth = json.loads((EAGER / "truth" / "scenario.json").read_text())["groups"]["orders-app"]["rebalances"]
    for row in truth:
        assert f" {row['number']}   " in result.out
    assert "c3 (/127.0.0.1) sent no heartbeat for its session timeout of 10 s" in result.out
    assert "record:__consumer_offsets-1@73" in result.out
    assert "no logs were given" not in result.out


@pytest.mark.parametrize("group", [[], ["stormy-app"]])
def test_explain_judges_by_the_limits_of_the_settings(call: Any, tmp_path: Path, group: list[str]) -> None:
    storm = ["explain", *group, "--evidence", GOLDEN / "4.3.0" / "storm", "-q"]
    assert "stormy-app rebalanced" in " ".join(call(*storm).out.split())
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        "warehouse: /nowhere\nlimits:\n  - {group: 'stormy-*', storm_short_count: 500, storm_long_count: 500}\n"
    )
    result = call(*storm, "--config", settings)
    assert result.status == 0
    assert "stormy-app rebalanced" not in " ".join(result.out.split())


def test_a_storm_over_eras_is_told_of_a_folder_as_of_the_tables(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(eras, "ERA_REBALANCES", 5)
    settings, folder, w = tmp_path / "settings.yaml", GOLDEN / "4.3.0" / "storm", tmp_path / "w"
    settings.write_text(
        f"warehouse: {w}\nlimits:\n  - {{group: 'stormy-*', storm_short_count: 2, storm_long_count: 4}}\n"
    )
    assert call("import", folder, "-w", w, "-q").status == 0
    assert call("run", "-w", w, "-q", "--config", settings).status == 0
    told = [
        json.loads(call("explain", "stormy-app", *of, "-o", "json", "--config", settings).out)["incidents"]
        for of in (("-w", w), ("--evidence", folder))
    ]
    assert told[0] == told[1]
    assert any("stormy-app rebalanced 10 times" in i["title"] for i in told[1])  # the first era is no storm yet


def test_a_broker_that_failed_is_blamed_in_a_folder_as_in_the_tables(call: Any, tmp_path: Path) -> None:
    """The scenario kills a coordinator three seconds after it froze members of three groups."""
    folder, w = GOLDEN / "3.3.2" / "lost_with_its_coordinator", tmp_path / "w"
    assert call("import", folder, "-w", w, "-q").status == 0
    assert call("run", "-w", w, "-q").status == 0
    told = [json.loads(call("explain", *of, "-o", "json").out) for of in (("-w", w), ("--evidence", folder))]
    for of_tables, of_folder in zip(*told, strict=True):
        assert of_folder == {**of_tables, "cost_seconds": pytest.approx(of_tables["cost_seconds"])}
        assert of_folder["incident"].startswith("Broker 2 died, stood still or was cut off; 3 members of 3 groups")
    assert len(told[1]) == 3


def test_explain_without_logs_says_what_it_lacks(call: Any, tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(EAGER / "data")
    result = call("explain", "orders-app", "--evidence", tmp_path)
    assert result.status == 0
    assert "no logs were given" in " ".join(result.out.split())


def test_explain_reads_a_data_directory_in_place_with_its_logs(call: Any) -> None:
    result = call(
        "explain", "orders-app", "--data-dir", EAGER / "data" / "broker-1", "--node", "broker-1", "--logs",
        EAGER / "logs" / "broker-1",
    )  # fmt: skip
    whole = call("explain", "orders-app", "--evidence", EAGER)
    assert result.status == 0
    assert result.out == whole.out


def test_explain_as_json_holds_the_same_rebalances(call: Any) -> None:
    result = call("explain", "orders-app", "--evidence", EAGER, "-o", "json")
    found = json.loads(result.out)
    assert found["group_id"] == "orders-app"
    assert len(found["rebalances"]) == 8


def test_explain_as_rows_has_the_columns_of_gold_rebalance(call: Any) -> None:
    rows = [
        json.loads(line) for line in call("explain", "orders-app", "--evidence", EAGER, "-o", "jsonl").out.splitlines()
    ]
    assert [row["generation_id"] for row in rows] == list(range(1, 9))
    assert list(rows[0]) == [column.name for column in tables.GOLD_REBALANCE.columns]


def test_explain_can_be_asked_for_the_latest_only(call: Any) -> None:
    # The last three rebalances of the capture lie within 20 s of its end.
    result = call("explain", "orders-app", "--evidence", EAGER, "--last", "20s", "-o", "jsonl")
    assert [json.loads(line)["generation_id"] for line in result.out.splitlines()] == [6, 7, 8]
    assert "6 older rebalances left out" in call("explain", "orders-app", "--evidence", EAGER, "--latest", "2").out
    result = call("explain", "orders-app", "--evidence", EAGER, "--latest", "2", "-o", "jsonl")
    assert [json.loads(line)["generation_id"] for line in result.out.splitlines()] == [7, 8]


def test_explain_refuses_to_look_at_no_time(call: Any) -> None:
    result = call("explain", "orders-app", "--evidence", EAGER, "-q", "--last", "0s")
    assert_one_sentence(result, 2)
    assert "--last 0s is no time at all" in result.err


def test_explain_finds_a_connect_group_and_its_tasks(call: Any) -> None:
    result = call("explain", "connect-lab", "--evidence", GOLDEN / "4.3.0" / "connect_worker_lost")
    assert result.status == 0
    assert "Connect's scheduled delay ended" in result.out


def test_explain_shows_a_group_of_leaders_that_moved_beside_it(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    copy = tmp_path / "copy"
    shutil.copytree(EAGER, copy)
    first = json.loads(call("explain", "orders-app", "--evidence", EAGER, "-o", "jsonl").out.splitlines()[1])
    at_ms = first["started_at_ms"] - 2_000
    story = MetadataStory(node="broker-1").at(at_ms - 60_000).topic("__consumer_offsets", (1, 2))
    story.at(at_ms).change(0, leader=2)
    folder(copy, "broker-1", {log_name(0): batches(story.sources)})
    result = call("explain", "orders-app", "--evidence", copy, "-q")
    assert result.status == 0, result.err
    lines = result.out[result.out.index("Leaders that moved beside it:") :].splitlines()
    assert all(len(line) <= 60 for line in lines)
    told = " ".join(" ".join(lines[1:]).split())
    assert "the coordinator moved: __consumer_offsets-0, broker 2 leads it now, broker 1 did" in told
    assert told.endswith("a rebalance began 2 s later evidence metadata:broker-1@2")
    (move,) = json.loads(call("explain", "orders-app", "--evidence", copy, "-o", "json").out)["leader_moves"]
    assert (move["rebalance_id"], move["after_ms"]) == (first["rebalance_id"], 2_000)


def test_explain_says_what_it_could_not_read_and_from_when_to_when_it_did(call: Any, tmp_path: Path) -> None:
    """A segment that was copied in part, beside a topic that is left out on purpose."""
    copy = tmp_path / "copy"
    shutil.copytree(EAGER, copy)
    (packed,) = (copy / "data" / "broker-1" / "__consumer_offsets-1").glob("*.log.gz")
    whole = gzip.decompress(packed.read_bytes())
    packed.unlink()
    packed.with_suffix("").write_bytes(whole[: len(whole) // 2])
    (other := copy / "data" / "broker-1" / "orders-0").mkdir()
    (other / packed.with_suffix("").name).touch()
    said = " ".join(call("explain", "orders-app", "--evidence", copy, "-q").out.split())
    assert "Not seen: broker-1/__consumer_offsets-1/00000000000000000000.log at byte " in said
    assert ": the file ends inside a batch;" in said
    assert "topic that holds" not in said
    assert "The evidence covers 2026-11-21 16:" in said


@pytest.mark.parametrize("group", [[], ["orders-app"]])
def test_a_folder_of_which_nothing_can_be_read_is_said(call: Any, tmp_path: Path, group: list[str]) -> None:
    (segments := tmp_path / "data" / "b1" / "__consumer_offsets-0").mkdir(parents=True)
    (segments / "00000000000000000000.log").write_bytes(bytes(range(200)))
    result = call("explain", *group, "--evidence", tmp_path)
    assert result.status == 1
    assert ("nor any other is in the evidence" if group else "No group is in the evidence") in result.err
    assert "Not read: b1/__consumer_offsets-0/00000000000000000000.log at byte 0: " in result.err


def test_an_unknown_group_is_answered_with_the_ones_that_are_there(call: Any) -> None:
    result = call("explain", "order-app", "--evidence", EAGER)
    assert_one_sentence(result, status=2)
    assert "Did you mean: orders-app?" in result.err


def test_what_is_no_evidence_folder_is_said(call: Any, tmp_path: Path) -> None:
    result = call("explain", "g", "--evidence", tmp_path)
    assert_one_sentence(result)
    assert "data/" in result.err


def test_a_folder_without_logs_is_said(call: Any, tmp_path: Path) -> None:
    result = call("explain", "g", "--evidence", EAGER, "--logs", tmp_path)
    assert_one_sentence(result, status=2)
    assert "no *.log file" in result.err


def test_a_broker_that_is_not_there_is_said(call: Any) -> None:
    result = call("explain", "g", "-b", "127.0.0.1:1", "-X", "socket.connection.setup.timeout.ms=1000")
    assert_one_sentence(result)
    assert "127.0.0.1:1" in result.err


def test_a_zone_of_logs_that_is_none_is_refused(call: Any) -> None:
    result = call("explain", "orders-app", "--evidence", EAGER, "--log-time-zone", "Mars")
    assert_one_sentence(result, status=2)


def test_a_story_of_connect_stands_once_within_its_incident_the_oldest_link_first(call: Any) -> None:
    """The lost worker is one trouble: the incident and what Connect's protocol does about it are one block."""
    text = call("explain", "connect-lab", "--evidence", GOLDEN / "4.3.0" / "connect_worker_lost").out
    incident = text[text.index("Incident (warning, open, state not known since 2026") :].partition("\n\n")[0]
    assert "Connect waits for its return" in incident
    assert "Connect waits for its return" not in text.replace(incident, "")
    assert "went and did not come back" not in text  # the story's own title, beside the incident's
    times = [line.split(" UTC")[0].strip() for line in incident.splitlines() if " UTC  " in line]
    assert len(times) == 3
    assert times == sorted(times)
    assert "alpha changed, and no other connector stood still" in text  # of no incident: it stays on its own


def test_what_is_named_to_explain_next_works_as_typed(call: Any, tmp_path: Path) -> None:
    """Two clusters have a group of this name."""
    for name in ("one", "two"):
        assert call("import", EAGER, "-w", tmp_path / "w", "--cluster-id", name, "-q").status == 0
    assert call("run", "-w", tmp_path / "w", "--engine", "local", "-q").status == 0
    listed = call("explain", "-w", tmp_path / "w").out
    command = listed.rpartition("`rebalance-audit ")[2].partition("`")[0]
    assert command == "explain orders-app --cluster-id one"
    assert call(*command.split(), "-w", tmp_path / "w").status == 0
