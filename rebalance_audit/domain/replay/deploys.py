"""The deploys of a history: members closed and started again, one after another. And the same done otherwise."""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rebalance_audit.domain.frozen import changed

from .life import End, Life, Moment, Script
from .settings import GroupSettings

LONGEST_RESTART_MS = 600_000
"""A member that is back later was not restarted by a deploy; a choice."""
LONGEST_GAP_MS = 600_000
"""A restart that comes later begins another deploy; a choice."""


@dataclass(frozen=True, slots=True)
class Redeployment:
    closed: Life
    started: Life

    @property
    def closed_ms(self) -> int:
        return self.closed.ended.at_ms if self.closed.ended is not None else 0

    @property
    def started_ms(self) -> int:
        return self.started.started.at_ms if self.started.started is not None else 0

    @property
    def away_ms(self) -> int:
        return self.started_ms - self.closed_ms


def restarts_of(script: Script) -> list[Redeployment]:
    """In the order in which they were closed."""
    found = []
    begun: dict[str, list[tuple[int, Life]]] = defaultdict(list)
    for life in script.lives:
        if life.started is not None:
            begun[life.slot].append((life.started.at_ms, life))
    for of_slot in begun.values():
        of_slot.sort(key=_begins_ms)
    for life in script.lives:
        if life.ended is None or life.end is not End.CLOSED:
            continue
        of_slot = begun[life.slot]
        place = bisect_left(of_slot, life.ended.at_ms, key=_begins_ms)
        if place < len(of_slot):
            restart = Redeployment(life, of_slot[place][1])
            if restart.away_ms <= LONGEST_RESTART_MS:
                found.append(restart)
    return sorted(found, key=lambda restart: restart.closed_ms)


def _begins_ms(begun: tuple[int, Life]) -> int:
    return begun[0]


def deploys_of(script: Script) -> list[list[Redeployment]]:
    """Two or more restarts of different members, each soon after the one before."""
    deploys: list[list[Redeployment]] = []
    for restart in restarts_of(script):
        latest = deploys[-1] if deploys else []
        is_soon = bool(latest) and restart.closed_ms - latest[-1].started_ms <= LONGEST_GAP_MS
        if is_soon and restart.closed.slot not in {r.closed.slot for r in latest}:
            latest.append(restart)
        else:
            deploys.append([restart])
    return [deploy for deploy in deploys if len(deploy) > 1]


def redeployed(script: Script, settings: GroupSettings) -> Script:
    """The same history with its deploys done as the settings say; what they leave open stays as it was."""
    if not settings.changes_deploys:
        return script
    lives = {id(life): life for life in script.lives}
    for deploy in deploys_of(script):
        for restart, closed_ms, started_ms in _timetable(deploy, settings):
            closed, started = lives[id(restart.closed)], lives[id(restart.started)]
            lives[id(restart.closed)] = changed(closed, ended=_shifted(closed.ended, closed_ms))
            lives[id(restart.started)] = changed(started, started=_shifted(started.started, started_ms))
    return replace(script, lives=tuple(_possible(lives[id(life)]) for life in script.lives))


def _timetable(deploy: Sequence[Redeployment], settings: GroupSettings) -> list[tuple[Redeployment, int, int]]:
    gaps = [after.closed_ms - before.started_ms for before, after in pairwise(deploy)]
    gap_ms = settings.deploy_gap_ms if settings.deploy_gap_ms is not None else max(0, round(statistics.median(gaps)))
    size = len(deploy) if settings.deploy_batch == 0 else settings.deploy_batch or 1
    found, begins_ms = [], deploy[0].closed_ms
    for first in range(0, len(deploy), size):
        batch = deploy[first : first + size]
        away = [r.away_ms if settings.deploy_restart_ms is None else settings.deploy_restart_ms for r in batch]
        found += [(r, begins_ms, begins_ms + away_ms) for r, away_ms in zip(batch, away, strict=True)]
        begins_ms += max(away) + gap_ms
    return found


def _shifted(moment: Moment | None, at_ms: int) -> Moment | None:
    return None if moment is None else moment.moved(at_ms - moment.at_ms)


def _possible(life: Life) -> Life:
    """A process cannot end before it starts: a deploy that takes longer may run into what came after it."""
    if life.started is not None and life.ended is not None and life.ended.at_ms < life.started.at_ms:
        return changed(life, ended=life.started)
    return life
