"""Which of many ranges of text hold a value, without a look at each of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)

_OF_A_BUCKET = 8
"""Ranges that begin between two neighbouring cuts."""
_WIDE = 16
"""A range over more buckets is not put into each of them."""
_LEAST = 64


class TextRange(NamedTuple, Generic[Key]):
    """The values from `first` to `last`, both included."""

    first: str
    last: str
    key: Key


class Intervals(Generic[Key]):
    """Ranges with a key each. Those that begin near each other share a bucket; few are so wide that each question has
    to look at them.

    >>> ranges = [("a", "f", "file 1"), ("g", "m", "file 2"), ("a", "z", "file 3")]
    >>> of_files = Intervals(map(TextRange._make, ranges))
    >>> sorted(of_files.with_any(["h", "x"]))
    ['file 2', 'file 3']
    """

    def __init__(self, ranges: Iterable[TextRange[Key]]) -> None:
        self._ranges: list[TextRange[Key]] = []
        self._build(list(ranges))

    def add_all(self, ranges: Sequence[TextRange[Key]]) -> None:
        if len(self._ranges) + len(ranges) > 2 * self._built_of + _LEAST:
            self._build([*self._ranges, *ranges])
        else:
            for range_ in ranges:
                self._put(range_)

    def with_any(self, values: Iterable[str]) -> set[Key]:
        """The keys of the ranges that hold one of these values."""
        return {range_.key for value in values for range_ in self._near(value) if range_.first <= value <= range_.last}

    def _near(self, value: str) -> Iterator[TextRange[Key]]:
        yield from self._buckets[bisect_right(self._cuts, value)]
        yield from self._wide

    def _build(self, ranges: Sequence[TextRange[Key]]) -> None:
        self._built_of = len(ranges)
        self._cuts = sorted(range_.first for range_ in ranges)[_OF_A_BUCKET::_OF_A_BUCKET]
        self._buckets: list[list[TextRange[Key]]] = [[] for _ in range(len(self._cuts) + 1)]
        self._wide: list[TextRange[Key]] = []
        self._ranges = []
        for range_ in ranges:
            self._put(range_)

    def _put(self, range_: TextRange[Key]) -> None:
        self._ranges.append(range_)
        begin, end = (bisect_right(self._cuts, value) for value in (range_.first, range_.last))
        if end - begin >= _WIDE:
            self._wide.append(range_)
        else:
            for bucket in self._buckets[begin : end + 1]:
                bucket.append(range_)
