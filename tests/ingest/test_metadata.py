"""The metadata log in the folders of brokers and controllers; files written by the tests' own encoder, and captures."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from ingest.metadata import MetadataLog, metadata_folders, metadata_runs
from rebalance_audit.domain.metadata import MetadataReader, SourceMetadata, metadata_of_bronze, topic_names
from rebalance_audit.domain.reassign import kraft_history
from tests.captures import CAPTURES, name_of
from tests.domain.metadata.encoder import record, topic_id
from tests.domain.reassign.stories import MetadataStory
from tests.ingest.batch_encoder import a_batch, a_record

CONTROL = 0x20
WITH_METADATA = [capture for capture in CAPTURES if list(capture.glob("data/*/__cluster_metadata-0"))]


def batch(sources: list[SourceMetadata]) -> bytes:
    """One batch of neighbours of the same kind."""
    first = sources[0]
    records = [
        a_record(s.offset - first.offset, s.key, s.value, timestamp_delta=s.timestamp_ms - first.timestamp_ms)
        for s in sources
    ]
    return a_batch(
        first.offset,
        records,
        base_timestamp=first.timestamp_ms,
        max_timestamp=sources[-1].timestamp_ms,
        attributes=CONTROL if first.is_control else 0,
        leader_epoch=first.epoch or 0,
    )


def batches(sources: list[SourceMetadata]) -> bytes:
    return b"".join(batch([source]) for source in sources)


def folder(root: Path, node: str, files: dict[str, bytes]) -> Path:
    place = root / "data" / node / "__cluster_metadata-0"
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (place / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return root


def log_in(root: Path) -> MetadataLog:
    nodes = {path.name: path for path in sorted((root / "data").glob("*"))}
    return MetadataLog("lab", metadata_folders(nodes))


def read(root: Path) -> tuple[list[SourceMetadata], MetadataLog]:
    log = log_in(root)
    return list(log.records()), log


def a_story() -> MetadataStory:
    story = MetadataStory().at(1_000).topic("orders", (1, 0, 2))
    story.at(10_000).change(replicas=(2, 3, 5, 0, 1), adding=(3, 5), removing=(0, 1))
    return story.at(20_000).change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), adding=(), removing=())


def log_name(offset: int) -> str:
    return f"{offset:020d}.log"


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    story = a_story()
    folder(tmp_path, "controller-100", {log_name(0): batches(story.sources)})
    assert read(tmp_path)[0] == story.sources


def test_copies_of_three_nodes_are_one_log_and_what_only_one_holds_is_not_sure(tmp_path: Path) -> None:
    story = a_story()
    for node, count in (("controller-100", 4), ("controller-101", 4), ("controller-102", 3)):
        folder(tmp_path, node, {log_name(0) + ".gz": batches(story.sources[:count])})
    sources, log = read(tmp_path)
    assert [s.offset for s in sources] == [0, 1, 2, 3]
    assert not len(log.problems)
    folder(tmp_path, "controller-101", {log_name(0) + ".gz": batches(story.sources[:3])})
    _, log = read(tmp_path)
    assert [(problem.code, problem.position) for problem in log.problems] == [("above_majority", 3)]


def test_a_truncated_tail_is_used_as_far_as_it_goes(tmp_path: Path) -> None:
    story = a_story()
    folder(tmp_path, "controller-100", {log_name(0): batches(story.sources)[:-7]})
    sources, log = read(tmp_path)
    assert [s.offset for s in sources] == [0, 1, 2]
    assert "ends inside a batch" in next(iter(log.problems)).sentence
    assert [r.outcome for r in kraft_history(sources, cluster_id="lab").reassignments] == ["open"]


def a_checkpoint(end_offset: int) -> MetadataStory:
    story = MetadataStory(node="controller-100")
    story.snapshot_begins(end_offset, 9_000).topic("orders").partition(
        0, (2, 3, 5, 0, 1), isr=(0, 1, 2), adding=(3, 5), removing=(0, 1), leader=1
    )
    return story.snapshot_ends()


def the_rest(first_offset: int) -> MetadataStory:
    story = MetadataStory(first_offset=first_offset).at(20_000)
    return story.change(isr=(2, 3, 5), leader=2, replicas=(2, 3, 5), adding=(), removing=())


CHECKPOINT = "00000000000000000500-0000000001.checkpoint"


def test_a_checkpoint_stands_for_what_the_log_does_not_hold_any_more(tmp_path: Path) -> None:
    files = {log_name(500): batches(the_rest(500).sources), CHECKPOINT: batches(a_checkpoint(500).sources)}
    sources, _ = read(folder(tmp_path, "controller-100", files))
    reader = MetadataReader()
    (attempt,) = kraft_history(sources, cluster_id="lab", reader=reader).reassignments
    assert (attempt.outcome, attempt.ended_at_ms, attempt.is_complete_evidence) == ("completed", 20_000, False)
    assert reader.gaps == []
    assert sources[1].ref == "metadata:controller-100@00000000000000000500-0000000001:1"


@pytest.mark.parametrize("name", [CHECKPOINT + ".part", CHECKPOINT + ".deleted", CHECKPOINT.replace("0000000001", "1")])
def test_checkpoints_that_are_being_written_or_deleted_are_not_read(tmp_path: Path, name: str) -> None:
    files = {log_name(500): batches(the_rest(500).sources), name: batches(a_checkpoint(500).sources)}
    sources, _ = read(folder(tmp_path, "controller-100", files))
    assert all(source.snapshot is None for source in sources)


def test_a_checkpoint_without_its_footer_is_not_used(tmp_path: Path) -> None:
    files = {log_name(500): batches(the_rest(500).sources), CHECKPOINT: batches(a_checkpoint(500).sources[:-1])}
    sources, log = read(folder(tmp_path, "controller-100", files))
    assert all(source.snapshot is None for source in sources)
    assert "no footer" in next(iter(log.problems)).sentence


def test_the_first_checkpoint_that_leads_into_the_log_is_taken(tmp_path: Path) -> None:
    files = {
        log_name(500): batches(the_rest(500).sources),
        CHECKPOINT: batches(a_checkpoint(500).sources),
        CHECKPOINT.replace("500-", "400-"): batches(a_checkpoint(400).sources),
        CHECKPOINT.replace("500-", "501-"): batches(a_checkpoint(501).sources),
    }
    sources, _ = read(folder(tmp_path, "controller-100", files))
    assert {source.snapshot for source in sources} == {(500, 1), None}


def test_a_log_from_its_beginning_needs_no_checkpoint(tmp_path: Path) -> None:
    files = {log_name(0): batches(a_story().sources), CHECKPOINT.replace("500-", "002-"): b"never opened as a whole"}
    sources, _ = read(folder(tmp_path, "controller-100", files))
    assert all(source.snapshot is None for source in sources)


def test_secrets_are_gone_from_what_leaves(tmp_path: Path) -> None:
    secret = record(4, 0, {"resourceType": 4, "resourceName": "1", "name": "ssl.key.password", "value": "hunter2"})
    story = MetadataStory().write(secret).write(b"\x01\x0b\x00hunter2")
    log = log_in(folder(tmp_path, "controller-100", {log_name(0): batches(story.sources)}))
    runs = list(metadata_runs(log.records()))
    assert [len(run.rows) for run in runs] == [2]
    assert b"hunter2" not in b"".join(row[3] or b"" for run in runs for row in run.rows)


def test_rows_of_bronze_are_what_was_read(tmp_path: Path) -> None:
    files = {log_name(500): batches(the_rest(500).sources), CHECKPOINT: batches(a_checkpoint(500).sources)}
    root = folder(tmp_path, "controller-100", files)
    sources, _ = read(root)
    stored = [
        metadata_of_bronze(
            cluster_id="lab",
            topic=run.topic,
            offset=row[0],
            timestamp_ms=row[1],
            key=row[2],
            value=row[3],
            node=run.node,
            leader_epoch=row[5],
            is_control=row[9],
        )
        for run in metadata_runs(log_in(root).records())
        for row in run.rows
    ]
    assert stored == sources


def test_a_folder_without_a_metadata_log_has_no_records(tmp_path: Path) -> None:
    assert read(tmp_path)[0] == []


@pytest.mark.parametrize("capture", WITH_METADATA, ids=name_of)
def test_captured_logs_are_read_whole(capture: Path) -> None:
    sources, log = read(capture)
    reader = MetadataReader()
    history = kraft_history(sources, cluster_id="lab", reader=reader)
    # Copied from a running cluster: its last record may not have reached the others yet.
    problems = [problem for problem in log.problems if problem.code != "above_majority"]
    assert (reader.refused, reader.gaps, problems) == ([], [], [])
    assert "__consumer_offsets" in topic_names(sources).values() or "reassign" in capture.name
    assert {topic_id(0)}.isdisjoint(history.topic_names)
    if "reassign" not in capture.name:
        assert history.reassignments == ()
