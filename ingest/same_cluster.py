"""Whether the copies of partitions on several nodes can be of one cluster.

What one leader wrote at one offset is the same on all replicas: two batches with the same offsets and leader epoch, and
as many records, have the same checksum (KIP-101). Two clusters have topics of the same names, and offsets that begin at
0; each writes other bytes there.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.batches import SegmentBatch
from ingest.errors import Misconfigured
from ingest.replicas import Replica
from ingest.segments import open_plain, read_batches

SAMPLED_BATCHES = 200
"""Chosen: of the first and of the last segment of each replica."""
ENOUGH_BATCHES = 3
"""Chosen: fewer that differ may be damaged or forged, which TR005 says of each record."""

_Place = tuple[int, int, int, int]
"""Base offset, last offset, leader epoch, number of records: compaction takes records out of batches."""


@dataclass(slots=True)
class _Pair:
    shared: int = 0
    different: int = 0
    first: str = ""


def refuse_several_clusters(partitions: Iterable[tuple[str, Sequence[Replica]]]) -> None:
    """Raises Misconfigured where most of what two nodes both have differs. `partitions`: names, and their replicas."""
    pairs: dict[tuple[str, str], _Pair] = defaultdict(_Pair)
    for name, replicas in partitions:
        sampled = {r.node: _sample(r) for r in replicas} if len(replicas) > 1 else {}
        for one, other in itertools.combinations(sorted(sampled), 2):
            pair = pairs[one, other]
            for place in sorted(sampled[one].keys() & sampled[other].keys()):
                pair.shared += 1
                if sampled[one][place] != sampled[other][place]:
                    pair.different += 1
                    pair.first = pair.first or f"{name} at offset {place[0]}"
    for (one, other), pair in sorted(pairs.items()):
        if pair.different >= ENOUGH_BATCHES and pair.different * 2 > pair.shared:
            raise Misconfigured(
                f"The folder mixes nodes of several clusters: {one} and {other} hold different records at the same "
                f"offset and leader epoch in {pair.different} of {pair.shared} batches (first in {pair.first}); import "
                f"each cluster by itself."
            )


def _sample(replica: Replica) -> dict[_Place, int]:
    """Checksums by place, of some batches. What cannot be read is told when the replica is read as a whole."""
    ends = dict.fromkeys((*replica.segments[:1], *replica.segments[-1:]))
    return {
        (batch.base_offset, batch.last_offset, batch.leader_epoch, batch.record_count): batch.crc
        for path in ends
        for batch in itertools.islice(_batches(path), SAMPLED_BATCHES)
    }


def _batches(path: Path) -> Iterator[SegmentBatch]:
    try:
        with open_plain(path) as file:
            yield from (item for item in read_batches(file) if isinstance(item, SegmentBatch))
    except OSError:
        return
