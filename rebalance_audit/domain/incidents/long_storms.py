"""A storm that goes on over the ends of eras is cut there, and folded era by era (decision 0113). So it costs the era
of the news, however long it lasts, and is the same whether its first eras are there or only what they were folded to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rebalance_audit.domain.cost_sums import CostSums
from rebalance_audit.domain.detect import eras
from rebalance_audit.domain.detect.history import Identity
from rebalance_audit.domain.detect.instants import at_of
from rebalance_audit.domain.incidents import titles, words
from rebalance_audit.domain.incidents.episodes import faults_in, known_ms
from rebalance_audit.domain.incidents.model import ClusterRows
from rebalance_audit.domain.incidents.storm_before import StormBefore
from rebalance_audit.domain.incidents.troubles import Trouble
from rebalance_audit.domain.model import Finding, Rebalance
from rebalance_audit.domain.numbers import is_counted

First = tuple[int, str]
"""Since when it is known what happened in a rebalance, and its id."""


def stretches(
    rows: ClusterRows, group_id: str, rebalances: Sequence[Rebalance], storms: Sequence[Finding]
) -> Iterator[Sequence[Rebalance]]:
    """A group's rebalances, parted where an era ended in a storm, and where the era began in which that one did. All in
    one if their places are not known. `storms`: the findings that the group is in one."""
    first = rows.first_places.get(group_id)
    cuts = {0, len(rebalances)}
    if storms and first is not None and all(r.protocol_type != "connect" for r in rebalances):
        for era in range(eras.era_of(first), eras.era_of(first + len(rebalances) - 1)):
            begin, end = (max(e * eras.ERA_REBALANCES - first, 0) for e in (era, era + 1))
            until_ms = last_at_ms(rebalances[begin:end])
            if any(storm.first_seen_at_ms <= until_ms < storm.last_seen_at_ms for storm in storms):
                cuts |= {begin, end}
    ordered = sorted(cuts)
    return (rebalances[a:b] for a, b in pairwise(ordered))


def last_at_ms(rebalances: Iterable[Rebalance]) -> int:
    """The latest instant of any of them."""
    return max((at_ms for r in rebalances if (at_ms := at_of(r)) is not None), default=0)


def folded(trouble: Trouble) -> Trouble:
    """A storm of one group, with all of its stretches but the last in `before`."""
    histories = list({id(e.history): e.history for e in trouble.episodes}.values())
    is_alone = len({e.group_id for e in trouble.episodes}) == 1 and not trouble.reassignments
    if trouble.kind != "storm" or not is_alone or trouble.leader_moves or len(histories) == 1:
        return trouble
    before = trouble.before
    for history in histories[:-1]:
        own = Trouble("storm", [e for e in trouble.episodes if e.history is history], before=before)
        before = storm_of(own, "", 0, last_at_ms(s.rebalance for s in history.steps))
    last = [e for e in trouble.episodes if e.history is histories[-1]]
    return Trouble("storm", last, findings=trouble.findings, before=before)


def storm_before(
    rows: ClusterRows, together: Sequence[Trouble], group_id: str, finding: Finding, era: int
) -> StormBefore | None:
    """What is known of a storm at the end of an era, from the trouble that this finding shows in it. `rows`: the era's;
    `together`: the troubles in them."""
    until_ms = last_at_ms(rows.groups[group_id])
    for trouble in together:
        steps = (s for _, s in trouble.steps)
        if trouble.kind == "storm" and any(finding.first_seen_at_ms <= s.at_ms for s in steps):
            first_era = era if trouble.before is None else trouble.before.first_era
            return storm_of(trouble, finding.finding_id, first_era, until_ms)
    return None


def storm_of(trouble: Trouble, finding_id: str, first_era: int, until_ms: int) -> StormBefore:
    """The storm up to here. `until_ms`: the latest instant of its last era."""
    before, steps = trouble.before, [s for _, s in trouble.steps]
    rebalances = [s.rebalance for s in steps]
    signs = [sign for e in trouble.episodes for sign in words.last_signs(e)]
    links, link_count = words.chain(trouble, signs)
    failed: dict[Identity, str] = {}
    for episode, step in trouble.steps:
        for who, way in faults_in(episode.history, step).items():
            failed.setdefault(who, way)
    rounds = [s for s in steps if s.rebalance.kind == "rebalance"]
    triggers = Counter(before.triggers if before is not None else None)
    triggers.update(r.trigger for r in rebalances)
    pauses = [r.pause_estimate_ms for r in rebalances] + ([before.longest_pause_ms] if before is not None else [])
    first_step, first_failure = firsts(trouble)
    moved = sum((r.moved_count or 0) + (r.returned_count or 0) + (r.restarted_count or 0) for r in rebalances)
    own = StormBefore(
        finding_id=finding_id,
        first_era=first_era,
        until_ms=until_ms,
        first_at_ms=min(e.first_at_ms for e in trouble.episodes),
        first_sign_ms=min((link.at_ms for link in signs), default=steps[0].first_at_ms),
        first_step=first_step,
        first_failure=first_failure,
        round_count=len(rounds),
        rounds_from_ms=rounds[0].first_at_ms if rounds else steps[0].first_at_ms,
        causes=titles.causes_of_storm(trouble),
        triggers=dict(triggers),
        moved_count=moved,
        counted_count=sum(map(is_counted, rebalances)),
        longest_pause_ms=max((pause_ms for pause_ms in pauses if pause_ms is not None), default=None),
        cost=CostSums.of(rebalances),
        protocol_types=sorted({r.protocol_type for r in rebalances}, key=lambda name: name or ""),
        links=list(links),
        link_count=link_count,
        finding_ids=[finding.finding_id for finding in trouble.findings],
        failed=list(failed.items()),
        turned=list(Counter(who for s in steps for who in dict.fromkeys((*s.left, *s.joined))).items()),
        hosts=list(titles.hosts_of(Trouble("storm", trouble.episodes), list(failed)).items()),
        rebalance_ids=[r.rebalance_id for r in rebalances],
    )
    if before is None:
        return own
    return replace(
        own,
        first_at_ms=min(own.first_at_ms, before.first_at_ms),
        first_sign_ms=min(own.first_sign_ms, before.first_sign_ms),
        round_count=before.round_count + own.round_count,
        rounds_from_ms=before.rounds_from_ms,
        moved_count=before.moved_count + own.moved_count,
        counted_count=before.counted_count + own.counted_count,
        cost=CostSums.together([before.cost, own.cost]),
        protocol_types=sorted({*before.protocol_types, *own.protocol_types}, key=lambda name: name or ""),
        finding_ids=list(dict.fromkeys([*before.finding_ids, *own.finding_ids])),
        rebalance_ids=before.rebalance_ids + own.rebalance_ids,
    )


def firsts(trouble: Trouble) -> tuple[First, First | None]:
    """What was first known of a storm, and what of a failure in it: from that its incident has its id."""
    before = trouble.before
    steps = sorted(trouble.steps, key=lambda pair: pair[1].index)
    own = [(known_ms(s), s.rebalance.rebalance_id) for _, s in steps]
    of_failures = [(known_ms(s), s.rebalance.rebalance_id) for e, s in steps if faults_in(e.history, s)]
    if before is not None:
        own.insert(0, before.first_step)
        if before.first_failure is not None:
            of_failures.insert(0, before.first_failure)
    return min(own, key=lambda first: first[0]), min(of_failures, key=lambda first: first[0], default=None)
