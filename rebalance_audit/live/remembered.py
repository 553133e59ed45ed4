"""The incidents of a cluster in memory. Only those around the groups that were folded are worked out again, so the rest
of a fleet costs nothing at each piece of news."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from rebalance_audit.domain.causes import MEMBER_FAILED
from rebalance_audit.domain.incidents import ClusterRows, Incident, incidents_of
from rebalance_audit.domain.incidents.around import (
    MARGIN_MS,
    NOTHING_NEW,
    OF_SEVERAL,
    KnownIncident,
    begin_of,
    incidents_around,
    is_recent,
    may_end,
    moved_together,
)
from rebalance_audit.domain.incidents.broker_faults import ends_of_waiting
from rebalance_audit.domain.incidents.episodes import CHANGE_GAP_MS
from rebalance_audit.domain.incidents.model import narrowed
from rebalance_audit.domain.incidents.storm_before import StormBefore
from rebalance_audit.domain.incidents.troubles import UNITING
from rebalance_audit.domain.kinds import FindingStatus, MemberChange
from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance
from rebalance_audit.domain.numbers import happened_at_ms
from rebalance_audit.domain.publish.leader_moves import FOLLOWS_WITHIN_MS, LeaderMove

LET_GO_EVERY_MS = 600_000

MOST_SETTLED = 1_000
"""So many rebalances of a group are remembered at most from before those that are folded."""


class RememberedCluster:
    """A cluster's groups for `incidents_around`, and its incidents as they were worked out last."""

    def __init__(self, rows: ClusterRows, since_ms: int | None, open_before: Mapping[str, int] | None = None) -> None:
        """`rows`: what happened from `since_ms` on (None: from the beginning), to the groups in `open_before` from the
        moment there."""
        self._rows, self.since_ms = replace(rows, groups={}, tasks=(), findings=()), since_ms
        self._open_before = open_before or {}
        """Needed until incidents are worked out first."""
        self._groups: dict[str, Sequence[Rebalance]] = dict(rows.groups)
        self._tasks: dict[str, list[ConnectTask]] = defaultdict(list)
        self._findings: dict[str | None, list[Finding]] = defaultdict(list)
        self._incidents: dict[str, Incident] | None = None
        self._ends: list[tuple[int, str]] = []
        """A heap of the moments after which time alone may end an incident. Some are of incidents that changed since:
        beside a busy cluster a thousand are open, and this is asked several times a second."""
        self._waiting: list[tuple[int, str, int]] = []
        """A heap of the moments until which failed brokers are blamed, as `ends_of_waiting` gives them."""
        self._of_reassignments: set[str] = set()
        """Open incidents that any moment may end."""
        self._let_go_at_ms = 0
        self._of_group: dict[str, set[str]] = defaultdict(set)
        self._of_thing: dict[str, set[str]] = defaultdict(set)
        self._names: dict[str, set[str]] = {}
        """By group: hosts, addresses and names of its members that left, and topics that grew."""
        self._named: dict[str, set[str]] = defaultdict(set)
        """The groups by these names."""
        self._past_findings: set[str] = set()
        """Findings of incidents that were let go. While they are over they belong to no later one."""
        self._changed: dict[str, int] = {}
        self._first_left: dict[str, str] = {}
        """By group whose oldest evidence was let go, the first rebalance that it still has."""
        self._began_ms: dict[str, int] = {}
        """When incidents began of which that rebalance is not the first."""
        for task in rows.tasks:
            self._tasks[task.group_id].append(task)
        for group_id, finding in rows.findings:
            self._findings[group_id].append(finding)
        for group_id, rebalances in rows.groups.items():
            self._name(group_id, rebalances)
        self._wait_after(rows.leader_moves)

    def put(
        self,
        group_id: str,
        rebalances: Sequence[Rebalance],
        tasks: Sequence[ConnectTask],
        findings: Sequence[Finding],
        *,
        is_whole: bool = True,
    ) -> None:
        """What one group went through, as it was folded now. Unless it `is_whole`, its first rebalance here goes on
        after those that are known; what began before all of these goes on under the id that it had."""
        wanted_ms = self._wanted_since(group_id, findings)
        now = [narrowed(rebalance) for rebalance in _since(rebalances, wanted_ms)]
        before = self._groups.get(group_id, ())
        settled = _since(_before(before, now[0]), wanted_ms) if now and not is_whole else ()
        if settled:
            findings = _with_earlier(self._findings[group_id], findings, happened_at_ms(now[0]) or 0)
            now = [*settled[-MOST_SETTLED:], *now]
        same = next((at for at, (r, other) in enumerate(zip(now, before, strict=False)) if r != other), None)
        same = min(len(now), len(before)) if same is None else same
        at_ms = min((happened_at_ms(r) or 0 for r in (*now[same:], *before[same:])), default=NOTHING_NEW)
        self._changed[group_id] = min(self._changed.get(group_id, NOTHING_NEW), at_ms)
        self._groups[group_id] = now
        self._tasks[group_id] = list(tasks)
        self._findings[group_id] = list(findings)
        self._first_left.pop(group_id, None)
        if now and not is_whole and not 0 < len(settled) <= MOST_SETTLED:
            self._first_left[group_id] = now[0].rebalance_id
        self._name(group_id, now)

    @property
    def moves_since_ms(self) -> int:
        """Leader moves before this instant are beside no rebalance here."""
        return (self.since_ms or 0) - FOLLOWS_WITHIN_MS

    def put_moves(self, moves: Sequence[LeaderMove]) -> None:
        """The leader moves since `moves_since_ms` as the tables have them by now. Incidents of groups of which they are
        others than before are worked out again."""
        before = {move for move in self._rows.leader_moves if move.at_ms >= self.moves_since_ms}
        older = [
            move for move in self._rows.leader_moves
            if (self._kept_since(move.group_id) or 0) - FOLLOWS_WITHIN_MS <= move.at_ms < self.moves_since_ms
        ]  # fmt: skip
        self._wait_after(set(moves) - before)
        for move in before.symmetric_difference(moves):
            at_ms = move.at_ms + min(move.after_ms or 0, 0)
            self._changed[move.group_id] = min(self._changed.get(move.group_id, NOTHING_NEW), at_ms)
        self._rows = replace(self._rows, leader_moves=[*older, *moves])

    def _wait_after(self, moves: Iterable[LeaderMove]) -> None:
        for waiting in ends_of_waiting(moves, self._rows.limits):
            heappush(self._waiting, waiting)

    def names(self) -> Collection[str]:
        """The groups that anything is remembered of."""
        named = {group_id for group_id in self._findings if group_id is not None}
        return named | self._groups.keys() | self._of_group.keys()

    def erase(self, group_id: str) -> None:
        """Forget the group; incidents that other groups share are worked out again."""
        shared = list(self._of_group.get(group_id, ()))
        for incident in (self._incidents[incident_id] for incident_id in shared if self._incidents is not None):
            for other in set(incident.group_ids) - {group_id}:
                self._changed[other] = min(self._changed.get(other, NOTHING_NEW), incident.first_at_ms)
        if shared:
            self._take(shared, ())
        self._name(group_id, ())
        for by_group in (self._groups, self._tasks, self._findings, self._of_group, self._names, self._first_left):
            by_group.pop(group_id, None)
        self._changed.pop(group_id, None)
        moves = [move for move in self._rows.leader_moves if move.group_id != group_id]
        self._rows = replace(self._rows, leader_moves=moves)

    def group_ids(self) -> Collection[str]:
        """The groups of which rebalances are remembered."""
        return self._groups.keys()

    def rebalances_of(self, group_id: str) -> Sequence[Rebalance]:
        """As they were put last, or as the tables have them."""
        return self._groups.get(group_id, ())

    def findings_of(self, group_id: str) -> Sequence[Finding]:
        """As they were put last, or as the tables have them."""
        return self._findings.get(group_id, ())

    def incidents(self, now_ms: int) -> list[Incident]:
        """All incidents of the cluster, as `incidents_of` returns them."""
        return self._in_order(self._known_at(now_ms).values())

    def incidents_of(self, groups: Collection[str], now_ms: int) -> list[Incident]:
        """The incidents that concern one of these groups, found by an index."""
        known = self._known_at(now_ms)
        return self._in_order(known[i] for i in {i for group_id in groups for i in self._of_group.get(group_id, ())})

    def known_incidents_of(self, groups: Collection[str]) -> dict[str, Incident]:
        """By id, as they were worked out last."""
        known = self._known_at(self._rows.now_ms) if self._incidents is None else self._incidents
        ids = {i for group_id in groups for i in self._of_group.get(group_id, ())}
        return {id_: self._since_it_began(known[id_]) for id_ in ids}

    def _in_order(self, incidents: Iterable[Incident]) -> list[Incident]:
        return sorted(map(self._since_it_began, incidents), key=lambda i: (i.first_at_ms, i.incident_id))

    def _since_it_began(self, incident: Incident) -> Incident:
        began_ms = self._began_ms.get(incident.incident_id)
        return incident if began_ms is None else replace(incident, first_at_ms=began_ms)

    def incident_ids(self) -> Collection[str]:
        """The ids of the incidents in memory."""
        return (self._incidents or {}).keys()

    def _known_at(self, now_ms: int) -> dict[str, Incident]:
        before_ms, self._rows = self._rows.now_ms, replace(self._rows, now_ms=now_ms)
        if self._incidents is None:
            self._incidents = {}
            groups = self._groups.keys()
            found, _ = incidents_of(self.rows(groups, 0, apart=True))
            self._take((), found)
        elif self._changed or now_ms != before_ms:
            news, apart = dict(self._changed), False
            while self._waiting and self._waiting[0][0] < now_ms:
                _, group_id, began_ms = heappop(self._waiting)
                news[group_id] = min(news.get(group_id, NOTHING_NEW), began_ms)
            for incident in (self._incidents[incident_id] for incident_id in self._at_an_end(before_ms)):
                apart = apart or bool(incident.reassignment_ids)
                news |= {g: min(news.get(g, NOTHING_NEW), incident.first_at_ms) for g in incident.group_ids}
            if news or apart:
                since_ms = max(min(news.values(), default=NOTHING_NEW) - MARGIN_MS, self.since_ms or 0)
                around = incidents_around(news, since_ms, self, apart=apart)
                self._take([known.incident_id for known in around.gone], around.incidents)
        self._changed.clear()
        if now_ms - self._let_go_at_ms >= LET_GO_EVERY_MS:
            self._let_go_at_ms = now_ms
            self._let_go(now_ms - MARGIN_MS)
        return self._incidents

    def _let_go(self, from_ms: int) -> None:
        """In a cluster that is never quiet, forget what ended so long ago that no news belongs to it."""
        known = self._incidents or {}
        spans = [(i.first_at_ms, i.last_at_ms) for i in known.values() if i.rebalance_ids or i.reassignment_ids]
        symptoms = (f for found in self._findings.values() for f in found if f.rule_id in OF_SEVERAL)
        spans += ((f.first_seen_at_ms, f.last_seen_at_ms) for f in symptoms if f.finding_id not in self._past_findings)
        since_ms = begin_of(spans, from_ms)
        if since_ms <= (self.since_ms or 0):
            return
        self.since_ms = since_ms
        gone = [i for i in known.values() if i.status != "open" and i.last_at_ms < since_ms]
        self._past_findings &= {finding.finding_id for found in self._findings.values() for finding in found}
        self._past_findings.update(finding_id for i in gone if i.rebalance_ids for finding_id in i.finding_ids)
        self._take([i.incident_id for i in gone], ())
        for group_id, rebalances in list(self._groups.items()):
            kept = _since(rebalances, self._kept_since(group_id))
            if len(kept) == len(rebalances):
                continue
            self._groups[group_id] = kept
            self._name(group_id, kept)
            if not (kept or self._tasks.get(group_id) or self._of_group.get(group_id)):
                for by_group in (self._groups, self._tasks, self._findings, self._of_group, self._names):
                    by_group.pop(group_id, None)

    def _kept_since(self, group_id: str) -> int | None:
        """From when on rebalances of the group are kept: an open incident needs its own, however old they are."""
        if self.since_ms is None:
            return None
        if self._incidents is None:
            return min(self.since_ms, self._open_before.get(group_id, self.since_ms))
        known = self._incidents
        concerned = (known[incident_id] for incident_id in self._of_group.get(group_id, ()))
        return min([self.since_ms, *(i.first_at_ms for i in concerned if i.status == "open" and i.rebalance_ids)])

    def _wanted_since(self, group_id: str, findings: Iterable[Finding]) -> int | None:
        """From when on rebalances of the group are wanted: earlier than they are kept where a new finding makes one
        trouble of several that began earlier."""
        kept_ms = self._kept_since(group_id)
        if kept_ms is None:
            return None
        known = {f for i in self._of_group.get(group_id, ()) for f in (self._incidents or {})[i].finding_ids}
        new = (f for f in findings if f.rule_id in UNITING and f.finding_id not in known | self._past_findings)
        begins = (f.first_seen_at_ms for f in new if f.status == FindingStatus.OPEN or f.last_seen_at_ms >= kept_ms)
        return min([kept_ms, *(at_ms - MARGIN_MS for at_ms in begins if at_ms < kept_ms)])

    def _at_an_end(self, before_ms: int) -> set[str]:
        """Open incidents that may have ended since `before_ms` without any news."""
        assert self._incidents is not None
        found = set(self._of_reassignments)
        while self._ends and self._ends[0][0] < self._rows.now_ms:
            _, incident_id = heappop(self._ends)
            incident = self._incidents.get(incident_id)
            if incident is not None and incident.status == "open" and self._may_end(incident, before_ms):
                found.add(incident_id)
        return found

    def _may_end(self, incident: Incident, before_ms: int) -> bool:
        return any(
            may_end(incident.last_at_ms, before_ms, self._rows.now_ms, quiet) for quiet in self._quiet_ms(incident)
        )

    def _quiet_ms(self, incident: Incident) -> set[int]:
        return {self._rows.limits(group_id).quiet_ms for group_id in incident.group_ids}

    def _take(self, gone: Iterable[str], found: Iterable[Incident]) -> None:
        assert self._incidents is not None
        before: list[Incident] = []
        for incident_id in gone:
            incident = self._incidents.pop(incident_id)
            before.append(self._since_it_began(incident))
            self._began_ms.pop(incident_id, None)
            self._of_reassignments.discard(incident_id)
            for group_id in incident.group_ids:
                self._of_group[group_id].discard(incident_id)
            for thing in _things(incident):
                self._of_thing[thing].discard(incident_id)
                if not self._of_thing[thing]:
                    del self._of_thing[thing]
        for incident in self._continued(before, found):
            self._incidents[incident.incident_id] = incident
            if incident.status == "open" and (incident.rebalance_ids or incident.reassignment_ids):
                for gap_ms in {CHANGE_GAP_MS, *self._quiet_ms(incident)}:
                    heappush(self._ends, (incident.last_at_ms + gap_ms, incident.incident_id))
                if incident.reassignment_ids:
                    self._of_reassignments.add(incident.incident_id)
            for group_id in incident.group_ids:
                self._of_group[group_id].add(incident.incident_id)
            for thing in _things(incident):
                self._of_thing[thing].add(incident.incident_id)

    def _continued(self, before: Sequence[Incident], found: Iterable[Incident]) -> Iterator[Incident]:
        """One that begins with the first rebalance that is left of a group goes on from one of `before`: it has that
        one's id. It keeps its own begin here, so that no more is remembered because of it; readers get the other."""
        found = list(found)
        ids = {incident.incident_id for incident in found}
        for incident in found:
            cut = [g for g in incident.group_ids if self._first_left.get(g) in incident.rebalance_ids]
            earlier = [
                i for i in before
                if i.incident_id not in ids and i.first_at_ms < incident.first_at_ms
                and (i.status == "open" or incident.first_at_ms <= i.last_at_ms)  # some of it was never folded
                and not set(cut).isdisjoint(i.group_ids)
            ]  # fmt: skip
            if earlier:
                first = min(earlier, key=lambda i: (i.first_at_ms, i.incident_id))
                self._began_ms[first.incident_id] = first.first_at_ms
                ids.add(first.incident_id)
                incident = replace(incident, incident_id=first.incident_id)
            yield incident

    # ---- as a WholeCluster

    def storms(self, groups: Collection[str]) -> Mapping[str, StormBefore]:
        return {}  # what is in memory is less than an era

    def rows(
        self, groups: Collection[str], from_ms: int, *, apart: bool, storms: Mapping[str, StormBefore] | None = None
    ) -> ClusterRows:
        known = self._incidents or {}
        concerned = known.keys() if apart else {i for group_id in groups for i in self._of_group.get(group_id, ())}
        shown = {f for i in concerned if known[i].status == "open" for f in known[i].finding_ids}
        listed: list[str | None] = [*sorted(groups), *((None,) if apart else ())]
        return replace(
            self._rows,
            groups={g: _since(self._groups[g], from_ms) for g in groups if g in self._groups},
            tasks=[task for g in listed if g is not None for task in self._tasks.get(g, ())],
            reassignments=self._rows.reassignments if apart else (),
            leader_moves=[move for move in self._rows.leader_moves if move.group_id in groups],
            findings=[
                (g, f) for g in listed for f in self._findings.get(g, ())
                if is_recent(f, from_ms, shown)
                and (f.status == FindingStatus.OPEN or f.finding_id not in self._past_findings)
            ],
        )  # fmt: skip

    def of_groups(self, groups: Collection[str], from_ms: int, *, apart: bool) -> list[KnownIncident]:
        found = {incident_id for group_id in groups for incident_id in self._of_group.get(group_id, ())}
        if apart:
            found |= {i.incident_id for i in (self._incidents or {}).values() if not i.group_ids or i.reassignment_ids}
        return list(self._known(found, from_ms))

    def of_things(self, things: Collection[str], from_ms: int) -> list[KnownIncident]:
        return list(self._known({i for thing in things for i in self._of_thing.get(thing, ())}, from_ms))

    def _known(self, ids: Iterable[str], from_ms: int) -> Iterator[KnownIncident]:
        for incident_id in ids:
            incident = (self._incidents or {})[incident_id]
            if incident.status == "open" or incident.last_at_ms >= from_ms:
                yield KnownIncident.of(incident)

    def departed(self, places: Mapping[str, tuple[int, int]]) -> set[str]:
        return {group_id for place in places for group_id in self._named.get(place, ())}

    def moved(self, moves: Collection[LeaderMove], from_ms: int, *, apart: bool) -> set[str]:
        plans = {r.reassignment_id for r in self._rows.reassignments} if apart else set()
        return moved_together(moves, self._rows.leader_moves, plans)

    def _name(self, group_id: str, rebalances: Sequence[Rebalance]) -> None:
        for name in self._names.get(group_id, ()):
            self._named[name].discard(group_id)
            if not self._named[name]:
                del self._named[name]
        self._names[group_id] = set(_names(rebalances))
        for name in self._names[group_id]:
            self._named[name].add(group_id)


