"""The commits of the last seconds as they were landed, whatever group they are of.

A group comes into memory with its first record or line. Its last commit before that shows how long its owner worked.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.records.commit_keys import COMMIT_KEY_TYPES
from rebalance_audit.live.heard import LandedRows

RECENT_S = 20.0
"""Consumers commit every 5 s."""
RECENT_BYTES = 32 << 20


class RecentCommits:
    """Kept for RECENT_S, and no more than RECENT_BYTES of them: the oldest go first."""

    def __init__(self) -> None:
        self._landed: deque[tuple[float, LandedRows]] = deque()
        """With the moments when they were added."""
        self._size = 0

    def add(self, now: float, landed: LandedRows) -> None:
        """`now` never goes back."""
        if not landed.places:
            return
        self._landed.append((now, landed))
        self._size += landed.rows.nbytes
        while self._landed and (self._landed[0][0] < now - RECENT_S or self._size > RECENT_BYTES):
            self._size -= self._landed.popleft()[1].rows.nbytes

    def of_group(
        self, group_id: str, places: Collection[tuple[str, int]], *, are_known: bool = False
    ) -> Iterator[LandedRows]:
        """The group's commits, by partition. `places`: partitions that have records of the group
        (`are_known`), whose commits are in the same one; or those that its lines name. A line may be forged: all
        partitions are looked through if these have no commit of the group."""
        name = group_id.encode("utf-8", "surrogatepass")
        if len(name) >= 1 << 15:
            return
        begins = [version + struct.pack(">h", len(name)) + name for version in COMMIT_KEY_TYPES]
        found = list(self._found(begins, places))
        others = set() if found or are_known else {place for _, landed in self._landed for place in landed.places}
        yield from (*found, *self._found(begins, others - {*places}))

    def _found(self, begins: Sequence[bytes], places: Collection[tuple[str, int]]) -> Iterator[LandedRows]:
        for place in sorted(places):
            if pieces := [landed.of_place(place) for _, landed in self._landed if place in landed.places]:
                columns = pa.concat_tables(pieces)
                chosen = columns.filter(pc.or_(*(pc.starts_with(columns["key"], begin) for begin in begins)))
                if chosen.num_rows:
                    yield LandedRows(chosen, {place: (0, chosen.num_rows)})
