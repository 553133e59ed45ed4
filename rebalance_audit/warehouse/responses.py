"""gold.response: added to by people at any time, also while a run writes; readers see it as it is."""

from __future__ import annotations

import time

from deltalake.exceptions import CommitFailedError

from rebalance_audit.domain.incidents.responses import Response, in_order, response_of, response_row
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.storage import store_fault
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError

TABLE = "gold.response"
_TRIES = 50
"""Chosen: more than people answer within a second."""


def responses(warehouse: Warehouse) -> list[Response]:
    """All there are, by time."""
    return in_order(response_of(row) for row in warehouse.read(TABLE).to_pylist())


def respond(warehouse: Warehouse, response: Response) -> list[Response]:
    """Keep it, and return all there are. Two who answer at once are both kept: each adds a commit of its own.

    Raises WarehouseError where the warehouse cannot be written to.
    """
    rows = rows_to_table(TABLE, [response_row(response)])
    try:
        for last in range(_TRIES - 1, -1, -1):
            try:
                warehouse.append(TABLE, rows)
                break
            except CommitFailedError:  # several made the table at once; nothing was kept of this try
                if not last:
                    raise
                time.sleep(0.02)
    except (CommitFailedError, OSError) as error:
        why = getattr(error, "strerror", None) or error
        cannot = f"{warehouse.location} cannot be written to ({why}); answer from where it can."
        raise WarehouseError(store_fault(error) or cannot) from None
    return responses(warehouse)
