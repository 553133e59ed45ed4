"""What footers say, kept between processes as notes of the warehouse (`warehouse/known_footers.py`)."""

from __future__ import annotations

from weakref import WeakSet

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.known_footers import NEWS, NOTE, take_in, to_note
from rebalance_audit.warehouse.warehouse import Warehouse

_RECALLED: WeakSet[Warehouse] = WeakSet()


def recall(warehouse: Warehouse) -> None:
    if warehouse not in _RECALLED:
        _RECALLED.add(warehouse)
        take_in(warehouse.location, warehouse.recall(NOTE), as_news=False)
        take_in(warehouse.location, warehouse.recall(NEWS), as_news=True)


def keep(warehouse: Warehouse) -> None:
    """Note the footers of the files that the tables have now. Only for the one who writes: `erase` must not come
    between."""

    def files() -> list[str]:
        return [file for table in tables.TABLES for file in warehouse.files(table.name)]

    if (note := to_note(warehouse.location, files, warehouse.stored_among)) is not None:
        warehouse.remember(*note)
        if note[0] == NOTE:
            warehouse.forget(NEWS)
