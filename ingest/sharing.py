"""Several collectors of one cluster: who reads which partition, and how far each was landed.

They agree through one small document of the warehouse, `positions/shared-<cluster>.json`, that is replaced only if
nobody else replaced it meanwhile. No Kafka group is joined for it.

- A collector takes partitions without an owner up to its fair share, and gives up what it has beyond that. It gives up
  right after landing, so that the next owner begins where it ended.
- Whoever's beat did not change for DEAD_AFTER_S, by the clock of the one who looks, is dead: its partitions are free.
- A position is written by its partition's owner alone. One that was away and lost its partitions learns it from the
  document and writes none; what it had landed meanwhile is landed again by the next owner, and bronze takes it once.
"""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.errors import Misconfigured, Retryable, retryable
from rebalance_audit.warehouse.storage import Files

DEAD_AFTER_S = 20.0
"""Four times the collector's flush, with which the beat comes: one slow answer of a store is no death."""
TRIES = 30
Place = str
"""`<topic>-<partition>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChange:
    """The result of an exchange between collectors: partitions that came and went."""

    taken: Mapping[Place, int | None]
    """To begin at this position; None: nobody read it yet."""
    gone: frozenset[Place]
    """To read no further: given up, or lost to another."""
    is_settled: bool
    """Each partition has an owner that has shown itself alive."""
    others: int


@dataclass(slots=True)
class _Book:
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name to `life` (of the process) and `beat`."""
    owners: dict[Place, str] = field(default_factory=dict)
    partitions: dict[Place, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, content: bytes) -> _Book:
        stated = json.loads(content)
        return cls(stated["members"], stated["owners"], stated["partitions"])

    def to_bytes(self) -> bytes:
        stated = {"members": self.members, "owners": self.owners, "partitions": self.partitions}
        return json.dumps(stated, indent=1, sort_keys=True).encode()


class Share:
    """One collector's share of a cluster's partitions."""

    def __init__(
        self,
        files: Files,
        document: str,
        name: str,
        places: Iterable[Place],
        first_positions: Mapping[Place, int],
        *,
        dead_after_s: float = DEAD_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`name`: unlike the others', and the same after a restart, so that nobody waits for its own death.
        `first_positions`: of a collector that was alone until now."""
        self._files, self._document, self._name = files, f"positions/{document}.json", name
        self._places = sorted(places)
        self._first_positions = first_positions
        self._dead_after_s, self._clock = dead_after_s, clock
        self._life = uuid.uuid4().hex
        self._seen: dict[str, tuple[Any, float]] = {}
        """The last life and beat of each other collector, and when they were new."""
        self._alive = {name}
        """Those whose beat changed while this one looked."""
        self._is_known = False
        self.own: frozenset[Place] = frozenset()

    def exchange(self, landed: Mapping[Place, int]) -> ShareChange:
        """Shares how far this collector landed everything that it reads, and returns what to read from now on.

        Raises Misconfigured if another collector has this name, and Retryable if the store does not answer.
        """
        return self._agree(landed, is_leaving=False)

    def leave(self, landed: Mapping[Place, int]) -> None:
        self._agree(landed, is_leaving=True)

    def _agree(self, landed: Mapping[Place, int], *, is_leaving: bool) -> ShareChange:
        for _ in range(TRIES):
            with retryable():
                stored = self._files.read_tagged(self._document)
            book = self._parsed(None if stored is None else stored.content)
            change, own = self._changed(book, landed, is_leaving=is_leaving)
            with retryable():
                is_kept = self._files.write_if(self._document, book.to_bytes(), None if stored is None else stored.tag)
            if is_kept:
                self.own, self._is_known = own, not is_leaving
                return change
            time.sleep(random.uniform(0.0, 0.1))
        raise Retryable(f"{self._files.uri}/{self._document} was changed by others {TRIES} times in a row; too many "
                        "collectors share this cluster.")  # fmt: skip

    def _parsed(self, content: bytes | None) -> _Book:
        if content is None:
            return _Book(partitions=dict(self._first_positions))
        try:
            return _Book.parse(content)
        except (ValueError, KeyError, TypeError) as error:
            raise Misconfigured(
                f"{self._files.uri}/{self._document} is not readable ({error}); delete it to read everything once more."
            ) from error

    def _changed(
        self, book: _Book, landed: Mapping[Place, int], *, is_leaving: bool
    ) -> tuple[ShareChange, frozenset[Place]]:
        name, owners = self._name, book.owners
        entry = book.members.get(name)
        if self._is_known and entry is not None and entry["life"] != self._life:
            raise Misconfigured(f"Another collector calls itself {name} by now; give each its own --share-as.")
        for dead in self._dead(book):
            del book.members[dead]
        if is_leaving:
            book.members.pop(name, None)
        else:
            book.members[name] = {"life": self._life, "beat": entry["beat"] + 1 if entry else 0}
        held = {place for place in self._places if owners.get(place) == name}
        for place in held & self.own & landed.keys():
            book.partitions[place] = landed[place]
        quota = 0 if is_leaving else self._quota(book)
        keep = set(sorted(held)[:quota])
        free = [place for place in self._places if place in held - keep or owners.get(place) not in book.members]
        for place in free:
            owners.pop(place, None)
        for place in free:
            if len(keep) < quota and place not in held:
                owners[place] = name
                keep.add(place)
        change = ShareChange(
            taken={place: book.partitions.get(place) for place in sorted(keep - self.own)},
            gone=self.own - keep,
            is_settled=all(owners.get(place) in self._alive for place in self._places),
            others=len(book.members.keys() - {name}),
        )
        return change, frozenset(keep)

    def _quota(self, book: _Book) -> int:
        alive = sorted(book.members)
        each, more = divmod(len(self._places), len(alive))
        return each + (alive.index(self._name) < more)

    def _dead(self, book: _Book) -> list[str]:
        now, dead = self._clock(), []
        for name, entry in book.members.items():
            if name == self._name:
                continue
            beat = entry["life"], entry["beat"]
            if name not in self._seen:
                self._seen[name] = beat, now
            elif self._seen[name][0] != beat:
                self._seen[name] = beat, now
                self._alive.add(name)
            elif now - self._seen[name][1] > self._dead_after_s:
                dead.append(name)
                self._alive.discard(name)
        return dead
