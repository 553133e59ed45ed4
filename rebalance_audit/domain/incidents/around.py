"""Works out only the incidents that news of some groups can change: the work depends on the news, not on the fleet.

An incident needs all its groups, and groups belong to one incident through what happened to them at one moment. So the
search starts at the groups with news. It adds the other groups of their present incidents, and the groups that lost a
member from the same host or a coordinator on the same broker at the same moment. It ends when no group is added.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from rebalance_audit.domain.detect.due import OF_FAULTS
from rebalance_audit.domain.incidents.building import Alone, built, troubles_in
from rebalance_audit.domain.incidents.episodes import CHANGE_GAP_MS, Episode
from rebalance_audit.domain.incidents.model import ChangeMark, ClusterRows, Incident
from rebalance_audit.domain.incidents.storm_before import StormBefore
from rebalance_audit.domain.incidents.symptoms import SYMPTOMS
from rebalance_audit.domain.incidents.troubles import DEPARTING, SAME_MOMENT_MS, UNITING, Trouble, departures, growths
from rebalance_audit.domain.model import Finding
from rebalance_audit.domain.publish.leader_moves import LeaderMove

MARGIN_MS = 3 * 3_600_000
"""3 h: more than any window in which rebalances belong together; a flapping member's is the widest, 2 h."""
NOTHING_NEW = 1 << 60
"""The instant of news that changes nothing older, such as a finding about no rebalance."""
OF_SEVERAL = SYMPTOMS & OF_FAULTS
"""Rules whose finding may be about several incidents. It belongs to the first."""


def begin_of(spans: Collection[tuple[int, int]], from_ms: int) -> int:
    """The begin of the earliest that reaches beyond `from_ms`, or into one that does; otherwise `from_ms`.

    `spans`: the first and last moment of each incident.
    """
    while True:
        before, from_ms = from_ms, min([from_ms, *(first for first, last in spans if last >= from_ms)])
        if from_ms == before:
            return from_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIncident:
    """An incident as it stands: columns of gold.incident."""

    incident_id: str
    group_ids: frozenset[str]
    rebalance_ids: frozenset[str]
    reassignment_ids: frozenset[str]
    finding_ids: frozenset[str]
    first_at_ms: int
    last_at_ms: int
    is_open: bool

    @property
    def things(self) -> tuple[frozenset[str], ...]:
        """Not in one set: of a long storm that would be a large one more."""
        return self.rebalance_ids, self.reassignment_ids, self.finding_ids

    @classmethod
    def of(cls, incident: Incident) -> KnownIncident:
        return cls(
            incident_id=incident.incident_id,
            group_ids=frozenset(incident.group_ids),
            rebalance_ids=frozenset(incident.rebalance_ids),
            reassignment_ids=frozenset(incident.reassignment_ids),
            finding_ids=frozenset(incident.finding_ids),
            first_at_ms=incident.first_at_ms,
            last_at_ms=incident.last_at_ms,
            is_open=incident.status == "open",
        )


