"""Marks of one stretch, one behind the other, become one mark: its ends, its count, its longest gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.commits.buffers import Flags, Ints
from spark_jobs.commits.partial_marks import PARTIAL_MARK

_PLACE = (
    "cluster_id", "group_id", "topic", "partition", "offsets_topic", "offsets_partition", "stretch_from",
    "first_offset",
)  # fmt: skip
_OF_GAP = tuple(f"gap_{end}_{what}" for end in ("from", "to") for what in ("offset", "at_ms", "position"))
_NUMBER_COLUMNS = tuple(f.name for f in PARTIAL_MARK if f.type == pa.int64())
_NONE = -1
_AT_ONCE = 100_000
"""Marks that wait in a task; merging them takes 100 MB."""


@dataclass(frozen=True, slots=True)
class _Nullable:
    """Whole numbers, of which some may not be there."""

    value: Ints
    is_there: Flags

    def at(self, rows: Ints) -> _Nullable:
        """Of these rows; nothing where a row is _NONE."""
        return _Nullable(self.value[rows], self.is_there[rows] & (rows >= 0))

    def array(self) -> pa.Array:
        return pa.array(self.value, pa.int64(), mask=~self.is_there)


def merged(parts: pa.Table, *, keep_unknown: bool = False) -> pa.Table:
    """One mark for each stretch in these rows of PARTIAL_MARK, which may come in any order; in the order of the groups.

    The longest gap of a stretch is not known where two of its marks overlap, or one of several commits lacks it.
    `keep_unknown`: the marks of such a stretch stay as they are.
    """
    if parts.num_rows == 0:
        return parts
    order, begins = _by_stretch(parts)
    sizes = np.diff([*begins.tolist(), len(order)])
    is_many = sizes > 1
    if keep_unknown and is_many.any():
        is_many &= ~_is_unknown(parts.select(list(_NUMBER_COLUMNS)).take(pa.array(order)), begins)
    if not is_many.any():
        return parts.take(pa.array(order))
    is_of_many = np.repeat(is_many, sizes)
    many = parts.take(pa.array(order[is_of_many]))
    one_each = _merged(many, np.cumsum(sizes[is_many]) - sizes[is_many])
    # Each where its first part was.
    stays = order[~is_of_many]
    place = np.flatnonzero(~is_of_many), begins[is_many]
    whole = pa.concat_tables([parts.take(pa.array(stays)), one_each])
    return whole.take(pa.array(np.argsort(np.concatenate(place), kind="stable"))).combine_chunks()


class WaitingMarks:
    """The marks of one task. Each batch of commits has marks of its own: those of one stretch become one before they
    are written, since to join a mark with the known ones takes ten times as long."""

    def __init__(self, write: Callable[[pa.RecordBatch], None]) -> None:
        self._write = write
        self._waiting: list[pa.Table] = []

    def add(self, marks: pa.Table) -> None:
        self._waiting.append(marks)
        if sum(map(len, self._waiting)) >= _AT_ONCE:
            self._merge()
            if len(self._waiting[0]) > _AT_ONCE // 2:  # hardly any two are of one stretch
                self.end()

    def end(self) -> None:
        """Write what waits."""
        if len(self._waiting) > 1:
            self._merge()
        for batch in (batch for marks in self._waiting for batch in marks.to_batches()):
            self._write(batch)
        self._waiting.clear()

    def _merge(self) -> None:
        self._waiting = [merged(pa.concat_tables(self._waiting), keep_unknown=True)]


def _by_stretch(parts: pa.Table) -> tuple[Ints, Ints]:
    """The rows in the order of _PLACE, and where in it each stretch begins."""
    keys = [_ranks(parts[name].combine_chunks()) for name in _PLACE]
    order = np.lexsort(keys[::-1])
    is_new = np.zeros(len(order), np.bool_)
    is_new[0] = True
    for key in keys[:-1]:
        inside = key[order]
        is_new[1:] |= inside[1:] != inside[:-1]
    return order, np.flatnonzero(is_new)


def _ranks(column: pa.Array) -> Ints:
    """Numbers that are in order as the values are."""
    if not pa.types.is_string(column.type):
        return column.to_numpy(zero_copy_only=False)
    encoded = column.dictionary_encode()
    ranks = np.zeros(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    return ranks[encoded.indices.to_numpy()]


def _is_unknown(parts: pa.Table, begins: Ints) -> Flags:
    first, last = (parts[name].to_numpy() for name in ("first_offset", "last_offset"))
    is_unknown = (parts["commit_count"].to_numpy() > 1) & parts["gap_from_offset"].is_null().to_numpy()
    overlaps = np.append(False, last[:-1] >= first[1:])
    overlaps[begins] = False
    found: Flags = np.logical_or.reduceat(is_unknown | overlaps, begins)
    return found


def _merged(parts: pa.Table, begins: Ints) -> pa.Table:
    """One mark for each stretch; two parts or more of each, in their order."""
    columns = {name: _column(parts[name]) for name in _NUMBER_COLUMNS}
    ends = np.append(begins[1:], len(parts)) - 1
    last_offset = columns["last_offset"].value
    # Where marks overlap, another than the last part may end last.
    is_last = last_offset == np.repeat(np.maximum.reduceat(last_offset, begins), ends - begins + 1)
    last = np.maximum.reduceat(np.where(is_last, np.arange(len(parts)), _NONE), begins)
    has_id = parts["topic_id"].is_valid().to_numpy()
    with_id = np.minimum.reduceat(np.where(has_id, np.arange(len(parts)), len(parts)), begins)
    later = np.append(np.arange(1, len(parts)), _NONE)
    later[ends] = _NONE
    next_of = _next_of(columns, later)
    found = {name: parts[name].take(pa.array(begins)) for name in _PLACE}
    for name in ("first_at_ms", "first_position"):
        found[name] = columns[name].at(begins).array()
    for name in ("last_offset", "last_at_ms", "last_position", "in_transaction"):
        found[name] = parts[name].take(pa.array(last))
    found["commit_count"] = pa.array(np.add.reduceat(columns["commit_count"].value, begins))
    found["topic_id"] = parts["topic_id"].take(pa.array(with_id, mask=with_id == len(parts)))
    found |= {f"next_{what}": of.at(begins).array() for what, of in next_of.items()}
    is_known = ~_is_unknown(parts, begins)
    for name, column in _gaps(columns, begins, later, next_of):
        found[name] = _Nullable(column.value, column.is_there & is_known).array()
    return pa.table({field.name: found[field.name] for field in PARTIAL_MARK}, PARTIAL_MARK)


def _column(column: pa.ChunkedArray) -> _Nullable:
    return _Nullable(column.fill_null(0).to_numpy(), column.is_valid().to_numpy())


def _either(choose: Flags, one: _Nullable, other: _Nullable) -> _Nullable:
    return _Nullable(np.where(choose, one.value, other.value), np.where(choose, one.is_there, other.is_there))


def _next_of(columns: Mapping[str, _Nullable], later: Ints) -> dict[str, _Nullable]:
    """The commit behind each part's first. What a part does not hold is the first commit of the part behind it."""
    is_inside = columns["next_at_ms"].is_there
    return {
        what: _either(is_inside, columns[f"next_{what}"], columns[f"first_{what}"].at(later))
        for what in ("at_ms", "position")
    }


