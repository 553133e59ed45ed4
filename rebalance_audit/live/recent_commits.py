"""The commits of the last seconds as they were landed, whatever group they are of.

A group comes into memory with its first record or line. Its last commit before that shows how long its owner worked.
"""

from __future__ import annotations

import struct
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.records.commit_keys import COMMIT_KEY_TYPES

RECENT_S = 20.0
"""Consumers commit every 5 s."""
RECENT_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class _Piece:
    at: float
    columns: pa.Table
    size: int


class RecentCommits:
    """Kept for RECENT_S, and no more than RECENT_BYTES of them: the oldest go first."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[str, int], deque[_Piece]] = defaultdict(deque)
        self._order: deque[tuple[str, int]] = deque()
        """The partition of each piece, the oldest first."""
        self._size = 0

    def add(self, now: float, topic: str, partition: int, columns: pa.Table) -> None:
        """`now` never goes back."""
        place = topic, partition
        piece = _Piece(now, columns, columns.nbytes)
        self._pieces[place].append(piece)
        self._order.append(place)
        self._size += piece.size
        while self._order:
            oldest = self._pieces[self._order[0]]
            if oldest[0].at >= now - RECENT_S and self._size <= RECENT_BYTES:
                break
            self._size -= oldest.popleft().size
            self._order.popleft()

    def of_group(
        self, group_id: str, places: Collection[tuple[str, int]], *, are_known: bool = False
    ) -> Iterator[tuple[str, int, pa.Table]]:
        """The group's commits, with the partition they are from. `places`: partitions that have records of the group
        (`are_known`), whose commits are in the same one; or those that its lines name. A line may be forged: all
        partitions are looked through if these have no commit of the group."""
        name = group_id.encode("utf-8", "surrogatepass")
        if len(name) >= 1 << 15:
            return
        begins = [version + struct.pack(">h", len(name)) + name for version in COMMIT_KEY_TYPES]
        found = list(self._found(begins, places))
        others = () if found or are_known else self._pieces.keys() - {*places}
        yield from (*found, *self._found(begins, others))

    def _found(
        self, begins: Sequence[bytes], places: Collection[tuple[str, int]]
    ) -> Iterator[tuple[str, int, pa.Table]]:
        for place in sorted(places):
            if pieces := self._pieces.get(place):
                columns = pa.concat_tables(piece.columns for piece in pieces)
                chosen = columns.filter(pc.or_(*(pc.starts_with(columns["key"], begin) for begin in begins)))
                if chosen.num_rows:
                    yield *place, chosen
