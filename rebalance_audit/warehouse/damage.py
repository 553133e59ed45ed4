"""Which tables of a warehouse cannot be read, why, and what to do."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pyarrow as pa
from deltalake.exceptions import DeltaError

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError


def damage_of(warehouse: Warehouse, name: str) -> str | None:
    """The damage of a table, as its published version is (or its newest), with the remedy, as a sentence; None if there
    is none. Reads every file's footer, no rows."""
    published = warehouse.published()
    try:
        if warehouse.is_gone(name):
            return f"{name} was there at the last publication and is not any more; {_REMEDY}"
        files = warehouse.files(name, published.get(name))
        for file in files:
            if why := _fault_of(warehouse, name, file):
                return f"{name} {why}"
    except (DeltaError, OSError, pa.ArrowException, ValueError, WarehouseError) as error:
        if is_of_newer_format(error):
            return f"{name} is of a newer Delta format than this release reads; {_UPGRADE}"
        return f"{name} has a log that cannot be read{_reason(error)}; {_REMEDY}"
    return None


def damages(warehouse: Warehouse, names: Iterable[str] | None = None) -> dict[str, str]:
    """The damage by table; of all tables where none is named."""
    wanted = [table.name for table in tables.TABLES] if names is None else names
    return {name: why for name in wanted if (why := damage_of(warehouse, name)) is not None}


def is_of_newer_format(error: Exception) -> bool:
    """Whether a table is not damaged, but of a Delta format that this release does not read."""
    return _UNSUPPORTED in str(error)


def _fault_of(warehouse: Warehouse, name: str, file: str) -> str | None:
    try:
        schema = warehouse.file_schema(file)
    except (FileNotFoundError, IsADirectoryError):
        return f"lacks a file, {file.rpartition('/')[2]}; {_REMEDY}"
    except (OSError, pa.ArrowException) as error:
        return f"has a file that is damaged, {file.rpartition('/')[2]}{_reason(error)}; {_REMEDY}"
    for field in arrow_schema(name):
        if field.name not in schema.names:
            return (
                f"has no column {field.name}: another release wrote it; the next `rebalance-audit run -w "
                f"{warehouse.location}` extends it"
            )
    return None


_REMEDY = "restore it from a backup, or read the evidence into a new warehouse with `import` and `run`"
_UPGRADE = "nothing is lost: upgrade rebalance-audit to the release that wrote it, or to a newer one"
_UNSUPPORTED = "Kernel error: Unsupported:"
"""What deltalake says of a protocol version or a table feature that it does not know. It has no class for that."""


def _reason(error: Exception) -> str:
    """What the system says, such as that access is denied. Words of a library help no reader."""
    return f" ({os.strerror(error.errno)})" if isinstance(error, OSError) and error.errno is not None else ""
