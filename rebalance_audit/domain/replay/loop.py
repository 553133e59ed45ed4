"""Time that passes from happening to happening."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

Action = Callable[[], None]
Entry = tuple[float, int, Action]


class Loop:
    """Actions in the order of their times; those of one time in the order in which they were asked for."""

    def __init__(self, from_ms: float) -> None:
        self.now_ms = from_ms
        self._planned: list[Entry] = []
        """What is known before anything happens: hundreds of actions, sorted once. Beside them few wait at a time."""
        self._waiting: list[Entry] = []
        self._number = 0
        """Of the next action that is asked for."""

    def plan(self, at_ms: float, action: Action) -> None:
        """Like `at`, before `run` is called."""
        self._planned.append((at_ms if at_ms > self.now_ms else self.now_ms, self._numbered(), action))

    def at(self, at_ms: float, action: Action) -> None:
        heappush(self._waiting, (at_ms if at_ms > self.now_ms else self.now_ms, self._numbered(), action))

    def after(self, delay_ms: float, action: Action) -> None:
        at_ms = self.now_ms + delay_ms if delay_ms > 0 else self.now_ms
        heappush(self._waiting, (at_ms, self._numbered(), action))

    def place_after(self, delay_ms: float) -> tuple[float, int]:
        """Where an action that is asked for now would stand; `put` puts it there later."""
        return self.now_ms + delay_ms, self._numbered()

    def put(self, place: tuple[float, int], action: Action) -> None:
        heappush(self._waiting, (*place, action))

    def _numbered(self) -> int:
        self._number += 1
        return self._number

    def run(self, until_ms: float) -> None:
        """Once; what would happen later does not. `until_ms` is finite."""
        waiting, planned = self._waiting, sorted(self._planned, reverse=True)
        planned.insert(0, (inf, 0, _nothing))
        next_ms, next_number, next_action = planned.pop()
        try:
            while True:
                at_ms, action, is_planned = next_ms, next_action, True
                if waiting:
                    first_ms, first_number, first = waiting[0]
                    # Compiled, numbers are compared in a fraction of the time that entries take.
                    if first_ms < next_ms or (first_ms == next_ms and first_number < next_number):
                        at_ms, action, is_planned = first_ms, first, False
                if at_ms > until_ms:
                    break
                if is_planned:
                    next_ms, next_number, next_action = planned.pop()
                else:
                    heappop(waiting)
                self.now_ms = at_ms
                action()
        finally:
            # Actions hold their group, and it holds its loop: only a search for cycles would free them.
            waiting.clear()
            self._planned.clear()
        self.now_ms = until_ms


def _nothing() -> None:
    """Stands where nothing is planned any more."""
