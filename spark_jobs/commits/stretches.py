"""Stretches: the commits of one group, topic and partition between two records of the group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from spark_jobs.commits.buffers import Ints
from spark_jobs.commits.kernel import DecodedCommits
from spark_jobs.commits.keys import CommitKeys

NO_BOUNDARY = -1
"""`stretch_from` of commits before the group's first known record."""

Place = tuple[str, str, int]
"""Cluster, offsets topic, partition of it."""
Boundaries = Mapping[Place, Mapping[str, Ints]]
"""Offsets of group records, ascending, by place and group: a batch has commits of a few places, a fleet thousands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretches:
    """One entry per stretch, by key and place, then by offset."""

    key_code: Ints
    place_code: Ints
    stretch_from: Ints
    """Offset of the group's record before it; NO_BOUNDARY if there is none."""
    first_row: Ints
    last_row: Ints
    count: Ints
    row: Ints
    """The rows themselves, by place and offset."""
    stretch: Ints
    """Which of the stretches each of these is in."""


def stretches(
    commits: DecodedCommits, rows: Ints, offset: Ints, place_code: Ints, places: list[Place], boundaries: Boundaries
) -> Stretches:
    """The stretch of each of these rows, in any order; and every stretch's first and last row by offset.

    `offset` and `place_code` have an entry per row of the batch, as `commits` has.

    Commits of group `orders` to t-0, the group's records being at the offsets 10 and 20 (`boundaries`):

        row   offset        stretch_from   first_row   last_row   count
        0     12            10             0           2          2
        1     21       ->   20             1           1          1
        2     15
    """
    key_code, place, at = commits.key_code[rows].astype(np.int64), place_code[rows].astype(np.int64), offset[rows]
    step = np.diff(place)
    if not ((step > 0) | ((step == 0) & (np.diff(at) > 0))).all():
        order = np.lexsort((at, place))
        rows, key_code, place, at = rows[order], key_code[order], place[order], at[order]
    known = _known_boundaries(commits.keys, places, boundaries)
    stretch = known.before(key_code, place, at)
    resource = key_code * max(len(places), 1) + place
    encoded = pa.array(resource * (len(known.offset) + 1) + stretch + 1).dictionary_encode()
    codes, count = encoded.indices.to_numpy(), len(encoded.dictionary)
    numbers = np.arange(len(rows))
    first, last = np.full(count, len(rows)), np.zeros(count, np.int64)
    np.minimum.at(first, codes, numbers)
    np.maximum.at(last, codes, numbers)
    order = np.lexsort((at[first], resource[first]))
    first, last = first[order], last[order]
    before = stretch[first]
    rank = np.zeros(count, np.int64)
    rank[order] = np.arange(count)
    return Stretches(
        key_code=key_code[first],
        place_code=place[first],
        stretch_from=np.where(before < 0, NO_BOUNDARY, np.append(known.offset, NO_BOUNDARY)[before]),
        first_row=rows[first],
        last_row=rows[last],
        count=np.bincount(codes, minlength=count)[order],
        row=rows,
        stretch=rank[codes],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownBoundaries:
    """Group records, by place and group, then by offset."""

    owner: Ints
    """Place and group as one number."""
    offset: Ints
    groups: int
    group_code: Ints
    """The group of each key; `groups` where it has none."""

    def before(self, key_code: Ints, place: Ints, offset: Ints) -> Ints:
        """The last group record at or before each offset, as an index into these stretches; -1 where there is none."""
        if not len(self.offset):
            return np.full(len(offset), -1, np.int64)
        owner = place * (self.groups + 1) + self.group_code[key_code]
        # One number orders by owner, then offset: the offset is replaced by its rank, which cannot overflow.
        ranks = np.unique(self.offset)
        scale = len(ranks) + 1
        known = self.owner * scale + np.searchsorted(ranks, self.offset, side="right")
        found = np.searchsorted(known, owner * scale + np.searchsorted(ranks, offset, side="right"), side="right") - 1
        return np.where((found >= 0) & (self.owner[found] == owner), found, -1)


def _known_boundaries(keys: CommitKeys, places: list[Place], boundaries: Boundaries) -> _KnownBoundaries:
    encoded = keys.group.dictionary_encode()
    codes = {group: code for code, group in enumerate(encoded.dictionary.to_pylist())}
    owners, offsets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    found = [
        (code * (len(codes) + 1) + codes[group], known)
        for code, place in enumerate(places)
        for group, known in boundaries.get(place, {}).items()
        if group in codes and len(known)
    ]
    for owner, known in sorted(found, key=lambda each: each[0]):
        owners.append(np.full(len(known), owner, np.int64))
        offsets.append(np.asarray(known, np.int64))
    return _KnownBoundaries(
        owner=np.concatenate(owners),
        offset=np.concatenate(offsets),
        groups=len(codes),
        group_code=encoded.indices.fill_null(len(codes)).to_numpy(zero_copy_only=False).astype(np.int64),
    )
