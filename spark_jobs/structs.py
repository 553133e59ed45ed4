"""The domain's dataclasses as Arrow structs and back, column by column: several times faster than by a dict a row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, chain, pairwise
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.frozen import positional_maker
from rebalance_audit.domain.model import StoredColumn, stored_columns
from spark_jobs.packed import PackedBlock

T = TypeVar("T", bound=Hashable)


def struct_array(objects: Sequence[Any], type_: pa.StructType, **others: Sequence[Any]) -> pa.StructArray:
    """One struct per object: each field is its attribute of that name, or comes from `others`; else it is null."""
    fields = list(type_)
    columns_of = _attributes(objects, [field.name for field in fields]) | others
    columns = [
        _array(columns_of[field.name], field.type) if field.name in columns_of else pa.nulls(len(objects), field.type)
        for field in fields
    ]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _attributes(objects: Sequence[Any], names: Sequence[str]) -> dict[str, Sequence[Any]]:
    """The values of these attributes, one list each. Each object is visited once: at a second visit it would no longer
    be in the processor's cache."""
    known = [name for name in names if objects and name in type(objects[0]).__dataclass_fields__]
    # The last name is given twice, since attrgetter returns no tuple for one name alone.
    rows = map(attrgetter(*known, known[-1]), objects) if known else ()
    return dict(zip(known, zip(*rows, strict=True), strict=False))


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
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


def objects_of(
    kind: type[T], columns: Mapping[str, pa.Array | pa.ChunkedArray], count: int, packed: Collection[str] = ()
) -> list[T]:
    """The objects that `from_row` makes of rows: fields without a column keep their defaults, columns without a field
    are left out. Objects of equal lists are shared. `packed`: columns of lists of objects that are made when they are
    asked for, each time anew."""
    listed = [column for column in stored_columns(kind) if column.name in columns]
    values = [
        _packed_lists(column.nested, _in_one(columns[column.name]))
        if column.nested is not None and column.name in packed
        else _values(column, _in_one(columns[column.name]))
        for column in listed
    ]
    make = _maker_of(kind, tuple(column.name for column in listed))
    return list(map(make, *values)) if listed else [make() for _ in range(count)]


def objects_in(kind: type[T], rows: pa.Table, packed: Collection[str] = ()) -> list[T]:
    """The objects that the rows of a table are, in the order of the rows; as `objects_of`."""
    return objects_of(kind, dict(zip(rows.schema.names, rows.columns, strict=True)), rows.num_rows, packed)


@cache
def _maker_of(kind: type[T], names: tuple[str, ...]) -> Callable[..., T]:
    return positional_maker(kind, names)


def _values(column: StoredColumn, stored: pa.Array) -> list[Any]:
    if column.nested is not None:
        return _nested_values(column.nested, stored)
    if column.made is not None:
        return _shared(stored, column.made)
    return _tuples(stored) if pa.types.is_list(stored.type) else _plain(stored)


def _plain(stored: pa.Array) -> list[Any]:
    if stored.null_count == len(stored):
        return [None] * len(stored)
    # Names of members, topics and groups come again and again, as timeouts do. Each text of its own takes 80 bytes.
    is_often_alike = pa.types.is_string(stored.type) or pa.types.is_integer(stored.type)
    return _shared(stored, lambda value: value) if is_often_alike else stored.to_pylist()


def _shared(stored: pa.Array, made_of: Callable[[Any], Any]) -> list[Any]:
    """What is made of each value; of equal ones, and of null, it is made once."""
    made, places = _made_once(stored, made_of)
    return [made[place] for place in places.to_pylist()]


def _made_once(stored: pa.Array, made_of: Callable[[Any], Any]) -> tuple[list[Any], pa.Array]:
    """What is made of the distinct values, and the place of every value's among these."""
    coded = stored.dictionary_encode()
    made = [made_of(value) for value in coded.dictionary.to_pylist()]
    if stored.null_count:
        made.append(made_of(None))
    return made, coded.indices.fill_null(len(made) - 1)


def _nested_values(kind: type[Any], stored: pa.ListArray) -> list[Any]:
    lists = lists_of(stored)
    of = lists.items.type
    is_flat = bool(of.num_fields) and not any(pa.types.is_nested(field.type) for field in of)
    if is_flat:
        lists, places = lists.distinct()
        found = [tuple(items) for items in lists.parted(_items(kind, lists.items))]
        return [found[place] for place in places]
    if of.num_fields and "evidence" not in of.names:  # what names its own evidence is hardly ever alike
        alike, item_places = distinct_items(lists.items)
        made = _items(kind, alike)
        return list(map(tuple, lists.parted([made[place] for place in item_places])))
    return list(map(tuple, lists.parted(_items(kind, lists.items))))


