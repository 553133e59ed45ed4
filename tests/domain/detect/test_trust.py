from __future__ import annotations

from rebalance_audit.domain.detect import (
    CopyConflict,
    CoverageGap,
    UndecodedCount,
    copy_conflict_findings,
    coverage_findings,
    source_of,
    undecoded_findings,
)

NOW_MS = 1_763_700_000_000


def _undecoded(**changes: object) -> UndecodedCount:
    facts: dict[str, object] = {
        "cluster_id": "cluster-a",
        "source": "__consumer_offsets-7",
        "reason": "unknown_value_version",
        "count": 3,
        "first_ref": "record:__consumer_offsets-7@10",
        "last_ref": "record:__consumer_offsets-7@30",
        "first_at_ms": NOW_MS - 5_000,
        "last_at_ms": NOW_MS - 1_000,
    }
    return UndecodedCount(**{**facts, **changes})  # type: ignore[arg-type]


def test_what_was_not_understood_is_one_finding_per_source_and_reason() -> None:
    rows = [_undecoded(), _undecoded(reason="short_buffer", count=1), _undecoded(source="broker-1/server.log")]
    found = undecoded_findings(rows, NOW_MS)
    assert [(f.subject, f.title) for f in found] == [
        ("__consumer_offsets-7", "1 record of __consumer_offsets-7 could not be read: short buffer"),
        ("__consumer_offsets-7", "3 records of __consumer_offsets-7 could not be read: unknown value version"),
        ("broker-1/server.log", "3 records of broker-1/server.log could not be read: unknown value version"),
    ]
    assert {f.subject_type for f in found} == {"source"}
    assert {f.status for f in found} == {"open"}
    assert len({f.finding_id for f in found}) == 3


def test_more_of_the_same_keeps_the_finding() -> None:
    (one,) = undecoded_findings([_undecoded()], NOW_MS)
    (more,) = undecoded_findings([_undecoded(count=900, last_ref="record:__consumer_offsets-7@99")], NOW_MS + 1)
    assert one.finding_id == more.finding_id


def test_a_newer_kafka_and_damaged_bytes_get_different_advice() -> None:
    newer, damaged = (
        undecoded_findings([_undecoded(reason=r)], NOW_MS)[0].advice for r in ("unknown_record_type", "bad_utf8")
    )
    assert newer is not None
    assert damaged is not None
    assert "update it" in newer
    assert "update it" not in damaged


def test_a_line_without_a_time_is_seen_at_the_end_of_the_evidence() -> None:
    (found,) = undecoded_findings([_undecoded(first_at_ms=None, last_at_ms=None)], NOW_MS)
    assert (found.first_seen_at_ms, found.last_seen_at_ms) == (NOW_MS, NOW_MS)


def test_nothing_undecoded_is_silent() -> None:
    assert undecoded_findings([], NOW_MS) == []
    assert undecoded_findings([_undecoded(count=0)], NOW_MS) == []


def test_two_copies_that_differ_are_told_once_per_partition() -> None:
    row = CopyConflict(
        cluster_id="cluster-a", topic="__consumer_offsets", partition=7, count=2,
        first_ref="record:__consumer_offsets-7@10", last_ref="record:__consumer_offsets-7@11",
        first_at_ms=NOW_MS, last_at_ms=NOW_MS + 5,
    )  # fmt: skip
    (found,) = copy_conflict_findings([row])
    assert found.rule_id == "TR005"
    assert found.subject == "__consumer_offsets-7"
    assert found.title == "2 offsets of __consumer_offsets-7 came with different bytes from different sources"
    assert found.evidence == ("record:__consumer_offsets-7@10", "record:__consumer_offsets-7@11")
    assert copy_conflict_findings([]) == []


def test_gaps_are_told_and_compaction_is_not() -> None:
    def gap(code: str) -> CoverageGap:
        return CoverageGap(
            cluster_id="cluster-a", source="record:__consumer_offsets-7", problem_code=code,
            problem="the batch at this offset fails its checksum", from_position=10, to_position=20,
            from_at_ms=NOW_MS, to_at_ms=NOW_MS + 1,
        )  # fmt: skip

    (found,) = coverage_findings([gap("unreadable"), gap("compacted"), gap("none")], NOW_MS)
    assert found.rule_id == "TR001"
    assert found.title == (
        "record:__consumer_offsets-7 was not seen from 10 to 20: the batch at this offset fails its checksum"
    )
    assert found.evidence == ("record:__consumer_offsets-7@10",)


def test_a_ref_leads_to_its_source() -> None:
    assert source_of("record:__consumer_offsets-7@231") == "__consumer_offsets-7"
    assert source_of("record:odd@name-3@7") == "odd@name-3"
    assert source_of("log:kafka-1/server.log#0aB9@88123") == "kafka-1/server.log"
    assert source_of("something else") == "something else"


def test_hostile_source_names_stay_on_one_line() -> None:
    (found,) = undecoded_findings([_undecoded(source="evil\n\x1b[2Jtopic-0")], NOW_MS)
    assert "\n" not in found.title
    assert "\x1b" not in found.title
    assert found.subject == "evil\n\x1b[2Jtopic-0"