def _gaps(
    columns: Mapping[str, _Nullable], begins: Ints, later: Ints, next_of: Mapping[str, _Nullable]
) -> Iterator[tuple[str, _Nullable]]:
    """The longest gap of each stretch, and how long the second longest is: in the order of their offsets there are, for
    each part, the gap before it and its own longest."""
    count = len(later)
    before = np.arange(-1, count - 1)
    before[begins] = _NONE
    own_ms = columns["gap_to_at_ms"].value - columns["gap_from_at_ms"].value
    own_ms = np.where(columns["gap_from_offset"].is_there, np.maximum(own_ms, 0), _NONE)
    before_ms = np.maximum(columns["first_at_ms"].value - columns["last_at_ms"].value[before], 0)
    gap_ms = np.stack([np.where(before >= 0, before_ms, _NONE), own_ms], axis=1).reshape(-1)
    sizes = np.diff(np.append(begins, count))
    longest_ms = np.maximum.reduceat(gap_ms, 2 * begins)
    is_longest = gap_ms == np.repeat(longest_ms, 2 * sizes)
    # Of two that are as long the first counts.
    place = np.minimum.reduceat(np.where(is_longest, np.arange(2 * count), 2 * count), 2 * begins)
    gap_ms[place] = _NONE
    part, is_own = place // 2, place % 2 == 1
    second = columns["second_gap_ms"]
    seconds_ms = np.maximum.reduceat(np.where(second.is_there, second.value, _NONE), begins)
    second_ms = np.maximum(np.maximum.reduceat(gap_ms, 2 * begins), seconds_ms)
    yield "second_gap_ms", _Nullable(second_ms, second_ms >= 0)
    for name in _OF_GAP:
        _, end, what = name.split("_", maxsplit=2)
        bound = columns[f"last_{what}"].at(before) if end == "from" else columns[f"first_{what}"]
        yield name, _either(is_own, columns[name].at(part), bound.at(part))
    ends_part = ~columns["after_at_ms"].is_there & columns["gap_to_offset"].is_there
    ends_part &= columns["gap_to_offset"].value == columns["last_offset"].value
    for what in ("at_ms", "position"):
        after = _either(ends_part, columns[f"first_{what}"].at(later), columns[f"after_{what}"])
        yield f"after_{what}", _either(is_own, after.at(part), next_of[what].at(part))
