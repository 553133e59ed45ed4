"""Episodes of all groups, and reassignments, brought together where one cause began them: a trouble in the making."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rebalance_audit.domain.detect.failures import failures
from rebalance_audit.domain.detect.history import HistoryStep, is_loopback
from rebalance_audit.domain.disjoint_sets import DisjointSets
from rebalance_audit.domain.incidents.episodes import Episode, faults_in
from rebalance_audit.domain.incidents.model import ClusterRows
from rebalance_audit.domain.incidents.storm_before import StormBefore
from rebalance_audit.domain.model import NO_END, Finding
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign.model import Reassignment

SAME_MOMENT_MS = 60_000
"""Members of one process or host go within it: session timeouts differ, 10 s and 45 s are the usual ones."""
SAME_TOPICS_MS = 300_000
"""metadata.max.age.ms by default: so long after a topic got partitions a client may find them."""
ONE_PLAN_MS = 60_000
"""Reassignments closer than this are one piece of work: tools send a plan in batches, people move on at once."""

DEPARTING = frozenset({"deploy", "scaling", "connect_worker", "member_fault"})
"""Kinds of episodes in which members go. Groups that lost members in the same moment belong together."""

UNITING = frozenset({"RB001", "RB005", "CN008"})
"""Rules whose finding makes one trouble of all episodes that it is about, however far they lie apart."""

PRECEDENCE = (
    "storm", "reassignment", "coordinator", "connect_worker", "member_fault", "removal", "deploy", "configuration",
    "subscription", "protocol", "client", "scaling", "unknown",
)  # fmt: skip
"""Kinds by rank: the highest kind among the episodes names the trouble, and the earliest episode of that kind is the
root."""


@dataclass(slots=True)
class Trouble:
    """Episodes, reassignments and findings that become one incident."""

    kind: str
    episodes: list[Episode] = field(default_factory=list)
    reassignments: list[Reassignment] = field(default_factory=list)
    leader_moves: list[LeaderMove] = field(default_factory=list)
    """That caused rebalances of these episodes, or show that the broker stood still which expired their members."""
    findings: list[Finding] = field(default_factory=list)
    before: StormBefore | None = None
    """Of a storm of one group that goes on over the ends of eras: what it was up to the last one."""
    steps: list[tuple[Episode, HistoryStep]] = field(init=False)
    """The chain of what happened, by time, then group."""

    def __post_init__(self) -> None:
        steps = [(e, s) for e in self.episodes for s in e.steps]
        self.steps = sorted(steps, key=lambda pair: (pair[1].at_ms, pair[0].group_id, pair[1].index))

    @property
    def root(self) -> Episode | None:
        own = [e for e in self.episodes if e.kind == self.kind] or self.episodes
        return min(own, key=lambda e: (e.first_at_ms, e.group_id), default=None)

    @property
    def standstills(self) -> list[LeaderMove]:
        """One for each group whose members were expired by a broker that stood still."""
        return [move for move in self.leader_moves if self.kind == "coordinator" and not move.is_cause]


def troubles(
    rows: ClusterRows, episodes: Sequence[Episode], failures: Mapping[str, LeaderMove] | None = None
) -> list[Trouble]:
    """Every episode and every reassignment is in exactly one. `failures`: by rebalance those of brokers that expired
    members."""
    failures = failures or {}
    by_rebalance = {s.rebalance.rebalance_id: e for e in episodes for s in e.steps}
    caused = [
        (m, e)
        for m in rows.leader_moves
        if (e := by_rebalance.get(m.rebalance_id or "")) and (m.is_cause or failures.get(m.rebalance_id or "") == m)
    ]
    plans = list(_plans(rows.reassignments))
    plan_of = {r.reassignment_id: place for place, plan in enumerate(plans) for r in plan}
    sets = DisjointSets(len(episodes) + len(plans))
    place_of = {id(e): place for place, e in enumerate(episodes)}
    moves_of: dict[int, list[int]] = defaultdict(list)
    for at, (move, episode) in enumerate(caused):
        moves_of[place_of[id(episode)]].append(at)
        if move.reassignment_id in plan_of:
            sets.unite(place_of[id(episode)], len(episodes) + plan_of[move.reassignment_id])
    for one, other in (
        *_storms(rows, [e for e in episodes if e.root.rebalance.rebalance_id not in failures]),
        *_same_moment(episodes),
        *_same_topics(episodes),
        *_same_broker(caused),
    ):
        sets.unite(place_of[id(one)], place_of[id(other)])
    found: list[Trouble] = []
    for places in sets.all():
        own = [episodes[p] for p in places if p < len(episodes)]
        moved = [r for p in places if p >= len(episodes) for r in plans[p - len(episodes)]]
        kinds = {e.kind for e in own} | ({"reassignment"} if moved else set())
        found.append(
            Trouble(
                kind=min(kinds, key=PRECEDENCE.index),
                episodes=own,
                reassignments=moved,
                leader_moves=[caused[at][0] for at in sorted(at for p in places for at in moves_of.get(p, ()))],
            )
        )
    _go_on(rows, found)
    return found


def _go_on(rows: ClusterRows, found: Sequence[Trouble]) -> None:
    """Storms of earlier eras go on in the trouble that the same finding shows."""
    findings = {finding.finding_id: finding for _, finding in rows.findings}
    for group_id, before in rows.storms.items():
        if (finding := findings.get(before.finding_id)) is None:
            continue
        for trouble in found:
            if any(e.group_id == group_id and e.kind == "storm" and _is_inside(e, finding) for e in trouble.episodes):
                trouble.before = before
                break


def _plans(reassignments: Iterable[Reassignment]) -> Iterator[list[Reassignment]]:
    plan: list[Reassignment] = []
    until_ms = 0
    for r in sorted(reassignments, key=lambda r: (_started(r), r.topic, r.partition, r.reassignment_id)):
        if plan and _started(r) - until_ms > ONE_PLAN_MS:
            yield plan
            plan = []
        ended_ms = r.ended_at_ms if r.ended_at_ms is not None else NO_END if r.outcome == "open" else _started(r)
        until_ms = max(until_ms, ended_ms) if plan else ended_ms
        plan.append(r)
    if plan:
        yield plan


def _started(r: Reassignment) -> int:
    return next((t for t in (r.started_at_ms, r.ended_at_ms) if t is not None), 0)


def _storms(rows: ClusterRows, episodes: Sequence[Episode]) -> Iterator[tuple[Episode, Episode]]:
    """A storm is all that its group went through meanwhile. A member that goes and comes back all the time is one
    trouble, and so is a connector that is reconfigured all the time."""
    of_group: dict[str, list[Episode]] = defaultdict(list)
    for e in episodes:
        of_group[e.group_id].append(e)
    for group_id, finding in rows.findings:
        if group_id is None or finding.rule_id not in UNITING:
            continue
        inside = [e for e in of_group[group_id] if _is_inside(e, finding)]
        for e in inside:
            if finding.rule_id == "RB001":
                e.kind = "storm"
        yield from ((inside[0], e) for e in inside[1:])


def _is_inside(episode: Episode, finding: Finding) -> bool:
    if finding.rule_id == "RB005":  # others may come and go beside the member it is about
        refs = set(finding.evidence)
        return any(refs.intersection(s.rebalance.evidence) for s in episode.steps)
    steps = [s for s in episode.steps if finding.first_seen_at_ms <= s.at_ms <= finding.last_seen_at_ms]
    if finding.rule_id == "CN008":
        changed = {c for s in steps for c in s.rebalance.changed_connectors or ()}
        return episode.kind == "configuration" and not changed.isdisjoint(finding.connectors or ())
    return bool(steps)


def _same_moment(episodes: Sequence[Episode]) -> Iterator[tuple[Episode, Episode]]:
    """Groups whose members went from the same host, or under the same name, at the same moment: one process or host
    that runs several consumers."""
    seen: dict[tuple[str, str], list[tuple[int, Episode]]] = defaultdict(list)
    for episode in episodes:
        if episode.kind in DEPARTING:
            for place, at_ms in departures(episode):
                purpose = "fault" if episode.is_fault else "on purpose"
                seen[place, purpose].append((at_ms, episode))
    for each in seen.values():
        each.sort(key=lambda departure: departure[0])
        for (at_ms, one), (next_ms, other) in pairwise(each):
            if next_ms - at_ms <= SAME_MOMENT_MS and one.group_id != other.group_id:
                yield one, other


def _same_topics(episodes: Sequence[Episode]) -> Iterator[tuple[Episode, Episode]]:
    """Groups that found new partitions of the same topic: each does so when its leader asks next."""
    seen: dict[str, list[tuple[int, Episode]]] = defaultdict(list)
    for episode in episodes:
        for topic, at_ms in growths(episode):
            seen[topic].append((at_ms, episode))
    for each in seen.values():
        each.sort(key=lambda growth: growth[0])
        for (at_ms, one), (next_ms, other) in pairwise(each):
            if next_ms - at_ms <= SAME_TOPICS_MS and one.group_id != other.group_id:
                yield one, other


def growths(episode: Episode) -> Iterator[tuple[str, int]]:
    """The topics of which a change of topics brought partitions, each with when its group began to share them out."""
    for step in episode.steps if episode.kind == "subscription" else ():
        for topic in step.rebalance.grown_topics or ():
            yield topic, step.first_at_ms


def departures(episode: Episode) -> Iterator[tuple[str, int]]:
    """The places that members went from, each with the time when the member was last known to live."""
    for step in episode.steps:
        failed = faults_in(episode.history, step)
        ids = {member_id for member_id, _ in failures(episode.history, step)}
        if not episode.is_fault:
            ids = {m.member_id for m in step.rebalance.members if m.change in ("left", "replaced")}
        for member_id in sorted(ids):
            member = episode.history.member(member_id)
            place = member.client_host or ""
            if is_loopback(place):
                place = member.worker_url or member.group_instance_id or member.client_id or member_id
            silent_ms = (member.session_timeout_ms or 0) if failed else 0
            yield place, step.first_at_ms - silent_ms


def _same_broker(caused: Sequence[tuple[LeaderMove, Episode]]) -> Iterator[tuple[Episode, Episode]]:
    """Groups whose coordinator went with the same broker."""
    of_broker: dict[int | None, list[tuple[int, Episode]]] = defaultdict(list)
    for move, episode in caused:
        of_broker[move.previous_leader].append((move.at_ms, episode))
    for each in of_broker.values():
        each.sort(key=lambda move: move[0])
        for (at_ms, one), (next_ms, other) in pairwise(each):
            if next_ms - at_ms <= SAME_MOMENT_MS:
                yield one, other