def _names(rebalances: Sequence[Rebalance]) -> Iterator[str]:
    """Hosts, addresses and names of members that went, and topics that grew. A row may lack what an earlier one has."""
    gone: set[str] = set()
    for rebalance in rebalances:
        yield from rebalance.grown_topics or ()
        gone.update(m.member_id for m in rebalance.members if m.change in (MemberChange.LEFT, MemberChange.REPLACED))
        gone.update(m for t in rebalance.triggers if t.trigger in MEMBER_FAILED for m in t.members)
    yield from gone
    for member in (m for rebalance in rebalances for m in rebalance.members if m.member_id in gone):
        named = (member.client_host, member.worker_url, member.group_instance_id, member.client_id)
        yield from (name for name in named if name is not None)


def _things(incident: Incident) -> Iterator[str]:
    yield from (*incident.rebalance_ids, *incident.reassignment_ids, *incident.finding_ids)


def _before(rebalances: Sequence[Rebalance], first: Rebalance) -> Sequence[Rebalance]:
    """Those of one group that come before this one."""
    for place, rebalance in enumerate(rebalances):
        if rebalance.rebalance_id == first.rebalance_id:
            return rebalances[:place]
    at_ms = happened_at_ms(first) or 0
    return [rebalance for rebalance in rebalances if (happened_at_ms(rebalance) or 0) < at_ms]


def _with_earlier(before: Sequence[Finding], now: Sequence[Finding], at_ms: int) -> list[Finding]:
    """With those that were over before this instant."""
    ids = {finding.finding_id for finding in now}
    earlier = [f for f in before if f.last_seen_at_ms < at_ms and f.finding_id not in ids]
    return sorted([*earlier, *now], key=lambda f: (f.first_seen_at_ms, f.rule_id, f.finding_id))


def _since(rebalances: Sequence[Rebalance], since_ms: int | None) -> Sequence[Rebalance]:
    """From the first one then or later: a range begins where the stages' range does."""
    if since_ms is None:
        return rebalances
    first = next((n for n, r in enumerate(rebalances) if (happened_at_ms(r) or 0) >= since_ms), len(rebalances))
    return rebalances[first:]
