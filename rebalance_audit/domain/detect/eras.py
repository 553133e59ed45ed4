"""A long history is judged in eras: stretches of 4,096 rebalances by their place in it, one after the other.

What is over as an era ends is final. A finding that is open then is carried to the next era, where it goes on under its
id, with its sums. So what an era is judged by is itself and what was carried to it, and news costs the eras from the
news on, however long the group has lived.

    places 0 … 4,095    RB001, 4,096 rebalances, open: carried      RB007 of place 17: final
    places 4,096 …      RB001, the same finding: 5,120 rebalances so far

A storm, and what lasts (RB002 of a mode, RB003, RB010, RB013, RB015, RB017), goes on with all that was before. Other
rules count anew in each era.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rebalance_audit.domain.detect.due import OF_FAULTS, quiet_ms
from rebalance_audit.domain.detect.history import History
from rebalance_audit.domain.detect.limits import Limits
from rebalance_audit.domain.detect.rules import found_by_rules
from rebalance_audit.domain.kinds import FindingStatus
from rebalance_audit.domain.libraries import with_libraries
from rebalance_audit.domain.model import Finding, Rebalance, changed

ERA_REBALANCES = 4_096
"""Chosen: far above what one trouble has but for a storm, and judged in about a second."""
ERA_VERSION = 4
"""Of what is kept of an era. Raise it when a rule that goes on reads other numbers, or finds something else in an old
era."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEra:
    """What rules find in one era."""

    number: int
    """From 0: places from `number * ERA_REBALANCES` on."""
    findings: Sequence[Finding]
    """Final, or of the last era."""
    carried: Sequence[Finding]
    """Open as it ended. None of the last era."""
    is_last: bool


def era_of(place: int) -> int:
    """The era of the rebalance at this place of a group's history."""
    return place // ERA_REBALANCES


def in_era(rebalances: Sequence[Rebalance], number: int, first_place: int) -> Sequence[Rebalance]:
    """Those of them that are in this era. `first_place`: that of the first one."""
    begin = max(number * ERA_REBALANCES - first_place, 0)
    return rebalances[begin : (number + 1) * ERA_REBALANCES - first_place]


def judged_eras(
    rebalances: Sequence[Rebalance],
    limits: Limits,
    *,
    seen_until_ms: int | None = None,
    first_place: int = 0,
    carried: Sequence[Finding] = (),
    more_follow: bool = False,
) -> Iterator[JudgedEra]:
    """The eras of these rebalances of one group, in order. `first_place`: that of the first one in the group's whole
    history, where an era begins; `carried`: from the era before it. `more_follow`: there are later eras, which are not
    judged now. `seen_until_ms` as for `detect_group`."""
    first, last = era_of(first_place), era_of(first_place + len(rebalances) - 1)
    for number in range(first, last + 1):
        era = in_era(rebalances, number, first_place)
        goes_on = more_follow or number < last
        until_ms = None if goes_on else seen_until_ms
        history = History(with_libraries(era), (), limits, until_ms, carried=carried, goes_on=goes_on, as_written=era)
        found = found_by_rules(history)
        found += _not_continued(carried, found, history)
        carried = [finding for finding in found if goes_on and finding.status == FindingStatus.OPEN]
        open_ids = {finding.finding_id for finding in carried}
        yield JudgedEra(
            number=number,
            findings=[finding for finding in found if finding.finding_id not in open_ids],
            carried=carried,
            is_last=not goes_on,
        )


def _not_continued(carried: Sequence[Finding], found: Sequence[Finding], history: History) -> Iterator[Finding]:
    """What was carried to an era in which its rule did not go on with it. A fault is open until it is quiet long
    enough."""
    known = {finding.finding_id for finding in found}
    for finding in carried:
        if finding.finding_id in known:
            continue
        is_open = finding.rule_id in OF_FAULTS and history.now_ms - finding.last_seen_at_ms <= quiet_ms(
            finding.rule_id, history.limits
        )
        yield changed(finding, status=FindingStatus.OPEN if is_open else FindingStatus.RESOLVED)
