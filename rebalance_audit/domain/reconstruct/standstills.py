"""Members that stood still without a rebalance: frozen for less than their session, or stuck in a handler.

No record and no line shows it. Their commits stop while those of others go on. It is inferred, and only where

- the member committed regularly before and after, and then for longer than two of its usual times not at all, on every
  partition that it commits;
- another member went on committing meanwhile, so that neither the coordinator nor the whole topic was at rest, or,
  where all had fallen silent together, went on without it (it is shown from then on);
- its own partitions are known to have moved: what it had missed it read afterwards, or it commits even where nothing
  moves, or others on its topic that commit only what moved went on (docs/clients.md).

A member that never came back has a row where its group has no later record: then it goes on until evidence ends.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from rebalance_audit.domain.client_families import (
    Families,
    commits_when_idle,
    families_shown,
    never_commits_when_idle,
)
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange, Outcome
from rebalance_audit.domain.libraries import with_libraries
from rebalance_audit.domain.model import CommitMark, Member, MemberStandstill, Rebalance, changed

LEAST_MS = 5_000
"""Shorter ones have no row: a garbage collection, or a commit that was sent twice. Chosen."""
MISSED_COMMITS = 2
"""This many commits in a row did not come. A single one may be late or lost on a loaded machine."""
SLACK_MS = 1_000
"""How late a commit may be on a loaded machine (docs/measured.md#standing-still)."""
OPEN_AFTER_MS = 60_000
"""One that never came back has a row when it has been silent for so long. Chosen."""
OPEN_AFTER_COMMITS = 10
HALF = 0.5
REGULAR_COMMITS = 4
"""This many commits show what is usual: three times between them."""

Marks = Sequence[CommitMark]
Others = Sequence[tuple[Member, Marks]]


def with_standstills(rebalances: Iterable[Rebalance], marks: Iterable[CommitMark]) -> tuple[Rebalance, ...]:
    """The same rebalances, each with the standstills between its last record and the group's next one."""
    rebalances, marks = tuple(rebalances), tuple(marks)
    if not rebalances or not marks:
        return rebalances
    # Where no gap ended, only a standstill that goes on can have a row. Most groups need no more work than this.
    first = 0 if any(map(_is_interrupted, marks)) else len(rebalances) - 1
    places = _places(rebalances, first)
    stretches: dict[int, list[CommitMark]] = {}
    for mark in marks:
        offsets = places.get((mark.offsets_topic, mark.offsets_partition), ())
        at = bisect_left(offsets, (mark.first_offset, -1)) - 1
        if at >= 0:
            stretches.setdefault(offsets[at][1], []).append(mark)
    found = dict(enumerate(rebalances))
    known = with_libraries(rebalances)
    for index, own in stretches.items():
        standstills = _of_stretch(known[index], own, is_last=index == len(rebalances) - 1)
        if standstills:
            found[index] = changed(rebalances[index], standstills=standstills)
    return tuple(found.values())


def _places(rebalances: Sequence[Rebalance], first: int) -> dict[tuple[str, int], list[tuple[int, int]]]:
    """By partition of the offsets topic: (offset, rebalance) of each one's last record, in order of the offsets."""
    found: dict[tuple[str, int], dict[int, int]] = {}
    for index in range(first, len(rebalances)):
        for ref in rebalances[index].evidence:
            kind, _, place = ref.partition(":")
            where, _, offset = place.rpartition("@")
            topic, _, partition = where.rpartition("-")
            if kind == "record" and partition.isdigit() and offset.isdigit():
                found.setdefault((topic, int(partition)), {})[int(offset)] = index
    return {place: sorted(of.items()) for place, of in found.items()}


def _of_stretch(rebalance: Rebalance, marks: Marks, *, is_last: bool) -> tuple[MemberStandstill, ...]:
    if rebalance.outcome != Outcome.COMPLETED or len(rebalance.members) < 2:
        return ()
    owner_of = {r: m for m in rebalance.members if m.change != MemberChange.LEFT for r in m.assigned or ()}
    by_member: dict[str, list[CommitMark]] = {}
    for mark in marks:
        owner = owner_of.get(f"{mark.topic}-{mark.partition}")
        if owner is not None:
            by_member.setdefault(owner.member_id, []).append(mark)
    if len(by_member) < 2:
        return ()
    members = {m.member_id: m for m in rebalance.members}
    found = []
    for member_id, own in sorted(by_member.items()):
        others = [(members[other], of) for other, of in sorted(by_member.items()) if other != member_id]
        standstill = _closed(members[member_id], own, others)
        if standstill is None and is_last:
            standstill = _open(members[member_id], own, others)
        if standstill is not None:
            found.append(standstill)
    return tuple(found)


def _closed(member: Member, own: Marks, others: Others) -> MemberStandstill | None:
    """A standstill that ended with a commit."""
    interrupted = [m for m in own if _usual_ms(m) is not None and _is_interrupted(m)]
    if not interrupted:
        return None
    since_ms, until_ms = max(m.gap_from_at_ms or 0 for m in interrupted), min(m.gap_to_at_ms or 0 for m in interrupted)
    usual_ms = max(_usual_ms(m) or 0 for m in interrupted)
    if until_ms - since_ms < max(LEAST_MS, MISSED_COMMITS * usual_ms + SLACK_MS):
        return None
    if any(_speaks_in(m, since_ms, until_ms) for m in own if m not in interrupted):
        return None  # on some of its partitions it went on
    from_upper_ms = min(max((m.gap_from_at_ms or 0) + usual_ms + SLACK_MS, since_ms) for m in interrupted)
    begins, known_ms = _begins(member, since_ms, from_upper_ms, usual_ms), since_ms
    detail = f"no commit for {_seconds(until_ms - since_ms)} s"
    if not _others_went_on(others, since_ms, until_ms):
        resumed_ms = _went_on_without(others, since_ms, until_ms)
        if resumed_ms is None or until_ms - resumed_ms < max(LEAST_MS, MISSED_COMMITS * usual_ms + SLACK_MS):
            return None
        begins, known_ms = (begins[0], resumed_ms, resumed_ms + usual_ms + SLACK_MS), resumed_ms
        detail = f"no commit for {_seconds(until_ms - resumed_ms)} s after others went on"
    if not _moved(member, interrupted, others, known_ms, until_ms):
        return None
    to_lower_ms = max(min(until_ms - usual_ms - SLACK_MS, until_ms), known_ms)
    detail = f"{detail}, where it commits every {_seconds(usual_ms)} s"
    return _standstill(member, interrupted, begins, (to_lower_ms, until_ms, until_ms), usual_ms, detail)


def _went_on_without(others: Others, since_ms: int, until_ms: int) -> int | None:
    """When the first of the others committed again, where all had fallen silent with it and went on before the end: the
    topic was at rest."""
    resumed: list[int] = []
    for _, of in others:
        for m in of:
            silent_by_ms = since_ms + (m.second_gap_ms or 0) + SLACK_MS
            from_ms, to_ms = m.gap_from_at_ms, m.gap_to_at_ms
            is_silent = _is_interrupted(m) and from_ms is not None and from_ms <= silent_by_ms
            if is_silent and to_ms is not None and since_ms < to_ms < until_ms:
                resumed.append(to_ms)
            elif _speaks_in(m, silent_by_ms, until_ms):
                return None
    found_ms = min(resumed, default=None)
    return found_ms if found_ms is not None and _others_went_on(others, found_ms, until_ms) else None


def _open(member: Member, own: Marks, others: Others) -> MemberStandstill | None:
    """A standstill that lasts: the member committed nothing more, and evidence ends with commits of others."""
    regular = [m for m in own if _habit_ms(m) is not None]
    since_ms = max((m.last_at_ms for m in own), default=0)
    until_ms = max((m.last_at_ms for _, of in others for m in of), default=0)
    usual_ms = max((_habit_ms(m) or 0 for m in regular), default=0)
    # One partition that falls silent is no member that stands still.
    if len(regular) < 2 or until_ms - since_ms < max(OPEN_AFTER_MS, OPEN_AFTER_COMMITS * usual_ms):
        return None
    if min(m.last_at_ms for m in regular) < since_ms - usual_ms - SLACK_MS:
        return None
    families = families_shown(member.client_libraries)
    if not _others_went_on(others, since_ms, until_ms):
        return None
    if not commits_when_idle(families) and not _fellows_went_on(families, regular, others, since_ms, until_ms):
        return None
    detail = f"no commit since, where it committed every {_seconds(usual_ms)} s; others go on"
    times = _begins(member, since_ms, since_ms + usual_ms + SLACK_MS, usual_ms)
    return _standstill(member, regular, times, None, usual_ms, detail, seen_until_ms=until_ms)


def _begins(member: Member, last_ms: int, due_ms: int, usual_ms: int) -> tuple[int, int, int]:
    """Bounds and estimate of when it stopped: after its last commit, and before the next was due. A library that
    commits beside the application may have committed then what had been read up to one commit earlier."""
    if commits_when_idle(families_shown(member.client_libraries)):
        return last_ms, min(last_ms + usual_ms // 2, due_ms), due_ms
    return last_ms - usual_ms - SLACK_MS, min(last_ms + usual_ms // 4, due_ms), due_ms


def _standstill(
    member: Member,
    marks: Marks,
    begins: tuple[int, int, int],
    ends: tuple[int, int, int] | None,
    usual_ms: int,
    detail: str,
    *,
    seen_until_ms: int | None = None,
) -> MemberStandstill:
    """`seen_until_ms`: of one that goes on, until when it is known."""
    lower_ms, estimate_ms, upper_ms = begins
    if ends is None:
        assert seen_until_ms is not None
        least, estimate, most = max(seen_until_ms - upper_ms, 0), seen_until_ms - estimate_ms, None
    else:
        least, estimate, most = max(ends[0] - upper_ms, 0), ends[1] - estimate_ms, ends[2] - lower_ms
    refs = [m.last_ref for m in marks] if ends is None else [ref for m in marks for ref in m.gap_refs]
    return MemberStandstill(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        resources=tuple(sorted(f"{m.topic}-{m.partition}" for m in marks)),
        from_lower_ms=lower_ms,
        from_ms=estimate_ms,
        from_upper_ms=upper_ms,
        to_lower_ms=None if ends is None else ends[0],
        to_ms=None if ends is None else ends[1],
        to_upper_ms=None if ends is None else ends[2],
        pause_lower_ms=least,
        pause_estimate_ms=estimate,
        pause_upper_ms=most,
        resource_seconds_lower=least * len(marks) / 1000,
        resource_seconds_estimate=estimate * len(marks) / 1000,
        resource_seconds_upper=None if most is None else most * len(marks) / 1000,
        usual_commit_ms=usual_ms,
        tier=EvidenceTier.INFERRED,
        detail=detail,
        evidence=tuple(dict.fromkeys(refs)),
    )


# What is usual


def _usual_ms(mark: CommitMark) -> int | None:
    """The longest time between two commits but for the gap; None where too few show it."""
    return mark.second_gap_ms if mark.commit_count >= REGULAR_COMMITS and mark.gap_ms is not None else None


def _habit_ms(mark: CommitMark) -> int | None:
    """The longest time between two commits that there was."""
    return mark.gap_ms if mark.commit_count >= REGULAR_COMMITS else None


def _is_interrupted(mark: CommitMark) -> bool:
    gap_ms = mark.gap_ms or 0
    return gap_ms >= LEAST_MS and gap_ms >= MISSED_COMMITS * (_usual_ms(mark) or 0) + SLACK_MS


def _speaks_in(mark: CommitMark, since_ms: int, until_ms: int) -> bool:
    """Whether it may hold a commit inside this time; of marks of a few commits only their ends are known."""
    if mark.last_at_ms <= since_ms or mark.first_at_ms >= until_ms:
        return False
    if mark.gap_from_at_ms is None or mark.gap_to_at_ms is None:
        return mark.first_at_ms > since_ms or mark.commit_count > 1
    return mark.gap_from_at_ms > since_ms or mark.gap_to_at_ms < until_ms


def _went_on(mark: CommitMark, since_ms: int, until_ms: int) -> bool:
    """Whether it shows commits all through this time, in times much shorter than that."""
    span_ms = until_ms - since_ms
    if mark.gap_ms is None or mark.first_at_ms > since_ms + SLACK_MS or mark.last_at_ms < until_ms - span_ms * HALF:
        return False
    if mark.gap_from_at_ms is None or mark.gap_to_at_ms is None:
        return False
    inside_ms = min(mark.gap_to_at_ms, until_ms) - max(mark.gap_from_at_ms, since_ms)
    usual_ms = mark.second_gap_ms or 0
    return usual_ms <= span_ms * HALF and inside_ms <= span_ms * HALF


def _others_went_on(others: Others, since_ms: int, until_ms: int) -> bool:
    """Whether some did, and not most of them stopped, too: then it was the coordinator, or the topic."""
    went_on = [any(_went_on(m, since_ms, until_ms) for m in of) for _, of in others]
    return any(went_on) and sum(went_on) * 2 >= len(went_on)


def _moved(member: Member, interrupted: Marks, others: Others, since_ms: int, until_ms: int) -> bool:
    """Whether its partitions are known to have moved meanwhile."""
    if not any((m.after_position or 0) > (m.gap_from_position or 0) for m in interrupted):
        return False
    families = families_shown(member.client_libraries)
    if commits_when_idle(families) or any(_commits_unmoved(m) for m in interrupted):
        return True
    if len(interrupted) > 1 and _fellows_went_on(families, interrupted, others, since_ms, until_ms):
        return True
    return _caught_up(interrupted, since_ms)


def _commits_unmoved(mark: CommitMark) -> bool:
    """Whether it committed the same position again and again: its library commits where nothing moves."""
    return (
        mark.commit_count >= REGULAR_COMMITS
        and mark.gap_from_position == mark.first_position is not None
        and (mark.gap_from_at_ms or 0) - mark.first_at_ms > 2 * (mark.second_gap_ms or 0)
    )


def _fellows_went_on(families: Families, marks: Marks, others: Others, since_ms: int, until_ms: int) -> bool:
    """Whether somebody went on with the same topic who commits only what moved."""
    topics = {m.topic for m in marks}
    return any(
        m.topic in topics and _went_on(m, since_ms, until_ms)
        for other, of in others
        if never_commits_when_idle(families_shown(other.client_libraries))
        for m in of
    )


def _caught_up(interrupted: Marks, since_ms: int) -> bool:
    """Whether it read right afterwards what it had missed since then: more than it would have without the gap."""
    moved = waited = 0.0
    for m in interrupted:
        ends = m.gap_from_at_ms, m.gap_to_at_ms, m.after_at_ms
        positions = m.first_position, m.gap_from_position, m.after_position
        if None in ends or None in positions:
            return False
        from_ms, to_ms, after_ms = (at_ms or 0 for at_ms in ends)
        first, at_from, at_after = (position or 0 for position in positions)
        before_ms, gap_ms = from_ms - m.first_at_ms, to_ms - max(from_ms, since_ms)
        if before_ms < gap_ms * HALF:
            return False
        moved += at_after - at_from
        waited += (at_from - first) / before_ms * (after_ms - to_ms + gap_ms * HALF)
    return moved > waited > 0


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f}"
