"""Things that belong together in pairs, and through those in sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable


class DisjointSets:
    """Disjoint sets of the places 0 … n-1, at first one for each."""

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def unite(self, one: int, other: int) -> None:
        first, second = sorted((self._root(one), self._root(other)))
        self._parent[second] = first

    def all(self) -> Iterable[list[int]]:
        """In the order of their first places; so are the places in each."""
        found: dict[int, list[int]] = defaultdict(list)
        for place in range(len(self._parent)):
            found[self._root(place)].append(place)
        return found.values()

    def _root(self, place: int) -> int:
        while self._parent[place] != place:
            self._parent[place] = self._parent[self._parent[place]]
            place = self._parent[place]
        return place
