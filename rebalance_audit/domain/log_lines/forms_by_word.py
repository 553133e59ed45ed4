"""Message forms by the first word of the message. Each is compiled when a message begins so: of three hundred most runs
see few."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

F = TypeVar("F")


class FormsByWord(Generic[F]):
    def __init__(self, forms: Iterable[tuple[str, Callable[[], F]]]) -> None:
        """`forms`: the first word of each, and what makes the form."""
        self._makers: dict[str, list[Callable[[], F]]] = {}
        self._made: dict[str, tuple[F, ...]] = {}
        for word, make in forms:
            self._makers.setdefault(word, []).append(make)

    def of(self, word: str) -> tuple[F, ...]:
        """In the order of the table; none for a word that no form begins with."""
        found = self._made.get(word)
        if found is not None:
            return found
        if word not in self._makers:  # messages begin with any word: nothing is kept of it
            return ()
        made = self._made[word] = tuple([make() for make in self._makers[word]])
        return made

    def all(self) -> list[F]:
        return [form for word in self._makers for form in self.of(word)]