class WholeCluster(Protocol):
    """Looks up what else there is in one cluster. `apart`: also what belongs to no group, which is reassignments and
    findings about partitions, brokers and the evidence."""

    def rows(
        self, groups: Collection[str], from_ms: int, *, apart: bool, storms: Mapping[str, StormBefore]
    ) -> ClusterRows:
        """The rebalances, tasks and reassignments of these groups since this moment; of groups in `storms`, whenever
        that was, since the end of the eras of which the storm is known."""

    def storms(self, groups: Collection[str]) -> Mapping[str, StormBefore]:
        """By group the storm that went on as the last era ended that is older than all changed rebalances of the group,
        where that is known."""

    def of_groups(self, groups: Collection[str], from_ms: int, *, apart: bool) -> list[KnownIncident]:
        """Incidents of any of these groups that are open or end at this moment or later."""

    def of_things(self, things: Collection[str], from_ms: int) -> list[KnownIncident]:
        """The same, for incidents that hold any of these rebalances, reassignments or findings."""

    def departed(self, places: Mapping[str, tuple[int, int]]) -> set[str]:
        """Groups that may have lost a member at one of these places between the place's two instants, or found new
        partitions of a topic of that name. Too many do no harm."""

    def moved(self, moves: Collection[LeaderMove], from_ms: int, *, apart: bool) -> set[str]:
        """Groups whose coordinators left the same brokers at the same moments as in these moves. With `apart`, also
        groups whose coordinators reassignments moved since this moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """New incidents and marks, and the old ones that they replace."""

    incidents: list[Incident]
    marks: list[ChangeMark]
    gone: list[KnownIncident]
    marked: frozenset[tuple[str, int]]
    """(group, instant) of the marks of the incidents in `gone`. Groups with news may have more marks."""
    from_ms: int
    """The groups with news were worked out from this instant on."""
    after_ms: Mapping[str, int]
    """Of groups whose storms went on from the end of an era: they were worked out from after that instant on."""
    apart: bool
    """What belongs to no group was worked out as well."""


def incidents_around(
    news: Mapping[str, int], since_ms: int, around: WholeCluster, *, apart: bool, whole: Collection[str] = ()
) -> Around:
    """The incidents of groups with news. `news`: of each the instant of its earliest news; `since_ms`: from when on
    incidents are worked out, unless one begins before it; `apart`: there is news of no group. `whole`: groups whose
    storms are worked out from their beginning."""
    groups, from_ms, has_apart = set(news), since_ms, apart
    storms = around.storms(news.keys() - set(whole))
    gone: dict[str, KnownIncident] = {}

    over: set[str] = set()
    """Findings of incidents that no news can change."""

    def note(found: Iterable[KnownIncident]) -> None:
        for known in found:
            if _ended_before(known, storms):
                over.update(known.finding_ids)
            else:
                gone[known.incident_id] = known

    while True:
        note(around.of_groups(news, from_ms, apart=apart))
        asked = _with_their_groups(groups, gone.values())
        rows = around.rows(asked, from_ms, apart=apart, storms=storms)
        if over:
            rows = replace(rows, findings=[of for of in rows.findings if of[1].finding_id not in over])
        together, alone = troubles_in(rows)
        things = frozenset().union(*(ids for known in gone.values() for ids in known.things))
        chosen = [t for t in together if _is_of(t, news, apart=apart) or not things.isdisjoint(_things([t], []))]
        left = [
            (group_id, finding)
            for group_id, finding in alone
            if (apart if group_id is None else group_id in news) or finding.finding_id in things
        ]
        note(around.of_things(set(_things(chosen, left)), from_ms))
        if cut := _cut_short(storms, together, gone.values()):
            return incidents_around(news, since_ms, around, apart=has_apart, whole={*whole, *cut})
        fresh = [e for t in chosen for e in t.episodes if e.last_at_ms >= news.get(e.group_id, e.last_at_ms + 1)]
        moves = _moves(chosen, fresh)
        met = groups | around.departed(_places(fresh)) | around.moved(moves, from_ms, apart=apart)
        reached_ms = min([from_ms, *(known.first_at_ms for known in gone.values() if _reaches(known, from_ms, storms))])
        reached_ms = min([reached_ms, *_begins_of_new(chosen, gone.values(), from_ms)])
        reached_ms = min([reached_ms, *_begins_of_symptoms(chosen, left)])
        has_moved = any(k.reassignment_ids for k in gone.values()) or any(m.reassignment_id for m in moves)
        if (_with_their_groups(met, gone.values()), reached_ms, apart or has_moved) == (asked, from_ms, apart):
            incidents, marks = built(rows, chosen, left)
            return Around(
                incidents=incidents, marks=marks, gone=list(gone.values()), from_ms=from_ms, apart=apart,
                after_ms={group_id: storm.until_ms for group_id, storm in storms.items()},
                marked=frozenset(_marked(together, gone.values())),
            )  # fmt: skip
        groups, from_ms, apart = met, reached_ms, apart or has_moved


def moved_together(
    moves: Collection[LeaderMove], among: Iterable[LeaderMove], reassignment_ids: Collection[str]
) -> set[str]:
    """`WholeCluster.moved`, of all leader moves beside the cluster's groups and of these reassignments."""
    return {
        move.group_id
        for move in among
        if (move.is_cause or move.is_failure_before)
        and (
            move.reassignment_id in reassignment_ids
            or any(
                move.previous_leader == own.previous_leader and abs(move.at_ms - own.at_ms) <= SAME_MOMENT_MS
                for own in moves
            )
        )
    }


def is_recent(finding: Finding, from_ms: int, shown: Collection[str]) -> bool:
    """Whether it may have been part of an incident since this moment. `shown`: the findings of open incidents, since
    one that is over by now may have ended long ago."""
    return finding.status == "open" or finding.last_seen_at_ms >= from_ms or finding.finding_id in shown


def may_end(last_at_ms: int, before_ms: int, now_ms: int, quiet_ms: int) -> bool:
    """Whether an incident that was open at `before_ms` may be over at `now_ms` without any news."""
    return any(before_ms - last_at_ms <= gap_ms < now_ms - last_at_ms for gap_ms in (CHANGE_GAP_MS, quiet_ms))


def _with_their_groups(groups: Collection[str], incidents: Iterable[KnownIncident]) -> set[str]:
    return {*groups, *(group_id for known in incidents for group_id in known.group_ids)}


