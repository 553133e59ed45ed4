"""Objects that are made when they are asked for: rules look at few of the movements of a long history, and these would
take more memory than all else in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt


class PackedBlock:
    """Objects by the places of their fields' values among the distinct ones: two bytes for most fields."""

    __slots__ = ("_make", "_places", "_values")

    def __init__(
        self,
        make: Callable[..., Any],
        values: Sequence[Sequence[Any]],
        places: Sequence[npt.NDArray[np.integer[Any]]],
    ) -> None:
        """`values`: of each field in the order in which `make` takes them; `places`: of each field, by object."""
        most = max(map(len, values))
        self._make, self._values = make, values
        self._places = np.column_stack(places).astype(np.uint16 if most <= 1 << 16 else np.uint32)

    def part(self, begin: int, end: int) -> Sequence[Any]:
        return PackedObjects(self, begin, end) if begin < end else ()

    def made(self, begin: int, end: int) -> list[Any]:
        values = self._values
        return [
            self._make(*[of_field[place] for of_field, place in zip(values, row, strict=True)])
            for row in self._places[begin:end].tolist()
        ]


class PackedObjects(Sequence[Any]):
    """Some objects of a block, in order. Each look at them makes them anew."""

    __slots__ = ("_begin", "_block", "_end")

    def __init__(self, block: PackedBlock, begin: int, end: int) -> None:
        self._block, self._begin, self._end = block, begin, end

    def __len__(self) -> int:
        return self._end - self._begin

    def __iter__(self) -> Iterator[Any]:
        return iter(self._block.made(self._begin, self._end))

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Any]: ...
    def __getitem__(self, at: int | slice) -> Any:
        return tuple(self)[at]
