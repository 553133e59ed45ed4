"""Time that passes from happening to happening."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

Action = Callable[[], None]


class Loop:
    """Actions in the order of their times; those of one time in the order in which they were asked for."""

    def __init__(self, from_ms: float) -> None:
        self.now_ms = from_ms
        self._waiting: list[tuple[float, int, Action]] = []
        self._numbers = count()

    def at(self, at_ms: float, action: Action) -> None:
        heappush(self._waiting, (at_ms if at_ms > self.now_ms else self.now_ms, next(self._numbers), action))

    def after(self, delay_ms: float, action: Action) -> None:
        at_ms = self.now_ms + delay_ms if delay_ms > 0 else self.now_ms
        heappush(self._waiting, (at_ms, next(self._numbers), action))

    def place_after(self, delay_ms: float) -> tuple[float, int]:
        """Where an action that is asked for now would stand; `put` puts it there later."""
        return self.now_ms + delay_ms, next(self._numbers)

    def put(self, place: tuple[float, int], action: Action) -> None:
        heappush(self._waiting, (*place, action))

    def run(self, until_ms: float) -> None:
        """Once; what would happen later does not."""
        waiting = self._waiting
        try:
            while waiting and waiting[0][0] <= until_ms:
                self.now_ms, _, action = heappop(waiting)
                action()
        finally:
            # Actions hold their group, and it holds its loop: only a search for cycles would free them.
            waiting.clear()
        self.now_ms = until_ms
