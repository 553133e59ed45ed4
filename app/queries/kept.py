"""Answers that are kept until a table that they rest on changes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    value: Any
    of: frozenset[str]
    """The tables that it rests on; none where it rests on something else."""


class KeptAnswers:
    """Answers by question, from any thread. What several readers ask at once is worked out once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: dict[Hashable, Answer] = {}
        self._under_way: dict[Hashable, Future[Answer]] = {}

    def get(self, question: Hashable, make: Callable[[], Answer]) -> Answer:
        """The answer that is kept, or that another thread is working out; else what `make` returns. It is made outside
        the lock, and not kept if something was forgotten meanwhile. `make` must not ask the same question."""
        with self._lock:
            if (known := self._kept.get(question)) is not None:
                return known
            others = self._under_way.get(question)
            if others is None:
                mine = self._under_way[question] = Future[Answer]()
        if others is not None:
            # What went wrong there may be about that thread alone, whose page was left, say.
            return make() if others.exception() is not None else others.result()
        try:
            answer = make()
        except BaseException as error:
            with self._lock:
                self._is_over(question, mine)
            mine.set_exception(error)
            raise
        with self._lock:
            if self._is_over(question, mine):
                while len(self._kept) >= self._most:
                    self._kept.pop(next(iter(self._kept)))
                self._kept[question] = answer
        mine.set_result(answer)
        return answer

    def forget(self, unchanged: Collection[str] = ()) -> None:
        """All answers but those that rest on these tables alone. Who asks from here on does not wait for an answer that
        was begun before."""
        with self._lock:
            self._kept = {q: a for q, a in self._kept.items() if a.of and a.of <= frozenset(unchanged)}
            self._under_way = {}

    def _is_over(self, question: Hashable, mine: Future[Answer]) -> bool:
        """Takes it off what is under way; False if something was forgotten since it began."""
        is_there = self._under_way.get(question) is mine
        if is_there:
            del self._under_way[question]
        return is_there
