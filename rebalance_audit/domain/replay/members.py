"""The same history with more or fewer members: what a deploy, a start or a stop of the group does to each of them.

An added member goes through what the group as a whole goes through: it starts with the others, is restarted after them
in every deploy, and stops when all of them do. It has no trouble of its own. A removed member takes its own trouble
with it, so those with the least trouble are removed first.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from .assignors import Partition
from .deploys import LONGEST_GAP_MS, Redeployment, deploys_of, restarts_of
from .life import End, Life, Moment, Script
from .standstill import LONGEST_OUTAGE_MS

FIRST_GAP_MS = 8_000
"""Between two starts, where the history shows none; a choice."""


def most_at_once(script: Script) -> int:
    """The number of members at the busiest instant: what the group is set up for."""
    return len(_slots_at_the_busiest(script))


def resized(script: Script, count: int | None) -> Script:
    """`count` None: as it was. The lives of added members come last."""
    if count is None:
        return script
    present = _slots_at_the_busiest(script)
    if count < len(present):
        return _without(script, _least_troubled(script, present)[: len(present) - count])
    return _with(script, count - len(present))


def _slots_at_the_busiest(script: Script) -> list[str]:
    """In the order of the script."""
    busiest: list[str] = []
    instants = {_from_ms(life, script) for life in script.lives}
    for at_ms in sorted(instants):
        slots = [life.slot for life in script.lives if _from_ms(life, script) <= at_ms < _to_ms(life, script)]
        if len(set(slots)) > len(busiest):
            busiest = list(dict.fromkeys(slots))
    return busiest


def _from_ms(life: Life, script: Script) -> int:
    return script.from_ms if life.started is None else life.started.at_ms


def _to_ms(life: Life, script: Script) -> int:
    return script.until_ms + 1 if life.ended is None else life.ended.at_ms


def _least_troubled(script: Script, slots: Sequence[str]) -> list[str]:
    """Slots with the least trouble first; among equals the last one first."""

    def trouble(slot: str) -> int:
        lives = [life for life in script.lives if life.slot == slot]
        return sum(len(life.stalls) + (life.end in (End.CRASHED, End.REMOVED)) for life in lives)

    return sorted(slots, key=lambda slot: (trouble(slot), -slots.index(slot)))


def _without(script: Script, slots: Sequence[str]) -> Script:
    gone = set(slots)
    return _shared_out(replace(script, lives=tuple(life for life in script.lives if life.slot not in gone)), script)


def _with(script: Script, more: int) -> Script:
    if more == 0:
        return script
    known = {life.slot for life in script.lives}
    names = [f"more-{n}" for n in range(1, more + len(known) + 1)]
    slots = [name for name in names if name not in known][:more]
    lives = [life for place, slot in enumerate(slots, start=1) for life in _lives_of(script, slot, place)]
    return _shared_out(replace(script, lives=(*script.lives, *lives)), script)


def _lives_of(script: Script, slot: str, place: int) -> list[Life]:
    """`place`: the first, second … added member."""
    model = max(script.lives, key=lambda life: _to_ms(life, script) - _from_ms(life, script))
    stops = _outages(script)
    restarts = [_after_the_others(deploy, place) for deploy in _deploys(script)]
    stops = sorted([*stops, *(r for r in restarts if not any(s[0] <= r[1] and r[0] <= s[1] for s in stops))])
    starts: list[int | None] = [_first_start(script, place), *(back_ms for _, back_ms in stops)]
    ends: list[int | None] = [*(away_ms for away_ms, _ in stops), _last_end(script)]
    found = []
    for n, (start_ms, end_ms) in enumerate(zip(starts, ends, strict=True)):
        if start_ms is not None and end_ms is not None and end_ms <= start_ms:
            continue
        found.append(
            replace(
                model, slot=slot, member_id=f"{slot}-{n}", client_id=None, client_host=None,
                instance_id=slot if model.instance_id is not None else None, owned_at_first=(), stalls=(),
                started=None if start_ms is None else Moment.known(start_ms),
                ended=None if end_ms is None else Moment.known(end_ms),
                end=None if end_ms is None else End.CLOSED,
            )
        )  # fmt: skip
    return found


def _first_start(script: Script, place: int) -> int | None:
    """After the others, at their pace; None where the group was there before the history."""
    if any(life.started is None for life in script.lives):
        return None
    first: dict[str, int] = {}
    for life in script.lives:
        if life.started is not None:
            first[life.slot] = min(first.get(life.slot, life.started.at_ms), life.started.at_ms)
    wave = sorted(first.values())
    gaps = [after - before for before, after in pairwise(wave) if after - before <= LONGEST_GAP_MS]
    begun = next((n for n, (a, b) in enumerate(pairwise(wave), start=1) if b - a > LONGEST_GAP_MS), len(wave))
    return wave[begun - 1] + place * (round(statistics.median(gaps)) if gaps else FIRST_GAP_MS)


def _last_end(script: Script) -> int | None:
    ends = [life.ended.at_ms for life in script.lives if life.ended is not None]
    return max(ends) if len(ends) == len(script.lives) else None


def _outages(script: Script) -> list[tuple[int, int]]:
    """When the group was stopped as a whole: (from, to)."""
    spans = sorted((_from_ms(life, script), _to_ms(life, script)) for life in script.lives)
    found, reached_ms = [], spans[0][1]
    for from_ms, to_ms in spans[1:]:
        if from_ms - reached_ms > LONGEST_OUTAGE_MS or (from_ms > reached_ms and most_at_once(script) > 1):
            found.append((reached_ms, from_ms))
        reached_ms = max(reached_ms, to_ms)
    return found


def _deploys(script: Script) -> list[list[Redeployment]]:
    """A group of one is deployed by a single restart."""
    return deploys_of(script) if most_at_once(script) > 1 else [[restart] for restart in restarts_of(script)]


def _after_the_others(deploy: Sequence[Redeployment], place: int) -> tuple[int, int]:
    gaps = [max(0, after.closed_ms - before.started_ms) for before, after in pairwise(deploy)]
    gap_ms = round(statistics.median(gaps)) if gaps else FIRST_GAP_MS
    away_ms = round(statistics.median(restart.away_ms for restart in deploy))
    closed_ms = max(restart.started_ms for restart in deploy) + gap_ms + (place - 1) * (away_ms + gap_ms)
    return closed_ms, closed_ms + away_ms


def _shared_out(script: Script, before: Script) -> Script:
    """What the group held at the beginning, shared out in equal runs among the members that are there then."""
    held: list[Partition] = sorted(p for life in before.lives for p in life.owned_at_first)
    first = [n for n, life in enumerate(script.lives) if life.started is None]
    lives = [replace(life, owned_at_first=()) for life in script.lives]
    for n, place in enumerate(first):
        share = slice(len(held) * n // len(first), len(held) * (n + 1) // len(first))
        lives[place] = replace(lives[place], owned_at_first=tuple(held[share]))
    return replace(script, lives=tuple(lives))
