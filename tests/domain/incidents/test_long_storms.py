"""A storm over the ends of eras is one incident, whether its first eras are there or what was kept of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from rebalance_audit.domain.detect import Limits, eras, judged_eras
from rebalance_audit.domain.detect.eras import in_era
from rebalance_audit.domain.incidents import ClusterRows, Incident, incidents_of
from rebalance_audit.domain.incidents.around import MARGIN_MS, KnownIncident, incidents_around
from rebalance_audit.domain.incidents.era_ends import storm_at_end
from rebalance_audit.domain.incidents.model import narrowed
from rebalance_audit.domain.incidents.storm_before import StormBefore
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.publish.leader_moves import COORDINATOR_MOVED, LeaderMove
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory
from tests.domain.detect.test_due import a_life
from tests.domain.incidents.made_up import a_group, costing

LOUD = Limits(storm_short_count=2, storm_long_count=4, storm_quiet_ms=3_600_000)


class Judged:
    """A history with its findings and the storms that went on as its eras ended."""

    def __init__(self, rebalances: list[Rebalance], limits: Limits, now_ms: int) -> None:
        self.rebalances = list(map(narrowed, rebalances))
        self.group_id, self.limits, self.now_ms = rebalances[0].group_id, limits, now_ms
        whole = list(judged_eras(rebalances, limits, seen_until_ms=now_ms))
        self.findings = sorted(
            (finding for era in whole for finding in era.findings), key=lambda f: (f.first_seen_at_ms, f.finding_id)
        )
        self.storms: dict[int, StormBefore] = {}
        storm: StormBefore | None = None
        ids: dict[int, list[str]] = {}
        for era in whole[:-1]:
            storm = storm_at_end(in_era(rebalances, era.number, 0), era, limits, storm)
            if storm is not None:
                ids[era.number] = storm.rebalance_ids
                of_all = [i for e in range(storm.first_era, era.number + 1) for i in ids[e]]
                self.storms[era.number + 1] = StormBefore.of_text(storm.text, of_all)
                storm = StormBefore.of_text(storm.text, [])

    def rows(self, era: int = 0, without: Collection[str] = ()) -> ClusterRows:
        """From the beginning, or from what was kept as this era began; `without` findings of incidents before it."""
        first = era * eras.ERA_REBALANCES
        findings = [(self.group_id, f) for f in self.findings if f.finding_id not in without]
        return ClusterRows(
            cluster_id=CLUSTER, now_ms=self.now_ms, groups={self.group_id: self.rebalances[first:]},
            findings=findings, limits=lambda _: self.limits,
            first_places={self.group_id: first}, storms={self.group_id: self.storms[era]} if era else {},
        )  # fmt: skip

    def incidents(self, era: int = 0, without: Collection[str] = ()) -> list[Incident]:
        return incidents_of(self.rows(era, without))[0]

    def crossings(self) -> Iterator[tuple[int, StormBefore]]:
        """The ends of eras over which a storm went on."""
        last_seen = {finding.finding_id: finding.last_seen_at_ms for finding in self.findings}
        for era, storm in self.storms.items():
            if last_seen[storm.finding_id] > storm.until_ms:
                yield era, storm


def test_a_storm_goes_on_from_the_end_of_any_era(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eras, "ERA_REBALANCES", 9)
    kept = 0
    for seed in range(30):
        random = Random(seed)
        history = costing(a_life(random).rebalances)
        last_ms = max(r.assigned_at_ms or 0 for r in history)
        judged = Judged(history, LOUD, last_ms + random.choice([0, 60_000, 40_000_000]))
        whole = {incident.incident_id: incident for incident in judged.incidents()}
        for era, storm in judged.crossings():
            others = [i for i in whole.values() if i.rebalance_ids and storm.rebalance_ids[0] not in i.rebalance_ids]
            before = [i for i in others if i.first_at_ms <= storm.until_ms]
            if any(i.status == "open" or i.last_at_ms > storm.until_ms for i in before):
                continue  # then all is worked out from the beginning
            kept += 1
            over = {finding_id for i in before for finding_id in i.finding_ids}
            [found] = [i for i in judged.incidents(era, over) if storm.rebalance_ids[0] in i.rebalance_ids]
            assert found == whole[found.incident_id], (seed, era)
    assert kept > 20, kept


def a_long_storm(because: str = "leader_rejoined") -> GroupStory:
    story = a_group()
    for at in range(60):
        story.meets_again(at_s=20 * at, because=because)
    return story


def told(incident: Incident) -> dict[str, Any]:
    return {name: getattr(incident, name) for name in Incident.__dataclass_fields__}


def test_a_storm_over_seven_eras_is_told_as_one_that_is_uncut(monkeypatch: pytest.MonkeyPatch) -> None:
    story = a_long_storm()
    now_ms = T0_MS + 1_200_000
    [uncut] = Judged(costing(story.rebalances), Limits(), now_ms).incidents()
    assert (uncut.kind, len(uncut.rebalance_ids)) == ("storm", 60)
    monkeypatch.setattr(eras, "ERA_REBALANCES", 9)
    judged = Judged(costing(story.rebalances), Limits(), now_ms)
    [cut] = judged.incidents()
    assert len(list(judged.crossings())) == 6
    for name, value in told(cut).items():
        assert name in ("title", "story", "finding_ids", "advice") or value == told(uncut)[name], name
    assert "rebalanced 60 times in 19 min 40 s" in cut.title
    assert cut.cost_seconds == sum(2.0 * n for n in range(1, 61))
    assert json.loads(judged.storms[6].text)["round_count"] == 53


class InMemory:
    """One group as a WholeCluster."""

    def __init__(self, judged: Judged, era: int, known: Sequence[Incident], moves: Sequence[LeaderMove] = ()) -> None:
        self.judged, self.era, self.known, self.moves = judged, era, list(map(KnownIncident.of, known)), moves
        self.read = 0

    def storms(self, groups: Collection[str]) -> Mapping[str, StormBefore]:
        return dict.fromkeys(groups, self.judged.storms[self.era])

    def rows(
        self, groups: Collection[str], from_ms: int, *, apart: bool, storms: Mapping[str, StormBefore]
    ) -> ClusterRows:
        rows = replace(self.judged.rows(self.era if storms else 0), leader_moves=self.moves)
        self.read = max(self.read, len(rows.groups[self.judged.group_id]))
        return rows

    def of_groups(self, groups: Collection[str], from_ms: int, *, apart: bool) -> list[KnownIncident]:
        return self.known

    def of_things(self, things: Collection[str], from_ms: int) -> list[KnownIncident]:
        return [known for known in self.known if not all(ids.isdisjoint(things) for ids in known.things)]

    def departed(self, places: Mapping[str, tuple[int, int]]) -> set[str]:
        return set()

    def moved(self, moves: Collection[LeaderMove], from_ms: int, *, apart: bool) -> set[str]:
        return set()


@pytest.mark.parametrize("case", ["a storm", "another open incident", "a leader move", "no incident yet"])
def test_all_of_a_storm_is_read_only_if_more_is_needed_than_was_kept(
    monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(eras, "ERA_REBALANCES", 9)
    story, now_ms = a_long_storm(), T0_MS + 1_200_000
    judged = Judged(costing(story.rebalances), Limits(), now_ms)
    known = Judged(costing(story.rebalances[:55]), Limits(), now_ms - 100_000).incidents()
    moves: list[LeaderMove] = []
    if case == "another open incident":
        ids, at_ms = (judged.rebalances[0].rebalance_id,), T0_MS - 7_200_000
        known.append(replace(known[0], incident_id="in:x", rebalance_ids=ids, first_at_ms=at_ms, last_at_ms=at_ms))
    elif case == "a leader move":
        moves.append(
            LeaderMove(
                cluster_id=CLUSTER, group_id="orders", relation=COORDINATOR_MOVED, topic="__consumer_offsets",
                partition=1, at_ms=now_ms, previous_leader=1, elected=2, cause="broker_failure", after_ms=0,
                rebalance_id=judged.rebalances[-1].rebalance_id, is_cause=True,
            )
        )  # fmt: skip
    elif case == "no incident yet":
        known = []
    around = InMemory(judged, 5, known, moves)
    news = {"orders": judged.rebalances[55].assigned_at_ms or 0}
    found = incidents_around(news, news["orders"] - MARGIN_MS, around, apart=False)
    expected, _ = incidents_of(replace(judged.rows(), leader_moves=moves))
    assert found.incidents == expected
    assert around.read == (16 if case == "a storm" else 61)
    assert {k.incident_id for k in found.gone} == {k.incident_id for k in around.known}