def _packed_lists(kind: type[T], stored: pa.ListArray) -> list[Sequence[T]]:
    lists = lists_of(stored)
    by_name = dict(zip(lists.items.type.names, lists.items.flatten(), strict=True))
    listed = [column for column in stored_columns(kind) if column.name in by_name]
    if not listed:
        return list(map(tuple, lists.parted(_items(kind, lists.items))))
    values, codes = zip(*(_coded(column, by_name[column.name]) for column in listed), strict=True)
    block = PackedBlock(_maker_of(kind, tuple(column.name for column in listed)), values, codes)
    return [block.part(begin, end) for begin, end in pairwise(lists.offsets)]


def _coded(column: StoredColumn, stored: pa.Array) -> tuple[list[Any], npt.NDArray[np.int64]]:
    """Each value once, and the place of every one among these."""
    if column.nested is not None:
        return _nested_values(column.nested, stored), np.arange(len(stored))
    if pa.types.is_list(stored.type):
        values, places = distinct(_tuples(stored))
        return values, np.array(places, np.int64)
    made, places = _made_once(stored, column.made or (lambda value: value))
    return made, places.to_numpy()


def _items(kind: type[Any], items: pa.StructArray) -> list[Any]:
    return objects_of(kind, dict(zip(items.type.names, items.flatten(), strict=True)), len(items))


def _tuples(stored: pa.ListArray) -> list[Any]:
    lists = lists_of(stored)
    items = _plain(lists.items)
    alike: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    found: list[Any] = [alike.setdefault(of_row, of_row) for of_row in map(tuple, lists.parted(items))]
    if stored.null_count:
        for place in np.flatnonzero(stored.is_null().to_numpy(zero_copy_only=False)).tolist():
            found[place] = None
    return found


def _in_one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


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
        by_name = dict(zip(self.items.type.names, self.items.flatten(), strict=True))
        return Lists(pa.StructArray.from_arrays([by_name[name] for name in names], names), self.offsets)

    def parted(self, objects: Sequence[T]) -> Iterator[Sequence[T]]:
        """The lists of the objects that its items became."""
        return (objects[begin:end] for begin, end in pairwise(self.offsets))

    def distinct(self) -> tuple[Lists, list[int]]:
        """Each list once, in order, and the place of every list among these; unknown values are equal."""
        written, width = _written(self.items)
        _, places = distinct(written[a * width : b * width] for a, b in pairwise(self.offsets))
        is_first = np.diff(np.maximum.accumulate(np.array(places, np.int64)), prepend=-1) > 0
        sizes = np.diff(self.offsets)
        kept = self.items.filter(pa.array(np.repeat(is_first, sizes)))
        return Lists(kept, [0, *np.cumsum(sizes[is_first]).tolist()]), places


def distinct_items(items: pa.StructArray) -> tuple[pa.StructArray, list[int]]:
    """Each struct once, in order, and the place of every one among these; unknown values are equal."""
    written, width = _written(items)
    _, places = distinct(written[at : at + width] for at in range(0, len(written), width))
    is_first = np.diff(np.maximum.accumulate(np.array(places, np.int64)), prepend=-1) > 0
    return items.filter(pa.array(is_first)), places


def _written(items: pa.StructArray) -> tuple[bytes, int]:
    """The same bytes for equal structs, and how many these are of each."""
    codes = np.column_stack([_codes(column) for column in items.flatten()])
    return codes.tobytes(), codes.itemsize * codes.shape[1]


def distinct(values: Iterable[T]) -> tuple[list[T], list[int]]:
    """Each value once, in order, and the place of every one among these."""
    found: dict[T, int] = {}
    places = [found.setdefault(value, len(found)) for value in values]
    return list(found), places


def _codes(column: pa.Array) -> npt.NDArray[np.int32]:
    """A number for each value, the same for equal ones."""
    if pa.types.is_list(column.type):
        lists = lists_of(column)
        named = lists.around(pa.array(_codes(lists.items)).cast(pa.string()))
        column = pc.if_else(column.is_valid(), pc.binary_join(named, ","), pa.scalar(None, pa.string()))
    codes: npt.NDArray[np.int32] = column.dictionary_encode().indices.fill_null(-1).to_numpy()
    return codes


def lists_of(column: pa.ListArray) -> Lists:
    """Null lists are empty ones."""
    sizes = pc.list_value_length(column).fill_null(0).to_numpy()
    return Lists(column.flatten(), [0, *np.cumsum(sizes).tolist()])
