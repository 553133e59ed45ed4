"""From the rows of a cluster to its incidents and marks."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from rebalance_audit.domain.causes import COORDINATOR_FAILED, MEMBER_FAILED, Cause
from rebalance_audit.domain.cost_sums import CostSums
from rebalance_audit.domain.detect import client_advice
from rebalance_audit.domain.detect.finding import capped
from rebalance_audit.domain.detect.history import History, HistoryStep, Identity
from rebalance_audit.domain.incidents import broker_faults, titles, words
from rebalance_audit.domain.incidents.episodes import CHANGE_GAP_MS, Episode, episodes, faults_in, known_ms
from rebalance_audit.domain.incidents.long_storms import firsts, folded, stretches
from rebalance_audit.domain.incidents.model import ChangeMark, ClusterRows, Incident
from rebalance_audit.domain.incidents.poison_record import poison_record
from rebalance_audit.domain.incidents.storm_before import Link
from rebalance_audit.domain.incidents.symptoms import OWN_KINDS, SYMPTOMS, attach, begins_ms
from rebalance_audit.domain.incidents.troubles import Trouble, troubles
from rebalance_audit.domain.kinds import Outcome
from rebalance_audit.domain.libraries import with_libraries
from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance
from rebalance_audit.domain.numbers import CostBounds, cost_of
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.tables import SEVERITIES

EXPECTED_KINDS = frozenset({"deploy", "scaling", "configuration", "subscription", "protocol", "removal"})
"""Changes on purpose: they cost something, and nothing is wrong."""
_MARKED_KINDS = ("deploy", "configuration", "removal", "reassignment")
_WARNING = SEVERITIES.index("warning")
_WAITING_STATES = frozenset({"UNASSIGNED", "LOST"})
_DOWN_WHILE_OPEN = frozenset({"RB011", "RB012", "RB013", "RB019", "RB020", "CN007"})
"""Rules whose finding is open as long as somebody stands still, and not for a while longer."""

_CONNECT_DEPLOY = (
    "Nothing is wrong. A restarted worker's tasks wait until scheduled.rebalance.max.delay.ms is over: "
    "`rebalance-audit whatif` replays this deploy with a shorter delay."
)
_OWN_CHANGE = (
    "Nobody sent a change. If it goes on, find in the connector's log what makes it ask for other task configurations."
)
_ADVICE = {
    "scaling": "Nothing is wrong: members came or went on purpose.",
    "configuration": "Nothing is wrong. Changes that are sent together cost one round instead of several.",
    "reassignment": "Nothing is wrong: the reassignment did what was asked.",
    "removal": "Nothing is wrong, if it was on purpose.",
}
_ADVICE_OTHERWISE = "Look at the evidence of the first link of the chain."


def incidents_of(rows: ClusterRows) -> tuple[list[Incident], list[ChangeMark]]:
    """Incidents, sorted by begin, then id. Every rebalance with a cost is in exactly one incident, and their costs add
    up.

    `rows` may be a range of time that begins where nothing was going on: with a range that begins later, what began
    before it would get another id.
    """
    return built(rows, *troubles_in(rows))


Alone = tuple[str | None, Finding]
"""A finding that no trouble explains, with its group."""


def troubles_in(rows: ClusterRows) -> tuple[list[Trouble], list[Alone]]:
    """All troubles with their findings, and the findings that belong to none."""
    found: list[Episode] = []
    failures: dict[str, LeaderMove] = {}
    moves = broker_faults.by_group(rows.leader_moves)
    storms: dict[str | None, list[Finding]] = defaultdict(list)
    for of_group, finding in rows.findings:
        if finding.rule_id == "RB001":
            storms[of_group].append(finding)
    for group_id, rebalances in sorted(rows.groups.items()):
        for stretch in stretches(rows, group_id, rebalances, storms[group_id]):
            history = History(stretch, (), rows.limits(group_id), rows.now_ms)
            expired = broker_faults.expired_by_brokers(history, moves.get(group_id, ()))
            failures |= expired
            brokers = {rebalance_id: move.previous_leader for rebalance_id, move in expired.items()}
            found += [e for e in episodes(history, brokers) if e.steps]
    together = troubles(rows, found, failures)
    alone = attach(rows, together)
    return list(map(folded, together)), alone


def built(
    rows: ClusterRows, together: Iterable[Trouble], alone: Iterable[Alone]
) -> tuple[list[Incident], list[ChangeMark]]:
    """Some of the troubles and findings that `troubles_in` found in these rows, as incidents and marks."""
    incidents = [_of_finding(finding, group_id) for group_id, finding in alone]
    marks: list[ChangeMark] = []
    for trouble in together:
        is_shown, is_marked = _is_worth_showing(trouble), trouble.kind in _MARKED_KINDS
        if not (is_shown or is_marked):
            continue
        people = _people(trouble)
        change = titles.title(trouble, people)
        if is_shown:
            incidents.append(_incident(rows, trouble, people, change))
        if is_marked:
            marks += _marks(rows, trouble, change)
    return (
        sorted(incidents, key=lambda i: (i.first_at_ms, i.incident_id)),
        sorted(marks, key=lambda m: (m.at_ms, m.scope, m.text)),
    )


def has_cost(rebalance: Rebalance) -> bool:
    """Whether something stood still in it, or may have."""
    estimate, upper = rebalance.resource_seconds_estimate, rebalance.resource_seconds_upper
    return estimate is not None and (estimate > 0 or upper is None or upper > 0)


def incident_id(cluster_id: str, subject: str, first: str) -> str:
    """The same for the same cluster, group or partition, and first rebalance or attempt (the first in which a member
    failed, if one did); its kind may yet change, as when a member that vanishes turns out to be part of a storm."""
    parts = "\x00".join((cluster_id, subject, first))
    return f"in:{hashlib.sha256(parts.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _is_worth_showing(trouble: Trouble) -> bool:
    is_fault = trouble.kind in ("storm", "reassignment", "connect_worker", "member_fault")
    is_grave = any(map(_is_grave, trouble.findings))
    return is_fault or is_grave or any(has_cost(s.rebalance) for _, s in trouble.steps)


def _incident(rows: ClusterRows, trouble: Trouble, people: Sequence[Identity], change: str) -> Incident:
    """`change`: the title of the trouble."""
    steps = trouble.steps
    signs = [sign for e in trouble.episodes for sign in words.last_signs(e)] + [*words.taken_for_failed(trouble)]
    before = trouble.before
    first_ms = min([begins_ms(trouble), *(link.at_ms for link in signs)])
    first_ms = first_ms if before is None else min(first_ms, before.first_sign_ms)
    last_ms = max([e.last_at_ms for e in trouble.episodes] + [_last_of_moves(rows, trouble)])
    expected = _is_expected(trouble)
    still = _still(rows, trouble, last_ms)
    stands = _stands(rows, trouble, last_ms, still, expected=expected)
    cost = _cost(trouble)
    cause, tier, cause_refs = _root_cause(trouble)
    findings = sorted(trouble.findings, key=lambda f: (-SEVERITIES.index(f.severity), f.first_seen_at_ms, f.finding_id))
    chain, _ = words.chain(trouble, signs)
    title = _title(trouble, change, findings, expected=expected)
    return Incident(
        cluster_id=rows.cluster_id,
        incident_id=_id_of(rows, trouble),
        kind=trouble.kind,
        root_cause=cause,
        root_cause_tier=tier,
        culprits=tuple(dict.fromkeys(_culprits(trouble, people))),
        hosts=tuple(dict.fromkeys(titles.hosts_of(trouble, people).values())) if _has_members(trouble) else (),
        group_ids=tuple(sorted({e.group_id for e in trouble.episodes})),
        connectors=tuple(sorted(_connectors(trouble))),
        rebalance_ids=(
            *(before.rebalance_ids if before is not None else ()),
            *(s.rebalance.rebalance_id for _, s in steps),
        ),
        reassignment_ids=tuple(r.reassignment_id for r in trouble.reassignments),
        finding_ids=tuple(f.finding_id for f in findings),
        first_at_ms=first_ms,
        last_at_ms=max(last_ms, first_ms),
        status="over" if stands == "over" else "open",
        still="nothing" if stands == "over" else still,
        expected=expected,
        severity=_severity(trouble, findings),
        unit=words.unit_of_trouble(trouble),
        cost_seconds=cost.estimate,
        cost_lower_seconds=cost.lower,
        cost_upper_seconds=cost.upper,
        cost_likely_lower_seconds=cost.likely_lower,
        cost_likely_upper_seconds=cost.likely_upper,
        title=title,
        story=words.story(title, change, trouble, cost, stands, last_ms, expected=expected),
        advice=_advice(trouble, findings, expected=expected),
        chain=chain,
        evidence=capped([*cause_refs, *(ref for link in chain for ref in link.evidence[:2])]),
    )


def _cost(trouble: Trouble) -> CostBounds:
    if trouble.before is None:
        return cost_of(s.rebalance for _, s in trouble.steps)
    own = CostSums.of(s.rebalance for _, s in trouble.steps)
    total = CostSums.together([trouble.before.cost, own]).total
    return CostBounds(None, None, None) if total is None else CostBounds(*total)


def _title(trouble: Trouble, change: str, findings: Sequence[Finding], *, expected: bool) -> str:
    """What is wrong: of a change on purpose its gravest symptom, since the change itself is no fault. `change`: the
    title of the trouble."""
    if trouble.kind in EXPECTED_KINDS and not expected and findings and _is_grave(findings[0]):
        return findings[0].title
    return change


def _severity(trouble: Trouble, findings: Sequence[Finding]) -> str:
    """Of its gravest symptom, which comes first. A broker that fails is a warning even where a finding about an earlier
    trouble took its members in."""
    least = "warning" if trouble.standstills else "info"
    return max([least, *(f.severity for f in findings[:1])], key=SEVERITIES.index)


def _is_grave(finding: Finding) -> bool:
    return SEVERITIES.index(finding.severity) >= _WARNING


def _id_of(rows: ClusterRows, trouble: Trouble) -> str:
    if trouble.reassignments:
        first = trouble.reassignments[0]
        return incident_id(rows.cluster_id, first.name, first.reassignment_id)
    if trouble.before is not None:
        first_step, first_failure = firsts(trouble)
        _, rebalance_id = first_failure or first_step
        return incident_id(rows.cluster_id, trouble.episodes[0].group_id, rebalance_id)
    failed = [(e, s) for e, s in trouble.steps if faults_in(e.history, s)]
    episode, step = min(failed or trouble.steps, key=lambda pair: (known_ms(pair[1]), pair[0].group_id, pair[1].index))
    return incident_id(rows.cluster_id, episode.group_id, step.rebalance.rebalance_id)


def _people(trouble: Trouble) -> list[Identity]:
    """The members at fault; those that came or went, where nobody is at fault."""
    failed = Counter(who for who, _ in trouble.before.failed) if trouble.before is not None else Counter[Identity]()
    failed.update(who for e, s in trouble.steps for who in faults_in(e.history, s))
    if trouble.kind == "storm" and not failed:
        if titles.cause_of_storm(trouble) in COORDINATOR_FAILED:
            return []
        came = Counter(dict(trouble.before.turned) if trouble.before is not None else None)
        came.update(who for _, s in trouble.steps for who in dict.fromkeys((*s.left, *s.joined)))
        most = max(came.values(), default=0)
        return [who for who, n in came.items() if n * 2 >= most]
    if failed:
        return list(failed)
    own = [e for e in trouble.episodes if e.kind == trouble.kind]
    turned = sorted((at, who) for e in own for who, at in e.people.items())
    return list(dict.fromkeys(who for _, who in turned))


def _culprits(trouble: Trouble, people: Sequence[Identity]) -> Iterator[str]:
    worst = titles.worst_of(trouble.reassignments)
    if trouble.kind == "reassignment":
        yield from (f"broker {b}" for b in (worst.blocked_replicas if worst else ()))
    elif trouble.kind == "coordinator":
        yield from (f"broker {m.previous_leader}" for m in trouble.leader_moves if m.previous_leader is not None)
    elif trouble.kind == "configuration":
        yield from sorted(_changed(trouble))
    else:
        yield from titles.culprits(people)


def _has_members(trouble: Trouble) -> bool:
    """Whether its culprits are members, and not brokers or connectors."""
    return trouble.kind not in ("reassignment", "coordinator", "configuration")


def _changed(trouble: Trouble) -> set[str]:
    return {c for _, s in trouble.steps for c in s.rebalance.changed_connectors or ()}


def _connectors(trouble: Trouble) -> set[str]:
    changed = _changed(trouble) if trouble.kind == "configuration" else set()
    return changed | {c for f in trouble.findings for c in f.connectors or ()}


def _root_cause(trouble: Trouble) -> tuple[str, str, tuple[str, ...]]:
    """The cause, its evidence tier, and the refs that show it."""
    if trouble.kind == "reassignment":
        worst = titles.worst_of(trouble.reassignments)
        first = worst or trouble.reassignments[0]
        tier = "recorded" if first.source == "metadata" else "logged"
        return (worst.blocked_by or "unknown" if worst else "reassigned"), tier, first.evidence[:2]
    leading = titles.leading_cause(trouble) if trouble.kind == "storm" else None
    causes = [] if leading is None else [leading]
    if trouble.kind in ("member_fault", "connect_worker"):
        causes = [t for _, s in trouble.steps for t in s.rebalance.triggers if t.trigger in MEMBER_FAILED]
    if causes:
        return causes[0].trigger, causes[0].tier, causes[0].evidence[:2]
    if trouble.standstills:
        return Cause.COORDINATOR_FAILOVER, "inferred", trouble.standstills[0].evidence[:2]
    root = trouble.root
    assert root is not None  # what has no reassignment has an episode
    r = root.root.rebalance
    refs = next((t.evidence for t in r.triggers if t.trigger == r.trigger), ())
    return r.trigger, r.trigger_tier, refs[:2] or r.evidence[:2]


def _last_of_moves(rows: ClusterRows, trouble: Trouble) -> int:
    ends = [rows.now_ms if r.outcome == "open" else r.ended_at_ms or 0 for r in trouble.reassignments]
    return max(ends, default=0)


def _is_expected(trouble: Trouble) -> bool:
    if any(f.rule_id in SYMPTOMS and _is_grave(f) for f in trouble.findings):
        return False
    if trouble.kind == "reassignment":
        return titles.worst_of(trouble.reassignments) is None
    return trouble.kind in EXPECTED_KINDS


def _still(rows: ClusterRows, trouble: Trouble, last_ms: int) -> str:
    """What has not ended where the evidence ends, the worst of it: one of tables.INCIDENT_STILL. An open incident is
    worked out again at each news of its groups, so `empty` ends when somebody joins."""
    if any(f.rule_id in _DOWN_WHILE_OPEN and f.status == "open" for f in trouble.findings):
        return "down"
    groups = {e.group_id for e in trouble.episodes}
    tasks = (t for t in rows.tasks if t.group_id in groups and begins_ms(trouble) <= t.from_ms)
    if any(e.still_waits for e in trouble.episodes) or any(_still_waits(t, last_ms) for t in tasks):
        return "waiting"
    if any(e.steps[-1].rebalance.outcome == Outcome.OPEN for e in trouble.episodes):
        return "rebalancing"
    if any(r.outcome == Outcome.OPEN for r in trouble.reassignments):
        return "moving"
    return "empty" if trouble.episodes and _left_nobody(trouble) else "nothing"


def _left_nobody(trouble: Trouble) -> bool:
    """Whether it emptied its groups. Who stops the rest of a group later on purpose does something else."""
    own = {step.rebalance.rebalance_id for _, step in trouble.steps}
    histories = {e.group_id: e.history for e in trouble.episodes}
    # Of a history that begins late there may be rewrites alone.
    last = [history.attempts[-1].rebalance if history.attempts else None for history in histories.values()]
    return all(r is not None and r.outcome == Outcome.EMPTIED and r.rebalance_id in own for r in last)


def _stands(rows: ClusterRows, trouble: Trouble, last_ms: int, still: str, *, expected: bool) -> str:
    """`going on`, `quiet` (nothing is left to settle, but more may follow) or `over`."""
    if still not in ("empty", "nothing"):
        return "going on"
    quiet_ms = max((e.history.limits.quiet_ms for e in trouble.episodes), default=0)
    is_recent = rows.now_ms - last_ms <= (CHANGE_GAP_MS if expected and trouble.episodes else quiet_ms)
    return "quiet" if is_recent or any(f.status == "open" for f in trouble.findings) else "over"


def _still_waits(task: ConnectTask, until_ms: int) -> bool:
    return task.to_ms is None and task.state in _WAITING_STATES and task.from_ms <= until_ms


def _advice(trouble: Trouble, findings: Sequence[Finding], *, expected: bool) -> str:
    if trouble.standstills:
        return broker_faults.advice(titles.brokers_that_stood_still(trouble), len(titles.not_back_of(trouble)))
    if not expected and (advice := next((f.advice for f in findings if f.advice), None)):
        return " ".join(filter(None, (poison_record(trouble), advice)))
    if expected and trouble.kind == "deploy":
        if words.unit_of_trouble(trouble) == "task":
            return _CONNECT_DEPLOY
        rows = with_libraries([s.rebalance for _, s in trouble.steps])
        of = client_advice.families(m for row in rows for m in row.members)
        return client_advice.deploy(of, trouble.steps[-1][1].rebalance.group_type)
    if expected and trouble.kind == "configuration" and titles.is_own_change(trouble):
        return _OWN_CHANGE
    return _ADVICE.get(trouble.kind, _ADVICE_OTHERWISE) if expected else _ADVICE_OTHERWISE


def _of_finding(finding: Finding, group_id: str | None) -> Incident:
    """A finding that no rebalance or reassignment explains."""
    text = finding.title + ("" if finding.title.endswith(".") else ".")
    is_open = finding.status == "open"
    over = "It is not over yet as far as the evidence goes."
    return Incident(
        cluster_id=finding.cluster_id,
        incident_id=incident_id(finding.cluster_id, finding.subject, finding.finding_id),
        kind=OWN_KINDS.get(finding.rule_id, "evidence"),
        root_cause=finding.rule_id,
        root_cause_tier="unknown",
        culprits=(f"broker {finding.subject}",) if finding.subject_type == "broker" else (),
        group_ids=(group_id,) if group_id is not None else (),
        connectors=finding.connectors,
        finding_ids=(finding.finding_id,),
        first_at_ms=finding.first_seen_at_ms,
        last_at_ms=finding.last_seen_at_ms,
        status="open" if is_open else "over",
        still="nothing" if not is_open else "down" if finding.rule_id in _DOWN_WHILE_OPEN else None,
        expected=False,
        severity=finding.severity,
        title=finding.title,
        story=f"{text} No rebalance's cost is booked on it. " + (over if is_open else "It is over."),
        advice=finding.advice,
        chain=(Link(at_ms=finding.first_seen_at_ms, what=finding.title, evidence=finding.evidence[:3]),),
        evidence=finding.evidence,
    )


def _marks(rows: ClusterRows, trouble: Trouble, text: str) -> Iterator[ChangeMark]:
    """One per group that a deploy or a change on purpose touched. `text`: the title of the trouble."""
    first: dict[str, HistoryStep] = {}
    for episode, step in trouble.steps:
        first.setdefault(episode.group_id, step)
    if trouble.kind == "reassignment":
        refs = trouble.reassignments[0].evidence[:2]
        yield ChangeMark(
            cluster_id=rows.cluster_id, at_ms=begins_ms(trouble), source="evidence", text=text, scope="*", evidence=refs
        )
        return
    for group_id, step in first.items():
        yield ChangeMark(
            cluster_id=rows.cluster_id,
            at_ms=step.first_at_ms,
            source="evidence",
            text=text,
            scope=group_id,
            evidence=capped(step.rebalance.evidence[:2]),
        )
