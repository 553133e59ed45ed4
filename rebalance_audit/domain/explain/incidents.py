"""Incidents for a terminal: the answer in the first line, then each trouble from its cause on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from rebalance_audit.domain.detect.wording import (
    clock,
    counted,
    likely_seconds,
    listed,
    seconds_bounds,
    seconds_of,
    shown,
)
from rebalance_audit.domain.explain.connect_stories import ConnectStory
from rebalance_audit.domain.explain.layout import hanging
from rebalance_audit.domain.explain.standstills import StandstillStory
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.incidents.blame import whose_doing
from rebalance_audit.domain.incidents.words import is_old, stands, still_words

LINKS_SHOWN = 8
_TITLE_WIDTH = 300
UnknownSince = Mapping[str, int]
"""By cluster when its evidence ended, of those where that shows nothing about now."""
NOTHING_OLD: UnknownSince = MappingProxyType({})


def old_of(ends: UnknownSince, now_ms: int) -> UnknownSince:
    """Those of `ends`, by cluster, that show nothing about `now_ms`."""
    return {cluster_id: ended_ms for cluster_id, ended_ms in ends.items() if is_old(ended_ms, now_ms)}


def answer(
    incidents: Sequence[Incident],
    standstills: Sequence[StandstillStory] = (),
    unknown_since: UnknownSince = NOTHING_OLD,
) -> str:
    """The gravest trouble in one sentence; open before past, then the gravest and costliest; standstills without a
    rebalance where there is no other. `unknown_since`: see `UnknownSince`."""
    wrong = sorted((i for i in incidents if not i.expected), key=_urgency)
    normal = [i for i in incidents if i.expected]
    if not wrong and standstills:
        who = listed(list(dict.fromkeys(s.who for s in standstills)))
        lost = sum(s.resource_seconds for s in standstills)
        return f"No rebalance was wrong, but {who} hung without one: {lost:,.1f} {seconds_of('resource')} lost."
    if not wrong:
        if not normal:
            return "Nothing is wrong: no incident is in evidence."
        return f"Nothing is wrong: {counted(len(normal), 'change')} on purpose cost {_sum(normal)}."
    first, rest = wrong[0], len(wrong) - 1
    sentence = f"{shown(first.title, _TITLE_WIDTH)}; {_cost(first)}{_state(first, unknown_since)}"
    return sentence + (f" And {counted(rest, 'other incident')}." if rest else "")


def state(i: Incident, unknown_since: UnknownSince) -> str:
    """`open, tasks still wait`."""
    return stands(i.status, i.still, clock(i.last_at_ms), _ended(i, unknown_since))


def is_part_of(story: ConnectStory, incident: Incident) -> bool:
    """An incident says it in its own words already: a story is given once."""
    return not incident.expected and set(story.rebalance_ids) <= set(incident.rebalance_ids)


def incident_lines(
    incidents: Sequence[Incident],
    width: int,
    *,
    bounds: bool = False,
    stories: Sequence[ConnectStory] = (),
    unknown_since: UnknownSince = NOTHING_OLD,
) -> Iterator[str]:
    """Each trouble with its chain, the oldest link first, and what `stories` say of it; normal work in a line."""
    for i in sorted(incidents, key=lambda i: (i.expected, *_urgency(i))):
        mark = "normal work" if i.expected else f"{i.severity}, {state(i, unknown_since)}"
        head = f"Incident ({mark})  "
        yield ""
        yield from hanging(f"{head}{shown(i.title, _TITLE_WIDTH)}; {_cost(i, bounds=bounds)}", width, 3)
        if i.expected:
            continue
        half = LINKS_SHOWN // 2
        links = i.chain if len(i.chain) <= LINKS_SHOWN else (*i.chain[:half], *i.chain[-half:])
        for place, link in enumerate(links):
            if place == half and len(i.chain) > LINKS_SHOWN:
                yield f"   … {len(i.chain) - LINKS_SHOWN} more"
            stamp = f"   {clock(link.at_ms)}  "
            yield from hanging(f"{stamp}{shown(link.what, _TITLE_WIDTH)}", width, len(stamp))
        for story in stories:
            if is_part_of(story, i):
                yield from hanging(f"   {story.text}", width, 3)
        yield from hanging(f"   Whose doing: {whose_doing(i)}", width, 3)
        if i.advice:
            yield from hanging(f"   → {i.advice}", width, 5)


def _urgency(i: Incident) -> tuple[bool, int, float, int, str]:
    rank = ("critical", "warning", "info").index(i.severity)
    return i.status != "open", rank, -(i.cost_seconds or 0.0), i.first_at_ms, i.incident_id


def _cost(i: Incident, *, bounds: bool = False) -> str:
    if i.cost_seconds is None:
        return "downtime not known" if i.rebalance_ids else "no downtime seen"
    rounds = counted(len(i.rebalance_ids), "rebalance")
    lost = likely_seconds(i.cost_seconds, i.cost_likely_lower_seconds, i.cost_likely_upper_seconds)
    hard = f" {seconds_bounds(i.cost_lower_seconds, i.cost_upper_seconds)}" if bounds else ""
    return f"{rounds}, {lost} {seconds_of(i.unit)} lost{hard}"


def _state(i: Incident, unknown_since: UnknownSince) -> str:
    if i.status != "open":
        return f", over since {clock(i.last_at_ms)}."
    still = still_words(i.still, clock(i.last_at_ms), _ended(i, unknown_since))
    return f", open since {clock(i.first_at_ms)}{f' ({still})' if still else ''}."


def _ended(i: Incident, unknown_since: UnknownSince) -> str | None:
    ended_ms = unknown_since.get(i.cluster_id)
    return None if ended_ms is None else clock(ended_ms)


def _sum(incidents: Sequence[Incident]) -> str:
    units = {i.unit for i in incidents if i.cost_seconds is not None}
    unit = units.pop() if len(units) == 1 else "resource"
    return f"{math.fsum(i.cost_seconds or 0.0 for i in incidents):,.1f} {seconds_of(unit)}"
