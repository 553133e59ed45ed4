"""Evidence as it arrives gives the rows that all of it at once gives, and an incident is alerted under its last id."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from bench.growing_cluster import WrittenRebalance
from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import CommitMark, LogEvent, Rebalance, SourceLine, SourceRecord
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.records.commit_keys import is_commit_key, wanted_keys
from rebalance_audit.domain.tables import SEVERITIES
from rebalance_audit.live import group_memory
from rebalance_audit.live.group_memory import GroupPast
from rebalance_audit.live.memory import ClusterMemory
from tests.captures import CAPTURES, GOLDEN, gathered, name_of
from tests.domain.detect.group_story import CLUSTER, T0_MS
from tests.domain.log_lines.lines import HEAD, JAVA, JAVA_LOGGER, a_line
from tests.live.arrivals import arrivals
from tests.live.no_past import NoPast

WARNING = SEVERITIES.index("warning")
ANOTHER_ID = {
    # The instance that seemed to vanish comes back: the warning becomes a note, under the same id.
    "streams_scale_out": 1,
    "streams_standby": 1,
    "streams_of_three": 1,
}
"""Alerts that what came later made less grave."""


@cache
def _followed(capture: Path) -> tuple[ClusterMemory, dict[str, Incident]]:
    """What is in memory at the end, and the first alert under each id."""
    memory: ClusterMemory | None = None
    seen: dict[str, Incident] = {}
    for records, lines in arrivals(capture):
        if memory is None:
            memory = ClusterMemory((records or lines)[0].cluster_id, NoPast())
        touched = memory.take(records, lines)
        for group_id in touched:
            memory.fold(group_id)
        for incident in memory.incidents() if touched else ():
            is_of_these = touched.intersection(incident.group_ids)
            if incident.status == "open" and _rank(incident) >= WARNING and is_of_these:
                seen.setdefault(incident.incident_id, incident)
    assert memory is not None
    return memory, seen


def _rank(incident: Incident) -> int:
    return SEVERITIES.index(incident.severity)


@pytest.mark.parametrize("capture", CAPTURES, ids=name_of)
def test_every_grave_incident_is_alerted_as_it_happens(capture: Path) -> None:
    memory, seen = _followed(capture)
    at_the_end = {i.incident_id for i in memory.incidents() if i.group_ids and _rank(i) >= WARNING}
    assert at_the_end <= seen.keys()
    assert len(seen.keys() - at_the_end) == ANOTHER_ID.get(capture.name, 0)


def _without_commits(rebalance: Rebalance) -> object:
    """Commits of a group are taken from its first record or line on; those before are the tables' part."""
    return (rebalance.rebalance_id, rebalance.trigger, rebalance.outcome, rebalance.started_at_ms,
            rebalance.joined_at_ms, rebalance.assigned_at_ms, rebalance.members, rebalance.evidence)  # fmt: skip


@pytest.mark.parametrize("capture", CAPTURES, ids=name_of)
def test_pieces_give_the_rebalances_of_the_whole(capture: Path) -> None:
    memory, _ = _followed(capture)
    for group_id in memory.groups:
        memory.fold(group_id)
    for evidence in gathered(capture).groups:
        expected = [_without_commits(measure(r)) for r in reconstruct(evidence).rebalances]
        if not expected:
            continue
        found = [_without_commits(r) for r in memory.groups[evidence.group_id].rebalances]
        assert found == expected, evidence.group_id


def test_a_group_comes_with_its_past_and_what_came_twice_is_there_once() -> None:
    """The tables hold the first half already, and the collector brings some of it again."""
    capture = GOLDEN / "4.3.0" / "eager_join_leave_kill"
    (evidence,) = (g for g in gathered(capture).groups if g.group_id == "orders-app")
    half = len(evidence.records) // 2

    class Tables(NoPast):
        def of_groups(self, groups: Mapping[str, object]) -> dict[str, GroupPast]:
            assert list(groups) == ["orders-app"]
            past = GroupPast(events=[*evidence.records[:half], *evidence.lines], marks=evidence.marks)
            return {"orders-app": past}

    memory = ClusterMemory("c", Tables())
    pieces = list(arrivals(capture))
    known = {record.ref for record in evidence.records[: half - 2]}
    for records, _ in pieces:
        of_group = [records[number] for number in memory.wanted(r.key for r in records)]
        memory.take([record for record in of_group if record.ref not in known], ())
    memory.fold("orders-app")
    expected = [measure(r) for r in reconstruct(evidence).rebalances]
    found = memory.groups["orders-app"].rebalances
    assert [(r.trigger, r.pause_lower_ms, r.pause_estimate_ms, r.pause_upper_ms) for r in found] == [
        (r.trigger, r.pause_lower_ms, r.pause_estimate_ms, r.pause_upper_ms) for r in expected
    ]


def test_marks_that_overlap_become_one_whichever_came_first() -> None:
    """The group's commits at 10, 20 and 30 with no record of the group among them: the tables' mark ends at 20."""
    stored = CommitMark(
        topic="t", partition=0, offsets_topic="__consumer_offsets", offsets_partition=3, first_offset=10,
        first_at_ms=1_000, last_offset=20, last_at_ms=2_000, commit_count=2, topic_id=None,
    )  # fmt: skip
    arrived = CommitMark(
        topic="t", partition=0, offsets_topic="__consumer_offsets", offsets_partition=3, first_offset=20,
        first_at_ms=2_000, last_offset=30, last_at_ms=3_000, commit_count=2, topic_id="id",
    )  # fmt: skip
    for order in ([stored, arrived], [arrived, stored]):
        memory = ClusterMemory("c", NoPast())
        memory.bring(["g"])
        group = memory.groups["g"]
        group.stored_marks = order[:1]
        group.add_mark(order[1])
        (mark,) = group.all_marks()
        assert (mark.first_offset, mark.first_at_ms, mark.last_offset, mark.last_at_ms) == (10, 1_000, 30, 3_000)
        assert mark.topic_id == "id"


