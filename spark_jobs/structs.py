"""The domain's dataclasses as Arrow structs, column by column: several times faster than a dict for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def struct_array(things: Sequence[Any], type_: pa.StructType, **others: Sequence[Any]) -> pa.StructArray:
    """One struct per thing: each field is its attribute of that name, or comes from `others`; else it is null."""
    fields = list(type_)
    known = type(things[0]).__dataclass_fields__ if things else {}
    columns = []
    for field in fields:
        if field.name in others:
            columns.append(pa.array(others[field.name], field.type))
        elif field.name in known:
            columns.append(_array(list(map(attrgetter(field.name), things)), field.type))
        else:
            columns.append(pa.nulls(len(things), field.type))
    return pa.StructArray.from_arrays(columns, fields=fields)


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if not (pa.types.is_list(type_) and pa.types.is_struct(type_.value_type)):
        return pa.array(values, type_)
    # Resources that go together share their marks, the very same tuple: it is made once.
    places: dict[int, int] = {}
    distinct: list[Sequence[Any]] = []
    taken = []
    for value in values:
        place = places.setdefault(id(value), len(distinct))
        if place == len(distinct):
            distinct.append(value)
        taken.append(place)
    offsets = pa.array([0, *accumulate(map(len, distinct))], pa.int32())
    items = struct_array(list(chain.from_iterable(distinct)), type_.value_type)
    lists = pa.ListArray.from_arrays(offsets, items, type=type_)
    return lists if len(distinct) == len(values) else lists.take(pa.array(taken, pa.int32()))


@dataclass(frozen=True, slots=True)
class Lists:
    """A list column taken apart: all items, and where each list begins and the last one ends."""

    items: pa.Array
    offsets: list[int]

    def around(self, items: pa.Array) -> pa.ListArray:
        """The same lists around other items."""
        return pa.ListArray.from_arrays(pa.array(self.offsets, pa.int32()), items)

    def of_fields(self, names: Sequence[str]) -> Lists:
        """The same lists with only these fields of their items, which are structs."""
        told = dict(zip(self.items.type.names, self.items.flatten(), strict=True))
        return Lists(pa.StructArray.from_arrays([told[name] for name in names], names), self.offsets)

    def without_repeats(self) -> tuple[Lists, list[int]]:
        """Each list that is not equal to the one before it, and the place of every list among these."""
        begins = np.array(self.offsets)
        sizes = np.diff(begins)
        before = pa.array(np.maximum(np.arange(begins[-1]) - np.repeat(sizes, sizes), 0))
        is_other = np.zeros(begins[-1], bool)
        for column in self.items.flatten():
            is_same = pc.equal(column, column.take(before)).fill_null(False)
            is_other |= ~is_same.to_numpy(zero_copy_only=False)
        others = np.concatenate([[0], np.cumsum(is_other)])[begins]
        is_new = (np.diff(others) > 0) | (np.diff(sizes, prepend=-1) != 0)
        kept = self.items.filter(pa.array(np.repeat(is_new, sizes)))
        offsets: list[int] = [0, *np.cumsum(sizes[is_new]).tolist()]
        places: list[int] = (np.cumsum(is_new) - 1).tolist()
        return Lists(kept, offsets), places


def lists_of(column: pa.ListArray) -> Lists:
    """Null lists are empty ones."""
    return Lists(column.flatten(), [0, *accumulate(n or 0 for n in pc.list_value_length(column).to_pylist())])