def _is_of(trouble: Trouble, news: Collection[str], *, apart: bool) -> bool:
    return any(e.group_id in news for e in trouble.episodes) or (apart and bool(trouble.reassignments))


def _reaches(known: KnownIncident, from_ms: int, storms: Mapping[str, StormBefore]) -> bool:
    """Whether everything since its begin is needed to make it again. An incident of findings alone needs nothing
    else, nor does one of these storms."""
    is_needed = _is_made_of_moves(known) and not any(_is_this(known, storm) for storm in storms.values())
    return is_needed and (known.is_open or known.last_at_ms >= from_ms)


def _begins_of_new(chosen: Iterable[Trouble], gone: Collection[KnownIncident], from_ms: int) -> Iterator[int]:
    """From when on everything is needed where a finding that makes one trouble of several began before `from_ms`, and
    no incident has it yet: a member may have begun to come and go hours before it was found to do so."""
    known = frozenset().union(*(incident.finding_ids for incident in gone))
    for trouble in chosen:
        for finding in trouble.findings:
            is_new = finding.rule_id in UNITING and finding.finding_id not in known
            if is_new and finding.first_seen_at_ms < from_ms and trouble.before is None:
                yield finding.first_seen_at_ms - MARGIN_MS


def _begins_of_symptoms(chosen: Iterable[Trouble], left: Iterable[Alone]) -> Iterator[int]:
    """Since when symptoms were seen. Each belongs to what it cites first, which may have been over for long when the
    next thing that it cites happened."""
    attached = (finding for trouble in chosen if trouble.before is None for finding in trouble.findings)
    for finding in (*attached, *(finding for _, finding in left)):
        if finding.rule_id in SYMPTOMS:
            yield finding.first_seen_at_ms


def _is_made_of_moves(known: KnownIncident) -> bool:
    return bool(known.rebalance_ids or known.reassignment_ids)


def _is_this(known: KnownIncident, storm: StormBefore) -> bool:
    return storm.rebalance_ids[0] in known.rebalance_ids and len(known.group_ids) == 1 and not known.reassignment_ids


def _ended_before(known: KnownIncident, storms: Mapping[str, StormBefore]) -> bool:
    """Whether it is another one of a group's, and was over as the storm went on: no news can change it."""
    if known.is_open or len(known.group_ids) != 1 or not known.rebalance_ids or known.reassignment_ids:
        return False
    [group_id] = known.group_ids
    storm = storms.get(group_id)
    return storm is not None and known.last_at_ms <= storm.until_ms and not _is_this(known, storm)


def _cut_short(
    storms: Mapping[str, StormBefore], together: Sequence[Trouble], gone: Collection[KnownIncident]
) -> set[str]:
    """Groups of whose storms more is needed than what is kept of their earlier eras: no incident of such a storm is
    known, it is part of something larger, or another incident of the group begins in those eras."""
    found: set[str] = set()
    for group_id, storm in storms.items():
        own = [known for known in gone if _is_this(known, storm)]
        others = (k for k in gone if group_id in k.group_ids and _is_made_of_moves(k) and k not in own)
        homes = [t for t in together if t.before is not None and any(e.group_id == group_id for e in t.episodes)]
        is_larger = any(
            t.reassignments or t.leader_moves or any(e.group_id != group_id for e in t.episodes) for t in homes
        )
        if not own or not homes or is_larger or any(k.first_at_ms <= storm.until_ms for k in others):
            found.add(group_id)
    return found


def _things(together: Iterable[Trouble], alone: Iterable[Alone]) -> Iterator[str]:
    for trouble in together:
        yield from (step.rebalance.rebalance_id for _, step in trouble.steps)
        yield from (r.reassignment_id for r in trouble.reassignments)
        yield from (finding.finding_id for finding in trouble.findings)
    yield from (finding.finding_id for _, finding in alone)


def _places(fresh: Iterable[Episode]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for episode in fresh:
        for place, at_ms in departures(episode) if episode.kind in DEPARTING else growths(episode):
            first_ms, last_ms = found.get(place, (at_ms, at_ms))
            found[place] = min(first_ms, at_ms), max(last_ms, at_ms)
    return found


def _moves(chosen: Iterable[Trouble], fresh: Iterable[Episode]) -> list[LeaderMove]:
    ids = {step.rebalance.rebalance_id for episode in fresh for step in episode.steps}
    return [move for trouble in chosen for move in trouble.leader_moves if move.rebalance_id in ids]


def _marked(together: Iterable[Trouble], gone: Iterable[KnownIncident]) -> Iterator[tuple[str, int]]:
    steps = {s.rebalance.rebalance_id: (e.group_id, s.first_at_ms) for t in together for e, s in t.steps}
    for known in gone:
        for rebalance_id in known.rebalance_ids.intersection(steps):
            yield steps[rebalance_id]