def test_only_commits_of_groups_in_memory_are_taken() -> None:
    keys = [
        b"\x00\x01\x00\x02ab\x00\x01t\x00\x00\x00\x00",
        b"\x00\x01\x00\x03abc\x00\x01t\x00\x00\x00\x00",
        b"\x00\x00\x00\x02ab\x00\x01t\x00\x00\x00\x00",
        b"\x00\x00\x00\x00",  # of the group without a name
        b"\x00\x01\x7f",  # cut
        None,
        b"",
        b"\x00\x02\x00\x03abc",  # a group's record
    ]
    assert wanted_keys(keys, {b"ab"}) == [0, 2, 5, 6, 7]
    assert wanted_keys(keys, {b""}) == [3, 4, 5, 6, 7]
    assert wanted_keys(keys, set()) == [5, 6, 7]


def test_other_keys_are_no_commits() -> None:
    assert not is_commit_key(None)
    assert not is_commit_key(b"\x00\x02\x00\x01g")
    assert not is_commit_key(b"")


def test_a_group_that_was_quiet_leaves_and_its_incident_stays() -> None:
    capture = GOLDEN / "4.3.0" / "eager_join_leave_kill"
    memory = ClusterMemory("c", NoPast())
    for records, lines in arrivals(capture):
        memory.take(records, lines)
    for group_id in memory.groups:
        memory.fold(group_id)
    before = memory.incidents()
    assert any(route.startswith("member:") for route in memory._routes)
    assert any(i.severity == "warning" for i in before)
    for group_id in list(memory.groups):
        memory.drop(group_id)
    assert memory.groups == {}
    assert not any(route.startswith("member:") for route in memory._routes)
    assert [(i.incident_id, i.title, i.cost_seconds) for i in memory.incidents()] == [
        (i.incident_id, i.title, i.cost_seconds) for i in before
    ]
    assert memory.wanted([b"\x00\x01\x00\x0aorders-app\x00\x01t\x00\x00\x00\x00"]) == []


def test_a_line_that_was_torn_in_an_earlier_landing_is_not_forgotten() -> None:
    forged = HEAD + JAVA + "Stabilized group victim generation 9 with 3 members." + JAVA_LOGGER
    memory = ClusterMemory("c", NoPast())
    memory.take([], [a_line(HEAD + JAVA + "Stabilized group evil\n", byte=0)])
    memory.take([], [a_line(forged, byte=30_000)])
    memory.take([], [a_line(forged, byte=60_000, node="broker-2")])
    memory.take([], [a_line(forged, byte=200_000)])  # no client's text reaches that far
    events = memory.groups["victim"].events.values()
    assert [event.could_be_forged for event in events if isinstance(event, LogEvent)] == [True, False, False]


@pytest.mark.parametrize("between_folds", [10, 30])
def test_a_storm_that_outgrows_the_memory_is_one_incident(monkeypatch: pytest.MonkeyPatch, between_folds: int) -> None:
    """One group at 200 generations a second leaves its oldest evidence behind every ten to twenty seconds, some of it
    before it was folded."""
    monkeypatch.setattr(group_memory, "MOST_EVENTS", 120)
    monkeypatch.setattr(group_memory, "KEPT_EVENTS", 60)
    memory = ClusterMemory(CLUSTER, NoPast())
    seen: list[tuple[str, int]] = []
    findings: list[set[str]] = []
    left: list[int] = []
    for at in range(0, 300, between_folds):
        numbers = range(at, at + between_folds)
        written = [WrittenRebalance.of(0, number, T0_MS + number * 1_000) for number in numbers]
        memory.take(*of_group(written, first=at))
        memory.fold("group-000000")
        incident = next((i for i in memory.incidents() if i.kind == "storm"), None)
        if incident is not None:
            seen.append((incident.incident_id, incident.first_at_ms))
            findings.append({f.finding_id for f in memory.groups["group-000000"].findings if f.rule_id == "RB001"})
        left.append(len(memory.groups["group-000000"].rebalances))
    assert sum(after <= before for before, after in pairwise(left)) >= 3  # it was trimmed again and again
    assert len(seen) > 8
    assert len(set(seen)) == 1
    assert len(set().union(*findings)) == 1


def of_group(written: list[WrittenRebalance], first: int) -> tuple[list[SourceRecord], list[SourceLine]]:
    texts = [text for each in written for text in each.lines]
    lines = [
        SourceLine(cluster_id=CLUSTER, node="1", file_name="server.log", file_id="f", byte=first * 1_000 + n, text=text)
        for n, text in enumerate(texts)
    ]
    records = [
        SourceRecord(
            cluster_id=CLUSTER, topic=OFFSETS_TOPIC, partition=each.partition, offset=first + n,
            timestamp_ms=each.record[0], key=each.record[1], value=each.record[2],
        )
        for n, each in enumerate(written)
    ]  # fmt: skip
    return records, lines
