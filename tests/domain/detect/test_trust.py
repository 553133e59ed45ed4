from __future__ import annotations

import pytest

from rebalance_audit.domain.detect import (
    ClockReading,
    ClockStep,
    ContradictionCount,
    CopyConflict,
    CoverageGap,
    UndecodedCount,
    clock_findings,
    clock_step_findings,
    contradiction_findings,
    copy_conflict_findings,
    coverage_findings,
    source_of,
    undecoded_findings,
)
from rebalance_audit.domain.gather.clock_tally import infer_utc_offset_ms

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


def test_two_copies_that_differ_are_shown_once_per_partition() -> None:
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


def test_gaps_are_shown_and_compaction_is_not() -> None:
    def gap(code: str) -> CoverageGap:
        return CoverageGap(
            cluster_id="cluster-a", source="record:__consumer_offsets-7", problem_code=code,
            problem="the batch at this offset fails its checksum.", from_position=10, to_position=20,
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


HOUR_MS = 3_600_000


def _clock(offset_ms: int, *, zone: str | None = None, count: int = 5, scatter_ms: int = 0) -> ClockReading:
    """Lines a minute apart whose local times are this far from the records they belong to."""
    at = [NOW_MS + n * 60_000 for n in range(count)]
    pairs = [(at_ms + offset_ms + scatter_ms * (n - count // 2), at_ms) for n, at_ms in enumerate(at)]
    return ClockReading(
        cluster_id="cluster-a", node="broker-1", zone=zone, clock=infer_utc_offset_ms(pairs, zone),
        first_ref="log:broker-1/server.log#f00d@0", last_at_ms=NOW_MS,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reading", "title"),
    [
        (
            _clock(0, zone="Asia/Tokyo"),
            "The log zone of broker-1 is Asia/Tokyo, but its lines agree with the records at +00:00",
        ),
        (
            _clock(-3 * HOUR_MS - HOUR_MS // 2, zone="+02:00"),
            "The log zone of broker-1 is +02:00, but its lines agree with the records at -03:30",
        ),
        (_clock(12_300), "The clock of broker-1 is 12.3 s ahead of the brokers'"),
        (_clock(2 * HOUR_MS - 4_000), "The clock of broker-1 is 4 s behind the brokers'"),
        (_clock(9 * HOUR_MS + 1_500, zone="Asia/Tokyo"), "The clock of broker-1 is 1.5 s ahead of the brokers'"),
    ],
    ids=["wrong region", "wrong offset", "ahead", "behind, zone inferred", "ahead, zone right"],
)
def test_a_clock_that_disagrees_is_shown(reading: ClockReading, title: str) -> None:
    (found,) = clock_findings([reading])
    assert (found.rule_id, found.subject, found.title) == ("TR003", "broker-1", title)
    assert found.evidence == ("log:broker-1/server.log#f00d@0",)


@pytest.mark.parametrize(
    "reading",
    [
        _clock(7),
        _clock(1_000),
        _clock(9 * HOUR_MS + 20, zone="Asia/Tokyo"),
        _clock(9 * HOUR_MS + 20),
        _clock(12_300, count=2),
        _clock(0, zone="Asia/Tokyo", count=2),
        _clock(2_000, scatter_ms=30_000),
    ],
    ids=["usual delay", "one second", "right zone", "inferred zone", "two lines", "two lines, zone", "scattered"],
)
def test_a_clock_that_agrees_or_cannot_be_shown_is_silent(reading: ClockReading) -> None:
    assert clock_findings([reading]) == []


def test_times_that_go_back_in_one_partition_are_shown_once_with_the_largest_step() -> None:
    steps = [
        ClockStep(
            cluster_id="cluster-a", source="__consumer_offsets-7", back_ms=back_ms,
            before_ref=f"record:__consumer_offsets-7@{offset - 1}", ref=f"record:__consumer_offsets-7@{offset}",
            at_ms=NOW_MS,
        )
        for offset, back_ms in ((10, 900), (20, 2_000), (30, 65_000))
    ]  # fmt: skip
    (found,) = clock_step_findings(steps)
    assert found.title == "Times of __consumer_offsets-7 go back by 1 min 5 s: its leaders' clocks disagree"
    assert found.evidence == ("record:__consumer_offsets-7@29", "record:__consumer_offsets-7@30")
    assert clock_step_findings(steps[:1]) == []


def _contradiction(**changes: object) -> ContradictionCount:
    facts: dict[str, object] = {
        "cluster_id": "cluster-a", "group_id": "orders", "is_line": True, "count": 2,
        "first_detail": "it names generation 9, which the records had not reached then",
        "first_ref": "log:broker-1/server.log#f00d@10", "last_ref": "log:broker-1/server.log#f00d@90",
        "first_at_ms": NOW_MS, "last_at_ms": NOW_MS + 5,
    }  # fmt: skip
    return ContradictionCount(**{**facts, **changes})  # type: ignore[arg-type]


def test_lines_and_records_that_were_not_believed_are_distinguished_and_per_group() -> None:
    rows = [
        _contradiction(),
        _contradiction(count=1, group_id="evil\ngroup"),
        _contradiction(
            is_line=False, count=1, first_detail="generation 3 stands after 8, and nothing deleted the group",
            first_ref="record:__consumer_offsets-7@3", last_ref="record:__consumer_offsets-7@3",
        ),
    ]  # fmt: skip
    found = contradiction_findings(rows, NOW_MS)
    assert [(f.subject, f.title) for f in found] == [
        ("evil\ngroup", "1 log line about evil\\ngroup contradicts the records"),
        ("orders", "Records of orders contradict each other in 1 place"),
        ("orders", "2 log lines about orders contradict the records"),
    ]
    assert len({f.finding_id for f in found}) == 3
    assert found[1].evidence == ("record:__consumer_offsets-7@3",)
    assert found[2].evidence == ("log:broker-1/server.log#f00d@10", "log:broker-1/server.log#f00d@90")


def test_nothing_contradicted_is_silent() -> None:
    assert contradiction_findings([], NOW_MS) == []
    assert contradiction_findings([_contradiction(count=0)], NOW_MS) == []
